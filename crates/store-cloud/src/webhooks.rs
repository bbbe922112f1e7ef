//! Webhooks and what is delivered to them, in rows, for any number of replicas.
//!
//! Events are written down by [`facts`]; rows of webhooks are locked in the order of their ids.

mod facts;
mod rows;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use async_trait::async_trait;
use deadpool_postgres::Transaction;
use jiff::Timestamp;
use tokio::sync::Notify;
use uuid::Uuid;
use webhooks::{
    Attempted, Delivery, DeliveryState, DisabledReason, DuePage, DueQuery, Event, EventKind,
    Health, LastAttempt, MOST_WEBHOOKS, Outbox, Webhook, WebhookChange, WebhookId, WebhookState,
    Webhooks, WebhooksError, judge,
};

use crate::columns::whole_micros;
use crate::{Database, DatabaseError};

pub(crate) use facts::{budgets_reached, wanting, write};

/// How long a sender waits for what other replicas write down.
const POLL: Duration = Duration::from_millis(250);

/// Webhooks in a PostgreSQL database. Clones share them.
#[derive(Clone, Debug)]
pub struct PgWebhooks {
    database: Database,
    arrived: Arc<Notify>,
}

impl PgWebhooks {
    /// The webhooks of this database.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self {
            database,
            arrived: Arc::default(),
        }
    }

    async fn add_row(&self, webhook: &Webhook) -> Result<Result<(), WebhooksError>, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        let Some(count) = rows::lock_account(&rows, &webhook.account).await? else {
            return Ok(Err(WebhooksError::NoAccount));
        };
        if rows::get(&rows, webhook.id).await?.is_some() {
            return Ok(Err(WebhooksError::Taken));
        }
        if count >= i64::try_from(MOST_WEBHOOKS).unwrap_or(i64::MAX) {
            return Ok(Err(WebhooksError::TooMany));
        }
        if !rows::insert(&rows, webhook).await? {
            return Ok(Err(WebhooksError::Taken));
        }
        rows.commit().await?;
        Ok(Ok(()))
    }

    async fn change_row(
        &self,
        id: WebhookId,
        changes: Vec<WebhookChange>,
        now: Timestamp,
    ) -> Result<Option<Webhook>, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        let Some(mut webhook) = rows::lock(&rows, &[id.0]).await?.pop() else {
            return Ok(None);
        };
        let is_enabled = changes.contains(&WebhookChange::Enable);
        changes
            .into_iter()
            .for_each(|change| webhook.apply(change, now));
        let webhook = as_it_reads_back(webhook);
        rows::update(&rows, &webhook).await?;
        if is_enabled {
            rows::begin_anew(&rows, id, now).await?;
        }
        rows.commit().await?;
        Ok(Some(webhook))
    }

    async fn send_row(
        &self,
        id: WebhookId,
        event: &Event,
    ) -> Result<Option<Delivery>, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        if rows::lock(&rows, &[id.0]).await?.is_empty() {
            return Ok(None);
        }
        facts::write_for(&rows, &[(id, event)]).await?;
        let newest = rows::newest(&rows, id, None, 1).await?.pop();
        rows.commit().await?;
        Ok(newest)
    }

    async fn note_rows(&self, attempts: &[Attempted]) -> Result<Vec<Webhook>, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        // A note that is lost has its message delivered again.
        rows.batch_execute("SET LOCAL synchronous_commit = off")
            .await?;
        let mut ids: Vec<Uuid> = attempts.iter().map(|it| it.webhook.0).collect();
        ids.sort_unstable();
        ids.dedup();
        let known = rows::lock(&rows, &ids).await?;
        let mut known: BTreeMap<WebhookId, Webhook> =
            known.into_iter().map(|it| (it.id, it)).collect();
        let places: Vec<i64> = attempts.iter().map(|it| it.place.cast_signed()).collect();
        let deliveries = rows::deliveries(&rows, &places).await?;
        let mut deliveries: HashMap<u64, Delivery> =
            deliveries.into_iter().map(|it| (it.place, it)).collect();
        let (mut noted, mut disabled) = (BTreeMap::new(), Vec::new());
        for attempted in attempts {
            let delivery = deliveries.get(&attempted.place);
            let webhook = known.get_mut(&attempted.webhook);
            let (Some(webhook), Some(delivery)) = (webhook, delivery) else {
                continue;
            };
            let Some(judged) = judge(webhook, delivery, attempted) else {
                continue;
            };
            webhook.health = judged.health;
            let delivery = delivery_as_it_reads_back(judged.delivery);
            noted.insert(attempted.place, delivery.clone());
            deliveries.insert(attempted.place, delivery);
            if let Some(reason) = judged.disabled
                && webhook.state == WebhookState::Enabled
            {
                webhook.disable(reason, attempted.at);
                disabled.push((webhook.id, reason, whole_micros(attempted.at)));
            }
        }
        let noted: Vec<Delivery> = noted.into_values().collect();
        rows::update_deliveries(&rows, &noted).await?;
        for webhook in known.values_mut() {
            *webhook = as_it_reads_back(webhook.clone());
            rows::update(&rows, webhook).await?;
        }
        let disabled: Vec<_> = disabled
            .into_iter()
            .filter_map(|(id, reason, at)| Some((known.remove(&id)?, reason, at)))
            .collect();
        tell_disabled(&rows, &disabled).await?;
        rows.commit().await?;
        Ok(disabled.into_iter().map(|(webhook, ..)| webhook).collect())
    }

    async fn prune_rows(
        &self,
        (before, disabled_before): (Timestamp, Timestamp),
        limit: usize,
        now: Timestamp,
    ) -> Result<usize, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let overfull = rows::overfull(&connection).await?;
        let rows = connection.transaction().await?;
        let mut disabled = Vec::new();
        for mut webhook in rows::lock(&rows, &overfull).await? {
            if webhook.state == WebhookState::Enabled {
                let (reason, at) = (DisabledReason::Backlog, whole_micros(now));
                webhook.disable(reason, at);
                rows::update(&rows, &webhook).await?;
                disabled.push((webhook, reason, at));
            }
        }
        tell_disabled(&rows, &disabled).await?;
        let pruned = rows::prune(&rows, before, disabled_before, limit).await?;
        rows.commit().await?;
        Ok(pruned)
    }
}

