//! The SQL of webhooks and of what is delivered to them.

use accounts::AccountId;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;
use webhooks::{
    Delivery, DeliveryState, DisabledReason, DuePage, DueQuery, DueWebhook, Event, EventKind,
    EventKinds, Health, LastAttempt, MOST_WAITING, MessageId, SecretVersions, Webhook, WebhookId,
    WebhookState,
};

use crate::columns::{Id, Micros, parse, unreadable};

/// A column with a word that this program does not write.
#[derive(Debug, thiserror::Error)]
#[error("there is no {0} of this name")]
struct UnknownWord(&'static str);

const WEBHOOK: &str = "id, account, url, kinds, secret_version, previous_until, disabled_at, disabled_reason, failures,
    failing_since, not_before, created_at";

const DELIVERY: &str = "d.place, d.webhook, w.account, d.message, d.kind, d.object, d.at, d.data, d.next_at, d.delivered_at,
    d.attempts, d.failing_since, d.attempted_at, d.status, d.error";

/// Every webhook.
pub(super) fn all(rows: &Connection) -> rusqlite::Result<Vec<Webhook>> {
    let mut statement = rows.prepare(&format!("SELECT {WEBHOOK} FROM webhooks"))?;
    let found = statement.query_map([], webhook)?;
    found.collect()
}

/// One, if it is there.
pub(super) fn get(rows: &Connection, id: WebhookId) -> rusqlite::Result<Option<Webhook>> {
    rows.prepare_cached(&format!("SELECT {WEBHOOK} FROM webhooks WHERE id = ?1"))?
        .query_row([Id(id.0)], webhook)
        .optional()
}

/// Some of them in the order of their ids.
pub(super) fn list(
    rows: &Connection,
    account: Option<&AccountId>,
    after: Option<WebhookId>,
    limit: usize,
) -> rusqlite::Result<Vec<Webhook>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = rows.prepare_cached(&format!(
        "SELECT {WEBHOOK} FROM webhooks WHERE (?1 IS NULL OR account = ?1) AND (?2 IS NULL OR id > ?2) ORDER BY id LIMIT ?3"
    ))?;
    let after = after.map(|after| Id(after.0));
    let found = statement.query_map(
        params![account.map(AccountId::as_str), after, limit],
        webhook,
    )?;
    found.collect()
}

/// How many an account has.
pub(super) fn count(rows: &Connection, account: &AccountId) -> rusqlite::Result<i64> {
    rows.prepare_cached("SELECT count(*) FROM webhooks WHERE account = ?1")?
        .query_row([account.as_str()], |row| row.get(0))
}

/// Adds one; false where its id is taken.
pub(super) fn insert(rows: &Connection, webhook: &Webhook) -> rusqlite::Result<bool> {
    let added = rows
        .prepare_cached(
            "INSERT INTO webhooks (id, account, url, kinds, secret_version, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            Id(webhook.id.0),
            webhook.account.as_str(),
            webhook.url.as_str(),
            webhook.kinds.bits(),
            webhook.secrets.current,
            Micros(webhook.created_at),
        ])?;
    if added > 0 {
        update(rows, webhook)?;
    }
    Ok(added > 0)
}

/// Writes everything of a webhook that can change.
pub(super) fn update(rows: &Connection, webhook: &Webhook) -> rusqlite::Result<()> {
    let (disabled_at, reason) = match webhook.state {
        WebhookState::Enabled => (None, None),
        WebhookState::Disabled { reason, at } => (Some(Micros(at)), Some(reason.name())),
    };
    let health = webhook.health;
    rows.prepare_cached(
        "UPDATE webhooks SET url = ?2, kinds = ?3, secret_version = ?4, previous_until = ?5, disabled_at = ?6,
            disabled_reason = ?7, failures = ?8, failing_since = ?9, not_before = ?10
         WHERE id = ?1",
    )?
    .execute(params![
        Id(webhook.id.0),
        webhook.url.as_str(),
        webhook.kinds.bits(),
        webhook.secrets.current,
        webhook.secrets.previous_until.map(Micros),
        disabled_at,
        reason,
        health.failures,
        health.failing_since.map(Micros),
        health.not_before.map(Micros),
    ])?;
    Ok(())
}

/// Removes one. Its deliveries follow with [`prune`].
pub(super) fn remove(rows: &Connection, id: WebhookId) -> rusqlite::Result<()> {
    rows.prepare_cached("DELETE FROM webhooks WHERE id = ?1")?
        .execute([Id(id.0)])?;
    Ok(())
}

/// Has all that waits for a webhook begin anew.
pub(super) fn begin_anew(rows: &Connection, id: WebhookId, now: Timestamp) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "UPDATE webhook_deliveries SET next_at = min(next_at, ?2), failing_since = NULL
         WHERE webhook = ?1 AND delivered_at IS NULL AND (next_at > ?2 OR failing_since IS NOT NULL)",
    )?
    .execute(params![Id(id.0), Micros(now)])?;
    Ok(())
}

