//! Queues of others in PostgreSQL, each from its package registry, and what they are asked.
//!
//! Each has a script here that speaks to the library as its documentation says. The packages are installed below `target/` when they
//! are asked for the first time; nothing of them is in this repository.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;
use tokio::process::Command;

use super::say;

/// A queue of somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Awa,
    PgBoss,
    GraphileWorker,
}

/// What a queue is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// Submissions for so many seconds, while nothing works.
    Submit(u32),
    /// The same while jobs are worked on, until all have ended.
    Finish(u32),
    /// So many jobs, one at a time.
    Idle(u32),
}

/// What a script measured.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Answer {
    /// In a second: submissions, or jobs from the first submission to the last end.
    pub(super) rate: f64,
    /// How many jobs ended.
    pub(super) count: u64,
    /// From each submission to the start of its job.
    pub(super) times_us: Vec<u64>,
}

impl Peer {
    pub(super) const ALL: [Self; 3] = [Self::Awa, Self::PgBoss, Self::GraphileWorker];

    /// The name and version of its package.
    pub(super) fn package(self) -> (&'static str, &'static str) {
        match self {
            Self::Awa => ("awa-pg", "0.6.9"),
            Self::PgBoss => ("pg-boss", "10.4.2"),
            Self::GraphileWorker => ("graphile-worker", "0.17.3"),
        }
    }

    /// The name of its script, and the script.
    fn script(self) -> (&'static str, &'static str) {
        match self {
            Self::Awa => ("awa_pg.py", include_str!("peers/awa_pg.py")),
            Self::PgBoss => ("pg_boss.mjs", include_str!("peers/pg_boss.mjs")),
            Self::GraphileWorker => (
                "graphile_worker.mjs",
                include_str!("peers/graphile_worker.mjs"),
            ),
        }
    }

    /// What its script imports.
    fn imported(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Awa => None,
            Self::PgBoss | Self::GraphileWorker => {
                Some(("node_peer.mjs", include_str!("peers/node_peer.mjs")))
            }
        }
    }

    /// The interpreter of its script.
    fn interpreter(self) -> &'static str {
        match self {
            Self::Awa => "python3",
            Self::PgBoss | Self::GraphileWorker => "node",
        }
    }

    /// Installs its package in a folder, unless it is there, and puts its script beside it.
    pub(super) async fn install(self, folder: &Path) -> io::Result<()> {
        let (name, version) = self.package();
        let folder = self.folder(folder);
        let is_there = folder.join("installed");
        if !is_there.exists() {
            say(&format!("installing {name} {version}"));
            fs::create_dir_all(&folder)?;
            let mut command = match self {
                Self::Awa => Command::new("pip"),
                Self::PgBoss | Self::GraphileWorker => Command::new("npm"),
            };
            match self {
                Self::Awa => command
                    .args([
                        "install",
                        "--quiet",
                        "--root-user-action=ignore",
                        "--target",
                    ])
                    .arg(&folder)
                    .arg(format!("{name}=={version}")),
                Self::PgBoss | Self::GraphileWorker => command
                    .args(["install", "--no-audit", "--no-fund", "--prefix"])
                    .arg(&folder)
                    .arg(format!("{name}@{version}")),
            };
            output(&mut command, name).await?;
            fs::write(is_there, b"")?;
        }
        for (name, text) in [self.script()].into_iter().chain(self.imported()) {
            fs::write(folder.join(name), text)?;
        }
        Ok(())
    }

    /// Asks it, over the database at this address, which must be empty.
    pub(super) async fn ask(self, folder: &Path, url: &str, ask: Ask) -> io::Result<Answer> {
        let folder = self.folder(folder);
        let (what, amount) = match ask {
            Ask::Submit(seconds) => ("submit", seconds),
            Ask::Finish(seconds) => ("finish", seconds),
            Ask::Idle(count) => ("idle", count),
        };
        let mut command = Command::new(self.interpreter());
        command
            .arg(folder.join(self.script().0))
            .args([url, what, &amount.to_string()])
            .env("PYTHONPATH", &folder);
        let said = output(&mut command, self.package().0).await?;
        answer(&said)
    }

    fn folder(self, folder: &Path) -> PathBuf {
        let (name, version) = self.package();
        folder.join(format!("{name}-{version}"))
    }
}

/// The last line that a script printed.
fn answer(said: &str) -> io::Result<Answer> {
    let last = said.lines().next_back().unwrap_or_default();
    serde_json::from_str(last).map_err(|error| io::Error::other(format!("{error}: {last:?}")))
}

/// What a command prints; an error with what it complained of if it fails.
async fn output(command: &mut Command, name: &str) -> io::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("{command:?}: {error}")))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{name} failed: {complaint}")));
    }
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_script_is_its_answer() {
        let said = "a library says something\n{\"rate\": 12.5, \"count\": 3}\n";
        let expected = Answer {
            rate: 12.5,
            count: 3,
            times_us: Vec::new(),
        };
        assert_eq!(answer(said).expect("an answer"), expected);
        for wrong in ["", "{\"rate\": 1", "{\"speed\": 1}"] {
            assert!(answer(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_script_that_fails_says_why() {
        let mut command = Command::new("sh");
        let failed = output(
            command.args(["-c", "echo no database >&2; exit 3"]),
            "a queue",
        );
        let error = failed.await.expect_err("it fails").to_string();
        assert!(error.contains("a queue failed: no database"), "{error}");
    }
}
