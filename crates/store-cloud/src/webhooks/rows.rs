//! The SQL of webhooks and of what is delivered to them.

use accounts::AccountId;
use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;
use webhooks::{
    Delivery, DeliveryState, DisabledReason, DuePage, DueQuery, DueWebhook, Event, EventKind,
    EventKinds, Health, LastAttempt, MOST_WAITING, MessageId, SecretVersions, Webhook, WebhookId,
    WebhookState,
};

use crate::DatabaseError;
use crate::columns::{from_micros, parse, unreadable, unsigned};
use crate::statements::{execute, query, query_opt, whole};

/// A column with a word that this program does not write.
#[derive(Debug, thiserror::Error)]
#[error("there is no {0} of this name")]
struct UnknownWord(&'static str);

const WEBHOOK: &str = "w.id, w.account, w.url, w.kinds, w.secret_version, w.previous_until, w.disabled_at, w.disabled_reason,
    w.failures, w.failing_since, w.not_before, w.created_at";

const DELIVERY: &str = "d.place, d.webhook, w.account, d.message, d.kind, d.object, d.at, d.data, d.next_at, d.delivered_at,
    d.attempts, d.failing_since AS delivery_failing_since, d.attempted_at, d.status, d.error";

pub(super) async fn get(
    rows: &impl GenericClient,
    id: WebhookId,
) -> Result<Option<Webhook>, DatabaseError> {
    let sql = format!("SELECT {WEBHOOK} FROM webhooks w WHERE id = $1");
    let row = query_opt(rows, &sql, &[&id.0]).await?;
    row.as_ref().map(webhook).transpose()
}

/// These webhooks, locked in the order of their ids.
pub(super) async fn lock(
    rows: &Transaction<'_>,
    ids: &[Uuid],
) -> Result<Vec<Webhook>, DatabaseError> {
    let sql = format!("SELECT {WEBHOOK} FROM webhooks w WHERE id = ANY($1) ORDER BY id FOR UPDATE");
    let found = query(rows, &sql, &[&ids]).await?;
    found.iter().map(webhook).collect()
}

pub(super) async fn list(
    rows: &impl GenericClient,
    account: Option<&AccountId>,
    after: Option<WebhookId>,
    limit: usize,
) -> Result<Vec<Webhook>, DatabaseError> {
    let sql = format!(
        "SELECT {WEBHOOK} FROM webhooks w WHERE ($1::text IS NULL OR account = $1) AND ($2::uuid IS NULL OR id > $2)
         ORDER BY id LIMIT $3"
    );
    let (account, after) = (account.map(AccountId::as_str), after.map(|after| after.0));
    let found = query(rows, &sql, &[&account, &after, &whole(limit)]).await?;
    found.iter().map(webhook).collect()
}

/// Locks an account; how many webhooks it has, if it is there.
pub(super) async fn lock_account(
    rows: &Transaction<'_>,
    account: &AccountId,
) -> Result<Option<i64>, DatabaseError> {
    // Not against jobs and calls, which only refer to it.
    let sql = "SELECT 1 FROM accounts WHERE id = $1 FOR NO KEY UPDATE";
    if query_opt(rows, sql, &[&account.as_str()]).await?.is_none() {
        return Ok(None);
    }
    let sql = "SELECT count(*) FROM webhooks WHERE account = $1";
    let counted = query_opt(rows, sql, &[&account.as_str()]).await?;
    Ok(counted.map(|row| row.get(0)))
}

/// Adds one; false where its id is taken.
pub(super) async fn insert(
    rows: &Transaction<'_>,
    webhook: &Webhook,
) -> Result<bool, DatabaseError> {
    let added = execute(
        rows,
        "INSERT INTO webhooks (id, account, url, kinds, secret_version, created_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT DO NOTHING",
        &[
            &webhook.id.0,
            &webhook.account.as_str(),
            &webhook.url.as_str(),
            &i16::from(webhook.kinds.bits()),
            &i64::from(webhook.secrets.current),
            &webhook.created_at.as_microsecond(),
        ],
    )
    .await?;
    if added > 0 {
        update(rows, webhook).await?;
    }
    Ok(added > 0)
}

/// Writes everything of a webhook that can change.
pub(super) async fn update(rows: &Transaction<'_>, webhook: &Webhook) -> Result<(), DatabaseError> {
    let (disabled_at, reason) = match webhook.state {
        WebhookState::Enabled => (None, None),
        WebhookState::Disabled { reason, at } => (Some(at.as_microsecond()), Some(reason.name())),
    };
    let health = webhook.health;
    execute(
        rows,
        "UPDATE webhooks SET url = $2, kinds = $3, secret_version = $4, previous_until = $5, disabled_at = $6,
            disabled_reason = $7, failures = $8, failing_since = $9, not_before = $10
         WHERE id = $1",
        &[
            &webhook.id.0,
            &webhook.url.as_str(),
            &i16::from(webhook.kinds.bits()),
            &i64::from(webhook.secrets.current),
            &webhook.secrets.previous_until.map(Timestamp::as_microsecond),
            &disabled_at,
            &reason,
            &i64::from(health.failures),
            &health.failing_since.map(Timestamp::as_microsecond),
            &health.not_before.map(Timestamp::as_microsecond),
        ],
    )
    .await?;
    Ok(())
}

/// Removes one; false if it is not there. Its deliveries follow with [`prune`].
pub(super) async fn remove(
    rows: &impl GenericClient,
    id: WebhookId,
) -> Result<bool, DatabaseError> {
    let removed = execute(rows, "DELETE FROM webhooks WHERE id = $1", &[&id.0]).await?;
    Ok(removed > 0)
}

/// Has all that waits for a webhook begin anew.
pub(super) async fn begin_anew(
    rows: &Transaction<'_>,
    id: WebhookId,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    execute(
        rows,
        "UPDATE webhook_deliveries SET next_at = least(next_at, $2), failing_since = NULL
         WHERE webhook = $1 AND delivered_at IS NULL AND (next_at > $2 OR failing_since IS NOT NULL)",
        &[&id.0, &now.as_microsecond()],
    )
    .await?;
    Ok(())
}

/// Deliveries by their places, as far as they and their webhooks are there.
pub(super) async fn deliveries(
    rows: &impl GenericClient,
    places: &[i64],
) -> Result<Vec<Delivery>, DatabaseError> {
    let sql = format!(
        "SELECT {DELIVERY} FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook WHERE place = ANY($1)"
    );
    let found = query(rows, &sql, &[&places]).await?;
    found.iter().map(delivery).collect()
}

/// The newest deliveries of a webhook.
pub(super) async fn newest(
    rows: &impl GenericClient,
    id: WebhookId,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<Delivery>, DatabaseError> {
    let sql = format!(
        "SELECT {DELIVERY} FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook
         WHERE d.webhook = $1 AND place < $2 ORDER BY place DESC LIMIT $3"
    );
    let before = before.map_or(i64::MAX, whole);
    let found = query(rows, &sql, &[&id.0, &before, &whole(limit)]).await?;
    found.iter().map(delivery).collect()
}

/// Writes what attempts left of deliveries.
pub(super) async fn update_deliveries(
    rows: &Transaction<'_>,
    deliveries: &[Delivery],
) -> Result<(), DatabaseError> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let (mut places, mut attempts) = (vec![], vec![]);
    let (mut next, mut delivered, mut failing) = (vec![], vec![], vec![]);
    let (mut attempted, mut statuses, mut errors) = (vec![], vec![], vec![]);
    for delivery in deliveries {
        let (next_at, delivered_at) = match delivery.state {
            DeliveryState::Waiting { next_at } => (Some(next_at.as_microsecond()), None),
            DeliveryState::Delivered { at } => (None, Some(at.as_microsecond())),
        };
        let last = delivery.last.as_ref();
        places.push(whole(delivery.place));
        next.push(next_at);
        delivered.push(delivered_at);
        attempts.push(i64::from(delivery.attempts));
        failing.push(delivery.failing_since.map(Timestamp::as_microsecond));
        attempted.push(last.map(|last| last.at.as_microsecond()));
        statuses.push(last.and_then(|last| last.status).map(i32::from));
        errors.push(last.and_then(|last| last.error.as_deref()));
    }
    execute(
        rows,
        "UPDATE webhook_deliveries d SET next_at = coalesce(n.next_at, d.next_at), delivered_at = n.delivered_at,
            attempts = n.attempts, failing_since = n.failing_since, attempted_at = n.attempted_at, status = n.status,
            error = n.error
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::integer[],
            $8::text[]) AS n (place, next_at, delivered_at, attempts, failing_since, attempted_at, status, error)
         WHERE d.place = n.place",
        &[
            &places, &next, &delivered, &attempts, &failing, &attempted, &statuses, &errors,
        ],
    )
    .await?;
    Ok(())
}

