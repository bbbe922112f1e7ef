//! A job of one account behind many that wait of another one, against the same job where nobody else has any.
//!
//! There are two installations. One of them has the jobs that wait, and runs them; it is stopped while a job is timed on the other one,
//! so that this one has the machine for itself. There is a job slot for each processor core at most.

use std::io;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use super::replicas::{Launching, Replicas};
use super::{Bench, CLIENTS};
use crate::claim::{Better, Claim};
use crate::client::{Plan, Work};
use crate::clients::Clients;
use crate::report::{Figure, rounded};
use crate::samples::Samples;
use crate::say;
use it::http::post_json;
use it::load::graphs::{self, Graph};

const BEHIND: Claim = Claim {
    name: "cloud-behind",
    what: "a job of an account behind many waiting ones of another account, against the same job alone (p50)",
    unit: "x",
    better: Better::Lower,
    gate: Some(2.0),
    aim: Some(1.2),
};

/// How many jobs are timed in each place.
const ROUNDS: u64 = 100;
/// How many jobs of the other account end between two that are timed.
const BETWEEN: i64 = 4;
/// How long so many may take.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long all jobs of the other account may take until they are taken in.
const MOST_SECONDS: f64 = 3_600.0;
/// Submissions of the other account, sent again and again.
const BODIES: u64 = 1_000;

pub(super) async fn behind(bench: &Bench) -> io::Result<Vec<Figure>> {
    let start = async |name| {
        let launching = Launching {
            job_slots: 1,
            more: &["--require-credentials"],
            ..bench.launching("all", name)
        };
        bench.place.replicas(&launching).await
    };
    let alone = start("alone").await?;
    let crowded = start("crowded").await?;
    let keys = [alone.account("few").await?, crowded.account("few").await?];
    let many = crowded.account("many").await?;
    say(&format!("{} jobs are submitted", bench.waiting));
    submit(bench, &crowded, &many).await?;
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let places = [(&alone, &*keys[0]), (&crowded, &*keys[1])];
        crowded.signal("STOP").await?;
        let solo = one_job(bench, places[0], round).await;
        crowded.signal("CONT").await?;
        times[0].push(solo?);
        work_on(bench, &crowded).await?;
        times[1].push(one_job(bench, places[1], round).await?);
    }
    let sql = "SELECT count(*) FROM jobs WHERE status = 'queued' AND account = 'many'";
    let waiting = bench.place.number(&crowded.name, sql).await?;
    let used = crowded.usage()?;
    alone.end().await?;
    crowded.end().await?;
    let [solo, behind] = times.map(Samples::new);
    let p50 = |samples: &Samples| samples.percentile_ms(50.0).unwrap_or(f64::INFINITY);
    let told = |samples: &Samples| {
        let p99 = samples.percentile_ms(99.0).map(rounded);
        json!({"p50_ms": rounded(p50(samples)), "p99_ms": p99})
    };
    Ok(vec![Figure {
        claim: BEHIND,
        value: p50(&behind) / p50(&solo),
        server: used,
        beside: json!({
            "waiting_at_the_end": waiting,
            "alone": told(&solo),
            "behind": told(&behind),
        }),
        samples: behind,
    }])
}

/// Has the other account submit its jobs.
async fn submit(bench: &Bench, replicas: &Replicas, key: &str) -> io::Result<()> {
    let header = authorization(key);
    let requests: Vec<String> = (0..BODIES)
        .map(|color| {
            let request = post_json("/api/v2/jobs", &header, &graphs::solid(color));
            String::from_utf8(request).map_err(io::Error::other)
        })
        .collect::<io::Result<_>>()?;
    let count = replicas.servers.len();
    let plans = replicas.servers.iter().map(|server| Plan {
        server: server.address,
        connections: CLIENTS / count,
        work: Work::InTurn {
            requests: requests.clone(),
            status: 201,
        },
        seconds: MOST_SECONDS,
        most: u64::from(bench.waiting) / count as u64,
        first: 0,
    });
    let plans: Vec<Plan> = plans.collect();
    let mut clients = Clients::start(&bench.client, &plans).await?;
    clients.go().await?;
    clients.outcome().await?;
    Ok(())
}

/// How long a job of the account takes from its submission to its end, in microseconds.
async fn one_job(
    bench: &Bench,
    (replicas, key): (&Replicas, &str),
    number: u64,
) -> io::Result<u64> {
    let turn = usize::try_from(number).unwrap_or_default() % replicas.servers.len();
    let plan = Plan {
        server: replicas.servers[turn].address,
        connections: 1,
        work: Work::FinishAs(Graph::Trivial, vec![authorization(key)]),
        seconds: PATIENCE.as_secs_f64(),
        most: 1,
        first: BODIES + number,
    };
    let mut clients = Clients::start(&bench.client, &[plan]).await?;
    clients.go().await?;
    let samples = clients.outcome().await?.samples;
    samples
        .first()
        .copied()
        .ok_or_else(|| io::Error::other("the job did not end"))
}

/// Waits until the other account's jobs are run again.
async fn work_on(bench: &Bench, replicas: &Replicas) -> io::Result<()> {
    let ended = async || {
        let sql = "SELECT count(*) FROM jobs_over WHERE account = 'many'";
        bench.place.number(&replicas.name, sql).await
    };
    let (began, before) = (Instant::now(), ended().await?);
    while ended().await? < before + BETWEEN {
        if began.elapsed() > PATIENCE {
            return Err(io::Error::other("the jobs that wait are not run"));
        }
        sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

fn authorization(key: &str) -> String {
    format!("Authorization: Bearer {key}\r\n")
}
