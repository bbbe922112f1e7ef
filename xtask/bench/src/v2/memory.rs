//! Resident memory: of a server that nobody called, and after 10,000 jobs.
//!
//! The cache of results is held at 1 MiB, so that what is measured is everything but the cache budget.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::{Bench, halves, say};
use crate::claim::{Better, Claim};
use crate::client::{Plan, Work};
use crate::report::{Figure, ServerUse, megabytes, rounded};
use crate::samples::Samples;
use it::load::graphs::Graph;
use it::load::server::Server;

const IDLE: Claim = Claim {
    name: "memory-idle",
    what: "resident memory, ready and never called",
    unit: "MB",
    better: Better::Lower,
    gate: Some(28.0),
    aim: Some(15.0),
};
const AFTER_JOBS: Claim = Claim {
    name: "memory-jobs",
    what: "resident memory after 10,000 jobs, 1 MiB of it cache",
    unit: "MB",
    better: Better::Lower,
    gate: Some(46.0),
    aim: Some(31.0),
};

const JOBS: u64 = 10_000;
/// Long enough for everything that follows a start or the last job to be over.
const CALM: Duration = Duration::from_secs(2);

pub(super) async fn memory(bench: &Bench) -> io::Result<Vec<Figure>> {
    let launch = bench.launch("memory", &["--cache-size", "1MiB"]);
    let server = Server::start(&launch).await?;
    sleep(CALM).await;
    let idle = figure(IDLE, &server)?;
    say("10,000 jobs");
    let plan = Plan {
        most: JOBS,
        seconds: 600.0,
        ..bench.plan(&server, 32, Work::Finish(Graph::Trivial))
    };
    let (outcome, _) = bench.measure(&server, &halves(&plan)).await?;
    if outcome.samples.len() as u64 != JOBS {
        return Err(io::Error::other("10,000 jobs took longer than ten minutes"));
    }
    sleep(CALM).await;
    let after = figure(AFTER_JOBS, &server)?;
    server.kill().await?;
    Ok(vec![idle, after])
}

fn figure(claim: Claim, server: &Server) -> io::Result<Figure> {
    let usage = server.usage()?;
    Ok(Figure {
        claim,
        value: megabytes(usage.resident_bytes),
        samples: Samples::default(),
        server: ServerUse {
            cpu_seconds: usage.cpu_seconds,
            resident_bytes: usage.resident_bytes,
        },
        beside: json!({"peak_mb": rounded(megabytes(usage.peak_bytes))}),
    })
}
