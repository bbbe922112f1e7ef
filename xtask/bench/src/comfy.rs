//! `cargo xtask bench comfy`: jobs at ComfyUI workers, in the real binary in front of simulated ones.
//!
//! The workers live in this process, so the processor time of the server is its own. A client that speaks to a worker itself, a process
//! of its own too, is measured in turn with it: what it takes for a job is taken off.

use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use it::Comfy;
use it::Usage;
use it::comfy::Version;
use it::http::{Connection, find, post_json, request};
use it::load::graphs;
use it::load::server::{self, Kind, Launch, Product, Profile, Server};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::claim::{Better, Claim};
use super::client::job_id;
use super::report::{Figure, Report, ServerUse, Setting, rounded};
use super::samples::Samples;
use super::{disk, machine, say, until_interrupted};

/// What to measure, and how long.
#[derive(Debug, Args)]
pub struct Options {
    /// Measure these alone; may be given several times.
    #[arg(long, value_enum)]
    only: Vec<Scenario>,
    /// How long each load lasts.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Measure this program instead of building one.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Measure choices with this program, an example of `engine-comfy`, instead of building one.
    #[arg(long)]
    choices: Option<PathBuf>,
    /// Speak to a worker with this program, an example of `engine-comfy`, instead of building one.
    #[arg(long)]
    direct: Option<PathBuf>,
}

/// A run that gives one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Processor time of a job.
    Cpu,
    /// The choice among a thousand workers.
    Choice,
    /// Four workers beside one.
    Four,
}

/// What times choices.
const CHOICES: Product = Product {
    package: "engine-comfy",
    name: "bench_choice",
    kind: Kind::Example,
};

/// What speaks to a worker itself.
const DIRECT: Product = Product {
    package: "engine-comfy",
    name: "bench_direct",
    kind: Kind::Example,
};

const CPU: Claim = Claim {
    name: "job-cpu",
    what: "processor time of the server for a job at a worker, beyond that of a client that speaks to the worker itself",
    unit: "ms",
    better: Better::Lower,
    gate: Some(2.0),
    aim: Some(1.0),
};
const CHOICE: Claim = Claim {
    name: "choice-1000",
    what: "the choice of a worker among 1,000 for a job with a model file (p50)",
    unit: "us",
    better: Better::Lower,
    gate: Some(20.0),
    aim: Some(10.0),
};
const FOUR: Claim = Claim {
    name: "four-workers",
    what: "jobs of 100 ms over four workers, as many times as over one",
    unit: "times",
    better: Better::Higher,
    gate: Some(3.8),
    aim: Some(3.95),
};

/// Workers among which one is chosen.
const WORKERS: &str = "1000";
/// Steps of a job that takes time, and how long one takes.
const STEPS: u64 = 10;
const STEP: Duration = Duration::from_millis(10);
/// Jobs at the same time for each worker: more than it takes, so that it never waits for one.
const AT_A_TIME: usize = 4;
/// How often the server and the client that speaks to a worker itself take turns.
const TURNS: u32 = 4;
/// How long workers may take to become ready.
const UNTIL_READY: Duration = Duration::from_secs(60);

/// What scenarios share.
struct Bench {
    program: PathBuf,
    choices: Option<PathBuf>,
    direct: Option<PathBuf>,
    /// Everything that scenarios write is in here and goes with it.
    folder: TempDir,
    time: Duration,
}

/// A server in front of workers.
struct Rig {
    server: Server,
    workers: Vec<Comfy>,
}

/// Jobs and what they took in a process.
#[derive(Clone, Copy, Default)]
struct Each {
    jobs: usize,
    cpu_seconds: f64,
}

impl Each {
    fn add(&mut self, more: Self) {
        self.jobs += more.jobs;
        self.cpu_seconds += more.cpu_seconds;
    }

    /// What one took.
    fn ms(&self) -> f64 {
        self.cpu_seconds * 1e3 / self.jobs.max(1) as f64
    }
}

/// What a load came to.
#[derive(Default)]
struct Load {
    /// How long each job took, from its submission until its events ended.
    times: Vec<Duration>,
    seconds: f64,
    used: ServerUse,
}

