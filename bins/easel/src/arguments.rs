//! The command line as it is typed.

mod operate;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use client::BaseUrl;

pub(crate) use operate::{Accounts, Deployments, Keys, Usage, Webhooks, Workers};

/// The heading of what every command understands.
const GLOBAL: &str = "Options of every command";

const AFTER: &str = "\
Exit codes:
  0 done, 1 it was tried and failed, 2 wrong input, 3 not signed in or not allowed,
  4 not found, 5 a limit or the credits are used up, 6 the server cannot be reached,
  7 the server has a fault, 8 the server does not offer this, 130 interrupted

Environment:
  EASEL_SERVER, EASEL_API_KEY, EASEL_IMAGES (auto, kitty, iterm, sixel, none), NO_COLOR";

/// Runs image workflows and partner models on an Easel server.
#[derive(Debug, Parser)]
#[command(
    name = "easel",
    version,
    after_help = AFTER,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    propagate_version = true
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command understands.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Shared {
    /// The server to use instead of the one signed in to last
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "ADDRESS")]
    pub(crate) server: Option<BaseUrl>,
    /// Prints JSON for programs; `easel schema` describes it
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// Trusts the certificate authorities in this PEM file, in addition to the usual ones
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Prints no progress, only results and errors; `--json` implies it
    #[arg(long, short, global = true, help_heading = GLOBAL)]
    pub(crate) quiet: bool,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Online(Online),
    /// Checks the server, the credentials and the terminal
    Doctor,
    /// Signs in to a server and remembers it
    Login(Login),
    /// Forgets a server and its key
    Logout {
        /// The server; the current one if left out
        server: Option<BaseUrl>,
    },
    /// Prints the completions for a shell
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Prints the JSON Schema of what `--json` prints
    Schema {
        /// Prints the schema of this output alone, such as `jobs` or `error`
        output: Option<String>,
    },
    /// Writes the manual pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder
        folder: PathBuf,
    },
}

/// What is done on a server.
#[derive(Debug, Subcommand)]
pub(crate) enum Online {
    /// Runs a graph: uploads its files, shows its progress, and saves its outputs
    Run(Run),
    /// Submits a graph and prints the id of its job
    Submit(Submit),
    /// Follows a job to its end
    Watch(Watch),
    /// Lists jobs, or shows one
    Jobs(Jobs),
    /// Prints what a job wrote
    Logs {
        /// The job
        job: String,
    },
    /// Cancels jobs
    Cancel {
        /// The jobs
        #[arg(required = true)]
        jobs: Vec<String>,
    },
    /// Saves the outputs of a job
    Outputs {
        /// The job
        job: String,
        /// The folder to save them in
        #[arg(long, short, value_name = "FOLDER", default_value = "out")]
        out: PathBuf,
    },
    /// Prints the graph of a job
    Workflow {
        /// The job
        job: String,
    },
    /// Uploads, shows, fetches and deletes files on the server
    #[command(subcommand)]
    Assets(Assets),
    /// Lists partner models, or shows what one takes
    Models {
        /// PROVIDER/MODEL: shows the fields of this model
        model: Option<String>,
        /// Lists only ids that contain this text
        #[arg(long, value_name = "TEXT", conflicts_with = "model")]
        search: Option<String>,
    },
    /// Calls a partner model and prints its answer
    Call(Call),
    /// Estimates the cost of a call, without making it
    Estimate {
        #[command(flatten)]
        input: ModelInput,
    },
    /// Lists the files of a call's result that the server keeps
    Results {
        /// The id of the call: `request_id` of `easel call --json`, or of a queued request
        request: String,
        /// Saves the kept files in this folder
        #[arg(long, value_name = "FOLDER")]
        save: Option<PathBuf>,
    },
    /// Sums up what calls of models cost
    Usage(Usage),
    /// Lists accounts, or shows one
    Accounts(Accounts),
    /// Lists, makes and revokes API keys
    #[command(subcommand)]
    Keys(Keys),
    /// Lists, adds and changes webhooks, and shows what was sent
    #[command(subcommand)]
    Webhooks(Webhooks),
    /// Lists, adds, drains and removes ComfyUI workers
    #[command(subcommand)]
    Workers(Workers),
    /// Lists, applies, scales and stops deployments, and shows their events and logs
    #[command(subcommand)]
    Deployments(Deployments),
}

#[derive(Debug, Args)]
pub(crate) struct Login {
    /// The server; `--server`, or the one in force if left out
    pub(crate) address: Option<BaseUrl>,
    /// Reads the API key from standard input
    #[arg(long)]
    pub(crate) key_stdin: bool,
    /// Uses no key: for a server that accepts requests without one
    #[arg(long, conflicts_with = "key_stdin")]
    pub(crate) no_key: bool,
}

/// A graph with its inputs.
#[derive(Debug, Args)]
pub(crate) struct GraphInput {
    /// The workflow in API format; `-` for standard input
    pub(crate) graph: PathBuf,
    /// Sets an input: NODE.FIELD=VALUE, or NODE.FIELD=@FILE to upload a file
    #[arg(long = "input", short, value_name = "NODE.FIELD=VALUE")]
    pub(crate) inputs: Vec<Assignment>,
    /// Labels the job: KEY=VALUE
    #[arg(long = "label", short, value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<Pair>,
    /// The idempotency key: the same key gives the same job instead of a new one
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) input: GraphInput,
    /// The folder to save the outputs in
    #[arg(long, short, value_name = "FOLDER", default_value = "out")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

