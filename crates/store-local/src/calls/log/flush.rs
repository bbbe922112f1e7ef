//! Bringing entries into the rows.

use foldhash::HashMap;
use foldhash::fast::RandomState;
use rusqlite::Connection;
use uuid::Uuid;

use super::super::event::{self, Dispatched, Ended, Event, Life};
use super::super::facts;
use super::super::labels;
use super::super::replays::Kept;
use super::super::rows;
use super::CARRIED_FOR_US;
use crate::log_files::{Contents, Place};
use crate::webhooks::Hooks;
use crate::{accounts, call_log_rows};

/// What the entries of a call usually take together.
const USUAL_BYTES: usize = 160;

/// Entries of generations that have not ended: they wait in a row of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Flushed {
    pub(super) bytes: Vec<u8>,
    pub(super) entries: usize,
}

/// Brings all that is left of an earlier process into the rows; where the next one begins.
pub(crate) fn bring_in(
    rows: &Connection,
    hooks: &Hooks,
    contents: &Contents,
) -> rusqlite::Result<Place> {
    let (entries, next) = call_log_rows::pending(rows, contents)?;
    let waiting = flush(rows, hooks, &entries, 0)?;
    call_log_rows::set_pending(rows, &waiting.bytes, next)?;
    Ok(next)
}

/// Brings entries into the rows. Generations among them that began a moment ago and have not ended are left if they are at most
/// `most_carried`.
pub(super) fn flush(
    rows: &Connection,
    hooks: &Hooks,
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
                lives.push(Life::new(begun, None, None));
            }
            Event::Dispatched(Dispatched { begun, received_at }) => {
                places.insert(begun.id, lives.len());
                lives.push(Life::new(begun, Some(received_at), None));
            }
            Event::DispatchedBy(Dispatched { begun, received_at }, key) => {
                places.insert(begun.id, lives.len());
                lives.push(Life::new(begun, Some(received_at), Some(key)));
            }
            Event::Accepted(accepted) => match places.get(&accepted.id) {
                Some(place) => lives[*place].accepted = Some(accepted),
                None => rows::accept(rows, &accepted)?,
            },
            Event::Ended(ended) => match places.get(&ended.id) {
                Some(place) => lives[*place].ended = Some(ended),
                None if rows::end(rows, &ended, Kept::default())? => {
                    bills.extend(ended.bill());
                    facts::ended(rows, hooks, None, &ended)?;
                }
                None => {}
            },
            Event::Recorded(recorded) => records.push((recorded, None)),
            Event::RecordedBy(recorded, key) => records.push((recorded, Some(key))),
            Event::Labelled(labelled) => labels::insert(rows, &labelled)?,
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
    let mut ended = Vec::new();
    rows::insert(rows, &lives, |life| {
        bills.extend(life.ended.as_ref().and_then(Ended::bill));
        if hooks.any() {
            ended.extend(life.ended.as_ref().map(|ended| (life.begun.model, ended)));
        }
    })?;
    for (model, ended) in ended {
        facts::ended(rows, hooks, Some(model), ended)?;
    }
    rows::record(rows, &records)?;
    accounts::post_bills(rows, &bills)?;
    Ok(carried)
}
