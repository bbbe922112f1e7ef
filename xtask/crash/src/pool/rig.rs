//! What a campaign of a pool runs on: the program over a data directory, in front of simulated workers.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use it::Comfy;
use it::comfy::Version;
use it::http::Request;
use it::load::server::{Launch, Server};
use it::process::lifeline;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::client::Client;
use super::judge::Job;

/// The model file that workers have unless more are named.
pub(super) const CHECKPOINT: &str = "a.safetensors";
/// How long workers may take to become ready.
const UNTIL_READY: Duration = Duration::from_secs(60);
/// The pause between two looks at the state of a worker.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How often a campaign says how far it is.
const TELL: Duration = Duration::from_secs(20);

/// The program, which may be killed and started again.
#[derive(Debug)]
pub(super) struct Program {
    launch: Launch,
    server: Option<Server>,
    place: watch::Sender<Option<SocketAddr>>,
}

impl Program {
    /// Starts it over an empty directory of `folder`, in front of workers at these addresses.
    pub(super) async fn start(
        program: &Path,
        folder: &Path,
        workers: &[String],
    ) -> io::Result<Self> {
        let mut arguments: Vec<String> = [
            "--queue-per-account",
            "100000",
            "--queue-total",
            "100000",
            "--streams-per-account",
            "10000",
        ]
        .map(str::to_owned)
        .to_vec();
        for worker in workers {
            arguments.extend(["--comfyui".to_owned(), worker.clone()]);
        }
        let mut program = Self {
            launch: Launch {
                program: program.to_owned(),
                under: Vec::new(),
                data_dir: folder.join("data"),
                log: folder.join("log"),
                arguments,
                variables: Vec::new(),
            },
            server: None,
            place: watch::channel(None).0,
        };
        program.start_again().await?;
        for worker in workers {
            let took = program.client().until_state(worker, true).await?;
            if took > UNTIL_READY {
                return Err(io::Error::other(format!("{worker} did not become ready")));
            }
        }
        Ok(program)
    }

    /// Starts it over what it left.
    pub(super) async fn start_again(&mut self) -> io::Result<()> {
        let server = Server::start(&self.launch).await?;
        self.place.send_replace(Some(server.address));
        self.server = Some(server);
        Ok(())
    }

    /// Kills it on the spot.
    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.place.send_replace(None);
        match self.server.take() {
            Some(server) => server.kill().await,
            None => Ok(()),
        }
    }

    /// Somebody who asks it.
    pub(super) fn client(&self) -> Client {
        Client {
            server: self.place.subscribe(),
        }
    }
}

impl Client {
    /// Waits until a worker takes jobs, or takes none; how long that took. Gives up after a minute.
    pub(super) async fn until_state(&self, url: &str, takes_jobs: bool) -> io::Result<Duration> {
        let began = Instant::now();
        let name = url.trim_start_matches("http://");
        let wanted = ["ready", "busy"]
            .map(|state| format!("easel_worker_state{{worker=\"{name}\",state=\"{state}\"}} 1"));
        while began.elapsed() <= UNTIL_READY {
            let metrics = self.ask(Request::get("/metrics")).await?.text();
            if wanted.iter().any(|line| metrics.contains(line)) == takes_jobs {
                break;
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(began.elapsed())
    }
}

/// The program in front of simulated workers of these versions with these model files, whose steps take so long.
pub(super) async fn with_workers(
    program: &Path,
    folder: &Path,
    versions: [Version; 4],
    checkpoints: &[&str],
    step: Duration,
) -> io::Result<(Program, Vec<Arc<Comfy>>)> {
    let mut workers = Vec::new();
    for version in versions {
        let worker = Comfy::start_with(version, checkpoints, &[]).await?;
        worker.pace(step);
        workers.push(Arc::new(worker));
    }
    let urls: Vec<String> = workers.iter().map(|worker| worker.url()).collect();
    Ok((Program::start(program, folder, &urls).await?, workers))
}

/// What many clients do: each takes the next number until all are taken, and the jobs are put together in the end.
pub(super) async fn lanes<F>(
    what: &'static str,
    lanes: u64,
    count: u64,
    one: impl Fn(u64) -> F,
) -> io::Result<Vec<Job>>
where
    F: Future<Output = io::Result<Vec<Job>>> + Send + 'static,
{
    let next = Arc::new(AtomicU64::new(0));
    let one = &one;
    let mut running = JoinSet::new();
    let mut jobs = Vec::new();
    let mut told = Instant::now();
    loop {
        while running.len() < usize::try_from(lanes).unwrap_or(usize::MAX) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            running.spawn(one(number));
        }
        let Some(ended) = running.join_next().await else {
            return Ok(jobs);
        };
        jobs.extend(ended.map_err(io::Error::other)??);
        if told.elapsed() > TELL {
            told = Instant::now();
            super::say(&format!("{what}: {} jobs are over", jobs.len()));
        }
    }
}

/// Looks at all jobs in the end, and reads what they made.
pub(super) async fn look_at_all(client: &Client, jobs: &mut [Job]) -> io::Result<()> {
    super::say(&format!("looking at {} jobs", jobs.len()));
    for job in jobs {
        client.look(job).await?;
    }
    Ok(())
}

/// A graph of a class that workers alone have: a picture that takes `steps`.
pub(super) fn waits(name: &str, steps: u64) -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "Wait", "inputs": {"image": ["1", 0], "steps": steps}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": name}}
    })
}

