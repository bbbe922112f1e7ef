//! What the log has in memory: what is not in its file yet, and what of the file is in no row.

use std::io;
use std::time::Instant;

use ::accounts::AccountId;
use foldhash::HashMap;
use router_core::GenerationId;
use rusqlite::ffi;

use super::flush::Flushed;
use super::syncer::Waiting;
use super::{FOLD_AFTER, MANY, MANY_BYTES, MOST_BYTES};
use crate::calls::event::Event;
use crate::calls::replays::as_of_rows;
use crate::log_files::{Frames, HEAD_BYTES, LogPosition};

#[derive(Debug)]
pub(super) struct State {
    pub(super) frames: Frames,
    /// The generations that were dispatched through the log and have not ended, with whose they are.
    pub(super) running: HashMap<GenerationId, AccountId>,
    /// Room for the head of a frame, and the entries that go into it.
    pub(super) fresh: Vec<u8>,
    /// The entries of the files that are in no row,
    pub(super) ahead: Vec<u8>,
    /// how many they and the fresh ones are,
    pub(super) entries: usize,
    /// and those that wait in a row of the log for their end, after which they are older than all the others.
    pub(super) carried: Flushed,
    /// The generations with a key among those that ended.
    pub(super) ended: Vec<GenerationId>,
    /// What the open transaction brings into the rows.
    pub(super) flushing: Option<Folding>,
    /// The epoch of the place that the rows on the disk name.
    pub(super) rows_epoch: u64,
    /// Who waits for the disk.
    pub(super) waiting: Vec<Waiting>,
    /// Whether the thread of the log is going to write what is fresh.
    pub(super) is_write_near: bool,
    /// When what is here wants something done,
    pub(super) due: Option<Instant>,
    /// which is not before this after a failure,
    pub(super) not_before: Option<Instant>,
    /// and when the writing thread is going to look by itself.
    pub(super) looks_at: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Folding {
    /// The entries that it took out of [`State::ahead`], and how many they were.
    pub(super) taken: Vec<u8>,
    pub(super) entries: usize,
    /// That of [`State::ended`].
    pub(super) ended: Vec<GenerationId>,
    /// What waits in a row from then on.
    pub(super) carried: Flushed,
    pub(super) epoch: u64,
    /// Why the rows have a part of it and not the rest, if it is so: then the transaction must not be committed.
    pub(super) failure: Option<ffi::Error>,
}

impl State {
    pub(super) fn note(&mut self, event: &Event<'_>) {
        let were_many = self.are_many();
        event.write(&mut self.fresh);
        self.entries += 1;
        match self.due {
            _ if !were_many && self.are_many() => self.due = Some(Instant::now()),
            None => self.due = Some(Instant::now() + FOLD_AFTER),
            Some(_) => {}
        }
    }

    /// Whether they are to be brought in at once.
    pub(super) fn are_many(&self) -> bool {
        self.entries >= MANY || self.fresh.len() + self.ahead.len() >= MANY_BYTES
    }

    pub(super) fn is_full(&self) -> bool {
        self.fresh.len() + self.ahead.len() > MOST_BYTES
    }

    pub(super) fn due_after_failures(&self) -> Option<Instant> {
        let due = self.due?;
        Some(
            self.not_before
                .map_or(due, |not_before| due.max(not_before)),
        )
    }

    /// Whether the writing thread has to be told, since it looks too late by itself. It is told once.
    pub(super) fn is_news(&mut self) -> bool {
        let due = self.due_after_failures();
        let is_news = match (due, self.looks_at) {
            (Some(due), Some(looks_at)) => due < looks_at,
            (due, _) => due.is_some(),
        };
        if is_news {
            self.looks_at = due;
        }
        is_news
    }

    /// Writes a frame of what is fresh.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if self.fresh.len() > HEAD_BYTES {
            self.frames.append(&mut self.fresh)?;
            self.ahead.extend_from_slice(&self.fresh[HEAD_BYTES..]);
            self.fresh.truncate(HEAD_BYTES);
        }
        Ok(())
    }

    /// Takes everything for the open transaction, and tells where what follows goes. Until [`State::take_on`] the transaction has
    /// a part of it.
    pub(super) fn take(&mut self) -> rusqlite::Result<(Vec<u8>, LogPosition)> {
        self.is_whole()?;
        let written = self.write();
        written.map_err(|error| as_of_rows(&error, ffi::SQLITE_IOERR_WRITE))?;
        // Of the other file the rows have everything, and for good, if they name a place in this one.
        if self.rows_epoch == self.frames.end().epoch {
            self.frames.turn();
        }
        let mut flushing = self.flushing.take().unwrap_or_else(|| Folding {
            taken: Vec::new(),
            entries: 0,
            ended: Vec::new(),
            carried: self.carried.clone(),
            epoch: 0,
            failure: None,
        });
        let entries = [&flushing.carried.bytes[..], &self.ahead].concat();
        let room = self.ahead.capacity();
        let taken = std::mem::replace(&mut self.ahead, Vec::with_capacity(room));
        flushing.taken.extend_from_slice(&taken);
        flushing.entries += std::mem::take(&mut self.entries);
        flushing.ended.append(&mut self.ended);
        flushing.failure = Some(ffi::Error::new(ffi::SQLITE_ABORT));
        self.flushing = Some(flushing);
        Ok((entries, self.frames.end()))
    }

    /// The open transaction leaves this.
    pub(super) fn take_on(&mut self, carried: Flushed, place: LogPosition) {
        if let Some(flushing) = &mut self.flushing {
            flushing.carried = carried;
            flushing.epoch = place.epoch;
            flushing.failure = None;
        }
    }

    /// What the open transaction took last was not brought into the rows. `is_first` tells that it took nothing before.
    pub(super) fn fail(&mut self, is_first: bool, error: &rusqlite::Error) {
        if is_first {
            // Of a transaction that goes on nothing was changed.
            self.give_back();
        } else if let (Some(flushing), Some(cause)) = (&mut self.flushing, error.sqlite_error()) {
            flushing.failure = Some(*cause);
        }
    }

    /// Whether the open transaction has all of what it took.
    ///
    /// # Errors
    /// If it has a part.
    pub(super) fn is_whole(&self) -> rusqlite::Result<()> {
        let flushing = self.flushing.as_ref();
        match flushing.and_then(|flushing| flushing.failure) {
            None => Ok(()),
            Some(failure) => {
                let text = "the log of calls is in the rows in part".to_owned();
                Err(rusqlite::Error::SqliteFailure(failure, Some(text)))
            }
        }
    }

    /// The open transaction is none.
    pub(super) fn give_back(&mut self) {
        if let Some(mut flushing) = self.flushing.take() {
            flushing.taken.append(&mut self.ahead);
            self.ahead = flushing.taken;
            self.entries += flushing.entries;
            self.ended.append(&mut flushing.ended);
        }
    }
}
