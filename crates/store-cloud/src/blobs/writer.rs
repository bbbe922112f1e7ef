//! A blob on its way into the bucket: hashed first, in memory or in a spool file, then put under its hash.

use std::sync::Arc;

use asset_store::{Blob, BlobError, BlobHash, BlobWriter};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use object_store::MultipartUpload;
use tokio::task;

use super::small::SMALL;
use super::spool::SpoolFile;
use super::{BucketBlobs, UPLOADS};
use crate::bucket::{blob_error, is_absent};

/// What an upload holds in memory, whatever it comes to.
const HELD: usize = 256 * 1024;

/// The size of a part, and of the largest blob that is put at once. S3 takes at most 10,000 parts: 80 GB.
const PART: u64 = 8 << 20;

/// Bytes that were not hashed yet, and what became of those before them.
pub(super) struct Writer {
    blobs: BucketBlobs,
    held: BytesMut,
    body: Body,
    finished: Option<Blob>,
}

/// The bytes that were hashed.
struct Body {
    hasher: Box<blake3::Hasher>,
    size_bytes: u64,
    /// All of them, unless they fit into memory.
    file: Option<SpoolFile>,
}

/// The bytes of a finished blob.
enum Content {
    Memory(Bytes),
    File(SpoolFile),
}

/// The spool file does not give back what was written into it.
#[derive(Debug, thiserror::Error)]
#[error("the folder of uploads gave back other bytes than were written: check its disk")]
struct SpoolChanged;

impl Writer {
    pub(super) fn new(blobs: BucketBlobs) -> Self {
        let body = Body {
            hasher: Box::default(),
            size_bytes: 0,
            file: None,
        };
        Self {
            blobs,
            held: BytesMut::new(),
            body,
            finished: None,
        }
    }

    /// Moves what is held into the file.
    async fn spill(&mut self) -> Result<(), BlobError> {
        let empty = Body {
            hasher: Box::default(),
            size_bytes: 0,
            file: None,
        };
        let mut body = std::mem::replace(&mut self.body, empty);
        let (held, spool) = (self.held.split().freeze(), self.blobs.shared.spool.clone());
        let spilled = on_disk(move || {
            body.hash(&held);
            let file = match &mut body.file {
                Some(file) => file,
                none => none.insert(spool.create()?),
            };
            file.append(&held)?;
            Ok(body)
        });
        self.body = spilled.await?;
        Ok(())
    }
}

impl Body {
    fn hash(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.size_bytes += bytes.len() as u64;
    }
}

