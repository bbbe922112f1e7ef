//! 9,000 event streams of one job: what they weigh, and how long it takes until each has heard of an event.
//!
//! The job has to wait while they follow it, so another one keeps the only slot busy. Its thread is made as patient as the
//! system allows, so that it holds the slot and hardly takes the core. Then the waiting job is cancelled, and each stream
//! ends with that event.

use std::io;
use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;

use super::requests::submit_one;
use super::{Bench, say};
use crate::claim::{Better, Claim};
use crate::client::{Plan, Work, now_us};
use crate::clients::Clients;
use crate::report::{Figure, ServerUse, megabytes, rounded};
use crate::samples::Samples;
use it::http::post_json;
use it::load::graphs::{busy, solid};
use it::load::server::Server;
use it::usage::threads;

const MEMORY: Claim = Claim {
    name: "streams-memory",
    what: "resident memory with 9,000 event streams open",
    unit: "MB",
    better: Better::Lower,
    gate: Some(180.0),
    aim: Some(90.0),
};
const EVENT: Claim = Claim {
    name: "streams-event",
    what: "from the cause of an event until a stream of 9,000 has it (p99)",
    unit: "ms",
    better: Better::Lower,
    gate: Some(250.0),
    aim: Some(100.0),
};

const STREAMS: usize = 9_000;
/// Nodes of the job that keeps the slot: far more than can run while the streams are open.
const BUSY_NODES: u32 = 8_000;

pub(super) async fn streams(bench: &Bench) -> io::Result<Vec<Figure>> {
    let arguments = ["--job-slots", "1", "--threads", "1", "--cache-size", "1MiB"];
    let server = Server::start(&bench.launch("streams", &arguments)).await?;
    let mut connection = server.connect().await?;
    let before = server.usage()?;
    submit_one(&mut connection, &busy(BUSY_NODES)).await?;
    let waiting = submit_one(&mut connection, &solid(1)).await?;
    let patient = make_patient(&server).await?;

    say("opening streams");
    let half = Plan {
        server: server.address,
        connections: STREAMS / 2,
        work: Work::Follow(waiting.clone()),
        seconds: 600.0,
        most: u64::MAX,
        first: 0,
    };
    let mut clients = Clients::start(&bench.client, &[half.clone(), half]).await?;
    let open = server.usage()?;
    clients.go().await?;
    // The connection before was idle for as long as the streams took to open.
    let mut connection = server.connect().await?;
    let caused = now_us();
    let cancel = post_json(&format!("/api/v2/jobs/{waiting}/cancel"), "", "");
    connection.send(&cancel).await?.expect_status(200)?;
    let moments = clients.outcome().await?.samples;
    let after = server.usage()?;
    server.kill().await?;

    let times = moments.iter().map(|moment| moment.saturating_sub(caused));
    let samples = Samples::new(times.collect());
    let memory = Figure {
        claim: MEMORY,
        value: megabytes(open.resident_bytes),
        samples: Samples::default(),
        server: ServerUse {
            cpu_seconds: open.cpu_seconds - before.cpu_seconds,
            resident_bytes: open.resident_bytes,
        },
        beside: json!({
            "streams": STREAMS,
            "kb_each": rounded((open.resident_bytes - before.resident_bytes) as f64 / 1e3 / STREAMS as f64),
        }),
    };
    let event = Figure {
        claim: EVENT,
        value: samples.percentile_ms(99.0).unwrap_or(f64::INFINITY),
        beside: json!({"streams": samples.count(), "patient_threads": patient}),
        samples,
        server: ServerUse {
            cpu_seconds: after.cpu_seconds - open.cpu_seconds,
            resident_bytes: after.resident_bytes,
        },
    };
    Ok(vec![memory, event])
}

/// Lets the threads that run nodes give way to all others; returns how many there are.
async fn make_patient(server: &Server) -> io::Result<usize> {
    let mut patient = 0;
    for (id, name) in threads(server.pid)? {
        if !name.starts_with(ENGINE_THREADS) {
            continue;
        }
        let niced = Command::new("renice")
            .args(["-n", "19", "-p", &id.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .await?;
        patient += usize::from(niced.success());
    }
    Ok(patient)
}

/// How the names of the threads that run nodes begin.
const ENGINE_THREADS: &str = "engine";
