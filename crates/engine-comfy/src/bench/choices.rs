//! Choices among many workers, which are there in memory alone.

use std::sync::Arc;
use std::time::Duration;

use asset_store::MemoryBlobs;
use serde_json::{Map, Value, json};
use workflow_core::{ModelFile, Requirements};

use crate::definitions::Definitions;
use crate::pool::{ComfyPool, PoolConfig};
use crate::slots::WorkerSlots;

/// Classes of a graph that samples, besides the one that loads a model.
const CLASSES: [&str; 7] = [
    "CLIPTextEncode",
    "EmptyLatentImage",
    "KSampler",
    "LoadImage",
    "SaveImage",
    "VAEDecode",
    "VAEEncode",
];
const LOADER: &str = "CheckpointLoaderSimple";
/// One worker of so many has used the job's model last.
const WARM_EACH: usize = 50;

/// A pool of workers that answer, and a job for one of them.
pub struct Choices {
    pool: ComfyPool,
    needs: Requirements,
}

impl Choices {
    /// A job among so many workers, which have no job, one or two in turn. Needs a tokio runtime.
    ///
    /// # Panics
    /// Never: addresses and definitions are right.
    #[must_use]
    pub fn among(workers: usize) -> Self {
        let config = PoolConfig {
            preview_method: "none".to_owned(),
            asked_previews: |_| None,
            folder: None,
            socket_name: None,
            extra_ca_pem: None,
            slots: WorkerSlots::default(),
            bell: Arc::new(|| {}),
        };
        let pool = ComfyPool::new(Arc::new(MemoryBlobs::new(jiff::Timestamp::now)), config);
        let files = ["a.safetensors", "b.safetensors"];
        let [warm, cold] = files.map(|name| ModelFile {
            folder: format!("{LOADER}/ckpt_name"),
            name: name.to_owned(),
        });
        let mut entries: Map<String, Value> = CLASSES
            .iter()
            .map(|class| ((*class).to_owned(), json!({"input": {"required": {}}})))
            .collect();
        let loader = json!({"input": {"required": {"ckpt_name": [files]}}});
        entries.insert(LOADER.to_owned(), loader);
        let classes = entries.keys().cloned().collect();
        for number in 0..workers {
            let definitions = Definitions::read("0.8.0", Value::Object(entries.clone()));
            let used = match number % WARM_EACH {
                0 => &warm,
                _ => &cold,
            };
            pool.add_imagined(
                number,
                definitions.expect("definitions"),
                &[used.clone()].into(),
            );
        }
        let needs = Requirements {
            classes,
            files: [warm].into(),
            ..Requirements::of_engine(ComfyPool::name())
        };
        Self { pool, needs }
    }

    /// Chooses a worker, as for a job that just came; whether one takes it.
    #[must_use]
    pub fn choose(&self) -> bool {
        let chosen = self.pool.choice(&self.needs, Duration::ZERO);
        chosen.is_some()
    }
}
