//! Starts a PgBouncer: what stands between many programs and a database.

use std::path::PathBuf;

use tempfile::TempDir;

use super::PostgresServer;
use super::server;

/// A pooler that ends with this process, reached through a socket in its folder.
#[derive(Debug)]
pub struct PgBouncer {
    folder: TempDir,
}

impl PgBouncer {
    /// Starts one in front of this server, with this mode of its pools; `None`, with a line that says so, where none is installed.
    ///
    /// # Panics
    /// If it does not start, or is missing in CI.
    #[must_use]
    #[expect(clippy::print_stderr, reason = "a test that is left out says so")]
    pub fn start(behind: &PostgresServer, mode: &str) -> Option<Self> {
        let program = PathBuf::from("/usr/sbin/pgbouncer");
        if !program.exists() {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "no PgBouncer: apt-get install pgbouncer"
            );
            eprintln!("skipped: no PgBouncer is installed");
            return None;
        }
        let folder = server::folder("pgbouncer");
        let path = folder.path().display();
        let settings = format!(
            "[databases]\n\
             * = host={} port={} user=easel\n\
             [pgbouncer]\n\
             listen_addr =\n\
             unix_socket_dir = {path}\n\
             auth_type = any\n\
             pool_mode = {mode}\n\
             ignore_startup_parameters = extra_float_digits\n",
            behind.folder().display(),
            behind.port()
        );
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).expect("the folder is new");
        let mut command = server::command(&program);
        command.arg(file);
        let ran = server::run(command, "process up");
        ran.unwrap_or_else(|said| panic!("PgBouncer does not start:\n{said}"));
        Some(Self { folder })
    }

    /// The address of a database through it.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let folder = self.folder.path().display();
        format!("host={folder} port=6432 user=easel dbname={database}")
    }
}
