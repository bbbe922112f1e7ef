//! The service over both ports: uploads, records by hash, deletion, sweeping.

mod keeping;
mod sweeping;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use jiff::{SignedDuration, Timestamp};

use crate::{
    Asset, AssetId, AssetQuery, AssetRecords, AssetsError, Blob, BlobError, BlobHash, BlobReader,
    BlobStore, BlobWriter, DirectReads, FilePath, Hold, Presented, RecordsError, Removal,
    Retention, SpaceClass,
};
pub use sweeping::SweepReport;

/// Assets of all accounts.
#[derive(Clone)]
pub struct Assets {
    blobs: Arc<dyn BlobStore>,
    records: Arc<dyn AssetRecords>,
    retention: Retention,
    /// Most bytes that the account of a new record may have stored.
    most_bytes: Option<u64>,
    /// Where readers are sent in place of being answered, and for how long.
    direct: Option<(Arc<dyn DirectReads>, Duration)>,
}

/// A record to be made over bytes that came with the request or that the account has.
#[derive(Clone, Debug)]
pub struct Upload {
    /// Identifies the new record.
    pub id: AssetId,
    /// Whose it will be.
    pub account: AccountId,
    /// The declared media type.
    pub content_type: String,
    /// The name it goes by.
    pub file_path: Option<FilePath>,
    /// Free words of the uploader.
    pub tags: Vec<String>,
    /// How long the caller wants it kept.
    pub expires_in: Option<SignedDuration>,
    /// Digest of the caller's idempotency key, where one was sent.
    pub key: Option<[u8; 32]>,
}

/// A record that a request made or met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The record.
    pub asset: Asset,
    /// Whether the account did not have these bytes before.
    pub created_new: bool,
    /// Whether an earlier request with the same key made it.
    pub replayed: bool,
    /// Whether an existing record was given again in place of a new one.
    pub existing: bool,
}

impl Assets {
    /// A service over the two ports.
    #[must_use]
    pub fn new(
        blobs: Arc<dyn BlobStore>,
        records: Arc<dyn AssetRecords>,
        retention: Retention,
    ) -> Self {
        Self {
            blobs,
            records,
            retention,
            most_bytes: None,
            direct: None,
        }
    }

    /// The same assets, whose readers are sent to addresses of the store that work for this long.
    #[must_use]
    pub fn read_directly(&self, direct: Arc<dyn DirectReads>, lasts: Duration) -> Self {
        Self {
            direct: Some((direct, lasts)),
            ..self.clone()
        }
    }

    /// The same assets, whose records are made only where their account has no more bytes stored then: those of its tier.
    #[must_use]
    pub fn within(&self, most_bytes: Option<u64>) -> Self {
        Self {
            most_bytes,
            ..self.clone()
        }
    }

