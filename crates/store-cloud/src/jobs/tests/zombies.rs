//! What a worker writes whose claim lapsed changes nothing: whatever it writes, and whatever became of its job.
//!
//! `EASEL_ZOMBIES` is how many such writes are made.

use std::time::Duration;

use futures_util::future::join_all;
use workflow_core::{JobError, JobLog, LeaseNews, Progress, RunReport};

use super::*;

const ZOMBIES: &str = "EASEL_ZOMBIES";
/// How many unless the variable says so.
const FEW: u64 = 60;
/// That a worker is there is no matter of its claims.
const WORKERS: &str = "job_workers";

async fn claim_by(jobs: &PgJobs, worker: WorkerId) -> Claim {
    let request = ClaimRequest {
        worker,
        ..request()
    };
    let claimed = jobs.claim(&request, at(1)).await.expect("an answer");
    claimed.expect("the job is next")
}

/// Everything that a run saves, of a job as its claim had it.
fn saves(claimed: &Job, number: u128) -> Vec<SaveJob> {
    let epoch = claimed.epoch;
    let error = JobError::new(JobErrorCode::EngineError, "it broke");
    let advanced = || JobEvent::Advanced {
        epoch,
        progress: Progress::start(1),
    };
    let events = [
        (advanced(), false),
        (advanced(), true),
        (JobEvent::Finished { epoch }, false),
        (JobEvent::Finished { epoch }, true),
        (JobEvent::Failed { epoch, error }, true),
        (JobEvent::GivenBack { epoch }, false),
    ];
    let saves = events.into_iter().map(|(event, has_output)| {
        let mut job = claimed.clone();
        job.apply(event, at(50)).expect("it ran");
        let mut save = plain(job);
        if has_output {
            save.outputs = vec![output(number)];
            save.log = Some(JobLog {
                text: "late\n".to_owned(),
                truncated: false,
                captured_at: at(50),
                complete: true,
                report: RunReport::default(),
            });
        }
        save
    });
    saves.collect()
}

/// Applies an event to a job and saves it, which has to succeed.
async fn happens(jobs: &PgJobs, job: &Job, event: JobEvent) {
    let mut job = job.clone();
    job.apply(event, at(46)).expect("it may happen");
    let saved = jobs.save(plain(job)).await.expect("an answer");
    assert!(matches!(saved, SaveOutcome::Saved(_)), "{saved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_claim_lapsed_changes_nothing() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let watcher = testing::open(&url).await;
    let [first, second] = [testing::open(&url).await, testing::open(&url).await];
    let [first, second] = [first, second].map(|database| jobs(&database));
    let [late, other] = [1, 2].map(|n| WorkerId(Uuid::from_u128(n)));
    let most = testing::number(ZOMBIES, FEW);
    let mut writes: u64 = 0;
    for number in 1_u128.. {
        if writes >= most {
            break;
        }
        insert_for(&first, "acme", number).await;
        let claim = claim_by(&first, late).await;
        assert_eq!(claim.job.id.0, Uuid::from_u128(number));
        // Its lease is over while it sleeps.
        let reaped = second.reap(at(-1_000), at(40)).await.expect("an answer");
        let [waits] = &reaped[..] else {
            panic!("{reaped:?} lapsed")
        };
        // The job waits, runs elsewhere, or has ended there.
        let runs = match number % 3 {
            0 => None,
            _ => Some(claim_by(&second, other).await.job),
        };
        let finished = |job: &Job| JobEvent::Finished { epoch: job.epoch };
        if let Some(runs) = &runs {
            assert!(runs.epoch > claim.job.epoch);
            if number % 3 == 1 {
                happens(&second, runs, finished(runs)).await;
            }
        }
        let before = testing::rows(&watcher, WORKERS).await;
        let renewed = [(claim.job.id, claim.job.epoch)];
        let lease = Duration::from_secs(30);
        let news = first.renew(late, &renewed, lease, at(45)).await;
        assert_eq!(news.expect("an answer"), [LeaseNews::Lost]);
        writes += 1;
        for late in saves(&claim.job, number) {
            let saved = first.save(late).await.expect("an answer");
            assert_eq!(saved, SaveOutcome::Conflict);
            writes += 1;
        }
        let after = testing::rows(&watcher, WORKERS).await;
        assert_eq!(after, before, "after {writes} writes");
        match runs {
            // Those that come together with a write that counts do not come in with it.
            Some(runs) if number % 3 == 2 => {
                let late = saves(&claim.job, number).into_iter();
                let late = join_all(late.map(|late| second.save(late)));
                let counts = happens(&second, &runs, finished(&runs));
                let (late, ()) = tokio::join!(late, counts);
                for saved in late {
                    assert_eq!(saved.expect("an answer"), SaveOutcome::Conflict);
                    writes += 1;
                }
            }
            Some(_) => {}
            // The next one is alone again.
            None => happens(&second, waits, JobEvent::CancelRequested).await,
        }
    }
    testing::tell(&format!("{writes} late writes of jobs, none accepted"));
}
