//! One way of calling a partner: what is sent, and for a task how it is followed to its result.

mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Method;
use serde::Deserialize;

use super::events::Events;
use super::host::BaseUrl;
use super::partner::Header;
use super::pointer::Pointer;
use super::rule::Rule;
use super::state::StateReader;
use super::template::Template;
use written::RawCall;

pub(crate) use written::check_total;

/// The gaps that have a value in every call.
const ALWAYS_KNOWN: [&str; 2] = ["generation", "model"];

/// One way of calling a partner.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawCall")]
pub(crate) struct Call {
    /// Where its paths begin, if not where the partner's do.
    pub base_url: Option<BaseUrl>,
    /// What starts the work.
    pub submit: Submit,
    /// How the work is followed; `None` when the answer to the submission is the result.
    pub polled: Option<Polled>,
    /// How models answer with a stream that say so.
    pub events: Option<Events>,
    /// What answers mean that are no result. They come before the partner's own.
    pub errors: Vec<Rule>,
    /// What answers mean that look like a result and are none.
    pub guards: Vec<Rule>,
    /// How long it waits.
    pub timeouts: Timeouts,
    /// The most bytes of an answer that are taken.
    pub max_answer_bytes: usize,
}

/// What starts the work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Submit {
    /// How it is sent.
    #[serde(default)]
    pub method: SubmitMethod,
    /// Where to.
    pub path: Template,
    /// What becomes of the body.
    #[serde(default)]
    pub body: Send,
    /// Headers of this call alone.
    #[serde(default)]
    pub headers: BTreeMap<Header, Template>,
}

/// The methods that carry a body to a partner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum SubmitMethod {
    /// `POST`.
    #[default]
    Post,
    /// `PUT`.
    Put,
}

impl From<SubmitMethod> for Method {
    fn from(method: SubmitMethod) -> Self {
        match method {
            SubmitMethod::Post => Self::POST,
            SubmitMethod::Put => Self::PUT,
        }
    }
}

/// What becomes of the body on its way to the partner.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Send {
    /// Nothing.
    #[default]
    Passthrough,
    /// It goes where `$body` stands in this JSON, untouched.
    Wrap(Wrap),
    /// Its members become the parts of a form.
    MultipartFromJson(Form),
}

/// JSON around a body.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Wrap {
    /// What stands before the body.
    pub before: String,
    /// What stands behind it.
    pub after: String,
}

/// How members become parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Form {
    /// Members that hold a file, as base64 or as a `data:` address; of an array, every item.
    #[serde(default)]
    pub files: Vec<String>,
}

/// How work at a partner is followed.
#[derive(Clone, Debug)]
pub(crate) struct Polled {
    /// Where the answer to the submission names the task.
    pub task: Pointer,
    /// What else of that answer is kept, by name.
    pub keep: BTreeMap<String, Pointer>,
    /// The question for the state.
    pub poll: Ask,
    /// How often it is asked.
    pub pace: PollIntervals,
    /// How long a task that the partner does not know yet is asked for all the same.
    pub not_found_grace: Duration,
    /// Where the state stands.
    pub state: StateReader,
    /// What is asked once it is done, in order; the last answer is the result.
    pub result: Vec<ResultStep>,
    /// How it is stopped.
    pub cancel: Option<Ask>,
}

/// A request that is made for a task.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// Its method.
    pub method: Method,
    /// Its address.
    pub target: Target,
    /// Its body, JSON with gaps.
    pub body: Option<Template>,
    /// Headers of this request alone.
    pub headers: BTreeMap<Header, Template>,
}

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Behind the base.
    Path(Template),
    /// Whole, as the partner told it.
    Url(Template),
}

/// A step to the result of a task that is done.
#[derive(Clone, Debug)]
pub(crate) struct ResultStep {
    /// What is kept of the answer before, by name.
    pub keep: BTreeMap<String, Pointer>,
    /// The request.
    pub ask: Ask,
}

/// How often a state is asked for: the longer it takes, the rarer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PollIntervals {
    /// The first interval.
    pub interval: Duration,
    /// By which factor intervals grow.
    pub backoff: f64,
    /// The longest interval.
    pub max_interval: Duration,
    /// How far an interval may be off, as a part of it.
    pub jitter: f64,
}

/// How long a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Timeouts {
    /// For the answer to the submission, in milliseconds.
    pub submit_ms: u64,
    /// For the answer to any later question, in milliseconds.
    pub ask_ms: u64,
    /// For the result of a task, in milliseconds after it was accepted; without it the router's own limit counts.
    pub total_ms: Option<u64>,
}

// === impl Call ===

impl Call {
    /// The names of gaps that neither a task nor a submission fills, so that the model must.
    #[must_use]
    pub(crate) fn open_names(&self) -> BTreeSet<&str> {
        let mut known = ALWAYS_KNOWN.to_vec();
        let mut open: BTreeSet<&str> = BTreeSet::new();
        open.extend(unfilled(&self.submit.path, &known));
        let of_events = self.events.as_ref().and_then(|events| events.path.as_ref());
        for template in self.submit.headers.values().chain(of_events) {
            open.extend(unfilled(template, &known));
        }
        let Some(polled) = &self.polled else {
            return open;
        };
        known.push("task");
        known.extend(polled.keep.keys().map(String::as_str));
        let asks = [Some(&polled.poll), polled.cancel.as_ref()];
        for template in asks.into_iter().flatten().flat_map(Ask::templates) {
            open.extend(unfilled(template, &known));
        }
        for step in &polled.result {
            known.extend(step.keep.keys().map(String::as_str));
            for template in step.ask.templates() {
                open.extend(unfilled(template, &known));
            }
        }
        open
    }
}

/// The gaps of a template that nothing known fills.
fn unfilled<'a>(template: &'a Template, known: &[&str]) -> Vec<&'a str> {
    let names = template.names();
    names.filter(|name| !known.contains(name)).collect()
}

impl TryFrom<String> for Wrap {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || "`wrap` is JSON with `$body` once where a value goes".to_owned();
        let (before, after) = text.split_once("$body").ok_or_else(wrong)?;
        let whole = format!("{before}null{after}");
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(&whole);
        // Inside a string it would be no value.
        let with_object = format!("{before}{{\"a\":[]}}{after}");
        let is_value = serde_json::from_str::<serde_json::Value>(&with_object).is_ok();
        if parsed.is_err() || !is_value || after.contains("$body") {
            return Err(wrong());
        }
        Ok(Self {
            before: before.to_owned(),
            after: after.to_owned(),
        })
    }
}

impl Ask {
    fn templates(&self) -> Vec<&Template> {
        let target = match &self.target {
            Target::Path(template) | Target::Url(template) => template,
        };
        let mut templates = vec![target];
        templates.extend(&self.body);
        templates.extend(self.headers.values());
        templates
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            submit_ms: 60_000,
            ask_ms: 30_000,
            total_ms: None,
        }
    }
}

#[cfg(test)]
mod tests;
