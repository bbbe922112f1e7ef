//! What happened, in the form that is written down and delivered.
//!
//! The data of an event is small: ids, states and amounts. A receiver that wants more asks the API for the object.

use std::fmt;
use std::str::FromStr;

use accounts::{AccountId, BudgetLeft, BudgetScope, OverBudget};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use crate::{DisabledReason, WebhookId};

/// Kinds of events, by the names that receivers see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    /// A job was taken in.
    JobCreated,
    /// A job ended, whatever its end.
    JobEnded,
    /// A call of a model, queued or not, ended.
    CallEnded,
    /// A budget left too little for a call: the first time in its window.
    BudgetReached,
    /// Another webhook of the account was disabled.
    WebhookDisabled,
    /// An operator asked for a test. It goes to one webhook, whatever that one wants.
    WebhookTest,
}

/// A set of kinds that can be asked for; written as their names with commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventKinds(u8);

/// The text names no kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "events are job.created, job.ended, call.ended, budget.reached and webhook.disabled: at least one, separated by commas or spaces"
)]
pub struct InvalidEventKinds;

/// What happened to an object of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose it is.
    pub account: AccountId,
    /// What happened.
    pub kind: EventKind,
    /// What it happened to: events of equal objects are delivered in their order.
    pub object: String,
    /// When it happened.
    pub at: Timestamp,
    /// A JSON object for the receiver.
    pub data: String,
}

/// What is told of a job.
#[derive(Clone, Copy, Debug)]
pub struct JobFact<'a> {
    /// Whose it is.
    pub account: &'a AccountId,
    /// The job.
    pub id: Uuid,
    /// Its status, as v2 of the workflow API spells it.
    pub status: &'a str,
    /// When it had it.
    pub at: Timestamp,
}

/// What is told of a call that ended.
#[derive(Clone, Copy, Debug)]
pub struct CallEnded<'a> {
    /// Whose it is.
    pub account: &'a AccountId,
    /// The generation, which is the queued request as well, if it was one.
    pub id: Uuid,
    /// The model.
    pub model: &'a str,
    /// The kind of its error, as the router spells it; `None` if it succeeded.
    pub error_type: Option<&'a str>,
    /// Whether its caller cancelled it, if it did not succeed.
    pub is_cancelled: bool,
    /// What was charged, in US cents.
    pub charge_cents: u64,
    /// When it ended.
    pub at: Timestamp,
}

/// What is told of a budget.
#[derive(Clone, Copy, Debug)]
pub struct BudgetReached<'a> {
    /// Whose it is.
    pub account: &'a AccountId,
    /// The API key or label that it bounds; `None` for the account's own.
    pub of: Option<&'a BudgetScope>,
    /// The budget, and what is left of it.
    pub left: BudgetLeft,
    /// When the first call was refused.
    pub at: Timestamp,
}

impl EventKind {
    /// The kinds that a webhook can ask for, in the order in which they are listed.
    pub const ALL: [Self; 5] = [
        Self::JobCreated,
        Self::JobEnded,
        Self::CallEnded,
        Self::BudgetReached,
        Self::WebhookDisabled,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::JobCreated => "job.created",
            Self::JobEnded => "job.ended",
            Self::CallEnded => "call.ended",
            Self::BudgetReached => "budget.reached",
            Self::WebhookDisabled => "webhook.disabled",
            Self::WebhookTest => "webhook.test",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = Self::ALL.into_iter().chain([Self::WebhookTest]);
        all.into_iter().find(|kind| kind.name() == name)
    }

    /// Its bit in a set.
    fn bit(self) -> u8 {
        match self {
            Self::JobCreated => 1,
            Self::JobEnded => 2,
            Self::CallEnded => 4,
            Self::BudgetReached => 8,
            Self::WebhookDisabled => 16,
            // It is in no set: nobody asks for it.
            Self::WebhookTest => 0,
        }
    }
}

impl EventKinds {
    /// These kinds.
    ///
    /// # Errors
    /// If there is none that can be asked for.
    pub fn of(kinds: impl IntoIterator<Item = EventKind>) -> Result<Self, InvalidEventKinds> {
        let bits = kinds.into_iter().fold(0, |bits, kind| bits | kind.bit());
        Self::from_bits(bits)
    }

    /// The set that a store wrote as a number.
    ///
    /// # Errors
    /// If it is no such set.
    pub fn from_bits(bits: u8) -> Result<Self, InvalidEventKinds> {
        match (1..32).contains(&bits) {
            true => Ok(Self(bits)),
            false => Err(InvalidEventKinds),
        }
    }

    /// The set as a number: a bit for each kind, for good.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether a kind is in it.
    #[must_use]
    pub fn has(self, kind: EventKind) -> bool {
        self.0 & kind.bit() != 0
    }

    /// Its kinds, in the order in which they are listed.
    pub fn iter(self) -> impl Iterator<Item = EventKind> {
        EventKind::ALL
            .into_iter()
            .filter(move |kind| self.has(*kind))
    }
}

impl FromStr for EventKinds {
    type Err = InvalidEventKinds;

