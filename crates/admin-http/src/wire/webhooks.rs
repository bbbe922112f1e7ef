//! Webhooks and deliveries as operators see them.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an operator asks for of webhooks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WebhookRequest {
    /// A page of them, in the order of their ids.
    List {
        /// Those of this account; of all accounts if nothing is said.
        account: Option<String>,
        /// Only those behind the webhook with this id.
        after: Option<String>,
        /// Most webhooks of the page.
        limit: Option<u32>,
    },
    /// One webhook.
    Get {
        /// Its id.
        id: String,
    },
    /// Adds a webhook to an account.
    Add {
        /// The account.
        account: String,
        /// Where events are sent.
        url: String,
        /// Which kinds of events, separated by commas or spaces.
        events: String,
    },
    /// Changes a webhook.
    Change {
        /// Its id.
        id: String,
        /// Another address.
        url: Option<String>,
        /// Other kinds of events.
        events: Option<String>,
        /// Whether it hears of anything.
        enabled: Option<bool>,
    },
    /// Removes a webhook with what waits for it.
    Remove {
        /// Its id.
        id: String,
    },
    /// Makes a new secret of a webhook.
    Rotate {
        /// Its id.
        id: String,
        /// For how many seconds the one before signs as well; a day if nothing is said.
        overlap_s: Option<u32>,
    },
    /// Sends a test to a webhook.
    Test {
        /// Its id.
        id: String,
    },
    /// The newest deliveries of a webhook, newest first.
    Deliveries {
        /// Its id.
        id: String,
        /// Only those below this place.
        before: Option<u64>,
        /// Most deliveries of the page.
        limit: Option<u32>,
    },
}

/// A page of webhooks.
#[derive(Debug, Serialize, Deserialize)]
pub struct WebhooksPage {
    /// The webhooks.
    pub webhooks: Vec<WebhookBody>,
    /// What to send as `cursor` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A webhook; never its secret.
#[derive(Debug, Serialize, Deserialize)]
pub struct WebhookBody {
    /// Its id.
    pub id: String,
    /// Whose events it hears of.
    pub account: String,
    /// Where they are sent.
    pub url: String,
    /// Which kinds of events.
    pub events: Vec<String>,
    /// `enabled` or `disabled`.
    pub state: String,
    /// Why it is disabled: `operator`, `failing`, `gone` or `backlog`.
    pub disabled_reason: Option<String>,
    /// Since when it is disabled: RFC 3339, to the second.
    pub disabled_at: Option<String>,
    /// Attempts that failed since the last one that succeeded.
    pub failures: u32,
    /// When the first of them was: RFC 3339, to the second.
    pub failing_since: Option<String>,
    /// Nothing is sent before: RFC 3339, to the second.
    pub paused_until: Option<String>,
    /// Until when the secret before the newest one signs as well: RFC 3339, to the second.
    pub previous_secret_until: Option<String>,
    /// RFC 3339, to the second.
    pub created_at: String,
}

/// A webhook with a secret that was made just now: in this answer and in no other.
#[derive(Debug, Serialize, Deserialize)]
pub struct WebhookSecretBody {
    /// The webhook.
    #[serde(flatten)]
    pub webhook: WebhookBody,
    /// The secret.
    pub secret: SecretText,
}

/// A secret on its way to the one who asked for it. It is in no `Debug`.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

/// A page of messages to a webhook, newest first.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeliveriesPage {
    /// The messages.
    pub deliveries: Vec<DeliveryBody>,
    /// What to send as `cursor` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A message to a webhook.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeliveryBody {
    /// Its `webhook-id`.
    pub id: String,
    /// The webhook.
    pub webhook: String,
    /// The kind of the event.
    pub event: String,
    /// What happened, as the receiver gets it.
    pub data: Value,
    /// `waiting` or `delivered`.
    pub state: String,
    /// Attempts so far.
    pub attempts: u32,
    /// The status that the receiver answered last, if it answered.
    pub status: Option<u16>,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// When the event happened: RFC 3339, to the second.
    pub created_at: String,
    /// When the last attempt was over.
    pub attempted_at: Option<String>,
    /// When it is tried next.
    pub next_attempt_at: Option<String>,
    /// When the receiver took it.
    pub delivered_at: Option<String>,
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}
