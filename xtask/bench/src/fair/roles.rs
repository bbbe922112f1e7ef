//! What the processes of the bench do besides the server: one is the partners, one attacks, one is the neighbour.
//!
//! Each reads its role as a line of JSON, writes a line when it is ready and one for every line that it reads, and ends with
//! its input. Attack and neighbour are those of the tests.

use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use it::Neighbour;
use it::attacks::{Attack, Target};
use it::neighbour::Times;
use it::partners::Partners;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Runtime;

use crate::samples::micros;

/// What a process is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Role {
    /// Partners that answer at once; ready, it writes where each host is.
    Partners,
    /// Attacks by these names; asked, it says what they hold.
    Attack {
        names: Vec<String>,
        server: SocketAddr,
        key: String,
        penniless: String,
    },
    /// A client of another account; asked, it does its work once and writes how long each step took.
    Neighbour { server: SocketAddr, key: String },
}

/// The largest body of JSON that a server takes unless it is set otherwise.
const JSON_BYTES: usize = 16 << 20;

/// Jobs of one account that the server runs at once.
pub(super) const JOB_SLOTS: usize = 2;

/// The steps of the neighbour's work, as reports name them.
pub(super) const STEPS: [&str; 6] = ["job", "upload", "download", "poll", "call", "health"];

/// A process that is ready. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// What it wrote when it was ready.
    pub(super) greeting: String,
}

impl Process {
    /// Starts a process of `program` (this program, built for speed) and waits until it is ready.
    pub(super) async fn start(program: &Path, role: &Role) -> io::Result<Self> {
        let mut child = Command::new(program)
            .arg("bench-fair-role")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut input = child.stdin.take().expect("standard input is piped");
        let output = child.stdout.take().expect("standard output is piped");
        let line = serde_json::to_string(role)? + "\n";
        input.write_all(line.as_bytes()).await?;
        let mut process = Self {
            _child: child,
            input,
            output: BufReader::new(output).lines(),
            greeting: String::new(),
        };
        process.greeting = process.line().await?;
        Ok(process)
    }

    /// Asks it once.
    pub(super) async fn ask(&mut self) -> io::Result<String> {
        self.input.write_all(b"\n").await?;
        self.line().await
    }

    async fn line(&mut self) -> io::Result<String> {
        let line = self.output.next_line().await?;
        line.ok_or_else(|| io::Error::other("a process ended; what it printed says why"))
    }
}

/// Plays the role that standard input names, until its end.
///
/// # Errors
/// When a step fails, or an attack meets what no document says.
pub fn main(out: &mut dyn Write) -> io::Result<bool> {
    let mut lines = io::stdin().lock().lines();
    let role = lines.next().ok_or_else(|| io::Error::other("no role"))??;
    let runtime = Runtime::new()?;
    match serde_json::from_str(&role)? {
        Role::Partners => {
            let partners = runtime.block_on(Partners::start())?;
            say(out, &json!(partners.relocations()).to_string())?;
            for line in lines {
                line?;
            }
        }
        Role::Attack {
            names,
            server,
            key,
            penniless,
        } => {
            let target = Target {
                server,
                key,
                penniless,
                json_bytes: JSON_BYTES,
                job_slots: JOB_SLOTS,
            };
            let named = |attack: &Attack| names.iter().any(|name| name == attack.name());
            let attacks: Vec<Attack> = Attack::ALL.iter().copied().filter(named).collect();
            let mut running = runtime.block_on(Attack::begin_all(&attacks, &target))?;
            say(out, "ready")?;
            for line in lines {
                line?;
                let mut counts = Vec::new();
                for attack in &mut running {
                    let seen = runtime.block_on(attack.still())?;
                    counts.push(json!({"held": seen.held, "answered": seen.answered, "cut": seen.cut, "refused": seen.refused}));
                }
                say(out, &json!(counts).to_string())?;
            }
        }
        Role::Neighbour { server, key } => {
            let neighbour = Neighbour::new(server, &key);
            say(out, "ready")?;
            for line in lines {
                line?;
                let times = runtime.block_on(neighbour.work())?;
                say(out, &json!(in_order(&times)).to_string())?;
            }
        }
    }
    Ok(true)
}

/// The times of one round in microseconds, in the order of [`STEPS`].
fn in_order(times: &Times) -> [u64; STEPS.len()] {
    let Times {
        job,
        upload,
        download,
        poll,
        call,
        health,
    } = *times;
    [job, upload, download, poll, call, health].map(micros)
}

fn say(out: &mut dyn Write, line: &str) -> io::Result<()> {
    writeln!(out, "{line}")?;
    out.flush()
}
