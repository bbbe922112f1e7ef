//! The real program as a process of its own: built, started over a data directory, killed.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::http::{Connection, request};
use crate::process::cargo;
use crate::usage::Usage;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// The program that is measured and killed.
pub const PROGRAM: &str = "all-in-one";
/// A program that is not ready by then never will be.
const LONGEST_START: Duration = Duration::from_secs(60);
/// How many times longer a start may take under a program that counts.
const SLOWER_UNDER: u32 = 10;
/// The pause between two questions whether it is ready: short against what a start takes.
const READY_PAUSE: Duration = Duration::from_micros(500);

/// How to start a server.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The built program.
    pub program: PathBuf,
    /// A program that runs it, with its arguments, such as one that counts instructions; empty without one.
    pub under: Vec<String>,
    /// Its data directory.
    pub data_dir: PathBuf,
    /// Where its log goes; what was there before stays.
    pub log: PathBuf,
    /// Arguments besides the address and the data directory.
    pub arguments: Vec<String>,
    /// Variables besides those of this process.
    pub variables: Vec<(String, String)>,
}

/// A server that is ready. Dropping it kills the process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
    /// Time from its start until it said that it was ready.
    pub start_time: Duration,
}

/// How a program is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// As what is shipped: what is measured.
    Dist,
    /// The same, built sooner.
    Release,
    /// As for tests: built sooner.
    Dev,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Dist, Self::Release, Self::Dev];

    /// As cargo names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dist => "dist",
            Self::Release => "release",
            Self::Dev => "dev",
        }
    }

    /// What it is, for a help text.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::Dist => "As what is shipped: what is measured",
            Self::Release => "The same, built sooner",
            Self::Dev => "As for tests: built sooner",
        }
    }
}

/// What cargo builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// The package.
    pub package: &'static str,
    /// The program in it.
    pub name: &'static str,
    /// What kind of program it is.
    pub kind: Kind,
}

/// Kinds of programs in a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One that is installed.
    Program,
    /// One that shows or measures the package.
    Example,
}

impl Product {
    /// A program that is called like its package.
    #[must_use]
    pub const fn program(name: &'static str) -> Self {
        Self {
            package: name,
            name,
            kind: Kind::Program,
        }
    }
}

/// Builds the server; returns where it is.
///
/// # Errors
/// When it does not build.
pub fn build(root: &Path, profile: Profile, features: &[&str]) -> io::Result<PathBuf> {
    build_product(root, Product::program(PROGRAM), profile, features)
}

/// Builds a program; returns where it is.
///
/// # Errors
/// When it does not build.
pub fn build_product(
    root: &Path,
    product: Product,
    profile: Profile,
    features: &[&str],
) -> io::Result<PathBuf> {
    let output = cargo_build(root, product, profile, features)
        .stderr(Stdio::inherit())
        .output()?;
    let messages = String::from_utf8_lossy(&output.stdout);
    match executable(&messages, product.name) {
        Some(path) if output.status.success() => Ok(path),
        Some(_) | None => Err(io::Error::other(format!("{} did not build", product.name))),
    }
}

/// The command that builds a program and writes what it builds to standard output; see [`executable`].
pub fn cargo_build(
    root: &Path,
    product: Product,
    profile: Profile,
    features: &[&str],
) -> std::process::Command {
    let kind = match product.kind {
        Kind::Program => "--bin",
        Kind::Example => "--example",
    };
    let mut command = cargo();
    command
        .args(["build", "--package", product.package, kind, product.name])
        .args(["--profile", profile.name()])
        .args([
            "--features",
            &features.join(","),
            "--message-format",
            "json-render-diagnostics",
        ])
        .current_dir(root);
    command
}

/// The path of a program in what cargo wrote line by line.
pub fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
}

