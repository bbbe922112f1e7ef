//! Curves over queued requests: how long a submission and a look at a status take behind them, and the memory that they hold.

use std::io;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::held::arrived;
use super::super::subjects::{Partner, Router, Subject, write_catalog};
use super::super::{Bench, say};
use super::{FEW_MODELS, LONG, bench, router};
use crate::client::{Plan, Work};
use crate::clients::Clients;
use crate::curves::{How, Lines, Series};
use crate::report::megabytes;
use crate::samples::Samples;
use it::http::Connection;

/// The figures of this axis.
pub(crate) const QUEUED: [Series; 3] = [
    Series {
        name: "queued-submission",
        what: "Time of a submission (p50)",
        unit: "us",
        gate: None,
    },
    Series {
        name: "queued-status",
        what: "Time of a look at a status (p50)",
        unit: "us",
        gate: None,
    },
    Series {
        name: "queued-memory",
        what: "Memory of the router",
        unit: "MB",
        gate: None,
    },
];

/// Connections that fill the queue.
const CONNECTIONS: usize = 32;
/// Requests that are submitted between two words about it.
const PORTION: u64 = 10_000;
/// For how long the queue is filled, all sizes together.
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// How often a submission and a status are timed, at most.
const MOST_TIMED: usize = 500;
/// One call runs at a time: all others wait.
const ONE_CALL: &str = "1";

/// Queues more and more requests and submits one more again and again.
pub(crate) async fn queued(how: &How<'_>, lines: &mut Lines<'_>) -> io::Result<()> {
    let largest = how.sizes.iter().max().copied().unwrap_or_default();
    // The one that runs and the one that is timed are beside them.
    let bound = format!("--queued-calls={}", largest + 2);
    let bench = bench(how, &[&bound, "--queue-time=24h"])?;
    let partner = Partner::start(&bench).await?;
    let models = write_catalog(&bench, "queued", partner.address, FEW_MODELS)?;
    let router = Router {
        concurrent_calls: ONE_CALL,
        ..router(&bench, &partner, &models)
    };
    let (router, server) = router.start(&bench, "queued").await?;
    let until = Instant::now() + LONGEST;
    fill(&bench, &router, 1, until).await?;
    arrived(&partner, 1).await?;
    let mut waiting = 0;
    for size in &how.sizes {
        while waiting < *size {
            let portion = PORTION.min(size - waiting);
            fill(&bench, &router, portion, until).await?;
            waiting += portion;
            say(&format!("{waiting} of {size} requests wait"));
        }
        let resident_bytes = router.usage()?.resident_bytes;
        let [submission, status] = times(&router, waiting, how.seconds).await?;
        let median_us = |samples: Samples| samples.median_ms().map(|ms| ms * 1e3);
        let values = [
            median_us(submission),
            median_us(status),
            Some(megabytes(resident_bytes)),
        ];
        for (series, value) in QUEUED.iter().zip(values) {
            lines.take(series, *size, value)?;
        }
    }
    server.kill().await
}

/// Submits so many requests.
async fn fill(bench: &Bench, router: &Subject, count: u64, until: Instant) -> io::Result<()> {
    let plan = Plan {
        server: router.address,
        connections: CONNECTIONS,
        work: Work::InTurn {
            requests: vec![router.submission()],
            status: 201,
        },
        seconds: until
            .saturating_duration_since(Instant::now())
            .as_secs_f64()
            .min(LONG),
        most: count,
        first: 0,
    };
    let mut clients = Clients::start(&bench.own, &[plan]).await?;
    clients.go().await?;
    let done = clients.outcome().await?.samples.len() as u64;
    if done == count {
        return Ok(());
    }
    let text = format!(
        "requests were not queued within {} minutes: --most leaves larger numbers out",
        LONGEST.as_secs() / 60
    );
    Err(io::Error::new(io::ErrorKind::TimedOut, text))
}

/// Times submissions and looks at their status, one after the other. Each request is withdrawn, so that the queue stays as long
/// as it is.
async fn times(router: &Subject, waiting: u64, seconds: f64) -> io::Result<[Samples; 2]> {
    let mut connection = Connection::open(router.address).await?;
    let submission = router.submission();
    let mut times: [Vec<Duration>; 2] = Default::default();
    let began = Instant::now();
    while times[0].len() < MOST_TIMED && began.elapsed().as_secs_f64() < seconds {
        let (submitted, took) = timed(&mut connection, &submission, 201).await?;
        times[0].push(took);
        let look = router.asked("GET", path(&submitted, "status_url")?);
        let (looked, took) = timed(&mut connection, &look, 200).await?;
        times[1].push(took);
        if looked["queue_position"] != waiting {
            let text = format!("a request behind {waiting} others is told {looked}");
            return Err(io::Error::other(text));
        }
        let cancel = router.asked("PUT", path(&submitted, "cancel_url")?);
        timed(&mut connection, &cancel, 202).await?;
    }
    Ok(times.map(|times| Samples::of(&times)))
}

async fn timed(
    connection: &mut Connection,
    request: &str,
    status: u16,
) -> io::Result<(Value, Duration)> {
    let began = Instant::now();
    let answer = connection.send(request.as_bytes()).await?;
    let took = began.elapsed();
    Ok((answer.expect_status(status)?.try_json()?, took))
}

/// The path of an address in the answer to a submission.
fn path<'a>(submitted: &'a Value, name: &str) -> io::Result<&'a str> {
    let url = submitted[name].as_str().unwrap_or_default();
    let rest = url.split_once("://").map(|(_, rest)| rest);
    let path = rest.and_then(|rest| Some(&rest[rest.find('/')?..]));
    path.ok_or_else(|| {
        io::Error::other(format!(
            "a submission is answered without {name}: {submitted}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_an_address_is_found_and_its_absence_told() {
        let submitted =
            serde_json::json!({"status_url": "http://localhost:1/v1/a?b", "cancel_url": "none"});
        assert_eq!(path(&submitted, "status_url").ok(), Some("/v1/a?b"));
        assert!(path(&submitted, "cancel_url").is_err());
        assert!(path(&submitted, "other").is_err());
    }
}