#[async_trait]
impl BlobWriter for Writer {
    async fn write(&mut self, chunk: Bytes) -> Result<(), BlobError> {
        for piece in chunk.chunks(HELD) {
            if self.held.len() + piece.len() > HELD {
                self.spill().await?;
            }
            self.held.extend_from_slice(piece);
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<Blob, BlobError> {
        if let Some(finished) = self.finished {
            return Ok(finished);
        }
        match self.body.file {
            Some(_) => self.spill().await?,
            None => self.body.hash(&self.held),
        }
        let blob = Blob {
            hash: self.body.hasher.finalize().into(),
            size_bytes: self.body.size_bytes,
        };
        self.finished = Some(blob);
        Ok(blob)
    }

    async fn commit(mut self: Box<Self>) -> Result<Blob, BlobError> {
        let blob = self.finish().await?;
        let Self {
            blobs, held, body, ..
        } = *self;
        let content = match body.file {
            Some(file) => Content::File(file),
            None => Content::Memory(held.freeze()),
        };
        // It ends even if the caller is gone, so that no upload is left half-way.
        let put = tokio::spawn(async move { blobs.put(&blob, content).await.map(|()| blob) });
        put.await
            .unwrap_or_else(|gone| Err(BlobError::Io(gone.into())))
    }

    async fn commit_with_rows(self: Box<Self>) -> Result<Blob, BlobError> {
        self.commit().await
    }
}

impl BucketBlobs {
    /// Puts a blob under its hash, whatever lies there: these are the right bytes.
    async fn put(&self, blob: &Blob, content: Content) -> Result<(), BlobError> {
        let (shared, hash) = (&self.shared, &blob.hash);
        let now = shared.now();
        let (bytes, is_held) = match &content {
            Content::Memory(bytes) if blob.size_bytes <= SMALL => (Some(bytes.clone()), true),
            Content::Memory(_) => (None, true),
            Content::File(_) => (None, false),
        };
        let kept = shared.puts.announce(hash, now, bytes, is_held).await?;
        if kept.has_bytes {
            shared.note_whole(blob);
            return Ok(());
        }
        match content {
            Content::File(file) if blob.size_bytes > PART => {
                self.put_parts(blob, Arc::new(file)).await?;
            }
            Content::File(file) => {
                let _turn = shared.uploads.acquire().await.expect("nobody closes it");
                let length = usize::try_from(blob.size_bytes).expect("at most a part");
                let bytes = Bytes::from(on_disk(move || file.read(0, length)).await?);
                if BlobHash::of(&bytes) != *hash {
                    return Err(BlobError::Io(SpoolChanged.into()));
                }
                shared.bucket.put(hash, bytes).await.map_err(put_error)?;
            }
            Content::Memory(bytes) => {
                let _turn = shared.uploads.acquire().await.expect("nobody closes it");
                if let Err(error) = shared.bucket.put(hash, bytes).await {
                    // A row that is not taken back costs its own bytes alone.
                    if let Err(error) = shared.database.doubt_blob(hash).await {
                        tracing::debug!(error = %error, "the row of a blob stays that was not put");
                    }
                    return Err(put_error(error));
                }
            }
        }
        if !kept.is_placed {
            shared.puts.placed(hash, now).await?;
        }
        shared.note_whole(blob);
        Ok(())
    }

    /// Puts a large blob in parts; it appears when the last call says so.
    async fn put_parts(&self, blob: &Blob, file: Arc<SpoolFile>) -> Result<(), BlobError> {
        let upload = self.shared.bucket.put_parts(&blob.hash).await;
        let mut upload = upload.map_err(put_error)?;
        let error = match self.send_parts(blob, file, &mut *upload).await {
            Ok(()) => match upload.complete().await {
                Ok(_) => return Ok(()),
                // The answer to a request that worked may be lost, and then the upload is not known any more.
                Err(_) if self.compare_all(&blob.hash).await.is_ok() => return Ok(()),
                Err(error) => put_error(error),
            },
            Err(error) => error,
        };
        if let Err(left) = upload.abort().await {
            let left: &dyn std::error::Error = &left;
            tracing::warn!(
                hash = %blob.hash,
                error = left,
                "parts of an upload that failed stay in the bucket until its rule for incomplete uploads removes them"
            );
        }
        Err(error)
    }

    /// Reads the parts in their order and sends a few of them at once; fails if they are not the bytes that were hashed.
    async fn send_parts(
        &self,
        blob: &Blob,
        file: Arc<SpoolFile>,
        upload: &mut dyn MultipartUpload,
    ) -> Result<(), BlobError> {
        let (mut hasher, mut offset) = (blake3::Hasher::new(), 0);
        let mut sent = FuturesUnordered::new();
        while offset < blob.size_bytes {
            // The turn of a part ends with it, so wait for own parts before others.
            if sent.len() == UPLOADS / 2 {
                sent.try_next().await?;
            }
            let turn = loop {
                tokio::select! {
                    turn = self.shared.uploads.acquire() => break turn.expect("nobody closes it"),
                    done = sent.try_next(), if !sent.is_empty() => drop(done?),
                }
            };
            let length = usize::try_from(PART.min(blob.size_bytes - offset)).expect("a part");
            let (from, file) = (offset, Arc::clone(&file));
            let (bytes, hashed) = on_disk(move || {
                let bytes = file.read(from, length)?;
                hasher.update(&bytes);
                Ok((bytes, hasher))
            })
            .await?;
            hasher = hashed;
            offset += length as u64;
            let part = upload.put_part(bytes.into());
            sent.push(async move {
                let sent = part.await.map_err(put_error);
                drop(turn);
                sent
            });
        }
        while sent.try_next().await?.is_some() {}
        match BlobHash::from(hasher.finalize()) == blob.hash {
            true => Ok(()),
            false => Err(BlobError::Io(SpoolChanged.into())),
        }
    }
}

/// What a failure of a put means: an object that is not found is then the bucket.
fn put_error(error: object_store::Error) -> BlobError {
    match is_absent(&error) {
        true => BlobError::Io(error.into()),
        false => blob_error(error),
    }
}

/// Runs file operations on a thread that may wait for the disk.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    // A runtime that shuts down gives work up.
    task::spawn_blocking(work)
        .await
        .unwrap_or_else(|gone| Err(BlobError::Io(gone.into())))
}
