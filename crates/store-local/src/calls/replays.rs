//! The bytes that keys answer again: small ones many in a file ([`segments`]), each of the others in `replays/xx/` and the id of
//! its generation.
//!
//! Bytes are durable before a row names them. A generation's file goes after the row did; one that no row names is found again
//! by walking the folders, one at a time.

mod segments;

#[cfg(fuzzing)]
pub(crate) use segments::fuzzing::segment as fuzz_segment;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant, SystemTime};

use asset_store::BlobHash;
use bytes::Bytes;
use jiff::Timestamp;
use router_core::GenerationId;
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ffi};
use tokio::task;
use uuid::Uuid;

use crate::blobs::TemporaryFile;
use crate::clock::Clock;
use crate::columns::Hash;
use crate::database::{Durability, Occasion, Participant};
use crate::directory::{self, Directory};
use crate::health::Health;
use segments::ReplaySegments;

pub(super) use segments::{MOST_BYTES, SegmentSlice};

/// A younger file may belong to a row that is just being written.
const SETTLED_AFTER: Duration = Duration::from_secs(3600);

/// What a row tells of a result that is kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    /// Where it lies if it shares a file.
    pub(super) place: Option<SegmentSlice>,
    /// What its bytes sum up to.
    pub(super) sum: Option<ReplaySum>,
}

/// What finds damage of a stored result, as a column holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplaySum {
    /// CRC-32 (IEEE) in 4 bytes, the most significant first: of a small result, for which a hash would be the dearest part of
    /// a call.
    Crc(u32),
    /// BLAKE3 in 32 bytes.
    Hash(BlobHash),
}

impl ReplaySum {
    /// That of a result that is written now.
    pub(super) fn of(body: &[u8]) -> Self {
        match body.len() <= MOST_BYTES {
            true => Self::Crc(crc32fast::hash(body)),
            false => Self::Hash(BlobHash::of(body)),
        }
    }

    /// Whether these are the bytes.
    pub(super) fn fits(self, body: &[u8]) -> bool {
        match self {
            Self::Crc(sum) => crc32fast::hash(body) == sum,
            Self::Hash(hash) => BlobHash::of(body) == hash,
        }
    }
}

impl ToSql for ReplaySum {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Crc(sum) => Vec::from(sum.to_be_bytes()).into(),
            Self::Hash(hash) => ToSqlOutput::Borrowed(ValueRef::Blob(hash.as_bytes())),
        })
    }
}

impl FromSql for ReplaySum {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_blob()?.len() {
            4 => <[u8; 4]>::column_result(value).map(|sum| Self::Crc(u32::from_be_bytes(sum))),
            _ => Hash::column_result(value).map(|Hash(hash)| Self::Hash(hash)),
        }
    }
}

/// The files of a data directory. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Replays(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    tmp: PathBuf,
    health: Health,
    clock: Clock,
    /// The folder that is walked next.
    next: AtomicU8,
    /// By the last byte of an id: whether this process made the name of the folder durable.
    durable_folders: [AtomicBool; 256],
    segments: ReplaySegments,
    /// After everything that touches it.
    _directory: Arc<Directory>,
}

