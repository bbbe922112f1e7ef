//! What many stored jobs cost: a start over them, and a look at one of them.
//!
//! Looks are measured against a second server with 1,000 jobs, turn by turn, by the processor time of the server for each.
//! The jobs are all the same graph, which is quick to run; their rows are as large as any other's.

use std::io;

use serde_json::json;

use super::requests::some_jobs;
use super::start::{figure, starts};
use super::{Bench, cpu_us_each, halves, say};
use crate::claim::{Better, Claim};
use crate::client::{Outcome, Plan, Work};
use crate::report::{Figure, ServerUse, rounded};
use crate::samples::{Samples, median};
use it::load::graphs::Graph;
use it::load::server::{Launch, Server};

const START: Claim = Claim {
    name: "start-stored",
    what: "start to ready over many stored jobs (p50; how many is said beside)",
    unit: "ms",
    better: Better::Lower,
    gate: Some(30.0),
    aim: Some(10.0),
};
pub(super) const LOOK: Claim = Claim {
    name: "look-stored",
    what: "processor time of a GET of a job with many stored against 1,000 stored",
    unit: "x",
    better: Better::Lower,
    gate: Some(1.1),
    aim: Some(1.05),
};

const FEW: u64 = 1_000;
/// Jobs that are looked at, spread over the newest pages.
pub(super) const LOOKED_AT: u64 = 1_000;
const STARTS: usize = 7;
pub(super) const TURNS: usize = 5;
/// How many jobs are stored between two words about it.
const PORTION: u64 = 20_000;

pub(super) async fn stored(bench: &Bench) -> io::Result<Vec<Figure>> {
    let launch = bench.launch("stored", &[]);
    store(bench, &launch, bench.stored).await?;
    say("starting over them");
    let (times, used) = starts(&launch, STARTS).await?;
    let mut start = figure(START, &times, used);
    start.beside = json!({"stored": bench.stored, "ended_by": "SIGTERM"});

    let few = bench.launch("few", &[]);
    store(bench, &few, FEW).await?;
    say("looking at them");
    let (few, many) = (Server::start(&few).await?, Server::start(&launch).await?);
    let mut sides = (Side::new(few).await?, Side::new(many).await?);
    for _ in 0..TURNS {
        sides.0.turn(bench).await?;
        sides.1.turn(bench).await?;
    }
    let ((few_us, few_ms, _), (many_us, many_ms, used)) =
        (sides.0.end().await?, sides.1.end().await?);
    let look = Figure {
        claim: LOOK,
        value: many_us / few_us,
        samples: many_ms.clone(),
        server: used,
        beside: json!({
            "stored": bench.stored,
            "cpu_us_each": rounded(many_us),
            "cpu_us_each_with_1000": rounded(few_us),
            "p50_ms_with_1000": few_ms.median_ms(),
        }),
    };
    Ok(vec![start, look])
}

/// Runs `count` jobs over a data directory and ends the server.
pub(super) async fn store(bench: &Bench, launch: &Launch, count: u64) -> io::Result<()> {
    let server = Server::start(launch).await?;
    let mut left = count;
    while left > 0 {
        let portion = left.min(PORTION);
        let plan = Plan {
            most: portion,
            seconds: 3_600.0,
            ..bench.plan(&server, 32, Work::Finish(Graph::Repeated))
        };
        let (outcome, _) = bench.measure(&server, &halves(&plan)).await?;
        left -= portion;
        say(&format!(
            "{} of {count} jobs stored, {:.0} in a second",
            count - left,
            outcome.rate()
        ));
    }
    server.terminate().await
}

/// A server that is looked at in turn with another.
struct Side {
    server: Server,
    ids: Vec<String>,
    cpu_us_each: Vec<f64>,
    times: Vec<u64>,
    used: ServerUse,
}

impl Side {
    async fn new(server: Server) -> io::Result<Self> {
        let ids = some_jobs(&mut server.connect().await?, LOOKED_AT).await?;
        Ok(Self {
            server,
            ids,
            cpu_us_each: Vec::new(),
            times: Vec::new(),
            used: ServerUse::default(),
        })
    }

    async fn turn(&mut self, bench: &Bench) -> io::Result<()> {
        let plan = Plan {
            seconds: bench.seconds / TURNS as f64,
            ..bench.plan(&self.server, 64, Work::Look(self.ids.clone()))
        };
        let (outcome, used): (Outcome, ServerUse) =
            bench.measure(&self.server, &halves(&plan)).await?;
        self.cpu_us_each
            .push(cpu_us_each(used, outcome.samples.len()));
        self.times.extend(outcome.samples);
        self.used = used;
        Ok(())
    }

    async fn end(self) -> io::Result<(f64, Samples, ServerUse)> {
        self.server.kill().await?;
        let each = median(self.cpu_us_each).unwrap_or(f64::INFINITY);
        Ok((each, Samples::new(self.times), self.used))
    }
}
