//! Curves over calls in flight, models and queued requests of the router, and over accounts.

mod accounts;
mod queued;

use std::io;
use std::path::Path;

use super::catalog::{self, PAGE};
use super::held::{self, arrived, first};
use super::requests::{CONNECTIONS, PACE, paced};
use super::subjects::{Partner, Router, Subject, UNBOUNDED, write_catalog};
use super::{Bench, NO_END, Tally, say};
use crate::client::{Plan, Work};
use crate::clients::Clients;
use crate::curves::{Gate, How, Lines, Series};
use crate::report::megabytes;

pub(crate) use self::accounts::{ACCOUNTS, accounts};
pub(crate) use self::queued::{QUEUED, queued};

/// The figures over calls in flight.
pub(crate) const HELD: [Series; 2] = [
    Series {
        name: "held-memory",
        what: "Memory of the router",
        unit: "MB",
        gate: Gate::value(&held::ALL),
    },
    Series {
        name: "held-p50",
        what: "Other calls, 500 a second (p50)",
        unit: "us",
        gate: Gate::growth(&held::GROWTH),
    },
];
/// The figures over models.
pub(crate) const MODELS: [Series; 3] = [
    Series {
        name: "models-call",
        what: "Processor time of a call",
        unit: "us",
        gate: Gate::growth(&catalog::CALL),
    },
    Series {
        name: "models-list",
        what: "Processor time of a list of 5 models",
        unit: "us",
        gate: Gate::growth(&catalog::LIST),
    },
    Series {
        name: "models-estimate",
        what: "Processor time of an estimate",
        unit: "us",
        gate: Gate::growth(&catalog::ESTIMATE),
    },
];

/// Turns of each load.
const TURNS: u32 = 5;
/// Models where their number does not matter.
const FEW_MODELS: u32 = 10;
/// Longer than any curve takes, in seconds.
const LONG: f64 = 3_600.0;
/// Files and sockets of a process beside those of calls.
const OTHER_FILES: u64 = 500;

/// Holds more and more calls at the partner and measures what that does to others.
pub(crate) async fn held(how: &How<'_>, lines: &mut Lines<'_>) -> io::Result<()> {
    let largest = how.sizes.iter().max().copied().unwrap_or_default();
    enough_files(largest, open_files())?;
    let bench = bench(how, &[])?;
    let mut partner = Partner::start(&bench).await?;
    let models = write_catalog(&bench, "held", partner.address, FEW_MODELS)?;
    let router = router(&bench, &partner, &models);
    let (router, server) = router.start(&bench, "held").await?;
    // What a first load makes it keep is not the memory of calls.
    let warm = (&router, CONNECTIONS, Work::Post(router.call()));
    bench.turn_by_turn(&[warm]).await?;
    for size in &how.sizes {
        say(&format!("{size} calls in flight"));
        let calls = usize::try_from(*size).map_err(io::Error::other)?;
        let plan = Plan {
            server: router.address,
            connections: calls,
            work: Work::Held(router.held()),
            seconds: LONG,
            most: NO_END,
            first: 0,
        };
        let mut clients = Clients::start(&bench.own, &[plan]).await?;
        arrived(&partner, calls).await?;
        let resident_bytes = router.usage()?.resident_bytes;
        let load = (&router, PACE.1, paced(&router));
        let tally = first(bench.turn_by_turn(&[load]).await?);
        partner.release().await?;
        clients.go().await?;
        clients.outcome().await?;
        let values = [megabytes(resident_bytes), tally.percentile_us(50.0)];
        for (series, value) in HELD.iter().zip(values) {
            lines.take(series, *size, Some(value))?;
        }
    }
    server.kill().await
}

/// Serves the same calls, pages and estimates with catalogs of each size, turn by turn.
pub(crate) async fn models(how: &How<'_>, lines: &mut Lines<'_>) -> io::Result<()> {
    let bench = bench(how, &[])?;
    let partner = Partner::start(&bench).await?;
    let mut routers = Vec::new();
    for size in &how.sizes {
        say(&format!("starting with {size} models"));
        let name = format!("models-{size}");
        let count = u32::try_from(*size).map_err(io::Error::other)?;
        let models = write_catalog(&bench, "catalog", partner.address, count)?;
        let router = router(&bench, &partner, &models);
        routers.push(router.start(&bench, &name).await?);
    }
    let works =
        |router: &Subject| [router.call(), router.list(PAGE), router.estimate()].map(Work::Post);
    let loads = routers.iter().flat_map(|(router, _)| {
        let works = works(router).into_iter();
        works.map(move |work| (router, CONNECTIONS, work))
    });
    let loads: Vec<_> = loads.collect();
    say("calls, pages and estimates with each of them in turn");
    let tallies = bench.turn_by_turn(&loads).await?;
    for (size, tallies) in how.sizes.iter().zip(tallies.chunks(MODELS.len())) {
        for (series, tally) in MODELS.iter().zip(tallies) {
            lines.take(series, *size, each_us(tally))?;
        }
    }
    Ok(())
}

/// A bench whose servers have these arguments beside those of all.
fn bench(how: &How<'_>, with: &[&str]) -> io::Result<Bench> {
    Ok(Bench {
        program: how.program.clone(),
        under: Vec::new(),
        own: how.client.to_owned(),
        folder: how.own_folder()?,
        seconds: how.seconds,
        turns: TURNS,
        held: 0,
        models: 0,
        with: with.iter().map(|text| (*text).to_owned()).collect(),
        variables: Vec::new(),
    })
}

/// A router with every check.
fn router<'a>(bench: &'a Bench, partner: &Partner, models: &'a Path) -> Router<'a> {
    Router {
        folder: bench.folder.path(),
        models,
        partner: partner.address,
        checked: true,
        concurrent_calls: UNBOUNDED,
    }
}

/// Processor microseconds of each piece of work; `None` if none was done.
fn each_us(tally: &Tally) -> Option<f64> {
    (!tally.times_us.is_empty()).then(|| tally.cpu_us_each())
}

/// How many files this process and those that it starts may have open; `None` without a bound.
fn open_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Refuses what the files of a process are too few for: a call in flight takes two.
fn enough_files(calls: u64, open: Option<u64>) -> io::Result<()> {
    let needed = 2 * calls + OTHER_FILES;
    match open {
        Some(open) if open < needed => Err(io::Error::other(format!(
            "{calls} calls in flight need {needed} open files and {open} are allowed: raise it with `ulimit -n {needed}`, or leave \
             larger sizes out with --most"
        ))),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_open_files_are_told_with_what_is_needed() {
        assert!(enough_files(1_000, Some(2_500)).is_ok() && enough_files(9_000, None).is_ok());
        let error = enough_files(1_000, Some(1_024)).expect_err("two files for a call");
        assert!(error.to_string().contains("ulimit -n 2500"), "{error}");
    }

    #[test]
    fn a_load_that_did_nothing_has_no_figure() {
        assert_eq!(each_us(&Tally::default()), None);
    }
}
