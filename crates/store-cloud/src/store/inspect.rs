//! Looking over a whole installation: whether the bucket has what rows name, and has it whole.

use asset_store::{BlobError, BlobHash, BlobStore};
use futures_util::TryStreamExt;
use installation::Contents;

use crate::columns::hash;
use crate::statements::query;
use crate::{BucketBlobs, Database, DatabaseError};

/// How many names are read at once.
const PAGE: i64 = 1_000;

/// After so many faults no more are listed; they are found again once these are put right.
const MOST_FAULTS: usize = 1_000;

/// Why an inspection cannot go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum InspectError {
    #[error("the rows cannot be read")]
    Rows(#[from] DatabaseError),
    #[error("the bucket cannot be read")]
    Blobs(#[source] BlobError),
}

/// Compares every blob that a record names with its hash.
pub(super) async fn inspect(
    database: &Database,
    blobs: &BucketBlobs,
) -> Result<(Contents, Vec<String>), InspectError> {
    let (mut contents, mut faults) = (Contents::default(), Vec::new());
    let mut after = None;
    loop {
        let page = names(database, after).await?;
        let Some(last) = page.last() else {
            return Ok((contents, faults));
        };
        after = Some(*last);
        for hash in page {
            contents.blobs += 1;
            let compared = match blobs.verify(&hash).await {
                Ok(pieces) => pieces.try_fold(0, async |sum, bytes| Ok(sum + bytes)).await,
                Err(error) => Err(error),
            };
            match compared {
                Ok(bytes) => contents.bytes += bytes,
                Err(BlobError::Absent) => faults.push(format!(
                    "the bytes of {hash} are missing, and records name them"
                )),
                Err(error @ BlobError::Damaged(_)) => faults.push(error.to_string()),
                Err(error @ (BlobError::Io(_) | BlobError::Full(_))) => {
                    return Err(InspectError::Blobs(error));
                }
            }
            if faults.len() == MOST_FAULTS {
                faults.push("there may be more, which were not looked for".to_owned());
                return Ok((contents, faults));
            }
        }
    }
}

/// The next blobs that records name, in the order of their hashes.
async fn names(
    database: &Database,
    after: Option<BlobHash>,
) -> Result<Vec<BlobHash>, DatabaseError> {
    const NAMES: &str = "SELECT DISTINCT hash FROM assets WHERE hash > $1 ORDER BY hash LIMIT $2";
    let after = after.map_or_else(Vec::new, |hash| hash.as_bytes().to_vec());
    let connection = database.connection().await?;
    let rows = query(&connection, NAMES, &[&after, &PAGE]).await?;
    rows.iter().map(|row| hash(row.get(0))).collect()
}
