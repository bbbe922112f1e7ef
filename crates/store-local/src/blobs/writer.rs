//! A blob on its way in.
//!
//! Chunks are gathered, and a batch of them is hashed and written by a blocking thread while the next one gathers; between
//! batches no thread is held, so a slow upload costs none. A blob that fits one batch touches the disk only when it is
//! committed, and not at all when it is there already.

use std::mem;
use std::sync::Arc;

use asset_store::{Blob, BlobError, BlobWriter, Room};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{self, JoinHandle};

use super::journal::MOST_BYTES;
use super::shelves::Shelves;
use super::temporary::TemporaryFile;
use super::{failed, joined};

/// Bytes that are written at once: large enough to make the hand-over to a thread cheap, small enough to be held twice for
/// each of many uploads.
const BATCH: usize = 512 * 1024;

pub(super) struct FileWriter {
    shelves: Arc<Shelves>,
    room: Room,
    /// Given back when the writer and whatever still works for it are gone.
    turn: Arc<OwnedSemaphorePermit>,
    gathered: Vec<Bytes>,
    gathered_bytes: usize,
    state: State,
}

enum State {
    /// Nothing is on the disk yet.
    Gathering,
    /// The batches before are being written.
    Writing(JoinHandle<Result<Written, BlobError>>),
    /// All is known, and nothing visible yet.
    Finished(Blob, Content),
    /// A batch could not be written.
    Failed,
}

/// Batches that are hashed and handed to the system.
struct Written {
    hasher: Box<blake3::Hasher>,
    size_bytes: u64,
    file: TemporaryFile,
    _turn: Arc<OwnedSemaphorePermit>,
}

enum Content {
    Chunks(Vec<Bytes>),
    /// Durable.
    File(Written),
}

/// The writer was used after an error, or after its end.
#[derive(Debug, thiserror::Error)]
#[error("the blob cannot be written any further")]
struct Unusable;

impl FileWriter {
    pub(super) fn new(shelves: Arc<Shelves>, room: Room, turn: OwnedSemaphorePermit) -> Self {
        Self {
            shelves,
            room,
            turn: Arc::new(turn),
            gathered: Vec::new(),
            gathered_bytes: 0,
            state: State::Gathering,
        }
    }

    /// Waits for the batch under way; what is written so far, if anything is.
    async fn written(&mut self) -> Result<Option<Written>, BlobError> {
        match &mut self.state {
            State::Gathering => Ok(None),
            State::Writing(batch) => {
                // The state stays until the answer is there: a caller may give up waiting in between.
                let written = joined(batch).await;
                self.state = State::Failed;
                written.map(Some)
            }
            State::Finished(..) | State::Failed => Err(BlobError::Io(Box::new(Unusable))),
        }
    }

    /// Hands what is gathered to a blocking thread, and makes everything durable if this was the `last` of it.
    async fn spill(&mut self, last: bool) -> Result<(), BlobError> {
        let before = self.written().await?;
        let chunks = mem::take(&mut self.gathered);
        self.gathered_bytes = 0;
        let (shelves, turn) = (Arc::clone(&self.shelves), Arc::clone(&self.turn));
        let room = self.room;
        self.state = State::Writing(task::spawn_blocking(move || {
            let mut written = match before {
                Some(before) => before,
                None => Written::begin(&shelves, turn)?,
            };
            // The reserve must outlast an upload that began above it.
            shelves.check_room(room)?;
            written.append(&chunks)?;
            if last {
                shelves.sync(&written.file)?;
            }
            Ok(written)
        }));
        Ok(())
    }
}

impl Written {
    fn begin(shelves: &Shelves, turn: Arc<OwnedSemaphorePermit>) -> Result<Self, BlobError> {
        Ok(Self {
            hasher: Box::default(),
            size_bytes: 0,
            file: shelves.temporary()?,
            _turn: turn,
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
        self.gathered_bytes += chunk.len();
        self.gathered.push(chunk);
        if self.gathered_bytes >= BATCH {
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
            let mut hasher = blake3::Hasher::new();
            for chunk in &self.gathered {
                hasher.update(chunk);
            }
            let blob = Blob {
                hash: hasher.finalize().into(),
                size_bytes: self.gathered_bytes as u64,
            };
            (blob, Content::Chunks(mem::take(&mut self.gathered)))
        } else {
            self.spill(true).await?;
            let written = self.written().await?;
            let written = written.expect("a batch was handed over just now");
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
        let shelves = Arc::clone(&self.shelves);
        joined(&mut task::spawn_blocking(move || {
            shelves.put_with_rows(&blob, chunks.concat().into())?;
            Ok(blob)
        }))
        .await
    }

    async fn commit(mut self: Box<Self>) -> Result<Blob, BlobError> {
        let blob = self.finish().await?;
        let State::Finished(_, content) = mem::replace(&mut self.state, State::Failed) else {
            return Err(BlobError::Io(Box::new(Unusable)));
        };
        let (shelves, turn) = (Arc::clone(&self.shelves), Arc::clone(&self.turn));
        joined(&mut task::spawn_blocking(move || {
            match content {
                Content::File(written) => shelves.put(&blob, written.file)?,
                Content::Chunks(_) if shelves.met(&blob)? => {}
                Content::Chunks(chunks) => {
                    let mut written = Written::begin(&shelves, turn)?;
                    written.file.append(&chunks).map_err(failed)?;
                    shelves.sync(&written.file)?;
                    shelves.put(&blob, written.file)?;
                }
            }
            Ok(blob)
        }))
        .await
    }
}
