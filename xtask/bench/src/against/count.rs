//! Instructions that a server executes for a piece of work, in user mode.
//!
//! Other load of the machine changes times and not these counts. The processor's own counter is used where the system
//! grants it (`perf`), else the server runs under `callgrind`, which counts exactly and is some fifty times slower. A count
//! begins when a first load of the same kind is over and everything that it left to do is done, so that the start of the
//! server, warming up and filling caches are not in it. What the kernel executes is in neither count.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::instructions::Instructions;
use crate::client::Plan;
use crate::clients::Clients;
use it::usage::Usage;

/// What the processor counts.
const EVENT: &str = "instructions:u";
/// A server is idle when it used no more than this of the processor in each of so many spans of time in a row. What it
/// does later, such as bringing calls into rows, comes within a second.
const IDLE: (f64, Duration, u32) = (0.021, Duration::from_millis(500), 4);
/// How many spans are waited for that at most. A server that is never idle is counted all the same.
const MOST_SPANS: u32 = 120;
/// How long a load may last: far longer than any does, under callgrind, too.
pub const LONGEST_SECONDS: f64 = 1800.0;
/// The name of what callgrind writes.
const DUMP: &str = "callgrind.out";

/// How instructions are counted on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// By the processor.
    Perf,
    /// By a program that runs the server.
    Callgrind,
}

/// A count that has begun.
#[derive(Debug)]
pub enum Count {
    /// `perf` counts until its child `cat` ends, which does so when its input is closed.
    Perf(Child),
    /// The folder of what callgrind writes, and the process.
    Callgrind(PathBuf, u32),
}

impl Counter {
    /// The best one that works here.
    ///
    /// # Errors
    /// When none does; the text says why and what to install.
    pub fn find() -> Result<Self, String> {
        let perf = match perf_counts(EVENT) {
            Ok(_) => return Ok(Self::Perf),
            Err(reason) => reason,
        };
        Self::callgrind().map_err(|reason| format!("{reason}; perf {perf}"))
    }

    /// Callgrind, which alone tells functions apart, if it is installed.
    ///
    /// # Errors
    /// When it is not; the text says what to install.
    pub fn callgrind() -> Result<Self, String> {
        let runs = |program: &str, argument: &str| {
            let mut command = std::process::Command::new(program);
            let output = command.arg(argument).stdin(Stdio::null()).output();
            output.is_ok_and(|output| output.status.success())
        };
        if runs("valgrind", "--version") && runs("vgdb", "--help") {
            return Ok(Self::Callgrind);
        }
        let reason = "instructions are not counted: valgrind is not installed (on Debian: apt-get install valgrind)";
        Err(reason.to_owned())
    }

    /// As reports name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Callgrind => "callgrind",
        }
    }

    /// The program, with its arguments, under which a server is started so that it can be counted; empty where any can be.
    #[must_use]
    pub fn under(self, folder: &Path) -> Vec<String> {
        match self {
            Self::Perf => Vec::new(),
            Self::Callgrind => vec![
                "valgrind".to_owned(),
                "--tool=callgrind".to_owned(),
                // Its banner would stand between the lines of progress.
                "--quiet".to_owned(),
                "--fair-sched=try".to_owned(),
                format!("--callgrind-out-file={}", folder.join(DUMP).display()),
                vgdb_prefix(folder),
            ],
        }
    }

    /// Begins to count what the process executes, in all of its threads. The folder is that of [`Counter::under`].
    ///
    /// # Errors
    /// When it cannot be counted.
    pub async fn begin(self, pid: u32, folder: &Path) -> io::Result<Count> {
        match self {
            Self::Perf => begin_perf(EVENT, pid).await.map(Count::Perf),
            Self::Callgrind => {
                vgdb(folder, pid, "zero").await?;
                Ok(Count::Callgrind(folder.to_owned(), pid))
            }
        }
    }
}

impl Count {
    /// Ends the count: how many instructions were executed since it began.
    ///
    /// # Errors
    /// When the counter says nothing that is understood.
    pub async fn end(self) -> io::Result<Instructions> {
        match self {
            Self::Perf(perf) => end_perf(perf).await.map(Instructions::of),
            Self::Callgrind(folder, pid) => {
                vgdb(&folder, pid, "dump").await?;
                let mut dumps = Vec::new();
                for entry in fs::read_dir(&folder)? {
                    let name = entry?.file_name();
                    let name = name.to_string_lossy();
                    let number = name.strip_prefix(&format!("{DUMP}."));
                    dumps.extend(number.and_then(|number| number.parse::<u32>().ok()));
                }
                let newest = dumps.into_iter().max();
                let newest = newest.ok_or_else(|| io::Error::other("callgrind wrote nothing"))?;
                let dump = fs::read_to_string(folder.join(format!("{DUMP}.{newest}")))?;
                Instructions::read(&dump)
                    .ok_or_else(|| io::Error::other("callgrind wrote no total"))
            }
        }
    }
}

