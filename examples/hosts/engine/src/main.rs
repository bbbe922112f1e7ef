//! The engine alone: takes a graph in, runs it beside the program's own work and reads the picture. No store, no HTTP.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, Tier};
use asset_store::{Assets, Blob, MemoryBlobs, MemoryRecords, Retention, read_all};
use async_trait::async_trait;
use engine_native::images::codec;
use engine_native::{EngineConfig, NativeEngine};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use workflow_core::{
    BlockingPool, CompletionRate, Engines, Hub, JobId, JobPorts, JobStatus, Jobs, JobsConfig,
    MemoryJobs, Metadata, Secrets, Submission, Timer, Worker, WorkerConfig, WorkerId,
};

/// The clock and the threads of this program.
struct Runtime;

#[async_trait]
impl Timer for Runtime {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

impl BlockingPool for Runtime {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        tokio::task::spawn_blocking(work);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Rows and bytes in memory; `store-local` has the same ports over a folder.
    let blobs = Arc::new(MemoryBlobs::new(Timestamp::now));
    let records = MemoryRecords::new();
    let rows = Arc::new(MemoryJobs::new(records.clone()));
    let assets = Assets::new(blobs.clone(), Arc::new(records), Retention::default());
    let engine = EngineConfig {
        threads: 2,
        cache_bytes: 64 << 20,
        job_memory_bytes: 256 << 20,
        downloads: None,
    };
    let ports = JobPorts {
        store: rows.clone(),
        queue: rows,
        hub: Arc::new(Hub::new()),
        engines: Engines::native(Arc::new(NativeEngine::new(blobs.clone(), engine)?)),
        timer: Arc::new(Runtime),
        secrets: Secrets::new(WorkerId(Uuid::now_v7())),
        threads: Arc::new(Runtime),
    };
    let pace = Arc::new(CompletionRate::default());
    let config = JobsConfig { queued_jobs: 100 };
    let jobs = Jobs::new(ports.clone(), assets.clone(), config, pace.clone());

    // One slot; a call of `run_slot` for each job that may run at once.
    let config = WorkerConfig {
        slots: 1,
        only_secrets: false,
        account_slots: 1,
        lease: Duration::from_secs(30),
        run_limit: Duration::from_secs(60),
        queue_limit: SignedDuration::from_mins(10),
    };
    let worker = Arc::new(Worker::new(ports, blobs, Arc::new(Runtime), config, pace));
    let (drain, halt, stop) = <(CancellationToken, CancellationToken, CancellationToken)>::default();
    let slot = tokio::spawn({
        let (worker, drain) = (worker.clone(), drain.clone());
        async move { worker.run_slot(&drain, &halt).await }
    });
    let leases = tokio::spawn({
        let stop = stop.clone();
        async move { worker.keep_leases(&stop).await }
    });

    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 48, "batch_size": 1, "color": 255}},
        "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "host"}},
    });
    let account = AccountId::local();
    let submission = Submission {
        id: JobId(Uuid::now_v7()),
        account: account.clone(),
        tier: Tier::standard().into(),
        workflow: graph.to_string().into(),
        metadata: Metadata::default(),
        secret: None,
        key: None,
        origin: Default::default(),
        targets: None,
        partial: false,
        flat_uploads: false,
        extra_pnginfo: Map::new(),
        trace: None,
    };
    let submitted = jobs.submit(submission, Timestamp::now()).await?;
    let id = submitted.view.job.id;
    let (mut view, mut follower) = jobs.follow(&account, id, Timestamp::now()).await?;
    while !view.job.status.is_terminal() {
        follower.changed().await;
        view = jobs.get(&account, id, Timestamp::now()).await?;
    }
    if view.job.status != JobStatus::Succeeded {
        return Err(format!("the job ended as {:?}", view.job.error).into());
    }
    let output = view.job.outputs.first().ok_or("nothing was saved")?;
    let blob = Blob {
        hash: output.hash,
        size_bytes: output.size_bytes,
    };
    let file = read_all(&**assets.blobs(), &blob).await?;
    let picture = codec::probe(&file, &codec::Limits::default())?;
    println!("{}: {} x {}", output.path, picture.width, picture.height);

    drain.cancel();
    slot.await?;
    stop.cancel();
    leases.await?;
    Ok(())
}
