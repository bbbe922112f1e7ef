//! More event streams than an account may have, all of one job that lasts.

use std::io;
use std::sync::OnceLock;

use async_trait::async_trait;

use super::graphs::{long, submit};
use super::lane::{End, Lane};
use super::wire::{Streams, owned};
use super::{Strike, Target};
use crate::Request;
use crate::http2::OPEN_WINDOW;

/// Connections and their streams: together more than the 1,000 of an account.
const LANES: usize = 9;
const STREAMS: usize = 120;

pub(super) struct Events {
    target: Target,
    /// The events of the job, once it is submitted.
    request: OnceLock<Request>,
}

impl Events {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            target: target.clone(),
            request: OnceLock::new(),
        }
    }
}

#[async_trait]
impl Strike for Events {
    fn lanes(&self) -> usize {
        LANES
    }

    fn refusals(&self) -> &'static [(u16, &'static str)] {
        &[(429, "too_many_streams"), (503, "")]
    }

    fn answers(&self) -> &'static [u16] {
        &[]
    }

    async fn occupy(&self) -> io::Result<()> {
        let id = submit(&self.target, &long()).await?;
        let id = id.map_err(|refused| io::Error::other(format!("no job: {refused:?}")))?;
        let request = Request::get(&format!("/api/v2/jobs/{id}/events"));
        self.request.get_or_init(|| owned(&self.target, request));
        Ok(())
    }

    async fn strike(&self, lane: &Lane) -> io::Result<End> {
        // Every second connection reads nothing.
        let window = match lane.number % 2 {
            0 => OPEN_WINDOW,
            _ => 0,
        };
        let request = self.request.get();
        let request = request.ok_or_else(|| io::Error::other("no job was submitted"))?;
        let streams = Streams {
            requests: std::slice::from_ref(request),
            count: STREAMS,
            window,
            from_head: true,
        };
        streams.keep(&self.target, lane).await
    }
}
