//! The SQL of the ledger: entries for many accounts in one transaction.
//!
//! A transaction locks the credits of all its accounts at once, in the order of their ids, after the rows of calls and jobs
//! and before those of assets.

use std::collections::HashMap;

use accounts::{AccountId, LedgerEntry, LedgerRef, Spend};
use deadpool_postgres::GenericClient;
use futures_util::future::try_join;
use jiff::Timestamp;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::rows::read_spend;
use super::{holds, scopes};
use crate::DatabaseError;
use crate::columns::{from_micros, parse, unreadable, unsigned, whole_micros};
use crate::statements::{prepare, query, whole};

/// An entry to be added for its cause.
#[derive(Clone, Debug)]
pub(crate) struct Posting {
    pub(crate) account: AccountId,
    pub(crate) cause: LedgerRef,
    /// Grants are above 0, charges below.
    pub(crate) amount_cents: i64,
    pub(crate) at: Timestamp,
}

/// An entry with a cause of a kind that this program does not write.
#[derive(Debug, thiserror::Error)]
#[error("there is no cause of this kind")]
struct UnknownCause;

/// Adds an entry for each cause that has none, and lets the holds of all causes go. Answers the entries that stand, in the order
/// of the postings; `None` where there is no such account.
///
/// One call in a transaction: it locks the credits of all accounts in the order of their ids.
pub(crate) async fn post(
    rows: &impl GenericClient,
    postings: &[Posting],
) -> Result<Vec<Option<LedgerEntry>>, DatabaseError> {
    post_and_release(rows, postings, &[]).await
}

/// Bills causes with their charges in cents: those that cost nothing, and those whose account does not exist, only let their
/// holds go.
///
/// One call in a transaction, as [`post`].
#[cfg(test)]
pub(crate) async fn bill(rows: &impl GenericClient, bills: &[Bill]) -> Result<(), DatabaseError> {
    let (postings, free) = postings(bills);
    post_and_release(rows, &postings, &free).await?;
    Ok(())
}

/// A charge in cents for a cause.
#[cfg(any(test, feature = "router"))]
pub(crate) type Bill = (AccountId, LedgerRef, u64, Timestamp);

/// Bills causes, where it was read already what stands of them.
#[cfg(feature = "router")]
pub(crate) async fn bill_locked(
    rows: &impl GenericClient,
    bills: &[Bill],
    credits: LockedCredits,
) -> Result<(), DatabaseError> {
    let (postings, free) = postings(bills);
    post_locked(rows, &postings, &free, credits).await?;
    Ok(())
}

/// What is to be posted for bills, and the causes that only let go.
#[cfg(any(test, feature = "router"))]
fn postings(bills: &[Bill]) -> (Vec<Posting>, Vec<(&AccountId, LedgerRef)>) {
    let (mut postings, mut free) = (Vec::new(), Vec::new());
    for (account, cause, cents, at) in bills {
        match cents {
            0 => free.push((account, *cause)),
            _ => postings.push(Posting {
                account: account.clone(),
                cause: *cause,
                amount_cents: -whole(*cents),
                at: *at,
            }),
        }
    }
    (postings, free)
}

/// Posts, and lets go of the holds of these and of other causes in one go: so they are locked in one order.
async fn post_and_release(
    rows: &impl GenericClient,
    postings: &[Posting],
    free: &[(&AccountId, LedgerRef)],
) -> Result<Vec<Option<LedgerEntry>>, DatabaseError> {
    let mut credits = LockedCredits::default();
    if !postings.is_empty() {
        let asked = Asked::of(postings.iter().map(|it| (&it.account, it.cause)));
        let locked = query(rows, LOCK, &[&asked.accounts]).await?;
        let entries = query(rows, ENTRIES, &[&asked.of, &asked.whys, &asked.ids]).await?;
        credits = LockedCredits::read(&locked, &entries)?;
    }
    post_locked(rows, postings, free, credits).await
}

