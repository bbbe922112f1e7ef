//! The layout of a data directory, and the lock that gives it to one process.
//!
//! ```text
//! DIR/lock         held while a process has the directory
//! DIR/main.db      rows
//! DIR/calls-N.log  what happened to calls and is in no row yet, in two files that take turns
//! DIR/blobs/       blobs by hash
//! DIR/replays/     results that idempotency keys answer again: by the hour, large ones by generation
//! DIR/tmp/         files being written; emptied at every start
//! DIR/ballast      room that is given up when the disk is full
//! ```

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Nobody but the user of the server has business in the directory: it holds other people's pictures and signing keys.
const MODE: u32 = 0o700;

/// The file of the rows.
const DATABASE: &str = "main.db";

/// A data directory that this process has.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// The lock goes with the file: the system releases it however the process ends.
    _lock: File,
}

/// The directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Another process has it.
    #[error(
        "the data directory {} is in use by another process; stop that server first, or choose another directory",
        .0.display()
    )]
    InUse(PathBuf),
    /// There is none.
    #[error(
        "there is no installation in {}; name the data directory that a server uses",
        .0.display()
    )]
    Missing(PathBuf),
    /// It cannot be created or opened.
    #[error(
        "the data directory {} cannot be used; check that it can be created and written by this user",
        path.display()
    )]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Directory {
    /// Takes the directory, creating it first where it is missing.
    pub(crate) fn take(path: &Path) -> Result<Self, DirectoryError> {
        let failed = |source| DirectoryError::Io {
            path: path.to_owned(),
            source,
        };
        create_durably(path).map_err(failed)?;
        // SQLite refuses to follow links inside the directory; the way to it may well lead over one.
        let path = fs::canonicalize(path).map_err(failed)?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("lock"))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DirectoryError::InUse(path)),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        for part in ["blobs", "replays", "tmp"] {
            create_durably(&path.join(part)).map_err(failed)?;
        }
        Ok(Self { path, _lock: lock })
    }

    /// The database of a directory that another process may have.
    pub(crate) fn database_in(path: &Path) -> Result<PathBuf, DirectoryError> {
        // SQLite refuses to follow links inside the directory; the way to it may well lead over one.
        let database = fs::canonicalize(path).map(|path| path.join(DATABASE));
        match database {
            Ok(database) if database.is_file() => Ok(database),
            Ok(_) | Err(_) => Err(DirectoryError::Missing(path.to_owned())),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.path.join("blobs")
    }

    pub(crate) fn replays(&self) -> PathBuf {
        self.path.join("replays")
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// Makes the entries of the directory itself durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        sync_directory(&self.path)
    }
}

/// Creates a directory and those above it that are missing; each is in its parent for good when this returns.
pub(crate) fn create_durably(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(MODE).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().ok_or(error)?;
            create_durably(parent)?;
            return create_durably(path);
        }
        Err(error) => return Err(error),
    }
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    sync_directory(parent.unwrap_or(Path::new(".")))
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_process_at_a_time() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let path = root.path().join("new/data");
        let held = Directory::take(&path).expect("a fresh directory");
        let refused = Directory::take(&path).expect_err("it is taken");
        assert!(matches!(refused, DirectoryError::InUse(_)));
        assert!(refused.to_string().contains("new/data"), "{refused}");
        drop(held);
        Directory::take(&path).expect("it is free again");
    }

    #[test]
    fn a_file_in_the_way_is_told_with_its_path() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let path = root.path().join("file");
        fs::write(&path, "").expect("a file");
        let refused = Directory::take(&path).expect_err("it is no directory");
        assert!(refused.to_string().contains("file"), "{refused}");
    }
}