impl Replays {
    pub(crate) fn new(directory: Arc<Directory>, health: Health, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            folder: directory.replays(),
            tmp: directory.tmp(),
            health,
            clock,
            next: AtomicU8::new(0),
            durable_folders: [const { AtomicBool::new(false) }; 256],
            segments: ReplaySegments::new(directory.replays().join("hours")),
            _directory: directory,
        }))
    }

    /// Writes the file of a generation; it is durable when this returns.
    pub(super) async fn put(&self, id: GenerationId, body: Bytes) -> io::Result<()> {
        let inner = Arc::clone(&self.0);
        blocking(move || inner.put(id, body)).await
    }

    /// Appends a small result to those whose keys expire when its does, as a part of a transaction: it is durable when that
    /// is committed.
    pub(super) fn append(
        &self,
        expires_at: Timestamp,
        body: &[u8],
    ) -> rusqlite::Result<SegmentSlice> {
        let appended = self.0.segments.append(expires_at, body);
        appended.map_err(|error| as_of_rows(&error, ffi::SQLITE_IOERR_WRITE))
    }

    /// As [`Replays::append`], for the log, which stands still without it. What does not pass by itself, as a lack of room or of
    /// descriptors does, stops every later write, so that it is noticed.
    pub(super) fn append_of_log(
        &self,
        expires_at: Timestamp,
        body: &[u8],
    ) -> rusqlite::Result<SegmentSlice> {
        let appended = self.0.segments.append(expires_at, body);
        appended.map_err(|error| {
            let errno = rustix::io::Errno::from_io_error(&error);
            let passes = error.kind() == io::ErrorKind::StorageFull
                || matches!(
                    errno,
                    Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE)
                );
            if !passes {
                self.0.health.poison(&error);
            }
            as_of_rows(&error, ffi::SQLITE_IOERR_WRITE)
        })
    }

    /// Rows name what was appended, from now on or from the commit on that follows.
    pub(super) fn keep_appended(&self) {
        self.0.segments.keep();
    }

    /// Brings to the disk what was appended: before the rows that name it are committed.
    pub(super) fn sync(&self) -> rusqlite::Result<()> {
        let synced = self.0.durable(self.0.segments.sync());
        synced.map_err(|error| as_of_rows(&error, ffi::SQLITE_IOERR_FSYNC))
    }

    /// A small result; `None` if it is not there.
    pub(super) async fn read_shared(&self, place: SegmentSlice) -> io::Result<Option<Bytes>> {
        let inner = Arc::clone(&self.0);
        blocking(move || inner.segments.read(place)).await
    }

    /// Removes the small results whose keys have all expired, file by file.
    pub(super) async fn sweep_shared(&self, now: Timestamp) -> io::Result<()> {
        let inner = Arc::clone(&self.0);
        blocking(move || inner.segments.sweep(now)).await
    }

    /// The bytes of a generation; `None` if they are not there.
    pub(super) async fn read(&self, id: GenerationId) -> io::Result<Option<Bytes>> {
        let inner = Arc::clone(&self.0);
        let read = blocking(move || directory::if_there(fs::read(inner.path(id))));
        Ok(read.await?.map(Bytes::from))
    }

    /// Removes files that no row names any more. What stays is found by a later walk.
    pub(super) async fn forget(&self, ids: Vec<GenerationId>) {
        if ids.is_empty() {
            return;
        }
        let inner = Arc::clone(&self.0);
        let removed = blocking(move || {
            for id in ids {
                directory::if_there(fs::remove_file(inner.path(id)))?;
            }
            Ok(())
        });
        if let Err(error) = removed.await {
            tracing::warn!(%error, "the file of a forgotten result stays for now");
        }
    }

    /// At most `limit` generations of the next folder whose files are old enough to be named by a row, if one names them.
    pub(super) async fn next_old(&self, limit: usize) -> io::Result<Vec<GenerationId>> {
        let inner = Arc::clone(&self.0);
        blocking(move || inner.next_old(limit)).await
    }
}

impl Participant for Replays {
    fn write(&self, _: &Connection, _: Occasion) -> rusqlite::Result<()> {
        self.sync()
    }

    fn committed(&self, _: Durability) {
        self.keep_appended();
    }

    /// No row names what was appended: the next is written over it.
    fn rolled_back(&self) {
        self.0.segments.undo();
    }

    fn due(&self) -> Option<Instant> {
        None
    }

    fn is_ahead(&self) -> bool {
        false
    }
}

impl Inner {
    /// The last byte of an id is random in every version of UUID; the first one may be the time.
    fn folder_of(&self, byte: u8) -> PathBuf {
        self.folder.join(format!("{byte:02x}"))
    }

