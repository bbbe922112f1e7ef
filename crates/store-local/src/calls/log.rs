//! A log in front of the rows of calls.
//!
//! A call is written down when it is dispatched, when it ends and when it is delivered. Made, changed and billed row by row,
//! that costs more than the rest of the call. So what happens to a generation is noted here, and is brought into the rows of
//! generations, keys, calls and ledger many calls at a time: what began and ended meanwhile is one insert, and an account is
//! billed in one sum. Until then a retry finds its key in memory, and an end that it asks for is brought in first.
//!
//! A beginning is on the disk before it is acted on; those that begin at the same time share a sync, which a thread of the log
//! sees to. So is an end with a key, with the bytes that the key answers again. An end without one is in the file before it is
//! told, so that nothing but a power cut can take it, and on the disk with the next sync, or with the rows a quarter of a second
//! later. Records go with either, and are in the file soon.
//!
//! A reader of the rows flushes the log first; after a crash the next start does.

mod flush;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod state;
mod syncer;

use std::collections::hash_map::Entry;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use ::accounts::AccountId;
use foldhash::HashMap;
use router_core::{CallRecord, Generation, GenerationId, Settled};
use rusqlite::{Connection, ffi};

use super::event::{Event, KeyColumns, Labelled};
use super::keyed::Keyed;
use super::replays::{Replays, as_of_rows};
use crate::call_log_rows::{self, LOG};
use crate::database::{DatabaseError, Durability, Occasion, Participant};
use crate::health::Health;
use crate::log_files::{self, Frames, HEAD_BYTES};
use crate::reserve::Reserve;
use crate::webhooks::Hooks;
pub(crate) use flush::FlushTargets;
use flush::Flushed;
use state::State;
use syncer::RecentSyncs;

pub(crate) use flush::bring_in;
pub(super) use syncer::Syncer;

/// From how many entries on they are brought in: enough to share the cost, and done within few milliseconds.
const MANY: usize = 1024;

/// And from how many bytes on: results are among them, and the files are not to become longer.
const MANY_BYTES: usize = 256 << 10;

/// How long an entry waits for others: a reader of the rows beside the server sees them this late.
const FOLD_AFTER: Duration = Duration::from_millis(250);

/// So many generations that began a moment ago may wait for their end when others are brought in,
const MOST_CARRIED: usize = 256;

/// and this long, in microseconds: what has not ended by then may run for minutes, and is to be seen in its row.
const CARRIED_FOR_US: i64 = 1_000_000;

/// The epoch of a first start.
const FIRST_EPOCH: u64 = 2;

/// How long after a failure it is tried again.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Bytes of entries that may wait for rows that cannot be written. Beyond it nothing begins, and records are given up, which is
/// logged.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// The log of a data directory. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct CallLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Held by the thread that syncs the files.
    syncing: Mutex<RecentSyncs>,
    /// Whether the writing thread has to be told that it looks too late by itself.
    is_news: AtomicBool,
    /// Whether the disk is faster than waking a thread, and few ask for it.
    is_in_place: AtomicBool,
    /// The thread that sees to the syncs of many.
    syncer: OnceLock<Thread>,
    health: Health,
    reserve: Reserve,
    /// Who wants to hear of what goes into the rows.
    hooks: Hooks,
    /// Where the bytes of ends with a key go.
    replays: Replays,
    /// Hears which keys are in the rows.
    keyed: Keyed,
}

/// What is to be brought into the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// Everything.
    All,
    /// What need not wait for its end a moment longer.
    Due,
}

impl CallLog {
    /// Opens the files. [`CallLog::recover`] has to follow before anything is noted.
    pub(crate) fn open(
        directory: &Path,
        (health, reserve): (Health, Reserve),
        hooks: Hooks,
        (replays, keyed): (Replays, Keyed),
    ) -> io::Result<Self> {
        let state = State {
            frames: Frames::open(directory, LOG)?,
            running: HashMap::default(),
            fresh: vec![0; HEAD_BYTES],
            ahead: Vec::new(),
            entries: 0,
            carried: Flushed::default(),
            ended: Vec::new(),
            flushing: None,
            rows_epoch: 0,
            waiting: Vec::new(),
            is_write_near: false,
            due: None,
            not_before: None,
            looks_at: None,
        };
        Ok(Self(Arc::new(Inner {
            state: Mutex::new(state),
            syncing: Mutex::default(),
            is_news: AtomicBool::new(false),
            is_in_place: AtomicBool::new(true),
            syncer: OnceLock::new(),
            health,
            reserve,
            hooks,
            replays,
            keyed,
        })))
    }

