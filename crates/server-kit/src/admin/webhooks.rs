//! The commands on webhooks. A secret is printed by the command that made it, alone on standard output.

use admin_http::wire::{
    Answer, DeliveryBody, Request, WebhookBody, WebhookRequest, WebhookSecretBody,
};
use clap::{Arg, ArgGroup, ArgMatches, Command};
use webhooks::EventKind;

use super::client::Client;
use super::commands::say;
use super::flags::{flag, group};
use crate::config::{Duration, Value};
use crate::listing::{self, json_flag, table};
use crate::program::{self, Failure};

/// Deliveries that are shown where nothing is said.
const DELIVERIES: u32 = 50;

/// The subcommand `webhook`.
pub(super) fn command() -> Command {
    let id = || {
        Arg::new("id")
            .value_name("WEBHOOK")
            .required(true)
            .help("The id of the webhook, as `webhook list` shows it")
    };
    let url = || {
        flag(
            "url",
            "URL",
            "Where events are sent, such as https://example.com/hooks",
        )
    };
    let kinds = EventKind::ALL.map(EventKind::name).join(", ");
    let events = || {
        flag("events", "EVENTS", "").help(format!(
            "The events that are sent to it, separated by commas, of: {kinds}"
        ))
    };
    let of_webhook =
        |word: &'static str, about: &'static str| Command::new(word).about(about).arg(id());
    let account = |required| {
        Arg::new("account")
            .value_name("ACCOUNT")
            .required(required)
            .help("The id of the account")
    };
    let add = Command::new("add")
        .about("Adds a webhook to an account and prints its secret, this once")
        .arg(account(true))
        .arg(url().required(true))
        .arg(events().required(true));
    let change = of_webhook("change", "Gives a webhook another address or other events")
        .arg(url())
        .arg(events())
        .group(
            ArgGroup::new("changes")
                .args(["url", "events"])
                .required(true)
                .multiple(true),
        );
    let rotate = of_webhook(
        "rotate",
        "Makes a new secret for a webhook and prints it, this once",
    )
    .arg(
        flag(
            "overlap",
            "TIME",
            "How long the previous secret also signs, 7d at most, 0s to end it at once; 24h by default",
        )
        .value_parser(overlap),
    );
    let deliveries = of_webhook("deliveries", "Lists the newest messages to a webhook")
        .arg(
            flag("limit", "N", "How many, 200 at most; 50 by default")
                .value_parser(clap::value_parser!(u32).range(1..=200)),
        )
        .arg(json_flag());
    group("webhook", "Shows and changes webhooks")
        .subcommand(add)
        .subcommand(
            Command::new("list")
                .about("Lists webhooks, of one account or of all")
                .arg(account(false))
                .arg(json_flag()),
        )
        .subcommand(of_webhook("show", "Shows everything of a webhook").arg(json_flag()))
        .subcommand(change)
        .subcommand(of_webhook(
            "disable",
            "Stops sending to a webhook; messages that wait for it are kept for 7 days",
        ))
        .subcommand(of_webhook(
            "enable",
            "Sends to a webhook again, first the messages that wait for it",
        ))
        .subcommand(of_webhook(
            "remove",
            "Removes a webhook and the messages that wait for it",
        ))
        .subcommand(rotate)
        .subcommand(of_webhook(
            "test",
            "Sends the event webhook.test to a webhook; `webhook deliveries` shows the outcome",
        ))
        .subcommand(deliveries)
}

/// Carries a command out.
pub(super) async fn run(
    word: &str,
    arguments: &ArgMatches,
    client: &mut Client<'_>,
) -> Result<(), Failure> {
    let text = |name: &str| {
        let text = arguments.try_get_one::<String>(name).ok().flatten();
        text.cloned()
    };
    let id = || text("id").unwrap_or_default();
    let change = |url, events, enabled| WebhookRequest::Change {
        id: id(),
        url,
        events,
        enabled,
    };
    match word {
        "list" => {
            let all = all(client, text("account")).await?;
            print(arguments, &all, || listed(&all));
        }
        "show" => {
            if let Answer::Webhook(webhook) = ask(client, WebhookRequest::Get { id: id() }).await? {
                print(arguments, &webhook, || shown(&webhook));
            }
        }
        "add" => {
            let account = text("account").unwrap_or_default();
            let request = WebhookRequest::Add {
                account: account.clone(),
                url: text("url").unwrap_or_default(),
                events: text("events").unwrap_or_default(),
            };
            if let Answer::WebhookSecret(body) = ask(client, request).await? {
                let id = &body.webhook.id;
                say(&format!(
                    "webhook {id} of {account} added; its secret is shown this once; `webhook test {id}` sends it a test"
                ));
                print_secret(&body);
            }
        }
        "rotate" => {
            let overlap_s = arguments.get_one::<u32>("overlap").copied();
            let request = WebhookRequest::Rotate {
                id: id(),
                overlap_s,
            };
            if let Answer::WebhookSecret(body) = ask(client, request).await? {
                let until = body.webhook.previous_secret_until.as_deref();
                say(&format!(
                    "webhook {} has a new secret, which is shown this once; the previous one also signs until {}",
                    id(),
                    until.unwrap_or("now")
                ));
                print_secret(&body);
            }
        }
        "change" => {
            ask(client, change(text("url"), text("events"), None)).await?;
            say(&format!("webhook {} changed", id()));
        }
        "enable" | "disable" => {
            ask(client, change(None, None, Some(word == "enable"))).await?;
            say(&format!("webhook {} is {word}d", id()));
        }
        "remove" => {
            ask(client, WebhookRequest::Remove { id: id() }).await?;
            say(&format!("webhook {} removed", id()));
        }
        "test" => {
            let answer = ask(client, WebhookRequest::Test { id: id() }).await?;
            if let Answer::Delivery(delivery) = answer {
                say(&format!(
                    "message {} is sent; `webhook deliveries {}` shows the outcome",
                    delivery.id,
                    id()
                ));
            }
        }
        _ => {
            let limit = arguments.get_one::<u32>("limit").copied();
            let request = WebhookRequest::Deliveries {
                id: id(),
                before: None,
                limit: Some(limit.unwrap_or(DELIVERIES)),
            };
            if let Answer::Deliveries(page) = ask(client, request).await? {
                print(arguments, &page.deliveries, || deliveries(&page.deliveries));
            }
        }
    }
    Ok(())
}

