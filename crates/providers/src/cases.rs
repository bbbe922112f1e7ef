//! The suite that follows from a definition: for every rule and every word of a state an answer that it is for, and what a caller
//! is to get for it.
//!
//! A case says what a partner answers. It can be read here, without a network, or be sent by a simulated partner. A rule for
//! which no answer can be made is one that others always come before.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use router_core::Failure;
use serde_json::{Value, json};

use crate::definition::{
    Kind, Pointer, Polled, Rule, RuleExample, RuleMeaning, Said, State, StateExample, Step,
    deciding,
};
use crate::interpret::{Dialect, Reading, Reply, submit_default};
use crate::provider::PartnerModel;

/// An answer of a partner, and what it means by the definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Which question it answers.
    pub step: Step,
    /// Its status.
    pub status: u16,
    /// Its headers besides those of every JSON.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: String,
    /// What the caller is to get.
    pub expected: Expected,
    /// What of the definition it is for.
    pub of: String,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expected {
    /// The partner rejects the content.
    Refused,
    /// The partner's policy forbids it.
    Policy,
    /// The partner failed.
    Failed,
    /// The partner did not answer in time.
    TimedOut,
    /// Our account at the partner is in trouble.
    Account,
    /// Nothing ran, and a later call may go well.
    Transient,
    /// It says nothing of the work: the task is asked after again.
    AskedAgain,
}

/// What follows from the definition of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cases {
    /// The answers.
    pub cases: Vec<Case>,
    /// The rules that no answer is for, since rules before them decide: `rule 2 of errors`.
    pub never: Vec<String>,
}

/// Statuses that mean something by themselves, of a submission.
const OF_SUBMISSIONS: [u16; 8] = [400, 401, 402, 403, 422, 429, 500, 504];

/// And those of a later question: of these only the last is an end.
const OF_QUESTIONS: [u16; 5] = [401, 429, 500, 503, 422];

/// Statuses that a rule without one is tried with.
const ANY: [u16; 7] = [400, 422, 403, 404, 409, 429, 500];

impl PartnerModel {
    /// The cases that follow from the files of this model.
    #[must_use]
    pub fn cases(&self) -> Cases {
        self.dialect.cases()
    }

    /// What this model makes of the answer of a case, read without a network; `None` where it would take it for a success.
    #[must_use]
    pub fn reads(&self, case: &Case) -> Option<Expected> {
        self.dialect.reads(case)
    }

    /// Whether the answer to a submission names a task that is asked after.
    #[must_use]
    pub fn is_polled(&self) -> bool {
        self.dialect.call.polled.is_some()
    }

    /// Whether its tasks can be stopped.
    #[must_use]
    pub fn can_cancel(&self) -> bool {
        let polled = self.dialect.call.polled.as_ref();
        polled.is_some_and(|polled| polled.cancel.is_some())
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "content that the partner rejects",
            Self::Policy => "`content_policy_violation`",
            Self::Failed => "a failure of the partner",
            Self::TimedOut => "a partner that did not answer in time",
            Self::Account => "trouble with our account at the partner",
            Self::Transient => "work that never ran",
            Self::AskedAgain => "a task that is asked after again",
        })
    }
}

impl From<&Failure> for Expected {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Refused { .. } => Self::Refused,
            Failure::Policy { .. } => Self::Policy,
            Failure::Failed { .. } => Self::Failed,
            Failure::TimedOut { .. } => Self::TimedOut,
            Failure::Account { .. } => Self::Account,
            Failure::Transient { .. } => Self::Transient,
            Failure::InStream { cause, .. } => Self::from(&**cause),
        }
    }
}

impl Case {
    fn reply(&self) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &self.headers {
            let name = HeaderName::try_from(name).expect("it is the name of a header");
            headers.insert(name, HeaderValue::try_from(value).expect("it was tried"));
        }
        Reply {
            status: self.status,
            headers: Box::new(headers),
            retry_after: None,
            body: Bytes::copy_from_slice(self.body.as_bytes()),
        }
    }
}

impl Dialect {
    pub(crate) fn cases(&self) -> Cases {
        let mut found = Cases::default();
        for (at, rule) in self.errors().iter().enumerate() {
            let before = found.cases.len();
            for step in self.steps().filter(|step| rule.is_for(*step)) {
                found.cases.extend(self.case_of_error(at, rule, step));
            }
            if found.cases.len() == before {
                found.never.push(numbered(at, "errors"));
            }
        }
        for (at, rule) in self.call.guards.iter().enumerate() {
            let before = found.cases.len();
            for step in self.steps().filter(|step| rule.is_for(*step)) {
                found.cases.extend(self.case_of_guard(at, rule, step));
            }
            if found.cases.len() == before {
                found.never.push(numbered(at, "guards"));
            }
        }
        found.cases.extend(self.cases_of_states());
        found.cases.extend(self.cases_of_statuses());
        found
    }

