//! A webhook: an address that hears of events of an account.

use accounts::AccountId;
use jiff::Timestamp;

use crate::{EventKind, EventKinds, SecretVersions, WebhookId, WebhookUrl};

/// Most webhooks of an account: each event is written down once for each that wants it.
pub const MOST_WEBHOOKS: usize = 20;

/// Most messages that may wait for one webhook. One more disables it, so that no receiver fills the store.
pub const MOST_WAITING: u64 = 100_000;

/// An address, what it wants to hear of, and how it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Whose events it hears of.
    pub account: AccountId,
    /// Where they are sent.
    pub url: WebhookUrl,
    /// Which kinds it wants.
    pub kinds: EventKinds,
    /// Which secrets sign.
    pub secrets: SecretVersions,
    /// Whether it hears of anything.
    pub state: WebhookState,
    /// How its receiver does.
    pub health: Health,
    /// When it was added.
    pub created_at: Timestamp,
}

/// Whether a webhook hears of anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookState {
    /// Events are written down and sent.
    Enabled,
    /// Nothing is written down, and nothing is sent. What waited goes on waiting for a while.
    Disabled {
        /// Why.
        reason: DisabledReason,
        /// Since when.
        at: Timestamp,
    },
}

/// Why a webhook is disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisabledReason {
    /// An operator disabled it.
    Operator,
    /// A message, or all of them, failed for a day.
    Failing,
    /// The receiver answered that it is gone for good (410).
    Gone,
    /// Too many messages wait for it.
    Backlog,
}

/// How the receiver of a webhook does, from its newest answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Attempts that failed since the last one that succeeded.
    pub failures: u32,
    /// When the first of them was.
    pub failing_since: Option<Timestamp>,
    /// Nothing is sent before.
    pub not_before: Option<Timestamp>,
}

/// What an operator changes of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookChange {
    /// Another address.
    Url(WebhookUrl),
    /// Other kinds of events.
    Kinds(EventKinds),
    /// A new secret; the one before it signs beside it until then.
    Rotate {
        /// The end of the one before.
        previous_until: Timestamp,
    },
    /// It hears of events again, and what waited is sent.
    Enable,
    /// It hears of nothing.
    Disable,
}

impl Webhook {
    /// Whether it is to hear of a kind of events.
    #[must_use]
    pub fn wants(&self, kind: EventKind) -> bool {
        self.state == WebhookState::Enabled && self.kinds.has(kind)
    }

    /// Whether it may be sent to.
    #[must_use]
    pub fn may_send(&self, now: Timestamp) -> bool {
        self.state == WebhookState::Enabled && self.health.not_before.is_none_or(|then| then <= now)
    }

    /// Makes a change. Another address and enabling forget how the receiver did.
    pub fn apply(&mut self, change: WebhookChange, now: Timestamp) {
        match change {
            WebhookChange::Url(url) => {
                self.url = url;
                self.health = Health::default();
            }
            WebhookChange::Kinds(kinds) => self.kinds = kinds,
            WebhookChange::Rotate { previous_until } => {
                self.secrets = self.secrets.rotated(previous_until);
            }
            WebhookChange::Enable => {
                self.state = WebhookState::Enabled;
                self.health = Health::default();
            }
            WebhookChange::Disable => self.disable(DisabledReason::Operator, now),
        }
    }

    /// Disables it, unless it is.
    pub fn disable(&mut self, reason: DisabledReason, at: Timestamp) {
        if self.state == WebhookState::Enabled {
            self.state = WebhookState::Disabled { reason, at };
        }
    }
}

impl DisabledReason {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Operator, Self::Failing, Self::Gone, Self::Backlog];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Failing => "failing",
            Self::Gone => "gone",
            Self::Backlog => "backlog",
        }
    }

    /// The reason of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}
