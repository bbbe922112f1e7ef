//! A second engine beside the native one: its workers vanish, its order is its own, and it refuses what only it can judge.

use std::sync::atomic::AtomicBool;

use serde_json::json;

use super::*;
use crate::{JobQuery, JobsError, NodeId, Progress};

mod refusals;

/// What happens to a run of the second engine.
pub(super) enum Fate {
    /// Tells these events, commits this many outputs, and loses its worker.
    Lost(Vec<NodeEvent>, u32),
    /// Finds that no worker takes jobs any more.
    NoWorker,
    /// Tells these events and finishes.
    Done(Vec<NodeEvent>),
    /// Finds that the graph is invalid.
    Refused,
}

/// An engine that stands for a pool of workers.
#[derive(Default)]
pub(super) struct Remote {
    fates: Mutex<VecDeque<Fate>>,
    is_full: AtomicBool,
    is_silent: AtomicBool,
    is_idle: AtomicBool,
    refuses: AtomicBool,
}

fn refusal() -> Refusal {
    let errors =
        json!({ "2": { "errors": [{ "type": "value_not_in_list", "message": "no such model" }] } });
    Refusal {
        message: "the worker refused the workflow".to_owned(),
        node_errors: errors.as_object().cloned().unwrap_or_default(),
    }
}

#[async_trait]
impl EngineWorkers for Remote {
    async fn judge(&self, _: &Ticket) -> Result<(), Refusal> {
        if self.is_silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        match self.refuses.load(Ordering::SeqCst) {
            true => Err(refusal()),
            false => Ok(()),
        }
    }

    fn is_idle_for(&self, needs: &Requirements) -> bool {
        self.is_idle.load(Ordering::SeqCst) && self.capacity(needs) > 0
    }

    fn start_time(&self) -> Option<Duration> {
        None
    }

    fn explain(&self, _: JobId, needs: &Requirements) -> Vec<WorkerNote> {
        let why_not = (self.capacity(needs) == 0).then(|| "full".to_owned());
        let worker = "far".to_owned();
        vec![WorkerNote {
            worker,
            has_job: false,
            why_not,
        }]
    }
}

#[async_trait]
impl Engine for Remote {
    fn availability(&self) -> Availability {
        Availability::Ready
    }

    fn nodes(&self) -> NodeCatalog {
        NodeCatalog::new([class("Known"), class("Far")])
    }

    fn capacity(&self, needs: &Requirements) -> usize {
        let has = |class: &String| self.nodes().get(class).is_some();
        let is_full = self.is_full.load(Ordering::SeqCst);
        usize::from(!is_full && needs.classes.iter().all(has))
    }

    fn model_files(&self, graph: &ValidGraph) -> BTreeSet<ModelFile> {
        let file = |node: &NodeId| ModelFile {
            folder: "checkpoints".to_owned(),
            name: node.to_string(),
        };
        graph.nodes.keys().map(file).collect()
    }

    fn workers(&self) -> Option<&dyn EngineWorkers> {
        Some(self)
    }

    async fn run(&self, _: Ticket, context: RunContext) -> Result<(), RunError> {
        context.permit.move_out();
        let fate = self
            .fates
            .lock()
            .expect("no test panics with it")
            .pop_front();
        match fate.expect("the test says what happens") {
            Fate::Lost(events, outputs) => {
                tell(&context, events).await;
                for index in 0..outputs {
                    commit(&context, index, "bytes")
                        .await
                        .expect("the sink takes it");
                }
                Err(RunError::Lost)
            }
            Fate::NoWorker => {
                self.is_full.store(true, Ordering::SeqCst);
                Err(RunError::NoWorker)
            }
            Fate::Done(events) => {
                tell(&context, events).await;
                Ok(())
            }
            Fate::Refused => Err(RunError::Failed(refusal().into())),
        }
    }
}

/// Tells events, each one after everybody has seen the one before.
async fn tell(context: &RunContext, events: Vec<NodeEvent>) {
    for event in events {
        context.sink.progress(event);
        idle().await;
    }
}

const FAR: &str = r#"{"1": {"class_type": "Known", "inputs": {}}, "2": {"class_type": "Far", "inputs": {}},
    "3": {"class_type": "Far", "inputs": {}}, "4": {"class_type": "Far", "inputs": {}}}"#;

