//! Claims: what arrives together is one transaction.
//!
//! One transaction of all replicas chooses at a time, by an advisory lock, so that turns are exact over the fleet; it does not wait
//! for the disk, nor for transactions that add jobs. It looks at accounts in the order of their last claims, and at no more of
//! them than it takes to know whose turn it is.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use accounts::{AccountId, lapses_at};
use deadpool_postgres::Transaction;
use jiff::Timestamp;
use uuid::Uuid;
use workflow_core::{Claim, ClaimRequest, Job, JobEvent, JobId, RequirementSet, turn};

use super::rows::{self, Row};
use super::save::{NextState, may_be_lost, put};
use super::{Shared, beside};
use crate::DatabaseError;
use crate::columns::{parse, unsigned};
use crate::statements::{query, whole};

/// The number of the advisory lock that the choosing transaction has.
const CHOOSING: i64 = 0x6561_7365_6c02;

/// How many accounts are looked at together.
const ACCOUNTS: i64 = 64;

/// Queued jobs of the accounts whose turn may be next.
struct Lines {
    lines: Vec<Line>,
    /// Sets that some request names, by name, with their ids.
    sets: HashMap<Uuid, RequirementSet>,
    /// How many jobs of each account and set are read: as many as are asked for.
    depth: i64,
    /// The last claim and the account that the next page is behind.
    behind: (i64, String),
    is_complete: bool,
}

/// The oldest queued jobs of an account.
struct Line {
    account: AccountId,
    last_claim: u64,
    running: u32,
    /// Oldest first.
    jobs: Vec<Waiting>,
}

struct Waiting {
    number: u64,
    id: Uuid,
    requirements: Uuid,
    account_room: u32,
}

/// The job that a request gets, if nobody else is changing it.
struct Chosen {
    request: usize,
    job: Uuid,
    claim: u64,
}

/// Answers claims in their order.
pub(super) async fn claim(
    store: &Shared,
    requests: Vec<(ClaimRequest, Timestamp)>,
) -> Result<Vec<Option<Claim>>, DatabaseError> {
    let mut connection = store.database.connection().await?;
    if !is_anything_queued(&connection).await? {
        return Ok(requests.iter().map(|_| None).collect());
    }
    let transaction = connection.transaction().await?;
    may_be_lost(&transaction).await?;
    query(
        &transaction,
        "SELECT pg_advisory_xact_lock($1)",
        &[&CHOOSING],
    )
    .await?;
    let mut sets = store.sets.waiting(&transaction).await?;
    sets.retain(|_, set| {
        let mut requests = requests.iter();
        requests.any(|(request, _)| request.sets.contains(&set.id()))
    });
    let mut lines = Lines {
        lines: Vec::new(),
        is_complete: sets.is_empty(),
        sets,
        depth: whole(requests.len()),
        behind: (i64::MIN, String::new()),
    };
    let mut next: Vec<(usize, NextState)> = Vec::new();
    let mut pending: Vec<usize> = (0..requests.len()).collect();
    while !pending.is_empty() {
        let chosen = choose(&transaction, &mut lines, &requests, &pending).await?;
        if chosen.is_empty() {
            break;
        }
        let ids: Vec<Uuid> = chosen.iter().map(|chosen| chosen.job).collect();
        // Who changes a job in the queue has its row locked, and takes it out of the queue.
        let locked = rows::lock_free(&transaction, &ids).await?;
        pending.clear();
        for chosen in chosen {
            let (request, now) = &requests[chosen.request];
            let row = locked.get(&JobId(chosen.job));
            let claimed = row.and_then(|row| claimed(row, request, *now, chosen.claim));
            match claimed {
                Some(state) => next.push((chosen.request, state)),
                None => pending.push(chosen.request),
            }
        }
    }
    let (asked, next): (Vec<usize>, Vec<NextState>) = next.into_iter().unzip();
    let claimed: Vec<&Row> = next.iter().map(|state| &state.row).collect();
    let mut bodies = match claimed.is_empty() {
        true => HashMap::new(),
        false => beside::bodies(&transaction, &store.sets, &claimed).await?,
    };
    put(store, &transaction, &next).await?;
    transaction.commit().await?;
    if !next.is_empty() {
        store.changes.ring();
    }
    let mut claims: Vec<Option<Claim>> = requests.iter().map(|_| None).collect();
    for (request, state) in asked.into_iter().zip(next) {
        let job = state.row.job;
        claims[request] = bodies.remove(&job.id).map(|body| Claim {
            body: Arc::new(body),
            job: Arc::new(job),
        });
    }
    Ok(claims)
}

/// An idle worker looks often, and need not wait for others that choose.
async fn is_anything_queued(
    connection: &impl deadpool_postgres::GenericClient,
) -> Result<bool, DatabaseError> {
    let sql = "SELECT 1 FROM job_queue ORDER BY requirements, account, number LIMIT 1";
    let found = query(connection, sql, &[]).await?;
    Ok(!found.is_empty())
}

