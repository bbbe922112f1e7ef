//! The hub of one replica: order, laps, and that nobody hears of another account.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::*;
use crate::{Epoch, JobEvent, Metadata, WorkerId};

fn account(name: &str) -> AccountId {
    name.parse().expect("a valid name")
}

fn job(n: u128, of: &str) -> Job {
    Job {
        id: JobId(Uuid::from_u128(n)),
        account: account(of),
        revision: 0,
        status: JobStatus::Queued,
        epoch: Epoch(0),
        worker: None,
        lost_claims: 0,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
        started_at: None,
        completed_at: None,
        expires_at: Timestamp::MAX,
        retention: SignedDuration::ZERO,
        progress: Progress::start(1),
        outputs: Vec::new(),
        error: None,
        metadata: Metadata::new(),
    }
}

fn after(job: &Job, event: JobEvent) -> Job {
    let mut job = job.clone();
    job.apply(event, Timestamp::UNIX_EPOCH)
        .expect("a legal event");
    job.revision += 1;
    job
}

fn running(n: u128, of: &str) -> Job {
    let worker = WorkerId(Uuid::nil());
    after(&job(n, of), JobEvent::Claimed { worker })
}

fn started(node: &str) -> NodeEvent {
    NodeEvent::Started {
        node: node.into(),
        class: "X".to_owned(),
    }
}

fn picture(byte: u8, size: usize) -> Preview {
    Preview {
        node_id: "1".into(),
        content_type: "image/png",
        bytes: Bytes::from(vec![byte; size]),
    }
}

fn publish(hub: &Hub, job: &Job) {
    hub.publish(job.id, JobChange::Saved(Arc::new(job.clone())));
}

/// What a follower hears next, in a word.
async fn next(follower: &mut AccountFollower) -> String {
    match follower.next().await {
        AccountTold::Snapshot(reports) => {
            let nodes = reports.iter().map(|(_, report)| report.nodes.len());
            format!("snapshot {:?}", nodes.collect::<Vec<_>>())
        }
        AccountTold::News(news) => match &news.event {
            AccountEvent::Saved(job) => format!("{} {}", news.job.0.as_u128(), job.status.name()),
            AccountEvent::Node(NodeEvent::Started { node, .. }) => format!("started {node}"),
            AccountEvent::Node(_) => "node".to_owned(),
            AccountEvent::StoppedAt(node) => format!("stopped {node}"),
            AccountEvent::Preview(picture) => format!("preview {}", picture.bytes[0]),
            AccountEvent::Frame(picture) => format!("frame {}", picture.bytes[0]),
            AccountEvent::Text { line, .. } => format!("text {line}"),
        },
    }
}

#[tokio::test]
async fn an_account_hears_its_jobs_in_order_and_no_others() {
    let hub = Hub::new();
    let mut follower = hub.follow_account(&account("a"));
    assert_eq!(next(&mut follower).await, "snapshot []");
    let mine = running(1, "a");
    publish(&hub, &mine);
    publish(&hub, &running(2, "b"));
    hub.publish(JobId(Uuid::from_u128(2)), JobChange::Node(started("9")));
    hub.publish(mine.id, JobChange::Node(started("1")));
    let line = "half".to_owned();
    let node = "1".into();
    hub.publish(mine.id, JobChange::Text { node, line });
    publish(&hub, &after(&mine, JobEvent::Finished { epoch: Epoch(1) }));
    for told in ["1 running", "started 1", "text half", "1 succeeded"] {
        assert_eq!(next(&mut follower).await, told);
    }
}

#[tokio::test]
async fn a_new_follower_begins_with_what_runs_told_so_far() {
    let hub = Hub::new();
    let mine = running(1, "a");
    publish(&hub, &mine);
    hub.publish(mine.id, JobChange::Node(started("1")));
    let mut late = hub.follow_account(&account("a"));
    hub.publish(mine.id, JobChange::Node(started("2")));
    assert_eq!(next(&mut late).await, "snapshot [2]");
    hub.publish(mine.id, JobChange::Node(started("3")));
    assert_eq!(next(&mut late).await, "started 3");
    publish(&hub, &after(&mine, JobEvent::Finished { epoch: Epoch(1) }));
    let mut later = hub.follow_account(&account("a"));
    assert_eq!(next(&mut later).await, "snapshot []");
}

#[tokio::test]
async fn a_job_that_is_over_is_not_told_of_as_new() {
    let hub = Hub::new();
    let mut follower = hub.follow_account(&account("a"));
    next(&mut follower).await;
    let (new, claimed) = (job(1, "a"), running(1, "a"));
    let _submitter = hub.follow(&new.account, new.id);
    publish(&hub, &claimed);
    publish(&hub, &new);
    publish(
        &hub,
        &after(&claimed, JobEvent::Finished { epoch: Epoch(1) }),
    );
    publish(&hub, &new);
    publish(&hub, &running(2, "a"));
    for told in ["1 running", "1 succeeded", "2 running"] {
        assert_eq!(next(&mut follower).await, told);
    }
}

