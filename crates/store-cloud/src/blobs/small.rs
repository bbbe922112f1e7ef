//! Small blobs, whose bytes are in their rows: no request to the bucket is made for them.
//!
//! They stay there. A row has the bytes of its hash or none; what has none is in the bucket, whatever its size. A blob that lies in
//! both, as one may after its row was lost, is that of its row, and its object is as old as itself once the row is gone.

use asset_store::{Blob, BlobError, BlobHash, BlobReader};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use jiff::Timestamp;

use super::ages::{failed, patiently};
use super::{BucketBlobs, Shared};
use crate::columns::{hash as read_hash, unsigned};
use crate::statements::{execute, query, query_opt, whole};
use crate::{Database, DatabaseError};

/// How many bytes a blob has at most whose bytes are in its row: a page or two of its table. Reading one costs what the rows of its
/// record cost, and the log and a backup of the database take its bytes as well.
pub(super) const SMALL: u64 = 16 << 10;

impl BucketBlobs {
    /// A part of a blob whose bytes are in its row; `None` if there is no such row.
    pub(super) async fn open_small(
        &self,
        hash: &BlobHash,
        range: &std::ops::Range<u64>,
    ) -> Result<Option<BlobReader>, BlobError> {
        let Some(bytes) = self.shared.read_small(hash).await? else {
            return Ok(None);
        };
        let size_bytes = bytes.len() as u64;
        if range.end > size_bytes {
            return Err(BlobError::Absent);
        }
        let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).expect("small"));
        let part = match start < end {
            true => stream::iter(Some(Ok(bytes.slice(start..end)))).boxed(),
            false => stream::empty().boxed(),
        };
        Ok(Some(BlobReader {
            size_bytes,
            bytes: part,
        }))
    }

    /// Compares a blob whose bytes are in its row; how many there are, or `None` if there is no such row.
    pub(super) async fn verify_small(&self, hash: &BlobHash) -> Result<Option<u64>, BlobError> {
        let Some(bytes) = self.shared.read_small(hash).await? else {
            return Ok(None);
        };
        let size_bytes = bytes.len() as u64;
        self.shared.note_whole(&Blob {
            hash: *hash,
            size_bytes,
        });
        Ok(Some(size_bytes))
    }
}

impl Shared {
    /// The bytes of a row, which are those of the hash; `None` if there is no such row. They are damaged if two looks find so: the
    /// row may be replaced after the first one.
    async fn read_small(&self, hash: &BlobHash) -> Result<Option<Bytes>, BlobError> {
        let mut reason = String::new();
        for _ in 0..2 {
            // A job may read an input while the database is away for a moment.
            let read = patiently(|| async {
                match self.database.bytes_of_small(hash).await {
                    Err(error) if error.is_damage() => Ok(Err(error)),
                    read => read.map(Ok),
                }
            });
            match read.await? {
                Ok(None) => return Ok(None),
                Ok(Some(bytes)) => match BlobHash::of(&bytes) {
                    found if found == *hash => return Ok(Some(bytes)),
                    found => reason = format!("its bytes hash to {found}"),
                },
                Err(error) => reason = format!("PostgreSQL cannot read its row: {error}"),
            }
        }
        Err(self.note_damaged(
            *hash,
            &reason,
            "a blob in the database is damaged and read no more; upload its bytes again, or restore its row from a backup",
        ))
    }
}

impl Database {
    async fn bytes_of_small(&self, hash: &BlobHash) -> Result<Option<Bytes>, DatabaseError> {
        const BYTES: &str = "SELECT bytes FROM blob_ages WHERE hash = $1";
        let connection = self.connection().await?;
        let row = query_opt(&connection, BYTES, &[&hash.as_bytes().as_slice()]).await?;
        let bytes = row.map(|row| row.try_get::<_, Option<Vec<u8>>>(0));
        Ok(bytes.transpose()?.flatten().map(Bytes::from))
    }

    /// Blobs whose bytes are in their rows, in the order of their hashes, from behind `after` and up to `last`.
    pub(super) async fn small_blobs(
        &self,
        after: Option<BlobHash>,
        last: Option<BlobHash>,
        limit: usize,
    ) -> Result<Vec<Blob>, BlobError> {
        const LIST: &str = "SELECT hash, octet_length(bytes) FROM blob_ages
            WHERE hash > $1 AND hash <= $2 AND bytes IS NOT NULL ORDER BY hash LIMIT $3";
        let after = after.map_or_else(Vec::new, |hash| hash.as_bytes().to_vec());
        let last = last.map_or_else(|| vec![0xff; 32], |hash| hash.as_bytes().to_vec());
        let listed = async {
            let connection = self.connection().await?;
            let rows = query(&connection, LIST, &[&after, &last, &whole(limit)]).await?;
            let blobs = rows.iter().map(|row| {
                Ok::<_, DatabaseError>(Blob {
                    hash: read_hash(row.try_get(0)?)?,
                    size_bytes: unsigned(row.try_get::<_, i32>(1)?.into())?,
                })
            });
            blobs.collect::<Result<Vec<_>, _>>()
        };
        listed.await.map_err(failed)
    }

    /// Deletes a blob that is older, if its bytes are in its row; whether it was.
    pub(super) async fn delete_small(
        &self,
        hash: &BlobHash,
        untouched_since: Timestamp,
    ) -> Result<bool, BlobError> {
        const DELETE: &str =
            "DELETE FROM blob_ages WHERE hash = $1 AND touched_at < $2 AND bytes IS NOT NULL";
        let since = untouched_since.as_microsecond();
        let deleted = async {
            let connection = self.connection().await?;
            execute(&connection, DELETE, &[&hash.as_bytes().as_slice(), &since]).await
        };
        let deleted = deleted.await.map_err(failed)?;
        Ok(deleted > 0)
    }
}
