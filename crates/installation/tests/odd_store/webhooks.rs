//! Webhooks whose operations overtake each other, and whose senders hear of what was written down for nothing.

use std::sync::Arc;

use accounts::AccountId;
use async_trait::async_trait;
use jiff::Timestamp;
use webhooks::{
    Attempted, Delivery, DuePage, DueQuery, Event, Outbox, Webhook, WebhookChange, WebhookId,
    Webhooks, WebhooksError,
};

use crate::jitter::Jitter;

pub(crate) struct OddWebhooks {
    pub(crate) inner: Arc<dyn Webhooks>,
    pub(crate) outbox: Arc<dyn Outbox>,
    pub(crate) jitter: Jitter,
}

#[async_trait]
impl Webhooks for OddWebhooks {
    async fn add(&self, webhook: Webhook) -> Result<(), WebhooksError> {
        self.jitter.around(self.inner.add(webhook)).await
    }

    async fn get(&self, id: WebhookId) -> Result<Option<Webhook>, WebhooksError> {
        self.jitter.around(self.inner.get(id)).await
    }

    async fn list(
        &self,
        account: Option<&AccountId>,
        after: Option<WebhookId>,
        limit: usize,
    ) -> Result<Vec<Webhook>, WebhooksError> {
        let listed = self.inner.list(account, after, limit);
        self.jitter.around(listed).await
    }

    async fn change(
        &self,
        id: WebhookId,
        changes: Vec<WebhookChange>,
        now: Timestamp,
    ) -> Result<Webhook, WebhooksError> {
        let changed = self.inner.change(id, changes, now);
        self.jitter.around(changed).await
    }

    async fn remove(&self, id: WebhookId) -> Result<(), WebhooksError> {
        self.jitter.around(self.inner.remove(id)).await
    }

    async fn send(&self, id: WebhookId, event: Event) -> Result<Delivery, WebhooksError> {
        self.jitter.around(self.inner.send(id, event)).await
    }

    async fn deliveries(
        &self,
        id: WebhookId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Delivery>, WebhooksError> {
        let deliveries = self.inner.deliveries(id, before, limit);
        self.jitter.around(deliveries).await
    }
}

#[async_trait]
impl Outbox for OddWebhooks {
    async fn due(&self, query: &DueQuery, now: Timestamp) -> Result<DuePage, WebhooksError> {
        self.jitter.around(self.outbox.due(query, now)).await
    }

    async fn note(&self, attempts: Vec<Attempted>) -> Result<Vec<Webhook>, WebhooksError> {
        self.jitter.around(self.outbox.note(attempts)).await
    }

    async fn prune(
        &self,
        before: Timestamp,
        disabled_before: Timestamp,
        limit: usize,
        now: Timestamp,
    ) -> Result<usize, WebhooksError> {
        let pruned = self.outbox.prune(before, disabled_before, limit, now);
        self.jitter.around(pruned).await
    }

    async fn arrived(&self) {
        if self.jitter.roll(3) > 0 {
            self.jitter.around(self.outbox.arrived()).await;
        }
    }
}
