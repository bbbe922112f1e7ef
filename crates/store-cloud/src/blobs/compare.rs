//! Comparing objects with the hashes that name them, and what follows from it.

use asset_store::{Blob, BlobError, BlobHash};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};

use super::transfer::Transfer;
use super::{BucketBlobs, Shared};
use crate::bucket::{blob_error, is_absent};

/// A whole blob on its way to a reader: its last bytes wait for the hash.
struct Compared {
    blobs: BucketBlobs,
    blob: Blob,
    transfer: Transfer,
    hasher: Box<blake3::Hasher>,
    held: Option<Bytes>,
}

/// A blob that is read for nothing but its hash.
struct Comparison {
    blobs: BucketBlobs,
    hash: BlobHash,
    transfer: Transfer,
    hasher: Box<blake3::Hasher>,
    read_bytes: u64,
}

impl BucketBlobs {
    /// The bytes of a whole blob, the last ones only if they are right.
    pub(super) fn compared(
        &self,
        blob: Blob,
        transfer: Transfer,
    ) -> BoxStream<'static, Result<Bytes, BlobError>> {
        let compared = Compared {
            blobs: self.clone(),
            blob,
            transfer,
            hasher: Box::default(),
            held: None,
        };
        stream::try_unfold(Some(compared), |left| async move {
            match left {
                Some(compared) => compared.next().await,
                None => Ok(None),
            }
        })
        .boxed()
    }

    /// Reads a blob and compares it, piece by piece.
    pub(super) async fn compare(
        &self,
        hash: &BlobHash,
    ) -> Result<BoxStream<'static, Result<u64, BlobError>>, BlobError> {
        let got = self.shared.bucket.get(hash, None, None).await;
        let transfer = Transfer::new(self.shared.clone(), *hash, got.map_err(blob_error)?);
        let comparison = Comparison {
            blobs: self.clone(),
            hash: *hash,
            transfer,
            hasher: Box::default(),
            read_bytes: 0,
        };
        let pieces = stream::try_unfold(comparison, |mut comparison| async move {
            match comparison.transfer.next().await? {
                Some(chunk) => {
                    comparison.hasher.update(&chunk);
                    comparison.read_bytes += chunk.len() as u64;
                    Ok(Some((chunk.len() as u64, comparison)))
                }
                None => comparison.conclude().await.map(|()| None),
            }
        });
        Ok(pieces.boxed())
    }
}

impl Compared {
    /// Chunks go out one behind those that come in.
    async fn next(mut self) -> Result<Option<(Bytes, Option<Self>)>, BlobError> {
        while let Some(chunk) = self.transfer.next().await? {
            self.hasher.update(&chunk);
            if let Some(before) = self.held.replace(chunk) {
                return Ok(Some((before, Some(self))));
            }
        }
        let hash = self.blob.hash;
        if BlobHash::from(self.hasher.finalize()) != hash {
            // Once more, for other readers: the object may have been replaced meanwhile. What was read is wrong anyhow.
            self.blobs.compare_all(&hash).await?;
            return Err(BlobError::Damaged(hash));
        }
        let now = self.blobs.shared.now();
        self.blobs.shared.integrity().verified(&self.blob, now);
        Ok(self.held.map(|last| (last, None)))
    }
}

impl Comparison {
    /// Notes what was found, unless another object is in the place of the one that was read.
    async fn conclude(self) -> Result<(), BlobError> {
        let (shared, hash) = (&self.blobs.shared, self.hash);
        let found = BlobHash::from(self.hasher.finalize());
        if found == hash {
            let size_bytes = self.read_bytes;
            shared.note_whole(&Blob { hash, size_bytes });
            return Ok(());
        }
        match shared.bucket.head(&hash).await {
            Err(error) if is_absent(&error) => return Ok(()),
            head if head
                .as_ref()
                .is_ok_and(|head| head.e_tag != self.transfer.version) =>
            {
                return Ok(());
            }
            head => head.map_err(blob_error)?,
        };
        Err(shared.note_damaged(
            hash,
            &format!("its bytes hash to {found}"),
            "a blob is damaged and read no more; upload its bytes again, or restore its object from a backup",
        ))
    }
}

impl Shared {
    /// Notes that a blob is damaged, and why.
    pub(super) fn note_damaged(
        &self,
        hash: BlobHash,
        reason: &str,
        sentence: &'static str,
    ) -> BlobError {
        if self.integrity().damaged(hash) {
            tracing::error!(%hash, reason, "{sentence}");
        }
        BlobError::Damaged(hash)
    }

    /// Notes that a blob is whole, in the bucket or in its row.
    pub(super) fn note_whole(&self, blob: &Blob) {
        let mut integrity = self.integrity();
        if integrity.healed(&blob.hash) {
            tracing::info!(hash = %blob.hash, "a damaged blob is whole again");
        }
        integrity.verified(blob, self.now());
    }
}