/// Measures and writes a JSON line per figure and a table; returns whether every gate was passed.
///
/// # Errors
/// When something cannot be built, started or reached, or a job does not succeed.
pub fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    let is_chosen =
        |scenario: &Scenario| options.only.is_empty() || options.only.contains(scenario);
    let program = match &options.program {
        Some(program) => program.clone(),
        None => server::build(root, Profile::Dist, &[])?,
    };
    let example = |given: &Option<PathBuf>, product, scenario| match given {
        Some(program) => Ok(Some(program.clone())),
        None if is_chosen(&scenario) => {
            server::build_product(root, product, Profile::Release, &["bench"]).map(Some)
        }
        None => Ok(None),
    };
    let choices = example(&options.choices, CHOICES, Scenario::Choice)?;
    let direct = example(&options.direct, DIRECT, Scenario::Cpu)?;
    let folder = root.join("target");
    std::fs::create_dir_all(&folder)?;
    let bench = Bench {
        program,
        choices,
        direct,
        folder: TempDir::with_prefix_in("bench-", folder)?,
        time: Duration::from_secs(options.seconds),
    };
    let setting = Setting {
        machine: machine::machine(),
        build: machine::build(root, Profile::Dist),
        disk: disk::Disk::measure(bench.folder.path())?,
    };
    until_interrupted(async {
        let mut report = Report::new(setting, out);
        for scenario in Scenario::value_variants()
            .iter()
            .filter(|one| is_chosen(one))
        {
            say(&format!("{scenario:?}"));
            let figure = match scenario {
                Scenario::Cpu => bench.cpu().await,
                Scenario::Choice => bench.choice(),
                Scenario::Four => bench.four().await,
            };
            report.take(scenario, figure.map(|figure| vec![figure]))?;
        }
        report.close()
    })
}

impl Bench {
    /// The processor time that jobs take in the server, whose worker takes none to speak of, beyond that of a client of the worker.
    async fn cpu(&self) -> io::Result<Figure> {
        let rig = self.rig("cpu", 1, Duration::ZERO).await?;
        // What a server does once is done before.
        rig.load(2, Duration::from_secs(1), 0).await?;
        let (turn, mut load, mut direct) = (self.time / TURNS, Load::default(), Each::default());
        for _ in 0..TURNS {
            load.add(rig.load(2, turn, 0).await?);
            direct.add(self.direct(&rig.workers[0].url(), turn).await?);
        }
        let server = Each {
            jobs: load.times.len(),
            cpu_seconds: load.used.cpu_seconds,
        };
        Ok(Figure {
            claim: CPU,
            value: server.ms() - direct.ms(),
            beside: json!({
                "server_ms": rounded(server.ms()),
                "direct_ms": rounded(direct.ms()),
                "jobs": server.jobs,
                "jobs_per_second": rounded(server.jobs as f64 / load.seconds),
                "direct_jobs": direct.jobs,
            }),
            samples: Samples::of(&load.times),
            server: load.used,
        })
    }