/// What is due, webhook by webhook: those for which nothing waits cost nothing.
pub(super) async fn due(
    rows: &impl GenericClient,
    asked: &DueQuery,
    now: Timestamp,
) -> Result<DuePage, DatabaseError> {
    let sql = format!(
        "WITH RECURSIVE waiting (webhook) AS (
            (SELECT webhook FROM webhook_deliveries WHERE delivered_at IS NULL AND webhook > $1 ORDER BY webhook LIMIT 1)
            UNION ALL
            SELECT (SELECT n.webhook FROM webhook_deliveries n
                WHERE n.delivered_at IS NULL AND n.webhook > waiting.webhook ORDER BY n.webhook LIMIT 1)
            FROM waiting WHERE waiting.webhook IS NOT NULL
         ), w AS (
            SELECT hook.* FROM waiting JOIN webhooks AS hook ON hook.id = waiting.webhook
            WHERE disabled_at IS NULL AND (not_before IS NULL OR not_before <= $2) AND id <> ALL($3)
            ORDER BY id LIMIT $5
         )
         SELECT {WEBHOOK}, {DELIVERY} FROM w LEFT JOIN LATERAL (
            SELECT * FROM webhook_deliveries AS own
            WHERE own.webhook = w.id AND own.delivered_at IS NULL AND own.next_at <= $2 AND own.place <> ALL($4)
                AND NOT EXISTS (
                    SELECT 1 FROM webhook_deliveries e WHERE e.webhook = own.webhook AND e.object = own.object
                        AND e.place < own.place AND e.delivered_at IS NULL)
            ORDER BY own.next_at, own.place LIMIT $6
         ) AS d ON true ORDER BY w.id, d.next_at, d.place"
    );
    let after = asked.after.map_or(Uuid::nil(), |after| after.0);
    let skip: Vec<Uuid> = asked.skip.iter().map(|id| id.0).collect();
    let under_way: Vec<i64> = asked.under_way.iter().map(|place| whole(*place)).collect();
    let found = query(
        rows,
        &sql,
        &[
            &after,
            &now.as_microsecond(),
            &skip,
            &under_way,
            &whole(asked.webhooks),
            &whole(asked.of_each),
        ],
    )
    .await?;
    let (mut page, mut seen) = (DuePage::default(), 0);
    let mut last = None;
    for row in &found {
        let id = WebhookId(row.get("id"));
        if last.replace(id) != Some(id) {
            seen += 1;
        }
        if row.get::<_, Option<i64>>("place").is_none() {
            continue;
        }
        let delivery = delivery(row)?;
        match page.due.last_mut().filter(|due| due.webhook.id == id) {
            Some(due) => due.deliveries.push(delivery),
            None => page.due.push(DueWebhook {
                webhook: webhook(row)?,
                deliveries: vec![delivery],
            }),
        }
    }
    // One whose turn it is although nothing of it is due counts as well: the next page goes on behind it.
    page.next = last.filter(|_| seen >= asked.webhooks);
    Ok(page)
}

