//! The twin of a store of webhooks in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accounts::AccountId;
use async_trait::async_trait;
use foldhash::HashSet;
use jiff::Timestamp;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::{
    Attempted, Delivery, DeliveryState, DisabledReason, DuePage, DueQuery, DueWebhook, Event,
    MOST_WAITING, MOST_WEBHOOKS, MessageId, Outbox, Webhook, WebhookChange, WebhookId,
    WebhookState, Webhooks, WebhooksError, judge,
};

/// Webhooks in memory. Clones share them, as replicas do. It knows no accounts, so each one may have webhooks.
#[derive(Clone, Debug, Default)]
pub struct MemoryWebhooks {
    rows: Arc<Mutex<Rows>>,
    arrived: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Rows {
    webhooks: BTreeMap<WebhookId, Webhook>,
    deliveries: BTreeMap<u64, Delivery>,
    places: u64,
}

impl MemoryWebhooks {
    /// Writes an event down for the webhooks that want it.
    pub fn publish(&self, event: &Event) {
        self.rows().publish(event);
        self.arrived.notify_one();
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        // Every change is made whole by code that does not panic in between.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    fn publish(&mut self, event: &Event) {
        let wanting = self.webhooks.values();
        let wanting = wanting.filter(|it| it.account == event.account && it.wants(event.kind));
        for webhook in wanting.map(|it| it.id).collect::<Vec<_>>() {
            self.write(webhook, event.clone());
        }
    }

    fn write(&mut self, webhook: WebhookId, event: Event) -> Delivery {
        self.places += 1;
        let delivery = Delivery {
            place: self.places,
            webhook,
            // As good as any in memory, where nobody else is.
            message: MessageId(Uuid::from_u128(self.places.into())),
            state: DeliveryState::Waiting { next_at: event.at },
            event,
            attempts: 0,
            failing_since: None,
            last: None,
        };
        self.deliveries.insert(self.places, delivery.clone());
        delivery
    }

    /// The first waiting delivery of each object of a webhook that is due.
    fn due_of(&self, webhook: WebhookId, query: &DueQuery, now: Timestamp) -> Vec<Delivery> {
        let mut met = HashSet::default();
        let mut due: Vec<(Timestamp, &Delivery)> = Vec::new();
        for delivery in self.deliveries.values().filter(|it| it.webhook == webhook) {
            let DeliveryState::Waiting { next_at } = delivery.state else {
                continue;
            };
            let is_first = met.insert(delivery.event.object.as_str());
            if is_first && next_at <= now && !query.under_way.contains(&delivery.place) {
                due.push((next_at, delivery));
            }
        }
        due.sort_by_key(|(next_at, delivery)| (*next_at, delivery.place));
        let due = due.into_iter().take(query.of_each);
        due.map(|(_, delivery)| delivery.clone()).collect()
    }

    fn disable(
        &mut self,
        id: WebhookId,
        reason: DisabledReason,
        now: Timestamp,
    ) -> Option<Webhook> {
        let webhook = self.webhooks.get_mut(&id)?;
        if webhook.state != WebhookState::Enabled {
            return None;
        }
        webhook.disable(reason, now);
        let disabled = webhook.clone();
        self.publish(&Event::webhook_disabled(&disabled.account, id, reason, now));
        Some(disabled)
    }
}

#[async_trait]
impl Webhooks for MemoryWebhooks {
    async fn add(&self, webhook: Webhook) -> Result<(), WebhooksError> {
        let mut rows = self.rows();
        if rows.webhooks.contains_key(&webhook.id) {
            return Err(WebhooksError::Taken);
        }
        let of_account = rows
            .webhooks
            .values()
            .filter(|it| it.account == webhook.account);
        if of_account.count() >= MOST_WEBHOOKS {
            return Err(WebhooksError::TooMany);
        }
        rows.webhooks.insert(webhook.id, webhook);
        Ok(())
    }

    async fn get(&self, id: WebhookId) -> Result<Option<Webhook>, WebhooksError> {
        Ok(self.rows().webhooks.get(&id).cloned())
    }

    async fn list(
        &self,
        account: Option<&AccountId>,
        after: Option<WebhookId>,
        limit: usize,
    ) -> Result<Vec<Webhook>, WebhooksError> {
        let rows = self.rows();
        let fits = |it: &&Webhook| {
            account.is_none_or(|account| it.account == *account)
                && after.is_none_or(|after| it.id > after)
        };
        Ok(rows
            .webhooks
            .values()
            .filter(fits)
            .take(limit)
            .cloned()
            .collect())
    }

    async fn change(
        &self,
        id: WebhookId,
        changes: Vec<WebhookChange>,
        now: Timestamp,
    ) -> Result<Webhook, WebhooksError> {
        let mut rows = self.rows();
        let webhook = rows.webhooks.get_mut(&id).ok_or(WebhooksError::NoWebhook)?;
        let enabled = changes.contains(&WebhookChange::Enable);
        changes
            .into_iter()
            .for_each(|change| webhook.apply(change, now));
        let changed = webhook.clone();
        let own = rows.deliveries.values_mut();
        own.filter(|it| it.webhook == id && enabled)
            .for_each(|delivery| delivery.begin_anew(now));
        self.arrived.notify_one();
        Ok(changed)
    }