async fn post_locked(
    rows: &impl GenericClient,
    postings: &[Posting],
    free: &[(&AccountId, LedgerRef)],
    credits: LockedCredits,
) -> Result<Vec<Option<LedgerEntry>>, DatabaseError> {
    let LockedCredits {
        mut locked,
        mut entries,
    } = credits;
    let mut causes: Vec<(&AccountId, LedgerRef)> =
        postings.iter().map(|it| (&it.account, it.cause)).collect();
    let mut answers = Vec::with_capacity(postings.len());
    let mut added = Vec::new();
    for posting in postings {
        let Some((seq, spend)) = locked.get_mut(posting.account.as_str()) else {
            answers.push(None);
            continue;
        };
        let key = (posting.account.clone(), posting.cause);
        let entry = entries.entry(key).or_insert_with(|| {
            *seq += 1;
            spend.post(posting.cause, posting.amount_cents, posting.at);
            let entry = LedgerEntry {
                seq: seq.unsigned_abs(),
                account: posting.account.clone(),
                cause: posting.cause,
                amount_cents: posting.amount_cents,
                at: whole_micros(posting.at),
            };
            added.push(entry.clone());
            entry
        });
        answers.push(Some(entry.clone()));
    }
    causes.extend(free);
    let [add_entries, release] = prepare(rows, [ADD, holds::RELEASE]).await?;
    let ((), within) = try_join(
        add(rows, &add_entries, &added, &locked),
        holds::release_by(rows, &release, &causes),
    )
    .await?;
    scopes::charge(rows, &added, &within).await?;
    Ok(answers)
}

/// Columns of the causes that are asked for.
pub(crate) struct Asked<'a> {
    /// Each once.
    pub(crate) accounts: Vec<&'a str>,
    pub(crate) of: Vec<&'a str>,
    pub(crate) whys: Vec<i16>,
    pub(crate) ids: Vec<Uuid>,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(causes: impl Iterator<Item = (&'a AccountId, LedgerRef)> + Clone) -> Self {
        let (whys, ids) = spell_all(causes.clone().map(|(_, cause)| cause));
        let of: Vec<&str> = causes.map(|(account, _)| account.as_str()).collect();
        let mut accounts = of.clone();
        accounts.sort_unstable();
        accounts.dedup();
        Self {
            accounts,
            of,
            whys,
            ids,
        }
    }
}

/// What stands of accounts and causes, read while the credits of the accounts are locked.
#[derive(Default)]
pub(crate) struct LockedCredits {
    /// The numbers of the newest entries of accounts, and what they were charged.
    locked: HashMap<String, (i64, Spend)>,
    /// Those that causes have.
    entries: HashMap<(AccountId, LedgerRef), LedgerEntry>,
}

impl LockedCredits {
    /// Reads the rows of [`LOCK`], and of [`ENTRIES`] after it.
    pub(crate) fn read(locked: &[Row], entries: &[Row]) -> Result<Self, DatabaseError> {
        let locked = locked.iter().map(|row| {
            let spend = read_spend(row)?;
            Ok((row.get("account"), (row.get("newest_seq"), spend)))
        });
        let entries = entries.iter().map(|row| {
            let entry = entry(row)?;
            Ok(((entry.account.clone(), entry.cause), entry))
        });
        Ok(Self {
            locked: locked.collect::<Result<_, DatabaseError>>()?,
            entries: entries.collect::<Result<_, DatabaseError>>()?,
        })
    }
}

/// Locks the credits of accounts.
pub(crate) const LOCK: &str =
    "SELECT account, balance_cents, newest_seq, spent_at, spent_hour_cents, spent_day_cents, spent_month_cents
    FROM credits WHERE account = ANY($1) ORDER BY account FOR UPDATE";

/// The entries of those causes that have one.
pub(crate) const ENTRIES: &str =
    "SELECT ledger.account, ledger.seq, ledger.why, ledger.cause, ledger.amount_cents, ledger.at
    FROM unnest($1::text[], $2::smallint[], $3::uuid[])
        AS asked (account, why, cause)
    JOIN ledger USING (account, why, cause)";