    /// Brings what the process before left into the rows: the first thing that is done with them. The files are written over once
    /// this is committed.
    pub(crate) fn recover(&self, rows: &Connection, directory: &Path) -> rusqlite::Result<()> {
        let contents = log_files::read(directory, LOG);
        let contents = contents.map_err(|error| as_of_rows(&error, ffi::SQLITE_IOERR_READ))?;
        let place = bring_in(rows, self.flush_targets(), &contents)?;
        self.0.replays.sync()?;
        // No participant hears of the first transaction. Without it there is no store.
        self.0.replays.keep_appended();
        crate::faults::fault_point!("call-recover");
        let mut state = self.state();
        // A first start that was cut off may have left one of them so, and nothing in it.
        if state.frames.is_short() && place.epoch > FIRST_EPOCH {
            call_log_rows::report_damage();
        }
        state.frames.begin(place.epoch);
        state.rows_epoch = place.epoch;
        Ok(())
    }

    /// Whether the writing thread has to be told of what was noted: asked behind everything that is, and answered once.
    pub(super) fn take_news(&self) -> bool {
        self.0.is_news.load(Ordering::Relaxed) && self.0.is_news.swap(false, Ordering::Relaxed)
    }

    /// Takes a record. It is in the file a moment later.
    pub(super) fn record(&self, record: &CallRecord) {
        let mut state = self.state();
        if state.is_full() {
            drop(state);
            tracing::error!(request.id = %record.request, "a call was not written down");
            return;
        }
        // Those of a call that began its generation are there since then.
        let has_begun = record.generation.is_some_and(|id| id.0 == record.request.0);
        if !has_begun && let Some(labels) = router_core::write_labels(&record.labels) {
            let labelled = Labelled::of(record.request.0, record.received_at, &labels);
            self.note_in(&mut state, &Event::Labelled(labelled));
        }
        self.note_in(&mut state, &Event::of_record(record));
        let is_write_near = std::mem::replace(&mut state.is_write_near, true);
        drop(state);
        if !is_write_near {
            self.wake();
        }
    }

    /// Whether something may begin: asked before, since it looks at the disk and a dispatch has the keys locked.
    ///
    /// # Errors
    /// If the disk has no room, or failed.
    pub(super) fn may_begin(&self) -> Result<(), DatabaseError> {
        self.0.reserve.for_growth()?;
        Ok(self.0.health.check()?)
    }

    /// Notes that a generation begins, with its key if it has one, unless it runs already. It is on the disk after
    /// [`CallLog::durable`].
    ///
    /// # Errors
    /// If too much waits for the rows.
    pub(super) fn begin(
        &self,
        generation: &Generation,
        key: Option<KeyColumns<'_>>,
    ) -> Result<(), DatabaseError> {
        let mut state = self.state();
        if state.is_full() {
            return Err(DatabaseError::Busy);
        }
        if let Entry::Vacant(place) = state.running.entry(generation.id) {
            place.insert(generation.account.clone());
            if let Some(labels) = router_core::write_labels(&generation.labels) {
                let labelled = Labelled::of_generation(generation, &labels);
                self.note_in(&mut state, &Event::Labelled(labelled));
            }
            self.note_in(&mut state, &Event::of_dispatch(generation, key));
        }
        Ok(())
    }

    /// Notes something of a generation, if it runs; whether it does. It is on the disk after [`CallLog::durable`].
    pub(super) fn note(&self, id: GenerationId, event: &Event<'_>) -> bool {
        let mut state = self.state();
        let is_running = state.running.contains_key(&id);
        if is_running {
            self.note_in(&mut state, event);
        }
        is_running
    }

    /// Whether a generation was dispatched through the log and has not ended.
    pub(super) fn runs(&self, id: GenerationId) -> bool {
        self.state().running.contains_key(&id)
    }

    /// Notes the end of a generation, if it runs: then, whether it ends now, which it does once. It is in the file when this
    /// returns.
    ///
    /// # Errors
    /// If it cannot be written; the generation runs on.
    pub(super) fn end(
        &self,
        id: GenerationId,
        account: &AccountId,
        event: &Event<'_>,
    ) -> Result<Option<Settled>, DatabaseError> {
        self.0.health.check()?;
        let mut state = self.state();
        match state.running.get(&id) {
            None => return Ok(None),
            Some(owner) if owner != account => return Ok(Some(Settled::Before)),
            Some(_) => {}
        }
        let (bytes, entries) = (state.fresh.len(), state.entries);
        self.note_in(&mut state, event);
        if let Err(error) = state.write() {
            state.fresh.truncate(bytes);
            state.entries = entries;
            drop(state);
            let error = self.failed(error);
            if matches!(error, DatabaseError::Full(_)) {
                // The next call that ends tries again.
                self.0.reserve.give_up();
            }
            return Err(error);
        }
        state.running.remove(&id);
        if let Event::KeyedEnded(..) = event {
            state.ended.push(id);
            // A dispatch has the keys locked while it notes something here.
            drop(state);
            self.0.keyed.ended_in_log(id);
        }
        Ok(Some(Settled::Now))
    }

