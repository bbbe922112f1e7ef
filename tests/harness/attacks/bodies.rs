//! Large bodies whose last byte does not come: a server that reads them keeps all that came before it.

use std::io;

use async_trait::async_trait;

use super::lane::{End, Lane};
use super::wire::exchange;
use super::{Strike, Target};
use crate::Request;

/// Calls of a model by an account that cannot pay for one, and submissions to each of the two APIs of workflows.
const CALLS: usize = 30;
const SUBMISSIONS: usize = 10;

/// The largest call of a model that a server takes unless it is set otherwise.
const CALL_BYTES: usize = 32 << 20;

pub(super) struct Bodies {
    target: Target,
    /// What all bodies are the beginning of.
    bytes: Vec<u8>,
}

impl Bodies {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            target: target.clone(),
            bytes: vec![b' '; CALL_BYTES - 1],
        }
    }
}

#[async_trait]
impl Strike for Bodies {
    fn lanes(&self) -> usize {
        CALLS + 2 * SUBMISSIONS
    }

    fn refusals(&self) -> &'static [(u16, &'static str)] {
        &[
            (402, "insufficient_credits"),
            (429, "concurrency_limit_exceeded"),
            (429, "rate_limited"),
        ]
    }

    fn answers(&self) -> &'static [u16] {
        // The rest of the body did not come in time, or there was no room for it.
        &[408, 413, 429, 503]
    }

    async fn occupy(&self) -> io::Result<()> {
        Ok(())
    }

    async fn strike(&self, lane: &Lane) -> io::Result<End> {
        let (path, bytes, key) = match lane.number {
            ..CALLS => (
                "/v1/models/openai/gpt-image-1",
                CALL_BYTES,
                &self.target.penniless,
            ),
            other if other % 2 == 0 => ("/api/v2/jobs", self.target.json_bytes, &self.target.key),
            _ => ("/api/prompt", self.target.json_bytes, &self.target.key),
        };
        let request = Request::new("POST", path)
            .header("Content-Type", "application/json")
            .header("Authorization", &format!("Bearer {key}"));
        let _hold = lane.hold();
        let reply = exchange(
            &self.target,
            lane,
            request,
            bytes,
            &self.bytes[..bytes - 1],
            None,
        )
        .await?;
        Ok(End::Told(reply))
    }
}
