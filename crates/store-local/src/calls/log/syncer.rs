//! Bringing the files of the log to the disk: for many calls at a time where many wait, for each by itself where the disk is fast.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::CallLog;
use crate::database::{CROWD, DatabaseError, IN_PLACE, gathering};

/// How long a record waits for something else to be written with it.
const WRITE_AFTER: Duration = Duration::from_millis(5);

/// A caller that waits for the disk.
pub(super) type Waiting = oneshot::Sender<Result<(), DatabaseError>>;

/// What the newest syncs took.
#[derive(Debug, Default)]
pub(super) struct RecentSyncs {
    /// How many waited together.
    crowd: usize,
    /// What a sync takes.
    wait: Duration,
}

/// The thread of a log. Dropping it lets it finish what waits.
#[derive(Debug)]
pub(in crate::calls) struct Syncer {
    is_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    pub(in crate::calls) fn start(log: &CallLog) -> Self {
        let is_ended = Arc::new(AtomicBool::new(false));
        let (log, ended) = (log.clone(), Arc::clone(&is_ended));
        let thread = thread::Builder::new()
            .name("store-calls".to_owned())
            .spawn(move || {
                // A caller that waits before it is set wakes no thread, and is served first.
                let _ = log.0.syncer.set(thread::current());
                log.sync_until(&ended);
            })
            .expect("the system has room for one more thread");
        Self {
            is_ended,
            thread: Some(thread),
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else {
            return;
        };
        thread.thread().unpark();
        if thread.join().is_err() {
            tracing::error!("the thread of the log of calls panicked");
        }
    }
}

impl CallLog {
    /// Waits until everything that was noted before is on the disk.
    ///
    /// # Errors
    /// If it cannot be written: what was noted is written later, if at all.
    pub(in crate::calls) async fn durable(&self) -> Result<(), DatabaseError> {
        if self.0.is_in_place.load(Ordering::Relaxed)
            && let Ok(mut pace) = self.0.syncing.try_lock()
        {
            return self.sync(&mut pace);
        }
        let (waiting, synced) = oneshot::channel();
        let is_first = {
            let mut state = self.state();
            state.waiting.push(waiting);
            state.waiting.len() == 1
        };
        if is_first {
            self.wake();
        }
        synced.await.unwrap_or(Err(DatabaseError::Abandoned))
    }

    /// Wakes the thread, if it has begun.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.0.syncer.get() {
            thread.unpark();
        }
    }

    fn sync_until(&self, ended: &AtomicBool) {
        loop {
            let (nobody_waits, is_write_near) = {
                let state = self.state();
                (state.waiting.is_empty(), state.is_write_near)
            };
            if nobody_waits && ended.load(Ordering::Acquire) {
                return;
            }
            if nobody_waits && is_write_near {
                thread::park_timeout(WRITE_AFTER);
                self.write_soon();
                continue;
            }
            if nobody_waits {
                thread::park();
                continue;
            }
            // How it went is no more than a hint, whatever panicked.
            let syncing = self.0.syncing.lock();
            let mut pace = syncing.unwrap_or_else(PoisonError::into_inner);
            if let Some(gathering) = gathering(pace.crowd) {
                let until = Instant::now() + gathering;
                // The first caller may have ended it beforehand.
                while let Some(left) = until.checked_duration_since(Instant::now()) {
                    thread::park_timeout(left);
                }
            }
            // The first of those who wait is told what came of it, like the others.
            let _ = self.sync(&mut pace);
        }
    }

    /// Writes what is fresh, unless a caller waits for a sync, which does as well.
    fn write_soon(&self) {
        let mut state = self.state();
        if !state.waiting.is_empty() {
            return;
        }
        state.is_write_near = false;
        if let Err(error) = state.write() {
            drop(state);
            // It is tried again with the next entry, and with the rows.
            let error = self.failed(error);
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "records of calls are not written yet");
        }
    }

    /// Writes what is fresh, brings the files to the disk, and tells everybody who waited for that.
    fn sync(&self, pace: &mut RecentSyncs) -> Result<(), DatabaseError> {
        let (waiting, files) = {
            let mut state = self.state();
            let written = state.write();
            let files = written.map(|()| state.frames.take_unsynced());
            (std::mem::take(&mut state.waiting), files)
        };
        let begun = Instant::now();
        let synced = files.and_then(|mut files| {
            files.try_for_each(|file| {
                crate::faults::fault_point!("call-log-sync", |kind| Err(crate::faults::io(kind)));
                file.sync_data()
            })
        });
        pace.wait = (pace.wait * 7 + begun.elapsed()) / 8;
        pace.crowd = waiting.len();
        let is_in_place = pace.wait < IN_PLACE && pace.crowd < CROWD;
        self.0.is_in_place.store(is_in_place, Ordering::Relaxed);
        let synced = synced.map_err(|error| {
            // Who waits from now on waits for the same bytes.
            self.state().frames.mark_unsynced();
            self.failed(error)
        });
        // What failed before stays in doubt, although nobody syncs it again.
        let synced = synced.and_then(|()| Ok(self.0.health.check()?));
        for one in waiting {
            // Who stopped waiting does not want to know.
            let _ = one.send(synced.clone());
        }
        synced
    }
}
