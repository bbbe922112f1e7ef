//! A blob on its way in.
//!
//! Chunks are gathered, and a batch of them is hashed and written by a blocking thread while the next one gathers. A turn to
//! write is held for a batch and never between two, so a slow upload costs neither thread nor turn. A blob that fits one
//! batch touches the disk only when it is committed, and not at all when it is there already.

use std::mem;
use std::sync::Arc;

use asset_store::{Blob, BlobError, BlobWriter, SpaceClass};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{self, JoinHandle};

use super::directory::BlobDirectory;
use super::journal::MOST_BYTES;
use super::temporary::TemporaryFile;
use super::{failed, joined};

/// Bytes that are written at once: large enough to make the hand-over to a thread cheap, small enough to be held twice for
/// each of many uploads.
const BATCH: usize = 512 * 1024;

/// Chunks below this many bytes are copied together: kept apart, each would cost as much memory again, and hold the whole
/// buffer that the connection read it into.
const SMALL: usize = 4 * 1024;

pub(super) struct FileWriter {
    prefixes: Arc<BlobDirectory>,
    room: SpaceClass,
    turns: Arc<Semaphore>,
    gathered: Gathered,
    state: State,
}

enum State {
    /// Nothing is on the disk yet.
    Gathering,
    /// The batches before are being written.
    Writing(JoinHandle<Result<HashedFile, BlobError>>),
    /// The batches before are written.
    Waiting(HashedFile),
    /// All is known, and nothing visible yet.
    Finished(Blob, Content),
    /// A batch could not be written.
    Failed,
}

/// Bytes that are not written yet.
#[derive(Default)]
struct Gathered {
    chunks: Vec<Bytes>,
    /// Small chunks since the last large one.
    small: BytesMut,
    bytes: usize,
}

/// Batches that are hashed and handed to the system.
struct HashedFile {
    hasher: Box<blake3::Hasher>,
    size_bytes: u64,
    file: TemporaryFile,
}

enum Content {
    Chunks(Vec<Bytes>),
    /// Durable.
    File(HashedFile),
}

/// The writer was used after an error, or after its end.
#[derive(Debug, thiserror::Error)]
#[error("the blob cannot be written any further")]
struct Unusable;

impl Gathered {
    fn push(&mut self, chunk: Bytes) {
        self.bytes += chunk.len();
        if chunk.len() < SMALL {
            self.small.extend_from_slice(&chunk);
        } else {
            self.seal();
            self.chunks.push(chunk);
        }
    }

    /// All of them, in order; none are left.
    fn take(&mut self) -> Vec<Bytes> {
        self.seal();
        self.bytes = 0;
        mem::take(&mut self.chunks)
    }

    fn seal(&mut self) {
        if !self.small.is_empty() {
            self.chunks.push(mem::take(&mut self.small).freeze());
        }
    }
}

impl FileWriter {
    pub(super) fn new(
        prefixes: Arc<BlobDirectory>,
        room: SpaceClass,
        turns: Arc<Semaphore>,
    ) -> Self {
        Self {
            prefixes,
            room,
            turns,
            gathered: Gathered::default(),
            state: State::Gathering,
        }
    }

    /// Waits for the batch under way.
    async fn settle(&mut self) -> Result<(), BlobError> {
        match &mut self.state {
            State::Gathering | State::Waiting(_) => Ok(()),
            State::Writing(batch) => {
                // The state stays until the answer is there: a caller may give up waiting in between.
                let written = joined(batch).await;
                self.state = State::Failed;
                self.state = State::Waiting(written?);
                Ok(())
            }
            State::Finished(..) | State::Failed => Err(unusable()),
        }
    }