    pub(crate) fn reads(&self, case: &Case) -> Option<Expected> {
        let reply = case.reply();
        let polled = self.call.polled.as_ref();
        let ended = match (case.step, polled) {
            (Step::Submit, _) => self.read_submit(reply).map(|_| None),
            (Step::Poll, Some(polled)) => self.read_poll(polled, reply, Duration::ZERO).map(Some),
            (Step::Result, Some(polled)) => {
                self.read_result(polled, reply, Duration::ZERO).map(Some)
            }
            (Step::Poll | Step::Result, None) => return None,
        };
        match ended {
            Ok(Some(Reading::Pending)) => Some(Expected::AskedAgain),
            Ok(_) => None,
            Err(failure) => Some(Expected::from(&failure)),
        }
    }

    /// The questions that this call asks.
    fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        let polled = self.call.polled.as_ref();
        let has_result = polled.is_some_and(|polled| !polled.result.is_empty());
        [
            Some(Step::Submit),
            polled.map(|_| Step::Poll),
            has_result.then_some(Step::Result),
        ]
        .into_iter()
        .flatten()
    }

    /// An answer that this rule about failures decides about.
    fn case_of_error(&self, at: usize, rule: &Rule, step: Step) -> Option<Case> {
        let of = numbered(at, "errors");
        let statuses = match rule.statuses() {
            any if any.is_empty() => ANY.to_vec(),
            some => some,
        };
        for status in statuses
            .into_iter()
            .filter(|status| !(200..300).contains(status))
        {
            for told in rule.examples() {
                let expected = match step {
                    Step::Submit => expected(rule.verdict),
                    Step::Poll | Step::Result => asked(rule.verdict, true),
                };
                let case = made(step, status, &told, Value::Null, expected, &of);
                let decides = |case: &Case| decided(self.errors(), case) == Some(at);
                if let Some(case) = case.filter(decides) {
                    return Some(case);
                }
            }
        }
        let polled = self.call.polled.as_ref().filter(|_| step == Step::Poll)?;
        self.case_of_failed_task(at, rule, polled)
    }

    /// A task that failed, in words that this rule decides about.
    fn case_of_failed_task(&self, at: usize, rule: &Rule, polled: &Polled) -> Option<Case> {
        let of = format!("{}, of a task that failed", numbered(at, "errors"));
        let statuses = rule.statuses();
        // What has ended is over, whatever the rule says of trying again.
        let verdict = RuleMeaning {
            retryable: false,
            ..rule.verdict
        };
        for told in rule.examples() {
            for state in polled.state.examples(State::Failed) {
                let (status, document) = with_state(&state)?;
                if !statuses.is_empty() && !statuses.contains(&status) {
                    continue;
                }
                let case = made(Step::Poll, status, &told, document, expected(verdict), &of);
                let decides = |case: &Case| {
                    decided(self.errors(), case) == Some(at)
                        && decided(&self.call.guards, case).is_none()
                        && polled.state.read(status, case.reply().document().value())
                            == State::Failed
                };
                if let Some(case) = case.filter(decides) {
                    return Some(case);
                }
            }
        }
        None
    }

    /// An answer that looks like a success and that this rule decides about.
    fn case_of_guard(&self, at: usize, rule: &Rule, step: Step) -> Option<Case> {
        let of = numbered(at, "guards");
        let statuses = match rule.statuses() {
            any if any.is_empty() => vec![200],
            some => some,
        };
        for status in statuses
            .into_iter()
            .filter(|status| (200..300).contains(status))
        {
            for told in rule.examples() {
                let expected = match step {
                    Step::Submit => expected(rule.verdict),
                    Step::Poll | Step::Result => asked(rule.verdict, false),
                };
                let case = made(step, status, &told, json!({}), expected, &of);
                let decides = |case: &Case| decided(&self.call.guards, case) == Some(at);
                if let Some(case) = case.filter(decides) {
                    return Some(case);
                }
            }
        }
        None
    }

    /// Every word for a task that ended without a result, where no rule says more of it.
    fn cases_of_states(&self) -> Vec<Case> {
        let Some(polled) = &self.call.polled else {
            return Vec::new();
        };
        let states = [
            (State::Failed, Expected::Failed),
            (State::Policy, Expected::Policy),
        ];
        let told = states.into_iter().flat_map(|(state, expected)| {
            let told = polled.state.examples(state).into_iter();
            told.map(move |told| (state, told, expected))
        });
        let cases = told.filter_map(|(state, told, expected)| {
            let (status, document) = with_state(&told)?;
            let of = format!(
                "a word of `{}` in `state`",
                if state == State::Failed {
                    "failed"
                } else {
                    "policy"
                }
            );
            let case = made(
                Step::Poll,
                status,
                &RuleExample::Nothing,
                document,
                expected,
                &of,
            )?;
            let rules = [self.errors(), &self.call.guards];
            let is_plain = rules.iter().all(|rules| decided(rules, &case).is_none());
            is_plain.then_some(case)
        });
        cases.collect()
    }

    /// What statuses mean by themselves, where no rule says otherwise.
    fn cases_of_statuses(&self) -> Vec<Case> {
        let of_submissions = OF_SUBMISSIONS.map(|status| (Step::Submit, status));
        let of_questions = OF_QUESTIONS.map(|status| (Step::Poll, status));
        let polled = self.call.polled.is_some();
        let all = of_submissions.into_iter().chain(of_questions);
        let all = all.filter(|(step, _)| polled || *step == Step::Submit);
        let cases = all.filter_map(|(step, status)| {
            let expected = match (step, status) {
                (Step::Submit, status) => expected(submit_default(status)),
                (_, 400 | 422) => Expected::Refused,
                _ => Expected::AskedAgain,
            };
            let of = format!("the status {status}");
            let case = made(
                step,
                status,
                &RuleExample::Nothing,
                json!({}),
                expected,
                &of,
            )?;
            decided(self.errors(), &case).is_none().then_some(case)
        });
        cases.collect()
    }
}

