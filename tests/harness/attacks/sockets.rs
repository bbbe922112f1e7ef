//! Hundreds of WebSockets of one account, which hear of everything that its jobs do.

use std::io;

use async_trait::async_trait;

use super::graphs::{long, submit};
use super::lane::{End, Lane};
use super::wire::{Reply, connect, owned};
use super::{Strike, Target};
use crate::{Message, Request, Socket};

/// Sockets at a time.
const LANES: usize = 200;

pub(super) struct Sockets(Target);

impl Sockets {
    pub(super) fn new(target: &Target) -> Self {
        Self(target.clone())
    }
}

#[async_trait]
impl Strike for Sockets {
    fn lanes(&self) -> usize {
        LANES
    }

    fn refusals(&self) -> &'static [(u16, &'static str)] {
        &[(429, ""), (503, "")]
    }

    fn answers(&self) -> &'static [u16] {
        &[]
    }

    async fn occupy(&self) -> io::Result<()> {
        // What they hear of. A queue that is full already has enough of it.
        let _ = submit(&self.0, &long()).await?;
        Ok(())
    }

    async fn strike(&self, lane: &Lane) -> io::Result<End> {
        let request = Request::get(&format!("/api/ws?clientId=lane-{}", lane.number));
        let request = owned(&self.0, request);
        let opened = Socket::over(connect(&self.0).await?, self.0.server, request).await;
        let mut socket = match opened {
            Ok(socket) => socket,
            Err(error) => {
                // A refusal is an error whose text is the status.
                let Ok(status) = error.to_string().parse() else {
                    return Err(error);
                };
                let text = String::new();
                return Ok(End::Told(Reply { status, text }));
            }
        };
        let _hold = lane.hold();
        lane.begun();
        loop {
            match socket.next().await {
                Ok(Message::Closed(_)) => return Err(io::ErrorKind::ConnectionReset.into()),
                Ok(Message::Json(_) | Message::Binary(_)) => {}
                // Nothing to hear is no end of it.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                Err(error) => return Err(error),
            }
        }
    }
}