/// Forgets deliveries that are over.
pub(super) async fn prune(
    rows: &impl GenericClient,
    before: Timestamp,
    disabled_before: Timestamp,
    limit: usize,
) -> Result<usize, DatabaseError> {
    let delivered = execute(
        rows,
        "DELETE FROM webhook_deliveries WHERE place IN (
            SELECT place FROM webhook_deliveries WHERE delivered_at IS NOT NULL AND delivered_at < $1
            ORDER BY delivered_at LIMIT $2)",
        &[&before.as_microsecond(), &whole(limit)],
    )
    .await?;
    let delivered = usize::try_from(delivered).unwrap_or(usize::MAX);
    let in_vain = execute(
        rows,
        "DELETE FROM webhook_deliveries WHERE place IN (
            SELECT d.place FROM webhook_deliveries d LEFT JOIN webhooks w ON w.id = d.webhook
            WHERE d.delivered_at IS NULL AND (w.id IS NULL OR w.disabled_at < $1) LIMIT $2)",
        &[
            &disabled_before.as_microsecond(),
            &whole(limit.saturating_sub(delivered)),
        ],
    )
    .await?;
    let in_vain = usize::try_from(in_vain).unwrap_or(usize::MAX);
    Ok(delivered.saturating_add(in_vain))
}

