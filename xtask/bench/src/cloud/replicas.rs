//! Two replicas over one database and one bucket, on this machine.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use it::load::server::{Launch, Server};
use it::usage::Usage;
use store_cloud::testing::{PostgresServer, S3Server};
use tokio::process::Command;
use tokio::time::sleep;

use crate::report::ServerUse;

/// How many replicas there are.
pub(super) const REPLICAS: usize = 2;
/// The pause between two looks at whether all jobs have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long jobs may take to their ends once nobody submits any more.
const PATIENCE: Duration = Duration::from_secs(600);

/// PostgreSQL as it is installed, but for checkpoints, which come when a run is over: pages that are written whole after each would
/// count as the log of jobs.
const SETTINGS: [&str; 3] = [
    "listen_addresses=127.0.0.1",
    "checkpoint_timeout=1d",
    "max_wal_size=32GB",
];

/// Where all figures of a run are measured: one PostgreSQL and one bucket.
pub(super) struct Place {
    pub(super) database: PostgresServer,
    port: u16,
    bucket: S3Server,
}

/// Replicas that run.
pub(super) struct Replicas {
    pub(super) servers: Vec<Server>,
    /// The name of their database.
    pub(super) name: String,
    program: PathBuf,
    /// Where the first of them has its directory.
    data_dir: PathBuf,
    /// What says where rows and blobs are, and opens the bucket.
    variables: Vec<(String, String)>,
}

/// Replicas that are to be started.
pub(super) struct Launching<'a> {
    pub(super) program: &'a Path,
    /// Where their directories are made.
    pub(super) folder: &'a Path,
    pub(super) role: &'a str,
    /// The name of their database, which is made.
    pub(super) name: &'a str,
    /// Jobs that each runs at once, and an account on all of them.
    pub(super) job_slots: usize,
    /// Further arguments.
    pub(super) more: &'a [&'a str],
}

impl Place {
    /// Starts both servers.
    pub(super) fn start() -> io::Result<Self> {
        let free = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        let port = free.local_addr()?.port();
        drop(free);
        let port_setting = format!("port={port}");
        let mut settings = SETTINGS.to_vec();
        settings.push(&port_setting);
        let bucket = S3Server::start().ok_or_else(|| {
            let text = "no SeaweedFS is installed; EASEL_WEED names its program `weed`";
            io::Error::new(io::ErrorKind::NotFound, text)
        })?;
        Ok(Self {
            database: PostgresServer::start(&settings),
            port,
            bucket,
        })
    }

    /// The address of a fresh database.
    pub(super) async fn database(&self, name: &str) -> String {
        self.database.create_database(name, "template0").await;
        format!("postgres://easel@127.0.0.1:{}/{name}", self.port)
    }

    /// A fresh database and a folder of the bucket of this name: the variables that say where they are, and open the bucket.
    pub(super) async fn variables(&self, name: &str) -> Vec<(String, String)> {
        let store = self.database(name).await + "?sslmode=disable";
        let blobs = format!(
            "s3://easel/{name}?endpoint={}&region=us-east-1",
            self.bucket.endpoint()
        );
        let variables = [
            ("EASEL_STORE", &*store),
            ("EASEL_BLOBS", &*blobs),
            ("AWS_ACCESS_KEY_ID", "easel"),
            ("AWS_SECRET_ACCESS_KEY", "easel-secret"),
        ];
        variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    /// Starts replicas over a fresh database.
    pub(super) async fn replicas(&self, launching: &Launching<'_>) -> io::Result<Replicas> {
        let Launching {
            program,
            folder,
            role,
            name,
            job_slots,
            more,
        } = *launching;
        let variables = self.variables(name).await;
        let job_slots = job_slots.to_string();
        let mut servers = Vec::new();
        let data_dir = |number| folder.join(format!("{name}-{number}"));
        for number in 1..=REPLICAS {
            let arguments = [
                "--role",
                role,
                "--queue-per-account",
                "10000000",
                "--queue-total",
                "10000000",
                "--job-slots",
                &job_slots,
                "--log-level",
                "warn",
            ];
            let arguments = arguments.iter().chain(more);
            let launch = Launch {
                program: program.to_owned(),
                under: Vec::new(),
                data_dir: data_dir(number),
                log: folder.join(format!("{name}-{number}.log")),
                arguments: arguments.map(|word| (*word).to_owned()).collect(),
                variables: variables.clone(),
            };
            servers.push(Server::start(&launch).await?);
        }
        Ok(Replicas {
            servers,
            name: name.to_owned(),
            program: program.to_owned(),
            data_dir: data_dir(1),
            variables,
        })
    }

    /// The processor seconds that PostgreSQL has used so far: of its processes that are there.
    pub(super) async fn database_seconds(&self) -> io::Result<f64> {
        let rows = self
            .database
            .query("postgres", "SELECT pid FROM pg_stat_activity");
        let mut seconds = 0.0;
        for pid in rows.await.iter().flatten() {
            // The one that answered has ended.
            let usage = Usage::of(pid.parse().map_err(io::Error::other)?);
            seconds += usage.map_or(0.0, |usage| usage.cpu_seconds);
        }
        Ok(seconds)
    }

    /// A number that the database tells.
    pub(super) async fn number(&self, database: &str, sql: &str) -> io::Result<i64> {
        let rows = self.database.query(database, sql).await;
        let value = rows.into_iter().flatten().next().unwrap_or_default();
        value
            .parse()
            .map_err(|error| io::Error::other(format!("{sql}: {error}")))
    }

    /// How many bytes the log of the server has.
    pub(super) async fn log_bytes(&self) -> io::Result<i64> {
        let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
        self.number("postgres", sql).await
    }
}

impl Replicas {
    /// Waits until every job has ended.
    pub(super) async fn wait_for_ends(&self, place: &Place) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while place
            .number(&self.name, "SELECT count(*) FROM jobs")
            .await?
            > 0
        {
            if Instant::now() > deadline {
                return Err(io::Error::other("jobs do not end"));
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// What all of them used so far.
    pub(super) fn usage(&self) -> io::Result<ServerUse> {
        let mut used = ServerUse::default();
        for server in &self.servers {
            let usage = server.usage()?;
            used.cpu_seconds += usage.cpu_seconds;
            used.resident_bytes += usage.resident_bytes;
        }
        Ok(used)
    }

    /// Adds an account; answers a key of it.
    pub(super) async fn account(&self, name: &str) -> io::Result<String> {
        self.operate(&["account", "add", name]).await?;
        self.operate(&["key", "add", name]).await
    }

    async fn operate(&self, words: &[&str]) -> io::Result<String> {
        let variables = self.variables.iter();
        let output = Command::new(&self.program)
            .args(words)
            .arg("--data-dir")
            .arg(&self.data_dir)
            .envs(variables.map(|(name, value)| (name, value)))
            .kill_on_drop(true)
            .output()
            .await?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("{words:?}: {complaint}")));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Sends each of them a signal.
    pub(super) async fn signal(&self, name: &str) -> io::Result<()> {
        for server in &self.servers {
            let mut command = Command::new("kill");
            let sent = command.args(["-s", name]).arg(server.pid.to_string());
            if !sent.status().await?.success() {
                let told = format!("a replica was not sent {name}");
                return Err(io::Error::other(told));
            }
        }
        Ok(())
    }

    /// Ends them.
    pub(super) async fn end(self) -> io::Result<()> {
        for server in self.servers {
            server.kill().await?;
        }
        Ok(())
    }
}
