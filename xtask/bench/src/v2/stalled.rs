//! 1,000 readers that never read, half of them of a large file and half of the events of jobs, and 10,000 connections whose
//! request never ends. What the readers weigh, and what a healthy client feels of all of them.

use std::io;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::requests::{some_jobs, submit_one};
use super::{Bench, say};
use crate::claim::{Better, Claim};
use crate::report::{Figure, ServerUse, megabytes, rounded};
use crate::samples::Samples;
use it::http::{Connection, request};
use it::load::form::Upload;
use it::load::graphs::solid;
use it::load::server::Server;
use it::random::Random;

const MEMORY: Claim = Claim {
    name: "stalled-memory",
    what: "growth of resident memory through 1,000 readers that never read",
    unit: "MB",
    better: Better::Lower,
    gate: Some(64.0),
    aim: None,
};
const HEALTHY: Claim = Claim {
    name: "stalled-healthy",
    what: "GET of a job beside them and 10,000 half-open connections against without (p99)",
    unit: "x",
    better: Better::Lower,
    gate: Some(1.5),
    aim: Some(1.1),
};

const READERS: usize = 1_000;
/// Connections that began a request and say nothing more.
const HALF_OPEN: usize = 10_000;
/// What they said.
const BEGUN: &[u8] = b"GET /api/v2/jobs HTTP/1.1\r\nHost: localhost\r\n";
/// The file that half of them ask for: far more than sockets hold.
const BYTES: usize = 32_000_000;
/// Looks of the healthy client, in each half of the measurement.
const LOOKS: usize = 5_000;

pub(super) async fn stalled(bench: &Bench) -> io::Result<Vec<Figure>> {
    let server = Server::start(&bench.launch("stalled", &[])).await?;
    let mut connection = server.connect().await?;
    let file = Random::of_all(&[1]).bytes(BYTES);
    let upload = Upload::new("large.bin", file.len(), &[], "").around(&file);
    let asset = connection
        .send(&upload)
        .await?
        .expect_status(201)?
        .try_json()?;
    let asset = asset["id"].as_str().unwrap_or_default().to_owned();
    submit_one(&mut connection, &solid(1)).await?;
    let jobs = some_jobs(&mut connection, 1).await?;
    let job = jobs.first().cloned().unwrap_or_default();

    let before = looks(&mut connection, &job).await?;
    let calm = server.usage()?;
    say("opening readers");
    let mut readers = Vec::with_capacity(READERS);
    for number in 0..READERS {
        let target = match number % 2 {
            0 => format!("/api/v2/assets/{asset}/content"),
            _ => format!("/api/v2/jobs/{job}/events"),
        };
        let mut reader = TcpStream::connect(server.address).await?;
        reader.write_all(&request("GET", &target)).await?;
        readers.push(reader);
    }
    let half_way = looks(&mut connection, &job).await?;
    let full = server.usage()?;
    say("opening connections by half");
    let mut half_open = Vec::with_capacity(HALF_OPEN);
    for _ in 0..HALF_OPEN {
        let mut connection = TcpStream::connect(server.address).await?;
        connection.write_all(BEGUN).await?;
        half_open.push(connection);
    }
    let beside = looks(&mut connection, &job).await?;
    let crowded = server.usage()?;
    let open = readers.len();
    drop((readers, half_open));
    server.kill().await?;

    let (before, half_way) = (Samples::of(&before), Samples::of(&half_way));
    let beside = Samples::of(&beside);
    let p99 = |samples: &Samples| samples.percentile_ms(99.0).unwrap_or(f64::INFINITY);
    let used = ServerUse {
        cpu_seconds: full.cpu_seconds - calm.cpu_seconds,
        resident_bytes: full.resident_bytes,
    };
    let grown = full.resident_bytes.saturating_sub(calm.resident_bytes);
    let memory = Figure {
        claim: MEMORY,
        value: megabytes(grown),
        samples: Samples::default(),
        server: used,
        beside: json!({"readers": open}),
    };
    let healthy = Figure {
        claim: HEALTHY,
        value: p99(&beside) / p99(&before),
        beside: json!({
            "p99_ms_without": p99(&before),
            "p99_ms_beside_readers": p99(&half_way),
            "p99_ms_beside_all": p99(&beside),
            "half_open": HALF_OPEN,
            "half_open_mb": rounded(megabytes(
                crowded.resident_bytes.saturating_sub(full.resident_bytes),
            )),
        }),
        samples: beside,
        server: used,
    };
    Ok(vec![memory, healthy])
}

async fn looks(connection: &mut Connection, job: &str) -> io::Result<Vec<Duration>> {
    let look = request("GET", &format!("/api/v2/jobs/{job}"));
    let mut times = Vec::with_capacity(LOOKS);
    for _ in 0..LOOKS {
        let began = Instant::now();
        connection.send(&look).await?.expect_status(200)?;
        times.push(began.elapsed());
    }
    Ok(times)
}
