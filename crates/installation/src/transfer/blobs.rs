//! Moving bytes, several blobs at a time, each compared with its hash on both sides.

use asset_store::{Blob, BlobError, BlobHash, BlobStore, SpaceClass};
use futures_util::stream::iter;
use futures_util::{StreamExt, TryStreamExt};

use super::{
    BLOBS, Step, TransferError, TransferOptions, TransferSource, TransferTarget, Value, advance,
    in_part, part, progress_of,
};

/// How many blobs move at once: each is a stream of small pieces.
const TOGETHER: usize = 8;

/// How many damaged blobs are named.
const NAMED: usize = 20;

/// After so many the source is not worth reading on.
const MOST_DAMAGED: usize = 1_000;

/// Moves the blobs that records name; how many were left behind.
pub(super) async fn copy(
    from: &dyn TransferSource,
    to: &dyn TransferTarget,
    options: TransferOptions,
    report: &(dyn Fn(Step) + Sync),
) -> Result<usize, TransferError> {
    let part = part(BLOBS);
    let (source, target) = (from.blobs(), to.blobs());
    let mut progress = progress_of(to, part).await?;
    let of = in_part(part, from.count(part).await)?;
    let mut damaged = Vec::new();
    while !progress.is_complete {
        let rows = in_part(part, from.read(part, progress.after.as_deref()).await)?;
        let blobs = rows.iter().map(|row| in_part(part, blob_of(row)));
        let blobs = blobs.collect::<Result<Vec<_>, _>>()?;
        let copies = blobs.into_iter().map(|blob| {
            let (source, target) = (&*source, &*target);
            async move { Ok((blob.hash, one(source, target, blob).await?)) }
        });
        let copied: Vec<(BlobHash, bool)> = in_part(
            part,
            iter(copies)
                .buffer_unordered(TOGETHER)
                .try_collect()
                .await
                .map_err(|error: BlobError| error.into()),
        )?;
        let broken = copied.iter().filter(|(_, is_whole)| !is_whole);
        damaged.extend(broken.map(|(hash, _)| *hash));
        advance(part, &mut progress, &rows);
        report(Step {
            part,
            is_comparing: false,
            rows: progress.digest.rows,
            of,
        });
        if damaged.is_empty() || options.leave_damaged {
            in_part(part, to.write(part, Vec::new(), &progress).await)?;
        } else if damaged.len() >= MOST_DAMAGED {
            break;
        }
        // Else the next attempt looks at them again; what is there by then is passed over.
    }
    if damaged.is_empty() || options.leave_damaged {
        return Ok(damaged.len());
    }
    damaged.sort_unstable();
    let count = damaged.len();
    damaged.truncate(NAMED);
    Err(TransferError::Damaged {
        count,
        first: damaged,
    })
}

/// Moves a blob; `false` if the source has other bytes, or none.
async fn one(from: &dyn BlobStore, to: &dyn BlobStore, blob: Blob) -> Result<bool, BlobError> {
    if to.touch(&blob.hash).await? == Some(blob.size_bytes) {
        return Ok(true);
    }
    let mut reader = match from.open(&blob.hash, 0..blob.size_bytes).await {
        Err(BlobError::Absent | BlobError::Damaged(_)) => return Ok(false),
        opened => opened?,
    };
    let mut writer = to.begin(SpaceClass::Spare).await?;
    while let Some(piece) = reader.bytes.next().await {
        match piece {
            Err(BlobError::Absent | BlobError::Damaged(_)) => return Ok(false),
            piece => writer.write(piece?).await?,
        }
    }
    if writer.finish().await? != blob {
        return Ok(false);
    }
    writer.commit().await?;
    Ok(true)
}

fn blob_of(row: &[Value]) -> Result<Blob, crate::BoxError> {
    let [Value::Bytes(hash), Value::Int(size_bytes)] = row else {
        return Err("a blob has a hash and a size".into());
    };
    let hash = <[u8; 32]>::try_from(&hash[..]).map(BlobHash::from_bytes)?;
    Ok(Blob {
        hash,
        size_bytes: size_bytes.unsigned_abs(),
    })
}