/// The webhooks for which too much waits.
pub(super) async fn overfull(rows: &impl GenericClient) -> Result<Vec<Uuid>, DatabaseError> {
    let found = query(
        rows,
        "SELECT webhook FROM webhook_deliveries JOIN webhooks ON id = webhook
         WHERE delivered_at IS NULL AND disabled_at IS NULL GROUP BY webhook HAVING count(*) > $1",
        &[&whole(MOST_WAITING)],
    )
    .await?;
    Ok(found.iter().map(|row| row.get(0)).collect())
}

fn time(row: &Row, column: &str) -> Result<Option<Timestamp>, DatabaseError> {
    row.get::<_, Option<i64>>(column)
        .map(from_micros)
        .transpose()
}

fn webhook(row: &Row) -> Result<Webhook, DatabaseError> {
    let reason: Option<&str> = row.get("disabled_reason");
    let state = match (time(row, "disabled_at")?, reason) {
        (Some(at), Some(reason)) => WebhookState::Disabled {
            reason: DisabledReason::named(reason)
                .ok_or_else(|| unreadable(UnknownWord("reason")))?,
            at,
        },
        _ => WebhookState::Enabled,
    };
    let kinds: u8 = unsigned(row.get::<_, i16>("kinds").into())?;
    Ok(Webhook {
        id: WebhookId(row.get("id")),
        account: parse(row.get("account"))?,
        url: parse(row.get("url"))?,
        kinds: EventKinds::from_bits(kinds).map_err(unreadable)?,
        secrets: SecretVersions {
            current: unsigned(row.get("secret_version"))?,
            previous_until: time(row, "previous_until")?,
        },
        state,
        health: Health {
            failures: unsigned(row.get("failures"))?,
            failing_since: time(row, "failing_since")?,
            not_before: time(row, "not_before")?,
        },
        created_at: from_micros(row.get("created_at"))?,
    })
}

fn delivery(row: &Row) -> Result<Delivery, DatabaseError> {
    let kind = EventKind::named(row.get("kind"));
    let state = match time(row, "delivered_at")? {
        Some(at) => DeliveryState::Delivered { at },
        None => DeliveryState::Waiting {
            next_at: from_micros(row.get("next_at"))?,
        },
    };
    let last = match time(row, "attempted_at")? {
        Some(at) => Some(LastAttempt {
            at,
            status: match row.get::<_, Option<i32>>("status") {
                Some(status) => Some(unsigned(status.into())?),
                None => None,
            },
            error: row.get("error"),
        }),
        None => None,
    };
    Ok(Delivery {
        place: unsigned(row.get("place"))?,
        webhook: WebhookId(row.get("webhook")),
        message: MessageId(row.get("message")),
        event: Event {
            account: parse(row.get("account"))?,
            kind: kind.ok_or_else(|| unreadable(UnknownWord("kind of events")))?,
            object: row.get("object"),
            at: from_micros(row.get("at"))?,
            data: row.get("data"),
        },
        state,
        attempts: unsigned(row.get("attempts"))?,
        failing_since: time(row, "delivery_failing_since")?,
        last,
    })
}