    /// A generation has ended in the rows.
    pub(super) fn ended(&self, id: GenerationId) {
        self.state().running.remove(&id);
    }

    fn note_in(&self, state: &mut State, event: &Event<'_>) {
        state.note(event);
        if state.is_news() {
            self.0.is_news.store(true, Ordering::Relaxed);
        }
    }

    /// Brings entries into the rows, as a part of the transaction. Where that waits for the disk, the files may be written over
    /// after it. Only for operations that are [`sure`](crate::database::Write::sure): what one alone undoes, to its savepoint,
    /// would be taken for committed with the others.
    pub(crate) fn flush(&self, rows: &Connection, what: Flush) -> rusqlite::Result<()> {
        let most_carried = match what {
            Flush::All => 0,
            // What ends before the next flush will be one insert then.
            Flush::Due => MOST_CARRIED,
        };
        let (is_first, (entries, place)) = {
            let mut state = self.state();
            (state.flushing.is_none(), state.take()?)
        };
        let flushed = flush::flush(rows, self.flush_targets(), &entries, most_carried);
        let placed = flushed.and_then(|carried| {
            call_log_rows::set_pending(rows, &carried.bytes, place).map(|()| carried)
        });
        crate::faults::fault_point!("call-flush");
        let mut state = self.state();
        match placed {
            Ok(carried) => state.take_on(carried, place),
            Err(error) => {
                state.fail(is_first, &error);
                return Err(error);
            }
        }
        Ok(())
    }

    fn flush_targets(&self) -> FlushTargets<'_> {
        FlushTargets {
            hooks: &self.0.hooks,
            replays: Some(&self.0.replays),
        }
    }

    /// What a failure of the files means.
    fn failed(&self, error: io::Error) -> DatabaseError {
        if error.kind() == io::ErrorKind::StorageFull {
            return DatabaseError::Full(Arc::new(error));
        }
        self.0.health.poison(&error);
        self.0
            .health
            .check()
            .map_or_else(Into::into, |()| DatabaseError::Abandoned)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change of it panics half-way.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Participant for CallLog {
    fn write(&self, rows: &Connection, occasion: Occasion) -> rusqlite::Result<()> {
        match occasion {
            // An operation that fails by itself must not leave half of what was taken behind.
            Occasion::Group => self.state().is_whole(),
            Occasion::Due => self.flush(rows, Flush::Due),
            Occasion::CatchUp | Occasion::End if self.is_ahead() => self.flush(rows, Flush::All),
            Occasion::CatchUp | Occasion::End => self.state().is_whole(),
        }
    }

    fn committed(&self, durability: Durability) {
        let mut state = self.state();
        if state.is_whole().is_err() {
            // Without a changed row no participant was asked, and nothing of it is in the rows.
            state.give_back();
        }
        let Some(flushing) = state.flushing.take() else {
            return;
        };
        crate::faults::fault_point!("call-flushed");
        state.carried = flushing.carried;
        if durability == Durability::Now {
            state.rows_epoch = flushing.epoch;
        }
        state.due = match state.entries {
            // What waits goes with what comes.
            0 => None,
            _ if state.are_many() => Some(Instant::now()),
            _ => Some(Instant::now() + FOLD_AFTER),
        };
        drop(state);
        for id in flushing.ended {
            self.0.keyed.end(id);
        }
    }

    fn rolled_back(&self) {
        let mut state = self.state();
        if state.flushing.is_some() {
            state.give_back();
        }
        let now = Instant::now();
        state.due = (state.entries > 0).then_some(now);
        state.not_before = Some(now + RETRY_AFTER);
    }

    fn due(&self) -> Option<Instant> {
        let mut state = self.state();
        // The thread that writes asks, and is going to look then.
        state.looks_at = state.due_after_failures();
        state.looks_at
    }

    fn is_ahead(&self) -> bool {
        let state = self.state();
        state.entries + state.carried.entries > 0
    }
}
