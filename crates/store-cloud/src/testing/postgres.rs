//! Starts a PostgreSQL server of the one that is installed.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use super::server;

/// A PostgreSQL server that ends with this process, reached through a socket in its folder.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    /// What the name of its socket ends with.
    port: String,
}

impl PostgresServer {
    /// Makes a cluster and starts it, with these settings (`name=value`).
    ///
    /// # Panics
    /// If no PostgreSQL is installed, or it does not start.
    #[must_use]
    pub fn start(settings: &[&str]) -> Self {
        let programs = installed();
        let folder = server::folder("postgres");
        let data = folder.path().join("data");
        let made = server::command(&programs.join("initdb"))
            .arg("--pgdata")
            .arg(&data)
            .args(["--username=easel", "--auth=trust", "--encoding=UTF8"])
            .args(["--locale=C", "--no-sync", "--no-instructions"])
            .output()
            .expect("initdb runs");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let mut command = server::command(&programs.join("postgres"));
        command.arg("-D").arg(&data).arg("-k").arg(folder.path());
        for setting in ["listen_addresses=", "max_connections=400"]
            .iter()
            .chain(settings)
        {
            command.arg("-c").arg(setting);
        }
        let ran = server::run(command, "ready to accept connections");
        ran.unwrap_or_else(|said| panic!("PostgreSQL does not start:\n{said}"));
        let port = settings
            .iter()
            .find_map(|setting| setting.strip_prefix("port="));
        let port = port.unwrap_or("5432").to_owned();
        Self { folder, port }
    }

    /// Where its socket is.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
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

    async fn administrator(&self) -> Client {
        let connected = tokio_postgres::connect(&self.url("postgres"), NoTls).await;
        let (client, connection) = connected.expect("the server answers");
        // It ends with its client.
        tokio::spawn(connection);
        client
    }
}

/// The newest PostgreSQL of the distribution's packages, or the one that `EASEL_POSTGRES` names by its folder of programs.
fn installed() -> PathBuf {
    if let Some(folder) = std::env::var_os("EASEL_POSTGRES") {
        return folder.into();
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    versions
        .filter_map(Result::ok)
        .map(|version| version.path().join("bin"))
        .filter(|programs| programs.join("postgres").exists())
        .max()
        .expect("PostgreSQL 15 or newer is installed: apt-get install postgresql")
}
