//! Looks at the queue: which sets of needs have jobs that wait, and the oldest jobs of accounts.
//!
//! A look first asks which accounts have jobs that wait, then for their jobs, from the places on that [`Places`] remembers.
//!
//! [`Places`]: super::places::Places

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use deadpool_postgres::{GenericClient, Object};
use uuid::Uuid;
use workflow_core::RequirementSet;

use super::Shared;
use super::places::{Asked, Hints, Moment};
use crate::DatabaseError;
use crate::statements::{Values, query, whole};

/// How many accounts are asked one by one for their sets,
const ACCOUNTS: usize = 8;

/// and how many sets of accounts at most: with more of them, each set is looked for once, whosever it is.
pub(super) const PAIRS: usize = 128;

/// What every account has: how many jobs wait, how many came back, and its last claim.
///
/// While they are few, they are read one by one, backwards ([`crate::newest`]). Else all are read once and grouped, however many
/// versions there are: one by one, 10,000 accounts would take twice as long.
pub(super) const COUNTS: &str = "WITH RECURSIVE newest AS (
        (SELECT account, entered, 1 AS place FROM job_accounts ORDER BY account DESC LIMIT 1)
        UNION ALL
        SELECT a.account, a.entered, newest.place + 1 FROM newest CROSS JOIN LATERAL (
            SELECT account, entered FROM job_accounts WHERE account < newest.account ORDER BY account DESC LIMIT 1
        ) AS a WHERE newest.place <= 32
    ), few AS MATERIALIZED (SELECT count(*) <= 32 AS are_few FROM newest),
    counts AS (
        SELECT newest.account, newest.entered - t.departed AS waiting, t.returns, t.last_claim
        FROM newest CROSS JOIN LATERAL (
            SELECT departed, returns, last_claim FROM job_turns
            WHERE account >= newest.account AND account <= newest.account ORDER BY account DESC LIMIT 1
        ) AS t WHERE (SELECT are_few FROM few)
        UNION ALL
        SELECT account, -sum(moved)::bigint, max(returns), max(last_claim) FROM (
            SELECT account, departed AS moved, returns, last_claim FROM job_turns
            UNION ALL SELECT account, -entered, NULL, NULL FROM job_accounts
        ) AS moves WHERE NOT (SELECT are_few FROM few) GROUP BY account HAVING count(returns) = 1
    )";

/// An account with jobs that wait, and when it had its turn.
pub(super) struct Turn {
    pub(super) asked: Asked,
    pub(super) last_claim: i64,
}

/// A job that waits.
pub(super) struct Found {
    pub(super) number: i64,
    pub(super) job: Uuid,
    pub(super) requirements: Uuid,
    pub(super) account_room: i64,
}

/// What a look finds of an account: its runs, and its oldest jobs that wait, oldest first.
#[derive(Default)]
pub(super) struct OfAccount {
    pub(super) runs: Vec<Uuid>,
    pub(super) jobs: Vec<Found>,
}

/// Now, for looks by this connection.
pub(super) fn moment(connection: &Object) -> Moment {
    Moment {
        began: Instant::now(),
        connected: Object::metrics(connection).created,
    }
}

/// The sets of jobs that wait, by name.
pub(super) async fn waiting(
    store: &Shared,
    connection: &Object,
) -> Result<HashMap<Uuid, RequirementSet>, DatabaseError> {
    let moment = moment(connection);
    let sql = format!(
        "{COUNTS} SELECT account, returns, (SELECT count(*) FROM (SELECT 1 FROM requirement_sets LIMIT $2) AS s)
         FROM counts WHERE waiting > 0 LIMIT $1"
    );
    let (limit, pairs) = (whole(ACCOUNTS + 1), whole(PAIRS + 1));
    let found = query(connection, &sql, &[&limit, &pairs]).await?;
    let (mut accounts, mut sets) = (Vec::new(), 0_i64);
    for row in &found {
        let (account, returns) = (row.try_get(0)?, row.try_get(1)?);
        accounts.push(Asked { account, returns });
        sets = row.try_get(2)?;
    }
    let are_few = accounts.len() <= ACCOUNTS && whole(accounts.len()) * sets <= whole(PAIRS);
    let names = match (accounts.is_empty(), are_few) {
        (true, _) => Vec::new(),
        (false, true) => sets_of(store, connection, &accounts, moment).await?,
        (false, false) => sets_of_all(connection).await?,
    };
    store.sets.named(connection, names).await
}

/// The sets of which jobs wait, whosever they are: the first row of each by the index, however many there are.
async fn sets_of_all(connection: &impl GenericClient) -> Result<Vec<Uuid>, DatabaseError> {
    let sql = "SELECT s.requirements FROM requirement_sets AS s CROSS JOIN LATERAL (
            SELECT 1 FROM job_queue AS q WHERE q.requirements = s.requirements
            ORDER BY q.requirements, q.account, q.number LIMIT 1
        ) AS q";
    let found = query(connection, sql, &[]).await?;
    let names = found.iter().map(|row| Ok(row.try_get(0)?));
    names.collect()
}

