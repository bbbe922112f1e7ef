//! What the end of the work at a partner means: for the caller, for the key and for the bill. Pure.

use crate::{
    Answer, Bucket, Charge, Done, Ending, Failure, KeyAfter, Outcome, Ran, ResultLink, RouterError,
    Serving,
};

/// The end of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settlement {
    outcome: Outcome,
    ran: Ran,
    charge_cents: u64,
    /// The partner's own name of the work.
    task_id: Option<String>,
    /// Who served it, if its call names its providers.
    pub(super) serving: Option<Box<Serving>>,
    /// What is to be kept of its result.
    pub(super) results: Vec<ResultLink>,
}

impl Settlement {
    /// What the partner's last word means, given what was held.
    pub(super) fn of(ended: Result<Done, Failure>, held_cents: u64) -> Self {
        let kept = |outcome, charge: Charge| Self {
            outcome,
            ran: Ran::Perhaps,
            charge_cents: charge.cents(held_cents),
            task_id: None,
            serving: None,
            results: Vec::new(),
        };
        match ended {
            Ok(done) => Self {
                task_id: done.task_id,
                ..kept(Outcome::Answered(done.answer), done.charge)
            },
            Err(Failure::Refused { refusal, charge }) => kept(Outcome::Refused(refusal), charge),
            Err(Failure::Policy {
                message,
                detail,
                charge,
            }) => kept(Outcome::Policy { message, detail }, charge),
            Err(Failure::Failed { ran, message }) => {
                Self::failed(Bucket::ProviderError, ran, message)
            }
            Err(Failure::TimedOut { ran, message }) => {
                Self::failed(Bucket::ProviderTimeout, ran, message)
            }
            Err(Failure::Account { ran, message }) => {
                Self::failed(Bucket::ServiceUnavailable, ran, message)
            }
            Err(Failure::Transient { message }) => {
                Self::failed(Bucket::ServiceUnavailable, Ran::Nothing, message)
            }
            Err(Failure::InStream { cause, charge }) => Self {
                charge_cents: charge.cents(held_cents),
                ..Self::of(Err(*cause), held_cents).after(Ran::Perhaps)
            },
        }
    }

    /// The router itself broke while the partner may have worked.
    pub(super) fn broken() -> Self {
        let message = "the router failed while the call was running".to_owned();
        Self::failed(Bucket::InternalError, Ran::Perhaps, message)
    }

    /// The router was stopped before it knew whether the partner accepted.
    pub(super) fn unknown() -> Self {
        let message = "the outcome at the partner is unknown; use a new key".to_owned();
        Self::failed(Bucket::ProviderError, Ran::Perhaps, message)
    }

    /// The caller withdrew it before the partner was asked.
    pub(super) fn withdrawn() -> Self {
        let message = "the request was cancelled before it was sent".to_owned();
        Self::failed(Bucket::ServiceUnavailable, Ran::Nothing, message)
    }

    fn failed(bucket: Bucket, ran: Ran, message: String) -> Self {
        Self {
            outcome: Outcome::Failed { bucket, message },
            ran,
            charge_cents: 0,
            task_id: None,
            serving: None,
            results: Vec::new(),
        }
    }

    /// The same, of work that the partner accepted under this name.
    pub(super) fn named(self, accepted_as: Option<String>) -> Self {
        Self {
            task_id: self.task_id.or(accepted_as),
            ..self
        }
    }

    /// The same, of a call whose attempts before this one set so much going.
    pub(super) fn after(self, ran: Ran) -> Self {
        Self {
            ran: self.ran.max(ran),
            ..self
        }
    }

    /// The same, of a call that names its providers.
    pub(super) fn served(self, serving: Option<Box<Serving>>) -> Self {
        Self { serving, ..self }
    }

    /// Whether work may have run.
    pub(super) fn ran(&self) -> Ran {
        self.ran
    }

    /// How it failed, if that proves that no result and no bill can come of it any more: only then may another partner be
    /// asked. What a partner says of the content is its answer to the call, and no failure.
    pub(super) fn came_to_nothing(&self) -> Option<(Bucket, &str)> {
        match &self.outcome {
            Outcome::Failed { bucket, message } if self.ran.is_proven() => {
                Some((*bucket, message.as_str()))
            }
            Outcome::Answered(_)
            | Outcome::Refused(_)
            | Outcome::Policy { .. }
            | Outcome::Failed { .. } => None,
        }
    }