/// What a verdict is to the caller of a submission.
fn expected(verdict: RuleMeaning) -> Expected {
    match (verdict.kind, verdict.retryable) {
        (Kind::Content, _) => Expected::Refused,
        (Kind::Policy, _) => Expected::Policy,
        (Kind::Timeout, _) => Expected::TimedOut,
        (Kind::Partner | Kind::Account, true) => Expected::Transient,
        (Kind::Partner, false) => Expected::Failed,
        (Kind::Account, false) => Expected::Account,
    }
}

/// What a verdict is while a task is asked after. What is said of the account, in an answer that is no success, says nothing of
/// the work.
fn asked(verdict: RuleMeaning, is_error: bool) -> Expected {
    if verdict.retryable || (is_error && verdict.kind == Kind::Account) {
        Expected::AskedAgain
    } else {
        expected(verdict)
    }
}

fn numbered(at: usize, of: &str) -> String {
    format!("rule {} of `{of}`", at + 1)
}

/// An answer that tells this state.
fn with_state(told: &StateExample) -> Option<(u16, Value)> {
    match told {
        StateExample::Status(status) => Some((*status, json!({}))),
        StateExample::Member(pointer, value) => {
            let mut document = Value::Null;
            put(&mut document, pointer, value.clone()).then_some((200, document))
        }
    }
}

/// The case of an answer; `None` where it cannot say both.
fn made(
    step: Step,
    status: u16,
    told: &RuleExample,
    document: Value,
    expected: Expected,
    of: &str,
) -> Option<Case> {
    let (mut document, mut headers) = (document, Vec::new());
    match told {
        RuleExample::Nothing => {}
        RuleExample::Member(pointer, value) => {
            if !put(&mut document, pointer, value.clone()) {
                return None;
            }
        }
        RuleExample::Header(name, value) => {
            // A text that no header can have is never there.
            HeaderValue::try_from(value).ok()?;
            headers.push((name.to_string(), value.clone()));
        }
    }
    if document.is_null() {
        document = json!({});
    }
    Some(Case {
        step,
        status,
        headers,
        body: document.to_string(),
        expected,
        of: of.to_owned(),
    })
}

/// Writes a value at a place, and what leads there; false if something else is there already.
fn put(document: &mut Value, pointer: &Pointer, value: Value) -> bool {
    let mut at = document;
    for segment in pointer.segments() {
        let index = if segment == "*" {
            Some(0)
        } else {
            segment.parse::<usize>().ok()
        };
        if at.is_null() {
            *at = match index {
                Some(_) => json!([]),
                None => json!({}),
            };
        }
        at = match (at, index) {
            (Value::Array(items), Some(index)) if index < MOST_ITEMS => {
                if items.len() <= index {
                    items.resize(index + 1, Value::Null);
                }
                &mut items[index]
            }
            (Value::Object(members), _) if segment != "*" => {
                members.entry(segment.clone()).or_insert(Value::Null)
            }
            _ => return false,
        };
    }
    if at.is_null() {
        *at = value;
        return true;
    }
    *at == value
}

/// Most items of an array that is made for a place in it.
const MOST_ITEMS: usize = 16;

/// Which of these rules decides about the answer of a case.
fn decided(rules: &[Rule], case: &Case) -> Option<usize> {
    let reply = case.reply();
    let document = reply.document();
    let said = Said {
        step: case.step,
        status: case.status,
        headers: &reply.headers,
        document: document.value(),
    };
    deciding(rules, said)
}

#[cfg(test)]
mod tests;
