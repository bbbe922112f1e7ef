//! The SQL of accounts and keys.

use accounts::{
    Account, AccountId, AccountState, ApiKey, Budgets, Credits, Entitlements, KeyHash, KeyId,
    Limits, RateWindow, ScopedBudgets, Spend,
};
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

use super::scopes;
use crate::columns::{Micros, parse, unreadable};

/// Adds an account; false where its id is taken.
pub(super) fn insert_account(rows: &Connection, account: &Account) -> rusqlite::Result<bool> {
    let added = rows
        .prepare_cached(
            "INSERT INTO accounts (id, name, suspended, subscribed, router, billed, balance_cents, created_at)
             VALUES (?1, '', 0, 0, 0, 0, 0, ?2) ON CONFLICT DO NOTHING",
        )?
        .execute(params![account.id.as_str(), Micros(account.created_at)])?;
    if added == 0 {
        return Ok(false);
    }
    update_account(rows, account)?;
    Ok(true)
}

/// Writes everything of an account that can change, but for its balance.
pub(super) fn update_account(rows: &Connection, account: &Account) -> rusqlite::Result<()> {
    let limits = &account.limits;
    let windows = limits.windows.as_deref().map(RateWindow::write_list);
    let submissions = limits.submissions.as_deref().map(RateWindow::write_list);
    rows.prepare_cached(
        "UPDATE accounts SET name = :name, suspended = :suspended, subscribed = :subscribed, router = :router,
            billed = :billed, concurrent_jobs = :concurrent_jobs, queued_jobs = :queued_jobs, streams = :streams,
            upload_bytes = :upload_bytes, upload_retention = :upload_retention, job_retention = :job_retention,
            concurrent_calls = :concurrent_calls, committed_spend_cents = :committed_spend_cents,
            windows = :windows, entitlements = :entitlements, stored_bytes = :stored_bytes,
            submissions = :submissions, budgets = :budgets, scoped_budgets = :scoped_budgets, keep_results = :keep_results
         WHERE id = :id",
    )?
    .execute(named_params! {
        ":id": account.id.as_str(),
        ":name": account.name.as_str(),
        ":suspended": account.state == AccountState::Suspended,
        ":subscribed": account.subscribed,
        ":router": account.router,
        ":billed": account.billed,
        ":concurrent_jobs": limits.concurrent_jobs,
        ":queued_jobs": limits.queued_jobs,
        ":streams": limits.streams,
        ":upload_bytes": limits.upload_bytes.map(whole),
        ":upload_retention": limits.upload_retention.map(micros),
        ":job_retention": limits.job_retention.map(micros),
        ":concurrent_calls": limits.concurrent_calls,
        ":committed_spend_cents": limits.committed_spend_cents.map(whole),
        ":windows": windows,
        ":entitlements": limits.entitlements.as_ref().map(ToString::to_string),
        ":stored_bytes": limits.stored_bytes.map(whole),
        ":submissions": submissions,
        ":budgets": limits.budgets.as_ref().map(ToString::to_string),
        ":scoped_budgets": limits.scoped_budgets.write(),
        ":keep_results": limits.keep_results,
    })?;
    scopes::keep(rows, account)
}

/// An account.
pub(super) fn account(rows: &Connection, id: &AccountId) -> rusqlite::Result<Option<Account>> {
    rows.prepare_cached("SELECT * FROM accounts WHERE id = ?1")?
        .query_row([id.as_str()], read_account)
        .optional()
}

/// Every account and its credits; nothing is held.
pub(super) fn each_account(
    rows: &Connection,
    mut take: impl FnMut(Account, Credits),
) -> rusqlite::Result<()> {
    let mut statement = rows.prepare("SELECT * FROM accounts")?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let credits = Credits {
            balance_cents: row.get("balance_cents")?,
            held_cents: 0,
            spend: read_spend(row)?,
        };
        take(read_account(row)?, credits);
    }
    Ok(())
}

/// Adds a key; false where its id or its hash is taken.
pub(super) fn insert_key(
    rows: &Connection,
    key: &ApiKey,
    hash: &KeyHash,
) -> rusqlite::Result<bool> {
    let added = rows
        .prepare_cached(
            "INSERT INTO api_keys (id, hash, account, name, scopes, created_at, expires_at, revoked_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            key.id.as_str(),
            hash.as_bytes().as_slice(),
            key.account.as_str(),
            key.name.as_str(),
            key.scopes.to_string(),
            Micros(key.created_at),
            key.expires_at.map(Micros),
            key.revoked_at.map(Micros),
        ])?;
    Ok(added == 1)
}

