//! 9,000 WebSockets of the older API: what they weigh while nothing happens, and how long it takes until each has heard of
//! an event.
//!
//! They are all of one account, so that whatever happens to its jobs is told to each. The event is a submission: the first
//! message about it says that one job is in the queue. The job then runs, and what its run tells goes to all of them too.

use std::io;

use serde_json::json;

use super::requests::submit_one;
use super::{Bench, say};
use crate::claim::{Better, Claim};
use crate::client::{Plan, Work, now_us};
use crate::clients::Clients;
use crate::report::{Figure, ServerUse, megabytes, rounded};
use crate::samples::Samples;
use it::load::graphs::solid;
use it::load::server::Server;

const MEMORY: Claim = Claim {
    name: "sockets-memory",
    what: "resident memory with 9,000 idle WebSockets open",
    unit: "MB",
    better: Better::Lower,
    gate: Some(180.0),
    aim: Some(90.0),
};
const EVENT: Claim = Claim {
    name: "sockets-event",
    what: "from a submission until a socket of 9,000 has heard of it (p99)",
    unit: "ms",
    better: Better::Lower,
    gate: Some(250.0),
    aim: Some(100.0),
};

const SOCKETS: usize = 9_000;
/// In the first message about a submission.
const HEARD: &str = "\"queue_remaining\":1";

pub(super) async fn sockets(bench: &Bench) -> io::Result<Vec<Figure>> {
    let server = Server::start(&bench.launch("sockets", &["--cache-size", "1MiB"])).await?;
    let before = server.usage()?;
    say("opening sockets");
    let half = Plan {
        server: server.address,
        connections: SOCKETS / 2,
        work: Work::Listen(HEARD.to_owned()),
        seconds: 600.0,
        most: u64::MAX,
        first: 0,
    };
    let mut clients = Clients::start(&bench.client, &[half.clone(), half]).await?;
    let open = server.usage()?;
    let mut connection = server.connect().await?;
    clients.go().await?;
    let caused = now_us();
    submit_one(&mut connection, &solid(1)).await?;
    let moments = clients.outcome().await?.samples;
    let after = server.usage()?;
    server.kill().await?;

    let times = moments.iter().map(|moment| moment.saturating_sub(caused));
    let samples = Samples::new(times.collect());
    let grown = open.resident_bytes.saturating_sub(before.resident_bytes);
    let memory = Figure {
        claim: MEMORY,
        value: megabytes(open.resident_bytes),
        samples: Samples::default(),
        server: ServerUse {
            cpu_seconds: open.cpu_seconds - before.cpu_seconds,
            resident_bytes: open.resident_bytes,
        },
        beside: json!({
            "sockets": SOCKETS,
            "kb_each": rounded(grown as f64 / 1e3 / SOCKETS as f64),
        }),
    };
    let event = Figure {
        claim: EVENT,
        value: samples.percentile_ms(99.0).unwrap_or(f64::INFINITY),
        beside: json!({"sockets": samples.count()}),
        samples,
        server: ServerUse {
            cpu_seconds: after.cpu_seconds - open.cpu_seconds,
            resident_bytes: after.resident_bytes,
        },
    };
    Ok(vec![memory, event])
}
