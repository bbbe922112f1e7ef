//! The SQL of requirement sets, each kept once however many jobs share it, and of the turns that accounts take.

use accounts::AccountId;
use rusqlite::{Connection, OptionalExtension, Row, params};
use workflow_core::{EngineName, Placement, QueuedAs, RequirementSet, Requirements};

use super::documents::{self, PlacementDocument};
use crate::columns::parse;

/// The number of a set, which is kept from now on.
pub(super) fn number(rows: &Connection, set: &RequirementSet) -> rusqlite::Result<i64> {
    let known = rows
        .prepare_cached("SELECT requirements FROM requirement_sets WHERE text = ?1")?
        .query_row([set.text()], |row| row.get(0))
        .optional()?;
    match known {
        Some(number) => Ok(number),
        None => rows
            .prepare_cached("INSERT INTO requirement_sets (text) VALUES (?1)")?
            .insert([set.text()]),
    }
}

/// The placement of a job, from a row that has its document and the text of its set.
pub(super) fn placement(row: &Row<'_>) -> rusqlite::Result<Placement> {
    let document: PlacementDocument = documents::read(row.get_ref("placement")?.as_str()?)?;
    let set = match row.get_ref("requirement_set")?.as_str_or_null()? {
        Some(text) => RequirementSet::stored(text),
        // Jobs that had ended before there were sets: nothing will run them.
        None => Requirements::of_engine(EngineName::NATIVE).to_set(),
    };
    Ok(document.with(set))
}

/// The place in the queue of the job in a row.
pub(super) fn queued_as(seq: i64, placement: &Placement) -> QueuedAs {
    QueuedAs {
        order: seq.unsigned_abs(),
        requirements: placement.requirements.clone(),
        account_room: placement.account_room,
    }
}

/// Forgets a set that no job has any more.
pub(super) fn forget_unused(rows: &Connection, number: i64) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "DELETE FROM requirement_sets WHERE requirements = ?1
         AND NOT EXISTS (SELECT 1 FROM jobs WHERE requirements = ?1)",
    )?
    .execute([number])?;
    Ok(())
}

/// Keeps the number of an account's last claim.
pub(crate) fn put_claim(
    rows: &Connection,
    account: &AccountId,
    claim: u64,
) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "INSERT INTO account_claims (account, number) VALUES (?1, ?2)
         ON CONFLICT (account) DO UPDATE SET number = excluded.number",
    )?
    .execute(params![account.as_str(), claim.cast_signed()])?;
    Ok(())
}

/// The number of each account's last claim.
pub(super) fn claims(rows: &Connection) -> rusqlite::Result<Vec<(AccountId, u64)>> {
    let mut claims = rows.prepare("SELECT account, number FROM account_claims")?;
    let claims = claims.query_map([], |row| {
        let account = parse(row.get_ref(0)?.as_str()?)?;
        Ok((account, row.get::<_, i64>(1)?.unsigned_abs()))
    })?;
    claims.collect()
}
