//! Submissions of long jobs until the queue of the account is full.

use std::io;

use async_trait::async_trait;

use super::graphs::{long, submit};
use super::lane::{End, Lane};
use super::{Strike, Target};

/// Submissions at a time.
const LANES: usize = 4;

pub(super) struct Queue(Target);

impl Queue {
    pub(super) fn new(target: &Target) -> Self {
        Self(target.clone())
    }
}

#[async_trait]
impl Strike for Queue {
    fn lanes(&self) -> usize {
        LANES
    }

    fn refusals(&self) -> &'static [(u16, &'static str)] {
        &[(429, "queue_full"), (429, "rate_limited")]
    }

    fn answers(&self) -> &'static [u16] {
        &[]
    }

    async fn occupy(&self) -> io::Result<()> {
        Ok(())
    }

    async fn strike(&self, lane: &Lane) -> io::Result<End> {
        // Each job that was taken in holds a place until the end of the attack.
        let mut places = Vec::new();
        loop {
            match submit(&self.0, &long()).await? {
                Ok(_) => places.push(lane.hold()),
                Err(refused) => return Ok(End::Told(refused)),
            }
            lane.begun();
        }
    }
}
