//! The SQL of accounts and keys.

use accounts::{
    Account, AccountId, AccountState, ApiKey, Budgets, Credits, Entitlements, KeyHash, KeyId,
    Limits, RateWindow, ScopedBudgets, Spend,
};
use deadpool_postgres::{GenericClient, Transaction};
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Row;

use super::scopes;
use crate::DatabaseError;
use crate::columns::{from_micros, parse, unreadable, unsigned};
use crate::statements::{execute, query, query_opt, whole};

/// The columns of an account.
const ACCOUNT: &str = "accounts.id, accounts.name, accounts.suspended, accounts.subscribed, accounts.router, \
    accounts.billed, accounts.concurrent_jobs, accounts.queued_jobs, accounts.streams, accounts.upload_bytes, \
    accounts.stored_bytes, accounts.submissions, accounts.upload_retention, accounts.job_retention, \
    accounts.concurrent_calls, accounts.committed_spend_cents, accounts.budgets, accounts.windows, \
    accounts.entitlements, accounts.created_at, accounts.scoped_budgets, accounts.keep_results";

/// The columns of a key, beside those of its account.
const KEY: &str = "api_keys.id AS key_id, hash, account, api_keys.name AS key_name, scopes, \
    api_keys.created_at AS key_created_at, expires_at, revoked_at";

/// Adds an account that has nothing yet; false where its id is taken.
pub(super) async fn insert_account(
    rows: &Transaction<'_>,
    account: &Account,
) -> Result<bool, DatabaseError> {
    let id = account.id.as_str();
    let added = execute(
        rows,
        "INSERT INTO accounts (id, name, suspended, subscribed, router, billed, created_at)
         VALUES ($1, '', false, false, false, false, $2) ON CONFLICT DO NOTHING",
        &[&id, &account.created_at.as_microsecond()],
    )
    .await?;
    if added == 0 {
        return Ok(false);
    }
    execute(
        rows,
        "INSERT INTO credits (account, balance_cents, newest_seq) VALUES ($1, 0, 0)",
        &[&id],
    )
    .await?;
    update_account(rows, account).await?;
    Ok(true)
}

/// Writes everything of an account that can change, but for its balance.
pub(super) async fn update_account(
    rows: &Transaction<'_>,
    account: &Account,
) -> Result<(), DatabaseError> {
    let limits = &account.limits;
    let windows = limits.windows.as_deref().map(RateWindow::write_list);
    let submissions = limits.submissions.as_deref().map(RateWindow::write_list);
    execute(
        rows,
        "UPDATE accounts SET name = $2, suspended = $3, subscribed = $4, router = $5, billed = $6,
            concurrent_jobs = $7, queued_jobs = $8, streams = $9, upload_bytes = $10, stored_bytes = $11,
            submissions = $12, upload_retention = $13, job_retention = $14, concurrent_calls = $15,
            committed_spend_cents = $16, windows = $17, entitlements = $18,
            budgets = $19, scoped_budgets = $20, keep_results = $21
         WHERE id = $1",
        &[
            &account.id.as_str(),
            &account.name.as_str(),
            &(account.state == AccountState::Suspended),
            &account.subscribed,
            &account.router,
            &account.billed,
            &limits.concurrent_jobs.map(i64::from),
            &limits.queued_jobs.map(i64::from),
            &limits.streams.map(i64::from),
            &limits.upload_bytes.map(whole),
            &limits.stored_bytes.map(whole),
            &submissions,
            &limits.upload_retention.map(micros),
            &limits.job_retention.map(micros),
            &limits.concurrent_calls.map(i64::from),
            &limits.committed_spend_cents.map(whole),
            &windows,
            &limits.entitlements.as_ref().map(ToString::to_string),
            &limits.budgets.as_ref().map(ToString::to_string),
            &limits.scoped_budgets.write(),
            &limits.keep_results.map(i16::from),
        ],
    )
    .await?;
    scopes::keep(rows, account).await
}

/// An account that nobody else changes until the transaction ends.
pub(super) async fn lock_account(
    rows: &Transaction<'_>,
    id: &AccountId,
) -> Result<Option<Account>, DatabaseError> {
    let row = query_opt(
        rows,
        &format!("SELECT {ACCOUNT} FROM accounts WHERE id = $1 FOR NO KEY UPDATE"),
        &[&id.as_str()],
    )
    .await?;
    row.as_ref().map(read_account).transpose()
}