/// Writes an event down for a webhook; its place.
pub(super) fn write(rows: &Connection, webhook: WebhookId, event: &Event) -> rusqlite::Result<i64> {
    rows.prepare_cached(
        "INSERT INTO webhook_deliveries (webhook, message, kind, object, at, data, next_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?5)",
    )?
    .insert(params![
        Id(webhook.0),
        Id(Uuid::new_v4()),
        event.kind.name(),
        event.object,
        Micros(event.at),
        event.data,
    ])
}

/// A delivery, if it and its webhook are there.
pub(super) fn delivery(rows: &Connection, place: i64) -> rusqlite::Result<Option<Delivery>> {
    rows.prepare_cached(&format!(
        "SELECT {DELIVERY} FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook WHERE place = ?1"
    ))?
    .query_row([place], read_delivery)
    .optional()
}

/// The newest deliveries of a webhook.
pub(super) fn newest(
    rows: &Connection,
    id: WebhookId,
    before: Option<u64>,
    limit: usize,
) -> rusqlite::Result<Vec<Delivery>> {
    let before = before.map_or(i64::MAX, |place| i64::try_from(place).unwrap_or(i64::MAX));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = rows.prepare_cached(&format!(
        "SELECT {DELIVERY} FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook
         WHERE d.webhook = ?1 AND place < ?2 ORDER BY place DESC LIMIT ?3"
    ))?;
    let found = statement.query_map(params![Id(id.0), before, limit], read_delivery)?;
    found.collect()
}

/// Writes what an attempt left of a delivery.
pub(super) fn update_delivery(rows: &Connection, delivery: &Delivery) -> rusqlite::Result<()> {
    let (next_at, delivered_at) = match delivery.state {
        DeliveryState::Waiting { next_at } => (Some(Micros(next_at)), None),
        DeliveryState::Delivered { at } => (None, Some(Micros(at))),
    };
    let last = delivery.last.as_ref();
    rows.prepare_cached(
        "UPDATE webhook_deliveries SET next_at = coalesce(?2, next_at), delivered_at = ?3, attempts = ?4, failing_since = ?5,
            attempted_at = ?6, status = ?7, error = ?8
         WHERE place = ?1",
    )?
    .execute(params![
        delivery.place.cast_signed(),
        next_at,
        delivered_at,
        delivery.attempts,
        delivery.failing_since.map(Micros),
        last.map(|last| Micros(last.at)),
        last.and_then(|last| last.status),
        last.and_then(|last| last.error.as_deref()),
    ])?;
    Ok(())
}

/// What is due, webhook by webhook: those for which nothing waits cost nothing.
pub(super) fn due(
    rows: &Connection,
    query: &DueQuery,
    now: Timestamp,
) -> rusqlite::Result<DuePage> {
    let mut page = DuePage::default();
    let mut last = query
        .after
        .map_or(Vec::new(), |id| id.0.as_bytes().to_vec());
    loop {
        let next: Option<Id> = rows
            .prepare_cached(
                "SELECT webhook FROM webhook_deliveries WHERE delivered_at IS NULL AND webhook > ?1 ORDER BY webhook LIMIT 1",
            )?
            .query_row([&last], |row| row.get(0))
            .optional()?;
        let Some(Id(next)) = next else {
            return Ok(page);
        };
        last = next.as_bytes().to_vec();
        let id = WebhookId(next);
        if query.skip.contains(&id) {
            continue;
        }
        let Some(webhook) = get(rows, id)?.filter(|webhook| webhook.may_send(now)) else {
            continue;
        };
        let deliveries = due_of(rows, id, query, now)?;
        if deliveries.is_empty() {
            continue;
        }
        page.due.push(DueWebhook {
            webhook,
            deliveries,
        });
        if page.due.len() >= query.webhooks {
            page.next = Some(id);
            return Ok(page);
        }
    }
}

/// What is due of a webhook: of each object the first that waits.
fn due_of(
    rows: &Connection,
    id: WebhookId,
    query: &DueQuery,
    now: Timestamp,
) -> rusqlite::Result<Vec<Delivery>> {
    let mut statement = rows.prepare_cached(&format!(
        "SELECT {DELIVERY} FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook
         WHERE d.webhook = ?1 AND d.delivered_at IS NULL AND d.next_at <= ?2
            AND NOT EXISTS (
                SELECT 1 FROM webhook_deliveries e WHERE e.webhook = d.webhook AND e.object = d.object AND e.place < d.place
                    AND e.delivered_at IS NULL)
         ORDER BY d.next_at, d.place"
    ))?;
    let mut found = statement.query(params![Id(id.0), Micros(now)])?;
    let mut due = Vec::new();
    while due.len() < query.of_each {
        let Some(row) = found.next()? else { break };
        let place = row.get::<_, i64>("place")?.unsigned_abs();
        if !query.under_way.contains(&place) {
            due.push(read_delivery(row)?);
        }
    }
    Ok(due)
}

