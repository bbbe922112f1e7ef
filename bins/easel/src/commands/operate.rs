//! `accounts`, `keys` and `usage`: what operators do, with a key that has the scope `admin`, and what calls cost.

use client::{Client, Method, UsageFilter};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::arguments::{Accounts, Keys, Shared, Usage};
use crate::failure::Failure;
use crate::{terminal, text};

/// Most rows of a list.
pub(super) const MOST: usize = 10_000;

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
    let is_by = |word: &str| asked.by.split(',').any(|by| by == word);
    let columns: [(&str, &str, bool); 8] = [
        ("DAY", "day", is_by("day")),
        ("ACCOUNT", "workspace", true),
        ("MODEL", "model", true),
        ("KEY", "api_key", is_by("key")),
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
pub(super) fn told_once(
    shared: &Shared,
    answer: &Value,
    what: &str,
    secret: &str,
) -> Result<(), Failure> {
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

pub(super) fn changed(shared: &Shared, answer: &Value, said: &str) -> Result<(), Failure> {
    if shared.json {
        return terminal::print(&text::json(answer));
    }
    if !shared.quiet {
        terminal::say(&text::clean(said, false));
    }
    Ok(())
}

pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A value in a table; what is not there is a dash.
pub(super) fn plain(value: &Value) -> String {
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
