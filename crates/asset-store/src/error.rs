//! What can go wrong with an asset, by what the caller can do about it.

use crate::{AssetId, BlobHash};

/// The cause behind a port's failure.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation on assets was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum AssetsError {
    /// The uploaded bytes are not the expected ones; nothing was kept.
    #[error("the uploaded bytes hash to {actual}, not to the expected {expected}")]
    HashMismatch {
        /// What `expected_hash` said.
        expected: BlobHash,
        /// What came.
        actual: BlobHash,
    },
    /// The account has no record over a blob of this hash.
    #[error("no blob of this hash")]
    BlobNotFound,
    /// No such record, or another account's.
    #[error("no such asset")]
    NotFound,
    /// A hold keeps the record.
    #[error("the asset is in use")]
    InUse,
    /// The idempotency key was used with another request.
    #[error("the idempotency key was used for another upload")]
    KeyReused(AssetId),
    /// Another upload has the name; nothing was kept.
    #[error("another upload has this name")]
    NameTaken,
    /// The account would have more bytes stored than it may; nothing was kept.
    #[error("the account may store {limit_bytes} bytes, and this does not fit")]
    QuotaExceeded {
        /// Most bytes that the account may have stored.
        limit_bytes: u64,
    },
    /// The bytes in the store are not those of this hash any more. Uploading the right ones heals them.
    #[error("the stored bytes of {0} are damaged")]
    Damaged(BlobHash),
    /// A port failed.
    #[error("the asset store failed")]
    Store(#[source] BoxError),
}
