//! `easel webhooks`: those of the account of the key, and for operators those of others.

use client::{Area, Client, ClientError, Method};
use serde_json::{Map, Value, json};

use super::operate::{MOST, changed, items, plain, told_once};
use crate::arguments::{Shared, Webhooks};
use crate::failure::Failure;
use crate::{terminal, text};

/// `easel webhooks`.
pub(crate) async fn webhooks(
    shared: &Shared,
    client: &Client,
    asked: Webhooks,
) -> Result<(), Failure> {
    let change = async |id: &str, body: Map<String, Value>| {
        let path = ["webhooks", id];
        let body = &body;
        either(async |area| {
            client
                .change_in(area, Method::PATCH, &path, Some(body))
                .await
        })
        .await
    };
    let enabled = |is| Map::from_iter([("enabled".to_owned(), json!(is))]);
    match asked {
        Webhooks::List { account, all } => {
            let (area, path) = match &account {
                Some(account) => (Area::Installation, vec!["accounts", account, "webhooks"]),
                None if all => (Area::Installation, vec!["webhooks"]),
                None => (Area::Account, vec!["webhooks"]),
            };
            let all = client.rows_in(area, &path, "webhooks", MOST).await?;
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
            let path = ["webhooks", webhook.as_str()];
            let found = either(async |area| client.found_in(area, &path).await).await?;
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
            let (area, path) = match &account {
                Some(account) => (Area::Installation, vec!["accounts", account, "webhooks"]),
                None => (Area::Account, vec!["webhooks"]),
            };
            let added = client.change_in(area, Method::POST, &path, Some(&body));
            let added = added.await?;
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
            let path = ["webhooks", webhook.as_str()];
            either(async |area| client.change_in(area, Method::DELETE, &path, None).await).await?;
            changed(
                shared,
                &json!({ "removed": webhook }),
                &format!("webhook {webhook} is removed"),
            )
        }
        Webhooks::Rotate { webhook, overlap } => {
            let mut body = Map::new();
            body.extend(overlap.map(|overlap| ("overlap_s".to_owned(), json!(overlap.0))));
            let (path, body) = (["webhooks", webhook.as_str(), "rotate"], &body);
            let rotated = either(async |area| {
                client
                    .change_in(area, Method::POST, &path, Some(body))
                    .await
            });
            let rotated = rotated.await?;
            told_once(shared, &rotated, "webhook", "secret")
        }
        Webhooks::Test { webhook } => {
            let path = ["webhooks", webhook.as_str(), "test"];
            let sent = either(async |area| client.change_in(area, Method::POST, &path, None).await);
            let sent = sent.await?;
            let message = plain(&sent["id"]);
            changed(
                shared,
                &sent,
                &format!(
                    "message {message} is sent; `easel webhooks deliveries {webhook}` shows the outcome"
                ),
            )
        }
        Webhooks::Deliveries { webhook, limit } => {
            let most = usize::try_from(limit).unwrap_or(MOST);
            let path = ["webhooks", webhook.as_str(), "deliveries"];
            let all =
                either(async |area| client.rows_in(area, &path, "deliveries", most).await).await?;
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

/// Asks about a webhook among those of the account of the key, and then among all if the key may see those: an id does not say
/// whose it is.
async fn either<T>(ask: impl AsyncFn(Area) -> Result<T, ClientError>) -> Result<T, ClientError> {
    let own = match ask(Area::Account).await {
        Err(error)
            if error.is_status(403)
                || error.is_status(404)
                || matches!(error, ClientError::NotOffered(_)) =>
        {
            error
        }
        answer => return answer,
    };
    match ask(Area::Installation).await {
        // The key is no operator's: the answer about its own webhooks is the one that helps.
        Err(error) if error.is_status(403) || error.is_status(401) => Err(own),
        answer => answer,
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
