//! The SQL of the ledger.

use accounts::{AccountId, LedgerEntry, LedgerRef};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::rows::{read_spend, whole};
use super::{SharedAccounts, scopes};
use crate::columns::{Id, Micros, unreadable, whole_micros};
use crate::database::Transaction;

/// An entry with a cause of a kind that this program does not write.
#[derive(Debug, thiserror::Error)]
#[error("there is no cause of this kind")]
struct UnknownCause;

const COLUMNS: &str = "seq, account, why, cause, amount_cents, at";

/// Adds an entry for its cause, unless there is one, and lets the hold of the cause go; the entry that stands.
pub(super) fn post(
    rows: &mut Transaction<'_>,
    accounts: &SharedAccounts,
    account: &AccountId,
    cause: LedgerRef,
    amount_cents: i64,
    now: Timestamp,
) -> rusqlite::Result<LedgerEntry> {
    let of_account = account.clone();
    let (why, id) = spell(cause);
    let at_us = now.as_microsecond();
    let scopes = accounts.forget_scopes(rows, account, cause)?;
    let Some(seq) = add(rows, (account.as_str(), why, id), amount_cents, at_us)? else {
        accounts.later(rows, move |index| {
            if let Some(balance) = index.balance(&of_account) {
                balance.release(cause);
            }
        });
        let entry = of_cause(rows, account, cause)?;
        return entry.ok_or(rusqlite::Error::QueryReturnedNoRows);
    };
    change_balance(rows, account.as_str(), &[(cause, amount_cents, now)])?;
    scopes::charge(rows, account, &scopes, (cause, amount_cents, now))?;
    accounts.later(rows, move |index| {
        if let Some(balance) = index.balance(&of_account) {
            balance.post(cause, amount_cents, now);
        }
    });
    Ok(LedgerEntry {
        seq: seq.unsigned_abs(),
        account: account.clone(),
        cause,
        amount_cents,
        at: whole_micros(now),
    })
}

/// Adds an entry unless there is one for its cause; the number that it got.
fn add(
    rows: &Connection,
    (account, why, cause): (&str, i64, Id),
    amount_cents: i64,
    at_us: i64,
) -> rusqlite::Result<Option<i64>> {
    let seq = newest_seq(rows, account)? + 1;
    let added = rows
        .prepare_cached(
            "INSERT INTO ledger (account, seq, why, cause, amount_cents, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (account, why, cause) DO NOTHING",
        )?
        .execute(params![account, seq, why, cause, amount_cents, at_us])?;
    Ok((added > 0).then_some(seq))
}

/// The number of the newest entry of an account; 0 if it has none.
pub(super) fn newest_seq(rows: &Connection, account: &str) -> rusqlite::Result<i64> {
    let newest = rows
        .prepare_cached("SELECT seq FROM ledger WHERE account = ?1 ORDER BY seq DESC LIMIT 1")?
        .query_row([account], |row| row.get(0))
        .optional()?;
    Ok(newest.unwrap_or(0))
}

/// Adds new entries, each with its cause, amount and time, to what an account has and was charged. It must be there.
pub(super) fn change_balance(
    rows: &Connection,
    account: &str,
    entries: &[(LedgerRef, i64, Timestamp)],
) -> rusqlite::Result<()> {
    let mut spend = rows
        .prepare_cached(
            "SELECT spent_at, spent_hour_cents, spent_day_cents, spent_month_cents FROM accounts WHERE id = ?1",
        )?
        .query_row([account], read_spend)?;
    let mut sum = 0_i64;
    for (cause, amount_cents, at) in entries {
        sum = sum.saturating_add(*amount_cents);
        spend.post(*cause, *amount_cents, *at);
    }
    rows.prepare_cached(
        "UPDATE accounts SET balance_cents = balance_cents + ?2, spent_at = ?3, spent_hour_cents = ?4,
            spent_day_cents = ?5, spent_month_cents = ?6
         WHERE id = ?1",
    )?
    .execute(params![
        account,
        sum,
        Micros(spend.at),
        whole(spend.hour_cents),
        whole(spend.day_cents),
        whole(spend.month_cents),
    ])?;
    Ok(())
}

/// The newest entries of an account, below `before` where it is given.
pub(super) fn newest(
    rows: &Connection,
    account: &AccountId,
    before: Option<u64>,
    limit: usize,
) -> rusqlite::Result<Vec<LedgerEntry>> {
    let before = before.map_or(i64::MAX, |seq| i64::try_from(seq).unwrap_or(i64::MAX));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = rows.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM ledger WHERE account = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3"
    ))?;
    let found = statement.query_map(params![account.as_str(), before, limit], entry)?;
    found.collect()
}

fn of_cause(
    rows: &Connection,
    account: &AccountId,
    cause: LedgerRef,
) -> rusqlite::Result<Option<LedgerEntry>> {
    let (why, id) = spell(cause);
    rows.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM ledger WHERE account = ?1 AND why = ?2 AND cause = ?3"
    ))?
    .query_row(params![account.as_str(), why, id], entry)
    .optional()
}

fn entry(row: &Row<'_>) -> rusqlite::Result<LedgerEntry> {
    let Micros(at) = row.get("at")?;
    Ok(LedgerEntry {
        seq: row.get::<_, i64>("seq")?.unsigned_abs(),
        account: crate::columns::parse(&row.get::<_, String>("account")?)?,
        cause: read_cause(row)?,
        amount_cents: row.get("amount_cents")?,
        at,
    })
}

/// The two columns of a cause.
pub(super) fn spell(cause: LedgerRef) -> (i64, Id) {
    match cause {
        LedgerRef::Grant(id) => (1, Id(id)),
        LedgerRef::Generation(id) => (2, Id(id)),
    }
}

/// The cause of a row.
pub(super) fn read_cause(row: &Row<'_>) -> rusqlite::Result<LedgerRef> {
    let (why, Id(id)): (i64, Id) = (row.get("why")?, row.get("cause")?);
    let kinds: [fn(Uuid) -> LedgerRef; 2] = [LedgerRef::Grant, LedgerRef::Generation];
    let kind = usize::try_from(why - 1).ok().and_then(|at| kinds.get(at));
    kind.map(|kind| kind(id))
        .ok_or_else(|| unreadable(UnknownCause))
}
