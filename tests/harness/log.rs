//! The log of a server that writes JSON into a file, line by line as it grows.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// Far longer than any test waits for an entry: reached only when it does not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A log that is followed. Dropping it stops that.
#[derive(Debug)]
pub struct Log {
    lines: Lines<BufReader<ChildStdout>>,
    _tail: Child,
}

impl Log {
    /// Follows a file from its beginning.
    ///
    /// # Panics
    /// If `tail` is not there.
    #[must_use]
    pub fn of(file: &Path) -> Self {
        let mut tail = Command::new("tail")
            .args(["-n", "+1", "-F"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("`tail` is on every system");
        let stdout = tail.stdout.take().expect("standard output is piped");
        Self {
            lines: BufReader::new(stdout).lines(),
            _tail: tail,
        }
    }

    /// The next entry with this message.
    ///
    /// # Panics
    /// If it does not come, or a line is no JSON.
    pub async fn next(&mut self, message: &str) -> Value {
        let found = timeout(PATIENCE, self.find(message)).await;
        found.unwrap_or_else(|_| panic!("the log does not tell `{message}`"))
    }

    async fn find(&mut self, message: &str) -> Value {
        while let Some(line) = self.lines.next_line().await.expect("the log is text") {
            if line.contains(message) {
                return serde_json::from_str(&line).expect("entries are JSON");
            }
        }
        panic!("the log ended before it told `{message}`");
    }
}
