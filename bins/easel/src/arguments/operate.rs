//! The commands of operators, and usage.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Seconds;

#[derive(Debug, Args)]
pub(crate) struct Accounts {
    /// Shows this account
    pub(crate) account: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Lists the keys of an account
    List {
        /// The account
        account: String,
    },
    /// Makes an API key and prints it, this once
    Add {
        /// The account
        account: String,
        /// What people call it
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// What it allows, separated by commas; all but admin if left out
        #[arg(long, value_name = "SCOPES", value_delimiter = ',')]
        scopes: Vec<String>,
        /// When it stops counting: 90s, 30m, 12h or 7d from now on
        #[arg(long, value_name = "TIME")]
        expires: Option<Seconds>,
    },
    /// Lets a key count no more
    Revoke {
        /// The 8 characters behind its first `_`
        key: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Webhooks {
    /// Lists the webhooks of your account; operators list those of another one, or all
    List {
        /// Another account
        account: Option<String>,
        /// Those of all accounts
        #[arg(long, conflicts_with = "account")]
        all: bool,
    },
    /// Shows a webhook
    Show {
        /// Its id
        webhook: String,
    },
    /// Adds a webhook to your account and prints its secret, this once; operators add it to another one
    Add {
        /// Another account
        account: Option<String>,
        /// Where events are sent
        #[arg(long, value_name = "URL")]
        url: String,
        /// Which events, separated by commas: job.created, job.ended, call.ended, budget.reached, webhook.disabled
        #[arg(long, value_name = "EVENTS", value_delimiter = ',', required = true)]
        events: Vec<String>,
    },
    /// Gives a webhook another address or other events
    Change {
        /// Its id
        webhook: String,
        /// Where events are sent
        #[arg(long, value_name = "URL")]
        url: Option<String>,
        /// Which events, separated by commas
        #[arg(long, value_name = "EVENTS", value_delimiter = ',')]
        events: Vec<String>,
    },
    /// Sends events to a webhook again, and what waits for it
    Enable {
        /// Its id
        webhook: String,
    },
    /// Sends nothing to a webhook
    Disable {
        /// Its id
        webhook: String,
    },
    /// Removes a webhook with all that waits for it
    Remove {
        /// Its id
        webhook: String,
    },
    /// Makes a new secret and prints it, this once
    Rotate {
        /// Its id
        webhook: String,
        /// How long the secret before signs as well: 7d at most, 0s to end it at once; 24h if left out
        #[arg(long, value_name = "TIME", value_parser = overlap)]
        overlap: Option<Seconds>,
    },
    /// Sends the event webhook.test
    Test {
        /// Its id
        webhook: String,
    },
    /// Lists the newest messages to a webhook
    Deliveries {
        /// Its id
        webhook: String,
        /// How many messages at most
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Workers {
    /// Lists the workers of the server
    List,
    /// Adds a worker
    Add {
        /// Its address, such as http://gpu-box:8188
        url: String,
        /// What it is called; its host, port and path if left out
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Gives a worker no more jobs
    Drain {
        /// Its name
        worker: String,
    },
    /// Gives a drained worker jobs again
    Resume {
        /// Its name
        worker: String,
    },
    /// Takes a worker out once its jobs are over
    Remove {
        /// Its name
        worker: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Deployments {
    /// Lists deployments
    List,
    /// Shows a deployment with its workers and revisions
    Show {
        /// Its name
        deployment: String,
    },
    /// Makes a deployment, or a new revision of it
    Apply {
        /// A TOML file with `name`, and `command` or `urls`; `-` for standard input
        file: PathBuf,
    },
    /// Starts a deployment that was stopped, or that failed
    Start {
        /// Its name
        deployment: String,
    },
    /// Stops a deployment once its jobs are over
    Stop {
        /// Its name
        deployment: String,
    },
    /// Changes how many workers a deployment has, until the next revision
    #[command(group(clap::ArgGroup::new("bounds").args(["min", "max"]).required(true).multiple(true)))]
    Scale {
        /// Its name
        deployment: String,
        /// So many stay up; 0 lets the last one stop
        #[arg(long, value_name = "COUNT")]
        min: Option<u32>,
        /// So many are started at most
        #[arg(long, value_name = "COUNT")]
        max: Option<u32>,
    },
    /// Goes back to an older revision
    Rollback {
        /// Its name
        deployment: String,
        /// Which; the one before the current, or away from one that is not ready, if left out
        #[arg(long, value_name = "NUMBER")]
        revision: Option<u32>,
    },
    /// Removes a deployment with its events and logs
    Remove {
        /// Its name
        deployment: String,
    },
    /// Lists what happened to a deployment, newest first
    Events {
        /// Its name
        deployment: String,
        /// How many events at most
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// Prints what the workers of a deployment wrote lately
    Logs {
        /// Its name
        deployment: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Usage {
    /// Sums up by model, day or API key, or by day and key
    #[arg(long, value_name = "WHAT", default_value = "model", value_parser = ["model", "day", "key", "day,key"])]
    pub(crate) by: String,
    /// Sums up by the value of this label of calls too
    #[arg(long, value_name = "KEY")]
    pub(crate) label: Option<String>,
    /// The last so many days
    #[arg(long, value_name = "COUNT", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    pub(crate) days: u32,
    /// From this time on instead, such as 2026-11-01T00:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "days")]
    pub(crate) from: Option<String>,
    /// Up to this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Of this account, or of all with `*`; needs a key with the scope admin
    #[arg(long, value_name = "ACCOUNT")]
    pub(crate) account: Option<String>,
}

/// A span that may be none.
fn overlap(text: &str) -> Result<Seconds, &'static str> {
    match text {
        "0s" => Ok(Seconds(0)),
        text => text.parse(),
    }
}
