//! What happens to a call, in the form that rows and the log hold: texts and numbers, times in microseconds.

use std::time::Duration;

use accounts::{AccountId, KeyId};
use jiff::Timestamp;
use postcard::ser_flavors::Flavor;
use router_core::{Bucket, CallRecord, Ending, Generation, GenerationId, Handle, ModelId};
use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use super::columns::{OutcomeColumns, RELEASED, Replay};
use crate::accounts::Bill;
use crate::columns::unreadable;

/// An entry of the log. It is read by later programs: a new kind goes to the end, and none of them changes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Event<'a> {
    #[serde(borrow)]
    Begun(Begun<'a>),
    #[serde(borrow)]
    Accepted(Accepted<'a>),
    #[serde(borrow)]
    Ended(Ended<'a>),
    #[serde(borrow)]
    Recorded(Recorded<'a>),
    /// As `Begun`, of which only older programs write one, with when its call came.
    #[serde(borrow)]
    Dispatched(Dispatched<'a>),
    /// Before the entry of what has the labels.
    #[serde(borrow)]
    Labelled(Labelled<'a>),
    /// As `Dispatched`, for a call with an API key.
    DispatchedBy(#[serde(borrow)] Dispatched<'a>, &'a str),
    /// As `Recorded`, of a call with an API key.
    RecordedBy(#[serde(borrow)] Recorded<'a>, &'a str),
    /// As `Dispatched`, for a call with an idempotency key, and with the API key if it had one.
    Keyed(
        #[serde(borrow)] Dispatched<'a>,
        #[serde(borrow)] KeyColumns<'a>,
        Option<&'a str>,
    ),
    /// As `Ended`, of a generation with an idempotency key.
    KeyedEnded(#[serde(borrow)] Ended<'a>, #[serde(borrow)] ReplayBody<'a>),
}

/// The idempotency key of a generation.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct KeyColumns<'a> {
    #[serde(borrow)]
    pub(super) key: Raw<'a>,
    #[serde(borrow)]
    pub(super) fingerprint: Raw<'a>,
    pub(super) expires_at: i64,
}

/// The bytes that a key answers again, and when it expires.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct ReplayBody<'a> {
    #[serde(borrow)]
    pub(super) body: Raw<'a>,
    pub(super) expires_at: i64,
}

/// Bytes that are written at once and not one by one.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Raw<'a>(pub(super) &'a [u8]);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// A generation is dispatched for a call.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Dispatched<'a> {
    #[serde(borrow)]
    pub(super) begun: Begun<'a>,
    pub(super) received_at: i64,
}

/// A generation is dispatched.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Begun<'a> {
    pub(super) id: Uuid,
    pub(super) account: &'a str,
    pub(super) model: &'a str,
    pub(super) hold_cents: i64,
    pub(super) at: i64,
}

/// Its partner works on it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Accepted<'a> {
    pub(super) id: Uuid,
    pub(super) handle: &'a [u8],
    pub(super) poll_after_ms: i64,
    pub(super) task_id: Option<&'a str>,
    pub(super) at: i64,
}

/// It ends.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ended<'a> {
    pub(super) id: Uuid,
    pub(super) account: &'a str,
    pub(super) charge_cents: i64,
    /// Whether there is an account that pays.
    pub(super) is_billed: bool,
    #[serde(borrow)]
    pub(super) outcome: OutcomeColumns<'a>,
    pub(super) replay: Replay,
    pub(super) task_id: Option<&'a str>,
    pub(super) at: i64,
}

/// An HTTP request is answered.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Recorded<'a> {
    pub(super) request: Uuid,
    pub(super) account: &'a str,
    pub(super) model: Option<&'a str>,
    pub(super) key: Option<[u8; 32]>,
    pub(super) generation: Option<Uuid>,
    pub(super) bucket: Option<&'a str>,
    pub(super) replayed: bool,
    pub(super) received_at: i64,
    pub(super) answered_at: i64,
    pub(super) delivered: bool,
}

/// A call has labels.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Labelled<'a> {
    pub(super) request: Uuid,
    pub(super) received_at: i64,
    /// As [`router_core::write_labels`] writes them.
    pub(super) labels: &'a str,
}

