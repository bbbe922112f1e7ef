//! `cargo xtask bench v2`: the v2 API and jobs over the embedded store, in the real binary.
//!
//! Every scenario has a server of its own over a fresh data directory, with limits raised where they would refuse what is
//! measured. The directory lies beside the build, not in the system's temporary folder, which may be memory and would make
//! every fsync free.

mod compared;
pub mod curves;
mod jobs;
mod memory;
mod requests;
mod sockets;
mod stalled;
mod start;
mod stored;
mod streams;
mod uploads;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tempfile::TempDir;

use self::compared::Counted;
use super::against::Against;
use super::against::count::{self, Counter};
use super::against::instructions::Instructions;
use super::client::{Outcome, Plan, Work};
use super::clients::Clients;
use super::report::{Figure, Report, ServerUse, Setting};
use super::{disk, machine, say, until_interrupted};
use it::load::server::{self, Launch, Product, Profile, Server};

/// What to measure, and how long.
#[derive(Debug, Args)]
pub struct Options {
    /// Measure these alone; may be given several times.
    #[arg(long, value_enum)]
    only: Vec<Scenario>,
    /// How long each load lasts: 10 s unless given, and 2 s in each turn of a comparison.
    #[arg(long)]
    seconds: Option<u32>,
    /// How many jobs are stored where many are.
    #[arg(long, default_value_t = 100_000)]
    stored: u64,
    /// Measure this program instead of building one.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Where data directories are made; beside the build unless named.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// A further argument for every server, such as `--with=--job-slots=8`; may be given several times.
    #[arg(long)]
    with: Vec<String>,
    /// Pairs of turns with `--against`, 20 unless given; 0 leaves times out.
    #[arg(long, value_name = "PAIRS", requires = "against")]
    rounds: Option<usize>,
    #[command(flatten)]
    against: Against,
}

/// A run of a server that gives one figure or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Submissions from 64 clients and from one.
    Submit,
    /// Looks at jobs from 64 clients.
    Look,
    /// The trivial graph, one at a time and 32 queued.
    Trivial,
    /// A picture of 512 by 512 loaded, inverted and saved, one at a time and 32 queued.
    Invert,
    /// Files of 100 MB.
    Upload,
    /// Memory, idle and after 10,000 jobs.
    Memory,
    /// From start to ready, with an empty store.
    Start,
    /// From start to ready and looks at jobs, with many jobs stored.
    Stored,
    /// 9,000 event streams.
    Streams,
    /// 9,000 WebSockets of the older API.
    Sockets,
    /// 1,000 readers that never read.
    Stalled,
}

/// What scenarios share.
struct Bench {
    program: PathBuf,
    /// A program that runs it, with its arguments; empty without one.
    under: Vec<String>,
    /// This very program, built for speed: what client processes run.
    client: PathBuf,
    repository: PathBuf,
    /// Everything that scenarios write is in here and goes with it.
    folder: TempDir,
    seconds: f64,
    stored: u64,
    /// Further arguments for every server.
    with: Vec<String>,
}

/// This program, which clients run.
const DRIVER: Product = Product::program(crate::DRIVER);
/// How long a load lasts, in seconds.
const SECONDS: u32 = 10;
/// The most that a load does when only time bounds it: far more than it can, and no more than there are different graphs.
const NO_END: u64 = 1 << 23;

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
        None => server::build(root, Profile::Dist, &[])?,
    };
    let client = server::build_product(root, DRIVER, Profile::Release, &[])?;
    let seconds = options.seconds.unwrap_or(SECONDS);
    let bench = Bench::new(root, options, program, client, f64::from(seconds))?;
    // The folder goes with the bench.
    until_interrupted(bench.all(&options.only, out))
}

