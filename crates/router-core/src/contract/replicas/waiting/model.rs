//! What is true of requests and of results, in the plainest way.

use std::collections::BTreeMap;

use super::id;
use crate::{Cancelled, Enqueued, KeyDigest, QueueBounds, QueueFailure, ResultId};

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) requests: BTreeMap<u128, Request>,
    pub(super) results: BTreeMap<ResultId, Fetched>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) key: KeyDigest,
    pub(super) state: State,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    Waits,
    /// A process took it, and has not dispatched it.
    Taken(usize),
    /// A process dispatched it; whether its caller wants it to stop.
    Runs(usize, bool),
    Over(Option<QueueFailure>),
}

/// How far a result is.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    pub(super) due: i64,
    pub(super) attempts: u32,
    /// Who has it, and until when.
    pub(super) by: Option<(usize, i64)>,
    pub(super) is_over: bool,
}

impl Model {
    /// The request that a key stands for.
    fn of_key(&self, key: KeyDigest) -> Option<u128> {
        // Newest first: a key is free again once its request ended without having been dispatched.
        let mut of_key = self.requests.iter().rev();
        let (n, request) = of_key.find(|(_, request)| request.key == key)?;
        let is_free = matches!(
            request.state,
            State::Over(Some(
                QueueFailure::WaitedTooLong | QueueFailure::NotDispatched { .. }
            ))
        );
        (!is_free).then_some(*n)
    }

    pub(super) fn enqueue(&mut self, n: u128, key: KeyDigest, bounds: QueueBounds) -> Enqueued {
        if let Some(known) = self.of_key(key) {
            return Enqueued::Known(id(known));
        }
        let limit = bounds.of_account;
        if self.in_state(|state| *state == State::Waits).len() >= limit {
            return Enqueued::Full { limit };
        }
        let state = State::Waits;
        self.requests.insert(n, Request { key, state });
        Enqueued::Waits
    }

    /// Takes a request, if it waits.
    pub(super) fn take(&mut self, handle: usize, n: u128) -> bool {
        let request = self.requests.get_mut(&n);
        match request {
            Some(request) if request.state == State::Waits => {
                request.state = State::Taken(handle);
                true
            }
            Some(_) | None => false,
        }
    }

    pub(super) fn cancel(&mut self, n: u128) -> Option<Cancelled> {
        let state = &mut self.requests.get_mut(&n)?.state;
        match state {
            State::Waits => {
                *state = State::Over(Some(QueueFailure::Cancelled));
                Some(Cancelled::Withdrawn)
            }
            State::Taken(_) => Some(Cancelled::Noted),
            State::Runs(_, wish) => {
                *wish = true;
                Some(Cancelled::Noted)
            }
            State::Over(_) => Some(Cancelled::TooLate),
        }
    }

    pub(super) fn in_state(&self, is: impl Fn(&State) -> bool) -> Vec<u128> {
        let found = self.requests.iter().filter(|(_, one)| is(&one.state));
        found.map(|(n, _)| *n).collect()
    }

    pub(super) fn is_due(&self, result: ResultId, now: i64) -> bool {
        self.results.get(&result).is_some_and(|one| {
            !one.is_over && one.due <= now && one.by.is_none_or(|(_, until)| until <= now)
        })
    }

    pub(super) fn due(&self, now: i64) -> Vec<ResultId> {
        let all = self.results.keys().copied();
        all.filter(|result| self.is_due(*result, now)).collect()
    }
}