/// Revokes a key unless it is revoked; the key as it is then.
pub(super) fn revoke_key(
    rows: &Connection,
    id: &KeyId,
    now: Timestamp,
) -> rusqlite::Result<Option<ApiKey>> {
    rows.prepare_cached(
        "UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
    )?
    .execute(params![id.as_str(), Micros(now)])?;
    rows.prepare_cached("SELECT * FROM api_keys WHERE id = ?1")?
        .query_row([id.as_str()], read_key)
        .optional()
}

/// Every key and its hash.
pub(super) fn each_key(
    rows: &Connection,
    mut take: impl FnMut(ApiKey, KeyHash),
) -> rusqlite::Result<()> {
    let mut statement = rows.prepare("SELECT * FROM api_keys")?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        take(read_key(row)?, KeyHash::from_bytes(row.get("hash")?));
    }
    Ok(())
}

fn read_account(row: &Row<'_>) -> rusqlite::Result<Account> {
    let text = |column: &str| row.get::<_, Option<String>>(column);
    let span = |column: &str| -> rusqlite::Result<Option<SignedDuration>> {
        let micros: Option<i64> = row.get(column)?;
        Ok(micros.map(SignedDuration::from_micros))
    };
    let long = |column: &str| -> rusqlite::Result<Option<u64>> {
        let number: Option<i64> = row.get(column)?;
        Ok(number.map(i64::unsigned_abs))
    };
    let windows = |column: &str| {
        let windows = text(column)?.map(|text| RateWindow::read_list(&text).map_err(unreadable));
        windows.transpose()
    };
    let entitlements = text("entitlements")?.map(|text| parse::<Entitlements>(&text));
    let state = if row.get("suspended")? {
        AccountState::Suspended
    } else {
        AccountState::Active
    };
    let Micros(created_at) = row.get("created_at")?;
    Ok(Account {
        id: parsed(row, "id")?,
        name: parsed(row, "name")?,
        state,
        subscribed: row.get("subscribed")?,
        router: row.get("router")?,
        billed: row.get("billed")?,
        limits: Limits {
            concurrent_jobs: row.get("concurrent_jobs")?,
            queued_jobs: row.get("queued_jobs")?,
            streams: row.get("streams")?,
            upload_bytes: long("upload_bytes")?,
            stored_bytes: long("stored_bytes")?,
            submissions: windows("submissions")?,
            upload_retention: span("upload_retention")?,
            job_retention: span("job_retention")?,
            concurrent_calls: row.get("concurrent_calls")?,
            committed_spend_cents: long("committed_spend_cents")?,
            budgets: text("budgets")?
                .map(|text| parse::<Budgets>(&text))
                .transpose()?,
            scoped_budgets: text("scoped_budgets")?
                .map(|text| parse::<ScopedBudgets>(&text))
                .transpose()?
                .unwrap_or_default(),
            windows: windows("windows")?,
            entitlements: entitlements.transpose()?,
            keep_results: row.get("keep_results")?,
        },
        created_at,
    })
}

/// What an account was charged in its newest windows.
pub(super) fn read_spend(row: &Row<'_>) -> rusqlite::Result<Spend> {
    let cents = |column: &str| row.get::<_, i64>(column).map(i64::unsigned_abs);
    let Micros(at) = row.get("spent_at")?;
    Ok(Spend {
        at,
        hour_cents: cents("spent_hour_cents")?,
        day_cents: cents("spent_day_cents")?,
        month_cents: cents("spent_month_cents")?,
    })
}

fn read_key(row: &Row<'_>) -> rusqlite::Result<ApiKey> {
    let time = |column: &str| -> rusqlite::Result<Option<Timestamp>> {
        let time: Option<Micros> = row.get(column)?;
        Ok(time.map(|Micros(time)| time))
    };
    let Micros(created_at) = row.get("created_at")?;
    Ok(ApiKey {
        id: parsed(row, "id")?,
        account: parsed(row, "account")?,
        name: parsed(row, "name")?,
        scopes: parsed(row, "scopes")?,
        created_at,
        expires_at: time("expires_at")?,
        revoked_at: time("revoked_at")?,
    })
}

fn parsed<T>(row: &Row<'_>, column: &str) -> rusqlite::Result<T>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    parse(&row.get::<_, String>(column)?)
}

/// A span as a column holds it; what is longer than any clock is cut off.
fn micros(span: SignedDuration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// A number as a column holds it; what is more than there is of anything is cut off.
pub(super) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
