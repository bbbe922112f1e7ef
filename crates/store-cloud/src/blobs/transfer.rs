//! The bytes of an object on their way here. A body that breaks off is asked for again from where it broke off, in the same
//! version of the object.

use std::ops::Range;
use std::sync::Arc;

use asset_store::{BlobError, BlobHash};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::GetResult;

use super::Shared;
use crate::bucket::blob_error;

/// How often in a row an object is asked for again without a byte of it coming.
const TRIES: u32 = 5;

/// A range of an object that is being read.
pub(super) struct Transfer {
    shared: Arc<Shared>,
    hash: BlobHash,
    /// What tells this version of the object from others.
    pub(super) version: Option<String>,
    /// What is still to come.
    rest: Range<u64>,
    bytes: BoxStream<'static, object_store::Result<Bytes>>,
    tries_left: u32,
}

/// The store ended a body before its end, or went on behind it.
#[derive(Debug, thiserror::Error)]
#[error("the object store sent another number of bytes than it announced")]
struct WrongLength;

impl Transfer {
    pub(super) fn new(shared: Arc<Shared>, hash: BlobHash, got: GetResult) -> Self {
        Self {
            shared,
            hash,
            version: got.meta.e_tag.clone(),
            rest: got.range.clone(),
            bytes: got.into_stream(),
            tries_left: TRIES,
        }
    }

    /// The next bytes, never none of them; `None` behind the last ones.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        loop {
            let broken: BlobError = match self.bytes.try_next().await {
                Ok(Some(chunk)) if chunk.is_empty() => continue,
                Ok(Some(chunk)) => {
                    self.rest.start += chunk.len() as u64;
                    if self.rest.start > self.rest.end {
                        return Err(BlobError::Io(WrongLength.into()));
                    }
                    self.tries_left = TRIES;
                    return Ok(Some(chunk));
                }
                Ok(None) | Err(_) if self.rest.is_empty() => return Ok(None),
                Ok(None) => BlobError::Io(WrongLength.into()),
                Err(error) => blob_error(error),
            };
            if self.tries_left == 0 || self.version.is_none() {
                return Err(broken);
            }
            self.tries_left -= 1;
            let (rest, version) = (self.rest.clone(), self.version.clone());
            let got = self.shared.bucket.get(&self.hash, Some(rest), version);
            let got = got.await.map_err(blob_error)?;
            if got.range != self.rest {
                return Err(broken);
            }
            self.bytes = got.into_stream();
        }
    }

    /// The bytes as they come.
    pub(super) fn into_stream(self) -> BoxStream<'static, Result<Bytes, BlobError>> {
        stream::try_unfold(self, |mut transfer| async move {
            let next = transfer.next().await?;
            Ok(next.map(|chunk| (chunk, transfer)))
        })
        .boxed()
    }
}
