//! The service over both ports: uploads, records by hash, deletion, sweeping.

mod sweeping;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, Fingerprint};
use jiff::{SignedDuration, Timestamp};

use crate::{
    Asset, AssetId, AssetQuery, AssetRecords, AssetsError, Blob, BlobError, BlobHash, BlobReader,
    BlobStore, BlobWriter, DirectReads, FilePath, Hold, InsertAsset, InsertOutcome, InsertRule,
    KeyClaim, Presented, RecordsError, Removal, Retention, SpaceClass,
};
pub use sweeping::SweepReport;

/// How long an upload's idempotency key is kept.
const KEY_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

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
            let inserted = full
                .insert(upload, blob.hash, blob.size_bytes, InsertRule::Upload, now)
                .await;
            return inserted.map_err(|error| {
                if matches!(error, AssetsError::QuotaExceeded { .. }) {
                    let limit_bytes = self.most_bytes.unwrap_or_default();
                    return AssetsError::QuotaExceeded { limit_bytes };
                }
                error
            });
        }
        let blob = writer.commit().await.map_err(store_failed)?;
        self.insert(upload, blob.hash, blob.size_bytes, InsertRule::Upload, now)
            .await
    }

    /// The same assets without any room, if these bytes do not fit now.
    async fn full_for(&self, account: &AccountId, bytes: u64) -> Result<Option<Self>, AssetsError> {
        let room = self.room(account, false).await?;
        let full = room.is_some_and(|room| bytes > room);
        Ok(full.then(|| self.within(Some(0))))
    }

    /// Makes a record over bytes that were made durable by this very request.
    ///
    /// # Errors
    /// [`AssetsError::KeyReused`], which keeps no record.
    pub async fn keep(
        &self,
        blob: Blob,
        upload: Upload,
        now: Timestamp,
    ) -> Result<Created, AssetsError> {
        self.insert(upload, blob.hash, blob.size_bytes, InsertRule::Upload, now)
            .await
    }

    /// As [`Assets::keep`], for a name that one upload of the account has: the record of the same bytes under it is given again, kept
    /// for as long as a new one.
    ///
    /// # Errors
    /// [`AssetsError::NameTaken`] if an upload of other bytes has the name, which keeps no record; else as [`Assets::keep`].
    pub async fn keep_under_free_name(
        &self,
        blob: Blob,
        upload: Upload,
        now: Timestamp,
    ) -> Result<Created, AssetsError> {
        let rule = InsertRule::FreeName;
        self.insert(upload, blob.hash, blob.size_bytes, rule, now)
            .await
    }

    /// As [`Assets::keep_under_free_name`], in place of a record that has the name, if it still is the newest of it.
    ///
    /// # Errors
    /// [`AssetsError::NameTaken`] if another upload of other bytes has the name by now; else as [`Assets::keep`].
    pub async fn keep_in_place_of(
        &self,
        replaced: AssetId,
        blob: Blob,
        upload: Upload,
        now: Timestamp,
    ) -> Result<Created, AssetsError> {
        let rule = InsertRule::InPlaceOf(replaced);
        self.insert(upload, blob.hash, blob.size_bytes, rule, now)
            .await
    }

    /// Makes a record over bytes that the account already has, or gives its record of the same name again.
    ///
    /// # Errors
    /// [`AssetsError::BlobNotFound`] if the account has no live record over the hash, whatever others have, or if the bytes are known
    /// to be damaged: an upload of them heals the blob, a record over them does not.
    pub async fn from_hash(
        &self,
        upload: Upload,
        hash: BlobHash,
        now: Timestamp,
    ) -> Result<Created, AssetsError> {
        let found = self
            .records
            .find(&upload.account, &AssetQuery::Hash(hash), now)
            .await
            .map_err(records_failed)?;
        let source = found.ok_or(AssetsError::BlobNotFound)?;
        if !self.are_whole(&hash).await? {
            return Err(AssetsError::BlobNotFound);
        }
        let upload = Upload {
            content_type: source.content_type,
            ..upload
        };
        self.insert(upload, hash, source.size_bytes, InsertRule::FromHash, now)
            .await
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

    async fn insert(
        &self,
        upload: Upload,
        hash: BlobHash,
        size_bytes: u64,
        rule: InsertRule,
        now: Timestamp,
    ) -> Result<Created, AssetsError> {
        let claim = upload.key.map(|digest| KeyClaim {
            digest,
            fingerprint: match rule {
                // Its type is that of the bytes, which the account's newest record says and not the request.
                InsertRule::FromHash => fingerprint(&upload, "", &hash),
                InsertRule::Upload | InsertRule::FreeName | InsertRule::InPlaceOf(_) => {
                    fingerprint(&upload, &upload.content_type, &hash)
                }
            },
            expires_at: now.saturating_add(KEY_LIFETIME).unwrap_or(Timestamp::MAX),
        });
        let asset = Asset {
            id: upload.id,
            account: upload.account,
            hash,
            size_bytes,
            content_type: upload.content_type,
            file_path: upload.file_path,
            tags: upload.tags,
            created_at: now,
            expires_at: Some(self.retention.deadline(now, upload.expires_in)),
            job_id: None,
        };
        let outcome = self
            .records
            .insert(
                InsertAsset {
                    asset,
                    rule,
                    claim,
                    most_bytes: self.most_bytes,
                },
                now,
            )
            .await
            .map_err(records_failed)?;
        match outcome {
            InsertOutcome::Created { asset, had_bytes } => Ok(Created {
                asset,
                created_new: !had_bytes,
                replayed: false,
                existing: false,
            }),
            InsertOutcome::Existing(asset) => Ok(Created {
                asset,
                created_new: false,
                replayed: false,
                existing: true,
            }),
            InsertOutcome::Replayed(asset) => Ok(Created {
                asset,
                created_new: false,
                replayed: true,
                existing: false,
            }),
            InsertOutcome::KeyReused(id) => Err(AssetsError::KeyReused(id)),
            InsertOutcome::BlobNotFound => Err(AssetsError::BlobNotFound),
            InsertOutcome::NameTaken => Err(AssetsError::NameTaken),
            InsertOutcome::QuotaExceeded => Err(AssetsError::QuotaExceeded {
                limit_bytes: self.most_bytes.unwrap_or_default(),
            }),
        }
    }
}

/// What an upload asked for: its fields and its content.
fn fingerprint(upload: &Upload, content_type: &str, hash: &BlobHash) -> Fingerprint {
    let mut hasher = blake3::Hasher::new_derive_key("easel upload fingerprint v1");
    hasher.update(hash.as_bytes());
    let path = upload.file_path.as_ref().map_or("", FilePath::as_str);
    let expires_in = upload
        .expires_in
        .map_or_else(String::new, |span| span.as_secs().to_string());
    let fields = [content_type, path, &expires_in];
    for field in fields
        .into_iter()
        .chain(upload.tags.iter().map(String::as_str))
    {
        // The length in front keeps two fields from being read as one.
        hasher
            .update(&(field.len() as u64).to_be_bytes())
            .update(field.as_bytes());
    }
    Fingerprint(hasher.finalize().into())
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
