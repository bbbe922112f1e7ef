//! The layout of a data directory, and the lock that gives it to one process.
//!
//! ```text
//! DIR/lock         held while a process has the directory; tells how far the rows were, and since which start of the machine
//! DIR/installation the id of the installation, which the rows tell too
//! DIR/transfer     that the installation is moved to or from another store, or was
//! DIR/main.db      rows
//! DIR/calls-N.log  what happened to calls and is in no row yet, in two files that take turns
//! DIR/blobs/       blobs by hash
//! DIR/replays/     results that idempotency keys answer again: by the hour, large ones by generation
//! DIR/tmp/         files being written; emptied at every start
//! DIR/ballast      room that is given up when the disk is full
//! ```

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Nobody but the user of the server has business in the directory: it holds other people's pictures and signing keys.
const MODE: u32 = 0o700;

/// The same for files.
const FILE_MODE: u32 = 0o600;

/// The bits of a mode that let other users do anything.
const OTHERS: u32 = 0o077;

/// The file of the rows.
const DATABASE: &str = "main.db";

/// A data directory that this process has.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// The lock goes with the file: the system releases it however the process ends.
    lock: File,
    /// What the process before left in it.
    left: Option<Mark>,
}

/// What is in the file of the lock.
#[derive(Debug)]
struct Mark {
    /// The newest number of a log of the rows.
    number: i32,
    /// The start of the machine that it was written after.
    boot: String,
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
    /// Other users may look into it, and this user may not change that.
    #[error(
        "other users may read {} (mode {mode:o}), which holds other people's pictures and the keys that sign links; run `chmod -R go= {}` as its owner",
        path.display(), path.display()
    )]
    Open {
        /// The directory, or the file in it.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// This user may not read and write something in it.
    #[error(
        "{} cannot be read and written by this user; run `chmod -R u+rwX` on the data directory as its owner",
        .0.display()
    )]
    Closed(PathBuf),
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
        expect_open(&path)?;
        let mut lock = private()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path.join("lock"))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DirectoryError::InUse(path)),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        if !path.join(DATABASE).exists() {
            // An earlier process may have been killed between the creation of a directory and its sync.
            sync_ancestors(&path).map_err(failed)?;
        }
        for part in ["blobs", "replays", "tmp"] {
            create_durably(&path.join(part)).map_err(failed)?;
        }
        close_to_others(&path)?;
        let mut text = Vec::new();
        lock.read_to_end(&mut text).map_err(failed)?;
        let left = Mark::read(&text);
        Ok(Self { path, lock, left })
    }

    /// Whether the process before ran since the machine was started; `false` if nobody knows.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        let left = self.left.as_ref().map(|mark| mark.boot.as_str());
        left.is_some() && left == boot().as_deref()
    }

    /// The newest number of a log of the rows that the processes before used.
    pub(crate) fn newest_number(&self) -> Option<i32> {
        self.left.as_ref().map(|mark| mark.number)
    }

    /// Notes the number of the log that is used now. It is not made durable: an earlier one is right, too.
    pub(crate) fn note_number(&self, number: i32) {
        let boot = boot().unwrap_or_default();
        // Of the same length always, so that it is written over in one piece.
        let text = format!("{number:>11} {boot:>36}\n");
        if let Err(error) = self.lock.write_all_at(text.as_bytes(), 0) {
            tracing::debug!(%error, "the number of the log was not noted");
        }
    }

    /// The database of a directory that another process may have.
    #[cfg_attr(
        not(feature = "router"),
        expect(dead_code, reason = "the router's alone")
    )]
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

    /// Creates the file of the rows where it is missing, before SQLite would, which lets everybody read it.
    pub(crate) fn create_database(&self) -> Result<(), DirectoryError> {
        match create_private(&self.database()) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                Err(DirectoryError::Io {
                    path: self.path.clone(),
                    source,
                })
            }
            Ok(_) | Err(_) => Ok(()),
        }
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

impl Mark {
    /// `None` for what no server wrote.
    fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.strip_suffix('\n')?;
        let (number, boot) = text.trim_start().split_once(' ')?;
        Some(Self {
            number: number.parse().ok()?,
            boot: boot.trim_start().to_owned(),
        })
    }
}

/// What tells one start of the machine from another, where the system does.
fn boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// Refuses a directory in which something cannot be read or written, before anything is changed: found later, it would be told
/// as damage, or fail a client's request.
fn expect_open(path: &Path) -> Result<(), DirectoryError> {
    let closed = |path: &Path| DirectoryError::Closed(path.to_owned());
    let mut folders = vec![path.to_owned()];
    for name in ["blobs", "replays", "replays/hours", "tmp"] {
        folders.extend(Some(path.join(name)).filter(|folder| folder.is_dir()));
    }
    for folder in folders {
        let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        access(&folder, all).map_err(|_| closed(&folder))?;
        // Blobs and large results never change, so it is enough that they can be read.
        if folder.ends_with("blobs") || folder.ends_with("replays") {
            continue;
        }
        for entry in fs::read_dir(&folder).map_err(|_| closed(&folder))? {
            let file = entry.map_err(|_| closed(&folder))?.path();
            if file.is_file() {
                let both = Access::READ_OK | Access::WRITE_OK;
                access(&file, both).map_err(|_| closed(&file))?;
            }
        }
    }
    Ok(())
}

/// Creates a directory and those above it that are missing. The entry of each one that it creates is durable when this
/// returns; the entry of one that was there is not synced.
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

/// Creates a directory unless it is there; its entry is not synced.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

/// Options for a file that nobody but the user of the server may read.
pub(crate) fn private() -> fs::OpenOptions {
    let mut options = File::options();
    options.mode(FILE_MODE);
    options
}

/// Creates a file that was not there, for the user of the server alone.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    private().create_new(true).write(true).open(path)
}

/// Takes from other users what an earlier version or an operator gave them: the directory, its folders, and the files that lie
/// in it itself. Blobs below them cannot be reached then.
fn close_to_others(path: &Path) -> Result<(), DirectoryError> {
    let failed = |source| DirectoryError::Io {
        path: path.to_owned(),
        source,
    };
    let entries = fs::read_dir(path).map_err(failed)?;
    let entries = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut tightened = 0;
    for path in std::iter::once(Ok(path.to_owned())).chain(entries) {
        let path = path.map_err(failed)?;
        // A link leads out of the directory; what is behind it is not ours.
        let metadata = fs::symlink_metadata(&path).map_err(failed)?;
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & OTHERS == 0 || !(metadata.is_file() || metadata.is_dir()) {
            continue;
        }
        let closed = Permissions::from_mode(mode & !OTHERS);
        fs::set_permissions(&path, closed).map_err(|_| DirectoryError::Open { path, mode })?;
        tightened += 1;
    }
    if tightened > 0 {
        tracing::warn!(
            files = tightened,
            "other users could read files of the data directory; now only its owner can"
        );
    }
    Ok(())
}

/// `None` for what is not there.
pub(crate) fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes the entries durable that lead to a directory. A parent that this user may not read is passed over: this user created
/// nothing in it.
fn sync_ancestors(path: &Path) -> io::Result<()> {
    for parent in path.ancestors().skip(1) {
        match sync_directory(parent) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    Ok(())
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
