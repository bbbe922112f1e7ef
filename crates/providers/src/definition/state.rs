//! How the state of a task is read from an answer.

use serde::Deserialize;
use serde_json::Value;

use super::pointer::Pointer;
use super::rule::Scalar;

/// Where the state stands and what its words mean. Exactly one of `pointer`, `http_status` and `done` is the source.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawState")]
pub(crate) struct StateReader {
    source: Source,
    reduce: Reduce,
    ignore_case: bool,
    ok: Vec<Scalar>,
    failed: Vec<Scalar>,
    policy: Vec<Scalar>,
    pending: Vec<Scalar>,
    /// Whether the partner's documentation says that a task which failed is final and costs nothing.
    pub failed_is_free: bool,
}

/// How a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Done, with a result.
    Ok,
    /// Done, without one.
    Failed,
    /// Ended by the partner's policy.
    Policy,
    /// Under way.
    Pending,
    /// Said in words that the definition does not know: to be asked again.
    Unknown,
}

#[derive(Clone, Debug)]
enum Source {
    Pointer(Pointer),
    HttpStatus,
    Done(Pointer),
}

/// How several values become one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reduce {
    /// The first value speaks for all.
    #[default]
    First,
    /// It is done when one is done, and failed when all are.
    Any,
    /// It is done when all are done, and failed when one is.
    All,
}

/// How the words of states are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Case {
    #[default]
    Ignored,
    Exact,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawState {
    pointer: Option<Pointer>,
    #[serde(default)]
    http_status: bool,
    done: Option<Pointer>,
    #[serde(default)]
    reduce: Reduce,
    #[serde(default)]
    case: Case,
    #[serde(default)]
    ok: Vec<Scalar>,
    #[serde(default)]
    failed: Vec<Scalar>,
    #[serde(default)]
    policy: Vec<Scalar>,
    #[serde(default)]
    pending: Vec<Scalar>,
    #[serde(default)]
    failed_is_free: bool,
}

impl StateReader {
    /// Reads the state from an answer of a 2xx status.
    #[must_use]
    pub(crate) fn read(&self, status: u16, document: &Value) -> State {
        match &self.source {
            Source::HttpStatus => self.class(&Value::from(status)),
            Source::Done(pointer) => match pointer.first(document) {
                Some(Value::Bool(true)) => State::Ok,
                Some(Value::Bool(false)) | None => State::Pending,
                Some(
                    Value::Null
                    | Value::Number(_)
                    | Value::String(_)
                    | Value::Array(_)
                    | Value::Object(_),
                ) => State::Unknown,
            },
            Source::Pointer(pointer) => {
                let states = pointer
                    .all(document)
                    .into_iter()
                    .map(|value| self.class(value));
                self.reduced(&states.collect::<Vec<_>>())
            }
        }
    }

    fn class(&self, value: &Value) -> State {
        let among = |set: &[Scalar]| {
            set.iter()
                .any(|scalar| scalar.matches(value, self.ignore_case))
        };
        if among(&self.ok) {
            State::Ok
        } else if among(&self.policy) {
            State::Policy
        } else if among(&self.failed) {
            State::Failed
        } else if among(&self.pending) {
            State::Pending
        } else {
            State::Unknown
        }
    }

    fn reduced(&self, states: &[State]) -> State {
        let has = |state: State| states.contains(&state);
        let ended = |state: &State| matches!(state, State::Failed | State::Policy);
        match (self.reduce, states.first()) {
            (_, None) => State::Unknown,
            (Reduce::First, Some(first)) => *first,
            (Reduce::All, Some(_)) if has(State::Policy) => State::Policy,
            (Reduce::All, Some(_)) if has(State::Failed) => State::Failed,
            (Reduce::All, Some(_)) if states.iter().all(|state| *state == State::Ok) => State::Ok,
            (Reduce::Any, Some(_)) if has(State::Ok) => State::Ok,
            (Reduce::Any, Some(_)) if states.iter().all(ended) => {
                if has(State::Policy) {
                    State::Policy
                } else {
                    State::Failed
                }
            }
            (Reduce::All | Reduce::Any, Some(_)) => {
                if has(State::Pending) {
                    State::Pending
                } else {
                    State::Unknown
                }
            }
        }
    }
}

/// What an answer has that tells a state: the status itself, or a value at a place.
#[derive(Clone, Debug)]
pub(crate) enum StateExample {
    Status(u16),
    Member(Pointer, Value),
}

impl StateReader {
    /// Answers that tell a state, one for each word of it.
    pub(crate) fn examples(&self, state: State) -> Vec<StateExample> {
        let set = match state {
            State::Ok => &self.ok,
            State::Failed => &self.failed,
            State::Policy => &self.policy,
            State::Pending => &self.pending,
            State::Unknown => return Vec::new(),
        };
        let told = set.iter().filter_map(|word| match (&self.source, word) {
            (Source::Pointer(pointer), word) => {
                Some(StateExample::Member(pointer.clone(), word.example()))
            }
            (Source::HttpStatus, Scalar::Integer(status)) => {
                u16::try_from(*status).ok().map(StateExample::Status)
            }
            (Source::HttpStatus, Scalar::Flag(_) | Scalar::Text(_)) | (Source::Done(_), _) => None,
        });
        told.collect()
    }
}

impl TryFrom<RawState> for StateReader {
    type Error = String;

    fn try_from(written: RawState) -> Result<Self, String> {
        let source = match (written.pointer, written.http_status, written.done) {
            (Some(pointer), false, None) => Source::Pointer(pointer),
            (None, true, None) => Source::HttpStatus,
            (None, false, Some(done)) => Source::Done(done),
            _ => {
                return Err(
                    "a state is read from exactly one of `pointer`, `http_status` and `done`"
                        .to_owned(),
                );
            }
        };
        if !matches!(source, Source::Done(_)) && written.ok.is_empty() {
            return Err("`ok` names at least one state, or nothing ever ends well".to_owned());
        }
        Ok(Self {
            source,
            reduce: written.reduce,
            ignore_case: written.case == Case::Ignored,
            ok: written.ok,
            failed: written.failed,
            policy: written.policy,
            pending: written.pending,
            failed_is_free: written.failed_is_free,
        })
    }
}

#[cfg(test)]
mod tests;
