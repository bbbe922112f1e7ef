//! Two replicas over one database and one bucket, on this machine.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use it::load::server::{Launch, Server};
use store_cloud::testing::{PostgresServer, S3Server};
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

    /// Starts replicas of a role over a fresh database.
    pub(super) async fn replicas(
        &self,
        (program, folder): (&Path, &Path),
        role: &str,
        name: &str,
    ) -> io::Result<Replicas> {
        let store = self.database(name).await + "?sslmode=disable";
        let blobs = format!(
            "s3://easel/{name}?endpoint={}&region=us-east-1",
            self.bucket.endpoint()
        );
        let mut servers = Vec::new();
        for number in 1..=REPLICAS {
            let arguments = [
                "--role",
                role,
                "--store",
                &store,
                "--blobs",
                &blobs,
                "--queue-per-account",
                "10000000",
                "--queue-total",
                "10000000",
                // Jobs that wait for the bucket and the database, of one account.
                "--job-slots",
                "32",
                "--log-level",
                "warn",
            ];
            let keys = [
                ("AWS_ACCESS_KEY_ID", "easel"),
                ("AWS_SECRET_ACCESS_KEY", "easel-secret"),
            ];
            let launch = Launch {
                program: program.to_owned(),
                under: Vec::new(),
                data_dir: folder.join(format!("{name}-{number}")),
                log: folder.join(format!("{name}-{number}.log")),
                arguments: arguments.map(str::to_owned).to_vec(),
                variables: keys
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .to_vec(),
            };
            servers.push(Server::start(&launch).await?);
        }
        let name = name.to_owned();
        Ok(Replicas { servers, name })
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

    /// Ends them.
    pub(super) async fn end(self) -> io::Result<()> {
        for server in self.servers {
            server.kill().await?;
        }
        Ok(())
    }
}