const ADD: &str = "WITH added AS (
        INSERT INTO ledger (account, seq, why, cause, amount_cents, at)
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::smallint[], $4::uuid[], $5::bigint[], $6::bigint[])
        RETURNING account, seq, amount_cents
     ), sums AS (
        SELECT account, max(seq) AS seq, sum(amount_cents)::bigint AS cents FROM added GROUP BY account
     )
     UPDATE credits SET balance_cents = balance_cents + sums.cents, newest_seq = sums.seq, spent_at = charged.at,
        spent_hour_cents = charged.hour, spent_day_cents = charged.day, spent_month_cents = charged.month
     FROM sums JOIN unnest($7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[])
        AS charged (account, at, hour, day, month) ON charged.account = sums.account
     WHERE credits.account = sums.account";

/// Adds entries of new causes, and their sums to the balances; `locked` is what the accounts were charged with them.
async fn add(
    rows: &impl GenericClient,
    statement: &Statement,
    entries: &[LedgerEntry],
    locked: &HashMap<String, (i64, Spend)>,
) -> Result<(), DatabaseError> {
    if entries.is_empty() {
        return Ok(());
    }
    let accounts: Vec<&str> = entries.iter().map(|it| it.account.as_str()).collect();
    let seqs: Vec<i64> = entries.iter().map(|it| whole(it.seq)).collect();
    let (whys, ids) = spell_all(entries.iter().map(|it| it.cause));
    let amounts: Vec<i64> = entries.iter().map(|it| it.amount_cents).collect();
    let times: Vec<i64> = entries.iter().map(|it| it.at.as_microsecond()).collect();
    let charged: Vec<&str> = locked.keys().map(String::as_str).collect();
    let spent = |cents: fn(&Spend) -> i64| locked.values().map(|(_, spend)| cents(spend)).collect();
    let spent_at: Vec<i64> = spent(|spend| spend.at.as_microsecond());
    let in_hour: Vec<i64> = spent(|spend| whole(spend.hour_cents));
    let in_day: Vec<i64> = spent(|spend| whole(spend.day_cents));
    let in_month: Vec<i64> = spent(|spend| whole(spend.month_cents));
    rows.execute(
        statement,
        &[
            &accounts, &seqs, &whys, &ids, &amounts, &times, &charged, &spent_at, &in_hour,
            &in_day, &in_month,
        ],
    )
    .await?;
    Ok(())
}

/// The newest entries of an account, below `before` where it is given.
pub(super) async fn newest(
    rows: &impl GenericClient,
    account: &AccountId,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<LedgerEntry>, DatabaseError> {
    let found = query(
        rows,
        "SELECT account, seq, why, cause, amount_cents, at FROM ledger WHERE account = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3",
        &[
            &account.as_str(),
            &before.map_or(i64::MAX, whole),
            &whole(limit),
        ],
    )
    .await?;
    found.iter().map(entry).collect()
}

fn entry(row: &Row) -> Result<LedgerEntry, DatabaseError> {
    Ok(LedgerEntry {
        seq: unsigned(row.get("seq"))?,
        account: parse(row.get("account"))?,
        cause: read(row.get("why"), row.get("cause"))?,
        amount_cents: row.get("amount_cents"),
        at: from_micros(row.get("at"))?,
    })
}

/// The two columns of a cause.
pub(super) fn spell(cause: LedgerRef) -> (i16, Uuid) {
    match cause {
        LedgerRef::Grant(id) => (1, id),
        LedgerRef::Generation(id) => (2, id),
    }
}

/// The two columns of many causes.
pub(super) fn spell_all(causes: impl Iterator<Item = LedgerRef>) -> (Vec<i16>, Vec<Uuid>) {
    causes.map(spell).unzip()
}

/// The cause of two columns.
pub(super) fn read(why: i16, id: Uuid) -> Result<LedgerRef, DatabaseError> {
    match why {
        1 => Ok(LedgerRef::Grant(id)),
        2 => Ok(LedgerRef::Generation(id)),
        _ => Err(unreadable(UnknownCause)),
    }
}