#[tokio::test]
async fn whoever_falls_behind_begins_again() {
    let hub = Hub::new();
    let mine = running(1, "a");
    publish(&hub, &mine);
    let mut slow = hub.follow_account(&account("a"));
    let mut quick = hub.follow_account(&account("a"));
    next(&mut slow).await;
    next(&mut quick).await;
    for n in 0..20_000 {
        hub.publish(mine.id, JobChange::Node(started(&n.to_string())));
        assert_eq!(next(&mut quick).await, format!("started {n}"));
    }
    assert_eq!(next(&mut slow).await, "snapshot [20000]");
    hub.publish(mine.id, JobChange::Node(started("x")));
    assert_eq!(next(&mut slow).await, "started x");
}

#[tokio::test]
async fn a_newer_preview_takes_the_place_of_one_that_waits() {
    let hub = Hub::new();
    let mine = running(1, "a");
    publish(&hub, &mine);
    let mut follower = hub.follow_account(&account("a"));
    next(&mut follower).await;
    for byte in 1..=100 {
        let preview = picture(byte, 100_000);
        hub.publish(mine.id, JobChange::Preview(preview));
    }
    hub.publish(mine.id, JobChange::Node(started("1")));
    assert_eq!(next(&mut follower).await, "preview 100");
    assert_eq!(next(&mut follower).await, "started 1");
}

#[tokio::test]
async fn a_finished_picture_waits_for_every_follower() {
    let hub = Arc::new(Hub::new());
    let mine = running(1, "a");
    publish(&hub, &mine);
    // Nobody follows: nobody is waited for.
    assert!(hub.frame(mine.id, picture(0, 10)).await);
    let mut one = hub.follow_account(&account("a"));
    let mut other = hub.follow_account(&account("a"));
    next(&mut one).await;
    next(&mut other).await;
    let showing = {
        let hub = Arc::clone(&hub);
        tokio::spawn(async move {
            for byte in 1..=3 {
                // Larger than the ring: one is kept all the same.
                hub.frame(JobId(Uuid::from_u128(1)), picture(byte, 1 << 20))
                    .await;
            }
        })
    };
    for byte in 1..=2 {
        assert_eq!(next(&mut one).await, format!("frame {byte}"));
        assert_eq!(next(&mut other).await, format!("frame {byte}"));
    }
    assert_eq!(next(&mut one).await, "frame 3");
    assert!(!showing.is_finished());
    drop(other);
    showing.await.expect("the maker goes on without who left");
}

#[tokio::test]
async fn a_finished_picture_is_refused_where_its_follower_may_be_at_another_replica() {
    let jobs = crate::MemoryJobs::new(asset_store::MemoryRecords::new());
    let _other = jobs.of_another_replica();
    let hub = Hub::over(Arc::new(jobs));
    let mine = running(1, "a");
    publish(&hub, &mine);
    let _stranger = hub.follow_account(&account("b"));
    assert!(!hub.frame(mine.id, picture(0, 10)).await);
    let of_job = hub.follow(&account("a"), mine.id);
    assert!(hub.frame(mine.id, picture(0, 10)).await);
    drop(of_job);
    assert!(!hub.frame(mine.id, picture(0, 10)).await);
    let mut of_account = hub.follow_account(&account("a"));
    next(&mut of_account).await;
    let shown = hub.frame(mine.id, picture(7, 10));
    let (shown, taken) = tokio::join!(shown, next(&mut of_account));
    assert!(shown);
    assert_eq!(taken, "frame 7");
}

#[test]
fn nothing_is_kept_of_accounts_that_nobody_follows_and_that_run_nothing() {
    let hub = Hub::new();
    let follower = hub.follow_account(&account("a"));
    let mine = running(1, "a");
    publish(&hub, &mine);
    drop(follower);
    hub.publish(mine.id, JobChange::Node(started("1")));
    publish(&hub, &after(&mine, JobEvent::Finished { epoch: Epoch(1) }));
    let topics = hub.topics();
    assert!(topics.accounts.is_empty() && topics.jobs.is_empty());
}

mod replicas;

/// A waker that records whether it was called.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_run_is_stopped_by_a_cancel_of_its_job_and_woken_by_nothing_else() {
    let hub = Hub::new();
    let (first, second) = (running(1, "a"), running(2, "a"));
    let (earlier, run) = (CancellationToken::new(), CancellationToken::new());
    publish(&hub, &first);
    publish(&hub, &second);
    hub.stop_if_canceled(first.id, &earlier);
    hub.stop_if_canceled(first.id, &run);
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let is_woken = || woken.0.load(Ordering::SeqCst);
    let waker = Waker::from(Arc::clone(&woken));
    let mut stopped = pin!(run.cancelled());
    let polled = stopped.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    hub.publish(first.id, JobChange::Node(started("1")));
    hub.publish(first.id, JobChange::Progress(Progress::start(1)));
    hub.publish(first.id, JobChange::Preview(picture(1, 1)));
    let canceled = |job: &Job| after(job, JobEvent::CancelRequested);
    publish(&hub, &canceled(&second));
    assert!(!is_woken());
    publish(&hub, &canceled(&first));
    assert!(is_woken() && !earlier.is_cancelled());

    let late = CancellationToken::new();
    hub.stop_if_canceled(second.id, &late);
    assert!(late.is_cancelled(), "it was canceled before");
    // A job that is over leaves nothing behind.
    publish(
        &hub,
        &after(&canceled(&first), JobEvent::Stopped { epoch: Epoch(1) }),
    );
    hub.stop_if_canceled(first.id, &CancellationToken::new());
    assert!(!hub.topics().jobs.contains_key(&first.id));
}
