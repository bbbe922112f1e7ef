//! The port to reads that do not pass through this process: addresses at which a store itself gives a blob out for a while.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Blob, BlobError};

/// What a store says of the bytes that it gives out, as values of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presented<'a> {
    /// `Content-Type`.
    pub content_type: &'a str,
    /// `Content-Disposition`.
    pub disposition: &'a str,
}

/// What a reader got at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectAnswer {
    /// `Content-Type`.
    pub content_type: String,
    /// `Content-Disposition`.
    pub disposition: String,
    /// All bytes, or those of the range.
    pub bytes: Bytes,
}

/// Makes addresses at which a store gives blobs out.
///
/// **Contract.** Whoever has the address reads the blob, and nothing else, until it lapses; the store answers ranges, and with these
/// headers whatever the reader asks for. [`BlobError::Absent`] if there is no such blob, [`BlobError::Damaged`] if this process knows that
/// its bytes are others. The store does not compare the bytes with their hash as they go out. `None` for a blob, there or not, that
/// this store gives out through [`BlobStore::open`](crate::BlobStore::open) alone.
#[async_trait]
pub trait DirectReads: Send + Sync + 'static {
    /// An address of a blob that works for this long.
    async fn address(
        &self,
        blob: &Blob,
        presented: Presented<'_>,
        lasts: Duration,
    ) -> Result<Option<String>, BlobError>;
}
