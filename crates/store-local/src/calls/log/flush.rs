//! Bringing entries into the rows.

use foldhash::fast::RandomState;
use foldhash::{HashMap, HashSet};
use jiff::Timestamp;
use router_core::GenerationId;
use rusqlite::Connection;
use uuid::Uuid;

use super::super::event::{self, Dispatched, Event, Life, ReplayBody};
use super::super::key_rows;
use super::super::replays::{Kept, ReplaySum, Replays};
use super::super::{facts, labels, rows};
use super::CARRIED_FOR_US;
use crate::columns::unreadable;
use crate::log_files::{Contents, LogPosition};
use crate::webhooks::Hooks;
use crate::{accounts, call_log_rows};

/// What the entries of a call usually take together.
const USUAL_BYTES: usize = 160;

/// What a flush writes to, in addition to the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushTargets<'a> {
    /// Who hears of what ended.
    pub(crate) hooks: &'a Hooks,
    /// Where the bytes lie that keys answer again. Without it, ends with such bytes wait for the next process.
    pub(crate) replays: Option<&'a Replays>,
}

/// Entries that wait in a row of the log: most are of generations that have not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Flushed {
    pub(super) bytes: Vec<u8>,
    pub(super) entries: usize,
}

/// Brings all that is left of an earlier process into the rows; where the next one begins.
pub(crate) fn bring_in(
    rows: &Connection,
    targets: FlushTargets<'_>,
    contents: &Contents,
) -> rusqlite::Result<LogPosition> {
    let (entries, next) = call_log_rows::pending(rows, contents)?;
    let waiting = flush(rows, targets, &entries, 0)?;
    call_log_rows::set_pending(rows, &waiting.bytes, next)?;
    Ok(next)
}

/// Brings entries into the rows. Generations among them that began a moment ago and have not ended are left if they are at most
/// `most_carried`.
pub(super) fn flush(
    rows: &Connection,
    targets: FlushTargets<'_>,
    entries: &[u8],
    most_carried: usize,
) -> rusqlite::Result<Flushed> {
    let hooks = targets.hooks;
    let mut carried = Flushed::default();
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
            Event::Keyed(Dispatched { begun, received_at }, key, api_key) => {
                places.insert(begun.id, lives.len());
                lives.push(Life {
                    key: Some(key),
                    ..Life::new(begun, Some(received_at), api_key)
                });
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
            Event::KeyedEnded(ended, replay) => match places.get(&ended.id) {
                Some(place) => {
                    lives[*place].ended = Some(ended);
                    lives[*place].replay = Some(replay);
                }
                None if !targets.keeps(&replay) => carried.put(&Event::KeyedEnded(ended, replay)),
                None if rows::end(rows, &ended, targets.keep(&replay)?)? => {
                    if ended.is_released() {
                        key_rows::free(rows, GenerationId(ended.id))?;
                    }
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
    let is_for_later = |life: &Life<'_>| life.replay.is_some_and(|replay| !targets.keeps(&replay));
    let waits = |life: &Life<'_>| {
        life.ended.is_none() && newest.saturating_sub(life.begun.at) <= CARRIED_FOR_US
    };
    let may_wait = lives.iter().filter(|life| waits(life)).count() <= most_carried;
    for life in lives.extract_if(.., |life| (may_wait && waits(life)) || is_for_later(life)) {
        life.into_entries().for_each(|event| carried.put(&event));
    }
    let keyed: Vec<Life<'_>> = lives.extract_if(.., |life| life.key.is_some()).collect();
    let keyed = keyed.into_iter().map(|life| {
        let kept = life
            .replay
            .map_or(Ok(Kept::default()), |replay| targets.keep(&replay));
        Ok((life, kept?))
    });
    let keyed: Vec<(Life<'_>, Kept)> = keyed.collect::<rusqlite::Result<_>>()?;
    let mut inserted = Vec::with_capacity(lives.len() + keyed.len());
    rows::insert(rows, &lives, |life| inserted.push(life))?;
    rows::insert_kept(rows, &keyed, |(life, _)| inserted.push(life))?;
    key_rows::insert(rows, &inserted)?;
    let is_all = inserted.len() == lives.len() + keyed.len();
    let known: HashSet<Uuid> = match is_all {
        true => HashSet::default(),
        false => inserted.iter().map(|life| life.begun.id).collect(),
    };
    for life in inserted {
        let Some(ended) = &life.ended else { continue };
        bills.extend(ended.bill());
        facts::ended(rows, hooks, Some(life.begun.model), ended)?;
    }
    if !is_all {
        let lives = lives.iter().map(|life| (life, Kept::default()));
        let all = lives.chain(keyed.iter().map(|(life, kept)| (life, *kept)));
        // Their rows are there: what happened to them since must not be lost with their entries.
        for (life, kept) in all.filter(|(life, _)| !known.contains(&life.begun.id)) {
            if let Some(accepted) = &life.accepted {
                rows::accept(rows, accepted)?;
            }
            let Some(ended) = &life.ended else { continue };
            if rows::end(rows, ended, kept)? {
                if life.key.is_some() && ended.is_released() {
                    key_rows::free(rows, GenerationId(ended.id))?;
                }
                bills.extend(ended.bill());
                facts::ended(rows, hooks, Some(life.begun.model), ended)?;
            }
        }
    }
    rows::record(rows, &records)?;
    accounts::post_bills(rows, &bills)?;
    Ok(carried)
}

impl FlushTargets<'_> {
    /// Whether the bytes of an end can be kept here, if it has any.
    fn keeps(&self, replay: &ReplayBody<'_>) -> bool {
        self.replays.is_some() || replay.body.0.is_empty()
    }

    /// Keeps the bytes of an end; what its row tells of them.
    fn keep(&self, replay: &ReplayBody<'_>) -> rusqlite::Result<Kept> {
        let body = replay.body.0;
        let Some(replays) = self.replays.filter(|_| !body.is_empty()) else {
            return Ok(Kept::default());
        };
        let expires_at = Timestamp::from_microsecond(replay.expires_at).map_err(unreadable)?;
        Ok(Kept {
            place: Some(replays.append_of_log(expires_at, body)?),
            sum: Some(ReplaySum::of(body)),
        })
    }
}

impl Flushed {
    fn put(&mut self, event: &Event<'_>) {
        event.write(&mut self.bytes);
        self.entries += 1;
    }
}