    /// A turn to write.
    async fn turn(&self) -> Result<OwnedSemaphorePermit, BlobError> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        turn.map_err(|closed| BlobError::Io(Box::new(closed)))
    }

    /// Hands what is gathered to a blocking thread, and makes everything durable if this was the `last` of it.
    async fn spill(&mut self, last: bool) -> Result<(), BlobError> {
        self.settle().await?;
        let turn = self.turn().await?;
        let before = match mem::replace(&mut self.state, State::Failed) {
            State::Gathering => None,
            State::Waiting(written) => Some(written),
            State::Writing(_) | State::Finished(..) | State::Failed => return Err(unusable()),
        };
        let chunks = self.gathered.take();
        let prefixes = Arc::clone(&self.prefixes);
        let room = self.room;
        self.state = State::Writing(task::spawn_blocking(move || {
            // Free with the end of the batch: its outcome is for the sender of the bytes.
            let _turn = turn;
            let mut written = match before {
                Some(before) => before,
                None => HashedFile::begin(&prefixes)?,
            };
            // The reserve must outlast an upload that began above it.
            prefixes.check_room(room)?;
            written.append(&chunks)?;
            if last {
                prefixes.sync(&written.file)?;
            }
            Ok(written)
        }));
        Ok(())
    }
}

fn unusable() -> BlobError {
    BlobError::Io(Box::new(Unusable))
}

impl HashedFile {
    fn begin(prefixes: &BlobDirectory) -> Result<Self, BlobError> {
        Ok(Self {
            hasher: Box::default(),
            size_bytes: 0,
            file: prefixes.temporary()?,
        })
    }

    fn append(&mut self, chunks: &[Bytes]) -> Result<(), BlobError> {
        for chunk in chunks {
            self.hasher.update(chunk);
            self.size_bytes += chunk.len() as u64;
        }
        self.file.append(chunks).map_err(failed)
    }

    fn blob(&self) -> Blob {
        Blob {
            hash: self.hasher.finalize().into(),
            size_bytes: self.size_bytes,
        }
    }
}

#[async_trait]
impl BlobWriter for FileWriter {
    async fn write(&mut self, chunk: Bytes) -> Result<(), BlobError> {
        if chunk.is_empty() {
            // Writing nothing would look like a disk that takes nothing.
            return Ok(());
        }
        self.gathered.push(chunk);
        if self.gathered.bytes >= BATCH {
            self.spill(false).await?;
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<Blob, BlobError> {
        if let State::Finished(blob, _) = &self.state {
            return Ok(*blob);
        }
        let (blob, content) = if matches!(self.state, State::Gathering) {
            // At most one batch: a fraction of a millisecond.
            let size_bytes = self.gathered.bytes as u64;
            let chunks = self.gathered.take();
            let mut hasher = blake3::Hasher::new();
            for chunk in &chunks {
                hasher.update(chunk);
            }
            let hash = hasher.finalize().into();
            (Blob { hash, size_bytes }, Content::Chunks(chunks))
        } else {
            self.spill(true).await?;
            self.settle().await?;
            let State::Waiting(written) = mem::replace(&mut self.state, State::Failed) else {
                return Err(unusable());
            };
            (written.blob(), Content::File(written))
        };
        self.state = State::Finished(blob, content);
        Ok(blob)
    }

    async fn commit_with_rows(mut self: Box<Self>) -> Result<Blob, BlobError> {
        let blob = self.finish().await?;
        let is_small = blob.size_bytes <= MOST_BYTES as u64;
        let State::Finished(_, Content::Chunks(chunks)) = &mut self.state else {
            return self.commit().await;
        };
        if !is_small {
            return self.commit().await;
        }
        let chunks = mem::take(chunks);
        let prefixes = Arc::clone(&self.prefixes);
        joined(&mut task::spawn_blocking(move || {
            prefixes.put_with_rows(&blob, chunks.concat().into())?;
            Ok(blob)
        }))
        .await
    }

    async fn commit(mut self: Box<Self>) -> Result<Blob, BlobError> {
        let blob = self.finish().await?;
        let turn = self.turn().await?;
        let State::Finished(_, content) = mem::replace(&mut self.state, State::Failed) else {
            return Err(unusable());
        };
        let prefixes = Arc::clone(&self.prefixes);
        joined(&mut task::spawn_blocking(move || {
            let _turn = turn;
            match content {
                Content::File(written) => prefixes.put(&blob, written.file)?,
                Content::Chunks(_) if prefixes.met(&blob)? => {}
                Content::Chunks(chunks) => {
                    let mut written = HashedFile::begin(&prefixes)?;
                    written.file.append(&chunks).map_err(failed)?;
                    prefixes.sync(&written.file)?;
                    prefixes.put(&blob, written.file)?;
                }
            }
            Ok(blob)
        }))
        .await
    }
}
