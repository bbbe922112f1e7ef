//! `bench engine --against`: the nodes of two builds in turn, and the instructions of a picture job.
//!
//! Both programs work on the same pictures, one at a time. Processes are replaced every few turns: one is a little faster or
//! slower than the next one of the same program, as its memory happens to lie.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use tempfile::TempDir;

use super::scenarios::{ALL, Bound, Scenario, Shape};
use super::{Asked, NODES, Options, shapes, wanted};
use crate::against::count::{self, Counter};
use crate::against::report::Method;
use crate::against::turns::{Reading, Side, compare};
use crate::claim::Better;
use it::load::server::Profile;

/// Pairs of turns.
const ROUNDS: usize = 20;
/// After how many turns a process is replaced.
const TURNS_OF_A_PROCESS: u32 = 4;
/// Where instructions are counted: small pictures, and one thread, whose work does not depend on when others are idle.
const COUNTED: Shape = Shape {
    side: 512,
    batch: 1,
    threads: 1,
};
/// How often the counted work is done, and as often before the count begins.
const COUNTED_TIMES: u32 = 3;

pub(super) fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    let against = &options.against;
    let programs = against.programs(root, NODES, Profile::Release, None)?;
    let mut report = against.report(&programs, None, out);
    let counter = against.counter(&mut report);
    let rounds = options.rounds.unwrap_or(ROUNDS);
    // An interrupt ends this process and the programs at once: nothing of theirs is left behind.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        if rounds > 0 {
            for shape in shapes(options) {
                for scenario in wanted(options, shape) {
                    let name = name(scenario, shape);
                    let mut both = [Turner::default(), Turner::default()];
                    let compared = compare(&name, rounds, async |side| {
                        let turner = match side {
                            Side::Before => &mut both[0],
                            Side::After => &mut both[1],
                        };
                        let ms = turner.turn(programs.of(side), scenario, shape)?;
                        Ok(vec![reading(&name, "ms", ms)])
                    });
                    report.take(&name, Method::Times, compared.await)?;
                }
            }
        }
        let Some(counter) = counter else {
            return report.close();
        };
        for scenario in ALL.iter().filter(|scenario| is_counted(options, scenario)) {
            let name = format!("{}-instructions", scenario.name);
            let compared = compare(&name, against.counts(), async |side| {
                let each = instructions(scenario, programs.of(side), counter).await?;
                Ok(vec![reading(&name, "instr", each)])
            });
            report.take(&name, Method::Counts(counter.name()), compared.await)?;
        }
        report.close()
    })
}

/// The processes of one program, one after the other.
#[derive(Default)]
struct Turner {
    process: Option<Asked>,
    turns: u32,
}

impl Turner {
    /// The milliseconds of a scenario. The first answer of a process warms up and does not count.
    fn turn(&mut self, program: &Path, scenario: &Scenario, shape: Shape) -> io::Result<f64> {
        let request = scenario.request(shape);
        if self.turns.is_multiple_of(TURNS_OF_A_PROCESS) {
            self.process = None;
        }
        self.turns += 1;
        let process = match &mut self.process {
            Some(process) => process,
            none => {
                let mut process = Asked::start(program.as_os_str(), &[])?;
                process.ask(&request)?;
                none.insert(process)
            }
        };
        let ns = process.ask(&request)?["ns"].as_f64();
        let ns = ns.ok_or_else(|| io::Error::other("an answer has no time"))?;
        Ok(ns / 1e6)
    }
}

/// Whole graphs, unless scenarios are named; making what goes into them is counted, too.
fn is_counted(options: &Options, scenario: &Scenario) -> bool {
    match options.only.is_empty() {
        true => scenario.bound == Bound::Graph,
        false => options.only.iter().any(|name| name == scenario.name),
    }
}

/// The instructions that one answer takes.
async fn instructions(scenario: &Scenario, program: &Path, counter: Counter) -> io::Result<f64> {
    let folder = TempDir::with_prefix("bench-")?;
    let under = counter.under(folder.path());
    let words: Vec<&OsStr> = under
        .iter()
        .map(OsStr::new)
        .chain([program.as_os_str()])
        .collect();
    let mut asked = Asked::start(words[0], &words[1..])?;
    let request = scenario.request(COUNTED);
    (0..COUNTED_TIMES).try_for_each(|_| asked.ask(&request).map(drop))?;
    let pid = asked.child.id();
    count::idle(pid).await?;
    let count = counter.begin(pid, folder.path()).await?;
    (0..COUNTED_TIMES).try_for_each(|_| asked.ask(&request).map(drop))?;
    Ok(count.end().await?.total / f64::from(COUNTED_TIMES))
}

fn reading(name: &str, unit: &'static str, value: f64) -> Reading {
    Reading {
        name: name.to_owned(),
        unit,
        better: Better::Lower,
        value,
    }
}

/// The name of a scenario in a shape, such as `blur-512x32-2t`.
fn name(scenario: &Scenario, shape: Shape) -> String {
    let batch = match shape.batch {
        1 => String::new(),
        batch => format!("x{batch}"),
    };
    format!("{}-{}{batch}-{}t", scenario.name, shape.side, shape.threads)
}
