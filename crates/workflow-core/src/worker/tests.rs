//! The worker loop over stores in memory, an engine that does what the test says, and a clock that the test moves.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;

use accounts::{AccountId, Tier};
use asset_store::{AssetRecords, Assets, MemoryBlobs, MemoryRecords, Retention};
use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Map;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};
use uuid::Uuid;

use super::*;
use crate::blocking_pool::tests::AtOnce;
use crate::{
    Availability, CommitError, ComputePermit, Durability, Engine, EngineName, EngineWorkers,
    Engines, Hub, JobErrorCode, JobEvent, JobOutput, JobStatus, JobStore, Jobs, JobsConfig,
    MemoryJobs, Metadata, ModelFile, NamedEngine, NodeCatalog, NodeDefinition, NodeEvent,
    OutputContent, OutputKind, OutputName, Refusal, Requirements, RunContext, RunError, RunOutput,
    SaveJob, SaveOutcome, Secrets, Submission, Ticket, ValidGraph, WorkerNote,
};

/// A clock that stands still until it is moved, and then wakes every sleeper whose time has come.
#[derive(Clone)]
struct TestTimer(Arc<Mutex<Clock>>);

struct Clock {
    now: Timestamp,
    sleepers: Vec<(Timestamp, oneshot::Sender<()>)>,
}

impl TestTimer {
    fn new() -> Self {
        let now = Timestamp::from_second(1_790_000_000).expect("in range");
        Self(Arc::new(Mutex::new(Clock {
            now,
            sleepers: Vec::new(),
        })))
    }

    fn advance(&self, by: Duration) {
        let mut clock = self.0.lock().expect("no test panics with it");
        clock.now = clock.now.checked_add(by).expect("in range");
        let now = clock.now;
        for (_, sleeper) in clock.sleepers.extract_if(.., |(until, _)| *until <= now) {
            // A sleeper that stopped for another reason is not there any more.
            let _ = sleeper.send(());
        }
    }
}

#[async_trait]
impl Timer for TestTimer {
    fn now(&self) -> Timestamp {
        self.0.lock().expect("no test panics with it").now
    }

    async fn sleep(&self, duration: Duration) {
        let (wake, woken) = oneshot::channel();
        {
            let mut clock = self.0.lock().expect("no test panics with it");
            let until = clock.now.checked_add(duration).expect("in range");
            clock.sleepers.push((until, wake));
        }
        // The clock outlives every sleeper.
        let _ = woken.await;
    }
}

/// What the engine does with the next run.
enum Script {
    Finish,
    Fail(&'static str),
    Commit(u32),
    /// Waits until it is told to stop.
    Hang,
    /// Leaves its permit until it hears from the test, and finishes.
    Rest(oneshot::Receiver<()>),
}

/// An engine that follows a script and tells when a run begins.
struct ScriptedEngine {
    scripts: Mutex<VecDeque<Script>>,
    begun: mpsc::UnboundedSender<Option<String>>,
    available: Arc<Mutex<Availability>>,
}

#[async_trait]
impl Engine for ScriptedEngine {
    fn availability(&self) -> Availability {
        *self.available.lock().expect("no test panics with it")
    }

    fn nodes(&self) -> NodeCatalog {
        NodeCatalog::new([class("Known")])
    }

    fn capacity(&self, _: &Requirements) -> usize {
        usize::MAX
    }

    fn model_files(&self, _: &ValidGraph) -> BTreeSet<ModelFile> {
        BTreeSet::new()
    }

    fn workers(&self) -> Option<&dyn EngineWorkers> {
        None
    }