/// Whether there is such an account. Accounts never go.
pub(super) async fn exists(
    rows: &impl GenericClient,
    id: &AccountId,
) -> Result<bool, DatabaseError> {
    let row = query_opt(
        rows,
        "SELECT 1 FROM accounts WHERE id = $1",
        &[&id.as_str()],
    )
    .await?;
    Ok(row.is_some())
}

/// Those of these accounts that there are.
pub(super) async fn accounts(
    rows: &impl GenericClient,
    ids: &[&str],
) -> Result<Vec<Account>, DatabaseError> {
    let sql = format!("SELECT {ACCOUNT} FROM accounts WHERE id = ANY($1)");
    let found = query(rows, &sql, &[&ids]).await?;
    found.iter().map(read_account).collect()
}

/// Accounts from `from` on, in the order of their ids, with their credits and all that is set aside.
pub(super) async fn page(
    rows: &impl GenericClient,
    (after, one): (Option<&str>, Option<&str>),
    limit: usize,
) -> Result<Vec<(Account, Credits)>, DatabaseError> {
    let sql = format!(
        "SELECT {ACCOUNT}, balance_cents, spent_at, spent_hour_cents, spent_day_cents, spent_month_cents, (
            SELECT coalesce(sum(cents), 0)::bigint FROM credit_holds WHERE credit_holds.account = accounts.id
         ) AS held_cents
         FROM accounts JOIN credits ON credits.account = accounts.id
         WHERE ($1::text IS NULL OR id > $1) AND ($2::text IS NULL OR id = $2) ORDER BY id LIMIT $3"
    );
    let found = query(rows, &sql, &[&after, &one, &whole(limit)]).await?;
    let views = found.iter().map(|row| {
        let credits = Credits {
            balance_cents: row.get("balance_cents"),
            held_cents: unsigned(row.get("held_cents"))?,
            spend: read_spend(row)?,
        };
        Ok((read_account(row)?, credits))
    });
    views.collect()
}

/// Adds a key; false where its id or its hash is taken.
pub(super) async fn insert_key(
    rows: &impl GenericClient,
    key: &ApiKey,
    hash: &KeyHash,
) -> Result<bool, DatabaseError> {
    let added = execute(
        rows,
        "INSERT INTO api_keys (id, hash, account, name, scopes, created_at, expires_at, revoked_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
        &[
            &key.id.as_str(),
            &hash.as_bytes().as_slice(),
            &key.account.as_str(),
            &key.name.as_str(),
            &key.scopes.to_string(),
            &key.created_at.as_microsecond(),
            &key.expires_at.map(Timestamp::as_microsecond),
            &key.revoked_at.map(Timestamp::as_microsecond),
        ],
    )
    .await?;
    Ok(added == 1)
}

/// Whose a key is.
pub(super) async fn account_of_key(
    rows: &impl GenericClient,
    id: &KeyId,
) -> Result<Option<AccountId>, DatabaseError> {
    let row = query_opt(
        rows,
        "SELECT account FROM api_keys WHERE id = $1",
        &[&id.as_str()],
    )
    .await?;
    row.map(|row| parse(row.get(0))).transpose()
}

/// Revokes a key that is there, unless it is revoked; the key as it is then.
pub(super) async fn revoke_key(
    rows: &Transaction<'_>,
    id: &KeyId,
    now: Timestamp,
) -> Result<Option<ApiKey>, DatabaseError> {
    let row = query_opt(
        rows,
        &format!(
            "UPDATE api_keys SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1 RETURNING {KEY}"
        ),
        &[&id.as_str(), &now.as_microsecond()],
    )
    .await?;
    row.as_ref().map(read_key).transpose()
}

/// Every key of an account, the oldest first.
pub(super) async fn keys(
    rows: &impl GenericClient,
    account: &AccountId,
) -> Result<Vec<ApiKey>, DatabaseError> {
    let found = query(
        rows,
        &format!("SELECT {KEY} FROM api_keys WHERE account = $1 ORDER BY created_at, id"),
        &[&account.as_str()],
    )
    .await?;
    found.iter().map(read_key).collect()
}

/// Those of the keys with these hashes that there are, and their accounts.
pub(super) async fn keys_of_hashes(
    rows: &impl GenericClient,
    hashes: &[&[u8]],
) -> Result<Vec<(ApiKey, KeyHash, Account)>, DatabaseError> {
    let found = query(
        rows,
        &format!(
            "SELECT {KEY}, {ACCOUNT} FROM api_keys JOIN accounts ON accounts.id = account WHERE hash = ANY($1)"
        ),
        &[&hashes],
    )
    .await?;
    let keys = found
        .iter()
        .map(|row| Ok((read_key(row)?, read_hash(row, "hash")?, read_account(row)?)));
    keys.collect()
}

