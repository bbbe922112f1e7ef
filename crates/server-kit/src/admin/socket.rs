//! The socket that commands reach a running server through: `admin.sock` in the data directory.
//!
//! It belongs to the user of the server: its mode is 0600 from the moment that it has its name, and the system tells who
//! connects, so another user is turned away even where modes are not heeded. One connection is one request.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use admin_http::wire::{Problem, ProblemKind, Reply, Request};
use admin_http::{Actor, AdminService};
use jiff::Timestamp;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::AdminPorts;
use crate::config::InstallationPlace;

/// The name of the socket in the data directory.
const NAME: &str = "admin.sock";

/// Commands that are answered at once; more wait in the system's queue.
const MOST_CONNECTIONS: usize = 16;

/// Most bytes of a request: a graph of 1 MiB that is published, as JSON writes it.
const MOST_REQUEST_BYTES: u64 = 2 << 20;

/// Most bytes of a reply: a page of such accounts.
const MOST_REPLY_BYTES: u64 = 64 << 20;

/// How long each side waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest address of a socket that every Unix takes.
const MOST_ADDRESS_BYTES: usize = 100;

/// The admin socket of a server, bound. It is removed when this is dropped.
#[derive(Debug)]
pub struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// The socket cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AdminSocketError {
    /// Something stands in its way.
    #[error(
        "the socket for commands cannot be made in the data directory {}; check that this user may write there",
        data_dir.display()
    )]
    Failed {
        /// The directory.
        data_dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another replica of the installation has it.
    #[error(
        "another server has its socket for commands in the data directory {}; give each process of an installation in a database one of its own",
        .0.display()
    )]
    Taken(PathBuf),
}

impl AdminSocket {
    /// As [`AdminSocket::bind`], also where other processes may serve the same installation: then each has a directory.
    ///
    /// # Errors
    /// If the directory cannot be written, or is another server's.
    pub fn bind_at(place: &InstallationPlace) -> Result<Self, AdminSocketError> {
        let data_dir = &place.data_dir;
        // Who has an installation in a directory alone knows by its lock that the server before is gone.
        match place.cloud.is_some() && is_served(data_dir) {
            true => Err(AdminSocketError::Taken(data_dir.clone())),
            false => Self::bind(data_dir),
        }
    }

    /// Binds the socket of the installation in `data_dir`, which this process has: what stands in its place was left over by
    /// a server that was killed.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn bind(data_dir: &Path) -> Result<Self, AdminSocketError> {
        let failed = |source| AdminSocketError::Failed {
            data_dir: data_dir.to_owned(),
            source,
        };
        let path = data_dir.join(NAME);
        let fresh = format!("{NAME}.new");
        let bound = || {
            // An installation elsewhere makes none.
            let mut directory = DirBuilder::new();
            directory.mode(0o700).recursive(true).create(data_dir)?;
            forget(&data_dir.join(&fresh))?;
            let (address, _directory) = reachable(data_dir, &fresh)?;
            let listener = UnixListener::bind(address)?;
            // Named only once nobody else may open it.
            fs::set_permissions(data_dir.join(&fresh), Permissions::from_mode(0o600))?;
            fs::rename(data_dir.join(&fresh), &path)?;
            Ok(listener)
        };
        Ok(Self {
            listener: bound().map_err(failed)?,
            path,
        })
    }

    /// Answers commands until `stop`; those at hand are answered first.
    pub async fn serve(self, ports: AdminPorts, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        loop {
            while connections.len() >= MOST_CONNECTIONS {
                connections.join_next().await;
            }
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    connections.spawn(converse(stream, ports.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a command could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
        while connections.join_next().await.is_some() {}
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        if let Err(error) = forget(&self.path) {
            tracing::warn!(%error, "the socket for commands was not removed; the next start does it");
        }
    }
}

/// Whether a server listens on the socket of a directory.
fn is_served(data_dir: &Path) -> bool {
    let address = reachable(data_dir, NAME);
    address
        .is_ok_and(|(address, _directory)| std::os::unix::net::UnixStream::connect(address).is_ok())
}

/// Asks the server that has the installation in `data_dir`; `None` where none listens.
pub(super) async fn ask(data_dir: &Path, request: &Request) -> io::Result<Option<Reply>> {
    let Some((address, _directory)) = absent(reachable(data_dir, NAME))? else {
        return Ok(None);
    };
    let Some(mut stream) = absent(UnixStream::connect(address).await)? else {
        return Ok(None);
    };
    let answered = timeout(PATIENCE, async {
        send(&mut stream, &serde_json::to_vec(request)?).await?;
        receive(&mut stream, MOST_REPLY_BYTES).await
    });
    let line = answered.await.map_err(|_| {
        io::Error::new(io::ErrorKind::TimedOut, "the server did not answer in time")
    })??;
    Ok(Some(serde_json::from_slice(&line)?))
}

/// One request and its reply.
async fn converse(mut stream: UnixStream, ports: AdminPorts) {
    let done = timeout(PATIENCE, async {
        let reply = if is_own(&stream)? {
            let line = receive(&mut stream, MOST_REQUEST_BYTES).await?;
            match serde_json::from_slice::<Request>(&line) {
                Ok(request) => ports.answer(&Actor::Local, request, Timestamp::now()).await,
                Err(_) => {
                    refused("the server does not know this command; use the program that it runs")
                }
            }
        } else {
            refused("only the user that the server runs as may command it")
        };
        send(&mut stream, &serde_json::to_vec(&reply)?).await
    });
    match done.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "a command was not answered"),
        Err(_) => tracing::warn!("a command took too long"),
    }
}

fn refused(message: &str) -> Reply {
    Reply::Refused(Problem::new(ProblemKind::Fault, message))
}

/// Whether the other side is the user of this process.
fn is_own(stream: &UnixStream) -> io::Result<bool> {
    let user = rustix::process::geteuid().as_raw();
    Ok(stream.peer_cred()?.uid() == user)
}

async fn send(stream: &mut UnixStream, line: &[u8]) -> io::Result<()> {
    stream.write_all(line).await?;
    stream.write_all(b"\n").await
}

async fn receive(stream: &mut UnixStream, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream.take(most_bytes));
    reader.read_until(b'\n', &mut line).await?;
    if line.pop() != Some(b'\n') {
        let error = "the line is too long, or broke off";
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    Ok(line)
}

/// An address for `name` in a directory: a long path is gone round through the open directory, which must stay open.
fn reachable(directory: &Path, name: &str) -> io::Result<(PathBuf, Option<File>)> {
    let path = directory.join(name);
    if path.as_os_str().len() <= MOST_ADDRESS_BYTES {
        return Ok((path, None));
    }
    let open = File::open(directory)?;
    let path = format!("/proc/self/fd/{}/{name}", open.as_raw_fd());
    Ok((path.into(), Some(open)))
}

fn forget(path: &Path) -> io::Result<()> {
    absent(fs::remove_file(path)).map(drop)
}

/// Nobody there is no error.
fn absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused]
                .contains(&error.kind()) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
