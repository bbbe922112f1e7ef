//! The commands: what is written on the command line, what is asked for it, and what is printed.
//!
//! Standard output has what was asked for and nothing else: a new key stands there alone, so that it can be caught. Lists
//! are tables, or with `--json` the bodies of the wire.

use std::sync::Arc;

use accounts::{MintedKey, Scopes, Tier};
use admin_http::wire::{AccountBody, Answer, KeyBody, Problem, ProblemKind, Request};
use clap::{ArgMatches, Command};
use installation::InstallationStore;
use secrecy::ExposeSecret;
use serde::Serialize;
use uuid::Uuid;

use super::client::Client;
use super::fields::{self, LIMITS, SWITCHES};
use super::remote::{self, Remote};
use super::{
    Unopened, assets, catalog, deployments, flags, jobs, models, show, token, webhooks, workers,
};
use crate::config::{ConfigError, InstallationPlace, PlaceError, Settings};
use crate::listing;
use crate::opening::{self, Keeps};
use crate::program::{self, Failure};

/// How often another key is tried where one of its id is there already.
const TRIES: usize = 4;

/// The subcommands `account`, `key`, `token`, `sweep` and, for installations that keep assets, `asset`.
#[must_use]
pub fn commands(assets: bool) -> Vec<Command> {
    let mut commands = vec![
        flags::account(),
        flags::key(),
        token::command(),
        flags::sweep(),
        webhooks::command(),
    ];
    if assets {
        commands.push(workers::command());
        commands.push(jobs::command());
        commands.push(deployments::command());
        commands.push(assets::command());
    }
    let anywhere = |command: Command| command.args(remote::flags());
    commands.into_iter().map(anywhere).collect()
}