fn bench(fates: impl IntoIterator<Item = Fate>) -> Bench {
    let bench = Bench::new([]);
    let mut known = bench.remote.fates.lock().expect("no test panics with it");
    known.extend(fates);
    drop(known);
    bench
}

async fn submit(bench: &Bench, n: u128, workflow: &str) -> Result<JobId, JobsError> {
    let submitted = bench
        .jobs
        .submit(submission(n, workflow), bench.timer.now())
        .await;
    Ok(submitted?.view.job.id)
}

async fn needs(bench: &Bench, id: JobId) -> Requirements {
    let body = bench
        .jobs
        .body(&AccountId::local(), id, bench.timer.now())
        .await;
    let body = body.expect("the job is there");
    body.placement
        .requirements
        .read()
        .expect("this version wrote it")
}

fn started(node: &str) -> NodeEvent {
    NodeEvent::Started {
        node: node.into(),
        class: "Far".to_owned(),
    }
}

fn finished(node: &str) -> NodeEvent {
    NodeEvent::Finished { node: node.into() }
}

fn step(node: &str, step: u32) -> NodeEvent {
    NodeEvent::Step {
        node: node.into(),
        step,
        steps: 4,
    }
}

#[tokio::test]
async fn the_preferred_engine_runs_what_it_can_and_another_the_rest() {
    let bench = bench([]);
    let near = submit(&bench, 1, r#"{"1": {"class_type": "Known", "inputs": {}}}"#).await;
    let near = needs(&bench, near.expect("a good submission")).await;
    assert_eq!(near.engine.as_str(), "native");
    assert!(near.files.is_empty());
    let far = submit(&bench, 2, FAR).await.expect("a good submission");
    let far = needs(&bench, far).await;
    assert_eq!(far.engine.as_str(), "remote");
    assert_eq!(far.classes, ["Far", "Known"].map(str::to_owned).into());
    assert_eq!(far.files.len(), 4);
    assert_eq!(bench.jobs.nodes().len(), 2, "each class once");
    let unknown = submit(
        &bench,
        3,
        r#"{"1": {"class_type": "Nowhere", "inputs": {}}}"#,
    )
    .await;
    assert!(matches!(unknown, Err(JobsError::Invalid(_))));
}

#[tokio::test]
async fn an_engine_that_is_full_holds_up_nothing_of_another() {
    let bench = bench([Fate::Done(Vec::new())]);
    bench.remote.is_full.store(true, Ordering::SeqCst);
    let far = submit(&bench, 1, FAR).await.expect("a good submission");
    let near = bench.submit(2, None).await;
    assert_eq!(
        bench.while_running(bench.ended(near)).await.status,
        JobStatus::Succeeded
    );
    assert_eq!(bench.job(far).await.status, JobStatus::Queued);
    bench.remote.is_full.store(false, Ordering::SeqCst);
    assert_eq!(
        bench.while_running(bench.ended(far)).await.status,
        JobStatus::Succeeded
    );
}

#[tokio::test]
async fn a_lost_run_is_tried_once_more_and_progress_never_goes_back() {
    let first = vec![
        NodeEvent::Cached(vec!["4".into()]),
        started("3"),
        step("3", 3),
        finished("3"),
        started("elsewhere"),
        finished("elsewhere"),
    ];
    let second = vec![
        NodeEvent::Cached(Vec::new()),
        started("2"),
        step("2", 1),
        step("2", 1),
        finished("2"),
        finished("2"),
        finished("3"),
    ];
    let bench = bench([Fate::Lost(first, 0), Fate::Done(second)]);
    let id = submit(&bench, 1, FAR).await.expect("a good submission");
    let mut follower = bench.jobs.follow_account(&AccountId::local());
    let mut shown: Vec<Progress> = Vec::new();
    let job = bench
        .while_running(async {
            let ended = bench.ended(id);
            tokio::pin!(ended);
            loop {
                tokio::select! {
                    biased;
                    _ = follower.next() => shown.push(view(&bench, id).await),
                    job = &mut ended => break job,
                }
            }
        })
        .await;
    assert_eq!(
        (job.status, job.lost_claims, job.epoch),
        (JobStatus::Succeeded, 1, crate::Epoch(2))
    );
    assert!(shown.iter().all(|progress| progress.nodes_total == 4));
    for pair in shown.windows(2) {
        assert!(pair[0].value <= pair[1].value, "{pair:?}");
        assert!(pair[0].nodes_done <= pair[1].nodes_done, "{pair:?}");
    }
    let half = shown.iter().filter(|progress| progress.nodes_done == 2);
    assert!(half.count() > 1, "also when it runs again: {shown:?}");
}

async fn view(bench: &Bench, id: JobId) -> Progress {
    let view = bench
        .jobs
        .get(&AccountId::local(), id, bench.timer.now())
        .await;
    view.expect("the job is there").progress
}

#[tokio::test]
async fn a_run_that_is_lost_twice_or_after_an_output_fails() {
    for fates in [
        vec![Fate::Lost(Vec::new(), 0), Fate::Lost(Vec::new(), 0)],
        vec![Fate::Lost(Vec::new(), 1)],
    ] {
        let bench = bench(fates);
        let id = submit(&bench, 1, FAR).await.expect("a good submission");
        let job = bench.while_running(bench.ended(id)).await;
        let code = job.error.as_ref().map(|error| error.code);
        assert_eq!(
            (job.status, code),
            (JobStatus::Failed, Some(JobErrorCode::WorkerLost))
        );
        assert!(
            bench
                .remote
                .fates
                .lock()
                .expect("no test panics with it")
                .is_empty()
        );
    }
}

#[tokio::test]
async fn a_run_that_found_no_worker_waits_in_the_queue_again() {
    let bench = bench([Fate::NoWorker, Fate::NoWorker, Fate::Done(Vec::new())]);
    let id = submit(&bench, 1, FAR).await.expect("a good submission");
    let mut follower = bench.jobs.follow_account(&AccountId::local());
    for found_none in 1..=2 {
        let waits_again = async {
            loop {
                let job = bench.job(id).await;
                if (job.status, job.epoch) == (JobStatus::Queued, crate::Epoch(found_none)) {
                    return;
                }
                follower.next().await;
            }
        };
        bench.while_running(waits_again).await;
        bench.remote.is_full.store(false, Ordering::SeqCst);
    }
    let job = bench.while_running(bench.ended(id)).await;
    assert_eq!(
        (job.status, job.lost_claims, job.epoch),
        (JobStatus::Succeeded, 0, crate::Epoch(3)),
        "it counts as no lost claim, however often"
    );
}

#[tokio::test]
async fn a_submission_with_a_taken_id_leaves_the_job_of_that_id_alone() {
    let bench = bench([Fate::Refused]);
    let id = submit(&bench, 1, FAR).await.expect("a good submission");
    bench.remote.is_idle.store(true, Ordering::SeqCst);
    // Somebody follows the job, so the hub knows it.
    let now = bench.timer.now();
    let followed = bench.jobs.follow(&AccountId::local(), id, now).await;
    let taken = submit(&bench, 1, FAR).await;
    assert!(matches!(taken, Err(JobsError::IdTaken)), "{taken:?}");
    let job = bench.while_running(bench.ended(id)).await;
    assert_eq!(job.status, JobStatus::Failed);
    assert!(!job.is_withdrawn(), "nobody waited for its verdict");
    drop(followed);
}

#[tokio::test]
async fn a_job_that_waits_says_of_every_worker_why_it_does_not_take_it() {
    let bench = bench([Fate::Done(Vec::new())]);
    bench.remote.is_full.store(true, Ordering::SeqCst);
    let id = submit(&bench, 1, FAR).await.expect("a good submission");
    let explain = async || {
        let account = AccountId::local();
        let explained = bench.jobs.explain(&account, id, bench.timer.now()).await;
        explained.expect("the job is there")
    };
    let waits = explain().await;
    assert_eq!(waits.engine, Some("remote".into()));
    assert_eq!(
        (waits.status, waits.queue_position),
        (JobStatus::Queued, Some(0))
    );
    assert_eq!((waits.account_running, waits.account_room), (0, 100));
    let note = |why_not: Option<&str>| WorkerNote {
        worker: "far".to_owned(),
        has_job: false,
        why_not: why_not.map(str::to_owned),
    };
    assert_eq!(waits.workers, [note(Some("full"))]);
    bench.remote.is_full.store(false, Ordering::SeqCst);
    assert_eq!(explain().await.workers, [note(None)]);
    bench.while_running(bench.ended(id)).await;
    assert_eq!(explain().await.workers, []);
}
