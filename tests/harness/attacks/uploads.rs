//! Hundreds of uploads that trickle.

use std::io;
use std::time::Duration;

use async_trait::async_trait;

use super::lane::{End, Lane};
use super::wire::{Drip, exchange, owned};
use super::{Strike, Target};
use crate::{Form, Request};

/// Uploads at a time: more than a server writes at once.
const LANES: usize = 300;

/// What each announces, and what comes of it: the head of its file and a little of the file itself.
const ANNOUNCED_BYTES: usize = 1 << 20;
const SENT_BYTES: usize = 2048;

/// How it goes on: several times faster than the 1 KiB/s below which bodies are cut, and at no pause long enough for it.
const DRIP: Drip = Drip {
    bytes: 16 * 1024,
    every: Duration::from_secs(5),
};

pub(super) struct Uploads {
    target: Target,
    begun: Vec<u8>,
}

impl Uploads {
    pub(super) fn new(target: &Target) -> Self {
        let form = Form::new()
            .field("content_type", "application/octet-stream")
            .field("file_path", "trickle.bin")
            .file("file", "trickle.bin", &vec![7; SENT_BYTES]);
        let mut begun = form.body();
        begun.truncate(SENT_BYTES);
        Self {
            target: target.clone(),
            begun,
        }
    }
}

#[async_trait]
impl Strike for Uploads {
    fn lanes(&self) -> usize {
        LANES
    }

    fn refusals(&self) -> &'static [(u16, &'static str)] {
        &[(429, "too_many_uploads"), (429, "rate_limited")]
    }

    fn answers(&self) -> &'static [u16] {
        // The rest did not come in time.
        &[408]
    }

    async fn occupy(&self) -> io::Result<()> {
        Ok(())
    }

    async fn strike(&self, lane: &Lane) -> io::Result<End> {
        let request =
            Request::new("POST", "/api/v2/assets").header("Content-Type", &Form::content_type());
        let request = owned(&self.target, request);
        let _hold = lane.hold();
        let reply = exchange(
            &self.target,
            lane,
            request,
            ANNOUNCED_BYTES,
            &self.begun,
            Some(DRIP),
        )
        .await?;
        Ok(End::Told(reply))
    }
}