    async fn run(&self, _ticket: Ticket, context: RunContext) -> Result<(), RunError> {
        let script = self
            .scripts
            .lock()
            .expect("no test panics with it")
            .pop_front();
        let exposed = |secret: &SecretString| secret.expose_secret().to_owned();
        let secret = context.secret.as_ref().map(exposed);
        self.begun.send(secret).expect("the test is there");
        context.sink.progress(NodeEvent::Cached(Vec::new()));
        context.sink.progress(NodeEvent::Started {
            node: "1".into(),
            class: "Known".to_owned(),
        });
        match script.unwrap_or(Script::Finish) {
            Script::Finish => {}
            Script::Fail(message) => {
                return Err(RunError::Failed(crate::JobError::new(
                    JobErrorCode::NodeExecutionError,
                    message,
                )));
            }
            Script::Commit(index) => {
                commit(&context, index, "same bytes")
                    .await
                    .expect("the sink takes it");
            }
            Script::Hang => {
                context.sink.progress(NodeEvent::Step {
                    node: "1".into(),
                    step: 1,
                    steps: 2,
                });
                context.cancel.cancelled().await;
                return Err(RunError::Canceled(Some("1".into())));
            }
            Script::Rest(rested) => {
                context.permit.leave();
                // A test that drops the other end has let it go on, too.
                let _ = rested.await;
                context.permit.take().await;
            }
        }
        context
            .sink
            .progress(NodeEvent::Finished { node: "1".into() });
        Ok(())
    }
}

fn class(name: &str) -> NodeDefinition {
    NodeDefinition {
        class: name.to_owned(),
        display_name: None,
        description: String::new(),
        python_module: String::new(),
        category: String::new(),
        inputs: Vec::new(),
        hidden: Vec::new(),
        outputs: Vec::new(),
        output_node: true,
        takes_lists: false,
        not_idempotent: false,
        accepts_all: false,
        fills_defaults: false,
        partner: None,
        extra: Map::new(),
        shown: None,
    }
}

fn submission(n: u128, workflow: &str) -> Submission {
    Submission {
        id: JobId(Uuid::from_u128(n)),
        account: AccountId::local(),
        tier: Arc::new(Tier {
            concurrent_jobs: 100,
            ..Tier::standard()
        }),
        workflow: Bytes::from(workflow.to_owned()),
        metadata: Metadata::new(),
        secret: None,
        key: None,
        origin: Bytes::new(),
        targets: None,
        partial: false,
        flat_uploads: false,
        extra_pnginfo: Map::new(),
        trace: None,
    }
}

async fn commit(
    context: &RunContext,
    index: u32,
    bytes: &'static str,
) -> Result<JobOutput, CommitError> {
    let output = RunOutput {
        node_id: "1".into(),
        index,
        kind: OutputKind::Text,
        temp: false,
        name: OutputName::Counted {
            counter: "t".into(),
            stem: "t".into(),
            extension: "txt".into(),
        },
        content_type: "text/plain".to_owned(),
        content: OutputContent::Bytes(Bytes::from_static(bytes.as_bytes())),
    };
    context.sink.commit(output).await
}

/// Completes when a follower is told that its job is over.
async fn end_of(mut follower: crate::Follower) -> Arc<Job> {
    loop {
        let job = follower.latest().job;
        if let Some(job) = job.filter(|job| job.status.is_terminal()) {
            return job;
        }
        follower.changed().await;
    }
}

/// One worker with one slot over fresh stores.
struct Bench {
    jobs: Jobs,
    ports: JobPorts,
    worker: Arc<Worker>,
    store: Arc<faulty::Faulty>,
    records: MemoryRecords,
    timer: TestTimer,
    available: Arc<Mutex<Availability>>,
    remote: Arc<engines::Remote>,
    begun: AsyncMutex<mpsc::UnboundedReceiver<Option<String>>>,
    draining: CancellationToken,
    halt: CancellationToken,
}

impl Bench {
    fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        let (timer, records) = (TestTimer::new(), MemoryRecords::new());
        let clock = timer.clone();
        let blobs = Arc::new(MemoryBlobs::new(move || clock.now()));
        let inner = Arc::new(MemoryJobs::new(records.clone()));
        let store = Arc::new(faulty::Faulty::over(inner.clone()));
        let (sender, begun) = mpsc::unbounded_channel();
        let available = Arc::new(Mutex::new(Availability::Ready));
        let engine = ScriptedEngine {
            scripts: Mutex::new(scripts.into_iter().collect()),
            begun: sender,
            available: available.clone(),
        };
        let remote = Arc::new(engines::Remote::default());
        let ports = JobPorts {
            store: store.clone(),
            queue: inner.clone(),
            hub: Arc::new(Hub::over(inner)),
            engines: Engines::new([
                NamedEngine {
                    name: EngineName::NATIVE.into(),
                    engine: Arc::new(engine),
                },
                NamedEngine {
                    name: "remote".into(),
                    engine: Arc::clone(&remote) as Arc<dyn Engine>,
                },
            ]),
            timer: Arc::new(timer.clone()),
            secrets: Secrets::new(WorkerId(Uuid::from_u128(1))),
            threads: Arc::new(AtOnce::default()),
        };
        let pace = Arc::new(CompletionRate::default());
        let assets = Assets::new(
            blobs.clone(),
            Arc::new(records.clone()),
            Retention::default(),
        );
        let config = JobsConfig { queued_jobs: 50 };
        let worker_config = WorkerConfig {
            only_secrets: false,
            slots: 1,
            account_slots: 64,
            lease: Duration::from_secs(30),
            run_limit: Duration::from_secs(600),
            queue_limit: SignedDuration::from_hours(1),
        };
        let worker = Worker::new(
            ports.clone(),
            blobs,
            Arc::new(timer.clone()),
            worker_config,
            pace.clone(),
        );
        Self {
            jobs: Jobs::new(ports.clone(), assets, config, pace),
            ports,
            worker: Arc::new(worker),
            store,
            records,
            timer,
            available,
            remote,
            begun: AsyncMutex::new(begun),
            draining: CancellationToken::new(),
            halt: CancellationToken::new(),
        }
    }

