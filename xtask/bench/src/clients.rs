//! Processes of clients seen from the bench: started, held until all are ready, let go together, and read.

use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::client::{Outcome, Plan};
use super::samples::Samples;

/// Processes that are ready and wait for the word. Dropping them kills them.
#[derive(Debug)]
pub struct Clients {
    processes: Vec<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Clients {
    /// Starts a process of `program` (this program, built for speed) per plan and waits until each is ready.
    ///
    /// # Errors
    /// When one cannot be started or prepared.
    pub async fn start(program: &Path, plans: &[Plan]) -> io::Result<Self> {
        let mut processes = Vec::with_capacity(plans.len());
        for plan in plans {
            processes.push(Process::start(program, plan).await?);
        }
        for process in &mut processes {
            process.heard().await?;
        }
        Ok(Self { processes })
    }

    /// Lets them work; returns once they have begun.
    ///
    /// # Errors
    /// When one is gone.
    pub async fn go(&mut self) -> io::Result<()> {
        for process in &mut self.processes {
            process.input.write_all(b"go\n").await?;
        }
        Ok(())
    }

    /// Waits for what they measured, together.
    ///
    /// # Errors
    /// When one is gone, or any of its work failed.
    pub async fn outcome(mut self) -> io::Result<Outcome> {
        let mut whole = Outcome::default();
        for process in &mut self.processes {
            let outcome: Outcome = serde_json::from_str(&process.heard().await?)?;
            process.child.wait().await?;
            whole.seconds = whole.seconds.max(outcome.seconds);
            whole.samples.extend(outcome.samples);
            whole.faults += outcome.faults;
            whole.first_fault = whole.first_fault.or(outcome.first_fault);
        }
        match &whole.first_fault {
            Some(fault) => Err(io::Error::other(format!(
                "{} connections failed; the first: {fault}",
                whole.faults
            ))),
            None => Ok(whole),
        }
    }
}

impl Outcome {
    /// Pieces of work in a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.samples.len() as f64 / self.seconds
    }

    /// The times as samples.
    #[must_use]
    pub fn times(&self) -> Samples {
        Samples::new(self.samples.clone())
    }
}

impl Process {
    async fn start(program: &Path, plan: &Plan) -> io::Result<Self> {
        let mut child = Command::new(program)
            .arg("bench-client")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut input = child.stdin.take().expect("standard input is piped");
        let output = child.stdout.take().expect("standard output is piped");
        let plan = serde_json::to_string(plan)? + "\n";
        input.write_all(plan.as_bytes()).await?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output).lines(),
        })
    }

    async fn heard(&mut self) -> io::Result<String> {
        let line = self.output.next_line().await?;
        line.ok_or_else(|| io::Error::other("a process of clients ended; what it printed says why"))
    }
}
