//! The real binary as a process of its own.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::LazyLock;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::{Answer, Request, Usage, root};

/// Tests need little room, also on a disk that is nearly full; a flag wins over it.
const MIN_FREE: (&str, &str) = ("EASEL_MIN_FREE", "0B");

/// The features of programs whose installation may be in PostgreSQL and a bucket.
const CLOUD: &str = "it/cloud,all-in-one/cloud,router-server/cloud,workflow-server/cloud";

/// The features of programs that can send traces and logs to a collector.
const OTLP: &str = "it/otlp,all-in-one/otlp,router-server/otlp,workflow-server/otlp";

/// A running server. Dropping it kills the process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// What it said on standard output before it was ready.
    pub welcome: String,
}

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The package, whose program has its name.
    pub package: &'static str,
    /// Flags besides those that every test needs. It listens on a free port unless `--listen` is among them.
    pub arguments: Vec<OsString>,
    /// Variables besides those of the test.
    pub variables: Vec<(String, String)>,
    /// Where its log goes; standard error without one.
    pub log: Option<PathBuf>,
}

/// Path of the binary `all-in-one`. Cargo builds the programs once per test run.
///
/// # Panics
/// If they do not build.
#[must_use]
pub fn binary() -> PathBuf {
    binary_of("all-in-one")
}

/// Path of the binary of a package, built as [`binary`] is.
///
/// # Panics
/// If it does not build.
#[must_use]
pub fn binary_of(package: &str) -> PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(build_programs);
    FOLDER.join(package)
}

/// Builds all programs; returns their folder. They are built together with the tests, for then every crate has the features
/// that it has in `cargo test --workspace`, and nothing is compiled a second time.
fn build_programs() -> PathBuf {
    let mut command = cargo();
    command.args(["build", "--quiet", "--workspace", "--bins", "--test", "it"]);
    if !cfg!(feature = "jemalloc") {
        command.arg("--no-default-features");
    }
    if cfg!(feature = "cloud") {
        command.args(["--features", CLOUD]);
    }
    if cfg!(feature = "otlp") {
        command.args(["--features", OTLP]);
    }
    command
        .arg("--manifest-path")
        .arg(root().join("Cargo.toml"));
    let status = command.status().expect("cargo can be started");
    assert!(status.success(), "the programs must build");
    // <target>/<profile>/deps/it-<hash> -> <target>/<profile>
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test
        .ancestors()
        .nth(2)
        .expect("tests lie two folders below");
    folder.to_owned()
}

/// The Cargo that runs this program, without what it tells the program of its package: a build script that reads that would
/// run anew, and all of its dependents would be compiled again.
#[must_use]
pub fn cargo() -> std::process::Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = std::process::Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Takes from a command the settings in the environment of the tests, which are for the tests.
fn without_inherited_settings(command: &mut Command) {
    let given: Vec<OsString> = command
        .as_std()
        .get_envs()
        .map(|(name, _)| name.to_owned())
        .collect();
    let inherited = std::env::vars_os().map(|(name, _)| name).filter(|name| {
        let is_setting = name.to_str().is_some_and(|name| name.starts_with("EASEL_"));
        is_setting && !given.contains(name)
    });
    for name in inherited {
        command.env_remove(name);
    }
}

/// Where processes find out that the test is over which needs them: a connection to this address breaks off when this process ends,
/// however it does.
///
/// # Panics
/// If no port can be had.
#[must_use]
pub fn lifeline() -> SocketAddr {
    static ADDRESS: LazyLock<SocketAddr> = LazyLock::new(|| {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("it listens");
        // Held until the end: one for each process.
        std::thread::spawn(move || listener.incoming().flatten().collect::<Vec<TcpStream>>());
        address
    });
    *ADDRESS
}

impl Launch {
    /// A server of this package, with nothing special.
    #[must_use]
    pub fn of(package: &'static str) -> Self {
        Self {
            package,
            arguments: Vec::new(),
            variables: Vec::new(),
            log: None,
        }
    }
}

/// What came of a command.
#[derive(Debug)]
pub struct Operated {
    /// The exit code.
    pub code: i32,
    /// Everything on standard output.
    pub stdout: String,
    /// Everything on standard error.
    pub stderr: String,
}

