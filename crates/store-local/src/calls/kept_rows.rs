//! The SQL of results that are kept.

use accounts::AccountId;
use jiff::Timestamp;
use router_core::{
    DueResult, GenerationId, KeepOutcome, KeptFile, KeptResult, KeptState, ResultAddress, ResultId,
    ResultLink, ResultTurn,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::columns::{Id, Micros, parse, unreadable};

/// A row that is no result.
#[derive(Debug, thiserror::Error)]
#[error("a result that is kept cannot be read")]
struct Unreadable;

/// Writes down what is to be fetched of a generation that ends.
pub(super) fn begin(
    rows: &Connection,
    generation: GenerationId,
    account: &AccountId,
    results: &[ResultLink],
    now: Timestamp,
) -> rusqlite::Result<()> {
    for (place, link) in (0_u32..).zip(results) {
        rows.prepare_cached(
            "INSERT INTO kept_results (generation, place, account, pointer, address, settled_at, state, attempts, due_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, ?6)",
        )?
        .execute(params![
            Id(generation.0),
            place,
            account.as_str(),
            link.pointer,
            link.address.expose(),
            Micros(now),
        ])?;
    }
    Ok(())
}

/// The results of a generation.
pub(super) fn of(rows: &Connection, generation: GenerationId) -> rusqlite::Result<Vec<KeptResult>> {
    rows.prepare_cached("SELECT * FROM kept_results WHERE generation = ?1 ORDER BY place")?
        .query_map([Id(generation.0)], read)?
        .collect()
}

/// The result whose turn it is, with the attempts before, if one that nobody fetches is due.
pub(super) fn next_due(
    rows: &Connection,
    turn: &ResultTurn,
    now: Timestamp,
    is_free: impl Fn(ResultId) -> bool,
) -> rusqlite::Result<Option<DueResult>> {
    let last = turn.after.as_ref().map_or("", AccountId::as_str);
    let mut at = last.to_owned();
    let mut is_second_round = false;
    loop {
        match account_behind(rows, &at)? {
            Some(account) if is_second_round && account.as_str() > last => return Ok(None),
            Some(account) => {
                if !turn.without.contains(&account) {
                    let due = due_of(rows, &account, now, &is_free)?;
                    if due.is_some() {
                        return Ok(due);
                    }
                }
                account.as_str().clone_into(&mut at);
            }
            None if is_second_round || last.is_empty() => return Ok(None),
            None => {
                is_second_round = true;
                at.clear();
            }
        }
    }
}

/// The first account behind a name that has results which wait.
fn account_behind(rows: &Connection, name: &str) -> rusqlite::Result<Option<AccountId>> {
    rows.prepare_cached(
        "SELECT account FROM kept_results WHERE state = 0 AND account > ?1 ORDER BY account LIMIT 1",
    )?
    .query_row([name], |row| parse(&row.get::<_, String>(0)?))
    .optional()
}

/// The result of an account that is due longest and that nobody fetches. Those that somebody fetches are few.
fn due_of(
    rows: &Connection,
    account: &AccountId,
    now: Timestamp,
    is_free: impl Fn(ResultId) -> bool,
) -> rusqlite::Result<Option<DueResult>> {
    let mut due = rows.prepare_cached(
        "SELECT * FROM kept_results WHERE state = 0 AND account = ?1 AND due_at <= ?2
         ORDER BY due_at, generation, place",
    )?;
    let mut due = due.query(params![account.as_str(), Micros(now)])?;
    while let Some(row) = due.next()? {
        let id = id(row)?;
        if !is_free(id) {
            continue;
        }
        let address: Option<String> = row.get("address")?;
        let address = address.and_then(|address| ResultAddress::read(&address));
        return Ok(Some(DueResult {
            id,
            account: account.clone(),
            address: address.ok_or_else(|| unreadable(Unreadable))?,
            attempt: row.get("attempts")?,
        }));
    }
    Ok(None)
}

/// An attempt begins.
pub(super) fn count_attempt(rows: &Connection, id: ResultId) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "UPDATE kept_results SET attempts = attempts + 1 WHERE generation = ?1 AND place = ?2",
    )?
    .execute(params![Id(id.generation.0), id.place])?;
    Ok(())
}

/// Writes down what came of an attempt.
pub(super) fn note(
    rows: &Connection,
    id: ResultId,
    came: &KeepOutcome,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let generation = Id(id.generation.0);
    let changed = match came {
        KeepOutcome::Kept(file) => rows
            .prepare_cached(
                "UPDATE kept_results SET state = 1, address = NULL, reason = NULL, file = ?3, hash = ?4, size_bytes = ?5,
                    content_type = ?6 WHERE generation = ?1 AND place = ?2",
            )?
            .execute(params![
                generation,
                id.place,
                Id(file.file),
                file.hash,
                i64::try_from(file.size_bytes).unwrap_or(i64::MAX),
                file.content_type,
            ]),
        KeepOutcome::Failed { reason } => rows
            .prepare_cached(
                "UPDATE kept_results SET state = 2, address = NULL, reason = ?3 WHERE generation = ?1 AND place = ?2",
            )?
            .execute(params![generation, id.place, reason]),
        KeepOutcome::Later { reason, due_at } => rows
            .prepare_cached(
                "UPDATE kept_results SET reason = ?3, due_at = ?4 WHERE generation = ?1 AND place = ?2",
            )?
            .execute(params![generation, id.place, reason, Micros(*due_at)]),
        KeepOutcome::GivenBack => rows
            .prepare_cached(
                "UPDATE kept_results SET attempts = max(attempts - 1, 0), due_at = ?3 WHERE generation = ?1 AND place = ?2",
            )?
            .execute(params![generation, id.place, Micros(now)]),
    };
    changed.map(|_| ())
}

/// Forgets at most `limit` results that were settled before a time; how many.
pub(super) fn expire(
    rows: &Connection,
    keep_from: Timestamp,
    limit: i64,
) -> rusqlite::Result<usize> {
    rows.prepare_cached(
        "DELETE FROM kept_results WHERE (generation, place) IN (
            SELECT generation, place FROM kept_results WHERE settled_at < ?1 ORDER BY settled_at LIMIT ?2)",
    )?
    .execute(params![Micros(keep_from), limit])
}

fn id(row: &Row<'_>) -> rusqlite::Result<ResultId> {
    let Id(generation) = row.get("generation")?;
    Ok(ResultId {
        generation: GenerationId(generation),
        place: row.get("place")?,
    })
}

fn read(row: &Row<'_>) -> rusqlite::Result<KeptResult> {
    let state = match row.get::<_, i64>("state")? {
        0 => KeptState::Waiting {
            attempts: row.get("attempts")?,
            reason: row.get("reason")?,
        },
        1 => {
            let Id(file) = row.get("file")?;
            KeptState::Kept(KeptFile {
                file,
                hash: row.get("hash")?,
                size_bytes: row.get::<_, i64>("size_bytes")?.unsigned_abs(),
                content_type: row.get("content_type")?,
            })
        }
        2 => KeptState::Failed {
            reason: row.get("reason")?,
        },
        _ => return Err(unreadable(Unreadable)),
    };
    Ok(KeptResult {
        id: id(row)?,
        account: parse(&row.get::<_, String>("account")?)?,
        pointer: row.get("pointer")?,
        state,
    })
}
