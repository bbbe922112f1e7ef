//! Webhooks and what is delivered to them, in rows. Which events are wanted is in memory as well ([`Hooks`]), so that an event
//! that nobody wants is not written down and costs no look at the rows.

mod hooks;
mod rows;

use accounts::AccountId;
use async_trait::async_trait;
use jiff::Timestamp;
use webhooks::{
    Attempted, Delivery, DeliveryState, DisabledReason, DuePage, DueQuery, Event, Health,
    LastAttempt, MOST_WEBHOOKS, Outbox, Webhook, WebhookChange, WebhookId, WebhookState, Webhooks,
    WebhooksError, judge,
};

use crate::accounts::SharedAccounts;
use crate::columns::whole_micros;
use crate::database::{Database, DatabaseError, Durability, Transaction};

pub(crate) use hooks::Hooks;

/// Webhooks in the database of a data directory. Clones share them.
#[derive(Clone, Debug)]
pub struct SqliteWebhooks {
    database: Database,
    accounts: SharedAccounts,
    hooks: Hooks,
}

impl SqliteWebhooks {
    pub(crate) fn new(database: Database, accounts: SharedAccounts, hooks: Hooks) -> Self {
        Self {
            database,
            accounts,
            hooks,
        }
    }

    async fn write<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Hooks, &mut Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, WebhooksError> {
        let hooks = self.hooks.clone();
        let written = self
            .database
            .write(Durability::Now.end(), move |rows| operation(&hooks, rows));
        written.await.map_err(unavailable)
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, WebhooksError> {
        self.database.read(query).await.map_err(unavailable)
    }
}

/// Writes how a webhook is now, and lets the memory follow.
fn put(hooks: &Hooks, rows: &mut Transaction<'_>, webhook: &Webhook) -> rusqlite::Result<()> {
    rows::update(rows, webhook)?;
    let (hooks, webhook) = (hooks.clone(), webhook.clone());
    rows.after_commit(move || hooks.put(webhook));
    Ok(())
}

/// Disables a webhook, and tells the others of its account.
fn disable(
    hooks: &Hooks,
    rows: &mut Transaction<'_>,
    mut webhook: Webhook,
    reason: DisabledReason,
    at: Timestamp,
) -> rusqlite::Result<Option<Webhook>> {
    if webhook.state != WebhookState::Enabled {
        return Ok(None);
    }
    webhook.disable(reason, at);
    put(hooks, rows, &webhook)?;
    let event = Event::webhook_disabled(&webhook.account, webhook.id, reason, at);
    hooks.publish_but(rows, event, webhook.id)?;
    Ok(Some(webhook))
}

/// A webhook as it will read back.
fn as_it_reads_back(webhook: Webhook) -> Webhook {
    let state = match webhook.state {
        WebhookState::Enabled => WebhookState::Enabled,
        WebhookState::Disabled { reason, at } => WebhookState::Disabled {
            reason,
            at: whole_micros(at),
        },
    };
    let mut secrets = webhook.secrets;
    secrets.previous_until = secrets.previous_until.map(whole_micros);
    Webhook {
        secrets,
        state,
        health: Health {
            failures: webhook.health.failures,
            failing_since: webhook.health.failing_since.map(whole_micros),
            not_before: webhook.health.not_before.map(whole_micros),
        },
        created_at: whole_micros(webhook.created_at),
        ..webhook
    }
}

fn delivery_as_it_reads_back(delivery: Delivery) -> Delivery {
    Delivery {
        state: match delivery.state {
            DeliveryState::Waiting { next_at } => DeliveryState::Waiting {
                next_at: whole_micros(next_at),
            },
            DeliveryState::Delivered { at } => DeliveryState::Delivered {
                at: whole_micros(at),
            },
        },
        failing_since: delivery.failing_since.map(whole_micros),
        last: delivery.last.map(|last| LastAttempt {
            at: whole_micros(last.at),
            ..last
        }),
        ..delivery
    }
}

#[async_trait]
impl Webhooks for SqliteWebhooks {
    async fn add(&self, webhook: Webhook) -> Result<(), WebhooksError> {
        // Accounts never go, so this cannot change before the row is written.
        if !self.accounts.knows(&webhook.account) {
            return Err(WebhooksError::NoAccount);
        }
        let webhook = as_it_reads_back(webhook);
        let added = self.write(move |hooks, rows| {
            if rows::get(rows, webhook.id)?.is_some() {
                return Ok(Err(WebhooksError::Taken));
            }
            let most = i64::try_from(MOST_WEBHOOKS).unwrap_or(i64::MAX);
            if rows::count(rows, &webhook.account)? >= most {
                return Ok(Err(WebhooksError::TooMany));
            }
            rows::insert(rows, &webhook)?;
            put(hooks, rows, &webhook)?;
            Ok(Ok(()))
        });
        added.await?
    }

