//! What an answer that is no result means: one table for statuses, rules before it, and one way to tell a caller.

use router_core::{Charge, Failure, Ran, Refusal};
use serde_json::Value;

use super::reply::{Document, Reply};
use crate::definition::{
    Call, Charges, Events, Kind, ModelFile, PartnerFile, Pricing, Rule, RuleMeaning, Said, Step,
    Texts, first_match,
};

/// Most bytes of a partner's text that are told on.
const MAX_TEXT_BYTES: usize = 2048;

/// Most bytes of a partner's code that are told on.
const MAX_CODE_BYTES: usize = 128;

const POLICY: &str = "the provider rejected the request on content-policy grounds";
const REJECTED: &str = "the provider rejected the input";
const FAILED: &str = "the provider failed to run the model";
const GAVE_UP: &str = "the provider gave up waiting for the model";
pub(crate) const NOT_SERVED: &str =
    "the provider does not serve this router at the moment; try again later";
const BUSY: &str = "the provider is busy; try again later";
const UNREADABLE: &str = "the provider's answer cannot be interpreted";

/// All that is known of how one model's partner speaks.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    /// The call that the model takes.
    pub call: Call,
    /// How it answers with a stream, if the model gives one.
    pub events: Option<Events>,
    /// The call's rules, then the partner's.
    errors: Vec<Rule>,
    texts: Texts,
    /// What calls cost.
    pub pricing: Pricing,
    charges: Charges,
}

impl Dialect {
    /// Joins what the partner's file and the model's say.
    #[must_use]
    pub(crate) fn new(partner: &PartnerFile, call: &Call, model: &ModelFile) -> Self {
        Self {
            call: call.clone(),
            events: model.stream.and_then(|_| call.events.clone()),
            errors: call.errors.iter().chain(&partner.errors).cloned().collect(),
            texts: partner.texts.clone(),
            pricing: model.price.clone(),
            charges: model.charges_on_policy_rejection,
        }
    }

    /// The rules about failures: the call's, then the partner's.
    pub(crate) fn errors(&self) -> &[Rule] {
        &self.errors
    }

    /// What a rule says of an answer that is no success.
    pub(super) fn error_verdict(
        &self,
        step: Step,
        reply: &Reply,
        document: &Document,
    ) -> Option<RuleMeaning> {
        first_match(&self.errors, said(step, reply, document))
    }

    /// What a rule says of an answer that looks like a success.
    pub(super) fn guard_verdict(
        &self,
        step: Step,
        reply: &Reply,
        document: &Document,
    ) -> Option<RuleMeaning> {
        first_match(&self.call.guards, said(step, reply, document))
    }

    /// The failure of a submission.
    pub(super) fn submit_failure(
        &self,
        verdict: RuleMeaning,
        reply: Reply,
        document: &Document,
    ) -> Failure {
        // A partner that turns a request away with its 4xx has not begun; 408 and 409 are said by some after they have.
        let turned_away = (400..500).contains(&reply.status) && !matches!(reply.status, 408 | 409);
        let ran = if turned_away || verdict.kind == Kind::Account {
            Ran::Nothing
        } else {
            Ran::Perhaps
        };
        self.failure(verdict, ran, reply, document)
    }

    /// The failure of work that was accepted.
    pub(super) fn work_failure(
        &self,
        verdict: RuleMeaning,
        reply: Reply,
        document: &Document,
    ) -> Failure {
        self.failure(verdict, Ran::Perhaps, reply, document)
    }

    fn failure(
        &self,
        verdict: RuleMeaning,
        ran: Ran,
        reply: Reply,
        document: &Document,
    ) -> Failure {
        let ran = if ran == Ran::Perhaps && verdict.free {
            Ran::InVain
        } else {
            ran
        };
        match verdict.kind {
            Kind::Policy => Failure::Policy {
                message: POLICY.to_owned(),
                detail: has_detail(document).then(|| reply.into_answer()),
                charge: self.policy_charge(),
            },
            Kind::Content => Failure::Refused {
                refusal: self.refusal(reply, document),
                charge: Charge::Cents(0),
            },
            Kind::Account | Kind::Partner if verdict.retryable => Failure::Transient {
                message: BUSY.to_owned(),
            },
            Kind::Account => Failure::Account {
                ran,
                message: NOT_SERVED.to_owned(),
            },
            Kind::Partner => Failure::Failed {
                ran,
                message: FAILED.to_owned(),
            },
            Kind::Timeout => Failure::TimedOut {
                ran,
                message: GAVE_UP.to_owned(),
            },
        }
    }

    fn refusal(&self, reply: Reply, document: &Document) -> Refusal {
        if has_detail(document) {
            return Refusal::Detail(reply.into_answer());
        }
        let first = |pointers: &[crate::definition::Pointer]| {
            let mut texts = pointers.iter().map(|at| at.text(document.value()));
            texts.find_map(|text| text.filter(|text| !text.is_empty()))
        };
        let code = first(&self.texts.code);
        let message = first(&self.texts.message);
        Refusal::Content {
            code: cut(
                code.unwrap_or_else(|| "rejected".to_owned()),
                MAX_CODE_BYTES,
            ),
            message: cut(
                message.unwrap_or_else(|| REJECTED.to_owned()),
                MAX_TEXT_BYTES,
            ),
        }
    }

    /// What a rejection on grounds of policy costs: what the catalog states, and nothing where it states nothing.
    fn policy_charge(&self) -> Charge {
        match self.charges {
            Charges::Yes => Charge::AsHeld,
            Charges::No | Charges::Unknown => Charge::Cents(0),
        }
    }
}

fn said<'a>(step: Step, reply: &'a Reply, document: &'a Document) -> Said<'a> {
    Said {
        step,
        status: reply.status,
        headers: &reply.headers,
        document: document.value(),
    }
}

/// What a status means by itself, for a submission.
pub(crate) fn submit_default(status: u16) -> RuleMeaning {
    let (kind, retryable) = match status {
        400 | 413 | 415 | 422 => (Kind::Content, false),
        401..=403 => (Kind::Account, false),
        408 | 504 => (Kind::Timeout, false),
        429 => (Kind::Account, true),
        _ => (Kind::Partner, false),
    };
    RuleMeaning {
        kind,
        retryable,
        free: false,
    }
}

/// An answer that nothing can be made of.
pub(super) fn unreadable() -> Failure {
    Failure::Failed {
        ran: Ran::Perhaps,
        message: UNREADABLE.to_owned(),
    }
}

/// Whether a body is the model's own list of what is wrong with the input.
fn has_detail(document: &Document) -> bool {
    let detail = document.value().get("detail").and_then(Value::as_array);
    detail.is_some_and(|entries| !entries.is_empty() && entries.iter().all(Value::is_object))
}

/// The beginning of a text, whole characters only.
fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
    }
    text
}
