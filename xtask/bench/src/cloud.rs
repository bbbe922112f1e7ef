//! `cargo xtask bench cloud`: two replicas over PostgreSQL and a bucket, beside other queues in the same PostgreSQL.
//!
//! Replicas, clients, PostgreSQL, the bucket and the other queues share one machine. Each figure has a fresh database. A job of Easel is
//! asked for over HTTP and makes a picture, which is in the bucket before the job ends; a job of another queue is a function that does
//! nothing, called in the process that submitted it.

mod behind;
mod calls;
mod open;
mod peers;
mod replicas;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use store_cloud::testing::PostgresServer;
use tempfile::TempDir;

use self::peers::{Answer, Ask, Peer};
use self::replicas::{Launching, Place, Replicas};
use super::claim::{Better, Claim};
use super::client::{Outcome, Plan, Work};
use super::clients::Clients;
use super::report::{Figure, Report, ServerUse, Setting, rounded};
use super::samples::Samples;
use super::{disk, machine, say, until_interrupted};
use it::load::graphs::Graph;
use it::load::server::{self, Product, Profile};

/// What to measure, and how long.
#[derive(Debug, Args)]
pub struct Options {
    /// Measure these alone; may be given several times.
    #[arg(long, value_enum)]
    only: Vec<Scenario>,
    /// For how many seconds jobs are submitted.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// How many jobs are run one at a time.
    #[arg(long, default_value_t = 200)]
    idle: u32,
    /// How many jobs of another account wait.
    #[arg(long, default_value_t = 100_000)]
    waiting: u32,
    /// For how many seconds a transaction stays open.
    #[arg(long, default_value_t = 1_800)]
    open: u32,
    /// Leave the other queues out, which come from PyPI and npm.
    #[arg(long)]
    alone: bool,
    /// Measure this program, built with the feature `cloud`, instead of building one.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Run clients with this program, which is this very one built for speed, instead of building it.
    #[arg(long)]
    client: Option<PathBuf>,
}

/// A run of replicas that gives one figure or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Submissions while nothing works.
    Submit,
    /// Jobs from the first submission to the last end, and what they add to the log.
    Finish,
    /// From submission to start on idle replicas.
    Idle,
    /// A job of one account behind many of another one.
    Behind,
    /// Calls of a model, beside nginx.
    Calls,
    /// Jobs while somebody else's transaction stays open.
    Open,
}

const SUBMIT: Claim = Claim {
    name: "cloud-submit",
    what: "durable submissions, 64 at once",
    unit: "1/s",
    better: Better::Higher,
    gate: Some(1_500.0),
    aim: Some(3_000.0),
};
const FINISH: Claim = Claim {
    name: "cloud-finish",
    what: "EmptyImage 64 -> SaveImage, first submission to last end, 64 submitted at once",
    unit: "jobs/s",
    better: Better::Higher,
    gate: Some(1_500.0),
    aim: Some(3_000.0),
};
const LOG: Claim = Claim {
    name: "cloud-log",
    what: "log of PostgreSQL for one of these jobs",
    unit: "KiB",
    better: Better::Lower,
    gate: Some(4.0),
    aim: Some(2.0),
};
const IDLE: Claim = Claim {
    name: "cloud-idle",
    what: "submission to start, one at a time (p99)",
    unit: "ms",
    better: Better::Lower,
    gate: Some(50.0),
    aim: Some(15.0),
};
/// Clients that submit.
const CLIENTS: usize = 64;
/// The share of awa's rate that the gate asks for, and the one that is aimed at.
const OF_AWA: (f64, f64) = (0.5, 1.0);
/// More submissions than any run makes, and no more than there are different graphs.
const NO_END: u64 = 1 << 22;

/// This program, which clients run.
const DRIVER: Product = Product::program(crate::DRIVER);

/// What scenarios share.
struct Bench {
    program: PathBuf,
    client: PathBuf,
    /// Where packages of the other queues are.
    packages: PathBuf,
    folder: TempDir,
    place: Place,
    peers: Vec<Peer>,
    seconds: u32,
    idle: u32,
    waiting: u32,
    open: Duration,
}