fn claimed(row: &Row, request: &ClaimRequest, now: Timestamp, claim: u64) -> Option<NextState> {
    let mut job = Job::clone(&row.job);
    let worker = request.worker;
    job.apply(JobEvent::Claimed { worker }, now).ok()?;
    let mut state = NextState::of(row, job);
    state.claim = Some((lapses_at(now, request.lease), whole(claim)));
    Some(state)
}

/// Chooses a job for each pending request, as far as there are some.
async fn choose(
    transaction: &Transaction<'_>,
    lines: &mut Lines,
    requests: &[(ClaimRequest, Timestamp)],
    pending: &[usize],
) -> Result<Vec<Chosen>, DatabaseError> {
    let count = whole(pending.len());
    let numbers = "SELECT nextval('job_numbers') FROM generate_series(1, $1::bigint)";
    let numbers = query(transaction, numbers, &[&count]).await?;
    let mut chosen = Vec::with_capacity(pending.len());
    for (request, number) in pending.iter().zip(&numbers) {
        let (asked, _) = &requests[*request];
        let able: HashSet<Uuid> = lines
            .sets
            .iter()
            .filter(|(_, set)| asked.sets.contains(&set.id()))
            .map(|(name, _)| *name)
            .collect();
        if able.is_empty() {
            continue;
        }
        while !lines.is_settled(asked, &able) {
            lines.read_on(transaction).await?;
        }
        let Some((_, line, place)) = lines.next(asked, &able) else {
            continue;
        };
        let claim = unsigned(number.try_get(0)?)?;
        let line = &mut lines.lines[line];
        let job = line.jobs.remove(place);
        line.running += 1;
        line.last_claim = claim;
        chosen.push(Chosen {
            request: *request,
            job: job.id,
            claim,
        });
    }
    Ok(chosen)
}

impl Lines {
    /// The turn, the line and the place of the job that is next for a request among those that were read.
    fn next(&self, request: &ClaimRequest, able: &HashSet<Uuid>) -> Option<(u64, usize, usize)> {
        let lines = self.lines.iter().enumerate();
        let first = lines.filter_map(|(number, line)| {
            let mut jobs = line.jobs.iter().enumerate();
            let (place, first) = jobs.find(|(_, job)| able.contains(&job.requirements))?;
            let has_room = request
                .rooms
                .allow(&line.account, line.running, first.account_room);
            has_room.then(|| (turn(Some(line.last_claim), first.number), number, place))
        });
        first.min()
    }

    /// Whether no account that was not read yet can be next.
    fn is_settled(&self, request: &ClaimRequest, able: &HashSet<Uuid>) -> bool {
        let next = self.next(request, able);
        self.is_complete || next.is_some_and(|(turn, ..)| whole(turn) <= self.behind.0)
    }

    /// Reads the next accounts.
    async fn read_on(&mut self, transaction: &Transaction<'_>) -> Result<(), DatabaseError> {
        let sql = "WITH t AS MATERIALIZED (
                SELECT t.account, t.last_claim FROM job_turns AS t JOIN job_accounts AS a USING (account)
                WHERE a.entered > t.departed AND (t.last_claim, t.account) > ($1, $2)
                ORDER BY t.last_claim, t.account LIMIT $3
            )
            SELECT t.account, t.last_claim, r.running, q.number, q.job, q.requirements, q.account_room
            FROM t CROSS JOIN LATERAL (SELECT count(*) AS running FROM job_runs AS r WHERE r.account = t.account) AS r
            LEFT JOIN LATERAL (
                SELECT q.* FROM unnest($4::uuid[]) AS s (requirements) CROSS JOIN LATERAL (
                    SELECT * FROM job_queue AS q WHERE q.requirements = s.requirements AND q.account = t.account
                    ORDER BY q.number LIMIT $5
                ) AS q
            ) AS q ON true
            ORDER BY t.last_claim, t.account, q.number";
        let names: Vec<Uuid> = self.sets.keys().copied().collect();
        let (last_claim, account) = (self.behind.0, self.behind.1.clone());
        let found = query(
            transaction,
            sql,
            &[&last_claim, &account, &ACCOUNTS, &names, &self.depth],
        )
        .await?;
        let mut accounts = 0;
        for row in &found {
            let (account, last_claim): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
            if accounts == 0 || self.behind.1 != account {
                accounts += 1;
                self.behind = (last_claim, account.to_owned());
                self.lines.push(Line {
                    account: parse(account)?,
                    last_claim: unsigned(last_claim)?,
                    running: unsigned(row.try_get(2)?)?,
                    jobs: Vec::new(),
                });
            }
            let number: Option<i64> = row.try_get(3)?;
            if let (Some(number), Some(line)) = (number, self.lines.last_mut()) {
                line.jobs.push(Waiting {
                    number: unsigned(number)?,
                    id: row.try_get(4)?,
                    requirements: row.try_get(5)?,
                    account_room: unsigned(row.try_get(6)?)?,
                });
            }
        }
        self.is_complete = accounts < ACCOUNTS;
        Ok(())
    }
}