#[derive(Debug, Args)]
pub(crate) struct Submit {
    #[command(flatten)]
    pub(crate) input: GraphInput,
}

/// How pictures are shown.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Shown {
    /// How pictures are shown on the terminal
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) images: Option<Images>,
}

/// A way to show pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Images {
    /// The best protocol of the terminal
    Auto,
    /// The protocol of kitty and Ghostty
    Kitty,
    /// The protocol of iTerm2 and WezTerm
    Iterm,
    /// Sixel, as foot and mlterm show it
    Sixel,
    /// Shows no pictures
    None,
}

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// The job
    pub(crate) job: String,
    /// Saves the outputs in this folder
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

#[derive(Debug, Args)]
pub(crate) struct Jobs {
    /// Shows this job
    #[arg(conflicts_with_all = ["statuses", "labels", "limit"])]
    pub(crate) job: Option<String>,
    /// Lists only jobs of this status; may be repeated
    #[arg(long = "status", short, value_name = "STATUS")]
    pub(crate) statuses: Vec<String>,
    /// Lists only jobs with this label: KEY=VALUE
    #[arg(long = "label", short, value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<Pair>,
    /// How many jobs at most
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Assets {
    /// Uploads files; contents that the server has already are not sent again
    Upload {
        /// The files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The name by which graphs refer to the file; the file's own name if left out
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// A tag; may be repeated
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
        /// How long the server keeps the file: 90s, 30m, 12h or 7d
        #[arg(long, value_name = "TIME")]
        expires: Option<Seconds>,
    },
    /// Shows assets
    Show {
        /// The ids of the assets
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Saves the bytes of an asset
    Get {
        /// The id of the asset
        id: String,
        /// The file or folder to save them in; `-` for standard output
        #[arg(long, short, value_name = "PATH", default_value = ".")]
        out: PathBuf,
    },
    /// Deletes assets
    Delete {
        /// The ids of the assets
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

/// The body of a call.
#[derive(Debug, Args)]
pub(crate) struct ModelInput {
    /// PROVIDER/MODEL, as `easel models` lists it
    pub(crate) model: String,
    /// FIELD=VALUE, FIELD=@FILE, FIELD:=JSON, or @FILE with the whole body as JSON (@- for standard input)
    #[arg(value_name = "FIELD=VALUE")]
    pub(crate) fields: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Call {
    #[command(flatten)]
    pub(crate) input: ModelInput,
    /// Writes the unchanged answer into this file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Saves the pictures, videos and sounds that the answer names into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) save: Option<PathBuf>,
    /// The key of the call: the same key gives the same answer and is paid once
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Labels the call, for reports and budgets: KEY=VALUE
    #[arg(long = "label", short, value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<Pair>,
    /// How long to wait for the answer: 90s, 30m or 1h
    #[arg(long, value_name = "TIME", default_value = "30m")]
    pub(crate) wait: Seconds,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

/// `NODE.FIELD=VALUE`; both may hold dots, so the graph tells where the node ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) place: String,
    pub(crate) value: String,
}

/// `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair(pub(crate) String, pub(crate) String);

/// A span of time, written `90s`, `30m`, `12h` or `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(pub(crate) u64);

impl FromStr for Assignment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text
            .split_once('=')
            .filter(|(place, _)| place.contains('.'));
        let (place, value) = parts.ok_or(
            "write it as NODE.FIELD=VALUE or NODE.FIELD=@FILE, such as 5.width=640 or 1.image=@photo.png",
        )?;
        Ok(Self {
            place: place.to_owned(),
            value: value.to_owned(),
        })
    }
}

impl FromStr for Pair {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
        let (key, value) = parts.ok_or("write it as KEY=VALUE, such as project=posters")?;
        Ok(Self(key.to_owned(), value.to_owned()))
    }
}

impl FromStr for Seconds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const ADVICE: &str = "write a number with its unit, such as 90s, 30m, 12h or 7d";
        let unit = text.chars().last().ok_or(ADVICE)?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return Err(ADVICE),
        };
        let digits = &text[..text.len() - 1];
        let count: u64 = digits.parse().map_err(|_| ADVICE)?;
        count
            .checked_mul(seconds)
            .filter(|all| *all > 0)
            .map(Self)
            .ok_or(ADVICE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn spans_have_units() {
        assert_eq!("90s".parse(), Ok(Seconds(90)));
        assert_eq!("7d".parse(), Ok(Seconds(604_800)));
        for bad in ["", "5", "h", "-1s", "0s", "1w", "99999999999999999d"] {
            assert!(bad.parse::<Seconds>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_assignment_has_a_place_and_a_value() {
        let read: Assignment = "1.image=a=b.png".parse().expect("one");
        assert_eq!(
            (read.place.as_str(), read.value.as_str()),
            ("1.image", "a=b.png")
        );
        for bad in ["", "1.image", "image=a.png", "=x"] {
            assert!(bad.parse::<Assignment>().is_err(), "{bad}");
        }
    }
}
