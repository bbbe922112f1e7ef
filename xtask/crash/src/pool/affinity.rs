//! Whether jobs go where their model files are loaded, and how long one waits for that at most.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use it::Comfy;
use it::comfy::{Ran, Version};
use it::random::Random;

use super::Outcome;
use super::faults::runs;
use super::judge::Facts;
use super::rig::{self, Program};

/// Every worker has all of them: chance would find a warm one in a quarter of the cases.
const CHECKPOINTS: [&str; 4] = [
    "a.safetensors",
    "b.safetensors",
    "c.safetensors",
    "d.safetensors",
];
/// Jobs at the same time: as many as the workers take at once.
const LANES: u64 = 8;
/// Steps of a job, and how long one takes.
const STEPS: u64 = 10;
const STEP: Duration = Duration::from_millis(10);
/// How many of a hundred jobs must find their model loaded.
const GATE: f64 = 95.0;
/// How long a job waits for a warm worker at most while a cold one is free, with the half second between two looks.
const LONGEST_WAIT: Duration = Duration::from_millis(30_500);

pub(super) async fn run(
    program: &Path,
    folder: &Path,
    count: u64,
    seed: u64,
) -> io::Result<Outcome> {
    let versions = [Version::New; 4];
    let started = rig::with_workers(program, folder, versions, &CHECKPOINTS, STEP);
    let (program, workers) = started.await?;
    let client = program.client();
    let began = Instant::now();
    let jobs = rig::lanes("affinity", LANES, count, |number| {
        let client = client.clone();
        let mut random = Random::of_all(&[seed, number]);
        async move {
            let name = format!("job-{number}");
            let checkpoint = CHECKPOINTS[random.index(CHECKPOINTS.len())];
            let graph = rig::samples(&name, checkpoint, STEPS);
            let mut job = client.submit(&name, &graph).await?;
            client.follow(&mut job).await?;
            Ok(vec![job])
        }
    });
    let mut jobs = jobs.await?;
    let took = began.elapsed();
    rig::look_at_all(&client, &mut jobs).await?;
    let ran: Vec<Vec<Ran>> = workers.iter().map(|worker| worker.ran()).collect();
    let warm = ran.iter().map(|ran| warm(ran)).sum::<u64>();
    let all = ran
        .iter()
        .map(|ran| ran.len().saturating_sub(1) as u64)
        .sum::<u64>();
    let facts = Facts {
        runs: workers.iter().flat_map(|worker| runs(worker)).collect(),
        jobs,
        successes_stay: true,
        ..Facts::default()
    };
    let mut waits: Vec<Duration> = facts
        .jobs
        .iter()
        .filter_map(|job| {
            let began = facts.runs.iter().find(|run| run.name == job.name)?.began;
            Some(began.duration_since(job.sent).unwrap_or_default())
        })
        .collect();
    waits.sort_unstable();
    let mut outcome = Outcome::of(&facts);
    let percent = warm as f64 * 100.0 / all.max(1) as f64;
    outcome.figure("seconds", took.as_secs());
    outcome.figure(
        "of a hundred jobs, found their model loaded",
        percent as u64,
    );
    let millis = |wait: Option<&Duration>| wait.map_or(0, |wait| wait.as_millis() as u64);
    outcome.figure("median wait, ms", millis(waits.get(waits.len() / 2)));
    outcome.figure("longest wait, ms", millis(waits.last()));
    if percent < GATE {
        outcome.fail(format!(
            "{percent:.1} of a hundred jobs found their model loaded"
        ));
    }
    let waited = patience(&program, &workers).await?;
    outcome.figure(
        "wait behind two jobs that do not end, ms",
        waited.as_millis() as u64,
    );
    if waited > LONGEST_WAIT {
        outcome.fail(format!("a job waited {waited:?} beside idle workers"));
    }
    Ok(outcome)
}

/// How many jobs used the same file as the one before them at their worker.
fn warm(ran: &[Ran]) -> u64 {
    let pairs = ran.windows(2);
    pairs
        .filter(|pair| pair[0].checkpoint == pair[1].checkpoint)
        .count() as u64
}

/// How long a job waits for a warm worker whose two places are taken for good, while other workers are idle.
async fn patience(program: &Program, workers: &[Arc<Comfy>]) -> io::Result<Duration> {
    super::say("affinity: a job waits for a warm worker, half a minute");
    let client = program.client();
    let mut jobs = Vec::new();
    let begun = |name: &str| {
        let ran = workers.iter().flat_map(|worker| worker.ran());
        let mut ran = ran.filter(|ran| ran.saves.as_deref() == Some(name));
        ran.next().map(|ran| ran.began)
    };
    for number in 0..3 {
        let name = format!("endless-{number}");
        // Far longer than the wait.
        let graph = rig::samples(&name, CHECKPOINTS[0], 10_000);
        jobs.push(client.submit(&name, &graph).await?);
        if number == 0 {
            until(|| begun(&name)).await?;
        }
    }
    let began = until(|| begun("endless-2")).await?;
    let waited = began.duration_since(jobs[2].sent).unwrap_or_default();
    for job in &mut jobs {
        client.cancel(job).await?;
        client.follow(job).await?;
    }
    Ok(waited)
}

/// Waits until something is known, for two minutes at most.
async fn until(known: impl Fn() -> Option<SystemTime>) -> io::Result<SystemTime> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(120) {
        if let Some(known) = known() {
            return Ok(known);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "the job never began",
    ))
}