impl Server {
    /// Starts the program on a free port and waits until it is ready.
    ///
    /// # Errors
    /// When it ends before that, or is not ready within a minute.
    pub async fn start(launch: &Launch) -> io::Result<Self> {
        let began = Instant::now();
        let mut child = spawn(launch)?;
        let pid = child
            .id()
            .ok_or_else(|| io::Error::other("the server ended at once"))?;
        let longest = match launch.under.is_empty() {
            true => LONGEST_START,
            false => LONGEST_START * SLOWER_UNDER,
        };
        match timeout(longest, ready(&mut child)).await {
            Ok(address) => Ok(Self {
                address: address.map_err(|error| with_last_line(error, &launch.log))?,
                child,
                pid,
                start_time: began.elapsed(),
            }),
            Err(_) => Err(io::Error::other("the server does not become ready")),
        }
    }

    /// What the process uses now.
    ///
    /// # Errors
    /// When it is gone.
    pub fn usage(&self) -> io::Result<Usage> {
        Usage::of(self.pid)
    }

    /// A connection to it.
    ///
    /// # Errors
    /// When it does not take any.
    pub async fn connect(&self) -> io::Result<Connection> {
        Connection::open(self.address).await
    }

    /// Waits until the process ends by itself.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Kills the process on the spot; it has no say in it.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub async fn kill(mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Asks the process to end and waits until it has.
    ///
    /// # Errors
    /// When it cannot be asked or waited for, or does not end well.
    pub async fn terminate(mut self) -> io::Result<()> {
        Command::new("kill")
            .arg(self.pid.to_string())
            .status()
            .await?;
        let status = self.child.wait().await?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("the server ended with {status}")))
    }
}

/// Starts the program and kills it after `time`, ready or not.
///
/// # Errors
/// When it cannot be started.
pub async fn start_and_kill(launch: &Launch, time: Duration) -> io::Result<()> {
    let mut child = spawn(launch)?;
    sleep(time).await;
    child.kill().await
}

fn spawn(launch: &Launch) -> io::Result<Child> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(&launch.log)?;
    let variables = launch.variables.iter().map(|(name, value)| (name, value));
    let mut words = launch.under.iter().map(OsString::from);
    let mut command = match words.next() {
        Some(first) => Command::new(first),
        None => Command::new(&launch.program),
    };
    command.args(words);
    if !launch.under.is_empty() {
        command.arg(&launch.program);
    }
    command
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--log-format",
            "json",
            "--data-dir",
        ])
        .arg(&launch.data_dir)
        .args(&launch.arguments)
        // Benches and campaigns need little room, also on a disk that is nearly full.
        .env("EASEL_MIN_FREE", "0B")
        .envs(variables)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
}

/// The error of a start with the last line of the server's log, which says why.
fn with_last_line(error: io::Error, log: &Path) -> io::Error {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    match text.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) => io::Error::new(error.kind(), format!("{error}: {line}")),
        None => error,
    }
}

/// Waits until the server says where it listens, and then that it is ready.
async fn ready(child: &mut Child) -> io::Result<SocketAddr> {
    let stdout = child.stdout.take().expect("standard output is piped");
    let mut lines = BufReader::new(stdout).lines();
    let address = loop {
        let Some(line) = lines.next_line().await? else {
            let status = child.wait().await?;
            return Err(io::Error::other(format!("the server ended with {status}")));
        };
        if let Some(address) = address_in(&line) {
            break address;
        }
    };
    // Whatever else it says must have somewhere to go, or it would block on a full pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let mut connection = Connection::open(address).await?;
    while connection.send(&request("GET", "/ready")).await?.status != 200 {
        sleep(READY_PAUSE).await;
    }
    Ok(address)
}

/// The address in a line for people such as `API  http://127.0.0.1:40123/api/v2`.
fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("http://")?;
    rest.split('/').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_what_people_read() {
        let address = address_in("  API       http://127.0.0.1:40123/api/v2");
        assert_eq!(address, Some(([127, 0, 0, 1], 40123).into()));
        assert_eq!(address_in("Easel is serving."), None);
    }

    #[test]
    fn the_program_is_found_among_what_cargo_says() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"kit\"},\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"all-in-one\"},\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"all-in-one\"},\"executable\":\"/t/all-in-one\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(
            executable(messages, PROGRAM),
            Some(PathBuf::from("/t/all-in-one"))
        );
        assert_eq!(executable("no json", PROGRAM), None);
    }
}
