//! A call as its file spells it, and what is wrong with a spelling.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde::Deserialize;

use super::{Ask, Call, PollIntervals, Polled, ResultStep, Submit, Target, Timeouts};
use crate::definition::events::Events;
use crate::definition::host::BaseUrl;
use crate::definition::partner::Header;
use crate::definition::pointer::Pointer;
use crate::definition::rule::Rule;
use crate::definition::state::StateReader;
use crate::definition::template::{Escaping, Template, is_name};

/// The most bytes of an answer that are taken unless a call says otherwise: several large pictures as text.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// How long a task may be given, in milliseconds. Keys are kept for a day: what runs longer could not be picked up.
const TOTAL_MS: std::ops::RangeInclusive<u64> = 1_000..=24 * 3_600_000;

/// Whether the answer to the submission is the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Style {
    /// It is.
    Sync,
    /// It names a task.
    Poll,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCall {
    style: Style,
    base_url: Option<BaseUrl>,
    submit: Submit,
    task: Option<TaskWritten>,
    poll: Option<PollWritten>,
    state: Option<StateReader>,
    #[serde(default)]
    result: Vec<ResultWritten>,
    cancel: Option<AskWritten>,
    events: Option<Events>,
    #[serde(default)]
    errors: Vec<Rule>,
    #[serde(default)]
    guards: Vec<Rule>,
    #[serde(default)]
    timeouts: Timeouts,
    max_answer_bytes: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskWritten {
    id: Pointer,
    #[serde(default)]
    keep: BTreeMap<String, Pointer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PollWritten {
    #[serde(default)]
    method: Verb,
    path: Option<Template>,
    url: Option<Template>,
    body: Option<Template>,
    #[serde(default)]
    headers: BTreeMap<Header, Template>,
    #[serde(default = "one_second")]
    interval_ms: u64,
    #[serde(default = "gentle")]
    backoff: f64,
    #[serde(default = "ten_seconds")]
    max_interval_ms: u64,
    #[serde(default = "a_tenth")]
    jitter: f64,
    #[serde(default = "thirty_seconds")]
    not_found_grace_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskWritten {
    #[serde(default)]
    method: Verb,
    path: Option<Template>,
    url: Option<Template>,
    body: Option<Template>,
    #[serde(default)]
    headers: BTreeMap<Header, Template>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultWritten {
    #[serde(default)]
    keep: BTreeMap<String, Pointer>,
    #[serde(default)]
    method: Verb,
    path: Option<Template>,
    url: Option<Template>,
    body: Option<Template>,
    #[serde(default)]
    headers: BTreeMap<Header, Template>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Verb {
    #[default]
    Get,
    Post,
    Put,
    Delete,
}

fn one_second() -> u64 {
    1_000
}

fn gentle() -> f64 {
    1.2
}

fn ten_seconds() -> u64 {
    10_000
}

fn a_tenth() -> f64 {
    0.1
}

fn thirty_seconds() -> u64 {
    30_000
}

impl TryFrom<RawCall> for Call {
    type Error = String;

    fn try_from(written: RawCall) -> Result<Self, String> {
        if !written.submit.path.begins_with("/") {
            return Err("the `path` of `submit` begins with `/`".to_owned());
        }
        let polled = match (written.style, written.task, written.poll, written.state) {
            (Style::Sync, None, None, None)
                if written.result.is_empty() && written.cancel.is_none() =>
            {
                None
            }
            (Style::Sync, ..) => {
                return Err(
                    "a call of style `sync` has no `task`, `poll`, `state`, `result`, `cancel`"
                        .to_owned(),
                );
            }
            (Style::Poll, Some(task), Some(poll), Some(state)) => {
                named(&task.keep)?;
                Some(Polled {
                    task: task.id,
                    keep: task.keep,
                    pace: poll.pace()?,
                    not_found_grace: Duration::from_millis(poll.not_found_grace_ms),
                    poll: ask(poll.method, poll.path, poll.url, poll.body, poll.headers)?,
                    state,
                    result: written
                        .result
                        .into_iter()
                        .map(ResultStep::try_from)
                        .collect::<Result<_, _>>()?,
                    cancel: written.cancel.map(AskWritten::ask).transpose()?,
                })
            }
            (Style::Poll, ..) => {
                return Err("a call of style `poll` needs `task`, `poll` and `state`".to_owned());
            }
        };
        if written.events.is_some() && polled.is_some() {
            return Err("`events` are for calls of style `sync`".to_owned());
        }
        if let Some(total_ms) = written.timeouts.total_ms {
            if polled.is_none() {
                return Err(
                    "`total_ms` is for calls of style `poll`; `submit_ms` bounds this one"
                        .to_owned(),
                );
            }
            check_total(total_ms)?;
        }
        Ok(Self {
            base_url: written.base_url,
            submit: written.submit,
            polled,
            events: written.events,
            errors: written.errors,
            guards: written.guards,
            timeouts: written.timeouts,
            max_answer_bytes: written.max_answer_bytes.unwrap_or(MAX_ANSWER_BYTES),
        })
    }
}

/// Whether a task may be given so long.
pub(crate) fn check_total(total_ms: u64) -> Result<(), String> {
    if TOTAL_MS.contains(&total_ms) {
        return Ok(());
    }
    let (least, most) = (TOTAL_MS.start(), TOTAL_MS.end());
    Err(format!(
        "`total_ms` is from {least} to {most}: a second to a day"
    ))
}

impl TryFrom<ResultWritten> for ResultStep {
    type Error = String;

    fn try_from(written: ResultWritten) -> Result<Self, String> {
        named(&written.keep)?;
        Ok(Self {
            keep: written.keep,
            ask: ask(
                written.method,
                written.path,
                written.url,
                written.body,
                written.headers,
            )?,
        })
    }
}

impl AskWritten {
    fn ask(self) -> Result<Ask, String> {
        ask(self.method, self.path, self.url, self.body, self.headers)
    }
}

impl PollWritten {
    fn pace(&self) -> Result<PollIntervals, String> {
        if self.interval_ms == 0 || self.max_interval_ms < self.interval_ms {
            return Err("`interval_ms` is at least 1 and at most `max_interval_ms`".to_owned());
        }
        if !(1.0..=10.0).contains(&self.backoff) || !(0.0..=0.5).contains(&self.jitter) {
            return Err("`backoff` is from 1 to 10, and `jitter` from 0 to 0.5".to_owned());
        }
        Ok(PollIntervals {
            interval: Duration::from_millis(self.interval_ms),
            backoff: self.backoff,
            max_interval: Duration::from_millis(self.max_interval_ms),
            jitter: self.jitter,
        })
    }
}

fn ask(
    verb: Verb,
    path: Option<Template>,
    url: Option<Template>,
    body: Option<Template>,
    headers: BTreeMap<Header, Template>,
) -> Result<Ask, String> {
    let target = match (path, url) {
        (Some(path), None) if path.begins_with("/") => Target::Path(path),
        (Some(_), None) => return Err("a `path` begins with `/`".to_owned()),
        (None, Some(url)) => Target::Url(url),
        _ => return Err("a request has either a `path` or a `url`".to_owned()),
    };
    if let Some(body) = &body {
        let sample = body.fill(Escaping::Json, |_| Some("x"));
        let is_json =
            sample.is_ok_and(|sample| serde_json::from_str::<serde_json::Value>(&sample).is_ok());
        if !is_json {
            return Err("the `body` of a request is JSON, with gaps inside its strings".to_owned());
        }
    }
    let method = match verb {
        Verb::Get => Method::GET,
        Verb::Post => Method::POST,
        Verb::Put => Method::PUT,
        Verb::Delete => Method::DELETE,
    };
    Ok(Ask {
        method,
        target,
        body,
        headers,
    })
}

fn named(keep: &BTreeMap<String, Pointer>) -> Result<(), String> {
    match keep.keys().find(|name| !is_name(name) || *name == "task") {
        None => Ok(()),
        Some(name) => Err(format!(
            "`{name}` is no name to keep something by: write lower-case letters, digits and `_`"
        )),
    }
}