/// Measures and writes a JSON line per figure and a table; returns whether every gate was passed.
///
/// # Errors
/// When something cannot be built, installed, started or reached.
pub fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    if !PostgresServer::is_installed() {
        let text = "no PostgreSQL is installed; `apt-get install postgresql` installs one";
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    let program = match &options.program {
        Some(program) => program.clone(),
        None => server::build(root, Profile::Dist, &["cloud"])?,
    };
    let client = match &options.client {
        Some(client) => client.clone(),
        None => server::build_product(root, DRIVER, Profile::Release, &[])?,
    };
    let target = root.join("target");
    fs::create_dir_all(&target)?;
    let bench = Bench {
        program,
        client,
        packages: target.join("bench-peers"),
        folder: TempDir::with_prefix_in("bench-", target)?,
        place: Place::start()?,
        peers: match options.alone {
            true => Vec::new(),
            false => Peer::ALL.to_vec(),
        },
        seconds: options.seconds.max(1),
        idle: options.idle.max(1),
        waiting: options.waiting,
        open: Duration::from_secs(options.open.into()),
    };
    let build = match &options.program {
        // It is not known here how it was built.
        Some(program) => json!({"program": program}),
        None => machine::build(root, Profile::Dist),
    };
    let setting = Setting {
        machine: machine::machine(),
        build,
        disk: disk::Disk::measure(bench.folder.path())?,
    };
    let mut report = Report::new(setting, out);
    // The folder goes with the bench.
    until_interrupted(bench.all(&options.only, &mut report))?;
    report.close()
}

impl Bench {
    async fn all(&self, only: &[Scenario], report: &mut Report<'_>) -> io::Result<()> {
        for peer in &self.peers {
            peer.install(&self.packages).await?;
        }
        let scenarios = Scenario::value_variants().iter();
        for scenario in scenarios.filter(|one| only.is_empty() || only.contains(one)) {
            say(&format!("{scenario:?}"));
            let measured = match scenario {
                Scenario::Submit => self.submit().await,
                Scenario::Finish => self.finish().await,
                Scenario::Idle => self.idle().await,
                Scenario::Behind => behind::behind(self).await,
                Scenario::Calls => calls::calls(self).await,
                Scenario::Open => open::open(self).await,
            };
            report.take(scenario, measured)?;
        }
        Ok(())
    }

    async fn submit(&self) -> io::Result<Vec<Figure>> {
        let replicas = self.replicas("api", "submit").await?;
        let work = || Work::Submit(Graph::Trivial);
        let plans = plans(&replicas, CLIENTS, f64::from(self.seconds), work);
        let (outcome, used) = self.measure(&replicas, &plans).await?;
        replicas.end().await?;
        let peers = self.peers("submit", Ask::Submit(self.seconds)).await?;
        let figure = Figure {
            claim: SUBMIT,
            value: outcome.rate(),
            samples: outcome.times(),
            server: used,
            beside: beside(&peers, |answer| rounded(answer.rate)),
        };
        Ok(vec![figure])
    }

    async fn finish(&self) -> io::Result<Vec<Figure>> {
        let replicas = self.replicas("all", "finish").await?;
        let work = || Work::Submit(Graph::Trivial);
        let plans = plans(&replicas, CLIENTS, f64::from(self.seconds), work);
        let (log, began) = (self.place.log_bytes().await?, Instant::now());
        let (outcome, _) = self.measure(&replicas, &plans).await?;
        replicas.wait_for_ends(&self.place).await?;
        let took = began.elapsed();
        let log = self.place.log_bytes().await? - log;
        let used = replicas.usage()?;
        let bad = "SELECT count(*) FROM jobs_over WHERE status <> 'succeeded'";
        let bad = self.place.number(&replicas.name, bad).await?;
        replicas.end().await?;
        if bad > 0 {
            return Err(io::Error::other(format!("{bad} jobs did not succeed")));
        }
        let jobs = outcome.samples.len() as f64;
        let mut peers = Vec::new();
        for peer in &self.peers {
            let before = self.place.log_bytes().await?;
            let answer = self.ask(*peer, "finish", Ask::Finish(self.seconds)).await?;
            let written = self.place.log_bytes().await? - before;
            peers.push((*peer, (kib(written, answer.count as f64), answer)));
        }
        let awa = peers.iter().find(|(peer, _)| *peer == Peer::Awa);
        let rate = Figure {
            claim: beside_awa(FINISH, awa.map(|(_, (_, answer))| answer.rate)),
            value: jobs / took.as_secs_f64(),
            samples: Samples::default(),
            server: used,
            beside: beside(&peers, |(_, answer)| rounded(answer.rate)),
        };
        let log = Figure {
            claim: LOG,
            value: kib(log, jobs),
            samples: Samples::default(),
            server: used,
            beside: beside(&peers, |(written, _)| rounded(*written)),
        };
        Ok(vec![rate, log])
    }

