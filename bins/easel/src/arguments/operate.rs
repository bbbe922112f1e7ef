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
        /// A name for people
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// The scopes, separated by commas; all but admin if left out
        #[arg(long, value_name = "SCOPES", value_delimiter = ',')]
        scopes: Vec<String>,
        /// How long the key is valid: 90s, 30m, 12h or 7d from now on
        #[arg(long, value_name = "TIME")]
        expires: Option<Seconds>,
    },
    /// Revokes a key
    Revoke {
        /// The 8 characters behind the first `_` of the key
        key: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Webhooks {
    /// Lists the webhooks of your account; operators list those of another one, or all
    List {
        /// Another account
        account: Option<String>,
        /// Lists the webhooks of all accounts
        #[arg(long, conflicts_with = "account")]
        all: bool,
    },
    /// Shows a webhook
    Show {
        /// The id of the webhook
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
        /// The id of the webhook
        webhook: String,
        /// Where events are sent
        #[arg(long, value_name = "URL")]
        url: Option<String>,
        /// Which events, separated by commas
        #[arg(long, value_name = "EVENTS", value_delimiter = ',')]
        events: Vec<String>,
    },
    /// Sends to a webhook again, first the messages that wait for it
    Enable {
        /// The id of the webhook
        webhook: String,
    },
    /// Stops sending to a webhook
    Disable {
        /// The id of the webhook
        webhook: String,
    },
    /// Removes a webhook and the messages that wait for it
    Remove {
        /// The id of the webhook
        webhook: String,
    },
    /// Makes a new secret and prints it, this once
    Rotate {
        /// The id of the webhook
        webhook: String,
        /// How long the previous secret also signs: 7d at most, 0s to end it at once; 24h if left out
        #[arg(long, value_name = "TIME", value_parser = overlap)]
        overlap: Option<Seconds>,
    },
    /// Sends the event webhook.test
    Test {
        /// The id of the webhook
        webhook: String,
    },
    /// Lists the newest messages to a webhook
    Deliveries {
        /// The id of the webhook
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
        /// The address of the worker, such as http://gpu-box:8188
        url: String,
        /// The name of the worker; its host, port and path if left out
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Gives a worker no new jobs; its present jobs continue
    Drain {
        /// The name of the worker
        worker: String,
    },
    /// Gives a drained worker jobs again
    Resume {
        /// The name of the worker
        worker: String,
    },
    /// Takes a worker out once its jobs are over
    Remove {
        /// The name of the worker
        worker: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Deployments {
    /// Lists deployments
    List,
    /// Shows a deployment with its workers and revisions
    Show {
        /// The name of the deployment
        deployment: String,
    },
    /// Makes a deployment, or a new revision of it
    Apply {
        /// A TOML file with `name`, and `command` or `urls`; `-` for standard input
        file: PathBuf,
    },
    /// Starts a deployment that was stopped, or that failed
    Start {
        /// The name of the deployment
        deployment: String,
    },
    /// Stops a deployment once its jobs are over
    Stop {
        /// The name of the deployment
        deployment: String,
    },
    /// Changes how many workers a deployment has, until the next revision
    #[command(group(clap::ArgGroup::new("bounds").args(["min", "max"]).required(true).multiple(true)))]
    Scale {
        /// The name of the deployment
        deployment: String,
        /// The least workers that stay up; 0 lets the last one stop
        #[arg(long, value_name = "COUNT")]
        min: Option<u32>,
        /// The most workers that are started
        #[arg(long, value_name = "COUNT")]
        max: Option<u32>,
    },
    /// Goes back to an older revision
    Rollback {
        /// The name of the deployment
        deployment: String,
        /// The revision; if left out, the one before the current, or the current one while a newer one is not ready
        #[arg(long, value_name = "NUMBER")]
        revision: Option<u32>,
    },
    /// Removes a deployment with its events and logs
    Remove {
        /// The name of the deployment
        deployment: String,
    },
    /// Lists what happened to a deployment, newest first
    Events {
        /// The name of the deployment
        deployment: String,
        /// How many events at most
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// Prints the newest lines that the workers of a deployment wrote
    Logs {
        /// The name of the deployment
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
    /// The number of days, up to now
    #[arg(long, value_name = "COUNT", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    pub(crate) days: u32,
    /// Calls received at this time or later, instead of `--days`, such as 2026-11-01T00:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "days")]
    pub(crate) from: Option<String>,
    /// Calls received before this time
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
