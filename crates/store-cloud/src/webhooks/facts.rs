//! Writing events down, in the transactions that make them true. A batch of facts that no webhook wants costs one look at a small
//! table.

use std::collections::HashMap;

use accounts::{AccountId, OverBudget};
use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;
use webhooks::{BudgetReached, Event, EventKind, EventKinds, WebhookId};

use crate::DatabaseError;
use crate::columns::{parse, unreadable, unsigned};
use crate::statements::{execute, query};

/// Which webhooks of which accounts want something.
pub(crate) type Wanting = HashMap<AccountId, Vec<WebhookId>>;

/// The webhooks of these accounts that want a kind of events.
pub(crate) async fn wanting(
    rows: &impl GenericClient,
    accounts: &[&AccountId],
    kind: EventKind,
) -> Result<Wanting, DatabaseError> {
    let mut names: Vec<&str> = accounts.iter().map(|account| account.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut wanting = Wanting::new();
    if names.is_empty() {
        return Ok(wanting);
    }
    let sql = "SELECT account, id, kinds FROM webhooks WHERE account = ANY($1) AND disabled_at IS NULL ORDER BY id";
    for row in &query(rows, sql, &[&names]).await? {
        let kinds: u8 = unsigned(row.get::<_, i16>("kinds").into())?;
        if EventKinds::from_bits(kinds).map_err(unreadable)?.has(kind) {
            let account = parse(row.get("account"))?;
            let id = WebhookId(row.get("id"));
            wanting.entry(account).or_default().push(id);
        }
    }
    Ok(wanting)
}

/// Writes events down for the webhooks that want them, in their order.
pub(crate) async fn write(
    rows: &impl GenericClient,
    wanting: &Wanting,
    events: &[Event],
) -> Result<(), DatabaseError> {
    let for_each = events.iter().flat_map(|event| {
        let wanting = wanting.get(&event.account).into_iter().flatten();
        wanting.map(move |webhook| (*webhook, event))
    });
    write_for(rows, &for_each.collect::<Vec<_>>()).await
}

/// Writes each event down for its webhook.
pub(super) async fn write_for(
    rows: &impl GenericClient,
    deliveries: &[(WebhookId, &Event)],
) -> Result<(), DatabaseError> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let (mut webhooks, mut messages): (Vec<Uuid>, Vec<Uuid>) = (vec![], vec![]);
    let (mut kinds, mut objects, mut times, mut data) = (vec![], vec![], vec![], vec![]);
    for (webhook, event) in deliveries {
        webhooks.push(webhook.0);
        messages.push(Uuid::new_v4());
        kinds.push(event.kind.name());
        objects.push(event.object.as_str());
        times.push(event.at.as_microsecond());
        data.push(event.data.as_str());
    }
    execute(
        rows,
        "INSERT INTO webhook_deliveries (webhook, message, kind, object, at, data, next_at)
         SELECT webhook, message, kind, object, at, data, at
         FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[])
            WITH ORDINALITY AS n (webhook, message, kind, object, at, data, nth) ORDER BY nth",
        &[&webhooks, &messages, &kinds, &objects, &times, &data],
    )
    .await?;
    Ok(())
}

/// Tells accounts of budgets that refused calls, each once in a window.
pub(crate) async fn budgets_reached(
    rows: &impl GenericClient,
    refused: &[(&AccountId, OverBudget, Timestamp)],
) -> Result<(), DatabaseError> {
    let accounts: Vec<&AccountId> = refused.iter().map(|(account, ..)| *account).collect();
    let wanting = wanting(rows, &accounts, EventKind::BudgetReached).await?;
    let mut events = Vec::new();
    for (account, over, at) in refused {
        if !wanting.contains_key(*account) {
            continue;
        }
        // Refusals are few: the accounts that want to hear of them fewer, and the first of a window is the only one that is new.
        let noted = execute(
            rows,
            "INSERT INTO budgets_reached AS b (account, \"window\", ends_at) VALUES ($1, $2, $3)
             ON CONFLICT (account, \"window\") DO UPDATE SET ends_at = excluded.ends_at WHERE b.ends_at < excluded.ends_at",
            &[
                &account.as_str(),
                &over.name(),
                &over.left.ends_at.as_microsecond(),
            ],
        )
        .await?;
        if noted > 0 {
            events.push(Event::budget_reached(BudgetReached {
                account,
                of: over.of.as_ref(),
                left: over.left,
                at: *at,
            }));
        }
    }
    write(rows, &wanting, &events).await
}
