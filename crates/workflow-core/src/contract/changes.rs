//! The rules of [`Changes`], and what a hub makes of them: two replicas over one store.

use futures_util::FutureExt;

use super::*;
use crate::{
    Change, ChangeKind, ChangeNumber, Changes, ChangesSince, JobChange, NodeEvent, Report,
};

/// The handles of two replicas.
pub type Replicas = [(Stores, Arc<dyn Changes>); 2];

/// How often a suite asks for changes before it takes what it waits for as lost. A store may answer in pieces.
const MOST_ASKED: usize = 10_000;

/// Runs every rule on two handles of a fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn changes(fresh: impl Fn() -> Replicas) {
    each_revision_comes_to_the_other_replica_and_to_no_one_else(fresh()).await;
    what_a_run_reports_comes_in_order_behind_its_claim(fresh()).await;
    who_has_seen_nothing_reads_the_rows(fresh()).await;
    who_is_far_behind_is_told_so_and_goes_on(fresh()).await;
}

/// The position of a replica that begins now.
async fn begin(changes: &dyn Changes) -> ChangeNumber {
    match changes.since(None).await.expect("the store answers") {
        ChangesSince::Missed(next) => next,
        told @ ChangesSince::Changes(..) => panic!("a replica that saw nothing heard {told:?}"),
    }
}

/// Asks for changes until there is one that fits; all until then.
async fn until(
    changes: &dyn Changes,
    after: &mut ChangeNumber,
    fits: impl Fn(&Change) -> bool,
) -> Vec<Change> {
    let mut all = Vec::new();
    for _ in 0..MOST_ASKED {
        let since = changes.since(Some(*after)).await;
        match since.expect("the store answers") {
            ChangesSince::Changes(new, next) => {
                assert!(next >= *after, "a position goes back");
                *after = next;
                all.extend(new);
            }
            ChangesSince::Missed(_) => panic!("few changes are kept"),
        }
        if all.iter().any(&fits) {
            return all;
        }
    }
    panic!("a change did not come: {all:?}");
}

fn is_saved(of: &Job) -> impl Fn(&Change) -> bool {
    let (id, revision) = (of.id, of.revision);
    move |change| {
        let saved =
            matches!(change.kind, ChangeKind::Saved { revision: known, .. } if known >= revision);
        change.job == id && saved
    }
}

async fn each_revision_comes_to_the_other_replica_and_to_no_one_else(replicas: Replicas) {
    let [(first, own), (second, others)] = &replicas;
    let (mut mine, mut theirs) = (begin(&**own).await, begin(&**others).await);
    let queued = submit(first, insert_of(1, "a")).await;
    let heard = until(&**others, &mut theirs, is_saved(&queued)).await;
    assert_eq!(heard[0].account, account("a"));
    let status = |change: &Change| match change.kind {
        ChangeKind::Saved { status, .. } => Some(status),
        ChangeKind::Reported(_) => None,
    };
    assert_eq!(status(&heard[0]), Some(JobStatus::Queued));
    // What a change tells is there to be read.
    assert_eq!(load(second, &queued, at(2)).await, Some(queued.clone()));

    let running = claim(first, 1, at(10)).await.expect("the job is next").job;
    until(&**others, &mut theirs, is_saved(&running)).await;
    let wish = JobEvent::CancelRequested;
    let canceling = apply(second, &running, wish, Vec::new(), at(11)).await;
    let heard = until(&**own, &mut mine, is_saved(&canceling)).await;
    let by_others = heard.iter().all(is_saved(&canceling));
    assert!(by_others, "a replica heard what it did itself: {heard:?}");
    let stopped = JobEvent::Stopped {
        epoch: canceling.epoch,
    };
    let over = apply(first, &canceling, stopped, Vec::new(), at(12)).await;
    let heard = until(&**others, &mut theirs, is_saved(&over)).await;
    assert_eq!(heard.last().and_then(status), Some(JobStatus::Canceled));
    // What lapses for one replica is another's change as well.
    submit(second, insert_of(2, "b")).await;
    let reaped = second.queue.reap(at(50), at(51)).await.expect("an answer");
    let heard = until(&**own, &mut mine, is_saved(&reaped[0])).await;
    assert_eq!(heard.last().and_then(status), Some(JobStatus::Expired));
}