    fn from_str(text: &str) -> Result<Self, InvalidEventKinds> {
        let names = text.split([',', ' ']).filter(|name| !name.is_empty());
        let kinds = names.map(|name| EventKind::ALL.into_iter().find(|kind| kind.name() == name));
        let kinds: Option<Vec<EventKind>> = kinds.collect();
        Self::of(kinds.ok_or(InvalidEventKinds)?)
    }
}

impl fmt::Display for EventKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(EventKind::name).collect();
        f.write_str(&names.join(","))
    }
}

impl Event {
    /// A job was taken in.
    #[must_use]
    pub fn job_created(job: JobFact<'_>) -> Self {
        Self::of_job(EventKind::JobCreated, job)
    }

    /// A job ended.
    #[must_use]
    pub fn job_ended(job: JobFact<'_>) -> Self {
        Self::of_job(EventKind::JobEnded, job)
    }

    fn of_job(kind: EventKind, job: JobFact<'_>) -> Self {
        let data = json!({
            "id": job.id,
            "account": job.account.as_str(),
            "status": job.status,
        });
        Self {
            account: job.account.clone(),
            kind,
            object: format!("job {}", job.id),
            at: job.at,
            data: data.to_string(),
        }
    }

    /// A call ended.
    #[must_use]
    pub fn call_ended(call: CallEnded<'_>) -> Self {
        let status = match (call.error_type, call.is_cancelled) {
            (None, _) => "succeeded",
            (Some(_), false) => "failed",
            (Some(_), true) => "cancelled",
        };
        let data = json!({
            "id": call.id,
            "account": call.account.as_str(),
            "model": call.model,
            "status": status,
            "error_type": call.error_type,
            "charge_cents": call.charge_cents,
        });
        Self {
            account: call.account.clone(),
            kind: EventKind::CallEnded,
            object: format!("call {}", call.id),
            at: call.at,
            data: data.to_string(),
        }
    }

    /// A budget was reached.
    #[must_use]
    pub fn budget_reached(reached: BudgetReached<'_>) -> Self {
        let BudgetReached {
            account,
            of,
            left,
            at,
        } = reached;
        let budget = OverBudget::budget_name(of, left.window);
        let data = json!({
            "account": account.as_str(),
            "of": of.map(ToString::to_string),
            "window": left.window.name(),
            "limit_cents": left.limit_cents,
            "left_cents": left.left_cents,
            "ends_at": second(left.ends_at),
        });
        Self {
            account: account.clone(),
            kind: EventKind::BudgetReached,
            object: format!("budget {budget}"),
            at,
            data: data.to_string(),
        }
    }

    /// A webhook was disabled.
    #[must_use]
    pub fn webhook_disabled(
        account: &AccountId,
        webhook: WebhookId,
        reason: DisabledReason,
        at: Timestamp,
    ) -> Self {
        let data = json!({
            "id": webhook.0,
            "account": account.as_str(),
            "reason": reason.name(),
        });
        Self {
            account: account.clone(),
            kind: EventKind::WebhookDisabled,
            object: format!("webhook {webhook}"),
            at,
            data: data.to_string(),
        }
    }

    /// An operator asked for a test.
    #[must_use]
    pub fn test(account: &AccountId, webhook: WebhookId, at: Timestamp) -> Self {
        let data = json!({ "id": webhook.0, "account": account.as_str() });
        Self {
            account: account.clone(),
            kind: EventKind::WebhookTest,
            object: format!("webhook {webhook}"),
            at,
            data: data.to_string(),
        }
    }
}

/// To the second, as the APIs tell times.
pub(crate) fn second(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_as_they_are_read() {
        for text in [
            "job.created",
            "job.ended,call.ended",
            "job.created,job.ended,call.ended,budget.reached,webhook.disabled",
        ] {
            let kinds: EventKinds = text.parse().expect(text);
            assert_eq!(kinds.to_string(), text);
            assert_eq!(EventKinds::from_bits(kinds.bits()), Ok(kinds));
        }
        let spaced: EventKinds = "call.ended  job.ended"
            .parse()
            .expect("spaces separate too");
        assert_eq!(spaced.to_string(), "job.ended,call.ended");
        for text in ["", " , ", "job", "webhook.test", "job.ended,other"] {
            assert_eq!(text.parse::<EventKinds>(), Err(InvalidEventKinds), "{text}");
        }
        assert_eq!(EventKinds::from_bits(32), Err(InvalidEventKinds));
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for kind in EventKind::ALL.into_iter().chain([EventKind::WebhookTest]) {
            assert_eq!(EventKind::named(kind.name()), Some(kind));
        }
        assert_eq!(EventKind::named("job"), None);
    }

    #[test]
    fn the_data_of_a_call_names_what_a_receiver_looks_for() {
        let account = AccountId::local();
        let event = Event::call_ended(CallEnded {
            account: &account,
            id: Uuid::nil(),
            model: "bfl/flux-2-pro",
            error_type: Some("provider_error"),
            is_cancelled: false,
            charge_cents: 0,
            at: Timestamp::UNIX_EPOCH,
        });
        assert_eq!(
            event.data,
            r#"{"id":"00000000-0000-0000-0000-000000000000","account":"local","model":"bfl/flux-2-pro","status":"failed","error_type":"provider_error","charge_cents":0}"#
        );
        assert_eq!(event.object, "call 00000000-0000-0000-0000-000000000000");
    }
}
