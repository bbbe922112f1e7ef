//! The hub of a replica that hears of another one over jobs in memory.

use std::time::Duration;

use asset_store::MemoryRecords;
use async_trait::async_trait;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::blocking_pool::tests::AtOnce;
use crate::{
    ChangeNumber, ClaimRequest, Durability, Engines, InsertJob, InsertJobOutcome, JobBody,
    JobPorts, JobQueue, JobStore, MemoryJobs, Placement, QueueBounds, Report, RequirementSet,
    Requirements, ResolvedFiles, Rooms, SaveJob, SaveOutcome, Secrets, Timer,
};

/// A clock that stands still.
struct Still;

#[async_trait]
impl Timer for Still {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending::<()>().await;
    }
}

/// Two replicas: one that works on jobs, and one that hears of it.
struct Pair {
    store: MemoryJobs,
    works: Hub,
    hears: JobPorts,
}

impl Pair {
    fn new() -> Self {
        let store = MemoryJobs::new(MemoryRecords::new());
        let handle = Arc::new(store.of_another_replica());
        let works = Hub::over(Arc::new(store.of_another_replica()));
        let hears = JobPorts {
            store: handle.clone(),
            queue: handle.clone(),
            hub: Arc::new(Hub::over(handle)),
            engines: Engines::new([]),
            timer: Arc::new(Still),
            secrets: Secrets::new(WorkerId(Uuid::nil())),
            threads: Arc::new(AtOnce::default()),
        };
        Self {
            store,
            works,
            hears,
        }
    }

    async fn insert(&self, job: Job) {
        let body = JobBody {
            workflow: Bytes::new(),
            files: ResolvedFiles::new(),
            targets: None,
            extra_pnginfo: String::new(),
            origin: Bytes::new(),
            placement: Placement {
                requirements: needs(),
                account_room: 9,
                stored_bytes: None,
            },
            trace: None,
        };
        let insert = InsertJob {
            job,
            body,
            claim: None,
            inputs: Vec::new(),
            bounds: QueueBounds {
                account: 9,
                total: 9,
            },
        };
        let inserted = self.store.insert(insert, Timestamp::UNIX_EPOCH).await;
        let inserted = inserted.expect("memory answers");
        assert!(matches!(inserted, InsertJobOutcome::Inserted(_)));
    }

    /// Claims a job, the next one, at the replica that works.
    async fn claim(&self, job: &Job) -> Job {
        let request = ClaimRequest {
            worker: WorkerId(Uuid::nil()),
            sets: [needs().id()].into(),
            rooms: Rooms::default(),
            lease: Duration::from_secs(30),
        };
        let claim = self.store.claim(&request, Timestamp::UNIX_EPOCH).await;
        let claim = claim.expect("memory answers").expect("a job waits");
        assert_eq!(claim.job.id, job.id);
        publish(&self.works, &claim.job);
        Job::clone(&claim.job)
    }

    /// Lets an event happen at the replica that works.
    async fn happen(&self, job: &Job, event: JobEvent) -> Job {
        self.happen_behind(job, event, Vec::new()).await
    }

    /// The same, for an event that its run's reports come before.
    async fn happen_behind(&self, job: &Job, event: JobEvent, reports: Vec<Report>) -> Job {
        let mut next = job.clone();
        let applied = next.apply(event, Timestamp::UNIX_EPOCH);
        applied.expect("a legal event");
        let save = SaveJob {
            job: next,
            outputs: Vec::new(),
            log: None,
            durability: Durability::Now,
            reports,
        };
        let saved = self.store.save(save).await.expect("memory answers");
        let SaveOutcome::Saved(saved) = saved else {
            panic!("{saved:?}");
        };
        publish(&self.works, &saved);
        Job::clone(&saved)
    }

    /// Brings in the next changes.
    async fn hear(&self, after: &mut Option<ChangeNumber>) {
        let heard = self.hears.hub.follow_once(&self.hears, *after).await;
        *after = Some(heard.expect("memory answers"));
    }
}

fn needs() -> RequirementSet {
    Requirements::of_engine("x").to_set()
}

const FINISHED: JobEvent = JobEvent::Finished { epoch: Epoch(1) };

