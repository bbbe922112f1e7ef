//! The program is killed, its workers are killed, or all at once, while clients go on.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use it::comfy::Ran;
use it::random::Random;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Outcome;
use super::judge::{Facts, Job, Run};
use super::rig::{self, CHECKPOINT, Process, Program};

/// Workers, and clients of which each has one job at a time.
const WORKERS: usize = 4;
const CLIENTS: u64 = 16;
/// How long a cycle lasts until the kill, in milliseconds at most.
const LATEST: u64 = 2_500;
/// How many jobs succeed between two kills, at least: a machine on which jobs take longer than a cycle would show nothing but
/// what is lost.
const SUCCESSES: usize = 4;
/// How long they are waited for; a program that brings none has failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Lost twice, or after an output.
const MAY_FAIL: &[&str] = &["worker_lost"];

pub(super) async fn run(
    program: &Path,
    workers: &Path,
    folder: &Path,
    count: u64,
    seed: u64,
) -> io::Result<Outcome> {
    let mut processes = Vec::new();
    for _ in 0..WORKERS {
        processes.push(Process::start(workers, folder)?);
    }
    let urls: Vec<String> = processes.iter().map(Process::url).collect();
    let mut program = Program::start(program, folder, &urls).await?;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let (succeeded, mut successes) = tokio::sync::watch::channel(0_usize);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let (client, stopped) = (program.client(), stopped.clone());
        let succeeded = succeeded.clone();
        clients.spawn(async move {
            let mut jobs: Vec<Job> = Vec::new();
            while !*stopped.borrow() {
                let name = format!("job-{number}-{}", jobs.len());
                let graph = match jobs.len() % 2 {
                    0 => rig::samples(&name, CHECKPOINT, 20),
                    _ => rig::waits(&name, 10),
                };
                let mut job = client.submit(&name, &graph).await?;
                client.follow(&mut job).await?;
                if job.ends.contains("succeeded") {
                    succeeded.send_modify(|successes| *successes += 1);
                }
                jobs.push(job);
            }
            io::Result::Ok(jobs)
        });
    }
    let began = Instant::now();
    let mut random = Random::of(seed);
    let (mut of_program, mut of_workers) = (0, 0);
    for cycle in 0..count {
        let wanted = *successes.borrow() + SUCCESSES;
        let enough = successes.wait_for(|successes| *successes >= wanted);
        if timeout(PATIENCE, enough).await.is_err() {
            return Err(io::Error::other("jobs hardly succeed any more"));
        }
        sleep(Duration::from_millis(random.below(LATEST))).await;
        // Two of five hit the program, two a worker, and one hits all.
        let way = random.below(5);
        let victims = match way {
            0 | 1 => 0..0,
            2 | 3 => {
                let victim = random.index(WORKERS);
                victim..victim + 1
            }
            _ => 0..WORKERS,
        };
        for victim in victims.clone() {
            processes[victim].kill().await?;
            of_workers += 1;
        }
        let hits_program = !(2..=3).contains(&way);
        if hits_program {
            program.kill().await?;
            of_program += 1;
        }
        for victim in victims {
            processes[victim].start_again()?;
        }
        if hits_program {
            program.start_again().await?;
        }
        if (cycle + 1) % 25 == 0 {
            super::say(&format!("kills: {} cycles", cycle + 1));
        }
    }
    let took = began.elapsed();
    stop.send_replace(true);
    super::say("kills: waiting for ends");
    let mut jobs = Vec::new();
    while let Some(ended) = clients.join_next().await {
        jobs.extend(ended.map_err(io::Error::other)??);
    }
    rig::look_at_all(&program.client(), &mut jobs).await?;
    let facts = Facts {
        jobs,
        runs: runs(&processes)?,
        may_fail: MAY_FAIL,
        successes_stay: true,
        ..Facts::default()
    };
    let mut outcome = Outcome::of(&facts);
    outcome.figure("seconds", took.as_secs());
    outcome.figure("cycles", count);
    outcome.figure("kills of the program", of_program);
    outcome.figure("kills of workers", of_workers);
    Ok(outcome)
}

/// What workers ran in all of their lives, as their books say.
pub(super) fn runs(processes: &[Process]) -> io::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for process in processes {
        for life in 0..=process.kills.len() {
            let book = match std::fs::read_to_string(process.book(life)) {
                Ok(book) => book,
                // It was killed before it served.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for ran in Ran::read(&book)? {
                runs.push(Run {
                    name: ran.saves.unwrap_or_default(),
                    began: ran.began,
                    end: ran.end,
                    killed: process.kills.get(life).copied(),
                });
            }
        }
    }
    Ok(runs)
}
