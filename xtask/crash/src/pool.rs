//! `cargo xtask pool`: ComfyUI workers go wrong, are killed, are raced against, and what clients were told is judged.
//!
//! The workers are simulated (`tests/harness/comfy`), the program is the real one. Each campaign has a server of its own over an
//! empty directory. Clients keep what they were told, workers keep what they ran; when all is over every job is looked at, every
//! output is read, and a pure [`judge`] compares the three.

mod affinity;
mod cancels;
mod client;
mod faults;
mod judge;
mod kills;
mod outages;
mod rig;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use it::load::server::{self, Kind as ProgramKind, Product, Profile};

use self::judge::{Facts, Kind, Violation, check};

/// Which campaign, how long, and where to begin.
#[derive(Debug, Args)]
pub struct Options {
    /// What happens.
    #[arg(value_enum)]
    campaign: Campaign,
    /// How many jobs, races, rounds or cycles; a short run unless given.
    #[arg(long)]
    count: Option<u64>,
    /// Decides what is sent and what goes wrong; taken from the clock unless given.
    #[arg(long)]
    seed: Option<u64>,
    /// Use this program, and `simulated-comfyui` beside it, instead of building them.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Build the program as for tests, which is sooner done, rather than as for a release.
    #[arg(long)]
    dev: bool,
}

/// What can happen to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Campaign {
    /// Jobs over four workers, of which one goes wrong every two seconds.
    Faults,
    /// Cancels that race with their jobs, beside jobs that nobody cancels.
    Cancels,
    /// Jobs of four models over four workers that have all of them.
    Affinity,
    /// A worker dies and comes back.
    Outages,
    /// The program, workers, or all of them are killed.
    Kills,
}

/// The simulated worker as a program.
const WORKER: Product = Product {
    package: "it",
    name: "simulated-comfyui",
    kind: ProgramKind::Program,
};
/// Violations that are told one by one.
const MOST_TOLD: usize = 10;

/// What came of a campaign.
struct Outcome {
    /// What was counted, in the order of the report.
    figures: Vec<(String, u64)>,
    violations: Vec<Violation>,
    /// What missed its gate.
    failures: Vec<String>,
}

/// Runs a campaign and writes its summary; returns whether nothing was found that must not be.
///
/// # Errors
/// When a program cannot be built or started, or does not answer any more.
pub fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    let profile = match options.dev {
        true => Profile::Dev,
        false => Profile::Release,
    };
    let (program, worker) = match &options.program {
        Some(program) => (program.clone(), program.with_file_name(WORKER.name)),
        None => (
            server::build(root, profile, &[])?,
            server::build_product(root, WORKER, profile, &[])?,
        ),
    };
    for program in [&program, &worker] {
        if !program.is_file() {
            let text = format!("there is no program {}; build it first", program.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
    }
    let seed = options.seed.unwrap_or_else(crate::seed_from_clock);
    let folder = root.join("target").join("pool");
    fs::create_dir_all(&folder)?;
    let folder = tempfile::TempDir::with_prefix_in(format!("seed-{seed}-"), &folder)?;
    let campaign = options.campaign;
    let count = options.count.unwrap_or(campaign.short());
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = campaign.run(&program, &worker, folder.path(), count, seed) => outcome,
            interrupt = tokio::signal::ctrl_c() => {
                interrupt?;
                Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"))
            }
        }
    });
    let is_clean = match &outcome {
        Ok(outcome) => {
            outcome.write(campaign, seed, out)?;
            outcome.is_clean()
        }
        Err(_) => false,
    };
    if !is_clean {
        writeln!(out, "pool: logs are in {}", folder.keep().display())?;
    }
    outcome.map(|_| is_clean)
}

impl Campaign {
    /// How much a short run does.
    fn short(self) -> u64 {
        match self {
            Self::Faults | Self::Cancels | Self::Affinity => 300,
            Self::Outages => 4,
            Self::Kills => 10,
        }
    }

    async fn run(
        self,
        program: &Path,
        worker: &Path,
        folder: &Path,
        count: u64,
        seed: u64,
    ) -> io::Result<Outcome> {
        match self {
            Self::Faults => faults::run(program, folder, count, seed).await,
            Self::Cancels => cancels::run(program, folder, count, seed).await,
            Self::Affinity => affinity::run(program, folder, count, seed).await,
            Self::Outages => outages::run(program, worker, folder, count).await,
            Self::Kills => kills::run(program, worker, folder, count, seed).await,
        }
    }
}

impl Outcome {
    /// Judges what is known, and counts it.
    fn of(facts: &Facts) -> Self {
        let mut outcome = Self {
            figures: Vec::new(),
            violations: check(facts),
            failures: Vec::new(),
        };
        let ended = |status: &str| {
            let last = facts.jobs.iter().filter_map(|job| job.last.as_ref());
            last.filter(|last| last.status == status).count()
        };
        let announced = facts.jobs.iter().map(|job| job.announced.len());
        let succeeded = ended("succeeded");
        outcome.figure("jobs taken in", facts.jobs.len() as u64);
        outcome.figure("jobs that succeeded", succeeded as u64);
        outcome.figure("jobs that failed", ended("failed") as u64);
        outcome.figure("jobs that were canceled", ended("canceled") as u64);
        outcome.figure("outputs announced", announced.sum::<usize>() as u64);
        outcome.figure("prompts that workers began", facts.runs.len() as u64);
        if succeeded * 2 < facts.jobs.len() {
            outcome.fail("fewer than half of the jobs succeeded, which says too little".to_owned());
        }
        outcome
    }

    fn figure(&mut self, name: &str, value: u64) {
        self.figures.push((name.to_owned(), value));
    }

    fn fail(&mut self, what: String) {
        self.failures.push(what);
    }

    fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.failures.is_empty()
    }

    fn write(&self, campaign: Campaign, seed: u64, out: &mut dyn Write) -> io::Result<()> {
        for violation in self.violations.iter().take(MOST_TOLD) {
            writeln!(out, "pool: {:?}: {}", violation.kind, violation.what)?;
        }
        for failure in &self.failures {
            writeln!(out, "pool: {failure}")?;
        }
        writeln!(out, "pool: {campaign:?}, seed {seed}")?;
        for (name, value) in &self.figures {
            writeln!(out, "| {name} | {value} |")?;
        }
        for kind in Kind::ALL {
            let found = self.violations.iter().filter(|found| found.kind == kind);
            writeln!(out, "| **{}** | **{}** |", kind.name(), found.count())?;
        }
        Ok(())
    }
}

/// Says on standard error how far a campaign is; the report alone goes to standard output.
fn say(what: &str) {
    let _ = writeln!(io::stderr(), "pool: {what}");
}
