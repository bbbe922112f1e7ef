//! Where the bytes of large uploads wait until their hash is known: files without a name, bounded together.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use asset_store::BlobError;

use super::BlobOptions;

/// The folder of such files. Clones share their bound.
#[derive(Clone)]
pub(super) struct Spool {
    folder: PathBuf,
    most_bytes: u64,
    used: Arc<AtomicU64>,
}

/// One of them. It is gone when this is dropped, or when the process ends.
pub(super) struct SpoolFile {
    file: File,
    bytes: u64,
    spool: Spool,
}

/// Other uploads have taken what there is.
#[derive(Debug, thiserror::Error)]
#[error(
    "uploads that are under way hold {0} bytes, the most they may; try again when some of them ended"
)]
struct SpoolFull(u64);

impl Spool {
    pub(super) fn new(options: &BlobOptions) -> Self {
        Self {
            folder: options.spool.clone(),
            most_bytes: options.spool_bytes,
            used: Arc::default(),
        }
    }

    /// An empty file. May wait for the disk, as all that is done with it.
    pub(super) fn create(&self) -> Result<SpoolFile, BlobError> {
        let file = tempfile::tempfile_in(&self.folder).map_err(failed)?;
        Ok(SpoolFile {
            file,
            bytes: 0,
            spool: self.clone(),
        })
    }
}

impl SpoolFile {
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        let (length, most) = (bytes.len() as u64, self.spool.most_bytes);
        let used = &self.spool.used;
        let taken = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(length).filter(|used| *used <= most)
        });
        taken.map_err(|_| BlobError::Full(SpoolFull(most).into()))?;
        self.bytes += length;
        self.file.write_all(bytes).map_err(failed)
    }

    /// So many bytes from an offset on.
    pub(super) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, BlobError> {
        let mut bytes = vec![0; length];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map(|()| bytes).map_err(failed)
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        self.spool.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn failed(error: io::Error) -> BlobError {
    let is_full = matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    );
    match is_full {
        true => BlobError::Full(error.into()),
        false => BlobError::Io(error.into()),
    }
}