async fn what_a_run_reports_comes_in_order_behind_its_claim(replicas: Replicas) {
    let [(first, own), (_, others)] = &replicas;
    let mut theirs = begin(&**others).await;
    submit(first, insert_of(1, "a")).await;
    let job = claim(first, 1, at(10)).await.expect("the job is next").job;
    let text = |line: &str| JobChange::Text {
        node: "9".into(),
        line: line.to_owned(),
    };
    own.publish(job.id, &job.account, &text("first"));
    own.publish(job.id, &job.account, &JobChange::Saved(job.clone()));
    let node = NodeEvent::Finished { node: "9".into() };
    own.publish(job.id, &job.account, &JobChange::Node(node.clone()));
    let executed = NodeEvent::Executed {
        node: "9".into(),
        ui: serde_json::json!({"images": []}),
    };
    let mut over = Job::clone(&job);
    let end = JobEvent::Finished { epoch: job.epoch };
    over.apply(end, at(12)).expect("the event fits");
    let with_its_end = [Report::Node(executed), Report::StoppedAt("9".into())];
    let save = SaveJob {
        job: over,
        outputs: Vec::new(),
        log: None,
        reports: with_its_end.to_vec(),
        durability: Durability::Now,
    };
    let saved = first.jobs.save(save).await.expect("an answer");
    let SaveOutcome::Saved(over) = saved else {
        panic!("{saved:?}");
    };
    let heard = until(&**others, &mut theirs, is_saved(&over)).await;
    let place = |change: &dyn Fn(&Change) -> bool| heard.iter().position(change);
    let claimed = place(&is_saved(&job)).expect("the claim comes");
    let reports: Vec<(usize, &Report)> = heard
        .iter()
        .enumerate()
        .filter_map(|(place, change)| match &change.kind {
            ChangeKind::Reported(report) => Some((place, report)),
            ChangeKind::Saved { .. } => None,
        })
        .collect();
    // Some may be left out, and those that come are in order.
    let all = [
        Report::of(&text("first")),
        Report::of(&JobChange::Node(node)),
    ];
    let mut rest = all.iter().flatten().chain(&with_its_end);
    for (place, report) in &reports {
        assert!(claimed < *place, "{heard:?}");
        assert!(rest.any(|known| known == *report), "{heard:?}");
    }
    let ended = place(&is_saved(&over)).expect("the end comes");
    let before: Vec<Option<&Report>> = heard[ended.saturating_sub(2)..ended]
        .iter()
        .map(|change| match &change.kind {
            ChangeKind::Reported(report) => Some(report),
            ChangeKind::Saved { .. } => None,
        })
        .collect();
    assert_eq!(before, with_its_end.each_ref().map(Some), "{heard:?}");
}

async fn who_has_seen_nothing_reads_the_rows(replicas: Replicas) {
    let [(first, _), (second, others)] = &replicas;
    let job = submit(first, insert_of(1, "a")).await;
    let mut theirs = begin(&**others).await;
    assert_eq!(load(second, &job, at(2)).await, Some(job));
    // What the rows had by then may come again, but what comes after must come.
    let later = submit(first, insert_of(2, "a")).await;
    until(&**others, &mut theirs, is_saved(&later)).await;
}

async fn who_is_far_behind_is_told_so_and_goes_on(replicas: Replicas) {
    const MANY: usize = 20_000;
    let [(first, own), (_, others)] = &replicas;
    let start = begin(&**others).await;
    submit(first, insert_of(1, "a")).await;
    let job = claim(first, 1, at(10)).await.expect("the job is next").job;
    for step in 0..MANY {
        let line = step.to_string();
        let node = "9".into();
        own.publish(job.id, &job.account, &JobChange::Text { node, line });
    }
    let last = apply(first, &job, advanced(&job), Vec::new(), at(11)).await;
    let (mut after, mut told, mut has_missed) = (start, Vec::new(), false);
    for _ in 0..MOST_ASKED {
        match others.since(Some(after)).await.expect("an answer") {
            ChangesSince::Changes(new, next) => {
                told.extend(new);
                after = next;
            }
            ChangesSince::Missed(next) => {
                // It reads the rows then, which have the last revision.
                has_missed = true;
                after = next;
                break;
            }
        }
        if told.iter().any(is_saved(&last)) {
            break;
        }
    }
    assert!(has_missed || told.iter().any(is_saved(&last)));
    let later = submit(first, insert_of(2, "a")).await;
    until(&**others, &mut after, is_saved(&later)).await;
    // Nothing more: whoever asks waits.
    let waits = others.since(Some(after)).now_or_never();
    assert!(
        waits.is_none_or(|told| matches!(told, Ok(ChangesSince::Changes(..)))),
        "nothing was missed"
    );
}
