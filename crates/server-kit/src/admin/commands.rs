//! The commands: what is written on the command line, what is asked for it, and what is printed.
//!
//! Standard output has what was asked for and nothing else: a new key stands there alone, so that it can be caught. Lists
//! are tables, or with `--json` the bodies of the wire.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use accounts::{MintedKey, Scopes, Tier};
use clap::{Arg, ArgMatches, Command};
use installation::InstallationStore;
use secrecy::ExposeSecret;
use serde::Serialize;
use uuid::Uuid;

use super::client::Client;
use super::fields::{self, LIMITS, SWITCHES};
use super::wire::{AccountBody, Answer, Problem, Request};
use super::{Unopened, show, token, workers};
use crate::config::{ConfigError, Duration, Settings, Value};
use crate::listing::{self, json_flag};
use crate::opening::{self, Keeps};
use crate::program::{self, Failure};

/// How often another key is tried where one of its id is there already.
const TRIES: usize = 4;

/// The subcommands `account`, `key`, `token`, `sweep` and, for installations that keep assets, `asset`.
#[must_use]
pub fn commands(assets: bool) -> Vec<Command> {
    let mut commands = vec![account(), key(), token::command(), sweep()];
    if assets {
        commands.push(workers::command());
        commands.push(asset());
    }
    commands
}

/// Whether a subcommand is one of these.
#[must_use]
pub fn is_command(name: &str) -> bool {
    commands(true)
        .iter()
        .any(|command| command.get_name() == name)
}

/// Carries out a subcommand. Where no server has the installation, it is opened: `store` is where it is, and `tier` reads what
/// an account gets that is given nothing else.
///
/// # Errors
/// With exit code 2 for what can be corrected on the command line, and 1 for everything else.
pub fn run(
    matches: &ArgMatches,
    mut settings: Settings,
    keeps: Keeps,
    store: impl FnOnce(&Path) -> Arc<dyn InstallationStore>,
    tier: impl Fn(&mut Settings) -> Result<Tier, ConfigError>,
) -> Result<(), Failure> {
    let data_dir: PathBuf = settings.read("data_dir")?;
    let store = store(&data_dir);
    let runtime = program::runtime()?;
    let words = words(matches);
    let creates = matches!(words.0.as_slice(), ["account", "add"]);
    if !creates && !runtime.block_on(store.exists()) {
        let message = format!(
            "there is no installation in {}; name its directory with --data-dir, or add the first account with `account add`",
            data_dir.display()
        );
        return Err(Failure {
            exit_code: 2,
            message,
        });
    }
    let signing = match words.0.as_slice() {
        ["token", _] => Some(token::signing(&mut settings)?),
        _ => None,
    };
    let mut client = Client {
        data_dir,
        open: &mut || {
            let (tier, store) = (tier(&mut settings), store.clone());
            Box::pin(async move {
                let tier = tier.map_err(|error| Unopened::Failed(error.into()))?;
                opening::open_for_admin(&*store, tier, keeps).await
            })
        },
        ports: None,
    };
    let (words, arguments) = words;
    runtime.block_on(async {
        match signing {
            Some(config) => token::issue(&mut client, arguments, &config).await,
            None => perform(&words, arguments, &mut client).await,
        }
    })
}