    /// How many bytes the file of a new record may have, as far as its account's bound is known now; `None` for no bound. An
    /// upload under a key may be one that was made before and costs nothing, which is known at its end.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub async fn room(&self, account: &AccountId, keyed: bool) -> Result<Option<u64>, AssetsError> {
        let Some(most) = self.most_bytes else {
            return Ok(None);
        };
        if keyed {
            return Ok(Some(most));
        }
        let stored = self.records.stored_bytes(account).await;
        Ok(Some(most.saturating_sub(stored.map_err(records_failed)?)))
    }

    /// The same assets, whose uploads are kept for another time where they ask for nothing: that of an account's tier.
    #[must_use]
    pub fn keeping(&self, uploads: SignedDuration) -> Self {
        let retention = Retention {
            uploads,
            ..self.retention
        };
        Self {
            retention,
            ..self.clone()
        }
    }

    /// The bytes behind the records.
    #[must_use]
    pub fn blobs(&self) -> &Arc<dyn BlobStore> {
        &self.blobs
    }

    /// Begins an upload; its bytes go into the writer, which then goes into [`Assets::finish`].
    ///
    /// # Errors
    /// If the store cannot take bytes now.
    pub async fn begin(&self) -> Result<Box<dyn BlobWriter>, AssetsError> {
        self.blobs
            .begin(SpaceClass::Spare)
            .await
            .map_err(store_failed)
    }

    /// Ends an upload: compares the hash, makes the blob durable, then the record.
    ///
    /// # Errors
    /// [`AssetsError::HashMismatch`] and [`AssetsError::QuotaExceeded`] before anything is kept; [`AssetsError::KeyReused`],
    /// which keeps no record.
    pub async fn finish(
        &self,
        mut writer: Box<dyn BlobWriter>,
        upload: Upload,
        expected: Option<BlobHash>,
        now: Timestamp,
    ) -> Result<Created, AssetsError> {
        let blob = writer.finish().await.map_err(store_failed)?;
        if let Some(expected) = expected.filter(|expected| *expected != blob.hash) {
            return Err(AssetsError::HashMismatch {
                expected,
                actual: blob.hash,
            });
        }
        if let Some(full) = self.full_for(&upload.account, blob.size_bytes).await? {
            // Bytes without a record would stay until a sweep. What the key was claimed for before is answered all the same.
            let kept = full.keep(blob, upload, now).await;
            return kept.map_err(|error| {
                if matches!(error, AssetsError::QuotaExceeded { .. }) {
                    let limit_bytes = self.most_bytes.unwrap_or_default();
                    return AssetsError::QuotaExceeded { limit_bytes };
                }
                error
            });
        }
        let blob = writer.commit().await.map_err(store_failed)?;
        self.keep(blob, upload, now).await
    }

    /// The same assets without any room, if these bytes do not fit now.
    async fn full_for(&self, account: &AccountId, bytes: u64) -> Result<Option<Self>, AssetsError> {
        let room = self.room(account, false).await?;
        let full = room.is_some_and(|room| bytes > room);
        Ok(full.then(|| self.within(Some(0))))
    }

    /// Whether [`Assets::from_hash`] would find the bytes.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub async fn has(
        &self,
        account: &AccountId,
        hash: BlobHash,
        now: Timestamp,
    ) -> Result<bool, AssetsError> {
        let found = self
            .records
            .find(account, &AssetQuery::Hash(hash), now)
            .await
            .map_err(records_failed)?;
        Ok(found.is_some() && self.are_whole(&hash).await?)
    }

    /// Whether bytes are there and not known to be damaged. They stay while a record is made over them.
    async fn are_whole(&self, hash: &BlobHash) -> Result<bool, AssetsError> {
        let size = self.blobs.touch(hash).await.map_err(store_failed)?;
        Ok(size.is_some())
    }

    /// A record by id.
    ///
    /// # Errors
    /// [`AssetsError::NotFound`] for an unknown id, another account's and an expired one alike.
    pub async fn get(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<Asset, AssetsError> {
        self.records
            .get(account, id, now)
            .await
            .map_err(records_failed)?
            .ok_or(AssetsError::NotFound)
    }

    /// The newest record of a name.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub async fn by_path(
        &self,
        account: &AccountId,
        path: &FilePath,
        now: Timestamp,
    ) -> Result<Option<Asset>, AssetsError> {
        self.records
            .find(account, &AssetQuery::Path(path.clone()), now)
            .await
            .map_err(records_failed)
    }

    /// The newest record that fits.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub async fn find(
        &self,
        account: &AccountId,
        query: &AssetQuery,
        now: Timestamp,
    ) -> Result<Option<Asset>, AssetsError> {
        let found = self.records.find(account, query, now).await;
        found.map_err(records_failed)
    }

    /// Opens part of a blob.
    ///
    /// # Errors
    /// [`AssetsError::NotFound`] when the bytes are gone, [`AssetsError::Damaged`] when they are not those of the hash.
    pub async fn open(
        &self,
        hash: &BlobHash,
        range: Range<u64>,
    ) -> Result<BlobReader, AssetsError> {
        self.blobs.open(hash, range).await.map_err(unreadable)
    }

    /// Where a reader of a whole blob or of a part of it is to be sent; `None` if it is to be answered by [`Assets::open`].
    ///
    /// # Errors
    /// As [`Assets::open`].
    pub async fn address(
        &self,
        blob: &Blob,
        presented: Presented<'_>,
    ) -> Result<Option<String>, AssetsError> {
        let Some((direct, lasts)) = &self.direct else {
            return Ok(None);
        };
        let address = direct.address(blob, presented, *lasts).await;
        address.map_err(unreadable)
    }

    /// Deletes a record; its blob stays while anything refers to it.
    ///
    /// # Errors
    /// [`AssetsError::InUse`] if a hold applies, [`AssetsError::NotFound`] if there is no such record.
    pub async fn delete(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<(), AssetsError> {
        match self
            .records
            .remove(account, id, now)
            .await
            .map_err(records_failed)?
        {
            Removal::Removed => Ok(()),
            Removal::Held => Err(AssetsError::InUse),
            Removal::Absent => Err(AssetsError::NotFound),
        }
    }

    /// Keeps a record for the operator, whatever its account asks and its deadline says, or lets go of it.
    ///
    /// # Errors
    /// [`AssetsError::NotFound`] if there is no such record.
    pub async fn hold(&self, id: AssetId, held: bool) -> Result<(), AssetsError> {
        let found = self.records.hold(id, Hold::Operator, held).await;
        match found.map_err(records_failed)? {
            true => Ok(()),
            false => Err(AssetsError::NotFound),
        }
    }
}

/// Why a blob cannot be read.
fn unreadable(error: BlobError) -> AssetsError {
    match error {
        BlobError::Absent => AssetsError::NotFound,
        BlobError::Damaged(hash) => AssetsError::Damaged(hash),
        error @ (BlobError::Full(_) | BlobError::Io(_)) => store_failed(error),
    }
}

fn store_failed(error: BlobError) -> AssetsError {
    AssetsError::Store(Box::new(error))
}

fn records_failed(error: RecordsError) -> AssetsError {
    AssetsError::Store(Box::new(error))
}

impl std::fmt::Debug for Assets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assets")
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}
