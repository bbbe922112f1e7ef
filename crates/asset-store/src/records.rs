//! The port to the records.

mod rules;

use accounts::{AccountId, Fingerprint};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Asset, AssetId, BlobHash, BoxError, FilePath, Hold, KeptAsset};

pub use rules::{InsertStep, LONGEST_RUN, RecordFacts, fits};

/// An idempotency key to be claimed together with the row it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyClaim {
    /// Digest of the key and its operation; the account is that of the row.
    pub digest: [u8; 32],
    /// What the request asked for.
    pub fingerprint: Fingerprint,
    /// When the key may be forgotten.
    pub expires_at: Timestamp,
}

/// Under which rule a record is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertRule {
    /// The bytes came with the request: always a new record.
    Upload,
    /// The bytes came with the request, for a name that nothing else may have: a live record of this path that no job made is
    /// given again if it has the same bytes, and stands in the way if it has others.
    FreeName,
    /// As [`InsertRule::FreeName`], but this record does not stand in the way: the new one takes its name, whatever bytes it has. Only
    /// while it is the newest of the name.
    InPlaceOf(AssetId),
    /// Only the hash came: the account must have a live record over it, and one of the same path is given again.
    FromHash,
}

/// A record to be made.
#[derive(Clone, Debug)]
pub struct InsertAsset {
    /// The record; [`AssetRecords::insert`] may answer an older one in its place.
    pub asset: Asset,
    /// The rule.
    pub rule: InsertRule,
    /// The key to be claimed with it.
    pub claim: Option<KeyClaim>,
    /// Most bytes that the account may have stored with it; `None` for no bound.
    pub most_bytes: Option<u64>,
}

/// What became of an insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertOutcome {
    /// The record was made; `had_bytes` tells whether the account had a live record over the same bytes before.
    Created {
        /// The new record.
        asset: Asset,
        /// Whether this account already had these bytes.
        had_bytes: bool,
    },
    /// [`InsertRule::FromHash`], [`InsertRule::FreeName`] and [`InsertRule::InPlaceOf`]: the account's record of this hash and path, its deadline extended.
    Existing(Asset),
    /// [`InsertRule::FreeName`] and [`InsertRule::InPlaceOf`]: the newest upload of this name has other bytes. Nothing was kept, and the key is free.
    NameTaken,
    /// The key was claimed before by the same request: the record made then.
    Replayed(Asset),
    /// The key was claimed before by another request.
    KeyReused(AssetId),
    /// [`InsertRule::FromHash`]: the account has no live record over this hash.
    BlobNotFound,
    /// A new record would take the account beyond its bytes; nothing was kept, and the key is free.
    QuotaExceeded,
}

/// Which record of an account is meant; the newest that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssetQuery {
    /// A record over these bytes.
    Hash(BlobHash),
    /// The record of this name.
    Path(FilePath),
    /// The record of this name that no job made.
    Upload(FilePath),
    /// The record of this name that a job made.
    Output(FilePath),
}

/// What became of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The record is gone.
    Removed,
    /// A hold keeps it.
    Held,
    /// There is no such record in this account.
    Absent,
}

/// The records cannot be read or written now.
#[derive(Debug, thiserror::Error)]
#[error("the asset records are unavailable")]
pub struct RecordsError(#[source] pub BoxError);

/// Records by account.
///
/// **Contract.** Every method is one transaction and durable when it returns. A record past its `expires_at` is absent for
/// every reader, swept or not; holds then only delay its sweeping. Another account's record is absent. A claimed key stands
/// for its record until its own time is over or the record is gone, whichever is first. The newest record is the one made
/// last.
///
/// What an account has stored are the bytes of its records, each by itself even where two are over the same blob, and what
/// jobs keep beside them. It is counted with every change, and a bound on it is judged in the transaction of the insert.
#[async_trait]
pub trait AssetRecords: Send + Sync + 'static {
    /// Makes a record under its rule and claims its key in the same transaction.
    async fn insert(
        &self,
        insert: InsertAsset,
        now: Timestamp,
    ) -> Result<InsertOutcome, RecordsError>;

    /// How many bytes the account has stored.
    async fn stored_bytes(&self, account: &AccountId) -> Result<u64, RecordsError>;

    /// A record by id.
    async fn get(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<Option<Asset>, RecordsError>;

    /// The newest record that fits.
    async fn find(
        &self,
        account: &AccountId,
        query: &AssetQuery,
        now: Timestamp,
    ) -> Result<Option<Asset>, RecordsError>;

    /// Adds the hold to a record, or takes it away; `false` if there is no such record.
    async fn hold(&self, id: AssetId, hold: Hold, held: bool) -> Result<bool, RecordsError>;

    /// A record of any account with at most `limit` of its holds, in their order; an expired one too, until it is swept. For
    /// operators, who look for what keeps it.
    async fn kept(&self, id: AssetId, limit: usize) -> Result<Option<KeptAsset>, RecordsError>;

    /// Deletes a record unless it is held: one atomic answer.
    async fn remove(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<Removal, RecordsError>;

    /// Deletes at most `limit` records that are expired and not held, and forgets expired keys; answers how many records
    /// went.
    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, RecordsError>;

    /// Those of `hashes` that no record refers to, expired records included.
    async fn unreferenced(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, RecordsError>;
}

/// Lists the names of an account's files: for people who choose one.
///
/// **Contract.** As [`AssetRecords`]; what is listed is what a look-up of its name finds.
#[async_trait]
pub trait FileNames: Send + Sync + 'static {
    /// At most `limit` live records that have a name, newest first: those that jobs made, or those that none did. What a job
    /// only showed is left out by a store that knows the jobs.
    async fn named(
        &self,
        account: &AccountId,
        made_by_jobs: bool,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Asset>, RecordsError>;
}
