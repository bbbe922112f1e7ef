//! Records over bytes: of an upload, under a name, or of what the account has.

use accounts::Fingerprint;
use jiff::{SignedDuration, Timestamp};

use super::{Assets, Created, Upload, records_failed};
use crate::{
    Asset, AssetId, AssetQuery, AssetsError, Blob, BlobHash, FilePath, InsertAsset, InsertOutcome,
    InsertRule, KeyClaim,
};

/// How long an upload's idempotency key is kept.
const KEY_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

impl Assets {
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
