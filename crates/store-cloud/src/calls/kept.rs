//! Results that are kept: rows that are written with the end of their generation, and taken by one process at a time.

use accounts::AccountId;
use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use foldhash::HashMap;
use jiff::Timestamp;
use router_core::{
    CallsError, DueResult, GenerationId, KeepOutcome, KeptFile, KeptResult, KeptResults, KeptState,
    Lease, OwnerId, ResultAddress, ResultId, ResultTurn, Settled,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::settling::Settling;
use super::{PgCalls, to_the_end, unavailable};
use crate::columns::{parse, unreadable, unsigned};
use crate::statements::{execute, query, whole};
use crate::{Database, DatabaseError};

/// The columns of a result, where its table is called `k`.
const RESULT: &str = "k.generation, k.place, k.account, k.pointer, k.state, k.attempts, k.reason, k.file, k.hash, \
    k.size_bytes, k.content_type";

/// A row that is no result.
#[derive(Debug, thiserror::Error)]
#[error("a result that is kept cannot be read")]
struct Unreadable;

#[async_trait]
impl KeptResults for PgCalls {
    async fn of(&self, generation: GenerationId) -> Result<Vec<KeptResult>, CallsError> {
        of(&self.database, generation).await.map_err(unavailable)
    }

    async fn take(
        &self,
        lease: Lease,
        turn: &ResultTurn,
        now: Timestamp,
    ) -> Result<Option<DueResult>, CallsError> {
        let taken = to_the_end(take(self.database.clone(), lease, turn.clone(), now));
        taken.await.map_err(unavailable)
    }

    async fn renew(
        &self,
        results: &[ResultId],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<ResultId>, CallsError> {
        let renewed = renew(&self.database, results, lease, now);
        renewed.await.map_err(unavailable)
    }

    async fn note(
        &self,
        of: (ResultId, OwnerId),
        came: KeepOutcome,
        now: Timestamp,
    ) -> Result<Settled, CallsError> {
        let noted = to_the_end(note(self.database.clone(), of, came, now));
        noted.await.map_err(unavailable)
    }
}

/// Writes down what is to be fetched of generations that end: those of `all` at the places that `counted` has.
pub(super) async fn begin(
    rows: &impl GenericClient,
    all: &[Settling],
    counted: &HashMap<usize, Row>,
) -> Result<(), DatabaseError> {
    let (mut generations, mut places, mut accounts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut pointers, mut addresses, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for place in counted.keys() {
        let one = &all[*place];
        for (place, link) in (0_i64..).zip(one.ending.results()) {
            generations.push(one.generation.0);
            places.push(place);
            accounts.push(one.account.as_str());
            pointers.push(link.pointer.as_str());
            addresses.push(link.address.expose());
            times.push(one.now.as_microsecond());
        }
    }
    if generations.is_empty() {
        return Ok(());
    }
    execute(
        rows,
        "INSERT INTO kept_results (generation, place, account, pointer, address, settled_at, state, attempts, due_at)
         SELECT a.*, 0, 0, a.settled_at
         FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[])
            AS a (generation, place, account, pointer, address, settled_at)",
        &[
            &generations,
            &places,
            &accounts,
            &pointers,
            &addresses,
            &times,
        ],
    )
    .await?;
    Ok(())
}

/// Forgets at most `limit` results that were settled before a time; how many.
pub(super) async fn expire(
    rows: &impl GenericClient,
    keep_from: i64,
    limit: i64,
) -> Result<u64, DatabaseError> {
    execute(
        rows,
        "DELETE FROM kept_results WHERE (generation, place) IN (
            SELECT generation, place FROM kept_results WHERE settled_at < $1 ORDER BY settled_at LIMIT $2
            FOR UPDATE SKIP LOCKED)",
        &[&keep_from, &limit],
    )
    .await
}

async fn of(
    database: &Database,
    generation: GenerationId,
) -> Result<Vec<KeptResult>, DatabaseError> {
    let connection = database.connection().await?;
    let sql =
        format!("SELECT {RESULT} FROM kept_results k WHERE k.generation = $1 ORDER BY k.place");
    let found = query(&connection, &sql, &[&generation.0]).await?;
    found.iter().map(result).collect()
}

async fn take(
    database: Database,
    lease: Lease,
    turn: ResultTurn,
    now: Timestamp,
) -> Result<Option<DueResult>, DatabaseError> {
    // By a clock that is ahead, the leases of others seem to be over.
    if database.clocks_apart().is_some() {
        return Ok(None);
    }
    let connection = database.connection().await?;
    let without: Vec<&str> = turn.without.iter().map(AccountId::as_str).collect();
    let last = turn.after.as_ref().map_or("", AccountId::as_str);
    // Behind the last account the first one follows.
    for behind in [last, ""] {
        // One step of the index finds the next account, and another one its first result, however many there are. What another
        // process takes at this moment is its own.
        let taken = query(
            &connection,
            "WITH RECURSIVE waiting (account) AS (
                (SELECT account FROM kept_results WHERE state = 0 AND account > $1 ORDER BY account LIMIT 1)
                UNION ALL
                SELECT (SELECT k.account FROM kept_results k WHERE k.state = 0 AND k.account > w.account
                    ORDER BY k.account LIMIT 1)
                FROM waiting w WHERE w.account IS NOT NULL),
             due AS (
                SELECT d.generation, d.place FROM waiting w CROSS JOIN LATERAL (
                    SELECT k.generation, k.place FROM kept_results k
                    WHERE k.state = 0 AND k.account = w.account AND k.due_at <= $2 AND (k.until IS NULL OR k.until <= $2)
                    ORDER BY k.due_at, k.generation, k.place LIMIT 1 FOR UPDATE SKIP LOCKED) d
                WHERE w.account <> ALL ($3) LIMIT 1)
             UPDATE kept_results k SET owner = $4, until = $5, attempts = attempts + 1 FROM due
             WHERE k.generation = due.generation AND k.place = due.place
             RETURNING k.generation, k.place, k.account, k.address, k.attempts",
            &[
                &behind,
                &now.as_microsecond(),
                &without,
                &lease.owner.0,
                &lease.until(now).as_microsecond(),
            ],
        )
        .await?;
        if let Some(row) = taken.first() {
            return due(row).map(Some);
        }
        if last.is_empty() {
            break;
        }
    }
    Ok(None)
}