/// The instructions of each of `plan.most` pieces of work. As many are done before the count begins.
///
/// # Errors
/// When the load fails or the process cannot be counted.
pub async fn of_each(
    counter: Counter,
    client: &Path,
    plan: Plan,
    pid: u32,
    folder: &Path,
) -> io::Result<Instructions> {
    let plan = Plan {
        seconds: LONGEST_SECONDS,
        ..plan
    };
    load(client, plan.clone()).await?;
    idle(pid).await?;
    let count = counter.begin(pid, folder).await?;
    let next = Plan {
        first: plan.first + plan.most,
        ..plan.clone()
    };
    load(client, next).await?;
    idle(pid).await?;
    Ok(count.end().await?.each(plan.most))
}

async fn load(client: &Path, plan: Plan) -> io::Result<()> {
    let most = plan.most;
    let mut clients = Clients::start(client, &[plan]).await?;
    clients.go().await?;
    let done = clients.outcome().await?.samples.len();
    if done as u64 == most {
        return Ok(());
    }
    let message = format!("{done} of {most} pieces of work were done in {LONGEST_SECONDS} s");
    Err(io::Error::new(io::ErrorKind::TimedOut, message))
}

/// Waits until a process has nothing left to do.
///
/// # Errors
/// When it is gone.
pub async fn idle(pid: u32) -> io::Result<()> {
    let mut before = Usage::of(pid)?.cpu_seconds;
    let mut idle = 0;
    for _ in 0..MOST_SPANS {
        sleep(IDLE.1).await;
        let now = Usage::of(pid)?.cpu_seconds;
        idle = if now - before < IDLE.0 { idle + 1 } else { 0 };
        before = now;
        if idle == IDLE.2 {
            break;
        }
    }
    Ok(())
}

/// Whether `perf` counts this event for a program that does nothing; why not.
fn perf_counts(event: &str) -> Result<f64, String> {
    let output = std::process::Command::new("perf")
        .args(["stat", "-x", ",", "-e", event, "--", "true"])
        .output()
        .map_err(|error| format!("cannot be run ({error})"))?;
    parse_perf(&String::from_utf8_lossy(&output.stderr), event)
}

