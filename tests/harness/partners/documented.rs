//! Partners that are simulated from sheets: what the documentation of a partner shows of its API, as data.
//!
//! A sheet is a file of `tests/fixtures/partners`. It holds requests and answers as the partner's documentation shows
//! them, and says nothing of the catalog but which models take which call. So a definition of the catalog and its sheet
//! are two readings of one document, and a test compares them.

mod sheet;

use std::sync::LazyLock;

use super::desk::{Desk, Outcome, View};
use super::wire::{Reply, Request, Step};

use sheet::{Answer, Route, read_all};
pub use sheet::{Call, Example, Means, Sheet, Stream};

/// Stands for the id of a task in routes and answers.
const TASK: &str = "$TASK";

/// Stands for the address of the partner in answers.
const BASE: &str = "$BASE";

static SHEETS: LazyLock<Vec<Sheet>> = LazyLock::new(read_all);

/// A partner that is known from its sheet alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Documented(usize);

/// Every sheet, those of partners with a dialect of their own included.
#[must_use]
pub fn sheets() -> &'static [Sheet] {
    &SHEETS
}

impl Documented {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let own = SHEETS
            .iter()
            .enumerate()
            .filter(|(_, sheet)| sheet.dialect.is_none());
        own.map(|(index, _)| Self(index))
    }

    pub(super) fn sheet(self) -> &'static Sheet {
        &SHEETS[self.0]
    }

    pub(super) fn answer(self, desk: &mut Desk, request: &Request) -> (Step, Reply) {
        answer(&self.sheet().calls, desk, request)
    }
}

/// What the calls of sheets add to a partner that has a dialect of its own.
pub(super) fn besides(prefix: &str, desk: &mut Desk, request: &Request) -> Option<(Step, Reply)> {
    let mut sheets = SHEETS.iter();
    let sheet = sheets.find(|sheet| sheet.dialect.as_deref() == Some(prefix))?;
    let (step, reply) = answer(&sheet.calls, desk, request);
    (step != Step::Unknown).then_some((step, reply))
}

fn answer(calls: &[Call], desk: &mut Desk, request: &Request) -> (Step, Reply) {
    for call in calls {
        if let Some(known) = call.answer(desk, request) {
            return known;
        }
    }
    (Step::Unknown, Reply::not_found())
}

impl Call {
    /// What this call answers to the request, if it is one of its own.
    fn answer(&self, desk: &mut Desk, request: &Request) -> Option<(Step, Reply)> {
        if let Some(stream) = self
            .stream
            .as_ref()
            .filter(|stream| stream.is_asked(request))
        {
            let route = stream.route.as_ref().or(self.submit.as_ref())?;
            if route.task_of(request).is_some() {
                let reply = self.streamed(desk, request, stream);
                return Some((Step::Submit, reply));
            }
        }
        if let Some(submit) = &self.submit
            && submit.task_of(request).is_some()
        {
            let reply = self.submitted(desk, request, submit);
            return Some((Step::Submit, reply));
        }
        if let Some(poll) = &self.poll
            && let Some(task) = poll.task_of(request)
        {
            return Some((Step::Poll, self.looked(desk, request, &task)));
        }
        for result in &self.results {
            if let Some(task) = result.route.task_of(request) {
                let reply = result.answer.reply(&task, &request.base_url);
                return Some((Step::Result, reply));
            }
        }
        let task = self.cancel.as_ref()?.task_of(request)?;
        let known = desk.cancel(&task);
        let reply = if known {
            Reply::json(200, "{}")
        } else {
            Reply::not_found()
        };
        Some((Step::Cancel, reply))
    }

