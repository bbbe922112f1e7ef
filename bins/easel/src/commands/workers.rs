//! `easel workers`: the ComfyUI workers of an installation, with a key that has the scope `admin`.

use client::{Client, Method};
use serde_json::{Map, json};

use super::operate::{MOST, changed, plain};
use crate::arguments::{Shared, Workers};
use crate::failure::Failure;
use crate::{terminal, text};

/// `easel workers`.
pub(crate) async fn workers(
    shared: &Shared,
    client: &Client,
    asked: Workers,
) -> Result<(), Failure> {
    // Names are in bodies: they may have slashes.
    let named = async |word: &str, worker: &str| {
        let body = Map::from_iter([("name".to_owned(), json!(worker))]);
        let path = ["workers", word];
        client.admin_change(Method::POST, &path, Some(&body)).await
    };
    match asked {
        Workers::List => {
            let all = client.admin_rows(&["workers"], "workers", MOST).await?;
            if shared.json {
                return terminal::print(&text::json(&json!(all)));
            }
            let rows = all.iter().map(|worker| {
                let names = [
                    "name",
                    "state",
                    "jobs",
                    "slots",
                    "succeeded",
                    "failed",
                    "lost",
                    "staged_bytes",
                    "answer_ms",
                    "breaker",
                    "why",
                ];
                names.map(|name| plain(&worker[name])).to_vec()
            });
            let rows: Vec<Vec<String>> = rows.collect();
            let heading = [
                "NAME",
                "STATE",
                "JOBS",
                "SLOTS",
                "SUCCEEDED",
                "FAILED",
                "LOST",
                "STAGED",
                "ANSWER_MS",
                "BREAKER",
                "WHY",
            ];
            terminal::print(&text::table(&heading, &rows))
        }
        Workers::Add { url, name } => {
            let mut body = Map::from_iter([("url".to_owned(), json!(url))]);
            body.extend(name.map(|name| ("name".to_owned(), json!(name))));
            let path = ["workers"];
            client
                .admin_change(Method::POST, &path, Some(&body))
                .await?;
            let said = format!("worker {url} is added; `easel workers list` shows how it is");
            changed(shared, &json!({ "added": url }), &said)
        }
        Workers::Drain { worker } => {
            named("drain", &worker).await?;
            let said = format!("worker {worker} gets no more jobs");
            changed(shared, &json!({ "drained": worker }), &said)
        }
        Workers::Resume { worker } => {
            named("resume", &worker).await?;
            let said = format!("worker {worker} gets jobs again");
            changed(shared, &json!({ "resumed": worker }), &said)
        }
        Workers::Remove { worker } => {
            named("remove", &worker).await?;
            let said = format!("worker {worker} is taken out once its jobs are over");
            changed(shared, &json!({ "removed": worker }), &said)
        }
    }
}
