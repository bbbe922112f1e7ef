//! The command line of operators: subcommands, flags and their help.

use accounts::Scopes;
use clap::{Arg, Command};
use uuid::Uuid;

use super::fields::{LIMITS, SWITCHES};
use crate::config::{Duration, Value};
use crate::listing::json_flag;

pub(super) fn account() -> Command {
    let add = Command::new("add")
        .about("Adds an account: active, subscribed, with the router, without billing")
        .arg(id())
        .arg(flag("name", "NAME", "A name for people; the id by default"))
        .args(SWITCHES.iter().map(|switch| on_off_flag(switch.name)))
        .args(limits());
    let tier = Command::new("tier")
        .about("Changes limits of an account; `default` goes back to what everybody gets")
        .arg(id())
        .args(limits())
        .group(
            clap::ArgGroup::new("limits")
                .args(LIMITS.iter().map(|limit| limit.name))
                .required(true)
                .multiple(true),
        );
    let budget = Command::new("budget")
        .about("Bounds what router calls of one API key, or with one label, may cost, in addition to the budgets of the account")
        .arg(id())
        .arg(
            Arg::new("scope")
                .value_name("SCOPE")
                .required(true)
                .help("key:ID as `key list` shows it, or label:KEY=VALUE such as label:project=posters"),
        )
        .arg(
            Arg::new("budgets")
                .value_name("CENTS/WINDOW")
                .required(true)
                .help("US cents in an hour, day or month in UTC, such as 500/hour,30000/month; or none"),
        );
    let credit = Command::new("credit")
        .about("Grants credits, or shows the newest entries of the ledger")
        .arg(id())
        .arg(json_flag())
        .arg(
            Arg::new("cents")
                .value_name("CENTS")
                .allow_negative_numbers(true)
                .value_parser(clap::value_parser!(i32))
                .help("US cents to add; below 0 to take some back; without it the ledger is shown"),
        )
        .arg(
            flag(
                "reference",
                "UUID",
                "Names the grant: a repeat with it grants nothing more; a new one by default",
            )
            .requires("cents")
            .value_parser(clap::value_parser!(Uuid)),
        );
    let rename = Command::new("rename")
        .about("Gives an account another name; its id stays")
        .arg(id())
        .arg(Arg::new("name").value_name("NAME").required(true));
    let switches = SWITCHES.iter().map(|switch| {
        let value = Arg::new("value").value_name("on|off").required(true);
        Command::new(switch.name)
            .about(switch.help)
            .arg(id())
            .arg(value.value_parser(["on", "off"]))
    });
    group("account", "Shows and changes accounts")
        .subcommand(add)
        .subcommand(
            Command::new("list")
                .about("Lists all accounts")
                .arg(json_flag()),
        )
        .subcommand(of_account("show", "Shows everything of an account").arg(json_flag()))
        .subcommand(tier)
        .subcommand(budget)
        .subcommand(credit)
        .subcommand(rename)
        .subcommand(of_account(
            "suspend",
            "Refuses all credentials of an account; its running jobs and calls continue to their end",
        ))
        .subcommand(of_account("resume", "Accepts the credentials of a suspended account again"))
        .subcommands(switches)
}

pub(super) fn key() -> Command {
    let scopes = format!("The scopes, separated by commas, of: {}", Scopes::all());
    let add = Command::new("add")
        .about("Makes an API key for an account and prints it, this once")
        .arg(id())
        .arg(flag("name", "NAME", "A name for people"))
        .arg(flag("scopes", "SCOPES", "").help(format!("{scopes}; by default all but admin")))
        .arg(
            flag(
                "expires",
                "TIME",
                "How long the key is valid from now on; without end by default",
            )
            .value_parser(seconds),
        );
    let revoke = Command::new("revoke").about("Revokes a key").arg(
        id().value_name("KEY")
            .help("The 8 characters behind `easel_` in it, as `key list` shows them"),
    );
    group("key", "Makes, lists and revokes API keys")
        .subcommand(add)
        .subcommand(of_account("list", "Lists the keys of an account").arg(json_flag()))
        .subcommand(revoke)
}

pub(super) fn sweep() -> Command {
    let confirm = Command::new("confirm").about(
        "Lets the next sweep delete after the clock jumped or rows seem to be lost; see /ready",
    );
    group("sweep", "Deletes expired records and unused files").subcommand(confirm)
}

pub(super) fn group(name: &'static str, about: &'static str) -> Command {
    Command::new(name).about(about).subcommand_required(true)
}

fn of_account(name: &'static str, about: &'static str) -> Command {
    Command::new(name).about(about).arg(id())
}

fn id() -> Arg {
    Arg::new("id")
        .value_name("ACCOUNT")
        .required(true)
        .help("The id of the account")
}

fn limits() -> impl Iterator<Item = Arg> {
    LIMITS
        .iter()
        .map(|limit| flag(limit.name, limit.placeholder, limit.help))
}

fn on_off_flag(name: &'static str) -> Arg {
    flag(name, "on|off", "").help(format!("Whether {name} is on from the start"))
}

pub(super) fn flag(name: &'static str, placeholder: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(placeholder).help(help)
}

pub(super) fn seconds(text: &str) -> Result<u32, String> {
    let span = Duration::<1000>::read(text);
    let seconds = span.and_then(|span| u32::try_from(span.0.as_secs()).ok());
    seconds.ok_or_else(|| format!("write {}", Duration::<1000>::ALLOWED))
}
