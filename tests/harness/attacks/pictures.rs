//! Jobs with pictures up to the memory of a job and beyond it: chains of large ones, and batches.

use std::io;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::graphs::{follow, number, submit};
use super::lane::{End, Lane};
use super::{Strike, Target};

/// Jobs at a time.
const LANES: usize = 4;

/// Width and height of one picture: 48 MiB of samples.
const WIDTH: u32 = 2048;

/// Pictures of a chain, and of a batch.
const CHAIN: u32 = 12;
const BATCH: u32 = 64;

pub(super) struct Pictures(Target);

impl Pictures {
    pub(super) fn new(target: &Target) -> Self {
        Self(target.clone())
    }
}

/// Pictures that are all kept until the last of them is saved.
fn chain() -> Value {
    let mut graph = json!({});
    for node in 0..CHAIN {
        let inputs = json!({"width": WIDTH, "height": WIDTH, "batch_size": 1, "color": number()});
        graph[format!("empty-{node}")] = json!({"class_type": "EmptyImage", "inputs": inputs});
        let inputs = json!({"image": [format!("empty-{node}"), 0]});
        graph[format!("invert-{node}")] = json!({"class_type": "ImageInvert", "inputs": inputs});
        let inputs = json!({"images": [format!("invert-{node}"), 0], "filename_prefix": "deep"});
        graph[format!("save-{node}")] = json!({"class_type": "SaveImage", "inputs": inputs});
    }
    graph
}

/// One node that wants more than any job may have.
fn batch() -> Value {
    let inputs = json!({"width": WIDTH, "height": WIDTH, "batch_size": BATCH, "color": number()});
    json!({
        "1": {"class_type": "EmptyImage", "inputs": inputs},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "deep"}},
    })
}

#[async_trait]
impl Strike for Pictures {
    fn lanes(&self) -> usize {
        LANES
    }

    fn refusals(&self) -> &'static [(u16, &'static str)] {
        &[(429, "rate_limited"), (429, "queue_full")]
    }

    fn answers(&self) -> &'static [u16] {
        &[]
    }

    async fn occupy(&self) -> io::Result<()> {
        Ok(())
    }

    async fn strike(&self, lane: &Lane) -> io::Result<End> {
        let graph = match lane.number % 2 {
            0 => chain(),
            _ => batch(),
        };
        let id = match submit(&self.0, &graph).await? {
            Ok(id) => id,
            Err(refused) => return Ok(End::Told(refused)),
        };
        // A job that waits is held, too: it takes a place in the queue.
        let _waiting = lane.hold();
        lane.begun();
        follow(&self.0, lane, &id, None).await?;
        Ok(End::Done)
    }
}