    fn submitted(&self, desk: &mut Desk, request: &Request, submit: &Route) -> Reply {
        if submit.form != request.is_form() {
            return Reply::json(415, r#"{"detail":"another media type is wanted"}"#);
        }
        let plan = desk.next_plan();
        let refusals = &self.refusals;
        let refusal = match plan.outcome {
            Outcome::RefusePolicy => Some(&refusals.policy),
            Outcome::RefuseInput => Some(&refusals.input),
            Outcome::RefuseFunds => Some(&refusals.funds),
            Outcome::Succeed | Outcome::Fail | Outcome::Moderate => None,
        };
        if let Some(refusal) = refusal {
            return refusal.reply("", &request.base_url);
        }
        let task = desk.take(plan, &request.body);
        let answer = match (&self.accepted, plan.outcome) {
            (Some(accepted), _) => accepted,
            (None, Outcome::Fail) => &self.states.failed,
            (None, Outcome::Moderate) => self.states.moderated.as_ref().unwrap_or(&refusals.policy),
            (None, _) => &self.states.succeeded,
        };
        answer.reply(&task, &request.base_url)
    }

    /// What a submission is answered that asks for a stream.
    fn streamed(&self, desk: &mut Desk, request: &Request, stream: &Stream) -> Reply {
        let plan = desk.next_plan();
        let refusals = &self.refusals;
        let events = match plan.outcome {
            Outcome::RefusePolicy => return refusals.policy.reply("", &request.base_url),
            Outcome::RefuseInput => return refusals.input.reply("", &request.base_url),
            Outcome::RefuseFunds => return refusals.funds.reply("", &request.base_url),
            Outcome::Succeed => &stream.succeeded,
            Outcome::Fail => &stream.failed,
            Outcome::Moderate => &stream.moderated,
        };
        Reply::of(200, "text/event-stream; charset=utf-8", events.clone())
    }

    fn looked(&self, desk: &mut Desk, request: &Request, task: &str) -> Reply {
        let states = &self.states;
        let answer = match desk.look(task) {
            None => return Reply::not_found(),
            Some(View::Queued) => states.queued.as_ref(),
            Some(View::Running) => states.running.as_ref().or(states.queued.as_ref()),
            Some(View::Succeeded) => Some(&states.succeeded),
            Some(View::Failed) => Some(&states.failed),
            Some(View::Cancelled) => states.cancelled.as_ref().or(Some(&states.failed)),
            Some(View::Moderated) => states.moderated.as_ref().or(Some(&states.failed)),
        };
        match answer {
            Some(answer) => answer.reply(task, &request.base_url),
            None => Reply::not_found(),
        }
    }

    /// The bytes of the result of a task.
    #[must_use]
    pub fn result_of(&self, task: &str, base_url: &str) -> Vec<u8> {
        let last = self.results.last().map(|result| &result.answer);
        let answer = last.unwrap_or(&self.states.succeeded);
        answer.reply(task, base_url).body
    }
}

impl Stream {
    fn is_asked(&self, request: &Request) -> bool {
        let member = &request.json()["stream"];
        match self.route {
            Some(_) => member.is_null(),
            None => *member == true,
        }
    }
}

impl Answer {
    fn reply(&self, task: &str, base_url: &str) -> Reply {
        let body = self.body.replace(TASK, task).replace(BASE, base_url);
        Reply::of(self.status, &self.media_type, body)
    }
}

impl Route {
    /// The task that a request of this route is about, or an empty text for a submission.
    fn task_of(&self, request: &Request) -> Option<String> {
        if request.method != self.method {
            return None;
        }
        let with_header = |(name, value): (&String, &String)| request.header(name) == Some(value);
        if !self.headers.iter().all(with_header) {
            return None;
        }
        let target = if request.query.is_empty() {
            request.path.clone()
        } else {
            format!("{}?{}", request.path, request.query)
        };
        let of_target = captured(&self.target, &target)?;
        match &self.task_in {
            None => Some(of_target),
            Some(pointer) => {
                let body = request.json();
                let task = body.pointer(pointer)?;
                // A list may hold the only task.
                let task = task.as_array().map_or(task, |tasks| &tasks[0]);
                task.as_str().map(str::to_owned)
            }
        }
    }
}

/// What stands in the place of [`TASK`], if the text has the form of the pattern; `*` stands for anything.
fn captured(pattern: &str, text: &str) -> Option<String> {
    match pattern.split_once(TASK) {
        None => fits(pattern, text).then(String::new),
        Some((before, after)) => {
            let start = text.find("task-")?;
            let rest = &text[start + 5..];
            let digits = rest.chars().take_while(char::is_ascii_digit).count();
            let end = start + 5 + digits;
            let fitting = fits(before, &text[..start]) && fits(after, &text[end..]);
            fitting.then(|| text[start..end].to_owned())
        }
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            let mut ends = (0..=rest.len()).filter(|end| rest.is_char_boundary(*end));
            ends.any(|end| fits(after, &rest[end..]))
        }),
    }
}