    async fn submit(&self, n: u128, secret: Option<&str>) -> JobId {
        self.submit_to(&self.jobs, n, secret).await
    }

    async fn submit_to(&self, jobs: &Jobs, n: u128, secret: Option<&str>) -> JobId {
        let submission = Submission {
            secret: secret.map(SecretString::from),
            ..submission(n, r#"{"1": {"class_type": "Known", "inputs": {}}}"#)
        };
        let submitted = jobs.submit(submission, self.timer.now()).await;
        submitted.expect("a good submission").view.job.id
    }

    async fn job(&self, id: JobId) -> Arc<Job> {
        self.jobs
            .get(&AccountId::local(), id, self.timer.now())
            .await
            .expect("the job is there")
            .job
    }

    /// Runs the slot until `until` completes.
    async fn while_running<T>(&self, until: impl Future<Output = T>) -> T {
        tokio::select! {
            result = until => result,
            () = self.worker.run_slot(&self.draining, &self.halt) => panic!("the slot ended too early"),
        }
    }

    /// Completes when the job has reached a terminal status.
    async fn ended(&self, id: JobId) -> Arc<Job> {
        let follow = self
            .jobs
            .follow(&AccountId::local(), id, self.timer.now())
            .await;
        let (view, follower) = follow.expect("the job is there");
        match view.job.status.is_terminal() {
            true => view.job,
            false => end_of(follower).await,
        }
    }

    /// Lets time pass, for those who try again.
    async fn wake<T>(&self) -> T {
        loop {
            self.timer.advance(Duration::from_millis(50));
            tokio::task::yield_now().await;
        }
    }

    /// Completes when the engine has begun a run, with the secret it was given.
    async fn begun(&self) -> Option<String> {
        self.begun
            .lock()
            .await
            .recv()
            .await
            .expect("the engine is there")
    }
}

/// Completes when everybody else has had many turns.
async fn idle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

mod ends;
mod engines;
mod faulty;
mod lost_claims;
mod permits;
mod replicas;
mod runs;
