//! A PostgreSQL server that follows another one, and may take its place.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::PostgresServer;

/// What a standby calls itself.
const NAME: &str = "standby";
/// How long a standby may take until it follows, and the pause between two looks.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl PostgresServer {
    /// Starts a standby with these settings. `primary` leads to the server that it follows.
    ///
    /// # Panics
    /// If no PostgreSQL is installed, or it cannot follow the other one.
    #[must_use]
    pub fn standby(primary: SocketAddr, settings: &[&str]) -> Self {
        let server = Self::without_files(settings);
        server.follow(primary);
        server
    }

    /// Gives up what it has, and follows the server that `primary` leads to. Its socket stays where it is.
    ///
    /// # Panics
    /// If the other server does not answer.
    pub fn follow(&self, primary: SocketAddr) {
        self.stop("QUIT");
        let data = self.data();
        if data.exists() {
            fs::remove_dir_all(&data).expect("its files can be removed");
        }
        let (host, port) = (primary.ip(), primary.port());
        self.execute_program("pg_basebackup", |command| {
            command
                .arg(format!("--host={host}"))
                .arg(format!("--port={port}"))
                .args(["--username=easel", "--checkpoint=fast", "--no-sync"]);
        });
        // The copy has the settings of the other one: nobody follows this one yet.
        let settings = format!(
            "primary_conninfo = 'host={host} port={port} user=easel application_name={NAME}'\n\
             synchronous_standby_names = ''\n"
        );
        let file = data.join("postgresql.auto.conf");
        let mut file = OpenOptions::new().append(true).open(file).expect("a copy");
        let written = file.write_all(settings.as_bytes());
        written.expect("its files can be written");
        let signal = data.join("standby.signal");
        fs::write(signal, b"").expect("its files can be written");
        self.run();
    }

    /// Waits until the standby has everything that was written before; if `is_synchronous`, every commit waits for it from then on.
    ///
    /// # Panics
    /// If the standby does not follow within a minute.
    pub async fn wait_for_standby(&self, is_synchronous: bool) {
        if is_synchronous {
            let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{NAME}'");
            self.execute("postgres", &set).await;
            self.execute("postgres", "SELECT pg_reload_conf()").await;
            self.wait_for("sync_state = 'sync'").await;
            // Who answered that was started after the reload, so the process of checkpoints, which has commits wait, was told of it
            // before: it obeys before it makes another one.
            self.execute("postgres", "CHECKPOINT").await;
        }
        let written = self.value("SELECT pg_current_wal_flush_lsn()").await;
        self.wait_for(&format!("flush_lsn >= '{written}'")).await;
    }

    /// Whether its standby has everything that was flushed until now.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn has_current_standby(&self) -> bool {
        self.stands("flush_lsn >= pg_current_wal_flush_lsn()").await
    }

    async fn wait_for(&self, condition: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.stands(condition).await {
            assert!(Instant::now() < deadline, "no standby: {condition}");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Whether this is so of its standby, if it has one.
    async fn stands(&self, condition: &str) -> bool {
        let of_standby = format!("application_name = '{NAME}' AND state = 'streaming'");
        let sql =
            format!("SELECT count(*) FROM pg_stat_replication WHERE {of_standby} AND {condition}");
        self.value(&sql).await == "1"
    }

    /// Has a standby take writes; returns when it does.
    ///
    /// # Panics
    /// If it is none, or does not answer.
    pub fn promote(&self) {
        self.execute_program("pg_ctl", |command| {
            command.args(["promote", "--wait", "--silent"]);
        });
    }

    /// The first value of a query; empty without rows.
    ///
    /// # Panics
    /// If it fails.
    pub async fn value(&self, sql: &str) -> String {
        let rows = self.query("postgres", sql).await;
        let first = rows.into_iter().flatten().next();
        first.unwrap_or_default()
    }
}