#[tokio::test]
async fn followers_hear_of_another_replica_in_order() {
    let pair = Pair::new();
    let hub = &pair.hears.hub;
    let mut after = None;
    pair.hear(&mut after).await;
    let mut follower = hub.follow_account(&account("a"));
    assert_eq!(next(&mut follower).await, "snapshot []");
    let (mine, others) = (job(1, "a"), job(2, "b"));
    pair.insert(mine.clone()).await;
    pair.insert(others.clone()).await;
    pair.hear(&mut after).await;
    let running = pair.claim(&mine).await;
    pair.claim(&others).await;
    pair.works.publish(mine.id, JobChange::Node(started("1")));
    pair.hear(&mut after).await;
    assert_eq!(hub.progress(mine.id), None);
    let progress = Progress::start(1);
    let change = JobChange::Progress(progress.clone());
    pair.works.publish(mine.id, change);
    pair.works.publish(others.id, JobChange::Node(started("9")));
    pair.hear(&mut after).await;
    assert_eq!(hub.progress(mine.id), Some(progress));
    pair.happen(&running, FINISHED).await;
    // A run that lost its claim and does not know it yet.
    pair.works.publish(mine.id, JobChange::Node(started("2")));
    pair.hear(&mut after).await;
    for told in ["1 queued", "1 running", "started 1", "1 succeeded"] {
        assert_eq!(next(&mut follower).await, told);
    }
    drop(follower);
    let topics = hub.topics();
    assert!(topics.jobs.is_empty(), "{:?}", topics.jobs.keys());
}

#[tokio::test]
async fn what_a_run_reported_comes_before_its_end_which_is_in_the_row_already() {
    let pair = Pair::new();
    let hub = &pair.hears.hub;
    let mut after = None;
    pair.hear(&mut after).await;
    let mine = job(1, "a");
    pair.insert(mine.clone()).await;
    let mut follower = hub.follow_account(&account("a"));
    assert_eq!(next(&mut follower).await, "snapshot []");
    let running = pair.claim(&mine).await;
    pair.hear(&mut after).await;
    // An output is saved, a node reports, and the job ends, all before the other replica looks.
    let advanced = JobEvent::Advanced {
        epoch: Epoch(1),
        progress: Progress::start(1),
    };
    let running = pair.happen(&running, advanced).await;
    pair.works.publish(mine.id, JobChange::Node(started("2")));
    pair.happen(&running, FINISHED).await;
    pair.hear(&mut after).await;
    for told in ["1 running", "started 2", "1 succeeded"] {
        assert_eq!(next(&mut follower).await, told);
    }
}

#[tokio::test]
async fn a_job_that_is_over_when_a_replica_looks_is_told_from_its_beginning() {
    let pair = Pair::new();
    let hub = &pair.hears.hub;
    let mut after = None;
    pair.hear(&mut after).await;
    let mut follower = hub.follow_account(&account("a"));
    assert_eq!(next(&mut follower).await, "snapshot []");
    let mine = job(1, "a");
    pair.insert(mine.clone()).await;
    let running = pair.claim(&mine).await;
    pair.works.publish(mine.id, JobChange::Node(started("1")));
    let held = vec![Report::Node(started("2"))];
    pair.happen_behind(&running, FINISHED, held).await;
    pair.hear(&mut after).await;
    let all = [
        "1 queued",
        "1 running",
        "started 1",
        "started 2",
        "1 succeeded",
    ];
    for told in all {
        assert_eq!(next(&mut follower).await, told);
    }
    drop(follower);
    assert!(hub.topics().jobs.is_empty());
}

#[tokio::test]
async fn what_others_did_to_a_job_before_it_ended_here_is_told_no_more() {
    let pair = Pair::new();
    let hub = &pair.hears.hub;
    let mut after = None;
    pair.hear(&mut after).await;
    let mut follower = hub.follow_account(&account("a"));
    assert_eq!(next(&mut follower).await, "snapshot []");
    let mine = job(1, "a");
    pair.insert(mine.clone()).await;
    let running = pair.claim(&mine).await;
    let over = pair.happen(&running, FINISHED).await;
    // As if this replica had made the end, and hears only of what came before it.
    publish(hub, &over);
    pair.hear(&mut after).await;
    publish(hub, &self::running(2, "a"));
    for told in ["1 succeeded", "1 succeeded", "2 running"] {
        assert_eq!(next(&mut follower).await, told);
    }
    assert_eq!(hub.topics().jobs.len(), 1);
}