/// Whether a command line is one of these, one of `catalog_commands`, or `model_command`.
#[must_use]
pub fn is_command(matches: &ArgMatches) -> bool {
    match words(matches).0.as_slice() {
        [] => false,
        ["catalog", word, ..] => catalog::WORDS.contains(word),
        [models::NAME, ..] => true,
        [name, ..] => commands(true)
            .iter()
            .any(|command| command.get_name() == *name),
    }
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
    store: impl FnOnce(&InstallationPlace) -> Result<Arc<dyn InstallationStore>, PlaceError>,
    tier: impl Fn(&mut Settings) -> Result<Tier, ConfigError>,
) -> Result<(), Failure> {
    let place = InstallationPlace::read(&mut settings)?;
    let store = store(&place)?;
    let runtime = program::runtime()?;
    let words = words(matches);
    let remote = Remote::of(words.1)?;
    let creates = matches!(words.0.as_slice(), ["account", "add"]);
    if remote.is_none() && !creates && !runtime.block_on(store.exists()) {
        let message = format!(
            "there is no installation in {}; name its directory with --data-dir or a server with --server, or add the first \
             account with `account add`",
            store.location()
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
        data_dir: place.data_dir,
        open: &mut || {
            let (tier, store) = (tier(&mut settings), store.clone());
            Box::pin(async move {
                let tier = tier.map_err(|error| Unopened::Failed(error.into()))?;
                opening::open_for_admin(&*store, tier, keeps).await
            })
        },
        ports: None,
        remote,
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
            let answer = ask(client, Request::Account { id: id() }).await?;
            if let Answer::Account(account) = answer {
                list(arguments, &account, show::account);
            }
        }
        ["account", "tier"] => {
            let changes = changes(arguments, false)?;
            done(client, Request::ChangeAccount { id: id(), changes }).await?;
            say(&format!("account {} changed", id()));
        }
        ["account", "budget"] => {
            let (scope, budgets) = (text("scope"), text("budgets"));
            let (scope, budgets) = scope.zip(budgets).expect("the command requires them");
            let line = format!("{budgets} {scope}");
            let changes = vec![checked(fields::SCOPED_BUDGETS, &line)?];
            done(client, Request::ChangeAccount { id: id(), changes }).await?;
            say(&format!(
                "account {}: the budget of {scope} is {budgets}",
                id()
            ));
        }
        ["account", "credit"] => match arguments.get_one::<i32>("cents") {
            Some(cents) => grant(client, arguments, id(), *cents).await?,
            None => {
                let request = Request::Entries {
                    account: id(),
                    before: None,
                    limit: None,
                };
                if let Answer::Entries(page) = ask(client, request).await? {
                    list(arguments, &page.entries, |entries| show::entries(entries));
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
            let all = all_keys(client, &id()).await?;
            list(arguments, &all, |all| show::keys(all));
        }
        ["key", "revoke"] => {
            let answer = ask(client, Request::RevokeKey { id: id() }).await?;
            if let Answer::Key(key) = answer {
                say(&format!("key {} of {} is revoked", key.id, key.account));
            }
        }
        ["catalog", word] => catalog::run(word, arguments, client).await?,
        ["webhook", word] => webhooks::run(word, arguments, client).await?,
        ["worker", word] => workers::run(word, arguments, client).await?,
        ["deployment", word] => deployments::run(word, arguments, client).await?,
        [models::NAME, word] => models::run(word, arguments, client).await?,
        ["job", "explain"] => jobs::explain(arguments, client).await?,
        ["sweep", "confirm"] => {
            done(client, Request::ConfirmSweeps).await?;
            say(
                "the next sweep deletes everything that is expired or unused, even if the clock jumped or most files would go",
            );
        }
        ["asset", rest @ ..] => assets::run(rest, arguments, client).await?,
        _ => unreachable!("clap lets no other command through"),
    }
    Ok(())
}

/// Most rows that are asked for at once.
const ROWS: Option<u32> = Some(200);

async fn all_accounts(client: &mut Client<'_>) -> Result<Vec<AccountBody>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let limit = ROWS;
        let Answer::Accounts(page) = ask(client, Request::Accounts { after, limit }).await? else {
            return Ok(all);
        };
        all.extend(page.accounts);
        after = page.next_cursor;
        if after.is_none() {
            return Ok(all);
        }
    }
}

async fn all_keys(client: &mut Client<'_>, account: &str) -> Result<Vec<KeyBody>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let request = Request::Keys {
            account: account.to_owned(),
            after,
            limit: ROWS,
        };
        let Answer::Keys(page) = ask(client, request).await? else {
            return Ok(all);
        };
        all.extend(page.keys);
        after = page.next_cursor;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// Prints what was asked for, as JSON where that was wanted.
fn list<T: Serialize>(arguments: &ArgMatches, found: &T, shown: impl FnOnce(&T) -> String) {
    program::print(&match listing::wants_json(arguments) {
        true => listing::json(found),
        false => shown(found),
    });
}

async fn grant(
    client: &mut Client<'_>,
    arguments: &ArgMatches,
    account: String,
    cents: i32,
) -> Result<(), Failure> {
    let given = arguments.get_one::<Uuid>("reference").copied();
    let reference = given.unwrap_or_else(Uuid::new_v4);
    let request = Request::Grant {
        account: account.clone(),
        reference: reference.to_string(),
        cents,
    };
    let asked = client.ask(request).await.map_err(|failure| Failure {
        message: format!(
            "{}; repeat it with `--reference {reference}`, which grants once",
            failure.message
        ),
        ..failure
    });
    if let Answer::Credits(credits) = asked?? {
        let balance = show::money(credits.balance_cents);
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
            Err(Problem {
                kind: ProblemKind::Taken,
                ..
            }) => {}
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

pub(super) async fn done(client: &mut Client<'_>, request: Request) -> Result<(), Failure> {
    ask(client, request).await.map(drop)
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

/// What a new credential may be used for.
pub(super) fn scopes(arguments: &ArgMatches) -> Result<Scopes, Failure> {
    let given = arguments.get_one::<String>("scopes");
    given.map_or(Ok(Scopes::standard()), |text| {
        text.parse().map_err(|error| Failure::usage(&error))
    })
}
