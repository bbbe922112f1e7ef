//! The processes of the fleet, each behind proxies of its own.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use it::load::server::{Launch, Server};
use tokio::process::Command;
use tokio::time::sleep;

use super::proxy::{Network, Proxy, Upstream};

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Api,
    Worker,
}

/// Where the installation is, and what its processes are started with.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) program: PathBuf,
    pub(super) folder: PathBuf,
    /// The sockets of PostgreSQL, that of the standby too, and the object store.
    pub(super) postgres: Vec<PathBuf>,
    pub(super) bucket: SocketAddr,
    /// What every process gets besides.
    pub(super) arguments: Vec<String>,
}

/// A process that comes and goes.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) role: Role,
    pub(super) data_dir: PathBuf,
    pub(super) store: String,
    pub(super) blobs: String,
    launch: Launch,
    databases: Vec<Proxy>,
    bucket: Proxy,
    /// What its own network does, whatever the bucket does to all.
    network: Mutex<Network>,
    server: tokio::sync::Mutex<Option<Server>>,
    address: Mutex<Option<SocketAddr>>,
    is_taken: AtomicBool,
}

/// What opens the bucket.
pub(super) const BUCKET_KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "easel"),
    ("AWS_SECRET_ACCESS_KEY", "easel-secret"),
];
/// The pause between two attempts at starting a process whose database is away.
const START_AGAIN: Duration = Duration::from_millis(300);
/// How often a start is tried: for a minute and more.
const STARTS: u32 = 300;

impl Member {
    /// A process that does not run yet.
    pub(super) async fn new(place: &Place, role: Role, name: &str) -> io::Result<Self> {
        let mut databases = Vec::new();
        for socket in &place.postgres {
            databases.push(Proxy::start(Upstream::Unix(socket.clone())).await?);
        }
        let bucket = Proxy::start(Upstream::Tcp(place.bucket)).await?;
        let hosts = databases.iter().map(|proxy| proxy.address.to_string());
        let hosts: Vec<String> = hosts.collect();
        let store = format!(
            "postgres://easel@{}/postgres?sslmode=disable&target_session_attrs=read-write",
            hosts.join(",")
        );
        let blobs = format!(
            "s3://easel/fleet?endpoint=http://{}&region=us-east-1",
            bucket.address
        );
        let data_dir = place.folder.join(name);
        let mut arguments = place.arguments.clone();
        let own = ["--role", role.name(), "--store", &store, "--blobs", &blobs];
        arguments.extend(own.map(str::to_owned));
        let launch = Launch {
            program: place.program.clone(),
            under: Vec::new(),
            data_dir: data_dir.clone(),
            log: place.folder.join(format!("{name}.log")),
            arguments,
            variables: BUCKET_KEYS
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
        };
        Ok(Self {
            role,
            data_dir,
            store,
            blobs,
            launch,
            databases,
            bucket,
            network: Mutex::new(Network::Whole),
            server: tokio::sync::Mutex::new(None),
            address: Mutex::new(None),
            is_taken: AtomicBool::new(false),
        })
    }

    /// Starts the process, again and again while what it needs is away.
    pub(super) async fn start(&self) -> io::Result<()> {
        let mut server = self.server.lock().await;
        if server.is_some() {
            return Ok(());
        }
        let mut last = io::Error::other("it was never tried");
        for _ in 0..STARTS {
            match Server::start(&self.launch).await {
                Ok(started) => {
                    self.set_address(Some(started.address));
                    *server = Some(started);
                    return Ok(());
                }
                Err(error) => last = error,
            }
            sleep(START_AGAIN).await;
        }
        Err(last)
    }

    /// Kills the process on the spot.
    pub(super) async fn kill(&self) -> io::Result<()> {
        self.set_address(None);
        match self.server.lock().await.take() {
            Some(server) => server.kill().await,
            None => Ok(()),
        }
    }

    /// Asks the process to end, and waits until it has ended well.
    pub(super) async fn terminate(&self) -> io::Result<()> {
        self.set_address(None);
        match self.server.lock().await.take() {
            Some(server) => server.terminate().await,
            None => Ok(()),
        }
    }

    /// Sends the process a signal, if it runs.
    pub(super) async fn signal(&self, name: &str) -> io::Result<()> {
        let server = self.server.lock().await;
        if let Some(server) = &*server {
            let mut command = Command::new("kill");
            let sent = command.args(["-s", name]).arg(server.pid.to_string());
            sent.status().await?;
        }
        Ok(())
    }

    /// Changes the network between the process and both servers of the database, and between it and the bucket.
    pub(super) fn set_network(&self, network: Network) {
        *self.network.lock().unwrap_or_else(PoisonError::into_inner) = network;
        for database in &self.databases {
            database.set(network);
        }
        self.bucket.set(network);
    }

    /// Changes the network between the process and the bucket alone.
    pub(super) fn set_bucket(&self, network: Network) {
        self.bucket.set(network);
    }

    /// Gives the bucket back what the process' own network does.
    pub(super) fn restore_bucket(&self) {
        let network = self.network.lock();
        let network = *network.unwrap_or_else(PoisonError::into_inner);
        self.bucket.set(network);
    }

    /// Where it listens, while it runs.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_address(&self, address: Option<SocketAddr>) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    /// Takes the process for a fault; false while another fault has it.
    pub(super) fn take(&self) -> bool {
        !self.is_taken.swap(true, Ordering::Relaxed)
    }

    /// Gives it back.
    pub(super) fn give_back(&self) {
        self.is_taken.store(false, Ordering::Relaxed);
    }

    /// Whether a fault has it.
    pub(super) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed)
    }
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
        }
    }
}

/// Runs a command of the program on the installation of a process that runs.
pub(super) async fn operate(program: &Path, member: &Member, words: &[&str]) -> io::Result<String> {
    let output = Command::new(program)
        .args(words)
        .arg("--data-dir")
        .arg(&member.data_dir)
        .env("EASEL_STORE", &member.store)
        .env("EASEL_BLOBS", &member.blobs)
        .envs(BUCKET_KEYS)
        .kill_on_drop(true)
        .output()
        .await?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{words:?}: {complaint}")));
    }
    let text = String::from_utf8(output.stdout).map_err(io::Error::other)?;
    Ok(text.trim_end().to_owned())
}