async fn perform(
    words: &[&str],
    arguments: &ArgMatches,
    client: &mut Client<'_>,
) -> Result<(), Failure> {
    let text = |name: &str| arguments.get_one::<String>(name).cloned();
    let id = || text("id").expect("the command requires it");
    match words {
        ["account", "add"] => {
            let mut changes = changes(arguments, true)?;
            changes.extend(text("name").map(|name| ("name".to_owned(), name)));
            done(client, Request::AddAccount { id: id(), changes }).await?;
            say(&format!(
                "account {0} added; `key add {0}` makes a key for it",
                id()
            ));
        }
        ["account", "list"] => {
            let all = all_accounts(client).await?;
            list(arguments, &all, |all| show::accounts(all));
        }
        ["account", "show"] => {
            let accounts = accounts(client, Request::Account { id: id() }).await?;
            for account in &accounts {
                list(arguments, account, show::account);
            }
        }
        ["account", "tier"] => {
            let changes = changes(arguments, false)?;
            done(client, Request::ChangeAccount { id: id(), changes }).await?;
            say(&format!("account {} changed", id()));
        }
        ["account", "credit"] => match arguments.get_one::<i32>("cents") {
            Some(cents) => grant(client, id(), *cents).await?,
            None => {
                let answer = ask(client, Request::Entries { account: id() }).await?;
                if let Answer::Entries(entries) = answer {
                    list(arguments, &entries, |entries| show::entries(entries));
                }
            }
        },
        ["account", "rename"] => {
            let name = text("name").expect("the command requires it");
            change(client, id(), "name", &name).await?;
        }
        ["account", "suspend"] => change(client, id(), "state", "suspended").await?,
        ["account", "resume"] => change(client, id(), "state", "active").await?,
        ["account", switch] => {
            let value = text("value").expect("the command requires it");
            change(client, id(), switch, &value).await?;
        }
        ["key", "add"] => add_key(client, arguments).await?,
        ["key", "list"] => {
            let answer = ask(client, Request::Keys { account: id() }).await?;
            if let Answer::Keys(keys) = answer {
                list(arguments, &keys, |keys| show::keys(keys));
            }
        }
        ["key", "revoke"] => {
            let answer = ask(client, Request::RevokeKey { id: id() }).await?;
            if let Answer::Keys(keys) = answer {
                let account = keys.first().map_or("", |key| &key.account);
                say(&format!("key {} of {account} is revoked", id()));
            }
        }
        ["worker", word] => workers::run(word, arguments, client).await?,
        ["sweep", "confirm"] => {
            done(client, Request::ConfirmSweeps).await?;
            say(
                "the next sweep deletes what is past its time or unused, whatever the clock says and however much it is",
            );
        }
        ["asset", "hold", word] => {
            let held = *word == "add";
            done(client, Request::HoldAsset { id: id(), held }).await?;
            let state = if held {
                "is kept"
            } else {
                "is not kept any longer"
            };
            say(&format!("asset {} {state}", id()));
        }
        _ => unreachable!("clap lets no other command through"),
    }
    Ok(())
}

