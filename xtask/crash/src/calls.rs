//! What the world outside knows of calls of models, and what the server may therefore answer.
//!
//! A call has one end: its first answer that keeps its key, or, without a key, any answer. Only a call that was under way when
//! the server was killed may end with an unknown outcome. A power cut may take more of a call without a key: its end is on the
//! disk a quarter of a second after its answer at the latest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::partner::{Behavior, Book, Dispatch, Order};
use super::tally::{Kind, Violation};

/// How long before a power cut the end of a call without a key must be to be on the disk: four times what the program promises,
/// since a machine under load wakes its threads late.
const END_IS_SYNCED: Duration = Duration::from_secs(1);

/// Every call of an installation, beside the book of its partner.
#[derive(Debug)]
pub(super) struct Calls {
    /// By name, which is the idempotency key where there is one.
    pub(super) calls: BTreeMap<String, Call>,
    /// Names of calls that were sent since the last check.
    pub(super) unchecked: BTreeSet<String>,
    pub(super) book: Book,
    /// The API key of the account that pays.
    pub(super) api_key: String,
    /// How often the server was started.
    life: u64,
    /// When the server answered a call last, in this life.
    last_answer: Option<Instant>,
    /// Status and charge of each generation that was reported as settled.
    pub(super) settled: BTreeMap<String, (String, u64)>,
}

/// A call that was sent.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) order: Order,
    pub(super) is_keyed: bool,
    pub(super) is_polled: bool,
    /// Its end, once it was answered.
    pub(super) end: Option<End>,
    /// The life of the server in which it was sent last, while it is not answered.
    waits_since: Option<u64>,
    /// Whether the server was killed while it was under way.
    is_interrupted: bool,
    /// When it was answered, in this life of the server.
    ended_at: Option<Instant>,
    /// Whether the server was killed before it synced what it knew of it. The next start does.
    is_unsynced: bool,
    /// Whether a power cut may have taken what the server knew of it.
    pub(super) may_be_forgotten: bool,
}

/// An answer that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Call {
    /// A call that is about to be sent.
    pub(super) fn new(order: Order, is_keyed: bool, is_polled: bool) -> Self {
        Self {
            order,
            is_keyed,
            is_polled,
            end: None,
            waits_since: None,
            is_interrupted: false,
            ended_at: None,
            is_unsynced: false,
            may_be_forgotten: false,
        }
    }

    /// The path of its model.
    pub(super) fn target(&self) -> &'static str {
        match self.is_polled {
            true => "/v1/models/crash/later",
            false => "/v1/models/crash/now",
        }
    }

    /// Its body.
    pub(super) fn body(&self) -> String {
        serde_json::to_string(&self.order).unwrap_or_default()
    }
}

impl Calls {
    pub(super) fn new(book: Book, api_key: String) -> Self {
        Self {
            calls: BTreeMap::new(),
            unchecked: BTreeSet::new(),
            book,
            api_key,
            life: 0,
            last_answer: None,
            settled: BTreeMap::new(),
        }
    }

    /// The server is started again: what was not answered before never will be.
    pub(super) fn restarted(&mut self) {
        for call in self.calls.values_mut() {
            call.is_unsynced |= call.may_be_unsynced(self.life, self.last_answer);
            call.is_interrupted |= call.waits_since.is_some();
            call.ended_at = None;
        }
        self.life += 1;
        self.last_answer = None;
    }

    /// The server has started: what the one before left is on the disk.
    pub(super) fn recovered(&mut self) {
        for call in self.calls.values_mut() {
            call.is_unsynced = false;
        }
    }

    /// The server died of a power cut, and was not started again yet.
    pub(super) fn lost_power(&mut self) {
        for call in self.calls.values_mut() {
            let is_unsynced = call.may_be_unsynced(self.life, self.last_answer);
            call.may_be_forgotten |= call.is_unsynced || is_unsynced;
        }
    }

    /// A call is about to be sent, perhaps once more.
    pub(super) fn sending(&mut self, name: &str, call: impl FnOnce() -> Call) {
        let life = self.life;
        let call = self.calls.entry(name.to_owned()).or_insert_with(call);
        call.waits_since = Some(life);
        self.unchecked.insert(name.to_owned());
    }

    /// A call was answered; `replayed` says whether the server calls the answer a stored one.
    pub(super) fn answered(
        &mut self,
        name: &str,
        (status, body): (u16, &[u8]),
        replayed: bool,
    ) -> Result<(), Violation> {
        let dispatches = self.dispatches(name);
        let now = Instant::now();
        self.last_answer = Some(now);
        let Some(call) = self.calls.get_mut(name) else {
            return Ok(());
        };
        call.waits_since = None;
        call.ended_at = Some(now);
        let text = || String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
        if let Some(end) = &call.end {
            if (end.status, &end.body[..]) != (status, body) {
                let before = end.status;
                let what = format!(
                    "call {name} was answered {before} and now {status}: {}",
                    text()
                );
                return Err(Violation::new(Kind::Lost, what));
            }
            if !replayed {
                let what = format!("call {name} was answered before and is carried out again");
                return Err(Violation::new(Kind::Duplicated, what));
            }
            return Ok(());
        }
        let may_be_unknown = call.may_be_unknown(&dispatches);
        let fits = match (status, call.order.behavior) {
            (200, Behavior::Answer | Behavior::Busy) => {
                if !dispatches.iter().any(|dispatch| dispatch.result == body) {
                    let what =
                        format!("call {name} is answered with bytes that the partner never gave");
                    return Err(Violation::new(Kind::Partial, what));
                }
                true
            }
            (422, Behavior::Refuse) | (502, Behavior::Break | Behavior::Cut) => true,
            // Provably nothing ran, so the key is free again.
            (503, Behavior::Busy) => return Ok(()),
            (502, _) => may_be_unknown,
            _ => false,
        };
        if !fits {
            let what = format!("call {name} was answered {status}: {}", text());
            let kind = if call.is_interrupted {
                Kind::Lost
            } else {
                Kind::Fault
            };
            return Err(Violation::new(kind, what));
        }
        call.end = Some(End {
            status,
            body: body.to_vec(),
        });
        Ok(())
    }

    /// The dispatches of a call, oldest first.
    pub(super) fn dispatches(&self, name: &str) -> Vec<Dispatch> {
        let dispatches = self.book.lock();
        let own = dispatches.iter().filter(|dispatch| dispatch.call == name);
        own.cloned().collect()
    }

    /// Calls that have an answer.
    pub(super) fn acknowledged(&self) -> u64 {
        let ended = self.calls.values().filter(|call| call.end.is_some());
        ended.count() as u64
    }
}

impl Call {
    /// Whether what the server knows of it at the end of a life may not be synced.
    fn may_be_unsynced(&self, life: u64, last_answer: Option<Instant>) -> bool {
        // The server died after its last answer, at a time that is not known.
        let is_fresh = match (self.ended_at, last_answer) {
            (Some(ended), Some(last)) => last.duration_since(ended) < END_IS_SYNCED,
            (None, _) | (Some(_), None) => self.waits_since == Some(life),
        };
        is_fresh && !self.is_keyed
    }

    /// Whether its outcome may be unknown to the server: it was killed meanwhile, and did not ask after the task yet, which
    /// it does only once the task is on the disk.
    pub(super) fn may_be_unknown(&self, dispatches: &[Dispatch]) -> bool {
        let is_known = |dispatch: &Dispatch| dispatch.is_task && dispatch.looked > 0;
        self.is_interrupted && !dispatches.iter().any(is_known)
    }
}

#[cfg(test)]
mod tests;