    async fn remove(&self, id: WebhookId) -> Result<(), WebhooksError> {
        let mut rows = self.rows();
        rows.webhooks.remove(&id).ok_or(WebhooksError::NoWebhook)?;
        rows.deliveries.retain(|_, delivery| delivery.webhook != id);
        Ok(())
    }

    async fn send(&self, id: WebhookId, event: Event) -> Result<Delivery, WebhooksError> {
        let mut rows = self.rows();
        if !rows.webhooks.contains_key(&id) {
            return Err(WebhooksError::NoWebhook);
        }
        self.arrived.notify_one();
        Ok(rows.write(id, event))
    }

    async fn deliveries(
        &self,
        id: WebhookId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Delivery>, WebhooksError> {
        let rows = self.rows();
        let newest = rows.deliveries.range(..before.unwrap_or(u64::MAX)).rev();
        let own = newest
            .map(|(_, delivery)| delivery)
            .filter(|it| it.webhook == id);
        Ok(own.take(limit).cloned().collect())
    }
}

#[async_trait]
impl Outbox for MemoryWebhooks {
    async fn due(&self, query: &DueQuery, now: Timestamp) -> Result<DuePage, WebhooksError> {
        let rows = self.rows();
        let mut page = DuePage::default();
        for webhook in rows.webhooks.values() {
            let is_asked = query.after.is_none_or(|after| webhook.id > after);
            if !is_asked || query.skip.contains(&webhook.id) || !webhook.may_send(now) {
                continue;
            }
            let deliveries = rows.due_of(webhook.id, query, now);
            if deliveries.is_empty() {
                continue;
            }
            let webhook = webhook.clone();
            let id = webhook.id;
            page.due.push(DueWebhook {
                webhook,
                deliveries,
            });
            if page.due.len() >= query.webhooks {
                page.next = Some(id);
                break;
            }
        }
        Ok(page)
    }

    async fn note(&self, attempts: Vec<Attempted>) -> Result<Vec<Webhook>, WebhooksError> {
        let mut rows = self.rows();
        let mut disabled = Vec::new();
        for attempted in attempts {
            let Some(webhook) = rows.webhooks.get(&attempted.webhook) else {
                continue;
            };
            let delivery = rows.deliveries.get(&attempted.place);
            let judged = delivery.and_then(|delivery| judge(webhook, delivery, &attempted));
            let Some(judged) = judged else {
                continue;
            };
            rows.deliveries.insert(attempted.place, judged.delivery);
            if let Some(webhook) = rows.webhooks.get_mut(&attempted.webhook) {
                webhook.health = judged.health;
            }
            if let Some(reason) = judged.disabled {
                disabled.extend(rows.disable(attempted.webhook, reason, attempted.at));
            }
        }
        Ok(disabled)
    }

    async fn prune(
        &self,
        before: Timestamp,
        disabled_before: Timestamp,
        limit: usize,
        now: Timestamp,
    ) -> Result<usize, WebhooksError> {
        let mut rows = self.rows();
        let is_over = |delivery: &Delivery| match delivery.state {
            DeliveryState::Delivered { at } => at < before,
            DeliveryState::Waiting { .. } => match rows.webhooks.get(&delivery.webhook) {
                None => true,
                Some(webhook) => match webhook.state {
                    WebhookState::Enabled => false,
                    WebhookState::Disabled { at, .. } => at < disabled_before,
                },
            },
        };
        let over = rows
            .deliveries
            .values()
            .filter(|it| is_over(it))
            .take(limit);
        let over: Vec<u64> = over.map(|it| it.place).collect();
        for place in &over {
            rows.deliveries.remove(place);
        }
        let mut waiting: BTreeMap<WebhookId, u64> = BTreeMap::new();
        for delivery in rows.deliveries.values() {
            if matches!(delivery.state, DeliveryState::Waiting { .. }) {
                *waiting.entry(delivery.webhook).or_default() += 1;
            }
        }
        for (id, _) in waiting
            .into_iter()
            .filter(|(_, count)| *count > MOST_WAITING)
        {
            rows.disable(id, DisabledReason::Backlog, now);
        }
        Ok(over.len())
    }

    async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, Stores};

    fn stores(rows: &MemoryWebhooks) -> Stores {
        let publisher = rows.clone();
        Stores {
            webhooks: Arc::new(rows.clone()),
            outbox: Arc::new(rows.clone()),
            publish: Box::new(move |event| {
                publisher.publish(&event);
                Box::pin(async {})
            }),
        }
    }

    #[tokio::test]
    async fn webhooks_in_memory_keep_the_contract() {
        contract::webhooks(|| async { stores(&MemoryWebhooks::default()) }).await;
    }

    #[tokio::test]
    async fn webhooks_in_memory_keep_the_contract_of_replicas() {
        contract::replicas(|| async {
            let rows = MemoryWebhooks::default();
            [stores(&rows), stores(&rows)]
        })
        .await;
    }
}
