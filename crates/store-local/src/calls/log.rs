//! A log in front of the rows of calls.
//!
//! A call is written down when it is dispatched, when it ends and when it is delivered. Made, changed and billed row by row,
//! that costs more than the rest of the call. So what happens to a generation without a key is noted here, all of a commit in
//! one row, and is brought into the rows of generations, calls and ledger many calls at a time: what began and ended meanwhile
//! is one insert, and an account is billed in one sum. A generation with a key has its rows at once, since retries look it up.
//!
//! Whoever reads those rows has the log brought in first; after a crash the next start does.

use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::accounts::AccountId;
use foldhash::HashMap;
use router_core::{CallRecord, GenerationId};
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::event::{self, Ended, Event, Life, Recorded};
use super::rows;
use crate::accounts;

/// From how many entries on they are brought in: enough to share the cost, and done within few milliseconds.
const MANY: usize = 1024;

/// How long an entry waits for others: whoever reads the rows beside the server sees them this late.
const FOLD_AFTER: Duration = Duration::from_millis(250);

/// What is brought in at once where nobody is in a hurry: done before anybody has waited long.
const PIECE_BYTES: usize = 4 * 1024;

/// So many generations that have not ended may stay in the log when others are brought in.
const MOST_CARRIED: usize = 256;

/// How long after a failure it is tried again.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The records that may wait for a disk that takes none. Beyond it they are given up, and that is logged.
pub(super) const MOST_RECORDS: usize = 64 * 1024;

/// The log of a data directory. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallLog {
    /// Touched by whoever commits, but for questions whether there is anything.
    state: Arc<Mutex<State>>,
    /// Records that were handed in; the next commit takes them.
    inbox: Arc<Mutex<Vec<CallRecord>>>,
    /// Whether the writing thread was told that something is here.
    is_told: Arc<AtomicBool>,
}

/// What is to be brought into the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Everything.
    All,
    /// What it is time for.
    Due,
}

#[derive(Debug, Default)]
struct State {
    /// The generations that were dispatched through the log and have not ended, with whose they are.
    running: HashMap<GenerationId, AccountId>,
    /// Entries of the open transaction that are in no row yet, not of the log either.
    fresh: Vec<u8>,
    fresh_entries: usize,
    /// Records among them,
    taken: Vec<CallRecord>,
    /// and what undoes the changes of `running`, the latest at the end.
    undo: Vec<(GenerationId, Option<AccountId>)>,
    /// Entries in the table,
    logged: usize,
    /// those that the open transaction takes out of it,
    folded: usize,
    /// and whether it leaves some for the next one.
    goes_on: bool,
    /// When what is in the table, or was handed in, wants something done,
    due: Option<Instant>,
    /// which is not before this after a failure.
    not_before: Option<Instant>,
}

impl CallLog {
    /// Brings what the process before left into the rows: the first thing that is done with them.
    pub(crate) fn take_up(rows: &Connection) -> rusqlite::Result<()> {
        fold(rows, usize::MAX, 0).map(|_| ())
    }