async fn renew(
    database: &Database,
    results: &[ResultId],
    lease: Lease,
    now: Timestamp,
) -> Result<Vec<ResultId>, DatabaseError> {
    let generations: Vec<Uuid> = results.iter().map(|one| one.generation.0).collect();
    let places: Vec<i64> = results.iter().map(|one| i64::from(one.place)).collect();
    let connection = database.connection().await?;
    let renewed = query(
        &connection,
        "WITH held AS (
            SELECT k.generation, k.place FROM kept_results k
            JOIN unnest($1::uuid[], $2::bigint[]) AS a (generation, place) USING (generation, place)
            WHERE k.owner = $3 AND k.state = 0 ORDER BY k.generation, k.place FOR UPDATE OF k)
         UPDATE kept_results k SET until = $4 FROM held
         WHERE k.generation = held.generation AND k.place = held.place RETURNING k.generation, k.place",
        &[
            &generations,
            &places,
            &lease.owner.0,
            &lease.until(now).as_microsecond(),
        ],
    )
    .await?;
    let renewed: Vec<ResultId> = renewed.iter().map(id).collect::<Result<_, _>>()?;
    let lost = results.iter().filter(|id| !renewed.contains(id));
    Ok(lost.copied().collect())
}

async fn note(
    database: Database,
    (id, owner): (ResultId, OwnerId),
    came: KeepOutcome,
    now: Timestamp,
) -> Result<Settled, DatabaseError> {
    let connection = database.connection().await?;
    let (generation, place) = (id.generation.0, i64::from(id.place));
    let now = now.as_microsecond();
    let changed = match &came {
        KeepOutcome::Kept(file) => {
            let (hash, size) = (&file.hash[..], whole(file.size_bytes));
            execute(
                &connection,
                "UPDATE kept_results SET state = 1, address = NULL, reason = NULL, file = $4, hash = $5, size_bytes = $6,
                    content_type = $7, owner = NULL, until = NULL
                 WHERE generation = $1 AND place = $2 AND owner = $3",
                &[
                    &generation,
                    &place,
                    &owner.0,
                    &file.file,
                    &hash,
                    &size,
                    &file.content_type,
                ],
            )
            .await?
        }
        KeepOutcome::Failed { reason } => {
            execute(
                &connection,
                "UPDATE kept_results SET state = 2, address = NULL, reason = $4, owner = NULL, until = NULL
                 WHERE generation = $1 AND place = $2 AND owner = $3",
                &[&generation, &place, &owner.0, reason],
            )
            .await?
        }
        KeepOutcome::Later { reason, due_at } => {
            execute(
                &connection,
                "UPDATE kept_results SET reason = $4, due_at = $5, owner = NULL, until = NULL
                 WHERE generation = $1 AND place = $2 AND owner = $3",
                &[
                    &generation,
                    &place,
                    &owner.0,
                    reason,
                    &due_at.as_microsecond(),
                ],
            )
            .await?
        }
        KeepOutcome::GivenBack => {
            execute(
                &connection,
                "UPDATE kept_results SET attempts = greatest(attempts - 1, 0), due_at = $4, owner = NULL, until = NULL
                 WHERE generation = $1 AND place = $2 AND owner = $3",
                &[&generation, &place, &owner.0, &now],
            )
            .await?
        }
    };
    Ok(match changed {
        0 => Settled::Before,
        _ => Settled::Now,
    })
}

