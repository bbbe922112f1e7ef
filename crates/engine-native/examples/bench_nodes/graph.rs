//! Whole graphs through the engine, with a sink that keeps one file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use asset_store::{BlobHash, BlobStore, MemoryBlobs, SpaceClass};
use async_trait::async_trait;
use bytes::Bytes;
use engine_native::{EngineConfig, NativeEngine};
use jiff::Timestamp;
use serde_json::{Map, Value as Json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use workflow_core::{
    CommitError, ComputePermit, Engine, Epoch, FrameRefused, Graph, JobOutput, NodeEvent, NodeId,
    OutputContent, Plan, Preview, ResolvedFile, ResolvedFiles, RunContext, RunOutput, RunSink,
    Ticket, validate,
};

/// An engine that caches nothing, with its runtime.
pub(crate) struct Engines {
    engine: NativeEngine,
    blobs: MemoryBlobs,
    runtime: Runtime,
}

const ID: &str = "01890000-0000-7000-8000-000000000001";

impl Engines {
    pub(crate) fn new(threads: usize) -> Self {
        let blobs = MemoryBlobs::new(Timestamp::now);
        let config = EngineConfig {
            threads,
            cache_bytes: 0,
            job_memory_bytes: 4 << 30,
            downloads: None,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        Self {
            engine: NativeEngine::new(Arc::new(blobs.clone()), config).unwrap(),
            blobs,
            runtime,
        }
    }

    /// Validates a graph that may load the file `photo`; what it gives runs it and gives what was saved last.
    pub(crate) fn prepare(&self, graph: &Json, png: &[u8]) -> impl FnOnce() -> Bytes + Send + '_ {
        let blob = self.runtime.block_on(async {
            let mut writer = self.blobs.begin(SpaceClass::Spare).await.unwrap();
            writer.write(Bytes::copy_from_slice(png)).await.unwrap();
            writer.commit().await.unwrap()
        });
        let file = ResolvedFile {
            asset: ID.parse().unwrap(),
            hash: blob.hash,
            size_bytes: blob.size_bytes,
            name: "photo".to_owned(),
        };
        let files = ResolvedFiles::from([("photo".to_owned(), file)]);
        let graph = Graph::from_value(graph.clone()).unwrap();
        let graph = validate(&graph, &self.engine.nodes(), &files, None)
            .graph
            .unwrap();
        let ticket = Ticket {
            job: ID.parse().unwrap(),
            account: "local".parse().unwrap(),
            plan: Arc::new(Plan::of(&graph)),
            graph: Arc::new(graph),
            extra_pnginfo: Map::new(),
            origin: Bytes::new(),
        };
        let sink = Arc::new(Last::default());
        let context = RunContext {
            secret: None,
            fence: Epoch(1),
            cancel: CancellationToken::new(),
            permit: ComputePermit::default(),
            sink: Arc::clone(&sink) as _,
        };
        move || {
            let run = self.engine.run(ticket, context);
            self.runtime.block_on(run).unwrap();
            sink.saved.lock().unwrap().clone()
        }
    }
}

/// Keeps what was committed last.
#[derive(Default)]
struct Last {
    committed: AtomicU64,
    saved: Mutex<Bytes>,
}

#[async_trait]
impl RunSink for Last {
    fn progress(&self, _event: NodeEvent) {}

    fn preview(&self, _preview: Preview) {}

    fn text(&self, _node: &NodeId, _line: &str) {}

    async fn frame(&self, _node: &NodeId, _png: Bytes) -> Result<(), FrameRefused> {
        Ok(())
    }

    async fn commit(&self, output: RunOutput) -> Result<JobOutput, CommitError> {
        let OutputContent::Bytes(bytes) = &output.content else {
            return Err(CommitError::BlobGone);
        };
        *self.saved.lock().unwrap() = bytes.clone();
        let number = self.committed.fetch_add(1, Ordering::Relaxed);
        Ok(JobOutput {
            node_id: output.node_id,
            index: output.index,
            kind: output.kind,
            temp: output.temp,
            path: output.name.path(number).unwrap(),
            content_type: output.content_type,
            size_bytes: bytes.len() as u64,
            asset: ID.parse().unwrap(),
            hash: BlobHash::of(b"nobody asks for it"),
        })
    }
}