/// Runs a command of the binary on an installation, to its end.
///
/// # Panics
/// If it cannot be started, or is ended by a signal.
pub async fn operate(
    data_dir: &Path,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Operated {
    let output = Command::new(binary())
        .args(arguments)
        .env("EASEL_DATA_DIR", data_dir)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("the binary can be started");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("programs print text");
    Operated {
        code: output.status.code().expect("no signal ends a command"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

impl Server {
    /// Starts a server over `data_dir` on a free port and waits until it is ready.
    ///
    /// # Errors
    /// If it ends before it is ready.
    pub async fn start(data_dir: &Path) -> io::Result<Self> {
        Self::start_with(data_dir, [] as [&str; 0]).await
    }

    /// As [`Server::start`], with further arguments.
    ///
    /// # Errors
    /// If it ends before it is ready.
    pub async fn start_with(
        data_dir: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Self> {
        let mut command = Command::new(binary());
        command.env(MIN_FREE.0, MIN_FREE.1);
        Self::start_as(command, data_dir, arguments).await
    }

    /// Starts a server over `data_dir` on a free port and waits until it is ready.
    ///
    /// # Errors
    /// If it ends before it is ready.
    pub async fn launch(data_dir: &Path, launch: &Launch) -> io::Result<Self> {
        let mut command = Command::new(binary_of(launch.package));
        // The router takes no uploads and knows no such setting.
        if launch.package != "router-server" {
            command.env(MIN_FREE.0, MIN_FREE.1);
        }
        let variables = launch.variables.iter();
        command.envs(variables.map(|(name, value)| (name, value)));
        if let Some(path) = &launch.log {
            command.stderr(File::options().create(true).append(true).open(path)?);
        }
        Self::start_as(command, data_dir, &launch.arguments).await
    }

    /// As [`Server::start_with`], by a command that becomes the binary and passes its arguments on.
    ///
    /// # Errors
    /// If it ends before it is ready.
    pub async fn start_as(
        mut command: Command,
        data_dir: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> io::Result<Self> {
        without_inherited_settings(&mut command);
        command.arg("serve");
        let arguments = arguments.into_iter();
        let arguments: Vec<OsString> = arguments.map(|it| it.as_ref().to_owned()).collect();
        if !arguments.iter().any(|argument| argument == "--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut child = command
            .args(["--log-format", "json", "--data-dir"])
            .arg(data_dir)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().expect("standard output is piped");
        let mut lines = BufReader::new(stdout).lines();
        let (mut welcome, mut address) = (String::new(), None);
        // The last line tells how to stop it.
        while !welcome.contains("Ctrl-C") {
            let Some(line) = lines.next_line().await? else {
                return Err(io::Error::other(format!(
                    "the server ended with {}",
                    child.wait().await?
                )));
            };
            // It says where it listens in a line for people: `... http://127.0.0.1:40123/api/v2`.
            let url = line.split_once("http://").map(|(_, rest)| rest);
            let found = url.and_then(|rest| rest.split('/').next()?.trim().parse().ok());
            address = address.or(found);
            welcome.push_str(&line);
            welcome.push('\n');
        }
        let address = address.ok_or_else(|| io::Error::other("the server did not say where"))?;
        // Whatever else it says must have somewhere to go, or it would block on a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self {
            child,
            address,
            welcome,
        })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If the server is not there, or goes away meanwhile.
    pub async fn send(&self, request: &Request) -> io::Result<Answer> {
        request.send(self.address).await
    }

    /// The process id.
    ///
    /// # Panics
    /// If the process was waited for.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id().expect("the process was not waited for")
    }

    /// Forgets how much memory the process had at most: [`Server::peak_bytes`] counts from here on.
    ///
    /// # Errors
    /// If the system does not let it be forgotten.
    pub fn forget_peak(&self) -> io::Result<()> {
        std::fs::write(format!("/proc/{}/clear_refs", self.pid()), "5")
    }

    /// How many bytes of memory the process had at most.
    ///
    /// # Panics
    /// If the process is gone.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.usage().peak_bytes
    }

    /// How many bytes of memory the process has.
    ///
    /// # Panics
    /// If the process is gone.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.usage().resident_bytes
    }

    fn usage(&self) -> Usage {
        Usage::of(self.pid()).expect("the process is there")
    }

    /// The value of a gauge or counter without labels in `/metrics`.
    ///
    /// # Errors
    /// If the server is not there.
    ///
    /// # Panics
    /// If there is no metric of this name.
    pub async fn metric(&self, name: &str) -> io::Result<f64> {
        let text = self.send(&Request::get("/metrics")).await?.text();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line
            .and_then(|value| value.trim().parse().ok())
            .expect(name))
    }

    /// Kills the process on the spot, as a power cut would.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub async fn kill(mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Asks the process to read its configuration again (`SIGHUP`).
    ///
    /// # Errors
    /// If the signal cannot be sent.
    ///
    /// # Panics
    /// If the process does not take it.
    pub async fn hang_up(&self) -> io::Result<()> {
        let id = self.pid().to_string();
        let sent = Command::new("kill").args(["-s", "HUP", &id]).status();
        assert!(sent.await?.success(), "the process takes signals");
        Ok(())
    }

    /// Asks the process to end (`SIGTERM`) and waits until it has.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub async fn terminate(mut self) -> io::Result<ExitStatus> {
        let status = Command::new("kill")
            .arg(self.pid().to_string())
            .status()
            .await?;
        assert!(status.success(), "the process takes signals");
        self.child.wait().await
    }
}
