//! Jobs over four workers of which one goes wrong every moment, in every way that is known.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use it::Comfy;
use it::comfy::{Fault, Version};
use it::random::Random;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Outcome;
use super::judge::{Facts, Run};
use super::rig::{self, CHECKPOINT};

/// Jobs at the same time: some wait, some are at workers.
const LANES: u64 = 24;
/// How long a step of a node takes.
const STEP: Duration = Duration::from_millis(2);
/// A worker is well for so long between two faults, in milliseconds: with four of them there is one about every two seconds.
const WELL: (u64, u64) = (2_000, 8_000);
/// How long a fault that lasts does, in milliseconds.
const LASTS: (u64, u64) = (300, 4_000);
/// How long a frozen process is lost for, in milliseconds: past the ten seconds after which its jobs go elsewhere.
const FROZEN: (u64, u64) = (11_000, 14_000);
/// How a job may fail here: lost twice, or with a disk that is full.
const MAY_FAIL: &[&str] = &["worker_lost", "node_execution_error"];

/// What workers do wrong, by the name that the report has for it.
const KINDS: [&str; 17] = [
    "restarts that lose queue and history",
    "garbage frames",
    "late sockets",
    "silent sockets",
    "files of a wrong length",
    "500 answers",
    "answers that are no JSON",
    "submissions cut before the answer",
    "submissions cut that appear after 12 s",
    "uploads cut",
    "routes missing",
    "disks full",
    "outputs missing",
    "processes frozen for moments",
    "processes frozen for more than ten seconds",
    "uploads taken byte by byte",
    "files with other content than announced",
];

pub(super) async fn run(
    program: &Path,
    folder: &Path,
    count: u64,
    seed: u64,
) -> io::Result<Outcome> {
    let versions = [Version::Recorded, Version::New, Version::New, Version::Old];
    let started = rig::with_workers(program, folder, versions, &[CHECKPOINT], STEP);
    let (program, workers) = started.await?;
    let (stop, stopped) = watch::channel(false);
    let mut faults = JoinSet::new();
    for (number, worker) in workers.iter().enumerate() {
        let random = Random::of_all(&[seed, number as u64]);
        faults.spawn(go_wrong(Arc::clone(worker), random, stopped.clone()));
    }
    let began = Instant::now();
    let client = program.client();
    let jobs = rig::lanes("faults", LANES, count, |number| {
        let client = client.clone();
        async move {
            let name = format!("job-{number}");
            let graph = match number % 6 {
                0 | 3 => rig::samples(&name, CHECKPOINT, 5),
                1 => rig::loads(&name, &client.upload(&name, name.as_bytes()).await?),
                _ => rig::waits(&name, 3),
            };
            let mut job = client.submit(&name, &graph).await?;
            client.follow(&mut job).await?;
            Ok(vec![job])
        }
    });
    let mut jobs = jobs.await?;
    let took = began.elapsed();
    stop.send_replace(true);
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for of_worker in faults.join_all().await {
        for kind in of_worker {
            *counts.entry(kind).or_default() += 1;
        }
    }
    rig::look_at_all(&client, &mut jobs).await?;
    let facts = Facts {
        jobs,
        runs: workers.iter().flat_map(|worker| runs(worker)).collect(),
        may_fail: MAY_FAIL,
        successes_stay: false,
        wrong_interrupts: workers.iter().map(|worker| worker.wrong_interrupts()).sum(),
        ..Facts::default()
    };
    let mut outcome = Outcome::of(&facts);
    outcome.figure("seconds", took.as_secs());
    outcome.figure("faults", counts.values().sum());
    for kind in KINDS {
        outcome.figure(kind, counts.get(kind).copied().unwrap_or(0));
    }
    Ok(outcome)
}

/// What a worker in this process ran.
pub(super) fn runs(worker: &Comfy) -> Vec<Run> {
    let ran = worker.ran().into_iter();
    ran.map(|ran| Run {
        name: ran.saves.unwrap_or_default(),
        began: ran.began,
        end: ran.end,
        killed: None,
    })
    .collect()
}

/// Lets a worker go wrong again and again; what it did.
async fn go_wrong(
    worker: Arc<Comfy>,
    mut random: Random,
    mut stop: watch::Receiver<bool>,
) -> Vec<&'static str> {
    let mut happened = Vec::new();
    let between = |random: &mut Random, (least, most): (u64, u64)| {
        Duration::from_millis(least + random.below(most - least))
    };
    while !*stop.borrow() {
        let well = between(&mut random, WELL);
        if timeout(well, stop.changed()).await.is_ok() {
            break;
        }
        let kind = random.index(KINDS.len());
        let some = 1 + u32::try_from(random.below(3)).unwrap_or(0);
        let mut lasts = between(&mut random, LASTS);
        match kind {
            0 => worker.restart(),
            1 => worker.fault(Fault::GarbageFrames),
            2 => worker.fault(Fault::LateSocket(Duration::from_millis(200))),
            3 => worker.fault(Fault::SilentSocket),
            4 => worker.fault(Fault::WrongLength(some)),
            5 => worker.fault(Fault::Errors(2 * some)),
            6 => worker.fault(Fault::Garbage(some)),
            7 => worker.fault(Fault::CutSubmissions(1, lasts)),
            8 => worker.fault(Fault::CutSubmissions(1, Duration::from_secs(12))),
            9 => worker.fault(Fault::CutUploads(some)),
            10 => worker.fault(Fault::MissingRoutes),
            11 => worker.fault(Fault::DiskFull(true)),
            12 => worker.fault(Fault::MissingOutputs(true)),
            13 => worker.fault(Fault::Frozen(true)),
            15 => worker.fault(Fault::SlowUploads(1)),
            16 => worker.fault(Fault::OtherContent(some)),
            _ => {
                lasts = between(&mut random, FROZEN);
                worker.fault(Fault::Frozen(true));
            }
        }
        happened.push(KINDS[kind]);
        // Also when the campaign is over: what began has its time.
        sleep(lasts).await;
        worker.fault(Fault::None);
    }
    happened
}
