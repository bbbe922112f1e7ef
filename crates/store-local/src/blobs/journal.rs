//! Small blobs of jobs on their way into files: their bytes go into the database together with the rows that name them.
//!
//! So a job that makes a small picture waits for the disk once, and not for a file, its name and its folders besides. The
//! file has its place at once and readers know nothing of this; only that it is on the disk is seen to later, for many
//! files together. What a power cut takes of them is written again at the next start.

use std::fs::File;
use std::io;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use asset_store::BlobHash;
use bytes::Bytes;
use rusqlite::{Connection, ffi, params};

use crate::columns::Hash;
use crate::database::{Durability, Occasion, Participant};
use crate::directory::Directory;
use crate::health::Health;

/// Blobs up to this size are journaled. Those above are few enough, and large enough in the log, to go to their files.
pub(crate) const MOST_BYTES: usize = 64 * 1024;

/// How much is journaled before the files are brought to the disk: what a start after a crash looks through in an instant.
const MOST: Volume = Volume {
    blobs: 4096,
    bytes: 8 << 20,
};

/// The journal of a directory. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    state: Arc<Mutex<State>>,
    folder: Arc<Directory>,
    health: Health,
}

/// A blob in the journal.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) hash: BlobHash,
    pub(crate) bytes: Bytes,
}

#[derive(Debug, Default)]
struct State {
    /// For the next transaction.
    waiting: Vec<Entry>,
    /// What the open transaction has written.
    open: JournalWrite,
    /// The number of the newest row that is committed.
    newest: i64,
    /// What is in committed rows that nobody brings to their files yet.
    volume: Volume,
    /// Whether files are being brought to the disk.
    syncing: bool,
    /// The files of rows up to this number are on the disk; the rows may go.
    synced: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Volume {
    blobs: usize,
    bytes: usize,
}

impl Journal {
    pub(crate) fn new(folder: Arc<Directory>, health: Health) -> Self {
        Self {
            state: Arc::default(),
            folder,
            health,
        }
    }

    /// Has the next transaction of the database keep the bytes of a blob whose file is in its place.
    pub(super) fn add(&self, entry: Entry) {
        self.state().waiting.push(entry);
    }

    /// Takes note of what an earlier process left.
    pub(crate) fn resume(&self, newest: i64, entries: &[Entry]) {
        let mut state = self.state();
        state.newest = newest;
        for entry in entries {
            state.volume.add(entry);
        }
    }

    /// Brings every file to the disk that has its row, so that the next transaction may remove the rows.
    pub(crate) fn sync_all(&self) {
        let state = self.state();
        let (up_to, volume) = (state.newest, state.volume);
        drop(state);
        if volume.blobs > 0 {
            self.sync(up_to);
        }
    }