async fn all_accounts(client: &mut Client<'_>) -> Result<Vec<AccountBody>, Failure> {
    let mut all: Vec<AccountBody> = Vec::new();
    loop {
        let after = all.last().map(|account| account.id.clone());
        let page = accounts(client, Request::Accounts { after }).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// Prints what was asked for, as JSON where that was wanted.
fn list<T: Serialize>(arguments: &ArgMatches, found: &T, shown: impl FnOnce(&T) -> String) {
    program::print(&match listing::wants_json(arguments) {
        true => listing::json(found),
        false => shown(found),
    });
}

async fn grant(client: &mut Client<'_>, account: String, cents: i32) -> Result<(), Failure> {
    let request = Request::Grant {
        account: account.clone(),
        cause: Uuid::new_v4().to_string(),
        cents,
    };
    if let Answer::Credits { balance_cents } = ask(client, request).await? {
        let balance = show::money(balance_cents);
        say(&format!("account {account} has {balance} now"));
    }
    Ok(())
}

async fn change(
    client: &mut Client<'_>,
    id: String,
    name: &str,
    value: &str,
) -> Result<(), Failure> {
    let said = format!("account {id}: {name} is {value}");
    let changes = vec![checked(name, value)?];
    done(client, Request::ChangeAccount { id, changes }).await?;
    say(&said);
    Ok(())
}

/// Makes a key here: its text is printed, and nobody else ever has it.
async fn add_key(client: &mut Client<'_>, arguments: &ArgMatches) -> Result<(), Failure> {
    let text = |name: &str| arguments.get_one::<String>(name).cloned();
    let account = text("id").expect("the command requires it");
    let scopes = scopes(arguments)?;
    let expires_in_s = arguments.get_one::<u32>("expires").copied();
    for _ in 0..TRIES {
        let mut random = [0; MintedKey::RANDOM_BYTES];
        getrandom::fill(&mut random).map_err(|error| Failure::fault(&error))?;
        let minted = MintedKey::new(&random);
        let request = Request::AddKey {
            account: account.clone(),
            id: minted.id.to_string(),
            hash: *minted.hash().as_bytes(),
            name: text("name"),
            scopes: scopes.to_string(),
            expires_in_s,
        };
        match client.ask(request).await? {
            Ok(_) => {
                say(&format!(
                    "key {} of {account} added; it is shown this once",
                    minted.id
                ));
                program::print(&format!("{}\n", minted.text.expose_secret()));
                return Ok(());
            }
            Err(Problem { taken: true, .. }) => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    Err(Failure {
        exit_code: 1,
        message: "no free id for a key was found; run the command again".to_owned(),
    })
}

async fn ask(client: &mut Client<'_>, request: Request) -> Result<Answer, Failure> {
    Ok(client.ask(request).await??)
}

async fn done(client: &mut Client<'_>, request: Request) -> Result<(), Failure> {
    ask(client, request).await.map(drop)
}

async fn accounts(client: &mut Client<'_>, request: Request) -> Result<Vec<AccountBody>, Failure> {
    match ask(client, request).await? {
        Answer::Accounts(accounts) => Ok(accounts),
        Answer::Done
        | Answer::Entries(_)
        | Answer::Keys(_)
        | Answer::Credits { .. }
        | Answer::Workers(_) => Ok(Vec::new()),
    }
}

/// The flags that were given.
fn changes(arguments: &ArgMatches, switches: bool) -> Result<Vec<(String, String)>, Failure> {
    let limits = LIMITS.iter().map(|limit| limit.name);
    let switches = SWITCHES
        .iter()
        .map(|switch| switch.name)
        .filter(|_| switches);
    let given = limits.chain(switches).filter_map(|name| {
        let text = arguments.get_one::<String>(name)?;
        Some(checked(name, text))
    });
    given.collect()
}

/// Checked before anybody is asked, so that a slip costs nothing.
fn checked(name: &str, text: &str) -> Result<(String, String), Failure> {
    match fields::read(name, text) {
        Ok(_) => Ok((name.to_owned(), text.to_owned())),
        Err(message) => Err(Failure {
            exit_code: 2,
            message,
        }),
    }
}

/// The words of a subcommand, and the arguments behind the last.
fn words(matches: &ArgMatches) -> (Vec<&str>, &ArgMatches) {
    let (mut words, mut innermost) = (Vec::new(), matches);
    while let Some((word, deeper)) = innermost.subcommand() {
        words.push(word);
        innermost = deeper;
    }
    (words, innermost)
}

/// What happened, for the person at the terminal.
pub(super) fn say(text: &str) {
    use std::io::Write;
    let said = writeln!(std::io::stderr().lock(), "{text}");
    // Without a standard error there is nobody left to tell.
    drop(said);
}

fn account() -> Command {
    let add = Command::new("add")
        .about("Adds an account: active, subscribed, with the router, without billing")
        .arg(id())
        .arg(flag(
            "name",
            "NAME",
            "What people call it; its id by default",
        ))
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
    group("account", "Looks at accounts and changes them")
        .subcommand(add)
        .subcommand(
            Command::new("list")
                .about("Lists all accounts")
                .arg(json_flag()),
        )
        .subcommand(of_account("show", "Shows everything of an account").arg(json_flag()))
        .subcommand(tier)
        .subcommand(credit)
        .subcommand(rename)
        .subcommand(of_account(
            "suspend",
            "Lets no credential of an account count any more; what runs ends by itself",
        ))
        .subcommand(of_account("resume", "Lets them count again"))
        .subcommands(switches)
}

fn key() -> Command {
    let scopes = format!("What it allows, separated by commas, of: {}", Scopes::all());
    let add = Command::new("add")
        .about("Makes an API key for an account and prints it, this once")
        .arg(id())
        .arg(flag("name", "NAME", "What people call it"))
        .arg(flag("scopes", "SCOPES", "").help(format!("{scopes}; by default all but admin")))
        .arg(
            flag(
                "expires",
                "TIME",
                "When it stops counting, from now on; never by default",
            )
            .value_parser(seconds),
        );
    let revoke = Command::new("revoke")
        .about("Lets a key count no more")
        .arg(
            id().value_name("KEY")
                .help("The 8 characters behind `easel_` in it, as `key list` shows them"),
        );
    group("key", "Makes, lists and revokes API keys")
        .subcommand(add)
        .subcommand(of_account("list", "Lists the keys of an account").arg(json_flag()))
        .subcommand(revoke)
}

fn asset() -> Command {
    let word = |name: &'static str, about: &'static str| {
        let id = id().value_name("ASSET").help("The id of the asset");
        Command::new(name).about(about).arg(id)
    };
    let hold = group("hold", "Keeps assets from being deleted and swept")
        .subcommand(word("add", "Keeps an asset until the hold is removed"))
        .subcommand(word("remove", "Lets an asset be deleted and expire again"));
    group("asset", "Keeps assets").subcommand(hold)
}

fn sweep() -> Command {
    let confirm = Command::new("confirm").about(
        "Lets the next sweep delete after the clock jumped or rows seem to be lost; see /ready",
    );
    group("sweep", "Deletes what is past its time").subcommand(confirm)
}

/// What a new credential may be used for.
pub(super) fn scopes(arguments: &ArgMatches) -> Result<Scopes, Failure> {
    let given = arguments.get_one::<String>("scopes");
    given.map_or(Ok(Scopes::standard()), |text| {
        text.parse().map_err(|error| Failure::usage(&error))
    })
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
