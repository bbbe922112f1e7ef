//! Bringing entries into the rows.

use foldhash::HashMap;
use foldhash::fast::RandomState;
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::super::event::{self, Dispatched, Ended, Event, Life};
use super::super::replays::Kept;
use super::super::rows;
use super::CARRIED_FOR_US;
use super::frames::{self, Contents, Place};
use crate::accounts;

/// What the entries of a call usually take together.
const USUAL_BYTES: usize = 160;

/// Entries of generations that have not ended: they wait in a row of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Flushed {
    pub(super) bytes: Vec<u8>,
    pub(super) entries: usize,
}

/// Brings all that is left of an earlier process into the rows; where the next one begins.
pub(crate) fn bring_in(rows: &Connection, contents: &Contents) -> rusqlite::Result<Place> {
    let mut entries = Vec::new();
    let mut carried = rows.prepare("SELECT entries FROM call_log ORDER BY seq")?;
    for row in carried.query_map([], |row| row.get::<_, Vec<u8>>(0))? {
        entries.extend(row?);
    }
    let from = rows.query_row("SELECT epoch, \"offset\" FROM call_log_place", [], |row| {
        Ok(Place {
            epoch: row.get::<_, i64>(0)?.cast_unsigned(),
            offset: row.get::<_, i64>(1)?.cast_unsigned(),
        })
    })?;
    if frames::is_damaged(contents, from) {
        tell_damage();
    }
    entries.extend(frames::entries(contents, from));
    let carried = flush(rows, &entries, 0)?;
    let next = Place {
        // Behind the epoch that may have followed.
        epoch: from.epoch + 2,
        offset: 0,
    };
    place(rows, &carried, next)?;
    Ok(next)
}

/// Tells the operator that entries may be lost.
pub(super) fn tell_damage() {
    tracing::error!(
        "a file calls-0.log or calls-1.log is damaged: calls without a key that ended within the last quarter of a second before the server stopped may be missing from usage and ledger"
    );
}

/// Brings entries into the rows. Generations among them that began a moment ago and have not ended are left if they are at most
/// `most_carried`.
pub(super) fn flush(
    rows: &Connection,
    entries: &[u8],
    most_carried: usize,
) -> rusqlite::Result<Flushed> {
    // Growing costs more than what is not needed of this.
    let most = entries.len() / USUAL_BYTES;
    let mut lives: Vec<Life<'_>> = Vec::with_capacity(most);
    let mut places: HashMap<Uuid, usize> =
        HashMap::with_capacity_and_hasher(most, RandomState::default());
    let mut bills = Vec::with_capacity(most);
    let mut records = Vec::with_capacity(most);
    let mut newest = i64::MIN;
    for event in event::read(entries) {
        let event = event?;
        newest = newest.max(event.at());
        match event {
            Event::Begun(begun) => {
                places.insert(begun.id, lives.len());
                lives.push(Life::new(begun, None));
            }
            Event::Dispatched(Dispatched { begun, received_at }) => {
                places.insert(begun.id, lives.len());
                lives.push(Life::new(begun, Some(received_at)));
            }
            Event::Accepted(accepted) => match places.get(&accepted.id) {
                Some(place) => lives[*place].accepted = Some(accepted),
                None => rows::accept(rows, &accepted)?,
            },
            Event::Ended(ended) => match places.get(&ended.id) {
                Some(place) => lives[*place].ended = Some(ended),
                None if rows::end(rows, &ended, Kept::default())? => bills.extend(ended.bill()),
                None => {}
            },
            Event::Recorded(recorded) => records.push(recorded),
        }
    }
    let mut carried = Flushed::default();
    let waits = |life: &Life<'_>| {
        life.ended.is_none() && newest.saturating_sub(life.begun.at) <= CARRIED_FOR_US
    };
    if lives.iter().filter(|life| waits(life)).count() <= most_carried {
        for life in lives.extract_if(.., |life| waits(life)) {
            for event in life.into_entries() {
                event.write(&mut carried.bytes);
                carried.entries += 1;
            }
        }
    }
    rows::insert(rows, &lives, |life| {
        bills.extend(life.ended.as_ref().and_then(Ended::bill));
    })?;
    rows::record(rows, &records)?;
    accounts::post_bills(rows, &bills)?;
    Ok(carried)
}

/// Writes down what waits, and that everything before a place is in the rows.
pub(super) fn place(rows: &Connection, carried: &Flushed, place: Place) -> rusqlite::Result<()> {
    rows.prepare_cached("DELETE FROM call_log")?.execute([])?;
    if carried.entries > 0 {
        rows.prepare_cached("INSERT INTO call_log (entries) VALUES (?1)")?
            .execute([&carried.bytes])?;
    }
    rows.prepare_cached("UPDATE call_log_place SET epoch = ?1, \"offset\" = ?2")?
        .execute(params![
            place.epoch.cast_signed(),
            place.offset.cast_signed()
        ])?;
    Ok(())
}