    async fn idle(&self) -> io::Result<Vec<Figure>> {
        let replicas = self.replicas("all", "idle").await?;
        let mut plans = plans(&replicas, replicas.servers.len(), 600.0, || {
            Work::Finish(Graph::Trivial)
        });
        // One client alone, at the first replica: any of them may run its jobs.
        plans.truncate(1);
        plans[0].most = self.idle.into();
        let (_, used) = self.measure(&replicas, &plans).await?;
        let sql = "SELECT started_at - created_at FROM jobs_over WHERE status = 'succeeded'";
        let rows = self.place.database.query(&replicas.name, sql).await;
        let times = rows.iter().flatten().map(|text| text.parse::<u64>());
        let times: Result<Vec<u64>, _> = times.collect();
        let times = Samples::new(times.map_err(io::Error::other)?);
        replicas.end().await?;
        let peers = self.peers("idle", Ask::Idle(self.idle)).await?;
        let p99 = |samples: &Samples| samples.percentile_ms(99.0).unwrap_or(f64::INFINITY);
        let figure = Figure {
            claim: IDLE,
            value: p99(&times),
            samples: times,
            server: used,
            beside: beside(&peers, |answer| {
                let times = Samples::new(answer.times_us.clone());
                json!({"p50_ms": times.median_ms(), "p99_ms": p99(&times)})
            }),
        };
        Ok(vec![figure])
    }

    async fn replicas(&self, role: &str, name: &str) -> io::Result<Replicas> {
        self.place.replicas(&self.launching(role, name)).await
    }

    fn launching<'a>(&'a self, role: &'a str, name: &'a str) -> Launching<'a> {
        Launching {
            program: &self.program,
            folder: self.folder.path(),
            role,
            name,
            // Jobs that wait for the bucket and the database, of one account.
            job_slots: 32,
            more: &[],
        }
    }

    /// Runs a load and returns what its clients measured and what the replicas used meanwhile.
    async fn measure(
        &self,
        replicas: &Replicas,
        plans: &[Plan],
    ) -> io::Result<(Outcome, ServerUse)> {
        let mut clients = Clients::start(&self.client, plans).await?;
        let before = replicas.usage()?;
        clients.go().await?;
        let outcome = clients.outcome().await?;
        let mut used = replicas.usage()?;
        used.cpu_seconds -= before.cpu_seconds;
        Ok((outcome, used))
    }

    async fn peers(&self, name: &str, ask: Ask) -> io::Result<Vec<(Peer, Answer)>> {
        let mut answers = Vec::new();
        for peer in &self.peers {
            answers.push((*peer, self.ask(*peer, name, ask).await?));
        }
        Ok(answers)
    }

    async fn ask(&self, peer: Peer, name: &str, ask: Ask) -> io::Result<Answer> {
        let (package, _) = peer.package();
        say(package);
        let name = format!("{name}_{}", package.replace('-', "_"));
        let url = self.place.database(&name).await;
        peer.ask(&self.packages, &url, ask).await
    }
}

/// The same work at each replica, by so many clients together.
fn plans(replicas: &Replicas, clients: usize, seconds: f64, work: impl Fn() -> Work) -> Vec<Plan> {
    let count = replicas.servers.len();
    let servers = (0_u64..).zip(&replicas.servers);
    let plans = servers.map(|(number, server)| Plan {
        server: server.address,
        connections: clients / count,
        work: work(),
        seconds,
        most: NO_END,
        first: number * NO_END,
    });
    plans.collect()
}

/// A claim whose bounds follow the rate of awa in the same run, where that is known and asks for more.
fn beside_awa(claim: Claim, rate: Option<f64>) -> Claim {
    let bound = |fixed: Option<f64>, share: f64| match (fixed, rate) {
        (Some(fixed), Some(rate)) => Some(fixed.max(rate * share)),
        (fixed, _) => fixed,
    };
    Claim {
        gate: bound(claim.gate, OF_AWA.0),
        aim: bound(claim.aim, OF_AWA.1),
        ..claim
    }
}

/// KiB for each of so many jobs.
fn kib(bytes: i64, jobs: f64) -> f64 {
    bytes as f64 / 1024.0 / jobs.max(1.0)
}

/// What the other queues gave, by their names.
fn beside<T, V: Into<Value>>(peers: &[(Peer, T)], value: impl Fn(&T) -> V) -> Value {
    let values = peers.iter().map(|(peer, answer)| {
        let (name, version) = peer.package();
        (format!("{name} {version}"), value(answer).into())
    });
    Value::Object(values.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_of_jobs_follows_awa_where_that_asks_for_more() {
        let gates = |rate| {
            let claim = beside_awa(FINISH, rate);
            (claim.gate, claim.aim)
        };
        assert_eq!(gates(None), (Some(1_500.0), Some(3_000.0)));
        assert_eq!(gates(Some(1_000.0)), (Some(1_500.0), Some(3_000.0)));
        assert_eq!(gates(Some(4_000.0)), (Some(2_000.0), Some(4_000.0)));
    }

    #[test]
    fn other_queues_stand_beside_a_figure_with_their_versions() {
        let peers = [(Peer::Awa, 1.5), (Peer::PgBoss, 2.0)];
        let beside = beside(&peers, |value| *value);
        assert_eq!(beside, json!({"awa-pg 0.6.9": 1.5, "pg-boss 10.4.2": 2.0}));
        assert!((kib(4_096, 2.0) - 2.0).abs() < f64::EPSILON);
    }
}
