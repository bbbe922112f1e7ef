//! The SQL of budgets of keys and labels: what was charged in their scopes, and which causes count against them.

use std::sync::Arc;

use accounts::{Account, AccountId, AccountIndex, BudgetScope, Credits, LedgerRef, Spend};
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::ledger::{read_cause, spell};
use super::rows::{read_spend, whole};
use crate::columns::{Micros, parse};

/// How long it is remembered what a cause counts against that is neither billed nor released: longer than any call runs. It is
/// left behind by a process that ended between a hold and the row of its call.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(31 * 24);

/// Takes over what the rows know of scopes.
pub(super) fn load(rows: &Connection, index: &mut AccountIndex) -> rusqlite::Result<()> {
    let mut charged = rows.prepare("SELECT * FROM scoped_spend")?;
    let mut found = charged.query([])?;
    while let Some(row) = found.next()? {
        let account: AccountId = parse(&row.get::<_, String>("account")?)?;
        let scope = parse(&row.get::<_, String>("scope")?)?;
        let credits = Credits {
            spend: read_spend(row)?,
            ..Credits::default()
        };
        if let Some(balance) = index.balance(&account) {
            balance.put_scope(scope, credits);
        }
    }
    let mut causes = rows.prepare("SELECT * FROM budget_causes")?;
    let mut found = causes.query([])?;
    while let Some(row) = found.next()? {
        let account: AccountId = parse(&row.get::<_, String>("account")?)?;
        let cause = read_cause(row)?;
        let scopes = read(&row.get::<_, String>("scopes")?)?;
        if let Some(balance) = index.balance(&account) {
            balance.put_scopes_of(cause, scopes.into());
        }
    }
    Ok(())
}

/// Forgets what was charged in scopes of an account that have no budgets any more.
pub(super) fn keep(rows: &Connection, account: &Account) -> rusqlite::Result<()> {
    let mut known = rows.prepare_cached("SELECT scope FROM scoped_spend WHERE account = ?1")?;
    let known = known.query_map([account.id.as_str()], |row| row.get::<_, String>(0))?;
    for scope in known.collect::<rusqlite::Result<Vec<_>>>()? {
        let budgets = &account.limits.scoped_budgets;
        if budgets.get(&parse(&scope)?).is_none() {
            rows.prepare_cached("DELETE FROM scoped_spend WHERE account = ?1 AND scope = ?2")?
                .execute([account.id.as_str(), &scope])?;
        }
    }
    Ok(())
}

/// Writes down against which scopes a cause counts, once.
pub(super) fn remember(
    rows: &Connection,
    account: &AccountId,
    cause: LedgerRef,
    scopes: &Arc<[BudgetScope]>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let (why, id) = spell(cause);
    let lines: Vec<String> = scopes.iter().map(ToString::to_string).collect();
    rows.prepare_cached(
        "INSERT INTO budget_causes (account, why, cause, scopes, at) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
    )?
    .execute(params![
        account.as_str(),
        why,
        id,
        lines.join("\n"),
        Micros(now)
    ])?;
    let old = now.checked_sub(REMEMBERED).unwrap_or(Timestamp::MIN);
    rows.prepare_cached("DELETE FROM budget_causes WHERE at < ?1")?
        .execute([Micros(old)])?;
    Ok(())
}

/// Forgets against which scopes a cause counts, since its bill has come or never will; the scopes.
pub(super) fn forget(
    rows: &Connection,
    account: &AccountId,
    cause: LedgerRef,
) -> rusqlite::Result<Vec<BudgetScope>> {
    let (why, id) = spell(cause);
    let scopes: Option<String> = rows
        .prepare_cached(
            "DELETE FROM budget_causes WHERE account = ?1 AND why = ?2 AND cause = ?3 RETURNING scopes",
        )?
        .query_row(params![account.as_str(), why, id], |row| row.get(0))
        .optional()?;
    scopes.map_or(Ok(Vec::new()), |scopes| read(&scopes))
}

/// Adds a new entry of the ledger to what was charged in scopes.
pub(super) fn charge(
    rows: &Connection,
    account: &AccountId,
    scopes: &[BudgetScope],
    (cause, amount_cents, at): (LedgerRef, i64, Timestamp),
) -> rusqlite::Result<()> {
    for scope in scopes {
        let scope = scope.to_string();
        let known = rows
            .prepare_cached("SELECT * FROM scoped_spend WHERE account = ?1 AND scope = ?2")?
            .query_row([account.as_str(), &scope], read_spend)
            .optional()?;
        let mut spend: Spend = known.unwrap_or_default();
        spend.post(cause, amount_cents, at);
        rows.prepare_cached(
            "INSERT OR REPLACE INTO scoped_spend
                (account, scope, spent_at, spent_hour_cents, spent_day_cents, spent_month_cents)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            account.as_str(),
            scope,
            Micros(spend.at),
            whole(spend.hour_cents),
            whole(spend.day_cents),
            whole(spend.month_cents),
        ])?;
    }
    Ok(())
}

fn read(lines: &str) -> rusqlite::Result<Vec<BudgetScope>> {
    lines.split('\n').map(parse).collect()
}
