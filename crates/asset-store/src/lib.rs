//! Assets: UUID-identified records of an account over blobs keyed by their blake3 hash.
//!
//! Knows nothing of HTTP, files, databases or workflows. A blob is bytes under a hash and belongs to nobody; an [`Asset`] is
//! an account's record of one. Readers reach bytes only through a record, so a blob without a record is invisible by
//! construction. Start at [`Assets`], the service, then the two ports: [`BlobStore`] and [`AssetRecords`].
//!
#![doc = include_str!("../README.md")]

mod asset;
mod assets;
mod blobs;
mod direct;
mod error;
mod hash;
mod hold;
mod integrity;
mod link;
mod memory;
mod records;
mod retention;
mod scrub;
mod sweep;

pub mod contract;

pub use asset::{Asset, AssetId, FilePath, InvalidFilePath};
pub use assets::{Assets, Created, SweepReport, Upload};
pub use blobs::{
    Blob, BlobError, BlobReader, BlobStore, BlobWriter, MOST_DAMAGED, SpaceClass, VERIFIED_FOR,
    read_all,
};
pub use direct::{DirectAnswer, DirectReads, Presented};
pub use error::{AssetsError, BoxError};
pub use hash::{BlobHash, InvalidHash};
pub use hold::{Hold, KeptAsset};
pub use integrity::BlobIntegrity;
pub use link::{InvalidLink, Link, LinkKeys};
pub use memory::{MemoryBlobs, MemoryRecords, RecordRows};
pub use records::{
    AssetQuery, AssetRecords, FileNames, InsertAsset, InsertOutcome, InsertRule, InsertStep,
    KeyClaim, LONGEST_RUN, RecordFacts, RecordsError, Removal, fits,
};
pub use retention::Retention;
pub use scrub::{ScrubNext, ScrubPace, ScrubState, ScrubStates};
pub use sweep::{
    Admission, HOLD, PLAUSIBLE_JUMP, ReleasedBlobs, SweepName, SweepState, SweepStates,
};
