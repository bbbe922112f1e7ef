//! `bench v2 --against`: the scenarios over two programs in turn, and the instructions of a piece of their work.
//!
//! Each turn has a server of its own over a fresh directory, as in a plain run. The directories of a scenario are deleted
//! only once it is over, because a disk that has just deleted thousands of files is slower for a while.

use std::io::{self, Write};
use std::path::Path;

use clap::ValueEnum;

use super::requests::some_jobs;
use super::{Bench, DRIVER, Options, Scenario, jobs};
use crate::against::count::{self, Counter};
use crate::against::instructions::Instructions;
use crate::against::report::Method;
use crate::against::turns::{Side, compare, instructions, readings};
use crate::client::Work;
use crate::disk::Disk;
use crate::until_interrupted;
use it::load::graphs::Graph;
use it::load::server::{self, Product, Profile, Server};

/// What is compared unless scenarios are named: those whose turns are short.
const USUAL: [Scenario; 4] = [
    Scenario::Submit,
    Scenario::Look,
    Scenario::Trivial,
    Scenario::Invert,
];
/// Pairs of turns.
const ROUNDS: usize = 20;
/// How long a load lasts, in seconds. Short turns lie close together: a slow spell of the machine hits both programs.
const SECONDS: u32 = 2;
/// Jobs that are looked at while instructions are counted.
const LOOKED_AT: u64 = 50;

pub(super) fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    let against = &options.against;
    let product = Product::program("all-in-one");
    let given = options.program.as_deref();
    let programs = against.programs(root, product, Profile::Dist, given)?;
    let client = server::build_product(root, DRIVER, Profile::Release, &[])?;
    let seconds = f64::from(options.seconds.unwrap_or(SECONDS));
    let bench = |side| {
        let program = programs.of(side).to_owned();
        Bench::new(root, options, program, client.clone(), seconds)
    };
    let disk = Disk::measure(bench(Side::After)?.folder.path())?;
    let mut report = against.report(&programs, Some(disk), out);
    let counter = against.counter(&mut report);
    let chosen = |scenario: &&Scenario| match options.only.is_empty() {
        true => USUAL.contains(scenario),
        false => options.only.contains(scenario),
    };
    until_interrupted(async {
        for scenario in Scenario::value_variants().iter().filter(chosen) {
            let name = format!("{scenario:?}").to_lowercase();
            let rounds = options.rounds.unwrap_or(ROUNDS);
            if rounds > 0 {
                let mut kept = Vec::with_capacity(2 * rounds);
                let turns = compare(&name, rounds, async |side| {
                    let bench = bench(side)?;
                    let figures = bench.one(*scenario).await?;
                    kept.push(bench);
                    Ok(readings(&figures))
                });
                report.take(&name, Method::Times, turns.await)?;
            }
            let (Some(counter), Some(counted)) = (counter, Counted::of(*scenario)) else {
                continue;
            };
            let name = format!("{name}-instructions");
            let turns = compare(&name, against.counts(), async |side| {
                let each = counted.count(bench(side)?, counter).await?;
                Ok(vec![instructions(&name, each.total)])
            });
            report.take(&name, Method::Counts(counter.name()), turns.await)?;
        }
        report.close()
    })
}

/// A piece of work whose instructions are counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counted {
    /// A submission and its job, which nobody follows.
    Submit,
    /// A look at a finished job.
    Look,
    /// A submission, its job, and the stream of its events.
    Trivial,
    /// The same of a picture that is loaded, inverted and saved.
    Invert,
}

impl Counted {
    /// What is counted of a scenario; `None` where instructions are not what it measures.
    fn of(scenario: Scenario) -> Option<Self> {
        match scenario {
            Scenario::Submit => Some(Self::Submit),
            Scenario::Look => Some(Self::Look),
            Scenario::Trivial => Some(Self::Trivial),
            Scenario::Invert => Some(Self::Invert),
            Scenario::Upload
            | Scenario::Memory
            | Scenario::Start
            | Scenario::Stored
            | Scenario::Streams
            | Scenario::Sockets
            | Scenario::Stalled => None,
        }
    }

    /// Pieces of work of a count: enough that what happens once is lost among them.
    fn pieces(self) -> u64 {
        match self {
            Self::Submit | Self::Trivial => 200,
            Self::Look => 1_000,
            Self::Invert => 10,
        }
    }

    /// The instructions of one piece of it.
    pub(super) async fn count(
        self,
        mut bench: Bench,
        counter: Counter,
    ) -> io::Result<Instructions> {
        bench.under = counter.under(bench.folder.path());
        let server = bench.server("counted").await?;
        let plan = super::Plan {
            most: self.pieces(),
            ..bench.plan(&server, 1, self.work(&bench, &server).await?)
        };
        let folder = bench.folder.path();
        let each = count::of_each(counter, &bench.client, plan, server.pid, folder).await?;
        server.kill().await?;
        Ok(each)
    }

    async fn work(self, bench: &Bench, server: &Server) -> io::Result<Work> {
        Ok(match self {
            Self::Submit => Work::Submit(Graph::Trivial),
            Self::Trivial => Work::Finish(Graph::Trivial),
            Self::Look => {
                let store = super::Plan {
                    most: LOOKED_AT,
                    seconds: count::LONGEST_SECONDS,
                    ..bench.plan(server, 1, Work::Finish(Graph::Trivial))
                };
                bench.measure(server, &[store]).await?;
                Work::Look(some_jobs(&mut server.connect().await?, LOOKED_AT).await?)
            }
            Self::Invert => {
                // As many again are inverted before the count begins.
                let pictures = 2 * self.pieces() as usize;
                Work::Finish(Graph::Invert(
                    jobs::pictures(bench, server, pictures).await?,
                ))
            }
        })
    }
}
