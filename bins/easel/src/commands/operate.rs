//! `accounts`, `keys`, `webhooks` and `usage`: what operators do, with a key that has the scope `admin`, and what calls cost.

use client::{Client, Method, UsageFilter};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::arguments::{Accounts, Keys, Shared, Usage, Webhooks};
use crate::failure::Failure;
use crate::{terminal, text};

/// Most rows of a list.
const MOST: usize = 10_000;

/// `easel accounts`.
pub(crate) async fn accounts(
    shared: &Shared,
    client: &Client,
    asked: &Accounts,
) -> Result<(), Failure> {
    if let Some(id) = &asked.account {
        let account = client.admin(&["accounts", id]).await?;
        if shared.json {
            return terminal::print(&text::json(&account));
        }
        let mut pairs = vec![
            ("id", plain(&account["id"])),
            ("name", plain(&account["name"])),
            ("state", state(&account).to_owned()),
            ("balance", money(&account["balance_cents"])),
            ("held", money(&account["held_cents"])),
            ("created", plain(&account["created_at"])),
        ];
        let left = |budget: &Value| {
            let (left, limit) = (money(&budget["left_cents"]), money(&budget["limit_cents"]));
            format!(
                "{left} of {limit} is left this {}",
                plain(&budget["window"])
            )
        };
        for budget in items(&account["budgets"]) {
            pairs.push(("budget", left(budget)));
        }
        for scoped in items(&account["scoped_budgets"]) {
            let scope = plain(&scoped["scope"]);
            for budget in items(&scoped["budgets"]) {
                pairs.push(("budget", format!("{scope}: {}", left(budget))));
            }
        }
        return terminal::print(&text::pairs(&pairs));
    }
    let all = client.admin_rows(&["accounts"], "accounts", MOST).await?;
    if shared.json {
        return terminal::print(&text::json(&json!(all)));
    }
    let rows = all.iter().map(|account| {
        vec![
            plain(&account["id"]),
            state(account).to_owned(),
            money(&account["balance_cents"]),
            plain(&account["created_at"]),
            plain(&account["name"]),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    terminal::print(&text::table(
        &["ID", "STATE", "BALANCE", "CREATED", "NAME"],
        &rows,
    ))
}

fn state(account: &Value) -> &'static str {
    match account["suspended"].as_bool() {
        Some(true) => "suspended",
        Some(false) | None => "active",
    }
}

/// `easel keys`.
pub(crate) async fn keys(shared: &Shared, client: &Client, asked: Keys) -> Result<(), Failure> {
    match asked {
        Keys::List { account } => {
            let path = ["accounts", &account, "keys"];
            let all = client.admin_rows(&path, "keys", MOST).await?;
            if shared.json {
                return terminal::print(&text::json(&json!(all)));
            }
            let rows = all.iter().map(|key| {
                let names = ["id", "state", "created_at", "scopes", "name"];
                names.map(|name| plain(&key[name])).to_vec()
            });
            let rows: Vec<Vec<String>> = rows.collect();
            terminal::print(&text::table(
                &["ID", "STATE", "CREATED", "SCOPES", "NAME"],
                &rows,
            ))
        }
        Keys::Add {
            account,
            name,
            scopes,
            expires,
        } => {
            let mut body = Map::new();
            body.extend(name.map(|name| ("name".to_owned(), json!(name))));
            if !scopes.is_empty() {
                body.insert("scopes".to_owned(), json!(scopes));
            }
            body.extend(expires.map(|expires| ("expires_in_s".to_owned(), json!(expires.0))));
            let path = ["accounts", &account, "keys"];
            let added = client
                .admin_change(Method::POST, &path, Some(&body))
                .await?;
            told_once(shared, &added, "key", "key")
        }
        Keys::Revoke { key } => {
            let path = ["keys", &key, "revoke"];
            let revoked = client.admin_change(Method::POST, &path, None).await?;
            changed(shared, &revoked, &format!("key {key} is revoked"))
        }
    }
}

/// `easel webhooks`.
pub(crate) async fn webhooks(
    shared: &Shared,
    client: &Client,
    asked: Webhooks,
) -> Result<(), Failure> {
    let change = async |id: &str, body: Map<String, Value>| {
        let path = ["webhooks", id];
        client.admin_change(Method::PATCH, &path, Some(&body)).await
    };
    let enabled = |is| Map::from_iter([("enabled".to_owned(), json!(is))]);
    match asked {
        Webhooks::List { account } => {
            let path = match &account {
                Some(account) => vec!["accounts", account, "webhooks"],
                None => vec!["webhooks"],
            };
            let all = client.admin_rows(&path, "webhooks", MOST).await?;
            if shared.json {
                return terminal::print(&text::json(&json!(all)));
            }
            let rows = all.iter().map(|webhook| {
                vec![
                    plain(&webhook["id"]),
                    plain(&webhook["account"]),
                    health(webhook),
                    events(webhook),
                    plain(&webhook["url"]),
                ]
            });
            let rows: Vec<Vec<String>> = rows.collect();
            terminal::print(&text::table(
                &["ID", "ACCOUNT", "STATE", "EVENTS", "URL"],
                &rows,
            ))
        }
        Webhooks::Show { webhook } => {
            let found = client.admin(&["webhooks", &webhook]).await?;
            if shared.json {
                return terminal::print(&text::json(&found));
            }
            let pairs = [
                ("id", plain(&found["id"])),
                ("account", plain(&found["account"])),
                ("url", plain(&found["url"])),
                ("events", events(&found)),
                ("state", health(&found)),
                ("failing since", plain(&found["failing_since"])),
                ("paused until", plain(&found["paused_until"])),
                ("second secret", plain(&found["previous_secret_until"])),
                ("created", plain(&found["created_at"])),
            ];
            terminal::print(&text::pairs(&pairs))
        }
        Webhooks::Add {
            account,
            url,
            events,
        } => {
            let body = Map::from_iter([
                ("url".to_owned(), json!(url)),
                ("events".to_owned(), json!(events)),
            ]);
            let path = ["accounts", &account, "webhooks"];
            let added = client
                .admin_change(Method::POST, &path, Some(&body))
                .await?;
            told_once(shared, &added, "webhook", "secret")
        }
        Webhooks::Change {
            webhook,
            url,
            events,
        } => {
            let mut body = Map::new();
            body.extend(url.map(|url| ("url".to_owned(), json!(url))));
            if !events.is_empty() {
                body.insert("events".to_owned(), json!(events));
            }
            if body.is_empty() {
                return Err(Failure::usage("name what to change with --url or --events"));
            }
            let done = change(&webhook, body).await?;
            changed(shared, &done, &format!("webhook {webhook} is changed"))
        }
        Webhooks::Enable { webhook } => {
            let done = change(&webhook, enabled(true)).await?;
            changed(shared, &done, &format!("webhook {webhook} is enabled"))
        }
        Webhooks::Disable { webhook } => {
            let done = change(&webhook, enabled(false)).await?;
            changed(shared, &done, &format!("webhook {webhook} is disabled"))
        }
        Webhooks::Remove { webhook } => {
            let path = ["webhooks", &webhook];
            client.admin_change(Method::DELETE, &path, None).await?;
            changed(
                shared,
                &json!({ "removed": webhook }),
                &format!("webhook {webhook} is removed"),
            )
        }
        Webhooks::Rotate { webhook, overlap } => {
            let mut body = Map::new();
            body.extend(overlap.map(|overlap| ("overlap_s".to_owned(), json!(overlap.0))));
            let path = ["webhooks", &webhook, "rotate"];
            let rotated = client
                .admin_change(Method::POST, &path, Some(&body))
                .await?;
            told_once(shared, &rotated, "webhook", "secret")
        }
        Webhooks::Test { webhook } => {
            let path = ["webhooks", &webhook, "test"];
            let sent = client.admin_change(Method::POST, &path, None).await?;
            let message = plain(&sent["id"]);
            changed(
                shared,
                &sent,
                &format!(
                    "message {message} is sent; `easel webhooks deliveries {webhook}` shows what came of it"
                ),
            )
        }
        Webhooks::Deliveries { webhook, limit } => {
            let most = usize::try_from(limit).unwrap_or(MOST);
            let path = ["webhooks", &webhook, "deliveries"];
            let all = client.admin_rows(&path, "deliveries", most).await?;
            if shared.json {
                return terminal::print(&text::json(&json!(all)));
            }
            let rows = all.iter().map(|delivery| {
                let names = [
                    "created_at",
                    "event",
                    "state",
                    "attempts",
                    "status",
                    "id",
                    "error",
                ];
                names.map(|name| plain(&delivery[name])).to_vec()
            });
            let heading = [
                "TIME", "EVENT", "STATE", "ATTEMPTS", "STATUS", "MESSAGE", "ERROR",
            ];
            let rows: Vec<Vec<String>> = rows.collect();
            terminal::print(&text::table(&heading, &rows))
        }
    }
}

fn events(webhook: &Value) -> String {
    let names = items(&webhook["events"]).map(plain);
    names.collect::<Vec<_>>().join(",")
}

/// How a webhook does, in a word or two.
fn health(webhook: &Value) -> String {
    match (&webhook["disabled_reason"], &webhook["failing_since"]) {
        (Value::String(reason), _) => format!("disabled ({reason})"),
        (_, Value::String(_)) => "failing".to_owned(),
        (_, _) => plain(&webhook["state"]),
    }
}

/// `easel usage`.
pub(crate) async fn usage(shared: &Shared, client: &Client, asked: Usage) -> Result<(), Failure> {
    let from = match (asked.from, asked.days) {
        (Some(from), _) => Some(from),
        (None, days) => {
            let span = SignedDuration::from_hours(24 * i64::from(days));
            let from = Timestamp::now().checked_sub(span);
            from.ok()
                .map(|from| from.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        }
    };
    let filter = UsageFilter {
        by: Some(asked.by.clone()),
        label: asked.label.clone(),
        from,
        until: asked.until,
        workspace: asked.account,
    };
    let usage = client.usage(&filter).await?;
    if shared.json {
        return terminal::print(&text::json(&usage));
    }
    // A report by model has the model in a column already.
    let columns: [(&str, &str, bool); 7] = [
        ("DAY", "day", asked.by == "day"),
        ("ACCOUNT", "workspace", true),
        ("MODEL", "model", true),
        ("LABEL", "label", asked.label.is_some()),
        ("CALLS", "calls", true),
        ("RESULTS", "succeeded", true),
        ("SPEND", "charge_cents", true),
    ];
    let columns = columns.iter().filter(|(_, _, is_shown)| *is_shown);
    let rows = items(&usage["data"]).map(|row| {
        let cells = columns.clone().map(|(_, name, _)| match *name {
            "charge_cents" => money(&row[*name]),
            name => plain(&row[name]),
        });
        cells.collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let heading: Vec<&str> = columns.map(|(heading, _, _)| *heading).collect();
    terminal::print(&text::table(&heading, &rows))
}

/// Prints what the server tells this once, alone on standard output.
fn told_once(shared: &Shared, answer: &Value, what: &str, secret: &str) -> Result<(), Failure> {
    if shared.json {
        return terminal::print(&text::json(answer));
    }
    if !shared.quiet {
        let id = plain(&answer["id"]);
        terminal::say(&text::clean(
            &format!("{what} {id}: its {secret} is shown this once"),
            false,
        ));
    }
    terminal::print(&format!("{}\n", plain(&answer[secret])))
}

fn changed(shared: &Shared, answer: &Value, said: &str) -> Result<(), Failure> {
    if shared.json {
        return terminal::print(&text::json(answer));
    }
    if !shared.quiet {
        terminal::say(&text::clean(said, false));
    }
    Ok(())
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A value in a table; what is not there is a dash.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => text::plain(value),
    }
}

/// Cents as dollars.
fn money(cents: &Value) -> String {
    let Some(cents) = cents.as_i64() else {
        return "-".to_owned();
    };
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}${}.{:02}", cents / 100, cents % 100)
}
