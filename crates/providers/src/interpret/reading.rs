//! Reading the answers to a submission, to a look at a task, and to the fetching of a result.

use std::collections::BTreeMap;
use std::time::Duration;

use router_core::{Charge, Failure, Ran};
use serde_json::Value;

use super::failure::{Dialect, submit_default, unreadable};
use super::reply::{Document, Reply};
use crate::definition::{Kind, Pointer, Polled, Pricing, RuleMeaning, SettleOn, State, Step};

/// Most bytes of anything that is kept of an answer: it must fit into a handle with others.
const MAX_KEPT_BYTES: usize = 4096;

const FORGOTTEN: &str = "the provider does not know the task any more";
const NO_TASK: &str = "the provider accepted the request without naming a task";

/// What the answer to a submission says.
#[derive(Debug, PartialEq)]
pub(crate) enum SubmitReading {
    /// It is the result.
    Result {
        /// The result, untouched.
        reply: Reply,
        /// What it costs.
        charge: Charge,
    },
    /// The work goes on.
    Accepted(Task),
}

/// A task that a partner accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// The partner's name of it.
    pub id: String,
    /// What else was kept, by name.
    pub kept: BTreeMap<String, String>,
    /// What the partner said that it takes, in cents.
    pub settled_cents: Option<u64>,
}

/// What the answer to a question about a task says.
#[derive(Debug, PartialEq)]
pub(crate) enum Reading {
    /// Ask again, from the state on.
    Pending,
    /// It is done, or the step to its result went well.
    Done(Reply, Document),
}

impl Dialect {
    /// Reads the answer to a submission.
    ///
    /// # Errors
    /// When the partner turned it away, failed, or said what cannot be interpreted.
    pub(crate) fn read_submit(&self, reply: Reply) -> Result<SubmitReading, Failure> {
        if !reply.is_success() {
            let document = reply.document();
            let verdict = self.error_verdict(Step::Submit, &reply, &document);
            let verdict = verdict.unwrap_or_else(|| submit_default(reply.status));
            return Err(self.submit_failure(verdict, reply, &document));
        }
        let Some(polled) = &self.call.polled else {
            return self.read_at_once(reply);
        };
        let document = reply.document();
        let guarded = self.guard_verdict(Step::Submit, &reply, &document);
        if let Some(verdict) = guarded {
            return Err(self.submit_failure(verdict, reply, &document));
        }
        match document {
            Document::Json(value) => self.accepted(polled, &value).map(SubmitReading::Accepted),
            Document::Other => Err(unreadable()),
        }
    }

    /// Reads a look at a task that was accepted `elapsed` ago.
    ///
    /// # Errors
    /// When the work ended without a result. Trouble with asking is none: it is [`Reading::Pending`].
    pub(crate) fn read_poll(
        &self,
        polled: &Polled,
        reply: Reply,
        elapsed: Duration,
    ) -> Result<Reading, Failure> {
        let document = reply.document();
        if !reply.is_success() {
            let forgotten = matches!(reply.status, 404 | 410) && elapsed >= polled.not_found_grace;
            return self
                .asked_in_vain(Step::Poll, reply, &document, forgotten)
                .map(|()| Reading::Pending);
        }
        if let Some(verdict) = self.guard_verdict(Step::Poll, &reply, &document) {
            if verdict.retryable {
                return Ok(Reading::Pending);
            }
            return Err(self.work_failure(verdict, reply, &document));
        }
        match polled.state.read(reply.status, document.value()) {
            State::Pending | State::Unknown => Ok(Reading::Pending),
            State::Ok => Ok(Reading::Done(reply, document)),
            State::Policy => {
                let verdict = final_verdict(Kind::Policy);
                Err(self.work_failure(verdict, reply, &document))
            }
            State::Failed => {
                let verdict = self.error_verdict(Step::Poll, &reply, &document);
                let kind = verdict.map_or(Kind::Partner, |verdict| verdict.kind);
                let is_free = verdict.is_some_and(|verdict| verdict.free);
                // What has ended is over, whatever a rule says of trying again.
                let verdict = RuleMeaning {
                    free: is_free || polled.state.failed_is_free,
                    ..final_verdict(kind)
                };
                Err(self.work_failure(verdict, reply, &document))
            }
        }
    }