/// A generation whose row is not there yet, with what has happened to it since.
#[derive(Debug)]
pub(super) struct Life<'a> {
    pub(super) begun: Begun<'a>,
    /// When its call came, unless an older program wrote it down.
    pub(super) received_at: Option<i64>,
    /// The API key of its call, if it had one.
    pub(super) api_key: Option<&'a str>,
    pub(super) accepted: Option<Accepted<'a>>,
    pub(super) ended: Option<Ended<'a>>,
    /// Its idempotency key, if it has one,
    pub(super) key: Option<KeyColumns<'a>>,
    /// and what that answers again, once it ended.
    pub(super) replay: Option<ReplayBody<'a>>,
}

/// Writes behind what is there.
struct Behind<'a>(&'a mut Vec<u8>);

/// An entry of the log that this program does not know, or that is none.
#[derive(Debug, thiserror::Error)]
#[error("the log of calls cannot be read")]
struct Unreadable(#[source] postcard::Error);

impl Flavor for Behind<'_> {
    type Output = ();

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(data);
        Ok(())
    }

    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.0.push(data);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

impl Event<'_> {
    /// Adds the entry to others.
    pub(super) fn write(&self, entries: &mut Vec<u8>) {
        let written = postcard::serialize_with_flavor(self, Behind(entries));
        written.expect("texts and numbers can be written into memory");
    }

    /// When it happened, in microseconds.
    pub(super) fn at(&self) -> i64 {
        match self {
            Self::Begun(begun) => begun.at,
            Self::Accepted(accepted) => accepted.at,
            Self::Ended(ended) | Self::KeyedEnded(ended, _) => ended.at,
            Self::Recorded(recorded) | Self::RecordedBy(recorded, _) => recorded.answered_at,
            Self::Dispatched(dispatched)
            | Self::DispatchedBy(dispatched, _)
            | Self::Keyed(dispatched, ..) => dispatched.begun.at,
            Self::Labelled(labelled) => labelled.received_at,
        }
    }
}

/// The entries that stand one after the other, up to the first that cannot be read.
pub(super) fn read(mut entries: &[u8]) -> impl Iterator<Item = rusqlite::Result<Event<'_>>> {
    std::iter::from_fn(move || {
        if entries.is_empty() {
            return None;
        }
        let (event, rest) = match postcard::take_from_bytes(entries) {
            Ok((event, rest)) => (Ok(event), rest),
            Err(error) => (Err(unreadable(Unreadable(error))), Default::default()),
        };
        entries = rest;
        Some(event)
    })
}

impl<'a> Event<'a> {
    /// A generation is dispatched, with its idempotency key if it has one.
    pub(super) fn of_dispatch(generation: &'a Generation, key: Option<KeyColumns<'a>>) -> Self {
        let dispatched = Dispatched::of(generation);
        let api_key = generation.api_key.as_ref().map(KeyId::as_str);
        match (key, api_key) {
            (Some(key), api_key) => Self::Keyed(dispatched, key, api_key),
            (None, Some(api_key)) => Self::DispatchedBy(dispatched, api_key),
            (None, None) => Self::Dispatched(dispatched),
        }
    }

    /// An HTTP request is answered.
    pub(super) fn of_record(call: &'a CallRecord) -> Self {
        let recorded = Recorded::of(call);
        match &call.api_key {
            Some(key) => Self::RecordedBy(recorded, key.as_str()),
            None => Self::Recorded(recorded),
        }
    }
}

impl<'a> Dispatched<'a> {
    pub(super) fn of(generation: &'a Generation) -> Self {
        let begun = Begun {
            id: generation.id.0,
            account: generation.account.as_str(),
            model: generation.model.as_str(),
            hold_cents: cents(generation.hold_cents),
            at: generation.dispatched_at.as_microsecond(),
        };
        Self {
            begun,
            received_at: generation.received_at.as_microsecond(),
        }
    }
}