/// The same with an uploaded picture.
pub(super) fn loads(name: &str, file: &str) -> Value {
    let mut graph = waits(name, 2);
    graph["1"] = json!({"class_type": "LoadImage", "inputs": {"image": file}});
    graph
}

/// A graph that samples.
pub(super) fn samples(name: &str, checkpoint: &str, steps: u64) -> Value {
    json!({
        "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": checkpoint}},
        "2": {"class_type": "Sampler", "inputs": {"model": ["1", 0], "seed": 1, "steps": steps}},
        "3": {"class_type": "Decode", "inputs": {"samples": ["2", 0]}},
        "4": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": name}}
    })
}

/// A worker as a process of its own, which is killed and started again at the same port.
#[derive(Debug)]
pub(super) struct Process {
    program: PathBuf,
    pub(super) port: u16,
    folder: PathBuf,
    child: Option<tokio::process::Child>,
    /// When each of its lives was ended; the one that goes on has no entry.
    pub(super) kills: Vec<std::time::SystemTime>,
}

impl Process {
    /// Starts one at a free port. Its books lie in `folder`.
    pub(super) fn start(program: &Path, folder: &Path) -> io::Result<Self> {
        let free = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        let port = free.local_addr()?.port();
        drop(free);
        let mut process = Self {
            program: program.to_owned(),
            port,
            folder: folder.to_owned(),
            child: None,
            kills: Vec::new(),
        };
        process.start_again()?;
        Ok(process)
    }

    /// Starts its next life, which knows nothing of the one before.
    pub(super) fn start_again(&mut self) -> io::Result<()> {
        let child = tokio::process::Command::new(&self.program)
            .args(["--port", &self.port.to_string(), "--step", "5", "--book"])
            .arg(self.book(self.kills.len()))
            .args(["--while", &lifeline().to_string()])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        self.child = Some(child);
        Ok(())
    }

    /// Kills it on the spot.
    pub(super) async fn kill(&mut self) -> io::Result<()> {
        if let Some(mut child) = self.child.take() {
            self.kills.push(std::time::SystemTime::now());
            child.kill().await?;
        }
        Ok(())
    }

    /// Sends it a signal.
    pub(super) async fn signal(&self, name: &str) -> io::Result<()> {
        let id = self.child.as_ref().and_then(tokio::process::Child::id);
        let id = id.ok_or_else(|| io::Error::other("the worker does not run"))?;
        let mut command = tokio::process::Command::new("kill");
        command.args(["-s", name, &id.to_string()]).status().await?;
        Ok(())
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The book of one of its lives.
    pub(super) fn book(&self, life: usize) -> PathBuf {
        self.folder.join(format!("worker-{}-{life}", self.port))
    }
}
