//! Pictures made to do harm, each loaded by a job of its own: truncated, lying, oversized, bombs.
//!
//! Every one ends in a picture, an error of its node or `out_of_memory`; never in a panic, and never in more memory than the
//! job may use. The corpus is made here, always the same, so that nothing harmful lies in the repository.

#![expect(clippy::unwrap_used, reason = "a test that cannot get on is to stop")]

#[path = "../../../images/tests/hostile/corpus/mod.rs"]
mod corpus;

use std::fs;
use std::sync::{Arc, Mutex};

use asset_store::{BlobHash, BlobStore, MemoryBlobs, SpaceClass};
use async_trait::async_trait;
use bytes::Bytes;
// The corpus compresses its bombs with it.
use engine_native::{EngineConfig, NativeEngine};
use flate2 as _;
use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use workflow_core::{
    CommitError, ComputePermit, Engine, Epoch, FrameRefused, Graph, JobErrorCode, JobOutput,
    NodeEvent, NodeId, OutputContent, Plan, Preview, ResolvedFile, ResolvedFiles, RunContext,
    RunError, RunOutput, RunSink, Ticket, validate,
};

/// What a job may hold. Any bomb that gets past it shows in the process.
const BUDGET_BYTES: u64 = 48 << 20;

/// What the process may take besides: stacks, the encoder's output, what the allocator does not give back.
const SLACK_BYTES: u64 = 24 << 20;

const ID: &str = "01890000-0000-7000-8000-000000000001";

#[tokio::test]
async fn hostile_pictures_fail_their_own_job_within_its_memory() {
    let corpus = corpus::all();
    assert!(corpus.len() >= 200, "only {} pictures", corpus.len());
    let (mut shown, mut failed, mut out_of_memory) = (0, 0, 0);
    for (name, bytes) in &corpus {
        let before = memory("VmRSS:");
        let measures = forget_peak();
        let ended = load(bytes).await;
        let peak = memory("VmHWM:");
        match ended {
            Ok(()) => shown += 1,
            Err(RunError::Failed(error)) => {
                let exception = error.exception_type.as_deref().unwrap_or_default();
                assert_ne!(exception, "PanicError", "{name}");
                assert_eq!(error.node_id, Some("1".into()), "{name}: {error:?}");
                let is_memory = error.code == JobErrorCode::OutOfMemory;
                assert!(
                    is_memory || error.code == JobErrorCode::NodeExecutionError,
                    "{name}: {error:?}"
                );
                *(if is_memory {
                    &mut out_of_memory
                } else {
                    &mut failed
                }) += 1;
            }
            Err(error @ (RunError::Canceled(_) | RunError::Lost | RunError::NoWorker)) => {
                panic!("{name}: nobody stopped it: {error:?}")
            }
        }
        if measures {
            let taken = peak.saturating_sub(before);
            assert!(
                taken <= BUDGET_BYTES + SLACK_BYTES,
                "{name} took {} MB",
                taken >> 20
            );
        }
    }
    // Some show what can be shown, as the original does.
    assert!(
        failed > corpus.len() / 3 && shown > 0 && out_of_memory > 0,
        "{shown} shown, {failed} failed, {out_of_memory} out of memory"
    );
}

/// Loads a picture in a job of an engine of its own, and looks at it.
async fn load(bytes: &[u8]) -> Result<(), RunError> {
    let blobs = MemoryBlobs::new(Timestamp::now);
    let mut writer = blobs.begin(SpaceClass::Spare).await.unwrap();
    writer.write(Bytes::copy_from_slice(bytes)).await.unwrap();
    let blob = writer.commit().await.unwrap();
    let config = EngineConfig {
        threads: 2,
        cache_bytes: 0,
        job_memory_bytes: BUDGET_BYTES,
        downloads: None,
    };
    let engine = NativeEngine::new(Arc::new(blobs), config).unwrap();
    let graph = json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": "hostile"}},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    });
    let file = ResolvedFile {
        asset: ID.parse().unwrap(),
        hash: blob.hash,
        size_bytes: blob.size_bytes,
        name: "hostile".to_owned(),
    };
    let files = ResolvedFiles::from([("hostile".to_owned(), file)]);
    let graph = Graph::from_value(graph).unwrap();
    let graph = validate(&graph, &engine.nodes(), &files, None)
        .graph
        .unwrap();
    let ticket = Ticket {
        job: ID.parse().unwrap(),
        account: "local".parse().unwrap(),
        plan: Arc::new(Plan::of(&graph)),
        graph: Arc::new(graph),
        extra_pnginfo: serde_json::Map::new(),
        origin: bytes::Bytes::new(),
    };
    let context = RunContext {
        secret: None,
        fence: Epoch(1),
        cancel: CancellationToken::new(),
        permit: ComputePermit::default(),
        sink: Arc::new(Nobody::default()),
    };
    engine.run(ticket, context).await
}

/// A sink that keeps nothing.
#[derive(Default)]
struct Nobody {
    committed: Mutex<u64>,
}

#[async_trait]
impl RunSink for Nobody {
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
        let mut committed = self.committed.lock().unwrap();
        *committed += 1;
        Ok(JobOutput {
            node_id: output.node_id,
            index: output.index,
            kind: output.kind,
            temp: output.temp,
            path: output.name.path(*committed).unwrap(),
            content_type: output.content_type,
            size_bytes: bytes.len() as u64,
            asset: ID.parse().unwrap(),
            hash: BlobHash::of(bytes),
        })
    }
}

/// A line of the process' own account of its memory, in bytes; 0 where there is none.
fn memory(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|text| {
        text.strip_prefix(line)?
            .trim()
            .strip_suffix(" kB")?
            .parse::<u64>()
            .ok()
    });
    kilobytes.unwrap_or(0) << 10
}

/// Lets the peak begin anew; answers whether this system can.
fn forget_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}