    /// What the same graphs take in a client that speaks to the worker itself.
    async fn direct(&self, url: &str, time: Duration) -> io::Result<Each> {
        let program = self.direct.as_ref();
        let program = program.ok_or_else(|| io::Error::other("nothing speaks to a worker"))?;
        let submission: Value = serde_json::from_str(&graphs::waiting(0, 0))?;
        let mut child = tokio::process::Command::new(program)
            .args([url, &time.as_secs().max(1).to_string()])
            .arg(submission["workflow"].to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let ended = || io::Error::other("what speaks to a worker ended");
        let mut lines = BufReader::new(child.stdout.take().ok_or_else(ended)?).lines();
        let pid = child.id().ok_or_else(ended)?;
        let mut line = async || lines.next_line().await?.ok_or_else(ended);
        line().await?;
        let before = Usage::of(pid)?;
        let jobs = line().await?.parse().map_err(io::Error::other)?;
        let after = Usage::of(pid)?;
        drop(child.stdin.take());
        child.wait().await?;
        Ok(Each {
            jobs,
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
        })
    }

    /// The choice, in a program of its own: nothing in the server shows it alone.
    fn choice(&self) -> io::Result<Figure> {
        let program = self.choices.as_ref();
        let program = program.ok_or_else(|| io::Error::other("nothing times choices"))?;
        let output = Command::new(program).arg(WORKERS).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(said));
        }
        let told: Value = serde_json::from_slice(&output.stdout)?;
        Ok(Figure {
            claim: CHOICE,
            value: told["median_us"].as_f64().unwrap_or(f64::INFINITY),
            beside: told,
            samples: Samples::of(&[]),
            server: ServerUse::default(),
        })
    }

    /// What four workers do beside what one does, each under a load that never lets it wait.
    async fn four(&self) -> io::Result<Figure> {
        let mut rates = Vec::new();
        let mut last = None;
        for workers in [1, 4] {
            let rig = self
                .rig(&format!("workers-{workers}"), workers, STEP)
                .await?;
            rig.load(workers * AT_A_TIME, Duration::from_secs(1), STEPS)
                .await?;
            let load = rig.load(workers * AT_A_TIME, self.time, STEPS).await?;
            rates.push(load.times.len() as f64 / load.seconds);
            last = Some(load);
        }
        let load = last.ok_or_else(|| io::Error::other("nothing was measured"))?;
        Ok(Figure {
            claim: FOUR,
            value: rates[1] / rates[0],
            beside: json!({
                "one_jobs_per_second": rounded(rates[0]),
                "four_jobs_per_second": rounded(rates[1]),
            }),
            samples: Samples::of(&load.times),
            server: load.used,
        })
    }

    /// A server in front of so many workers, all of which are ready.
    async fn rig(&self, name: &str, count: usize, step: Duration) -> io::Result<Rig> {
        let mut workers = Vec::new();
        let mut arguments = vec!["--log-level=warn".to_owned()];
        for _ in 0..count {
            let worker = Comfy::start(Version::New).await?;
            worker.pace(step);
            arguments.push(format!("--comfyui={}", worker.url()));
            workers.push(worker);
        }
        let launch = Launch {
            program: self.program.clone(),
            under: Vec::new(),
            data_dir: self.folder.path().join(name),
            log: self.folder.path().join(format!("{name}.log")),
            arguments,
            variables: Vec::new(),
        };
        let rig = Rig {
            server: Server::start(&launch).await?,
            workers,
        };
        rig.ready().await?;
        Ok(rig)
    }
}

impl Load {
    /// With another one of the same server.
    fn add(&mut self, more: Self) {
        self.times.extend(more.times);
        self.seconds += more.seconds;
        self.used.cpu_seconds += more.used.cpu_seconds;
        self.used.resident_bytes = more.used.resident_bytes;
    }
}

impl Rig {
    async fn ready(&self) -> io::Result<()> {
        let began = Instant::now();
        let mut connection = self.server.connect().await?;
        while began.elapsed() < UNTIL_READY {
            let metrics = connection.send(&request("GET", "/metrics")).await?.text();
            let ready = metrics.matches("state=\"ready\"} 1").count();
            if ready == self.workers.len() {
                return Ok(());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Err(io::Error::other("the workers did not become ready"))
    }

    /// Runs jobs for a while, so many at a time; what they took.
    async fn load(&self, clients: usize, time: Duration, steps: u64) -> io::Result<Load> {
        // No two jobs of a server are alike.
        let next = Arc::new(AtomicU64::new(
            self.workers[0].submissions().len() as u64 * 4,
        ));
        let before = self.server.usage()?;
        let began = Instant::now();
        let mut running = JoinSet::new();
        for _ in 0..clients {
            let (mut connection, next) = (self.server.connect().await?, Arc::clone(&next));
            running.spawn(async move {
                let mut times = Vec::new();
                while began.elapsed() < time {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let sent = Instant::now();
                    finish(&mut connection, &graphs::waiting(number, steps)).await?;
                    times.push(sent.elapsed());
                }
                io::Result::Ok(times)
            });
        }
        let mut times = Vec::new();
        while let Some(ended) = running.join_next().await {
            times.extend(ended.map_err(io::Error::other)??);
        }
        let after = self.server.usage()?;
        Ok(Load {
            times,
            seconds: began.elapsed().as_secs_f64(),
            used: ServerUse {
                cpu_seconds: after.cpu_seconds - before.cpu_seconds,
                resident_bytes: after.resident_bytes,
            },
        })
    }
}

/// Submits a job and waits until its events have ended.
async fn finish(connection: &mut Connection, body: &str) -> io::Result<()> {
    let submission = post_json("/api/v2/jobs", "", body);
    let answer = connection.send(&submission).await?.expect_status(201)?;
    let events = format!("/api/v2/jobs/{}/events", job_id(&answer.body)?);
    let events = connection.send(&request("GET", &events)).await?;
    let events = events.expect_status(200)?;
    match find(&events.body, b"\"succeeded\"") {
        Some(_) => Ok(()),
        None => Err(io::Error::other(format!(
            "a job did not succeed: {}",
            events.text()
        ))),
    }
}
