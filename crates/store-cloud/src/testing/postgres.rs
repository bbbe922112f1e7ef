//! Starts a PostgreSQL server of the one that is installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use tempfile::TempDir;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::server::{self, Running};

/// What to do where there is none.
const MISSING: &str = "PostgreSQL 15 or newer is installed: apt-get install postgresql";

/// A PostgreSQL server that ends with this process, reached through a socket in its folder.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    /// What the name of its socket ends with.
    port: String,
    settings: Vec<String>,
    running: Mutex<Option<Running>>,
}

impl PostgresServer {
    /// Makes a cluster and starts it, with these settings (`name=value`).
    ///
    /// # Panics
    /// If no PostgreSQL is installed, or it does not start.
    #[must_use]
    pub fn start(settings: &[&str]) -> Self {
        let server = Self::without_files(settings);
        server.execute_program("initdb", |command| {
            command
                .args(["--username=easel", "--auth=trust", "--encoding=UTF8"])
                .args(["--locale=C", "--no-sync", "--no-instructions"]);
        });
        server.run();
        server
    }

    /// A server that has a folder and does not run.
    pub(super) fn without_files(settings: &[&str]) -> Self {
        let port = settings
            .iter()
            .find_map(|setting| setting.strip_prefix("port="));
        Self {
            folder: server::folder("postgres"),
            port: port.unwrap_or("5432").to_owned(),
            settings: settings
                .iter()
                .map(|setting| (*setting).to_owned())
                .collect(),
            running: Mutex::new(None),
        }
    }

    /// Its files.
    pub(super) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Runs a program of PostgreSQL on its files and waits for the end.
    pub(super) fn execute_program(&self, name: &str, arguments: impl FnOnce(&mut Command)) {
        let mut command = server::command(&installed().expect(MISSING).join(name));
        command.arg("--pgdata").arg(self.data());
        arguments(&mut command);
        let output = command.output().expect("the programs of PostgreSQL run");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {complaint}");
    }

    /// Starts it over its files.
    pub(super) fn run(&self) {
        let mut command = server::command(&installed().expect(MISSING).join("postgres"));
        command.arg("-D").arg(self.data());
        command.arg("-k").arg(self.folder.path());
        let always = ["listen_addresses=", "max_connections=400"];
        let set = self.settings.iter().map(String::as_str);
        for setting in always.into_iter().chain(set) {
            command.arg("-c").arg(setting);
        }
        // A standby accepts read-only ones.
        let ran = server::run(command, "database system is ready to accept");
        let ran = ran.unwrap_or_else(|said| panic!("PostgreSQL does not start:\n{said}"));
        *self.running.lock().expect("nobody panics holding it") = Some(ran);
    }

    /// Stops it with this signal (`INT`: its connections are cut; `QUIT`: as a crash) and starts it anew over the same files.
    /// Waits for both.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&self, signal: &str) {
        self.stop(signal);
        self.run();
    }

    /// Stops it with this signal, if it runs, and waits for its end.
    pub fn stop(&self, signal: &str) {
        let mut running = self.running.lock().expect("nobody panics holding it");
        if let Some(running) = running.take() {
            running.stop(signal);
        }
    }

    /// Stops all of its processes where they are: it takes connections and bytes, as its system does that for it, and says nothing.
    ///
    /// # Panics
    /// If it does not run.
    pub fn silence(&self) {
        self.send_to_all("STOP");
    }

    /// Has its processes go on.
    ///
    /// # Panics
    /// If it does not run.
    pub fn wake(&self) {
        self.send_to_all("CONT");
    }

    fn send_to_all(&self, signal: &str) {
        let running = self.running.lock().expect("nobody panics holding it");
        let running = running.as_ref().expect("it runs");
        running.send_to_all(signal);
    }

    /// Stops its process of this kind (`backend_type` of `pg_stat_activity`) where it is, until the server ends.
    ///
    /// # Panics
    /// If it has none.
    pub async fn freeze(&self, kind: &str) {
        let sql = format!("SELECT pid FROM pg_stat_activity WHERE backend_type = '{kind}'");
        let found = self.query("postgres", &sql).await;
        let pid = found[0][0].parse().expect("a process");
        server::send("STOP", pid);
    }

    /// Whether this machine has one.
    #[must_use]
    pub fn is_installed() -> bool {
        installed().is_some()
    }

    /// Where its socket is.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What the name of its socket ends with.
    pub(super) fn port(&self) -> &str {
        &self.port
    }

    /// The address of a database.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!(
            "host={} port={} user=easel dbname={database}",
            self.folder.path().display(),
            self.port
        )
    }

    /// Makes a database like the other one.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn create_database(&self, name: &str, template: &str) {
        let client = self.administrator().await;
        let sql = format!("CREATE DATABASE {name} TEMPLATE {template}");
        loop {
            match client.batch_execute(&sql).await {
                Ok(()) => return,
                // Whoever used the template a moment ago is still leaving.
                Err(error) if error.code() == Some(&SqlState::OBJECT_IN_USE) => {}
                Err(error) => panic!("{sql}: {error:?}"),
            }
        }
    }

    /// Executes statements in a database.
    ///
    /// # Panics
    /// If one of them fails.
    pub async fn execute(&self, database: &str, sql: &str) {
        let client = self.client(database).await;
        let done = client.batch_execute(sql).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// Executes statements in a database, as far as it lets them; whether it did.
    ///
    /// # Panics
    /// If it cannot be reached.
    pub async fn try_execute(&self, database: &str, sql: &str) -> bool {
        self.client(database).await.batch_execute(sql).await.is_ok()
    }

    /// The rows of a query, each value as text; one that is NULL is empty.
    ///
    /// # Panics
    /// If it fails.
    pub async fn query(&self, database: &str, sql: &str) -> Vec<Vec<String>> {
        let client = self.client(database).await;
        let answers = client.simple_query(sql).await;
        let answers = answers.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let rows = answers.iter().filter_map(|answer| {
            if let SimpleQueryMessage::Row(row) = answer {
                return Some(row);
            }
            None
        });
        let values = rows.map(|row| {
            let values = (0..row.len()).map(|place| row.get(place).unwrap_or_default());
            values.map(str::to_owned).collect()
        });
        values.collect()
    }

    /// The socket that it listens at.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(format!(".s.PGSQL.{}", self.port))
    }

    async fn administrator(&self) -> Client {
        self.client("postgres").await
    }

    async fn client(&self, database: &str) -> Client {
        let connected = tokio_postgres::connect(&self.url(database), NoTls).await;
        let (client, connection) = connected.expect("the server answers");
        // It ends with its client.
        tokio::spawn(connection);
        client
    }
}

/// The newest PostgreSQL of the distribution's packages, or the one that `EASEL_POSTGRES` names by its folder of programs.
fn installed() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("EASEL_POSTGRES") {
        return Some(folder.into());
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    versions
        .filter_map(Result::ok)
        .map(|version| version.path().join("bin"))
        .filter(|programs| programs.join("postgres").exists())
        .max()
}