    fn sync(&self, up_to: i64) {
        let synced = sync_files(&self.folder);
        let mut state = self.state();
        state.syncing = false;
        match synced {
            Ok(()) => state.synced = state.synced.max(Some(up_to)),
            Err(error) => self.health.poison(&error),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is a push, a take or an assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Participant for Journal {
    /// Writes what waits, and removes what is done with.
    fn write(&self, rows: &Connection, occasion: Occasion) -> rusqlite::Result<()> {
        if occasion == Occasion::End {
            self.sync_all();
            self.health.check().map_err(|poisoned| {
                let code = ffi::Error::new(ffi::SQLITE_IOERR_FSYNC);
                rusqlite::Error::SqliteFailure(code, Some(poisoned.to_string()))
            })?;
        }
        let (entries, synced) = {
            let mut state = self.state();
            (mem::take(&mut state.waiting), state.synced.take())
        };
        let mut written = JournalWrite {
            entries,
            synced,
            newest: None,
        };
        let result = written.write(rows);
        self.state().open.append(written);
        result
    }

    fn committed(&self, _: Durability) {
        let mut state = self.state();
        let written = mem::take(&mut state.open);
        let Some(newest) = written.newest else {
            return;
        };
        state.newest = newest;
        for entry in &written.entries {
            state.volume.add(entry);
        }
        if state.syncing || !state.volume.is_much() {
            return;
        }
        // The files of these rows had their places before the rows were written.
        let up_to = state.newest;
        state.volume = Volume::default();
        state.syncing = true;
        drop(state);
        let journal = self.clone();
        let started = thread::Builder::new()
            .name("store-journal".to_owned())
            .spawn(move || journal.sync(up_to));
        if let Err(error) = started {
            tracing::warn!(%error, "files of small blobs stay in the journal for now: no thread could be started");
            self.state().syncing = false;
        }
    }

    fn rolled_back(&self) {
        let mut state = self.state();
        let written = mem::take(&mut state.open);
        let later = mem::replace(&mut state.waiting, written.entries);
        state.waiting.extend(later);
        state.synced = state.synced.max(written.synced);
    }

    fn due(&self) -> Option<Instant> {
        None
    }

    /// Rows do not wait for the journal: it goes with them.
    fn is_ahead(&self) -> bool {
        false
    }
}

/// One call for all files of the file system: they are thousands, and most of their folders are new.
fn sync_files(folder: &Directory) -> io::Result<()> {
    let folder = File::open(folder.blobs())?;
    Ok(rustix::fs::syncfs(folder)?)
}

/// What a transaction wrote of a journal.
#[derive(Debug, Default)]
struct JournalWrite {
    entries: Vec<Entry>,
    synced: Option<i64>,
    newest: Option<i64>,
}

impl JournalWrite {
    /// Adds what a later write of the same transaction wrote.
    fn append(&mut self, later: Self) {
        self.entries.extend(later.entries);
        self.synced = self.synced.max(later.synced);
        self.newest = later.newest.or(self.newest);
    }

    fn write(&mut self, rows: &Connection) -> rusqlite::Result<()> {
        if let Some(up_to) = self.synced {
            rows.prepare_cached("DELETE FROM blob_journal WHERE number <= ?1")?
                .execute([up_to])?;
        }
        for entry in &self.entries {
            let number = rows
                .prepare_cached("INSERT INTO blob_journal (hash, bytes) VALUES (?1, ?2)")?
                .insert(params![Hash(entry.hash), &entry.bytes[..]])?;
            self.newest = Some(number);
        }
        Ok(())
    }
}

impl Volume {
    fn add(&mut self, entry: &Entry) {
        self.blobs += 1;
        self.bytes += entry.bytes.len();
    }

    fn is_much(self) -> bool {
        self.blobs >= MOST.blobs || self.bytes >= MOST.bytes
    }
}

/// What lies in the journal, and the number of its newest row.
pub(crate) fn load(rows: &Connection) -> rusqlite::Result<(i64, Vec<Entry>)> {
    let mut statement =
        rows.prepare("SELECT number, hash, bytes FROM blob_journal ORDER BY number")?;
    let mut newest = 0;
    let entries = statement.query_map([], |row| {
        newest = row.get(0)?;
        Ok(Entry {
            hash: row.get::<_, Hash>(1)?.0,
            bytes: Bytes::from(row.get::<_, Vec<u8>>(2)?),
        })
    })?;
    let entries = entries.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok((newest, entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> (tempfile::TempDir, Journal, Connection) {
        let root = tempfile::tempdir().expect("a temporary directory");
        let folder = Directory::take(root.path()).expect("the directory is free");
        let rows = Connection::open_in_memory().expect("memory");
        rows.execute_batch(include_str!("../../migrations/blobs/0001.sql"))
            .expect("a table");
        let journal = Journal::new(Arc::new(folder), Health::default());
        (root, journal, rows)
    }

    fn entry(text: &'static str) -> Entry {
        Entry {
            hash: BlobHash::of(text.as_bytes()),
            bytes: Bytes::from_static(text.as_bytes()),
        }
    }

    fn texts(rows: &Connection) -> Vec<Bytes> {
        let (_, entries) = load(rows).expect("rows");
        entries.into_iter().map(|entry| entry.bytes).collect()
    }

    fn transact(journal: &Journal, rows: &Connection) {
        journal.write(rows, Occasion::Group).expect("room");
        journal.committed(Durability::Now);
    }

    #[test]
    fn rows_go_only_once_their_files_are_on_the_disk() {
        let (_root, journal, rows) = journal();
        journal.add(entry("one"));
        transact(&journal, &rows);
        transact(&journal, &rows);
        assert_eq!(texts(&rows), ["one"]);
        journal.sync_all();
        // What comes meanwhile is for the next time.
        journal.add(entry("two"));
        transact(&journal, &rows);
        assert_eq!(texts(&rows), ["two"]);
        journal.sync_all();
        transact(&journal, &rows);
        assert_eq!(texts(&rows), [""; 0]);
    }

    #[test]
    fn what_is_not_committed_is_written_again_in_its_order() {
        let (_root, journal, rows) = journal();
        journal.add(entry("one"));
        transact(&journal, &rows);
        journal.sync_all();
        journal.add(entry("two"));
        rows.execute_batch("BEGIN").expect("a transaction");
        journal.write(&rows, Occasion::Group).expect("room");
        rows.execute_batch("ROLLBACK").expect("its end");
        journal.add(entry("three"));
        journal.rolled_back();
        assert_eq!(texts(&rows), ["one"]);
        transact(&journal, &rows);
        assert_eq!(texts(&rows), ["two", "three"]);
    }

    #[test]
    fn much_in_the_journal_is_brought_to_the_disk_by_itself() {
        let (_root, journal, rows) = journal();
        for _ in 0..MOST.blobs {
            journal.add(entry("one"));
        }
        transact(&journal, &rows);
        // The thread holds the journal until it is done.
        while Arc::strong_count(&journal.state) > 1 {
            thread::yield_now();
        }
        transact(&journal, &rows);
        assert_eq!(texts(&rows), [""; 0]);
    }
}
