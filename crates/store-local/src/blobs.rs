//! Blobs as files, named by their hash.
//!
//! A blob's bytes are on the disk before its name is, and its name is before anybody is told. No name made of a caller's text
//! is ever joined to a path. What is given out was compared with its hash: a whole blob while it is read, a part of one at most a
//! day before.

mod directory;
pub(crate) mod journal;
mod listing;
mod reader;
mod temporary;
mod verify;
mod writer;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use asset_store::{Blob, BlobError, BlobHash, BlobReader, BlobStore, BlobWriter, SpaceClass};
use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use tokio::sync::{Mutex, Semaphore};
use tokio::task;

use crate::clock::Clock;
use crate::directory::Directory;
use crate::health::Health;
use crate::reserve::Reserve;
use directory::BlobDirectory;
use journal::Entry;
use reader::{Opened, ReadAhead};
use verify::{Compared, Comparison};
use writer::FileWriter;

pub(crate) use journal::Journal;
#[cfg(feature = "router")]
pub(crate) use temporary::TemporaryFile;

/// How many batches of blobs may be on their way to the disk at once, each with a thread for blocking work. More wait for
/// their turn, in order. A blob whose next bytes are still to come has no turn, so a slow sender keeps nobody waiting.
const WRITERS: usize = 64;

/// How many blobs may be compared at once because a part of them is asked for. Those who ask for parts of the same blob wait for
/// one comparison.
const COMPARED_AT_ONCE: usize = 16;

/// The blobs of a data directory. Clones share them.
#[derive(Clone)]
pub struct FileBlobs {
    prefixes: Arc<BlobDirectory>,
    turns: Arc<Semaphore>,
    read_ahead: ReadAhead,
    /// By the first byte of the hashes.
    comparing: Arc<[Mutex<()>; COMPARED_AT_ONCE]>,
}

impl FileBlobs {
    /// Opens the blobs and removes what a process before left half-written.
    pub(crate) fn open(
        directory: Arc<Directory>,
        health: Health,
        reserve: Reserve,
        journal: Journal,
        clock: Clock,
    ) -> io::Result<Self> {
        let prefixes = BlobDirectory::open(directory, health, reserve, journal, clock)?;
        Ok(Self {
            prefixes: Arc::new(prefixes),
            turns: Arc::new(Semaphore::new(WRITERS)),
            read_ahead: ReadAhead::new(),
            comparing: Arc::default(),
        })
    }

    /// Writes again what a power cut took of the files of journaled blobs.
    pub(crate) fn restore(&self, entries: &[Entry]) -> io::Result<()> {
        entries
            .iter()
            .try_for_each(|entry| self.prefixes.restore(entry))
    }

    /// Compares a blob, unless another caller has just done so.
    async fn verify_once(&self, hash: &BlobHash, size_bytes: u64) -> Result<(), BlobError> {
        let turn = usize::from(hash.as_bytes()[0]) % COMPARED_AT_ONCE;
        let _turn = self.comparing[turn].lock().await;
        let hash = *hash;
        if self.prefixes.was_verified(&Blob { hash, size_bytes }) {
            return Ok(());
        }
        let pieces = self.verify(&hash).await?;
        pieces.try_for_each(async |_| Ok(())).await
    }

    /// One step of a comparison: how many bytes it read, and the comparison unless it is over.
    async fn step(
        &self,
        mut comparison: Comparison,
    ) -> Result<(u64, Option<Comparison>), BlobError> {
        self.on_disk(move |prefixes| match comparison.step() {
            Compared::Piece(bytes) => Ok((bytes, Some(comparison))),
            Compared::End(bytes) => {
                comparison.pass_cache();
                prefixes.conclude(&comparison, None)?;
                Ok((bytes, None))
            }
            Compared::Unreadable(error) => {
                prefixes.conclude(&comparison, Some(&error))?;
                Ok((0, None))
            }
        })
        .await
    }

