//! `cargo xtask bench router`: what a call costs on its way through the router, beside nginx and a plain proxy.
//!
//! A partner on loopback answers 1 KB to bodies of 0.9 KB from a process of its own. The same load goes to it directly,
//! through nginx, through a plain proxy of hyper and through the router, turn by turn in one run, so that whatever the
//! machine does meanwhile it does to all of them.

pub mod partner;
pub mod proxy;

mod catalog;
mod compared;
pub mod curves;
mod held;
pub(crate) mod replicas;
mod requests;
mod streams;
mod subjects;
mod token;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::Value;
use tempfile::TempDir;

use super::against::Against;
use super::against::count::Counter;
use super::against::instructions::Instructions;
use super::client::{Plan, Work};
use super::clients::Clients;
use super::report::{Figure, Report, Setting};
use super::{disk, machine, say, until_interrupted};
use it::load::server::{self, Product, Profile};
use subjects::{Peers, Subject};

/// What to measure, and how long.
#[derive(Debug, Args)]
pub struct Options {
    /// Measure these alone; may be given several times.
    #[arg(long, value_enum)]
    only: Vec<Scenario>,
    /// How long each subject is under each load, all its turns together.
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// In how many turns.
    #[arg(long, default_value_t = 10)]
    turns: u32,
    /// Calls in flight where many are.
    #[arg(long, default_value_t = 9_000)]
    held: usize,
    /// Models of the large catalog.
    #[arg(long, default_value_t = 10_000)]
    models: u32,
    /// Measure this program instead of building one.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Let clients, the partner and the plain proxy run this program instead of this very one, built for speed.
    #[arg(long)]
    client: Option<PathBuf>,
    /// Where data directories are made; beside the build unless named.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// A further argument for the router; may be given several times.
    #[arg(long)]
    with: Vec<String>,
    /// Pairs of turns with `--against`, 20 unless given; 0 leaves times out. A turn lasts `--seconds` over `--turns`.
    #[arg(long, value_name = "PAIRS", requires = "against")]
    rounds: Option<usize>,
    #[command(flatten)]
    against: Against,
}

/// A run that gives one figure or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Added latency at 500 calls in a second.
    Latency,
    /// Added time until the first byte of a stream.
    Streams,
    /// Processor time of a call over 64 connections, with every check and with as few as there can be.
    Cpu,
    /// Thousands of calls in flight: memory, and what they do to others.
    Held,
    /// A large catalog against a small one.
    Catalog,
}

/// What scenarios share.
struct Bench {
    program: PathBuf,
    /// A program that runs it, with its arguments; empty without one.
    under: Vec<String>,
    /// This very program, built for speed: what clients, the partner and the plain proxy run.
    own: PathBuf,
    /// Everything that scenarios write is in here and goes with it.
    folder: TempDir,
    seconds: f64,
    turns: u32,
    held: usize,
    models: u32,
    with: Vec<String>,
    /// Variables that the router gets.
    variables: Vec<(String, String)>,
}

/// The program that is measured.
const ROUTER: Product = Product::program("router-server");
/// The most that a load does when only time bounds it.
const NO_END: u64 = u64::MAX;

/// Measures and writes a JSON line per figure and a table; returns whether every gate was passed.
///
/// # Errors
/// When something cannot be built, started or reached, or a request fails.
pub fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    if options.against.is_asked_for() {
        return compared::run(root, options, out);
    }
    let program = match &options.program {
        Some(program) => program.clone(),
        None => server::build_product(root, ROUTER, Profile::Dist, &[])?,
    };
    let bench = Bench::new(root, options, program, own(root, options)?)?;
    let mut build = machine::build(root, Profile::Dist);
    if options.program.is_some() {
        // Nobody knows here how it was built.
        build["profile"] = Value::Null;
    }
    let setting = Setting {
        machine: machine::machine(),
        build,
        disk: disk::Disk::measure(bench.folder.path())?,
    };
    // The folder goes with the bench.
    until_interrupted(bench.all(&options.only, setting, out))
}

