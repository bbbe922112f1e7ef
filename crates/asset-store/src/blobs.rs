//! The port to the bytes.

use std::ops::Range;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use jiff::{SignedDuration, Timestamp};

use crate::{BlobHash, BoxError};

/// How long a blob that was compared with its hash is taken for whole when only a part of it is read.
pub const VERIFIED_FOR: SignedDuration = SignedDuration::from_hours(24);

/// Most blobs that a store remembers as damaged. One that has more needs another disk, not a longer list.
pub const MOST_DAMAGED: usize = 10_000;

/// A blob as it lies in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Hash of its bytes.
    pub hash: BlobHash,
    /// How many bytes.
    pub size_bytes: u64,
}

/// Part of a blob on its way out: exactly the bytes of the range that was asked for, or an error in the stream.
pub struct BlobReader {
    /// Bytes of the whole blob.
    pub size_bytes: u64,
    /// The bytes of the range, in order.
    pub bytes: BoxStream<'static, Result<Bytes, BlobError>>,
}

/// Why bytes could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// No blob of this hash, or it is shorter than the range asked for.
    #[error("no such blob")]
    Absent,
    /// The store is out of room; it heals by itself when there is room again.
    #[error("the blob store is full")]
    Full(#[source] BoxError),
    /// Reading or writing failed.
    #[error("the blob store failed")]
    Io(#[source] BoxError),
    /// The stored bytes are not those of this hash: they changed in the store. Putting the right ones heals the blob.
    #[error(
        "the stored bytes of {0} are damaged; upload them again, or restore them from a backup"
    )]
    Damaged(BlobHash),
}

/// Which room a blob may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceClass {
    /// What the store does not keep back: for what comes from outside and can come again.
    Spare,
    /// What it keeps back, too: for what a job at hand makes.
    Kept,
}

/// Bytes by their hash.
///
/// **Contract.** A blob is there whole or not at all: it appears when [`BlobWriter::commit`] returns, durable, and its bytes
/// never change; with [`BlobWriter::commit_with_rows`] the rows that name it bring its durability. Putting bytes that are there already is no error and costs no room. A store knows of no asset: who may
/// read what is decided above it. It may keep room back, and then refuses ([`BlobError::Full`]) those whose bytes can come
/// later before it refuses those who are at work.
///
/// What a store gives out it has compared with the hash. The stream of a whole blob compares as it goes and ends with
/// [`BlobError::Damaged`] in place of its last bytes, so that a damaged blob is never read to its end; a part is given out only
/// if the whole was compared at most [`VERIFIED_FOR`] ago. A blob that was found damaged is refused from then on, until a put
/// of its bytes replaces it or [`BlobStore::verify`] finds it whole. Which blobs were found damaged each process knows for
/// itself: a process that does not know yet finds out before it gives out anything whole. A put of bytes that are there already
/// compares what is there, and replaces it if it is damaged.
#[async_trait]
pub trait BlobStore: Send + Sync + 'static {
    /// Begins a blob whose bytes are still to come, and may take this room.
    async fn begin(&self, room: SpaceClass) -> Result<Box<dyn BlobWriter>, BlobError>;

    /// Opens `range` of a blob; [`BlobError::Absent`] when it is not there or ends before the range does.
    ///
    /// A reader goes on when its blob is deleted meanwhile, unless the store has so many readers that it keeps no file open
    /// for this one: its stream then ends with [`BlobError::Absent`].
    async fn open(&self, hash: &BlobHash, range: Range<u64>) -> Result<BlobReader, BlobError>;

    /// Compares a blob with its hash, read anew from where it is kept. Each item is how many bytes were read since the one before;
    /// the stream ends after the last of a whole blob, and with [`BlobError::Damaged`] otherwise. Nothing is read that is not asked
    /// for, so the caller sets the pace. [`BlobError::Absent`] when the blob is not there.
    async fn verify(
        &self,
        hash: &BlobHash,
    ) -> Result<BoxStream<'static, Result<u64, BlobError>>, BlobError>;

    /// Blobs that this process knows to be damaged, in the order of their hashes, at most [`MOST_DAMAGED`].
    fn damaged(&self) -> Vec<BlobHash>;

    /// The size of a blob that is not known to be damaged, or `None`. A blob that this answers for is left alone by [`BlobStore::delete`] for another grace
    /// period, so that a record may be made over it.
    async fn touch(&self, hash: &BlobHash) -> Result<Option<u64>, BlobError>;

    /// Deletes a blob that was neither put nor touched at `untouched_since` or later; answers whether it is gone now.
    /// Readers that have it open read on. A store that has it twice may keep the older copy, which is listed then and as old as it is.
    async fn delete(&self, hash: &BlobHash, untouched_since: Timestamp) -> Result<bool, BlobError>;

    /// Blobs in the order of their hashes, at most `limit` of them, from behind `after`.
    async fn list(&self, after: Option<BlobHash>, limit: usize) -> Result<Vec<Blob>, BlobError>;
}

/// A blob being written. Dropping it leaves nothing behind.
#[async_trait]
pub trait BlobWriter: Send {
    /// Appends bytes; waits when the store is slower than the caller.
    async fn write(&mut self, chunk: Bytes) -> Result<(), BlobError>;

    /// Ends the bytes and tells what they are; nothing is visible yet.
    async fn finish(&mut self) -> Result<Blob, BlobError>;

    /// Makes the finished blob durable and visible under its hash.
    async fn commit(self: Box<Self>) -> Result<Blob, BlobError>;

    /// As [`BlobWriter::commit`], for a blob that nobody is told of before rows that name it are saved: visible when this
    /// returns, and durable at the latest with the next rows that the installation saves durably.
    async fn commit_with_rows(self: Box<Self>) -> Result<Blob, BlobError>;
}

/// Reads a whole blob into memory.
///
/// # Errors
/// [`BlobError::Absent`] if it is not there, [`BlobError::Damaged`] if its bytes are not those of its hash, and whatever the store reports while reading.
pub async fn read_all(blobs: &dyn BlobStore, blob: &Blob) -> Result<Bytes, BlobError> {
    let mut reader = blobs.open(&blob.hash, 0..blob.size_bytes).await?;
    let Some(first) = reader.bytes.next().await.transpose()? else {
        return Ok(Bytes::new());
    };
    if first.len() as u64 == blob.size_bytes {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(usize::try_from(blob.size_bytes).unwrap_or(0));
    whole.extend_from_slice(&first);
    while let Some(chunk) = reader.bytes.next().await {
        whole.extend_from_slice(&chunk?);
    }
    Ok(whole.freeze())
}

impl std::fmt::Debug for BlobReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobReader")
            .field("size_bytes", &self.size_bytes)
            .finish_non_exhaustive()
    }
}
