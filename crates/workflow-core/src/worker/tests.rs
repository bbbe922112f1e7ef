//! The worker loop over stores in memory, an engine that does what the test says, and a clock that the test moves.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

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
use crate::{
    CommitError, Durability, Engine, Hub, JobErrorCode, JobEvent, JobOutput, JobStatus, JobStore,
    Jobs, JobsConfig, MemoryJobs, Metadata, NodeCatalog, NodeDefinition, NodeEvent, OutputContent,
    OutputKind, OutputName, RunContext, RunError, RunOutput, SaveJob, SaveOutcome, Seat, Secrets,
    Submission, Ticket,
};

/// A clock that stands still until it is moved, and then wakes whoever slept until then.
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
            // Whoever stopped sleeping for another reason is not there any more.
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
    /// Leaves its seat until it hears from the test, and finishes.
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
        NodeCatalog::new([NodeDefinition {
            class: "Known".to_owned(),
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
            extra: Map::new(),
        }])
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
                context.seat.leave();
                // Whoever drops the other end has let it go on, too.
                let _ = rested.await;
                context.seat.take().await;
            }
        }
        context
            .sink
            .progress(NodeEvent::Finished { node: "1".into() });
        Ok(())
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

/// A job store whose next saves fail.
struct Faulty {
    inner: Arc<MemoryJobs>,
    failures: AtomicUsize,
}

#[async_trait]
impl JobStore for Faulty {
    async fn insert(
        &self,
        insert: crate::InsertJob,
        now: Timestamp,
    ) -> Result<crate::InsertJobOutcome, StoreError> {
        self.inner.insert(insert, now).await
    }

    async fn load(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<Job>>, StoreError> {
        self.inner.load(account, id, now).await
    }

    async fn save(&self, save: SaveJob) -> Result<SaveOutcome, StoreError> {
        let fails = |left: usize| left.checked_sub(1);
        if self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails)
            .is_ok()
        {
            return Err(StoreError::Full("no room".into()));
        }
        self.inner.save(save).await
    }

    async fn list(
        &self,
        query: &crate::JobQuery,
        now: Timestamp,
    ) -> Result<Vec<Arc<Job>>, StoreError> {
        self.inner.list(query, now).await
    }

    async fn body(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<Arc<crate::JobBody>>, StoreError> {
        self.inner.body(account, id, now).await
    }

    async fn log(
        &self,
        account: &AccountId,
        id: JobId,
        now: Timestamp,
    ) -> Result<Option<crate::JobLog>, StoreError> {
        self.inner.log(account, id, now).await
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.inner.expire(now, limit).await
    }
}

/// One worker with one slot over fresh stores.
struct Bench {
    jobs: Jobs,
    worker: Arc<Worker>,
    store: Arc<Faulty>,
    records: MemoryRecords,
    timer: TestTimer,
    available: Arc<Mutex<Availability>>,
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
        let store = Arc::new(Faulty {
            inner: inner.clone(),
            failures: AtomicUsize::new(0),
        });
        let (sender, begun) = mpsc::unbounded_channel();
        let available = Arc::new(Mutex::new(Availability::Ready));
        let engine = ScriptedEngine {
            scripts: Mutex::new(scripts.into_iter().collect()),
            begun: sender,
            available: available.clone(),
        };
        let ports = JobPorts {
            store: store.clone(),
            queue: inner,
            feed: Arc::new(Hub::new()),
            engine: Arc::new(engine),
            secrets: Secrets::default(),
        };
        let pace = Arc::new(Pace::default());
        let assets = Assets::new(
            blobs.clone(),
            Arc::new(records.clone()),
            Retention::default(),
        );
        let config = JobsConfig { queued_jobs: 50 };
        let worker_config = WorkerConfig {
            slots: 1,
            lease: Duration::from_secs(30),
            run_limit: Duration::from_secs(600),
            queue_limit: SignedDuration::from_hours(1),
        };
        let id = WorkerId(Uuid::from_u128(1));
        let worker = Worker::new(
            id,
            ports.clone(),
            blobs,
            Arc::new(timer.clone()),
            worker_config,
            pace.clone(),
        );
        Self {
            jobs: Jobs::new(ports, assets, config, pace),
            worker: Arc::new(worker),
            store,
            records,
            timer,
            available,
            begun: AsyncMutex::new(begun),
            draining: CancellationToken::new(),
            halt: CancellationToken::new(),
        }
    }

