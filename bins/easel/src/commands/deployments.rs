//! `easel deployments`: the deployments of an installation, with a key that has the scope `admin`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use client::{Client, Method};
use serde_json::{Map, Value, json};

use super::operate::{MOST, changed, items, plain};
use crate::arguments::{Deployments, Shared};
use crate::failure::Failure;
use crate::{terminal, text};

/// The longest file of a deployment.
const LONGEST: u64 = 1 << 20;

/// `easel deployments`.
pub(crate) async fn deployments(
    shared: &Shared,
    client: &Client,
    asked: Deployments,
) -> Result<(), Failure> {
    let post = async |name: &str, word: &str, body: Map<String, Value>| {
        let path = ["deployments", name, word];
        client.admin_change(Method::POST, &path, Some(&body)).await
    };
    match asked {
        Deployments::List => {
            let all = client.admin_rows(&["deployments"], "deployments", MOST);
            let all = all.await?;
            if shared.json {
                return terminal::print(&text::json(&json!(all)));
            }
            let rows = all.iter().map(|deployment| {
                vec![
                    plain(&deployment["name"]),
                    plain(&deployment["state"]),
                    plain(&deployment["revision"]),
                    workers(deployment),
                    plain(&deployment["why"]),
                ]
            });
            let rows: Vec<Vec<String>> = rows.collect();
            let heading = ["NAME", "STATE", "REVISION", "WORKERS", "WHY"];
            terminal::print(&text::table(&heading, &rows))
        }
        Deployments::Show { deployment } => {
            let found = client.admin(&["deployments", &deployment]).await?;
            match shared.json {
                true => terminal::print(&text::json(&found)),
                false => terminal::print(&shown(&found)),
            }
        }
        Deployments::Apply { file } => {
            let (name, definition) = read(&file)?;
            let path = ["deployments", &name];
            let done = client.admin_change(Method::PUT, &path, Some(&definition));
            let done = done.await?;
            let newest = newest(&done);
            let said = format!(
                "deployment {name} has revision {newest}; `easel deployments show {name}` shows how it is"
            );
            changed(shared, &done, &said)
        }
        Deployments::Start { deployment } => {
            let done = post(&deployment, "start", Map::new()).await?;
            changed(
                shared,
                &done,
                &format!("deployment {deployment} is started"),
            )
        }
        Deployments::Stop { deployment } => {
            let done = post(&deployment, "stop", Map::new()).await?;
            let said = format!("deployment {deployment} stops once its jobs are over");
            changed(shared, &done, &said)
        }
        Deployments::Scale {
            deployment,
            min,
            max,
        } => {
            let bounds = [("min", min), ("max", max)];
            let given = bounds.into_iter().filter_map(|(name, bound)| {
                let bound = bound?;
                Some((name.to_owned(), json!(bound)))
            });
            let done = post(&deployment, "scale", given.collect()).await?;
            let (min, max) = (plain(&done["min"]), plain(&done["max"]));
            let said = format!("deployment {deployment} has {min} to {max} workers");
            changed(shared, &done, &said)
        }
        Deployments::Rollback {
            deployment,
            revision,
        } => {
            let body = revision.map(|revision| ("revision".to_owned(), json!(revision)));
            let done = post(&deployment, "rollback", body.into_iter().collect()).await?;
            changed(shared, &done, &format!("deployment {deployment} goes back"))
        }
        Deployments::Remove { deployment } => {
            let path = ["deployments", &deployment];
            client.admin_change(Method::DELETE, &path, None).await?;
            let said = format!("deployment {deployment} is removed");
            changed(shared, &json!({ "removed": deployment }), &said)
        }
        Deployments::Events { deployment, limit } => {
            let most = usize::try_from(limit).unwrap_or(MOST);
            let path = ["deployments", &deployment, "events"];
            let all = client.admin_rows(&path, "events", most).await?;
            if shared.json {
                return terminal::print(&text::json(&json!(all)));
            }
            let rows = all.iter().map(|event| {
                let names = ["at", "kind", "text"];
                names.map(|name| plain(&event[name])).to_vec()
            });
            let rows: Vec<Vec<String>> = rows.collect();
            terminal::print(&text::table(&["TIME", "EVENT", "WHAT HAPPENED"], &rows))
        }
        Deployments::Logs { deployment } => {
            let found = client.admin(&["deployments", &deployment, "logs"]).await?;
            if shared.json {
                return terminal::print(&text::json(&found["logs"]));
            }
            let lines = items(&found["logs"]).flat_map(|log| {
                let worker = plain(&log["worker"]);
                let lines = log["text"].as_str().unwrap_or_default().lines();
                lines.map(move |line| format!("{worker}  {line}\n"))
            });
            terminal::print(&text::clean(&lines.collect::<String>(), true))
        }
    }
}

