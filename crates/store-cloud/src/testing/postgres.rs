//! Starts a PostgreSQL server of the one that is installed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use tempfile::TempDir;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

/// A PostgreSQL server that ends with this process, reached through a socket in its folder.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
}

impl PostgresServer {
    /// Makes a cluster and starts it, with these settings (`name=value`).
    ///
    /// # Panics
    /// If no PostgreSQL is installed, or it does not start.
    #[must_use]
    pub fn start(settings: &[&str]) -> Self {
        let programs = installed();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/postgres");
        std::fs::create_dir_all(&root).expect("target/ can be written");
        let root = root.canonicalize().expect("it was made");
        let folder = tempfile::Builder::new().prefix("c").tempdir_in(root);
        let folder = folder.expect("target/ can be written");
        let data = folder.path().join("data");
        let made = as_somebody(&programs.join("initdb"))
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
        let mut command = as_somebody(&programs.join("postgres"));
        command.arg("-D").arg(&data).arg("-k").arg(folder.path());
        for setting in ["listen_addresses=", "max_connections=400"]
            .iter()
            .chain(settings)
        {
            command.arg("-c").arg(setting);
        }
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        run(command);
        Self { folder }
    }

    /// The address of a database.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!(
            "host={} user=easel dbname={database}",
            self.folder.path().display()
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

/// Starts the server from a thread that stays: `setpriv` has the server stopped when the thread that started it ends, which is
/// when this process does.
fn run(mut command: Command) {
    let (ready, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let mut server: Child = command.spawn().expect("postgres runs");
        let log = server.stderr.take().expect("it is piped");
        let mut said = String::new();
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            said.push_str(&line);
            said.push('\n');
            if line.contains("ready to accept connections") {
                let _ = ready.send(Ok(()));
                said.clear();
            }
        }
        let _ = server.wait();
        let _ = ready.send(Err(said));
    });
    match wait.recv() {
        Ok(Ok(())) => {}
        Ok(Err(said)) => panic!("PostgreSQL does not start:\n{said}"),
        Err(error) => panic!("PostgreSQL does not start: {error}"),
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

/// A program that ends with its parent, and that a superuser's process starts as somebody else: PostgreSQL refuses to run as
/// one.
fn as_somebody(program: &Path) -> Command {
    let mut command = Command::new("unshare");
    if is_root() {
        command.args(["--user", "--map-user=1000", "--map-group=1000"]);
    }
    command.args(["setpriv", "--pdeathsig", "INT"]).arg(program);
    command
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| {
        use std::os::unix::fs::MetadataExt;
        metadata.uid() == 0
    })
}
