//! The ports of a store of webhooks: what operators change, and what a sender works off.

use accounts::AccountId;
use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Attempted, Delivery, DueWebhook, Event, Webhook, WebhookChange, WebhookId};

/// Why webhooks were not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum WebhooksError {
    /// There is no such account.
    #[error("no such account")]
    NoAccount,
    /// There is no such webhook.
    #[error("no such webhook")]
    NoWebhook,
    /// The account has as many as it may have.
    #[error(
        "the account has {} webhooks, which is the most that it can have",
        crate::MOST_WEBHOOKS
    )]
    TooMany,
    /// The id stands for another one.
    #[error("the id is taken")]
    Taken,
    /// The store cannot answer now.
    #[error("the store of webhooks is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Keeps webhooks: for operators alone.
///
/// **Contract.** It holds for any number of processes over one store. Each call is one atomic change, durable before it is
/// answered. An event is written down for the webhooks that want it when the transaction begins that makes it true: one that
/// was added before is told, one that was removed or disabled before is not.
#[async_trait]
pub trait Webhooks: Send + Sync + 'static {
    /// Adds one; of each account at most [`crate::MOST_WEBHOOKS`].
    async fn add(&self, webhook: Webhook) -> Result<(), WebhooksError>;

    /// One, if there is such a one.
    async fn get(&self, id: WebhookId) -> Result<Option<Webhook>, WebhooksError>;

    /// At most `limit` in the order of their ids, only those behind `after`; those of one account, or of all. An account that
    /// does not exist has none.
    async fn list(
        &self,
        account: Option<&AccountId>,
        after: Option<WebhookId>,
        limit: usize,
    ) -> Result<Vec<Webhook>, WebhooksError>;

    /// Makes the changes in their order, by [`Webhook::apply`]; the webhook as it is then. One of them that enables it makes what
    /// waits for it due, by [`Delivery::begin_anew`].
    async fn change(
        &self,
        id: WebhookId,
        changes: Vec<WebhookChange>,
        now: Timestamp,
    ) -> Result<Webhook, WebhooksError>;

    /// Removes one with all its deliveries; a message under way may still arrive.
    async fn remove(&self, id: WebhookId) -> Result<(), WebhooksError>;

    /// Writes an event down for one webhook, whatever it wants: the delivery.
    async fn send(&self, id: WebhookId, event: Event) -> Result<Delivery, WebhooksError>;

    /// The newest deliveries of a webhook, newest first; only those whose place is below `before` where it is given.
    async fn deliveries(
        &self,
        id: WebhookId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Delivery>, WebhooksError>;
}

/// What a sender asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueQuery {
    /// Only webhooks behind this one, in the order of their ids.
    pub after: Option<WebhookId>,
    /// Webhooks that are not asked for.
    pub skip: Vec<WebhookId>,
    /// The places of deliveries that are under way: neither they nor later ones of their objects are answered.
    pub under_way: Vec<u64>,
    /// Most webhooks of the answer.
    pub webhooks: usize,
    /// Most deliveries of each.
    pub of_each: usize,
}

/// What is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DuePage {
    /// The webhooks that are enabled and have something due, in the order of their ids, each with what has waited longest.
    pub due: Vec<DueWebhook>,
    /// The last webhook of a page that is full, behind which the next one goes on; `None` of the last page.
    pub next: Option<WebhookId>,
}

/// What is written down and not delivered: for the one sender of an installation.
///
/// **Contract.** It holds for any number of processes over one store. A delivery is due when its time has come and no earlier
/// one of its object waits. [`Outbox::note`] writes what [`crate::judge`] decides, in one transaction; what it says of a
/// delivery that another sender went on with changes nothing. A note need not be durable when it is answered: one that is lost
/// has its message delivered again.
#[async_trait]
pub trait Outbox: Send + Sync + 'static {
    /// What is due.
    async fn due(&self, query: &DueQuery, now: Timestamp) -> Result<DuePage, WebhooksError>;

    /// Notes attempts that are over. The webhooks that this disabled, each told to those of its account that want to hear of it.
    async fn note(&self, attempts: Vec<Attempted>) -> Result<Vec<Webhook>, WebhooksError>;

    /// Forgets at most `limit` deliveries that were delivered before `before`, or wait for a webhook that is gone or was
    /// disabled before `disabled_before`; disables webhooks for which more than [`crate::MOST_WAITING`] wait. How many
    /// deliveries went.
    async fn prune(
        &self,
        before: Timestamp,
        disabled_before: Timestamp,
        limit: usize,
        now: Timestamp,
    ) -> Result<usize, WebhooksError>;

    /// Waits until something was written down in this process. It may be late, or come for nothing: a sender looks by the
    /// clock as well.
    async fn arrived(&self);
}