/// Reads the file of a deployment: its name, and what the rest says. The server judges the rest.
fn read(path: &Path) -> Result<(String, Map<String, Value>), Failure> {
    let refused = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = contents(path).map_err(|error| {
        refused(format!("the deployment cannot be read: {error}")).hint("correct the path")
    })?;
    definition(&text).map_err(refused)
}

fn contents(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    match path == Path::new("-") {
        true => io::stdin().lock().take(LONGEST).read_to_string(&mut text)?,
        false => File::open(path)?.take(LONGEST).read_to_string(&mut text)?,
    };
    Ok(text)
}

fn definition(text: &str) -> Result<(String, Map<String, Value>), String> {
    let mut definition: Map<String, Value> =
        toml::from_str(text).map_err(|error| format!("this is no TOML: {error}"))?;
    match definition.remove("name") {
        Some(Value::String(name)) => Ok((name, definition)),
        Some(_) | None => {
            Err("the deployment has no name; write name = \"...\" at the top".to_owned())
        }
    }
}

/// The number of the newest revision.
fn newest(deployment: &Value) -> String {
    let revision = items(&deployment["revisions"]).last();
    revision.map_or_else(|| "-".to_owned(), |it| plain(&it["number"]))
}

/// How many workers the server that was asked has, and how many the deployment may have.
fn workers(deployment: &Value) -> String {
    let now = items(&deployment["workers"]).count();
    let (min, max) = (plain(&deployment["min"]), plain(&deployment["max"]));
    format!("{now} of {min} to {max}")
}

fn shown(deployment: &Value) -> String {
    let mut pairs = vec![
        ("name", plain(&deployment["name"])),
        ("path", plain(&deployment["path"])),
        ("state", plain(&deployment["state"])),
        ("why", plain(&deployment["why"])),
        ("revision", plain(&deployment["revision"])),
        ("next revision", plain(&deployment["next_revision"])),
        ("workers", workers(deployment)),
    ];
    for worker in items(&deployment["workers"]) {
        let (name, state) = (plain(&worker["name"]), plain(&worker["state"]));
        let (revision, why) = (plain(&worker["revision"]), plain(&worker["why"]));
        let (jobs, slots) = (plain(&worker["jobs"]), plain(&worker["slots"]));
        let breaker = plain(&worker["breaker"]);
        pairs.push((
            "worker",
            format!("{name} of revision {revision}: {state}, {why}; {jobs} of {slots} jobs, breaker {breaker}"),
        ));
    }
    for revision in items(&deployment["revisions"]) {
        let (number, when) = (plain(&revision["number"]), plain(&revision["created_at"]));
        pairs.push(("applied", format!("revision {number} at {when}")));
    }
    text::pairs(&pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_name_and_a_definition() {
        let (name, rest) =
            definition("name = \"sdxl\"\nurls = [\"http://a:1\"]\nmin = 2").expect("one");
        assert_eq!(name, "sdxl");
        assert_eq!(
            Value::Object(rest),
            json!({"urls": ["http://a:1"], "min": 2})
        );
        for (bad, why) in [
            ("min = 1", "has no name"),
            ("name = 1", "has no name"),
            ("name =", "no TOML"),
        ] {
            let refused = definition(bad).expect_err("none");
            assert!(refused.contains(why), "{bad}: {refused}");
        }
    }
}