    /// Takes a record for the next commit; whether the writing thread has to be told of it.
    pub(super) fn hand_in(&self, record: CallRecord) -> bool {
        let mut inbox = self.inbox();
        if inbox.len() >= MOST_RECORDS {
            tracing::error!(request.id = %record.request, "a call was not written down");
            return false;
        }
        inbox.push(record);
        !self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Whether there is something that the writing thread has to be told of.
    pub(crate) fn has_news(&self) -> bool {
        !self.is_told.load(Ordering::Relaxed)
            && self.is_ahead()
            && !self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Whether something is not in the rows yet.
    pub(crate) fn is_ahead(&self) -> bool {
        self.state().logged > 0 || !self.inbox().is_empty()
    }

    /// Notes that a generation begins, unless it runs already.
    pub(super) fn begin(&self, id: GenerationId, account: &AccountId, event: &Event<'_>) {
        let mut state = self.state();
        let state = &mut *state;
        if let Entry::Vacant(place) = state.running.entry(id) {
            place.insert(account.clone());
            state.undo.push((id, None));
            state.note(event);
        }
    }

    /// Notes something of a generation that runs.
    pub(super) fn note(&self, event: &Event<'_>) {
        self.state().note(event);
    }

    /// Whose generation this is, if it runs.
    pub(super) fn whose(&self, id: GenerationId) -> Option<AccountId> {
        self.state().running.get(&id).cloned()
    }

    /// Notes the end of a generation that runs.
    pub(super) fn end(&self, id: GenerationId, event: &Event<'_>) {
        let mut state = self.state();
        if let Some(account) = state.running.remove(&id) {
            state.undo.push((id, Some(account)));
            state.note(event);
        }
    }

    /// Brings entries into the rows, as a part of the transaction; what was noted in it may be among them.
    pub(crate) fn fold(&self, rows: &Connection, what: Fold) -> rusqlite::Result<()> {
        self.write(rows)?;
        let (bytes, carried) = match what {
            Fold::All => (usize::MAX, 0),
            // Where the next fold is near, what has not ended by now will be one insert then.
            Fold::Due if self.state().logged >= MANY => (usize::MAX, MOST_CARRIED),
            Fold::Due => (PIECE_BYTES, 0),
        };
        let (folded, goes_on) = fold(rows, bytes, carried)?;
        let mut state = self.state();
        state.folded += folded;
        state.goes_on = goes_on;
        Ok(())
    }

    /// Writes what was noted and handed in, as a part of the transaction.
    pub(crate) fn write(&self, rows: &Connection) -> rusqlite::Result<()> {
        let records = std::mem::take(&mut *self.inbox());
        let mut state = self.state();
        for record in records {
            state.note(&Event::Recorded(Recorded::of(&record)));
            state.taken.push(record);
        }
        if !state.fresh.is_empty() {
            append(rows, &state.fresh)?;
            state.fresh.clear();
        }
        Ok(())
    }

    /// The transaction is over, and whole.
    pub(crate) fn committed(&self) {
        let mut state = self.state();
        let was_empty = state.logged <= state.folded;
        state.logged = (state.logged + state.fresh_entries).saturating_sub(state.folded);
        state.due = match state.logged {
            0 => None,
            MANY.. => Some(Instant::now()),
            1.. if state.goes_on => Some(Instant::now()),
            1.. => state
                .due
                .filter(|_| !was_empty && state.folded == 0)
                .or_else(|| Some(Instant::now() + FOLD_AFTER)),
        };
        state.taken.clear();
        state.undo.clear();
        state.close();
    }

    /// The transaction has left nothing behind.
    pub(crate) fn rolled_back(&self) {
        let mut state = self.state();
        let state = &mut *state;
        for (id, before) in state.undo.drain(..).rev() {
            match before {
                Some(account) => state.running.insert(id, account),
                None => state.running.remove(&id),
            };
        }
        let mut inbox = self.inbox();
        inbox.splice(0..0, state.taken.drain(..));
        if !inbox.is_empty() {
            state.due = state.due.or_else(|| Some(Instant::now()));
        }
        state.not_before = Some(Instant::now() + RETRY_AFTER);
        state.fresh.clear();
        state.close();
    }

    /// When the log is to be brought in next, if there is anything in it: asked by the writing thread, which knows by that.
    pub(crate) fn due(&self) -> Option<Instant> {
        // First, so that what comes meanwhile is told.
        self.is_told.store(false, Ordering::Relaxed);
        let due = {
            let state = self.state();
            let handed_in = || (!self.inbox().is_empty()).then(|| Instant::now() + FOLD_AFTER);
            let due = state.due.or_else(handed_in)?;
            state
                .not_before
                .map_or(due, |not_before| due.max(not_before))
        };
        self.is_told.store(true, Ordering::Relaxed);
        Some(due)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change of it panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inbox(&self) -> MutexGuard<'_, Vec<CallRecord>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, event: &Event<'_>) {
        event.write(&mut self.fresh);
        self.fresh_entries += 1;
    }

    fn close(&mut self) {
        self.fresh_entries = 0;
        self.folded = 0;
        self.goes_on = false;
    }
}

/// Brings the oldest entries into the rows, so many bytes of them. Generations among them that have not ended stay in the log
/// if they are at most `most_carried`. How many entries were taken out, and whether there are others.
fn fold(
    rows: &Connection,
    most_bytes: usize,
    most_carried: usize,
) -> rusqlite::Result<(usize, bool)> {
    let (logged, last, goes_on) = oldest(rows, most_bytes)?;
    let Some(last) = last else {
        return Ok((0, false));
    };
    let mut folded = 0;
    let mut lives: Vec<Life<'_>> = Vec::new();
    let mut places: HashMap<Uuid, usize> = HashMap::default();
    let (mut bills, mut records) = (Vec::new(), Vec::new());
    for event in logged.iter().flat_map(|entries| event::read(entries)) {
        folded += 1;
        match event? {
            Event::Begun(begun) => {
                places.insert(begun.id, lives.len());
                lives.push(Life {
                    begun,
                    accepted: None,
                    ended: None,
                });
            }
            Event::Accepted(accepted) => match places.get(&accepted.id) {
                Some(place) => lives[*place].accepted = Some(accepted),
                None => rows::accept(rows, &accepted)?,
            },
            Event::Ended(ended) => match places.get(&ended.id) {
                Some(place) => lives[*place].ended = Some(ended),
                None if rows::end(rows, &ended, None)? => bills.extend(ended.bill()),
                None => {}
            },
            Event::Recorded(recorded) => records.push(recorded),
        }
    }
    let mut carried = Vec::new();
    if lives.iter().filter(|life| life.ended.is_none()).count() <= most_carried {
        for life in lives.extract_if(.., |life| life.ended.is_none()) {
            let begun = Some(Event::Begun(life.begun));
            for event in begun.into_iter().chain(life.accepted.map(Event::Accepted)) {
                event.write(&mut carried);
                folded -= 1;
            }
        }
    }
    rows::insert(rows, &lives, |life| {
        bills.extend(life.ended.as_ref().and_then(Ended::bill));
    })?;
    rows::record(rows, &records)?;
    accounts::post_bills(rows, &bills)?;
    rows.prepare_cached("DELETE FROM call_log WHERE seq <= ?1")?
        .execute([last])?;
    if !carried.is_empty() {
        // In the place of the last one: before whatever happens to them later.
        rows.prepare_cached("INSERT INTO call_log (seq, entries) VALUES (?1, ?2)")?
            .execute(params![last, carried])?;
    }
    Ok((folded, goes_on))
}

/// The oldest entries, so many bytes of them and one row at least, with the number of the last row; whether there are others.
fn oldest(
    rows: &Connection,
    most_bytes: usize,
) -> rusqlite::Result<(Vec<Vec<u8>>, Option<i64>, bool)> {
    let mut statement = rows.prepare_cached("SELECT seq, entries FROM call_log ORDER BY seq")?;
    let mut found = statement.query([])?;
    let (mut logged, mut last, mut bytes) = (Vec::new(), None, 0);
    while let Some(row) = found.next()? {
        if bytes >= most_bytes {
            return Ok((logged, last, true));
        }
        let entries: Vec<u8> = row.get("entries")?;
        bytes += entries.len();
        logged.push(entries);
        last = Some(row.get("seq")?);
    }
    Ok((logged, last, false))
}

fn append(rows: &Connection, entries: &[u8]) -> rusqlite::Result<()> {
    rows.prepare_cached("INSERT INTO call_log (entries) VALUES (?1)")?
        .execute([entries])?;
    Ok(())
}
