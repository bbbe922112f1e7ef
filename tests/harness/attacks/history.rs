//! The history and the queue of many large jobs: by readers that ask again and again, and by clients that ask and do not read.

use std::io;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::graphs::{follow_to_end, long, number, submit};
use super::lane::{End, Lane};
use super::wire::{Streams, exchange, owned};
use super::{Strike, Target};
use crate::Request;

/// Jobs that are over, and jobs that wait.
const ENDED: usize = 6;
const WAITING: usize = 6;

/// The texts of one job: of nodes that its output does not need, so that it is over at once.
const TEXTS: usize = 3;
const TEXT_BYTES: usize = 1_000_000;

/// Clients that read, and connections of clients that do not, with the streams of each.
const READERS: usize = 4;
const DEAF: usize = 2;
const STREAMS: usize = 16;

const PATHS: [&str; 4] = ["/api/history", "/api/queue", "/api/history_v2", "/api/jobs"];

pub(super) struct History {
    target: Target,
    requests: Vec<Request>,
}

impl History {
    pub(super) async fn prepare(target: &Target) -> io::Result<Self> {
        for _ in 0..ENDED {
            let id = taken(submit(target, &large()).await?)?;
            follow_to_end(target, &id).await?;
        }
        let requests = PATHS.map(|path| owned(target, Request::get(path)));
        Ok(Self {
            target: target.clone(),
            requests: requests.to_vec(),
        })
    }
}

fn taken(submitted: Result<String, super::wire::Reply>) -> io::Result<String> {
    submitted.map_err(|refused| io::Error::other(format!("a large job was refused: {refused:?}")))
}

/// A small picture, beside texts of a megabyte each.
fn large() -> Value {
    let size = json!({"width": 16, "height": 16, "batch_size": 1, "color": number()});
    let mut graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": size},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "large"}},
    });
    for text in 0..TEXTS {
        let inputs = json!({"value": "x".repeat(TEXT_BYTES)});
        graph[format!("text-{text}")] = json!({"class_type": "PrimitiveString", "inputs": inputs});
    }
    graph
}

#[async_trait]
impl Strike for History {
    fn lanes(&self) -> usize {
        READERS + DEAF
    }

    fn refusals(&self) -> &'static [(u16, &'static str)] {
        &[]
    }

    fn answers(&self) -> &'static [u16] {
        // There are as many such answers under way as there may be.
        &[200, 429, 503]
    }

    async fn occupy(&self) -> io::Result<()> {
        // The large jobs wait behind these.
        for _ in 0..self.target.job_slots {
            taken(submit(&self.target, &long()).await?)?;
        }
        for _ in 0..WAITING {
            taken(submit(&self.target, &large()).await?)?;
        }
        Ok(())
    }

    async fn strike(&self, lane: &Lane) -> io::Result<End> {
        if lane.number >= READERS {
            // A server may let some of the answers wait, so their heads are not waited for.
            lane.begun();
            let streams = Streams {
                requests: &self.requests,
                count: STREAMS,
                window: 0,
                from_head: false,
            };
            return streams.keep(&self.target, lane).await;
        }
        let request = self.requests[lane.number % PATHS.len()].clone();
        let _hold = lane.hold();
        let reply = exchange(&self.target, lane, request, 0, &[], None).await?;
        Ok(End::Told(reply))
    }
}