/// The instructions of a submission with its job, of a look at a job, and of a picture that is inverted, by this server,
/// which `client` asks.
pub(super) async fn counts(
    program: &Path,
    client: &Path,
    root: &Path,
) -> io::Result<[(&'static str, Instructions); 3]> {
    let count = async |counted: Counted| {
        let bench = Bench {
            program: program.to_owned(),
            under: Vec::new(),
            client: client.to_owned(),
            repository: root.to_owned(),
            folder: TempDir::with_prefix_in("bench-", root.join("target"))?,
            seconds: count::LONGEST_SECONDS,
            stored: 0,
            with: Vec::new(),
        };
        counted.count(bench, Counter::Callgrind).await
    };
    Ok([
        ("submit-instructions", count(Counted::Submit).await?),
        ("look-instructions", count(Counted::Look).await?),
        ("invert-instructions", count(Counted::Invert).await?),
    ])
}

impl Bench {
    /// A bench of a program over a folder of its own.
    fn new(
        root: &Path,
        options: &Options,
        program: PathBuf,
        client: PathBuf,
        seconds: f64,
    ) -> io::Result<Self> {
        let folder = options.folder.clone();
        let folder = folder.unwrap_or_else(|| root.join("target"));
        fs::create_dir_all(&folder)?;
        Ok(Self {
            program,
            under: Vec::new(),
            client,
            repository: root.to_owned(),
            folder: TempDir::with_prefix_in("bench-", folder)?,
            seconds,
            stored: options.stored,
            with: options.with.clone(),
        })
    }

    async fn all(&self, only: &[Scenario], out: &mut dyn Write) -> io::Result<bool> {
        let setting = Setting {
            machine: machine::machine(),
            build: machine::build(&self.repository, Profile::Dist),
            disk: disk::Disk::measure(self.folder.path())?,
        };
        let chosen = Scenario::value_variants()
            .iter()
            .filter(|scenario| only.is_empty() || only.contains(scenario));
        let mut report = Report::new(setting, out);
        for scenario in chosen {
            say(&format!("{scenario:?}"));
            report.take(scenario, self.one(*scenario).await)?;
        }
        report.close()
    }

    async fn one(&self, scenario: Scenario) -> io::Result<Vec<Figure>> {
        match scenario {
            Scenario::Submit => requests::submit(self).await,
            Scenario::Look => requests::look(self).await,
            Scenario::Trivial => jobs::trivial(self).await,
            Scenario::Invert => jobs::invert(self).await,
            Scenario::Upload => uploads::upload(self).await,
            Scenario::Memory => memory::memory(self).await,
            Scenario::Start => start::start(self).await,
            Scenario::Stored => stored::stored(self).await,
            Scenario::Streams => streams::streams(self).await,
            Scenario::Sockets => sockets::sockets(self).await,
            Scenario::Stalled => stalled::stalled(self).await,
        }
    }

    /// How a server is started over the data directory `name` of this run.
    fn launch(&self, name: &str, arguments: &[&str]) -> Launch {
        let raised = [
            "--queue-per-account",
            "10000000",
            "--queue-total",
            "10000000",
            "--streams-per-account",
            "100000",
            "--log-level",
            "warn",
        ];
        let with = self.with.iter().map(String::as_str);
        let arguments = raised.iter().chain(arguments).copied().chain(with);
        Launch {
            program: self.program.clone(),
            under: self.under.clone(),
            data_dir: self.folder.path().join(name),
            log: self.folder.path().join(format!("{name}.log")),
            arguments: arguments.map(str::to_owned).collect(),
            variables: Vec::new(),
        }
    }

    async fn server(&self, name: &str) -> io::Result<Server> {
        Server::start(&self.launch(name, &[])).await
    }

    /// The plan of a load on `server` that lasts as long as the options say.
    fn plan(&self, server: &Server, connections: usize, work: Work) -> Plan {
        Plan {
            server: server.address,
            connections,
            work,
            seconds: self.seconds,
            most: NO_END,
            first: 0,
        }
    }

    /// Runs a load and returns what its clients measured and what the server used meanwhile.
    async fn measure(&self, server: &Server, plans: &[Plan]) -> io::Result<(Outcome, ServerUse)> {
        let mut clients = Clients::start(&self.client, plans).await?;
        let before = server.usage()?;
        clients.go().await?;
        let outcome = clients.outcome().await?;
        let after = server.usage()?;
        let used = ServerUse {
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            resident_bytes: after.resident_bytes,
        };
        Ok((outcome, used))
    }
}

/// A load in two processes of half the connections each, so that clients are no bottleneck; submissions are told apart.
fn halves(plan: &Plan) -> [Plan; 2] {
    let half = Plan {
        connections: plan.connections / 2,
        most: plan.most / 2,
        ..plan.clone()
    };
    let other = Plan {
        first: plan.first + half.most,
        ..half.clone()
    };
    [half, other]
}

/// Processor microseconds of the server for each of `count` pieces of work.
fn cpu_us_each(used: ServerUse, count: usize) -> f64 {
    used.cpu_seconds * 1e6 / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use it::load::graphs::Graph;

    #[test]
    fn halves_do_the_whole_without_meeting() {
        for most in [1000, NO_END] {
            let plan = Plan {
                server: ([127, 0, 0, 1], 1).into(),
                connections: 64,
                work: Work::Submit(Graph::Trivial),
                seconds: 1.0,
                most,
                first: 0,
            };
            let [one, other] = halves(&plan);
            assert_eq!(one.connections + other.connections, 64);
            assert_eq!(one.most + other.most, most);
            assert_eq!(one.first + one.most, other.first);
            // Colours are counted round, so numbers that do not meet might still give the same graph.
            let graph = |plan: &Plan| Graph::Trivial.submission(plan.first);
            assert_ne!(graph(&one), graph(&other));
        }
    }
}
