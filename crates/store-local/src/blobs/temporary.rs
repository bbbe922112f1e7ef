//! A file being written, under a name that no reader knows.

use std::fs::{self, File};
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use uuid::Uuid;

use crate::directory::create_private;

/// Slices handed to the system at once; it takes 1,024 at most.
const SLICES: usize = 512;

/// A file that is removed when it is dropped, unless it was put into its place.
pub(crate) struct TemporaryFile {
    file: File,
    path: PathBuf,
    placed: bool,
}

impl TemporaryFile {
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        crate::faults::fault_point!("blob-create", |kind| Err(crate::faults::io(kind)));
        let path = folder.join(Uuid::new_v4().simple().to_string());
        let file = create_private(&path)?;
        Ok(Self {
            file,
            path,
            placed: false,
        })
    }

    /// Appends the chunks without copying them together first.
    pub(crate) fn append(&mut self, chunks: &[Bytes]) -> io::Result<()> {
        crate::faults::fault_point!("blob-write", |kind| Err(crate::faults::io(kind)));
        for chunks in chunks.chunks(SLICES) {
            let mut slices: Vec<IoSlice<'_>> =
                chunks.iter().map(|chunk| IoSlice::new(chunk)).collect();
            let mut left = &mut slices[..];
            while !left.is_empty() {
                match self.file.write_vectored(left) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => IoSlice::advance_slices(&mut left, written),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Makes the bytes durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        crate::faults::fault_point!("blob-sync", |kind| Err(crate::faults::io(kind)));
        self.file.sync_all()
    }

    /// Gives the file its place, in place of whatever is there, and its age.
    pub(crate) fn place(mut self, path: &Path, modified: std::time::SystemTime) -> io::Result<()> {
        self.file.set_modified(modified)?;
        crate::faults::fault_point!("blob-rename", |kind| Err(crate::faults::io(kind)));
        fs::rename(&self.path, path)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.placed
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, "a half-written file stays until the next start");
        }
    }
}
