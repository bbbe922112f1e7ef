//! A message on its way to a webhook.

use jiff::Timestamp;

use crate::{Event, MessageId, Webhook, WebhookId};

/// An event that was written down for a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its place: of two events of one object, the earlier one has the lower place.
    pub place: u64,
    /// Where it goes.
    pub webhook: WebhookId,
    /// Its `webhook-id`.
    pub message: MessageId,
    /// What happened.
    pub event: Event,
    /// How far it is.
    pub state: DeliveryState,
    /// Attempts so far.
    pub attempts: u32,
    /// When the first attempt was that failed.
    pub failing_since: Option<Timestamp>,
    /// What came of the newest attempt.
    pub last: Option<LastAttempt>,
}

/// How far a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// It waits, and is tried from then on.
    Waiting {
        /// When.
        next_at: Timestamp,
    },
    /// The receiver has it.
    Delivered {
        /// Since when.
        at: Timestamp,
    },
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastAttempt {
    /// When it was over.
    pub at: Timestamp,
    /// The status that the receiver answered, if it answered.
    pub status: Option<u16>,
    /// For people, why it failed.
    pub error: Option<String>,
}

impl Delivery {
    /// Its webhook is enabled again: what waits is due at once and has another day. What was due already keeps its place among
    /// what has waited longest.
    pub fn begin_anew(&mut self, now: Timestamp) {
        if let DeliveryState::Waiting { next_at } = self.state {
            self.state = DeliveryState::Waiting {
                next_at: next_at.min(now),
            };
            self.failing_since = None;
        }
    }
}

/// A webhook with what can be sent to it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueWebhook {
    /// The webhook.
    pub webhook: Webhook,
    /// At most one delivery of each object: the first that waits.
    pub deliveries: Vec<Delivery>,
}