impl<'a> Labelled<'a> {
    pub(super) fn of(request: Uuid, received_at: Timestamp, labels: &'a str) -> Self {
        Self {
            request,
            received_at: received_at.as_microsecond(),
            labels,
        }
    }

    /// The labels of the call that begins a generation.
    pub(super) fn of_generation(generation: &Generation, labels: &'a str) -> Self {
        Self::of(generation.id.0, generation.received_at, labels)
    }
}

impl<'a> Life<'a> {
    /// A generation that has begun.
    pub(super) fn new(
        begun: Begun<'a>,
        received_at: Option<i64>,
        api_key: Option<&'a str>,
    ) -> Self {
        Self {
            begun,
            received_at,
            api_key,
            accepted: None,
            ended: None,
            key: None,
            replay: None,
        }
    }

    /// The entries that it was made of.
    pub(super) fn into_entries(self) -> impl Iterator<Item = Event<'a>> {
        let begun = self.begun;
        let begun = match (self.received_at, self.key, self.api_key) {
            (Some(received_at), Some(key), api_key) => {
                Event::Keyed(Dispatched { begun, received_at }, key, api_key)
            }
            (Some(received_at), None, None) => Event::Dispatched(Dispatched { begun, received_at }),
            (Some(received_at), None, Some(key)) => {
                Event::DispatchedBy(Dispatched { begun, received_at }, key)
            }
            (None, ..) => Event::Begun(begun),
        };
        let ended = match (self.ended, self.replay) {
            (Some(ended), Some(replay)) => Some(Event::KeyedEnded(ended, replay)),
            (Some(ended), None) => Some(Event::Ended(ended)),
            (None, _) => None,
        };
        let accepted = self.accepted.map(Event::Accepted);
        std::iter::once(begun).chain(accepted).chain(ended)
    }
}

impl<'a> Accepted<'a> {
    pub(super) fn of(
        id: GenerationId,
        handle: &'a Handle,
        poll_after: Duration,
        task_id: Option<&'a str>,
        now: Timestamp,
    ) -> Self {
        Self {
            id: id.0,
            handle: &handle.0,
            poll_after_ms: i64::try_from(poll_after.as_millis()).unwrap_or(i64::MAX),
            task_id,
            at: now.as_microsecond(),
        }
    }
}

impl<'a> Ended<'a> {
    pub(super) fn of(
        (id, account): (GenerationId, &'a AccountId),
        ending: &'a Ending,
        replay: Replay,
        task_id: Option<&'a str>,
        now: Timestamp,
    ) -> Self {
        Self {
            id: id.0,
            account: account.as_str(),
            charge_cents: cents(ending.charge_cents()),
            is_billed: false,
            outcome: OutcomeColumns::of(ending),
            replay,
            task_id,
            at: now.as_microsecond(),
        }
    }

    /// Whether nothing ran, so that its key is free again.
    pub(super) fn is_released(&self) -> bool {
        self.outcome.outcome == RELEASED
    }

    /// What goes into the ledger, if anything does.
    pub(super) fn bill(&self) -> Option<Bill<'a>> {
        (self.is_billed && self.charge_cents > 0).then_some(Bill {
            account: self.account,
            generation: self.id,
            charge_cents: self.charge_cents,
            at: self.at,
        })
    }
}

impl<'a> Recorded<'a> {
    pub(super) fn of(call: &'a CallRecord) -> Self {
        Self {
            request: call.request.0,
            account: call.account.as_str(),
            model: call.model.as_ref().map(ModelId::as_str),
            key: call.key.map(|key| key.0),
            generation: call.generation.map(|generation| generation.0),
            bucket: call.bucket.map(Bucket::name),
            replayed: call.replayed,
            received_at: call.received_at.as_microsecond(),
            answered_at: call.answered_at.as_microsecond(),
            delivered: call.delivered,
        }
    }
}

/// An amount as a column holds it; what is more than there is of anything is cut off.
fn cents(cents: u64) -> i64 {
    i64::try_from(cents).unwrap_or(i64::MAX)
}