    async fn get(&self, id: WebhookId) -> Result<Option<Webhook>, WebhooksError> {
        self.read(move |rows| rows::get(rows, id)).await
    }

    async fn list(
        &self,
        account: Option<&AccountId>,
        after: Option<WebhookId>,
        limit: usize,
    ) -> Result<Vec<Webhook>, WebhooksError> {
        let account = account.cloned();
        self.read(move |rows| rows::list(rows, account.as_ref(), after, limit))
            .await
    }

    async fn change(
        &self,
        id: WebhookId,
        changes: Vec<WebhookChange>,
        now: Timestamp,
    ) -> Result<Webhook, WebhooksError> {
        let changed = self.write(move |hooks, rows| {
            let Some(mut webhook) = rows::get(rows, id)? else {
                return Ok(None);
            };
            let is_enabled = changes.contains(&WebhookChange::Enable);
            changes
                .into_iter()
                .for_each(|change| webhook.apply(change, now));
            let webhook = as_it_reads_back(webhook);
            put(hooks, rows, &webhook)?;
            if is_enabled {
                rows::begin_anew(rows, id, now)?;
            }
            hooks.note_news();
            Ok(Some(webhook))
        });
        changed.await?.ok_or(WebhooksError::NoWebhook)
    }

    async fn remove(&self, id: WebhookId) -> Result<(), WebhooksError> {
        let removed = self.write(move |hooks, rows| {
            let Some(webhook) = rows::get(rows, id)? else {
                return Ok(None);
            };
            rows::remove(rows, id)?;
            let hooks = hooks.clone();
            rows.after_commit(move || hooks.remove(&webhook.account, id));
            Ok(Some(()))
        });
        removed.await?.ok_or(WebhooksError::NoWebhook)
    }

    async fn send(&self, id: WebhookId, event: Event) -> Result<Delivery, WebhooksError> {
        let sent = self.write(move |hooks, rows| {
            if rows::get(rows, id)?.is_none() {
                return Ok(None);
            }
            let place = rows::write(rows, id, &event)?;
            hooks.note_news();
            rows::delivery(rows, place)
        });
        sent.await?.ok_or(WebhooksError::NoWebhook)
    }

    async fn deliveries(
        &self,
        id: WebhookId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Delivery>, WebhooksError> {
        self.read(move |rows| rows::newest(rows, id, before, limit))
            .await
    }
}

#[async_trait]
impl Outbox for SqliteWebhooks {
    async fn due(&self, query: &DueQuery, now: Timestamp) -> Result<DuePage, WebhooksError> {
        let query = query.clone();
        self.read(move |rows| rows::due(rows, &query, now)).await
    }

    async fn note(&self, attempts: Vec<Attempted>) -> Result<Vec<Webhook>, WebhooksError> {
        let hooks = self.hooks.clone();
        // A note that is lost has its message delivered again.
        let how = Durability::Lazy.end();
        let noted = self.database.write(how, move |rows| {
            let mut disabled = Vec::new();
            for attempted in attempts {
                let Some(webhook) = rows::get(rows, attempted.webhook)? else {
                    continue;
                };
                let delivery = rows::delivery(rows, attempted.place.cast_signed())?;
                let judged = delivery.and_then(|delivery| judge(&webhook, &delivery, &attempted));
                let Some(judged) = judged else { continue };
                crate::faults::fault_point!("webhook-note");
                rows::update_delivery(rows, &delivery_as_it_reads_back(judged.delivery))?;
                let health = judged.health;
                let changed = as_it_reads_back(Webhook {
                    health,
                    ..webhook.clone()
                });
                if changed.health != webhook.health {
                    put(&hooks, rows, &changed)?;
                }
                if let Some(reason) = judged.disabled {
                    let at = whole_micros(attempted.at);
                    disabled.extend(disable(&hooks, rows, changed, reason, at)?);
                }
            }
            Ok(disabled)
        });
        noted.await.map_err(unavailable)
    }

    async fn prune(
        &self,
        before: Timestamp,
        disabled_before: Timestamp,
        limit: usize,
        now: Timestamp,
    ) -> Result<usize, WebhooksError> {
        let overfull = self.read(rows::overfull).await?;
        let (hooks, how) = (self.hooks.clone(), Durability::Lazy.end());
        let pruned = self.database.write(how, move |rows| {
            for id in overfull {
                if let Some(webhook) = rows::get(rows, id)? {
                    disable(
                        &hooks,
                        rows,
                        webhook,
                        DisabledReason::Backlog,
                        whole_micros(now),
                    )?;
                }
            }
            rows::prune(rows, before, disabled_before, limit)
        });
        pruned.await.map_err(unavailable)
    }

    async fn arrived(&self) {
        self.hooks.arrived().await;
    }
}

fn unavailable(error: DatabaseError) -> WebhooksError {
    WebhooksError::Unavailable(Box::new(error))
}

#[cfg(test)]
mod tests;