    /// The result, if it ended with one.
    pub(super) fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            Outcome::Answered(answer) => Some(answer),
            Outcome::Refused(_) | Outcome::Policy { .. } | Outcome::Failed { .. } => None,
        }
    }

    /// The partner's own name of the work.
    pub(super) fn task_id(&self) -> Option<&str> {
        self.task_id.as_deref()
    }

    /// What becomes of the key and the hold.
    pub(super) fn ending(&self) -> Ending {
        let kept = || Ending::Kept {
            outcome: self.outcome.clone(),
            charge_cents: self.charge_cents,
            results: self.results.clone(),
        };
        match self.outcome.bucket() {
            None => kept(),
            Some(bucket) => match bucket.key_after(self.ran != Ran::Nothing) {
                KeyAfter::Kept | KeyAfter::Running => kept(),
                KeyAfter::Released => Ending::Released(bucket),
            },
        }
    }

    /// What the caller gets.
    pub(super) fn result(self) -> Result<Answer, RouterError> {
        told(self.outcome)
    }
}

/// An outcome as its caller gets it, the first time and every other.
pub(super) fn told(outcome: Outcome) -> Result<Answer, RouterError> {
    match outcome {
        Outcome::Answered(answer) => Ok(answer),
        Outcome::Refused(_) | Outcome::Policy { .. } | Outcome::Failed { .. } => {
            Err(RouterError::Ended(outcome))
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::Refusal;

    fn answer() -> Answer {
        Answer {
            content_type: "application/json".to_owned(),
            body: Bytes::from_static(b"{}"),
        }
    }

    fn charged(ended: Result<Done, Failure>) -> Option<u64> {
        match Settlement::of(ended, 7).ending() {
            Ending::Kept { charge_cents, .. } => Some(charge_cents),
            Ending::Released(_) => None,
        }
    }

    #[test]
    fn a_result_is_billed_as_held_unless_the_partner_names_an_amount() {
        let done = |charge| Done {
            answer: answer(),
            charge,
            task_id: None,
        };
        assert_eq!(charged(Ok(done(Charge::AsHeld))), Some(7));
        assert_eq!(charged(Ok(done(Charge::Cents(3)))), Some(3));
        assert_eq!(charged(Ok(done(Charge::Cents(30)))), Some(30));
    }

    #[test]
    fn refusals_are_recorded_and_cost_what_the_partner_charges() {
        let refused = Failure::Refused {
            refusal: Refusal::Detail(answer()),
            charge: Charge::Cents(0),
        };
        assert_eq!(charged(Err(refused)), Some(0));
        let policy = Failure::Policy {
            message: "no".to_owned(),
            detail: None,
            charge: Charge::AsHeld,
        };
        assert_eq!(charged(Err(policy)), Some(7));
    }

    #[test]
    fn a_failure_consumes_the_key_unless_provably_nothing_ran() {
        let message = String::new;
        for (ran, kept) in [
            (Ran::Perhaps, Some(0)),
            (Ran::InVain, Some(0)),
            (Ran::Nothing, None),
        ] {
            let failures = [
                Failure::Failed {
                    ran,
                    message: message(),
                },
                Failure::TimedOut {
                    ran,
                    message: message(),
                },
                Failure::Account {
                    ran,
                    message: message(),
                },
            ];
            for failure in failures {
                assert_eq!(charged(Err(failure.clone())), kept, "{failure:?}");
            }
        }
        assert_eq!(
            charged(Err(Failure::Transient { message: message() })),
            None
        );
    }

    #[test]
    fn our_own_trouble_at_the_partner_is_never_the_callers() {
        let trouble = Failure::Account {
            ran: Ran::Nothing,
            message: "away".to_owned(),
        };
        let told = Settlement::of(Err(trouble), 7)
            .result()
            .expect_err("a failure");
        assert_eq!(told.bucket(), Bucket::ServiceUnavailable);
    }
}
