//! Wishes to cancel that race with everything that a job does, and neighbours that nobody wishes to cancel.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use it::Comfy;
use it::comfy::Version;
use it::random::Random;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Outcome;
use super::faults::runs;
use super::judge::Facts;
use super::rig::{self, CHECKPOINT};

/// Races at the same time, each of one job that is canceled and one that is not: nearly all of them have a place at a worker.
const LANES: u64 = 8;
/// Steps of a job, and how long one takes.
const STEPS: u64 = 12;
const STEP: Duration = Duration::from_millis(4);
/// A wish comes up to so many microseconds after the second submission: a job is over by then.
const LATEST: u64 = 120_000;
/// How often somebody else gives a worker a prompt of their own.
const FOREIGN: Duration = Duration::from_millis(400);

pub(super) async fn run(
    program: &Path,
    folder: &Path,
    count: u64,
    seed: u64,
) -> io::Result<Outcome> {
    // Two of them interrupt whatever runs.
    let versions = [Version::Recorded, Version::New, Version::Old, Version::Old];
    let started = rig::with_workers(program, folder, versions, &[CHECKPOINT], STEP);
    let (program, workers) = started.await?;
    let (stop, stopped) = watch::channel(false);
    let foreign = tokio::spawn(others(workers.clone(), Random::of(seed), stopped));
    let began = Instant::now();
    let client = program.client();
    let jobs = rig::lanes("cancels", LANES, count, |number| {
        let client = client.clone();
        let mut random = Random::of_all(&[seed, number]);
        async move {
            let name = |what: &str| format!("{what}-{number}");
            let graph = |what: &str| rig::samples(&name(what), CHECKPOINT, STEPS);
            let submit = async |what: &str| client.submit(&name(what), &graph(what)).await;
            let (mut canceled, mut kept);
            if number % 2 == 0 {
                canceled = submit("canceled").await?;
                kept = submit("kept").await?;
            } else {
                kept = submit("kept").await?;
                canceled = submit("canceled").await?;
            }
            // From at once to long over, at once more often.
            let latest = 1 + random.below(LATEST);
            sleep(Duration::from_micros(random.below(latest))).await;
            client.cancel(&mut canceled).await?;
            client.follow(&mut canceled).await?;
            client.follow(&mut kept).await?;
            Ok(vec![canceled, kept])
        }
    });
    let mut jobs = jobs.await?;
    let took = began.elapsed();
    stop.send_replace(true);
    let foreign = foreign.await.map_err(io::Error::other)?;
    for worker in &workers {
        worker
            .until(|ran| ran.iter().all(|ran| ran.end.is_some()))
            .await;
    }
    rig::look_at_all(&client, &mut jobs).await?;
    let runs: Vec<_> = workers.iter().flat_map(|worker| runs(worker)).collect();
    let interrupted = runs
        .iter()
        .filter(|run| run.end == Some("interrupted"))
        .count();
    let others = foreign.len();
    let facts = Facts {
        jobs,
        runs,
        may_fail: &[],
        successes_stay: true,
        wrong_interrupts: workers.iter().map(|worker| worker.wrong_interrupts()).sum(),
        foreign,
    };
    let canceled = |status: &str| {
        let unwanted = facts.jobs.iter().filter(|job| job.is_unwanted);
        let last = unwanted.filter_map(|job| job.last.as_ref());
        last.filter(|last| last.status == status).count() as u64
    };
    let (stopped, too_late) = (canceled("canceled"), canceled("succeeded"));
    let mut outcome = Outcome::of(&facts);
    outcome.figure("seconds", took.as_secs());
    outcome.figure("races", count);
    outcome.figure("canceled jobs that were canceled", stopped);
    outcome.figure("canceled jobs that were over before", too_late);
    outcome.figure("prompts interrupted at workers", interrupted as u64);
    outcome.figure("prompts of somebody else", others as u64);
    Ok(outcome)
}

/// Gives the workers prompts that are not the program's until `stop`; the names that they save under.
async fn others(
    workers: Vec<Arc<Comfy>>,
    mut random: Random,
    mut stop: watch::Receiver<bool>,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    while timeout(FOREIGN, stop.changed()).await.is_err() {
        let name = format!("foreign-{}", names.len());
        let worker = &workers[random.index(workers.len())];
        worker.foreign(&rig::samples(&name, CHECKPOINT, STEPS));
        names.insert(name);
    }
    names
}
