//! The names of webhooks and of what is delivered to them.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// Identifies a webhook. The caller makes it, at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WebhookId(pub Uuid);

/// Identifies a message: the `webhook-id` of every attempt to deliver it, by which a receiver recognises a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub Uuid);

/// The text is no id of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id of a webhook is a UUID")]
pub struct InvalidWebhookId;

impl FromStr for WebhookId {
    type Err = InvalidWebhookId;

    fn from_str(text: &str) -> Result<Self, InvalidWebhookId> {
        text.parse().map(Self).map_err(|_| InvalidWebhookId)
    }
}

impl fmt::Display for WebhookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// With the prefix that Standard Webhooks shows.
impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "msg_{}", self.0.simple())
    }
}