    fn path(&self, id: GenerationId) -> PathBuf {
        self.folder_of(id.0.as_bytes()[15])
            .join(id.0.simple().to_string())
    }

    fn put(&self, id: GenerationId, body: Bytes) -> io::Result<()> {
        self.health.check().map_err(io::Error::other)?;
        let folder = self.make_folder(id.0.as_bytes()[15])?;
        let path = self.path(id);
        // What is there was written for a row that was refused then; the end of a generation does not change.
        if !path.try_exists()? {
            let mut file = TemporaryFile::create(&self.tmp)?;
            file.append(&[body])?;
            self.durable(file.sync())?;
            file.place(&path, self.clock.now().into())?;
        }
        crate::faults::fault_point!("replay-placed");
        // A folder that cannot be opened, for want of descriptors, says nothing about the disk.
        let folder = fs::File::open(folder)?;
        self.durable(folder.sync_all())
    }

    /// Makes the folder of a last byte where it is missing; its name is durable when this returns. A folder that is there may
    /// have been made by another thread, or by a process that was killed, before its name was synced.
    fn make_folder(&self, byte: u8) -> io::Result<PathBuf> {
        let folder = self.folder_of(byte);
        let is_durable = &self.durable_folders[usize::from(byte)];
        if !is_durable.load(Ordering::Acquire) {
            directory::create(&folder)?;
            self.durable(sync_names(&self.folder))?;
            is_durable.store(true, Ordering::Release);
        }
        Ok(folder)
    }

    /// What a failed sync means for the store.
    fn durable(&self, synced: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &synced
            && error.kind() != io::ErrorKind::StorageFull
        {
            self.health.poison(error);
        }
        synced
    }

    fn next_old(&self, limit: usize) -> io::Result<Vec<GenerationId>> {
        let folder = self.folder_of(self.next.fetch_add(1, Ordering::Relaxed));
        let Some(entries) = directory::if_there(fs::read_dir(folder))? else {
            return Ok(Vec::new());
        };
        let now = SystemTime::from(self.clock.now());
        let mut old = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| Uuid::try_parse(name).ok());
            if let Some(id) = id
                && is_old(&entry, now)?
            {
                old.push(GenerationId(id));
            }
            if old.len() == limit {
                break;
            }
        }
        Ok(old)
    }
}

/// Whether a file is so old that a row names it, if any does. One that another sweep removed meanwhile is not.
fn is_old(entry: &fs::DirEntry, now: SystemTime) -> io::Result<bool> {
    let Some(metadata) = directory::if_there(entry.metadata())? else {
        return Ok(false);
    };
    let age = now.duration_since(metadata.modified()?);
    Ok(age.is_ok_and(|age| age >= SETTLED_AFTER))
}

/// Makes the names of the folders durable.
fn sync_names(folder: &Path) -> io::Result<()> {
    crate::faults::fault_point!("replay-folder-sync", |kind| Err(crate::faults::io(kind)));
    directory::sync_directory(folder)
}

/// A failure of a file as one of the transaction that names it.
pub(super) fn as_of_rows(error: &io::Error, otherwise: i32) -> rusqlite::Error {
    let code = if error.kind() == io::ErrorKind::StorageFull {
        ffi::SQLITE_FULL
    } else {
        otherwise
    };
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(error.to_string()))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(io::Error::other(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_went_while_its_folder_was_walked_is_not_old() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("file");
        fs::write(&path, "").expect("a file");
        let mut entries = fs::read_dir(folder.path()).expect("the folder");
        let entry = entries.next().expect("a file").expect("an entry");
        let later = SystemTime::now() + 2 * SETTLED_AFTER;
        assert!(is_old(&entry, later).expect("it is there"));
        fs::remove_file(&path).expect("it is there");
        assert!(!is_old(&entry, later).expect("it is gone"));
    }
}