/// Tells the other webhooks of their accounts that some were disabled.
async fn tell_disabled(
    rows: &Transaction<'_>,
    disabled: &[(Webhook, DisabledReason, Timestamp)],
) -> Result<(), DatabaseError> {
    let accounts: Vec<&AccountId> = disabled.iter().map(|(it, ..)| &it.account).collect();
    let wanting = wanting(rows, &accounts, EventKind::WebhookDisabled).await?;
    let events = disabled.iter().map(|(webhook, reason, at)| {
        Event::webhook_disabled(&webhook.account, webhook.id, *reason, *at)
    });
    let events: Vec<Event> = events.collect();
    write(rows, &wanting, &events).await
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
impl Webhooks for PgWebhooks {
    async fn add(&self, webhook: Webhook) -> Result<(), WebhooksError> {
        let added = self.add_row(&as_it_reads_back(webhook)).await;
        added.map_err(unavailable)?
    }

    async fn get(&self, id: WebhookId) -> Result<Option<Webhook>, WebhooksError> {
        let connection = self.database.connection().await.map_err(unavailable)?;
        rows::get(&connection, id).await.map_err(unavailable)
    }

    async fn list(
        &self,
        account: Option<&AccountId>,
        after: Option<WebhookId>,
        limit: usize,
    ) -> Result<Vec<Webhook>, WebhooksError> {
        let connection = self.database.connection().await.map_err(unavailable)?;
        let listed = rows::list(&connection, account, after, limit).await;
        listed.map_err(unavailable)
    }

    async fn change(
        &self,
        id: WebhookId,
        changes: Vec<WebhookChange>,
        now: Timestamp,
    ) -> Result<Webhook, WebhooksError> {
        let changed = self.change_row(id, changes, now).await;
        self.arrived.notify_one();
        changed
            .map_err(unavailable)?
            .ok_or(WebhooksError::NoWebhook)
    }

    async fn remove(&self, id: WebhookId) -> Result<(), WebhooksError> {
        let connection = self.database.connection().await.map_err(unavailable)?;
        let removed = rows::remove(&connection, id).await.map_err(unavailable)?;
        removed.then_some(()).ok_or(WebhooksError::NoWebhook)
    }

    async fn send(&self, id: WebhookId, event: Event) -> Result<Delivery, WebhooksError> {
        let sent = self.send_row(id, &event).await.map_err(unavailable)?;
        self.arrived.notify_one();
        sent.ok_or(WebhooksError::NoWebhook)
    }

    async fn deliveries(
        &self,
        id: WebhookId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Delivery>, WebhooksError> {
        let connection = self.database.connection().await.map_err(unavailable)?;
        let newest = rows::newest(&connection, id, before, limit).await;
        newest.map_err(unavailable)
    }
}

#[async_trait]
impl Outbox for PgWebhooks {
    async fn due(&self, query: &DueQuery, now: Timestamp) -> Result<DuePage, WebhooksError> {
        let connection = self.database.connection().await.map_err(unavailable)?;
        let due = rows::due(&connection, query, now).await;
        due.map_err(unavailable)
    }

    async fn note(&self, attempts: Vec<Attempted>) -> Result<Vec<Webhook>, WebhooksError> {
        self.note_rows(&attempts).await.map_err(unavailable)
    }

    async fn prune(
        &self,
        before: Timestamp,
        disabled_before: Timestamp,
        limit: usize,
        now: Timestamp,
    ) -> Result<usize, WebhooksError> {
        let pruned = self.prune_rows((before, disabled_before), limit, now).await;
        pruned.map_err(unavailable)
    }

    async fn arrived(&self) {
        let told = self.arrived.notified();
        // In time or not: what other replicas write down tells nobody here.
        let _ = tokio::time::timeout(POLL, told).await;
    }
}

fn unavailable(error: DatabaseError) -> WebhooksError {
    WebhooksError::Unavailable(Box::new(error))
}

#[cfg(test)]
mod tests {
    use accounts::{Account, AccountAdmin, Tier};
    use webhooks::contract::{self, Stores};

    use super::*;
    use crate::{PgAccounts, testing};

    /// Writes an event down, as a fact does.
    async fn publish(database: &Database, event: Event) {
        let mut connection = database.connection().await.expect("it answers");
        let rows = connection.transaction().await.expect("it begins");
        let wanting = wanting(&rows, &[&event.account], event.kind).await;
        let written = write(&rows, &wanting.expect("an answer"), &[event]).await;
        written.expect("it is written");
        rows.commit().await.expect("it is committed");
    }

    /// Two handles over one fresh database with the accounts of the suites.
    async fn two() -> [Database; 2] {
        let url = testing::fresh_database().await;
        let (one, other) = (testing::open(&url).await, testing::open(&url).await);
        let admin = PgAccounts::new(one.clone(), Tier::standard());
        for name in ["acme", "other"] {
            let id: AccountId = name.parse().expect("an id");
            let account = Account::new(id.clone(), (&id).into(), Timestamp::UNIX_EPOCH);
            admin.create(account).await.expect("a free id");
        }
        [one, other]
    }

    fn ports(operators: Database, senders: Database) -> Stores {
        let database = senders.clone();
        Stores {
            webhooks: Arc::new(PgWebhooks::new(operators)),
            outbox: Arc::new(PgWebhooks::new(senders)),
            publish: Box::new(move |event| {
                let database = database.clone();
                Box::pin(async move { publish(&database, event).await })
            }),
        }
    }

    #[tokio::test]
    async fn webhooks_in_rows_keep_the_contract() {
        if !crate::testing::has_postgres() {
            return;
        }
        contract::webhooks(|| async {
            // Operators and senders are in processes of their own.
            let [one, other] = two().await;
            ports(one, other)
        })
        .await;
    }

    #[tokio::test]
    async fn webhooks_in_rows_keep_the_contract_of_replicas() {
        if !crate::testing::has_postgres() {
            return;
        }
        contract::replicas(|| async { two().await.map(|one| ports(one.clone(), one)) }).await;
    }

    #[tokio::test]
    async fn an_account_that_does_not_exist_gets_no_webhook() {
        if !crate::testing::has_postgres() {
            return;
        }
        let webhooks = PgWebhooks::new(testing::database().await);
        let refused = webhooks.add(Webhook {
            id: WebhookId(Uuid::from_u128(1)),
            account: "stranger".parse().expect("an id"),
            url: "https://example.com/".parse().expect("an address"),
            kinds: "job.ended".parse().expect("kinds"),
            secrets: webhooks::SecretVersions::FIRST,
            state: WebhookState::Enabled,
            health: Health::default(),
            created_at: Timestamp::UNIX_EPOCH,
        });
        let refused = refused.await;
        assert!(
            matches!(refused, Err(WebhooksError::NoAccount)),
            "{refused:?}"
        );
    }
}