/// A span that may be none, so that a secret that leaked ends at once.
fn overlap(text: &str) -> Result<u32, String> {
    let span = Duration::<0>::read(text);
    let seconds = span.and_then(|span| u32::try_from(span.0.as_secs()).ok());
    seconds.ok_or_else(|| format!("write {}", Duration::<0>::ALLOWED))
}

async fn ask(client: &mut Client<'_>, request: WebhookRequest) -> Result<Answer, Failure> {
    Ok(client.ask(Request::Webhook(request)).await??)
}

fn print<T: serde::Serialize>(arguments: &ArgMatches, found: &T, shown: impl FnOnce() -> String) {
    program::print(&match listing::wants_json(arguments) {
        true => listing::json(found),
        false => shown(),
    });
}

fn print_secret(body: &WebhookSecretBody) {
    program::print(&format!("{}\n", body.secret.0));
}

/// All webhooks, page by page.
async fn all(
    client: &mut Client<'_>,
    account: Option<String>,
) -> Result<Vec<WebhookBody>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let request = WebhookRequest::List {
            account: account.clone(),
            after,
            limit: Some(200),
        };
        let Answer::Webhooks(page) = ask(client, request).await? else {
            return Ok(all);
        };
        all.extend(page.webhooks);
        after = page.next_cursor;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// In a word or two, how a webhook is.
fn state(webhook: &WebhookBody) -> String {
    match (&webhook.disabled_reason, &webhook.failing_since) {
        (Some(reason), _) => format!("disabled ({reason})"),
        (None, Some(_)) => "failing".to_owned(),
        (None, None) => webhook.state.clone(),
    }
}

fn listed(webhooks: &[WebhookBody]) -> String {
    let rows = webhooks.iter().map(|webhook| {
        vec![
            webhook.id.clone(),
            webhook.account.clone(),
            state(webhook),
            webhook.events.join(","),
            webhook.url.clone(),
        ]
    });
    table(&["ID", "ACCOUNT", "STATE", "EVENTS", "URL"], rows)
}

fn shown(webhook: &WebhookBody) -> String {
    let or = |time: &Option<String>, word: &str| time.clone().unwrap_or_else(|| word.to_owned());
    let fields = [
        ("id", webhook.id.clone()),
        ("account", webhook.account.clone()),
        ("url", webhook.url.clone()),
        ("events", webhook.events.join(",")),
        ("state", state(webhook)),
        ("disabled since", or(&webhook.disabled_at, "-")),
        ("failures", webhook.failures.to_string()),
        ("failing since", or(&webhook.failing_since, "-")),
        ("paused until", or(&webhook.paused_until, "-")),
        ("second secret", or(&webhook.previous_secret_until, "none")),
        ("created", webhook.created_at.clone()),
    ];
    let lines = fields
        .iter()
        .map(|(name, value)| format!("{name:<17}{value}\n"));
    lines.collect()
}

fn deliveries(deliveries: &[DeliveryBody]) -> String {
    let rows = deliveries.iter().map(|delivery| {
        let status = delivery.status.map(|status| status.to_string());
        vec![
            delivery.created_at.clone(),
            delivery.event.clone(),
            delivery.state.clone(),
            delivery.attempts.to_string(),
            status.unwrap_or_else(|| "-".to_owned()),
            delivery.id.clone(),
            delivery.error.clone().unwrap_or_default(),
        ]
    });
    table(
        &[
            "TIME", "EVENT", "STATE", "ATTEMPTS", "STATUS", "MESSAGE", "ERROR",
        ],
        rows,
    )
}
