//! Webhooks: which events of an account are delivered to which address, in which order, and what follows from each attempt.
//!
//! Pure decisions and the two ports of the store that keeps them. An event is written down in the transaction that makes it
//! true; what is written down is delivered at least once, and for one object in order. Knows no job, call, socket or clock.
//! Start at [`Webhook`] and [`Event`]; [`judge`] decides what an attempt leads to, and [`Lanes`] who is sent to next.
//!
#![doc = include_str!("../README.md")]

mod attempt;
mod delivery;
mod event;
mod id;
mod lanes;
mod memory;
mod port;
mod secret;
mod signature;
mod url;
mod webhook;

pub mod contract;

pub use attempt::{AttemptOutcome, Attempted, GIVE_UP_AFTER, Judged, judge, retry_delay};
pub use delivery::{Delivery, DeliveryState, DueWebhook, LastAttempt};
pub use event::{
    BudgetReached, CallEnded, Event, EventKind, EventKinds, InvalidEventKinds, JobFact,
};
pub use id::{InvalidWebhookId, MessageId, WebhookId};
pub use lanes::{LaneSizes, Lanes};
pub use memory::MemoryWebhooks;
pub use port::{DuePage, DueQuery, Outbox, Webhooks, WebhooksError};
pub use secret::{PREFIX as SECRET_PREFIX, SecretVersions, Secrets, signing_secret};
pub use signature::{SignatureError, body, sign, verify};
pub use url::{InvalidWebhookUrl, WebhookUrl};
pub use webhook::{
    DisabledReason, Health, MOST_WAITING, MOST_WEBHOOKS, Webhook, WebhookChange, WebhookState,
};