fn id(row: &Row) -> Result<ResultId, DatabaseError> {
    let place: i64 = row.get("place");
    Ok(ResultId {
        generation: GenerationId(row.get("generation")),
        place: u32::try_from(place).map_err(unreadable)?,
    })
}

fn due(row: &Row) -> Result<DueResult, DatabaseError> {
    let address: Option<&str> = row.get("address");
    let address = address.and_then(ResultAddress::read);
    Ok(DueResult {
        id: id(row)?,
        account: parse(row.get("account"))?,
        address: address.ok_or_else(|| unreadable(Unreadable))?,
        attempt: attempts(row)?,
    })
}

fn attempts(row: &Row) -> Result<u32, DatabaseError> {
    u32::try_from(row.get::<_, i64>("attempts")).map_err(unreadable)
}

fn result(row: &Row) -> Result<KeptResult, DatabaseError> {
    let reason: Option<String> = row.get("reason");
    let state = match row.get::<_, i16>("state") {
        0 => KeptState::Waiting {
            attempts: attempts(row)?,
            reason,
        },
        1 => {
            let (file, hash): (Option<Uuid>, Option<&[u8]>) = (row.get("file"), row.get("hash"));
            let size: Option<i64> = row.get("size_bytes");
            let content_type: Option<String> = row.get("content_type");
            let (Some(file), Some(hash), Some(size), Some(content_type)) =
                (file, hash, size, content_type)
            else {
                return Err(unreadable(Unreadable));
            };
            KeptState::Kept(KeptFile {
                file,
                hash: hash.try_into().map_err(unreadable)?,
                size_bytes: unsigned(size)?,
                content_type,
            })
        }
        2 => KeptState::Failed {
            reason: reason.unwrap_or_default(),
        },
        _ => return Err(unreadable(Unreadable)),
    };
    Ok(KeptResult {
        id: id(row)?,
        account: parse(row.get("account"))?,
        pointer: row.get("pointer"),
        state,
    })
}