async fn begin_perf(event: &str, pid: u32) -> io::Result<Child> {
    let mut perf = Command::new("perf")
        .args(["stat", "-x", ",", "-e", event, "-p"])
        .arg(pid.to_string())
        .args(["--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    // `cat` is started once the counters run.
    let mut byte = [b'.'];
    let stdin = perf.stdin.as_mut().expect("standard input is piped");
    stdin.write_all(&byte).await?;
    stdin.flush().await?;
    let stdout = perf.stdout.as_mut().expect("standard output is piped");
    match stdout.read_exact(&mut byte).await {
        Ok(_) => Ok(perf),
        Err(_) => Err(io::Error::other(format!(
            "perf cannot count process {pid}: {}",
            end_perf(perf)
                .await
                .err()
                .unwrap_or_else(|| io::ErrorKind::Other.into())
        ))),
    }
}

async fn end_perf(mut perf: Child) -> io::Result<f64> {
    drop(perf.stdin.take());
    let output = perf.wait_with_output().await?;
    let text = String::from_utf8_lossy(&output.stderr);
    parse_perf(&text, "").map_err(io::Error::other)
}

/// The count in what `perf stat -x ,` wrote: the first field of the line of the event.
fn parse_perf(text: &str, event: &str) -> Result<f64, String> {
    let mut lines = text.lines().map(|line| line.split(','));
    let count = lines.find_map(|mut fields| {
        let first = fields.next()?;
        let is_counter = first.starts_with('<') || first.parse::<f64>().is_ok();
        (is_counter && fields.any(|field| field.starts_with(event))).then_some(first)
    });
    match count {
        None => Err(format!("said: {}", text.trim())),
        Some(count) => count
            .parse()
            .map_err(|_| format!("says that {event} is {count}")),
    }
}

/// Where callgrind and `vgdb` meet.
fn vgdb_prefix(folder: &Path) -> String {
    format!("--vgdb-prefix={}", folder.join("vgdb").display())
}

/// Sends a command to callgrind, which carries it out before this returns.
async fn vgdb(folder: &Path, pid: u32, command: &str) -> io::Result<()> {
    let output = Command::new("vgdb")
        .arg(vgdb_prefix(folder))
        .arg(format!("--pid={pid}"))
        .arg(command)
        .stdin(Stdio::null())
        .output()
        .await?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "vgdb cannot reach process {pid}: {}",
        text.trim()
    )))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncBufReadExt, BufReader, Lines};
    use tokio::process::ChildStdout;

    use super::*;
    use crate::against::statistics::{Estimate, Pair, Seen, Verdict};
    use crate::claim::Better;

    #[test]
    fn a_count_of_perf_is_told_from_its_absence() {
        let counted = "4100123,,instructions:u,1000,100.00,,\n";
        assert_eq!(parse_perf(counted, EVENT), Ok(4_100_123.0));
        for missing in ["<not supported>", "<not counted>"] {
            let text = format!("{missing},,instructions:u,0,100.00,,\n");
            let reason = parse_perf(&text, EVENT).expect_err("nothing was counted");
            assert!(reason.contains(missing), "{reason}");
        }
        let refused = "Error:\nAccess to performance monitoring is limited.\n";
        let reason = parse_perf(refused, EVENT).expect_err("nothing was counted");
        assert!(reason.contains("limited"), "{reason}");
    }

    #[tokio::test]
    async fn perf_counts_a_process_from_outside() {
        // Counted by the kernel: also where the processor's counters are not granted.
        const SOFTWARE: &str = "task-clock";
        const WORK: &str = "read line; n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done";
        if let Err(reason) = perf_counts(SOFTWARE) {
            use std::io::Write;
            let _ = writeln!(io::stderr(), "skipped: perf {reason}");
            return;
        }
        let mut process = Command::new("sh")
            .args(["-c", WORK])
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a shell runs");
        let perf = begin_perf(SOFTWARE, process.id().expect("it runs")).await;
        let perf = perf.expect("it is counted");
        drop(process.stdin.take());
        process.wait().await.expect("it ends");
        assert!(end_perf(perf).await.expect("a count") > 0.0);
    }

    /// A shell that turns a loop for each line that it reads, and says a line when it is ready and after each loop.
    struct Loop {
        folder: tempfile::TempDir,
        shell: Child,
        lines: Lines<BufReader<ChildStdout>>,
    }

    impl Loop {
        async fn start(counter: Counter, turns: u32) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let work = format!("n=0; while [ $n -lt {turns} ]; do n=$((n+1)); done");
            let script = format!("echo .; while read line; do {work}; echo .; done");
            let mut words = counter.under(folder.path());
            words.extend(["sh".to_owned(), "-c".to_owned(), script]);
            let mut shell = Command::new(&words[0])
                .args(&words[1..])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .expect("a shell runs");
            let stdout = shell.stdout.take().expect("standard output is piped");
            let mut it = Self {
                folder,
                shell,
                lines: BufReader::new(stdout).lines(),
            };
            it.said().await;
            // What is done once is done before anything is counted.
            it.turn().await;
            it
        }

        async fn said(&mut self) {
            let line = self.lines.next_line().await.expect("it can be read");
            assert_eq!(line.as_deref(), Some("."));
        }

        async fn turn(&mut self) {
            let stdin = self.shell.stdin.as_mut().expect("it is piped");
            stdin.write_all(b"\n").await.expect("it reads");
            self.said().await;
        }

        /// The instructions of one loop.
        async fn count(&mut self, counter: Counter) -> f64 {
            let pid = self.shell.id().expect("it runs");
            let folder = self.folder.path().to_owned();
            let count = counter.begin(pid, &folder).await.expect("a count");
            self.turn().await;
            count.end().await.expect("a count").total
        }
    }

    #[tokio::test]
    async fn two_percent_more_work_is_seen_on_a_busy_machine() {
        let counter = match Counter::find() {
            Ok(counter) => counter,
            Err(reason) => {
                use std::io::Write;
                let _ = writeln!(io::stderr(), "skipped: {reason}");
                return;
            }
        };
        // Another load on every processor, whose share differs from turn to turn.
        let is_over = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let load = (0..processors).map(|_| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || while !is_over.load(Ordering::Relaxed) {})
        });
        let load: Vec<_> = load.collect();
        let mut loops = Vec::new();
        for turns in [2_000, 2_040, 2_000] {
            loops.push(Loop::start(counter, turns).await);
        }
        let (mut slower, mut same) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let mut counts = Vec::new();
            for one in &mut loops {
                counts.push(one.count(counter).await);
            }
            let pair = |after: usize| Pair {
                before: counts[0],
                after: counts[after],
            };
            slower.push(pair(1));
            same.push(pair(2));
        }
        is_over.store(true, Ordering::Relaxed);
        for thread in load {
            thread.join().expect("it only turns");
        }
        let slower = Estimate::of(&slower, Better::Lower).expect("there are pairs");
        assert!((slower.ratio - 1.02).abs() < 0.002, "{slower:?}");
        assert_eq!(slower.seen(), Seen::More, "{slower:?}");
        assert_eq!(slower.verdict(0.03), Verdict::Same, "{slower:?}");
        assert_eq!(slower.verdict(0.01), Verdict::Slower, "{slower:?}");
        let same = Estimate::of(&same, Better::Lower).expect("there are pairs");
        assert!((same.ratio - 1.0).abs() < 0.002, "{same:?}");
        assert_eq!(same.verdict(0.01), Verdict::Same, "{same:?}");
    }
}
