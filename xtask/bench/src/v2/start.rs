//! From the start of the process until `/ready` answers 200.

use std::io;
use std::time::Duration;

use serde_json::json;

use super::Bench;
use crate::claim::{Better, Claim};
use crate::report::{Figure, ServerUse};
use crate::samples::Samples;
use it::load::server::{Launch, Server};

const EMPTY: Claim = Claim {
    name: "start-empty",
    what: "start to ready over an empty store (p50)",
    unit: "ms",
    better: Better::Lower,
    gate: Some(30.0),
    aim: Some(10.0),
};

/// Starts that are measured.
const STARTS: usize = 21;

pub(super) async fn start(bench: &Bench) -> io::Result<Vec<Figure>> {
    let launch = bench.launch("start", &[]);
    // The very first start makes the directory, which is another matter.
    starts(&launch, 1).await?;
    let (times, used) = starts(&launch, STARTS).await?;
    Ok(vec![figure(EMPTY, &times, used)])
}

/// Starts a server again and again; returns how long each start took, and what the last server used.
pub(super) async fn starts(
    launch: &Launch,
    count: usize,
) -> io::Result<(Vec<Duration>, ServerUse)> {
    let mut times = Vec::with_capacity(count);
    let mut used = ServerUse::default();
    for _ in 0..count {
        let server = Server::start(launch).await?;
        times.push(server.start_time);
        let usage = server.usage()?;
        used = ServerUse {
            cpu_seconds: usage.cpu_seconds,
            resident_bytes: usage.resident_bytes,
        };
        server.terminate().await?;
    }
    Ok((times, used))
}

pub(super) fn figure(claim: Claim, times: &[Duration], server: ServerUse) -> Figure {
    let samples = Samples::of(times);
    Figure {
        claim,
        value: samples.median_ms().unwrap_or(f64::INFINITY),
        samples,
        server,
        beside: json!({"ended_by": "SIGTERM"}),
    }
}
