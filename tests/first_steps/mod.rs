//! What a new user meets: the README's own commands, the answer at the root, and what is said when something cannot run.

mod commands;
mod graphs;
mod home;
mod readme;
mod runs;

use std::path::Path;

use it::Server;
use serde_json::{Value, json};

/// `KSampler -> VAEDecode -> SaveImage`, as every guide to ComfyUI begins.
fn with_models() -> Value {
    json!({
        "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "a.safetensors"}},
        "2": {"class_type": "KSampler", "inputs": {"model": ["1", 0]}},
        "3": {"class_type": "VAEDecode", "inputs": {"samples": ["2", 0], "vae": ["1", 2]}},
        "4": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "a"}},
    })
}

/// A server that logs into a file.
async fn logging(data: &Path, log: &Path) -> Server {
    let launch = it::Launch {
        log: Some(log.to_owned()),
        ..it::Launch::of("all-in-one")
    };
    Server::launch(data, &launch).await.unwrap()
}
