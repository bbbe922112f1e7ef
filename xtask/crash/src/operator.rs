//! What an operator does on the command line: an account that pays for calls, and the reports of its money.

use std::io;
use std::path::PathBuf;

use serde_json::Value;
use tokio::process::Command;

use super::database::Sqlite;
use super::money::Reports;

/// The commands of the program over one data directory.
#[derive(Debug, Clone)]
pub(super) struct Operator {
    pub(super) program: PathBuf,
    pub(super) data_dir: PathBuf,
}

/// The account that calls models.
const ACCOUNT: &str = "buyer";
/// More than all calls of an installation cost.
const GRANTED_CENTS: i64 = 1_000_000;

impl Operator {
    /// Adds the account, with credits that calls use up, and an API key, which is returned.
    pub(super) async fn add_buyer(&self) -> io::Result<String> {
        self.run(&["account", "add", ACCOUNT, "--billing", "on"])
            .await?;
        let granted = GRANTED_CENTS.to_string();
        self.run(&["account", "credit", ACCOUNT, &granted]).await?;
        let key = self.run(&["key", "add", ACCOUNT]).await?;
        Ok(key.trim().to_owned())
    }

    /// The reports of the account beside a running server that is idle.
    pub(super) async fn reports(&self, sqlite: Option<&Sqlite>) -> io::Result<Reports> {
        // The list of entries has the server flush its log of calls; what only reads the rows sees everything then.
        self.run(&["account", "credit", ACCOUNT, "--json"]).await?;
        let (export, totals, account) = tokio::try_join!(
            self.run(&["usage", "export", "--account", ACCOUNT]),
            self.run(&["usage", "totals", "--account", ACCOUNT]),
            self.run(&["account", "show", ACCOUNT, "--json"]),
        )?;
        let account: Value = serde_json::from_str(&account)?;
        let export = export.lines().map(serde_json::from_str);
        let cents = |line: &str| line.rsplit(',').next()?.parse::<i64>().ok();
        Ok(Reports {
            export: export.collect::<Result<_, _>>()?,
            totals_cents: totals.lines().skip(1).filter_map(cents).sum(),
            ledger: sqlite
                .map(|sqlite| sqlite.ledger(&self.data_dir, ACCOUNT))
                .transpose()?,
            balance_cents: account["balance_cents"].as_i64().unwrap_or(0),
            held_cents: account["held_cents"].as_u64().unwrap_or(u64::MAX),
            granted_cents: GRANTED_CENTS,
        })
    }

    async fn run(&self, words: &[&str]) -> io::Result<String> {
        let output = Command::new(&self.program)
            .args(words)
            .arg("--data-dir")
            .arg(&self.data_dir)
            .env_remove("FAILPOINTS")
            .kill_on_drop(true)
            .output()
            .await?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("{words:?}: {complaint}")));
        }
        String::from_utf8(output.stdout).map_err(io::Error::other)
    }
}