/// The instructions of a call without a key and with one, of this router, which `own` calls.
pub(super) async fn counts(
    program: PathBuf,
    own: PathBuf,
    folder: &Path,
) -> io::Result<[(&'static str, Instructions); 2]> {
    let bench = Bench {
        program,
        under: Vec::new(),
        own,
        folder: TempDir::with_prefix_in("bench-", folder)?,
        seconds: 0.0,
        turns: 1,
        held: 0,
        models: 0,
        with: Vec::new(),
        variables: Vec::new(),
    };
    compared::count_calls(bench, Counter::Callgrind).await
}

/// The program that clients, the partner and the plain proxy run.
fn own(root: &Path, options: &Options) -> io::Result<PathBuf> {
    match &options.client {
        Some(client) => Ok(client.clone()),
        None => server::build_product(root, Product::program(crate::DRIVER), Profile::Release, &[]),
    }
}

impl Bench {
    /// A bench of a program over a folder of its own.
    fn new(root: &Path, options: &Options, program: PathBuf, own: PathBuf) -> io::Result<Self> {
        let folder = options.folder.clone();
        let folder = folder.unwrap_or_else(|| root.join("target"));
        fs::create_dir_all(&folder)?;
        Ok(Self {
            program,
            under: Vec::new(),
            own,
            folder: TempDir::with_prefix_in("bench-", folder)?,
            seconds: f64::from(options.seconds),
            turns: options.turns.max(1),
            held: options.held,
            models: options.models,
            with: options.with.clone(),
            variables: Vec::new(),
        })
    }

    async fn all(
        &self,
        only: &[Scenario],
        setting: Setting,
        out: &mut dyn Write,
    ) -> io::Result<bool> {
        let chosen = Scenario::value_variants()
            .iter()
            .filter(|scenario| only.is_empty() || only.contains(scenario));
        let disk = setting.disk;
        let mut report = Report::new(setting, out);
        for scenario in chosen {
            say(&format!("{scenario:?}"));
            report.take(scenario, self.one(*scenario, disk).await)?;
        }
        if subjects::nginx().is_none() {
            let note = "nginx is not installed: nothing stands beside it, and what is measured against it has no verdict";
            report.note(note.to_owned());
        }
        report.close()
    }

    async fn one(&self, scenario: Scenario, disk: disk::Disk) -> io::Result<Vec<Figure>> {
        match scenario {
            Scenario::Latency => requests::latency(self, disk).await,
            Scenario::Streams => streams::streams(self).await,
            Scenario::Cpu => requests::cpu(self).await,
            Scenario::Held => held::held(self).await,
            Scenario::Catalog => catalog::catalog(self).await,
        }
    }

    /// Everything that a call can go through, started for a scenario.
    async fn peers(&self, name: &str) -> io::Result<Peers> {
        Peers::start(self, name).await
    }

    /// Loads these subjects turn by turn, in the same order each time.
    async fn turn_by_turn(&self, loads: &[(&Subject, usize, Work)]) -> io::Result<Vec<Tally>> {
        let mut tallies = vec![Tally::default(); loads.len()];
        let seconds = self.turn_seconds();
        // The first turn warms up: connections are opened, caches filled. It does not count.
        for turn in 0..=self.turns {
            for ((subject, connections, work), tally) in loads.iter().zip(&mut tallies) {
                let one = self
                    .turn(subject, *connections, work.clone(), seconds)
                    .await?;
                if turn > 0 {
                    tally.add(one);
                }
            }
        }
        Ok(tallies)
    }

    /// How long a turn lasts.
    fn turn_seconds(&self) -> f64 {
        self.seconds / f64::from(self.turns)
    }

    /// One turn of one subject.
    async fn turn(
        &self,
        subject: &Subject,
        connections: usize,
        work: Work,
        seconds: f64,
    ) -> io::Result<Tally> {
        let plan = Plan {
            server: subject.address,
            connections,
            work,
            seconds,
            most: NO_END,
            first: 0,
        };
        self.carry_out(subject, plan).await
    }

    /// Has a process of clients do what the plan says.
    async fn carry_out(&self, subject: &Subject, plan: Plan) -> io::Result<Tally> {
        let mut clients = Clients::start(&self.own, &[plan]).await?;
        let before = subject.usage()?;
        clients.go().await?;
        let outcome = clients.outcome().await?;
        let after = subject.usage()?;
        Ok(Tally {
            times_us: outcome.samples,
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            seconds: outcome.seconds,
            resident_bytes: after.resident_bytes,
        })
    }
}

/// What a subject's turns gave together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) times_us: Vec<u64>,
    pub(crate) cpu_seconds: f64,
    pub(crate) seconds: f64,
    /// Memory after the last turn.
    resident_bytes: u64,
}

impl Tally {
    /// Takes in what came after.
    fn add(&mut self, later: Self) {
        self.times_us.extend(later.times_us);
        self.cpu_seconds += later.cpu_seconds;
        self.seconds += later.seconds;
        self.resident_bytes = later.resident_bytes;
    }

    /// The time that so many of a hundred calls did not exceed, in microseconds.
    fn percentile_us(&self, percent: f64) -> f64 {
        let samples = super::samples::Samples::new(self.times_us.clone());
        samples.percentile_ms(percent).unwrap_or(f64::INFINITY) * 1e3
    }

    /// Processor microseconds of a call.
    fn cpu_us_each(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.times_us.len().max(1) as f64
    }

    /// Calls in a second.
    fn rate(&self) -> f64 {
        self.times_us.len() as f64 / self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_is_of_calls() {
        let part = |times_us: Vec<u64>, seconds| Tally {
            times_us,
            cpu_seconds: 1.5e-5,
            seconds,
            resident_bytes: 7,
        };
        let mut tally = part(vec![100, 300], 1.0);
        tally.add(part(vec![200], 0.5));
        assert_eq!(tally.percentile_us(50.0), 200.0);
        assert!((tally.cpu_us_each() - 10.0).abs() < 1e-9);
        assert!((tally.rate() - 2.0).abs() < 1e-9);
        assert!(Tally::default().percentile_us(50.0).is_infinite());
    }
}
