//! `doctor`: what works, what does not, and what to do about it.

use client::Client;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde_json::{Value, json};

use super::login::{self, Access};
use crate::arguments::Shared;
use crate::credentials::Credentials;
use crate::failure::{Failure, Kind};
use crate::{pictures, session, terminal, text};

/// Seconds by which the clocks may differ before links look expired.
const MOST_SKEW_S: i64 = 60;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good,
    /// Works, or is not needed by everybody.
    Note,
    Bad(Kind),
}

#[derive(Debug)]
struct Check {
    name: &'static str,
    state: State,
    text: String,
}

#[derive(Debug, Default)]
struct Checks(Vec<Check>);

impl Checks {
    fn add(&mut self, name: &'static str, state: State, text: impl Into<String>) {
        let text = text.into();
        self.0.push(Check { name, state, text });
    }

    fn failed(&mut self, name: &'static str, failure: &Failure) {
        let hint = failure.hint.as_deref().unwrap_or_default();
        let text = format!("{} {hint}", failure.message);
        self.add(name, State::Bad(failure.kind), text.trim());
    }
}

/// `easel doctor`.
pub(crate) async fn doctor(shared: &Shared) -> Result<(), Failure> {
    let mut checks = Checks::default();
    checks.add(
        "program",
        State::Good,
        concat!("easel ", env!("CARGO_PKG_VERSION")),
    );
    match opened(shared, &mut checks) {
        Ok(client) => server(&client, &mut checks).await,
        Err(failure) => checks.failed("credentials", &failure),
    }
    pictures_of(&mut checks);
    report(shared, &checks)
}

fn opened(shared: &Shared, checks: &mut Checks) -> Result<Client, Failure> {
    let credentials = Credentials::load()?;
    let chosen = session::server(shared, &credentials)?;
    checks.add(
        "server",
        State::Good,
        format!("{} (from {})", chosen.server, chosen.by),
    );
    let from_environment = session::key_of_environment()?;
    let saved = credentials.key(chosen.server.as_str());
    let key = match (&from_environment, &saved) {
        (Some(_), _) => format!("from {}", session::KEY_VARIABLE),
        (None, Some(_)) => format!("from {}", credentials.path().display()),
        (None, None) => "none; `easel login` adds one".to_owned(),
    };
    let state = match from_environment.is_some() || saved.is_some() {
        true => State::Good,
        false => State::Note,
    };
    checks.add("key", state, key);
    session::open(shared)
}

async fn server(client: &Client, checks: &mut Checks) {
    match client.probe("/ready").await {
        Err(error) => {
            checks.failed("connection", &Failure::from(error));
            return;
        }
        Ok(probe) => {
            let encrypted = if client.server().is_https() {
                "encrypted"
            } else {
                "not encrypted"
            };
            let is_safe = client.server().is_https() || client.server().is_loopback();
            let state = if is_safe { State::Good } else { State::Note };
            checks.add("connection", state, encrypted);
            ready(probe.status, &probe.body, checks);
            clock(probe.date.as_deref(), checks);
        }
    }
    let workflows = login::workflows(client).await;
    access(
        "workflows",
        "the v2 workflow API",
        workflows,
        client,
        checks,
    );
    let router = login::router(client).await;
    access("models", "the model router", router, client, checks);
}

fn ready(status: u16, body: &Value, checks: &mut Checks) {
    let listed = |name: &str| -> Vec<&str> {
        let texts = body[name].as_array().into_iter().flatten();
        texts.filter_map(Value::as_str).collect()
    };
    let notes = listed("notes");
    match status {
        200 if notes.is_empty() => {
            checks.add("ready", State::Good, "the server accepts and runs jobs")
        }
        200 => checks.add("ready", State::Note, notes.join("; ")),
        503 => {
            let text = format!("the server is not ready: {}", listed("reasons").join("; "));
            checks.add("ready", State::Bad(Kind::Server), text);
        }
        _ => checks.add(
            "ready",
            State::Note,
            "the server does not say whether it is ready",
        ),
    }
}

fn clock(date: Option<&str>, checks: &mut Checks) {
    let Some(date) = date.and_then(|date| rfc2822::parse(date).ok()) else {
        return;
    };
    let skew = date.timestamp().duration_since(Timestamp::now()).as_secs();
    if skew.abs() > MOST_SKEW_S {
        let text =
            format!("the server's clock differs by {skew} s; links and tokens may look expired");
        checks.add("clock", State::Note, text);
    }
}

fn access(
    name: &'static str,
    what: &str,
    access: Result<Access, Failure>,
    client: &Client,
    checks: &mut Checks,
) {
    match access {
        Ok(Access::Granted) => checks.add(name, State::Good, format!("{what} accepts you")),
        Ok(Access::NotOffered) => {
            checks.add(
                name,
                State::Note,
                format!("the server does not offer {what}"),
            );
        }
        // Without a key nobody was refused: the router is never open.
        Ok(Access::Refused) if !client.has_credential() && name == "models" => {
            checks.add(
                name,
                State::Note,
                format!("{what} needs a key: `easel login`"),
            );
        }
        Ok(Access::Refused) => {
            let text = format!("{what} does not accept the key: `easel login`");
            checks.add(name, State::Bad(Kind::Unauthorized), text);
        }
        Err(failure) => checks.failed(name, &failure),
    }
}

fn pictures_of(checks: &mut Checks) {
    match pictures::protocol(None) {
        Some(protocol) => {
            let text = format!("shown by the protocol {protocol:?}").to_lowercase();
            checks.add("pictures", State::Good, text);
        }
        None => checks.add(
            "pictures",
            State::Note,
            "the terminal is not known to show any; EASEL_IMAGES chooses kitty, iterm or sixel",
        ),
    }
}

fn report(shared: &Shared, checks: &Checks) -> Result<(), Failure> {
    if shared.json {
        let listed: Vec<Value> = checks
            .0
            .iter()
            .map(|check| {
                let state = match check.state {
                    State::Good => "good",
                    State::Note => "note",
                    State::Bad(_) => "bad",
                };
                json!({"check": check.name, "state": state, "text": check.text})
            })
            .collect();
        terminal::print(&text::json(&json!({ "checks": listed })))?;
    } else {
        let mut shown = String::new();
        for check in &checks.0 {
            let state = match check.state {
                State::Good => "ok  ",
                State::Note => "note",
                State::Bad(_) => "BAD ",
            };
            shown.push_str(&format!(
                "{state}  {:<11} {}\n",
                check.name,
                text::clean(&check.text, false)
            ));
        }
        terminal::print(&shown)?;
    }
    let bad = checks.0.iter().find_map(|check| match check.state {
        State::Bad(kind) => Some((kind, check.name)),
        State::Good | State::Note => None,
    });
    match bad {
        Some((kind, name)) => Err(Failure::new(
            kind,
            format!("the check `{name}` failed; its line says what to do"),
        )),
        None => Ok(()),
    }
}