    /// Runs file operations on a thread that may wait for the disk.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&BlobDirectory) -> Result<T, BlobError> + Send + 'static,
    ) -> Result<T, BlobError> {
        let prefixes = Arc::clone(&self.prefixes);
        let turn = self.read_ahead.turn().await;
        let working = move || {
            let done = work(&prefixes);
            drop(turn);
            done
        };
        joined(&mut task::spawn_blocking(working)).await
    }
}

#[async_trait]
impl BlobStore for FileBlobs {
    async fn begin(&self, room: SpaceClass) -> Result<Box<dyn BlobWriter>, BlobError> {
        self.prefixes.check()?;
        self.prefixes.check_room(room)?;
        let (prefixes, turns) = (Arc::clone(&self.prefixes), Arc::clone(&self.turns));
        Ok(Box::new(FileWriter::new(prefixes, room, turns)))
    }

    async fn open(&self, hash: &BlobHash, range: Range<u64>) -> Result<BlobReader, BlobError> {
        let mut verified = false;
        loop {
            let (prefixes, ahead) = (Arc::clone(&self.prefixes), self.read_ahead.clone());
            let (hash, range) = (*hash, range.clone());
            let turn = ahead.turn().await;
            let opening = move || {
                let opened = reader::open(prefixes, hash, range, verified, &ahead);
                drop(turn);
                opened
            };
            match joined(&mut task::spawn_blocking(opening)).await? {
                Opened::Reading(reader) => return Ok(reader),
                // A file that changes its size all the time is none of this store's.
                Opened::Unverified(_) if verified => return Err(BlobError::Absent),
                Opened::Unverified(size) => self.verify_once(&hash, size).await?,
            }
            verified = true;
        }
    }

    async fn verify(
        &self,
        hash: &BlobHash,
    ) -> Result<BoxStream<'static, Result<u64, BlobError>>, BlobError> {
        let hash = *hash;
        let begun = self.on_disk(move |prefixes| {
            let comparison = prefixes.compare(&hash)?;
            comparison.pass_cache();
            Ok(comparison)
        });
        let (comparison, blobs) = (begun.await?, self.clone());
        let steps = stream::try_unfold(Some(comparison), move |left| {
            let blobs = blobs.clone();
            async move {
                match left {
                    Some(comparison) => blobs.step(comparison).await.map(Some),
                    None => Ok(None),
                }
            }
        });
        Ok(steps.boxed())
    }

    fn damaged(&self) -> Vec<BlobHash> {
        self.prefixes.integrity().list_damaged()
    }

    async fn touch(&self, hash: &BlobHash) -> Result<Option<u64>, BlobError> {
        let hash = *hash;
        self.on_disk(move |prefixes| prefixes.touch(&hash)).await
    }

    async fn delete(&self, hash: &BlobHash, untouched_since: Timestamp) -> Result<bool, BlobError> {
        let hash = *hash;
        self.on_disk(move |prefixes| prefixes.delete(&hash, untouched_since))
            .await
    }

    async fn list(&self, after: Option<BlobHash>, limit: usize) -> Result<Vec<Blob>, BlobError> {
        self.on_disk(move |prefixes| prefixes.list(after, limit).map_err(failed))
            .await
    }
}

/// The outcome of work on a blocking thread.
async fn joined<T>(work: &mut task::JoinHandle<Result<T, BlobError>>) -> Result<T, BlobError> {
    // A runtime that shuts down gives work up.
    work.await
        .unwrap_or_else(|gone| Err(BlobError::Io(Box::new(gone))))
}

/// What a failure of the file system means to a caller.
fn failed(error: io::Error) -> BlobError {
    if is_full(&error) {
        BlobError::Full(Box::new(error))
    } else {
        BlobError::Io(Box::new(error))
    }
}

/// Whether an error says that there is no room, under whichever limit.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

impl std::fmt::Debug for FileBlobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileBlobs")
    }
}

#[cfg(test)]
mod tests;