/// Forgets deliveries that are over.
pub(super) fn prune(
    rows: &Connection,
    before: Timestamp,
    disabled_before: Timestamp,
    limit: usize,
) -> rusqlite::Result<usize> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let delivered = rows
        .prepare_cached(
            "DELETE FROM webhook_deliveries WHERE place IN (
                SELECT place FROM webhook_deliveries WHERE delivered_at IS NOT NULL AND delivered_at < ?1
                ORDER BY delivered_at LIMIT ?2)",
        )?
        .execute(params![Micros(before), limit])?;
    let left = limit.saturating_sub(i64::try_from(delivered).unwrap_or(i64::MAX));
    let in_vain = rows
        .prepare_cached(
            "DELETE FROM webhook_deliveries WHERE place IN (
                SELECT place FROM webhook_deliveries d LEFT JOIN webhooks w ON w.id = d.webhook
                WHERE delivered_at IS NULL AND (w.id IS NULL OR w.disabled_at < ?1) LIMIT ?2)",
        )?
        .execute(params![Micros(disabled_before), left])?;
    Ok(delivered + in_vain)
}

/// The webhooks for which too much waits.
pub(super) fn overfull(rows: &Connection) -> rusqlite::Result<Vec<WebhookId>> {
    let mut statement = rows.prepare_cached(
        "SELECT webhook FROM webhook_deliveries JOIN webhooks ON id = webhook
         WHERE delivered_at IS NULL AND disabled_at IS NULL GROUP BY webhook HAVING count(*) > ?1",
    )?;
    let most = i64::try_from(MOST_WAITING).unwrap_or(i64::MAX);
    let found = statement.query_map([most], |row| Ok(WebhookId(row.get::<_, Id>(0)?.0)))?;
    found.collect()
}

/// Notes that the account of a budget is told of a window; false if it was.
pub(super) fn note_budget(
    rows: &Connection,
    account: &AccountId,
    window: &str,
    ends_at: Timestamp,
) -> rusqlite::Result<bool> {
    let noted = rows
        .prepare_cached(
            "INSERT INTO budgets_reached (account, \"window\", ends_at) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET ends_at = excluded.ends_at WHERE ends_at < excluded.ends_at",
        )?
        .execute(params![account.as_str(), window, Micros(ends_at)])?;
    Ok(noted > 0)
}

fn time(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row
        .get::<_, Option<Micros>>(column)?
        .map(|Micros(time)| time))
}

fn webhook(row: &Row<'_>) -> rusqlite::Result<Webhook> {
    let reason: Option<String> = row.get("disabled_reason")?;
    let state = match (time(row, "disabled_at")?, reason) {
        (Some(at), Some(reason)) => WebhookState::Disabled {
            reason: DisabledReason::named(&reason)
                .ok_or_else(|| unreadable(UnknownWord("reason")))?,
            at,
        },
        _ => WebhookState::Enabled,
    };
    Ok(Webhook {
        id: WebhookId(row.get::<_, Id>("id")?.0),
        account: parse(row.get_ref("account")?.as_str()?)?,
        url: parse(row.get_ref("url")?.as_str()?)?,
        kinds: EventKinds::from_bits(row.get("kinds")?).map_err(unreadable)?,
        secrets: SecretVersions {
            current: row.get("secret_version")?,
            previous_until: time(row, "previous_until")?,
        },
        state,
        health: Health {
            failures: row.get("failures")?,
            failing_since: time(row, "failing_since")?,
            not_before: time(row, "not_before")?,
        },
        created_at: row.get::<_, Micros>("created_at")?.0,
    })
}

fn read_delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let kind = EventKind::named(row.get_ref("kind")?.as_str()?);
    let state = match time(row, "delivered_at")? {
        Some(at) => DeliveryState::Delivered { at },
        None => DeliveryState::Waiting {
            next_at: row.get::<_, Micros>("next_at")?.0,
        },
    };
    let last = match time(row, "attempted_at")? {
        Some(at) => Some(LastAttempt {
            at,
            status: row.get("status")?,
            error: row.get("error")?,
        }),
        None => None,
    };
    Ok(Delivery {
        place: row.get::<_, i64>("place")?.unsigned_abs(),
        webhook: WebhookId(row.get::<_, Id>("webhook")?.0),
        message: MessageId(row.get::<_, Id>("message")?.0),
        event: Event {
            account: parse(row.get_ref("account")?.as_str()?)?,
            kind: kind.ok_or_else(|| unreadable(UnknownWord("kind of events")))?,
            object: row.get("object")?,
            at: row.get::<_, Micros>("at")?.0,
            data: row.get("data")?,
        },
        state,
        attempts: row.get("attempts")?,
        failing_since: time(row, "failing_since")?,
        last,
    })
}
