//! Files as nodes read them: by hash, out of the blob store, on the engine's own threads.
//!
//! Bytes under a hash never change, so a digest that was computed once is good for ever.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use asset_store::{Blob, BlobError, BlobHash, BlobStore, read_all};
use bytes::Bytes;
use futures_util::StreamExt;
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use workflow_core::ResolvedFile;

use super::NodeError;

/// One of the account's files, named by a constant of the graph.
#[derive(Clone)]
pub struct FileInput {
    file: ResolvedFile,
    files: Arc<Files>,
}

/// Where the files of a run are read.
pub(crate) struct Files {
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) runtime: Handle,
    pub(crate) digests: Arc<Digests>,
}

/// SHA-256 digests of blobs, remembered.
#[derive(Default)]
pub(crate) struct Digests {
    known: Mutex<HashMap<BlobHash, String>>,
}

/// Digests remembered at most: about 1 MB of them.
const DIGESTS_KEPT: usize = 8192;

impl FileInput {
    pub(crate) fn new(file: ResolvedFile, files: Arc<Files>) -> Self {
        Self { file, files }
    }

    /// The name that the graph calls it by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// The hash of its bytes.
    #[must_use]
    pub fn hash(&self) -> BlobHash {
        self.file.hash
    }

    /// How many bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.file.size_bytes
    }

    /// Its bytes.
    ///
    /// # Errors
    /// If they are gone or cannot be read.
    pub fn read(&self) -> Result<Bytes, NodeError> {
        let blob = Blob {
            hash: self.file.hash,
            size_bytes: self.file.size_bytes,
        };
        let bytes = self
            .files
            .runtime
            .block_on(read_all(&*self.files.blobs, &blob));
        bytes.map_err(|error| self.unreadable(&error))
    }

    /// The SHA-256 of its bytes, as hexadecimal digits; read once per blob.
    ///
    /// # Errors
    /// As [`FileInput::read`].
    pub fn sha256(&self) -> Result<String, NodeError> {
        let known = &self.files.digests.known;
        let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = lock().get(&self.file.hash) {
            return Ok(digest.clone());
        }
        let digest = self.files.runtime.block_on(self.digest());
        let digest = digest.map_err(|error| self.unreadable(&error))?;
        let mut known = lock();
        if known.len() >= DIGESTS_KEPT {
            known.clear();
        }
        known.insert(self.file.hash, digest.clone());
        Ok(digest)
    }

    async fn digest(&self) -> Result<String, BlobError> {
        let range = 0..self.file.size_bytes;
        let mut reader = self.files.blobs.open(&self.file.hash, range).await?;
        let mut hasher = Sha256::new();
        while let Some(chunk) = reader.bytes.next().await {
            hasher.update(&chunk?);
        }
        Ok(hasher
            .finalize()
            .iter()
            .fold(String::new(), |mut hex, byte| {
                // Writing to a string cannot fail.
                let _ = write!(hex, "{byte:02x}");
                hex
            }))
    }

    fn unreadable(&self, error: &BlobError) -> NodeError {
        let name = self.name();
        match error {
            BlobError::Absent => NodeError::new(
                "FileNotFoundError",
                format!("the file {name:?} is gone; upload it again"),
            ),
            BlobError::Full(_) | BlobError::Io(_) => {
                tracing::error!(file.hash = %self.file.hash, error = ?error, "a file could not be read");
                NodeError::new(
                    "OSError",
                    format!("the file {name:?} could not be read; submit the job again"),
                )
            }
        }
    }
}