#[tokio::test]
async fn a_replica_that_missed_changes_reads_the_rows() {
    let pair = Pair::new();
    let hub = &pair.hears.hub;
    let mut after = None;
    pair.hear(&mut after).await;
    let mine = job(1, "a");
    pair.insert(mine.clone()).await;
    let mut of_job = hub.follow(&mine.account, mine.id);
    let mut of_account = hub.follow_account(&account("a"));
    assert_eq!(next(&mut of_account).await, "snapshot []");
    let running = pair.claim(&mine).await;
    for n in 0..10_000 {
        let change = JobChange::Node(started(&n.to_string()));
        pair.works.publish(mine.id, change);
    }
    pair.happen(&running, FINISHED).await;
    pair.hear(&mut after).await;
    let latest = of_job.latest().job.expect("its row was read");
    assert_eq!(latest.status, JobStatus::Succeeded);
    assert_eq!(next(&mut of_account).await, "snapshot []");
    // From here on nothing is missed.
    pair.insert(job(2, "a")).await;
    pair.hear(&mut after).await;
    assert_eq!(next(&mut of_account).await, "2 queued");
}

#[tokio::test]
async fn a_replica_says_when_it_hears_of_the_others() {
    let pair = Pair::new();
    let hears = &pair.hears;
    let mut early = hears.hub.follow_account(&account("a"));
    assert_eq!(next(&mut early).await, "snapshot []");
    assert!(hears.hub.follows_replicas().now_or_never().is_none());
    let stop = CancellationToken::new();
    tokio::join!(hears.hub.follow_replicas(hears, &stop), async {
        hears.hub.follows_replicas().await;
        // Whoever came before that begins again, and nobody who comes after it.
        assert_eq!(next(&mut early).await, "snapshot []");
        let mut late = hears.hub.follow_account(&account("a"));
        assert_eq!(next(&mut late).await, "snapshot []");
        pair.insert(job(1, "a")).await;
        assert_eq!(next(&mut late).await, "1 queued");
        assert_eq!(next(&mut early).await, "1 queued");
        stop.cancel();
    });
}

#[tokio::test]
async fn an_old_row_of_a_job_that_ended_meanwhile_is_passed_over() {
    let hub = Hub::new();
    let mut follower = hub.follow_account(&account("a"));
    next(&mut follower).await;
    let mine = running(1, "a");
    let reads = hub.follow(&mine.account, mine.id);
    publish(&hub, &mine);
    publish(&hub, &after(&mine, FINISHED));
    hub.topics().publish_row(Arc::new(mine));
    drop(reads);
    publish(&hub, &running(2, "a"));
    for told in ["1 running", "1 succeeded", "2 running"] {
        assert_eq!(next(&mut follower).await, told);
    }
    assert_eq!(hub.topics().jobs.len(), 1);
}

#[test]
fn an_end_is_counted_by_the_replica_that_made_it() {
    let ended = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&ended);
    let hub = Hub::new().on_end(move |job| {
        let mut ended = hears.lock().expect("no test panics with it");
        ended.push((job.id, job.status));
    });
    let mine = running(1, "a");
    publish(&hub, &mine);
    let other = after(&running(2, "a"), FINISHED);
    let reads = hub.follow(&other.account, other.id);
    hub.topics().publish_row(Arc::new(other));
    publish(&hub, &after(&mine, FINISHED));
    drop(reads);
    let ended = ended.lock().expect("no test panics with it");
    assert_eq!(*ended, [(mine.id, JobStatus::Succeeded)]);
}

/// A crash of the database takes back revisions that followers have seen, and the end comes with a smaller one.
#[tokio::test]
async fn an_end_is_newer_than_what_a_crash_took_back() {
    let pair = Pair::new();
    let mut after = None;
    pair.hear(&mut after).await;
    let mine = job(1, "a");
    pair.insert(mine.clone()).await;
    let running = pair.claim(&mine).await;
    let mut follower = pair.hears.hub.follow(&mine.account, mine.id);
    let advanced = || JobEvent::Advanced {
        epoch: Epoch(1),
        progress: Progress::start(2),
    };
    let mut lost = running.clone();
    for _ in 0..3 {
        lost = pair.happen(&lost, advanced()).await;
    }
    pair.hear(&mut after).await;
    let mut seen = || follower.latest().job.map(|job| (job.status, job.revision));
    assert_eq!(seen(), Some((JobStatus::Running, lost.revision)));
    pair.store.take_back(&Arc::new(running.clone()));
    let ended = pair.happen(&running, FINISHED).await;
    assert!(ended.revision < lost.revision);
    pair.hear(&mut after).await;
    assert_eq!(seen(), Some((JobStatus::Succeeded, ended.revision)));
}
