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

/// A file that a constant of the graph names: one of the account's, or one that was fetched from a web address.
#[derive(Clone)]
pub struct FileInput {
    content: Content,
}

#[derive(Clone)]
enum Content {
    Stored {
        file: ResolvedFile,
        files: Arc<Files>,
    },
    Fetched {
        name: Arc<str>,
        bytes: Bytes,
    },
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
        Self {
            content: Content::Stored { file, files },
        }
    }

    /// A file from a web address, which is its name up to the query: what follows may be a secret.
    pub(crate) fn fetched(address: &str, bytes: Bytes) -> Self {
        let name = address.split(['?', '#']).next().unwrap_or_default();
        Self {
            content: Content::Fetched {
                name: name.into(),
                bytes,
            },
        }
    }

    /// The name that the graph calls it by.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.content {
            Content::Stored { file, .. } => &file.name,
            Content::Fetched { name, .. } => name,
        }
    }

    /// The hash of its bytes.
    #[must_use]
    pub fn hash(&self) -> BlobHash {
        match &self.content {
            Content::Stored { file, .. } => file.hash,
            Content::Fetched { bytes, .. } => BlobHash::of(bytes),
        }
    }

    /// How many bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match &self.content {
            Content::Stored { file, .. } => file.size_bytes,
            Content::Fetched { bytes, .. } => bytes.len() as u64,
        }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// If they are gone or cannot be read.
    pub fn read(&self) -> Result<Bytes, NodeError> {
        let (file, files) = match &self.content {
            Content::Stored { file, files } => (file, files),
            Content::Fetched { bytes, .. } => return Ok(bytes.clone()),
        };
        let blob = Blob {
            hash: file.hash,
            size_bytes: file.size_bytes,
        };
        let bytes = files.runtime.block_on(read_all(&*files.blobs, &blob));
        bytes.map_err(|error| unreadable(file, &error))
    }

    /// The SHA-256 of its bytes, as hexadecimal digits; read once per blob.
    ///
    /// # Errors
    /// As [`FileInput::read`].
    pub fn sha256(&self) -> Result<String, NodeError> {
        let (file, files) = match &self.content {
            Content::Stored { file, files } => (file, files),
            Content::Fetched { bytes, .. } => return Ok(hex(&Sha256::digest(bytes))),
        };
        let known = &files.digests.known;
        let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = lock().get(&file.hash) {
            return Ok(digest.clone());
        }
        let digest = files.runtime.block_on(digest(file, &*files.blobs));
        let digest = digest.map_err(|error| unreadable(file, &error))?;
        let mut known = lock();
        if known.len() >= DIGESTS_KEPT {
            known.clear();
        }
        known.insert(file.hash, digest.clone());
        Ok(digest)
    }
}

async fn digest(file: &ResolvedFile, blobs: &dyn BlobStore) -> Result<String, BlobError> {
    let mut reader = blobs.open(&file.hash, 0..file.size_bytes).await?;
    let mut hasher = Sha256::new();
    while let Some(chunk) = reader.bytes.next().await {
        hasher.update(&chunk?);
    }
    Ok(hex(&hasher.finalize()))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn unreadable(file: &ResolvedFile, error: &BlobError) -> NodeError {
    let name = &file.name;
    match error {
        BlobError::Absent => NodeError::new(
            "FileNotFoundError",
            format!("the file {name:?} is gone; upload it again"),
        ),
        BlobError::Damaged(_) => NodeError::new(
            "OSError",
            format!("the file {name:?} is damaged in the store; upload it again"),
        ),
        BlobError::Full(_) | BlobError::Io(_) => {
            tracing::error!(file.hash = %file.hash, error = ?error, "a file could not be read");
            NodeError::new(
                "OSError",
                format!("the file {name:?} could not be read; submit the job again"),
            )
        }
    }
}
