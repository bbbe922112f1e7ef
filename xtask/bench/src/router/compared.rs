//! `bench router --against`: two routers under the same calls in turn, and the instructions of a call.
//!
//! Both stand before one partner, one at a time. What the plain run measures against nginx is compared here as it is: in
//! microseconds.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use clap::ValueEnum;

use super::requests::{CONNECTIONS, PACE, paced};
use super::subjects::{Partner, Router, Subject, UNBOUNDED, write_catalog};
use super::{Bench, Options, ROUTER, Scenario};
use crate::against::count::{self, Counter};
use crate::against::instructions::Instructions;
use crate::against::report::Method;
use crate::against::turns::{Compared, Reading, Side, compare, cpu, instructions, readings};
use crate::claim::Better;
use crate::client::{Plan, Work};
use crate::disk::Disk;
use crate::until_interrupted;
use it::load::server::{Profile, Server};

/// Pairs of turns.
const ROUNDS: usize = 20;
/// Models of the catalog.
const MODELS: u32 = 10;
/// How many times shorter than a turn the load is that warms up before it.
const WARM_UP: f64 = 4.0;
/// Calls of a count: enough that what happens once is lost among them.
const COUNTED_CALLS: u64 = 500;

pub(super) fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    let against = &options.against;
    let given = options.program.as_deref();
    let programs = against.programs(root, ROUTER, Profile::Dist, given)?;
    let own = super::own(root, options)?;
    let bench = |side| {
        let program = programs.of(side).to_owned();
        Bench::new(root, options, program, own.clone())
    };
    let disk = Disk::measure(bench(Side::After)?.folder.path())?;
    let mut report = against.report(&programs, Some(disk), out);
    let counter = against.counter(&mut report);
    let chosen = |scenario: &&Scenario| match options.only.is_empty() {
        true => Scenario::Cpu == **scenario,
        false => options.only.contains(scenario),
    };
    let rounds = options.rounds.unwrap_or(ROUNDS);
    until_interrupted(async {
        for scenario in Scenario::value_variants().iter().filter(chosen) {
            let name = format!("{scenario:?}").to_lowercase();
            if rounds > 0 {
                let compared = match scenario {
                    Scenario::Cpu => turns(&name, rounds, bench, full).await,
                    Scenario::Latency => turns(&name, rounds, bench, at_a_pace).await,
                    Scenario::Streams | Scenario::Held | Scenario::Catalog => {
                        let turn = async |side| {
                            let figures = bench(side)?.one(*scenario, disk).await?;
                            Ok(readings(&figures))
                        };
                        compare(&name, rounds, turn).await
                    }
                };
                report.take(&name, Method::Times, compared)?;
            }
            let (Some(counter), Scenario::Cpu) = (counter, scenario) else {
                continue;
            };
            let name = "call-instructions";
            let turn = async |side| {
                let counts = count_calls(bench(side)?, counter).await?;
                Ok(counts
                    .map(|(name, each)| instructions(name, each.total))
                    .into())
            };
            let counts = compare(name, against.counts(), turn).await;
            report.take(name, Method::Counts(counter.name()), counts)?;
        }
        report.close()
    })
}

/// A router that serves, with the bench that it belongs to. Dropping it ends the process.
struct RunningRouter {
    bench: Bench,
    subject: Subject,
    server: Server,
}

impl RunningRouter {
    async fn start(bench: Bench, partner: SocketAddr) -> io::Result<Self> {
        let models = write_catalog(&bench, "models", partner, MODELS)?;
        let router = Router {
            folder: bench.folder.path(),
            models: &models,
            partner,
            checked: true,
            concurrent_calls: UNBOUNDED,
        };
        let (subject, server) = router.start(&bench, "router").await?;
        Ok(Self {
            bench,
            subject,
            server,
        })
    }
}

/// Compares two routers. Each turn has a process of its own: one process is a little faster or slower than the next one
/// of the same program, as its memory happens to lie, and that is not to be taken for a difference of the programs.
async fn turns(
    name: &str,
    rounds: usize,
    bench: impl Fn(Side) -> io::Result<Bench>,
    load: impl AsyncFn(&Bench, &Subject) -> io::Result<Vec<Reading>>,
) -> io::Result<Compared> {
    let partner = Partner::start(&bench(Side::After)?).await?;
    compare(name, rounds, async |side| {
        let router = RunningRouter::start(bench(side)?, partner.address).await?;
        let (bench, subject) = (&router.bench, &router.subject);
        // Connections are opened and caches filled.
        let (call, seconds) = (Work::Post(subject.call()), bench.turn_seconds() / WARM_UP);
        bench.turn(subject, CONNECTIONS, call, seconds).await?;
        let readings = load(bench, subject).await?;
        router.server.kill().await?;
        Ok(readings)
    })
    .await
}

/// As many calls as there can be, without a key and with one.
async fn full(bench: &Bench, subject: &Subject) -> io::Result<Vec<Reading>> {
    let seconds = bench.turn_seconds();
    let works = [
        ("call", Work::Post(subject.call())),
        ("keyed", Work::Keyed(subject.call())),
    ];
    let mut readings = Vec::new();
    for (name, work) in works {
        let tally = bench.turn(subject, CONNECTIONS, work, seconds).await?;
        readings.push(cpu(name, tally.cpu_seconds, tally.times_us.len()));
        readings.push(Reading {
            name: format!("{name}-rate"),
            unit: "1/s",
            better: Better::Higher,
            value: tally.rate(),
        });
    }
    Ok(readings)
}

/// Calls at a pace that leaves the router idle most of the time.
async fn at_a_pace(bench: &Bench, subject: &Subject) -> io::Result<Vec<Reading>> {
    let (work, seconds) = (paced(subject), bench.turn_seconds());
    let tally = bench.turn(subject, PACE.1, work, seconds).await?;
    let percentile = |name: &str, percent| Reading {
        name: name.to_owned(),
        unit: "us",
        better: Better::Lower,
        value: tally.percentile_us(percent),
    };
    Ok(vec![
        percentile("paced-p50", 50.0),
        percentile("paced-p99", 99.0),
        cpu("paced", tally.cpu_seconds, tally.times_us.len()),
    ])
}

/// The instructions of a call without a key and with one.
pub(super) async fn count_calls(
    mut bench: Bench,
    counter: Counter,
) -> io::Result<[(&'static str, Instructions); 2]> {
    bench.under = counter.under(bench.folder.path());
    let partner = Partner::start(&bench).await?;
    let router = RunningRouter::start(bench, partner.address).await?;
    let (bench, subject) = (&router.bench, &router.subject);
    let each = async |work| {
        let plan = Plan {
            server: subject.address,
            connections: 1,
            work,
            seconds: count::LONGEST_SECONDS,
            most: COUNTED_CALLS,
            first: 0,
        };
        count::of_each(counter, &bench.own, plan, subject.pid, bench.folder.path()).await
    };
    let call = each(Work::Post(subject.call())).await?;
    let keyed = each(Work::Keyed(subject.call())).await?;
    router.server.kill().await?;
    Ok([("call-instructions", call), ("keyed-instructions", keyed)])
}
