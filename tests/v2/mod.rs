//! The v2 workflow API.

mod accounts;
mod assets;
mod clients;
mod descriptors;
mod disk;
mod durability;
mod engine;
mod expressions;
mod jobs;
mod quota;
mod refusals;
mod uploads;

use serde_json::{Value, json};

/// `EmptyImage -> SaveImage`, told apart by its colour.
fn tiny_graph(color: u32) -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": color}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "tiny"}},
    })
}