    async fn submit(&self, n: u128, secret: Option<&str>) -> JobId {
        let submission = Submission {
            id: JobId(Uuid::from_u128(n)),
            account: AccountId::local(),
            tier: Tier {
                concurrent_jobs: 100,
                ..Tier::standard()
            },
            workflow: Bytes::from_static(br#"{"1": {"class_type": "Known", "inputs": {}}}"#),
            metadata: Metadata::new(),
            secret: secret.map(SecretString::from),
            key: None,
            origin: Bytes::new(),
            targets: None,
            partial: false,
            flat_uploads: false,
            extra_pnginfo: serde_json::Map::new(),
        };
        self.jobs
            .submit(submission, self.timer.now())
            .await
            .expect("a good submission")
            .view
            .job
            .id
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
        let (view, mut follower) = follow.expect("the job is there");
        let mut job = Some(view.job);
        loop {
            match job {
                Some(job) if job.status.is_terminal() => return job,
                Some(_) | None => follower.changed().await,
            }
            job = follower.latest().job;
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

#[tokio::test]
async fn the_next_job_runs_while_the_end_of_the_last_is_saved() {
    let bench = Bench::new([Script::Finish, Script::Finish]);
    let (first, second) = (bench.submit(1, None).await, bench.submit(2, None).await);
    // The end of the first one; it is tried again when the clock moves.
    bench.store.failures.store(1, Ordering::SeqCst);
    bench
        .while_running(async {
            bench.ended(second).await;
            assert_eq!(bench.job(first).await.status, JobStatus::Running);
            bench.timer.advance(RETRY.0);
            bench.ended(first).await;
        })
        .await;
}

#[tokio::test]
async fn no_more_runs_begin_than_ends_may_wait() {
    let bench = Bench::new([]);
    bench.store.failures.store(usize::MAX, Ordering::SeqCst);
    for n in 0..=MOST_UNSAVED as u128 {
        bench.submit(n + 1, None).await;
    }
    let late = bench.submit(1000, None).await;
    bench
        .while_running(async {
            for _ in 0..=MOST_UNSAVED {
                bench.begun().await;
            }
            // The last run that began keeps its seat until its end is saved.
            tokio::select! {
                _ = bench.begun() => panic!("too many runs wait for the store"),
                () = idle() => {}
            }
            bench.store.failures.store(0, Ordering::SeqCst);
            bench.timer.advance(RETRY.0);
            bench.ended(late).await;
        })
        .await;
}

/// Completes when everybody else has had many turns.
async fn idle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_job_runs_and_what_it_made_is_a_record() {
    let bench = Bench::new([Script::Commit(0)]);
    let id = bench.submit(1, None).await;
    let job = bench.while_running(bench.ended(id)).await;
    assert_eq!(
        (job.status, job.progress.value, job.outputs.len()),
        (JobStatus::Succeeded, 1.0, 1)
    );
    assert_eq!(job.outputs[0].path.as_str(), "t_00001_.txt");
    let record = bench
        .records
        .get(&job.account, job.outputs[0].asset, bench.timer.now())
        .await;
    assert_eq!(
        record
            .expect("memory answers")
            .map(|record| record.size_bytes),
        Some(10)
    );
    let log = bench
        .jobs
        .log(&job.account, id, bench.timer.now())
        .await
        .expect("an answer")
        .expect("a log");
    assert_eq!(
        (log.text.as_str(), log.complete),
        ("node 1 (Known)\n", true)
    );
}

#[tokio::test]
async fn a_run_that_merely_waits_leaves_its_slot_to_others() {
    let (go_on, rested) = oneshot::channel();
    let bench = Bench::new([Script::Rest(rested), Script::Finish]);
    let waiting = bench.submit(1, None).await;
    let other = bench.submit(2, None).await;
    let job = bench
        .while_running(async {
            let other = bench.ended(other).await;
            assert_eq!(bench.job(waiting).await.status, JobStatus::Running);
            go_on.send(()).expect("the run is there");
            bench.ended(waiting).await;
            other
        })
        .await;
    assert_eq!(job.status, JobStatus::Succeeded);
    assert_eq!(bench.job(waiting).await.status, JobStatus::Succeeded);
}

#[tokio::test]
async fn a_run_that_waited_goes_on_when_a_slot_is_free() {
    let (go_on, rested) = oneshot::channel();
    let bench = Bench::new([Script::Rest(rested), Script::Hang]);
    let waiting = bench.submit(1, None).await;
    let busy = bench.submit(2, None).await;
    bench
        .while_running(async {
            bench.begun().await;
            bench.begun().await;
            go_on.send(()).expect("the run is there");
            // It cannot have ended while the only slot is taken.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(bench.job(waiting).await.status, JobStatus::Running);
            let now = bench.timer.now();
            let canceled = bench.jobs.cancel(&AccountId::local(), busy, now).await;
            canceled.expect("it runs");
            bench.ended(waiting).await;
        })
        .await;
    assert_eq!(bench.job(waiting).await.status, JobStatus::Succeeded);
    assert_eq!(bench.job(busy).await.status, JobStatus::Canceled);
}

#[tokio::test]
async fn a_drain_waits_for_runs_that_merely_wait() {
    let (_go_on, rested) = oneshot::channel();
    let bench = Bench::new([Script::Rest(rested), Script::Finish]);
    let waiting = bench.submit(1, None).await;
    let other = bench.submit(2, None).await;
    let slot = bench.worker.run_slot(&bench.draining, &bench.halt);
    tokio::pin!(slot);
    tokio::select! {
        () = &mut slot => panic!("the slot ended too early"),
        job = bench.ended(other) => assert_eq!(job.status, JobStatus::Succeeded),
    }
    bench.draining.cancel();
    assert!((&mut slot).now_or_never().is_none(), "one still waits");
    assert_eq!(bench.job(waiting).await.status, JobStatus::Running);
}

#[tokio::test]
async fn jobs_wait_while_the_engine_is_not_available() {
    for availability in [Availability::NotReady, Availability::Stopped] {
        let bench = Bench::new([Script::Finish]);
        let id = bench.submit(1, None).await;
        let set = |availability| {
            *bench.available.lock().expect("no test panics with it") = availability;
        };
        set(availability);
        let job = bench.while_running(async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
                bench.timer.advance(IDLE);
                assert_eq!(bench.job(id).await.status, JobStatus::Queued);
            }
            set(Availability::Ready);
            tokio::task::yield_now().await;
            bench.timer.advance(IDLE);
            bench.ended(id).await
        });
        assert_eq!(job.await.status, JobStatus::Succeeded);
    }
}

#[tokio::test]
async fn a_failing_job_fails_alone() {
    let bench = Bench::new([Script::Fail("it broke"), Script::Finish]);
    let (first, second) = (bench.submit(1, None).await, bench.submit(2, None).await);
    let job = bench.while_running(bench.ended(first)).await;
    assert_eq!(
        (
            job.status,
            job.error.as_ref().map(|error| error.message.as_str())
        ),
        (JobStatus::Failed, Some("it broke"))
    );
    assert_eq!(
        bench.while_running(bench.ended(second)).await.status,
        JobStatus::Succeeded
    );
}

#[tokio::test]
async fn a_running_job_is_canceled_on_request() {
    let bench = Bench::new([Script::Hang]);
    let id = bench.submit(1, None).await;
    let job = bench
        .while_running(async {
            bench.begun().await;
            let view = bench
                .jobs
                .cancel(&AccountId::local(), id, bench.timer.now())
                .await
                .expect("it can be canceled");
            assert_eq!(view.job.status, JobStatus::Canceling);
            bench.ended(id).await
        })
        .await;
    assert_eq!((job.status, job.progress.value), (JobStatus::Canceled, 0.5));
}

#[tokio::test]
async fn a_cancel_between_claim_and_run_is_not_lost() {
    let bench = Bench::new([Script::Hang]);
    let id = bench.submit(1, None).await;
    let claim = bench
        .worker
        .claim()
        .await
        .expect("an answer")
        .expect("the job is next");
    bench
        .jobs
        .cancel(&AccountId::local(), id, bench.timer.now())
        .await
        .expect("it can be canceled");
    bench
        .worker
        .run_claim(claim, Seat::default(), &bench.halt)
        .await;
    assert_eq!(bench.job(id).await.status, JobStatus::Canceled);
}

#[tokio::test]
async fn a_job_that_runs_too_long_expires() {
    let bench = Bench::new([Script::Hang]);
    let id = bench.submit(1, None).await;
    let job = bench
        .while_running(async {
            bench.begun().await;
            bench.timer.advance(Duration::from_secs(600));
            bench.ended(id).await
        })
        .await;
    assert_eq!(job.status, JobStatus::Expired);
}

#[tokio::test]
async fn a_draining_worker_gives_its_job_back_and_the_next_one_runs_it() {
    let bench = Bench::new([Script::Hang, Script::Commit(0)]);
    let id = bench.submit(1, None).await;
    let slot = bench.worker.run_slot(&bench.draining, &bench.halt);
    let drain = async {
        bench.begun().await;
        bench.draining.cancel();
        bench.halt.cancel();
    };
    tokio::join!(slot, drain);
    let job = bench.job(id).await;
    assert_eq!(
        (job.status, job.lost_claims, job.progress.value),
        (JobStatus::Queued, 0, 0.5)
    );

    let (draining, halt) = (CancellationToken::new(), CancellationToken::new());
    let job = tokio::select! {
        job = bench.ended(id) => job,
        () = bench.worker.run_slot(&draining, &halt) => panic!("the slot ended too early"),
    };
    assert_eq!((job.status, job.outputs.len()), (JobStatus::Succeeded, 1));
}

#[tokio::test]
async fn a_secret_reaches_the_run_and_is_then_forgotten() {
    let bench = Bench::new([Script::Finish]);
    let id = bench.submit(1, Some("s3cret")).await;
    let secret = bench
        .while_running(async {
            let secret = bench.begun().await;
            bench.ended(id).await;
            secret
        })
        .await;
    assert_eq!(secret.as_deref(), Some("s3cret"));
    assert!(bench.worker.ports.secrets.get(id).is_none());
}

#[tokio::test]
async fn a_job_whose_secret_is_lost_fails_and_says_so() {
    let bench = Bench::new([]);
    let id = bench.submit(1, Some("s3cret")).await;
    bench.worker.ports.secrets.forget(id);
    let job = bench.while_running(bench.ended(id)).await;
    assert_eq!(
        job.error.as_ref().map(|error| error.code),
        Some(JobErrorCode::SecretLost)
    );
}

#[tokio::test]
async fn the_end_of_a_job_is_saved_once_the_store_takes_it_again() {
    let bench = Bench::new([Script::Finish]);
    let id = bench.submit(1, None).await;
    bench.store.failures.store(3, Ordering::SeqCst);
    let job = bench
        .while_running(async {
            bench.begun().await;
            let wake = async {
                loop {
                    bench.timer.advance(Duration::from_millis(50));
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                job = bench.ended(id) => job,
                () = wake => unreachable!("the clock never stops"),
            }
        })
        .await;
    assert_eq!(
        (job.status, bench.store.failures.load(Ordering::SeqCst)),
        (JobStatus::Succeeded, 0)
    );
}

#[tokio::test]
async fn progress_between_commits_is_written_down() {
    let bench = Bench::new([Script::Hang]);
    let id = bench.submit(1, None).await;
    bench
        .while_running(async {
            bench.begun().await;
            while bench.job(id).await.progress.value < 0.5 {
                bench.timer.advance(Duration::from_secs(1));
                tokio::task::yield_now().await;
            }
        })
        .await;
}

#[tokio::test]
async fn a_zombie_can_neither_commit_nor_finish() {
    let bench = Bench::new([]);
    let id = bench.submit(1, None).await;
    let first = bench
        .worker
        .claim()
        .await
        .expect("an answer")
        .expect("the job is next");
    let zombie = sink::Sink::new(&bench.worker, &first);
    bench.timer.advance(Duration::from_secs(31));
    bench.worker.reap().await.expect("an answer");
    let second = bench
        .worker
        .claim()
        .await
        .expect("an answer")
        .expect("the job is next again");

    let context = RunContext {
        secret: None,
        fence: first.job.epoch,
        cancel: CancellationToken::new(),
        seat: Seat::default(),
        sink: zombie,
    };
    assert!(matches!(
        commit(&context, 0, "late").await,
        Err(CommitError::Superseded)
    ));
    assert_eq!(bench.job(id).await.outputs, []);
    let mut job = Job::clone(&second.job);
    job.apply(
        JobEvent::Finished {
            epoch: second.job.epoch,
        },
        bench.timer.now(),
    )
    .expect("the claim counts");
    let save = SaveJob {
        job,
        outputs: Vec::new(),
        log: None,
        durability: Durability::Now,
    };
    assert!(matches!(
        bench.store.save(save).await.expect("an answer"),
        SaveOutcome::Saved(_)
    ));
}