/// The sets of which jobs of these accounts wait.
async fn sets_of(
    store: &Shared,
    connection: &impl GenericClient,
    accounts: &[Asked],
    moment: Moment,
) -> Result<Vec<Uuid>, DatabaseError> {
    let sql = "SELECT t.account, s.requirements, q.number
        FROM unnest($1::text[]) AS t (account) CROSS JOIN requirement_sets AS s
        LEFT JOIN unnest($2::text[], $3::uuid[], $4::bigint[]) AS f (account, requirements, number)
            ON f.account = t.account AND f.requirements = s.requirements
        LEFT JOIN LATERAL (
            SELECT q.number FROM job_queue AS q
            WHERE q.requirements = s.requirements AND q.account = t.account AND q.number >= coalesce(f.number, 0)
            ORDER BY q.number LIMIT 1
        ) AS q ON true";
    let hints = store.places.hints(accounts, moment);
    let (whose, sets, numbers) = &hints.firsts;
    let found = query(connection, sql, &[&hints.accounts.0, whose, sets, numbers]).await?;
    let (mut names, mut firsts) = (HashSet::new(), HashMap::<&str, HashMap<_, _>>::new());
    for row in &found {
        let (set, number): (Uuid, Option<i64>) = (row.try_get(1)?, row.try_get(2)?);
        firsts
            .entry(row.try_get(0)?)
            .or_default()
            .insert(set, number);
        if number.is_some() {
            names.insert(set);
        }
    }
    for asked in accounts {
        if let Some(found) = firsts.get(asked.account.as_str()) {
            store.places.learn_firsts(asked, found, moment);
        }
    }
    Ok(names.into_iter().collect())
}

/// The next accounts behind this claim and account that have jobs that wait, in the order of their last claims.
pub(super) async fn turns(
    transaction: &impl GenericClient,
    (last_claim, account): &(i64, String),
    limit: i64,
) -> Result<Vec<Turn>, DatabaseError> {
    let sql = format!(
        "{COUNTS} SELECT account, returns, last_claim FROM counts
         WHERE waiting > 0 AND (last_claim, account) > ($1, $2) ORDER BY last_claim, account LIMIT $3"
    );
    let found = query(transaction, &sql, &[last_claim, account, &limit]).await?;
    let turns = found.iter().map(|row| {
        let (account, returns) = (row.try_get(0)?, row.try_get(1)?);
        Ok(Turn {
            asked: Asked { account, returns },
            last_claim: row.try_get(2)?,
        })
    });
    turns.collect()
}

/// Runs of accounts and, of each of these sets, as many of their oldest jobs. The transaction is the one that chooses.
pub(super) async fn oldest(
    transaction: &impl GenericClient,
    hints: Hints,
    sets: &[Uuid],
    depth: i64,
) -> Result<HashMap<String, OfAccount>, DatabaseError> {
    // Runs that are known are looked up by their jobs; others are behind them in the index, or of the version before. Each is a
    // loop over what is asked that looks into one index: no other plan is right, however many jobs there were when it was made.
    let sql = "SELECT k.account, NULL::bigint, k.job, NULL::uuid, NULL::bigint
        FROM unnest($1::text[], $2::uuid[], $3::bigint[]) AS k (account, job, until)
        CROSS JOIN LATERAL (SELECT account, claim FROM job_runs WHERE job_runs.job = k.job OFFSET 0) AS r
        WHERE r.account = k.account AND r.claim > 0 AND r.claim <= k.until
        UNION ALL
        SELECT t.account, NULL::bigint, r.job, NULL::uuid, NULL::bigint
        FROM unnest($4::text[], $5::bigint[]) AS t (account, until) CROSS JOIN LATERAL (
            SELECT r.job FROM job_runs AS r WHERE r.account = t.account AND r.claim > t.until
            UNION ALL
            SELECT r.job FROM job_runs AS r WHERE r.account = t.account AND r.claim = 0
        ) AS r
        UNION ALL
        SELECT f.account, q.number, q.job, q.requirements, q.account_room
        FROM unnest($6::text[], $7::uuid[], $8::bigint[]) AS f (account, requirements, number)
        CROSS JOIN LATERAL (
            SELECT * FROM job_queue AS q
            WHERE q.requirements = f.requirements AND q.account = f.account AND q.number >= f.number
            ORDER BY q.number LIMIT $9
        ) AS q";
    let (whose, sets, numbers) = hints.beginnings(sets);
    let (of, runs, claims) = &hints.runs;
    let (accounts, until) = &hints.accounts;
    let values: Values<'_> = &[
        of, runs, claims, accounts, until, &whose, &sets, &numbers, &depth,
    ];
    let rows = query(transaction, sql, values).await?;
    let mut found: HashMap<String, OfAccount> = HashMap::new();
    for row in &rows {
        let of: &mut OfAccount = found.entry(row.try_get(0)?).or_default();
        let job = row.try_get(2)?;
        match row.try_get(1)? {
            None => of.runs.push(job),
            Some(number) => of.jobs.push(Found {
                number,
                job,
                requirements: row.try_get(3)?,
                account_room: row.try_get(4)?,
            }),
        }
    }
    for of in found.values_mut() {
        of.jobs.sort_unstable_by_key(|found| found.number);
    }
    Ok(found)
}