    /// Reads the answer of a step to the result of a task that was accepted `elapsed` ago.
    ///
    /// # Errors
    /// When there is no result after all. Trouble with asking is none: it is [`Reading::Pending`].
    pub(crate) fn read_result(
        &self,
        polled: &Polled,
        reply: Reply,
        elapsed: Duration,
    ) -> Result<Reading, Failure> {
        let document = reply.document();
        if !reply.is_success() {
            let forgotten = matches!(reply.status, 404 | 410) && elapsed >= polled.not_found_grace;
            return self
                .asked_in_vain(Step::Result, reply, &document, forgotten)
                .map(|()| Reading::Pending);
        }
        if let Some(verdict) = self.guard_verdict(Step::Result, &reply, &document) {
            if verdict.retryable {
                return Ok(Reading::Pending);
            }
            return Err(self.work_failure(verdict, reply, &document));
        }
        if !reply.can_be_interpreted() {
            return Err(unreadable());
        }
        Ok(Reading::Done(reply, document))
    }

    /// What a task that is done costs: what the partner said last, or at first, or what was held.
    #[must_use]
    pub(crate) fn charge(&self, settled_cents: Option<u64>, last_word: &Document) -> Charge {
        let last = self.pricing.settled(SettleOn::Result, last_word.value());
        Pricing::charge(last.or(settled_cents))
    }

    /// A synchronous answer.
    fn read_at_once(&self, reply: Reply) -> Result<SubmitReading, Failure> {
        if !matches!(reply.status, 200 | 201) || !reply.can_be_interpreted() {
            return Err(unreadable());
        }
        let settles = [SettleOn::Submit, SettleOn::Result];
        let is_read = settles.iter().any(|on| self.pricing.settles_on(*on));
        if self.call.guards.is_empty() && !is_read {
            let charge = Charge::AsHeld;
            return Ok(SubmitReading::Result { reply, charge });
        }
        let document = reply.document();
        let guarded = self.guard_verdict(Step::Submit, &reply, &document);
        if let Some(verdict) = guarded {
            return Err(self.submit_failure(verdict, reply, &document));
        }
        let mut settled = settles.iter();
        let settled = settled.find_map(|on| self.pricing.settled(*on, document.value()));
        let charge = Pricing::charge(settled);
        Ok(SubmitReading::Result { reply, charge })
    }

    fn accepted(&self, polled: &Polled, document: &Value) -> Result<Task, Failure> {
        let no_task = || Failure::Failed {
            ran: Ran::Perhaps,
            message: NO_TASK.to_owned(),
        };
        let id = kept(&polled.task, document).ok_or_else(no_task)?;
        let kept = keep(&polled.keep, document).ok_or_else(no_task)?;
        let settled_cents = self.pricing.settled(SettleOn::Submit, document);
        Ok(Task {
            id,
            kept,
            settled_cents,
        })
    }

    /// A question that was answered with no success. Only what a rule calls an end is one, or the partner's 400 and 422:
    /// a credential that was withdrawn meanwhile, a full queue or a broken gateway says nothing about the work.
    fn asked_in_vain(
        &self,
        step: Step,
        reply: Reply,
        document: &Document,
        forgotten: bool,
    ) -> Result<(), Failure> {
        match self.error_verdict(step, &reply, document) {
            Some(verdict) if verdict.retryable => Ok(()),
            // Said of the account, not of the work.
            Some(verdict) if verdict.kind == Kind::Account => Ok(()),
            Some(verdict) => Err(self.work_failure(verdict, reply, document)),
            None if matches!(reply.status, 400 | 422) => {
                let verdict = final_verdict(Kind::Content);
                Err(self.work_failure(verdict, reply, document))
            }
            None if forgotten => Err(Failure::Failed {
                ran: Ran::Perhaps,
                message: FORGOTTEN.to_owned(),
            }),
            None => Ok(()),
        }
    }
}

/// Everything that is to be kept of an answer; `None` when something is missing.
#[must_use]
pub(crate) fn keep(
    wanted: &BTreeMap<String, Pointer>,
    document: &Value,
) -> Option<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for (name, pointer) in wanted {
        found.insert(name.clone(), kept(pointer, document)?);
    }
    Some(found)
}

fn kept(pointer: &Pointer, document: &Value) -> Option<String> {
    let text = pointer.text(document)?;
    (!text.is_empty() && text.len() <= MAX_KEPT_BYTES).then_some(text)
}

fn final_verdict(kind: Kind) -> RuleMeaning {
    RuleMeaning {
        kind,
        retryable: false,
        free: false,
    }
}