/// A column of 32 bytes as the hash of a credential.
pub(super) fn read_hash(row: &Row, column: &str) -> Result<KeyHash, DatabaseError> {
    let bytes: &[u8] = row.get(column);
    bytes
        .try_into()
        .map(KeyHash::from_bytes)
        .map_err(unreadable)
}

fn read_account(row: &Row) -> Result<Account, DatabaseError> {
    let text = |column: &str| row.get::<_, Option<&str>>(column);
    let span = |column: &str| {
        let micros: Option<i64> = row.get(column);
        micros.map(SignedDuration::from_micros)
    };
    let windows = |column: &str| {
        let windows = text(column).map(|text| RateWindow::read_list(text).map_err(unreadable));
        windows.transpose()
    };
    let entitlements = text("entitlements").map(parse::<Entitlements>);
    Ok(Account {
        id: parse(row.get("id"))?,
        name: parse(row.get("name"))?,
        state: match row.get("suspended") {
            true => AccountState::Suspended,
            false => AccountState::Active,
        },
        subscribed: row.get("subscribed"),
        router: row.get("router"),
        billed: row.get("billed"),
        limits: Limits {
            concurrent_jobs: number(row, "concurrent_jobs")?,
            queued_jobs: number(row, "queued_jobs")?,
            streams: number(row, "streams")?,
            upload_bytes: number(row, "upload_bytes")?,
            stored_bytes: number(row, "stored_bytes")?,
            submissions: windows("submissions")?,
            upload_retention: span("upload_retention"),
            job_retention: span("job_retention"),
            concurrent_calls: number(row, "concurrent_calls")?,
            committed_spend_cents: number(row, "committed_spend_cents")?,
            budgets: read_budgets(row)?,
            scoped_budgets: read_scoped_budgets(row)?,
            windows: windows("windows")?,
            entitlements: entitlements.transpose()?,
            keep_results: row
                .get::<_, Option<i16>>("keep_results")
                .map(|kept| kept != 0),
        },
        created_at: from_micros(row.get("created_at"))?,
    })
}

/// The budgets of an account; `None` for the installation's.
pub(super) fn read_budgets(row: &Row) -> Result<Option<Budgets>, DatabaseError> {
    let budgets: Option<&str> = row.get("budgets");
    budgets.map(parse).transpose()
}

/// The budgets of keys and labels of an account.
pub(super) fn read_scoped_budgets(row: &Row) -> Result<ScopedBudgets, DatabaseError> {
    let budgets: Option<&str> = row.get("scoped_budgets");
    Ok(budgets.map(parse).transpose()?.unwrap_or_default())
}

/// What an account was charged in its newest windows.
pub(super) fn read_spend(row: &Row) -> Result<Spend, DatabaseError> {
    let cents = |column: &str| unsigned(row.get::<_, i64>(column));
    Ok(Spend {
        at: from_micros(row.get("spent_at"))?,
        hour_cents: cents("spent_hour_cents")?,
        day_cents: cents("spent_day_cents")?,
        month_cents: cents("spent_month_cents")?,
    })
}

fn read_key(row: &Row) -> Result<ApiKey, DatabaseError> {
    let time = |column: &str| {
        let micros: Option<i64> = row.get(column);
        micros.map(from_micros).transpose()
    };
    Ok(ApiKey {
        id: parse(row.get("key_id"))?,
        account: parse(row.get("account"))?,
        name: parse(row.get("key_name"))?,
        scopes: parse(row.get("scopes"))?,
        created_at: from_micros(row.get("key_created_at"))?,
        expires_at: time("expires_at")?,
        revoked_at: time("revoked_at")?,
    })
}

/// A number that may be missing.
fn number<T: TryFrom<i64>>(row: &Row, column: &str) -> Result<Option<T>, DatabaseError>
where
    T::Error: std::error::Error + Send + Sync + 'static,
{
    let number: Option<i64> = row.get(column);
    number.map(unsigned).transpose()
}

/// A span as a column holds it; what is longer than any clock is cut off.
fn micros(span: SignedDuration) -> i64 {
    whole(span.as_micros())
}
