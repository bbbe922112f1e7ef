//! Where blobs lie: `blobs/aa/bb/<64 hex>`, and who may change what there when.
//!
//! Everything that makes, renews or removes a name happens under the lock of its first byte. So a sweep cannot remove a blob
//! that an upload has just met, and the look before a rename holds until the rename. Comparing a file with its hash takes too
//! long for that: it happens before, and what it found counts for the file that it looked at and no other.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use asset_store::{Blob, BlobError, BlobHash, BlobIntegrity, SpaceClass};
use bytes::Bytes;
use jiff::Timestamp;

use super::journal::{Entry, Journal};
use super::temporary::TemporaryFile;
use super::verify::FileId;
use super::{failed, is_full};
use crate::clock::Clock;
use crate::directory::{Directory, if_there, sync_directory};
use crate::health::Health;
use crate::reserve::Reserve;

/// The folders of the blobs. Every method may wait for the disk.
pub(super) struct BlobDirectory {
    /// Keeps the directory taken while a blob may be written.
    _directory: Arc<Directory>,
    root: PathBuf,
    temporary: PathBuf,
    health: Health,
    reserve: Reserve,
    journal: Journal,
    clock: Clock,
    /// Taken after a prefix where both are needed.
    pub(super) integrity: Mutex<BlobIntegrity>,
    /// By the first byte of the hashes.
    prefixes: Vec<Mutex<Prefix>>,
}

/// What this process knows of one `aa/`. A process that was killed may have left names that the disk does not have yet.
#[derive(Default)]
pub(super) struct Prefix {
    /// Whether this process made the folder and its name is not on the disk yet.
    nameless: bool,
    /// Whether every name in the folder is on the disk.
    synced: bool,
    /// The same of its `bb/`, one bit each.
    parts: [u64; 4],
}

impl BlobDirectory {
    pub(super) fn open(
        directory: Arc<Directory>,
        health: Health,
        reserve: Reserve,
        journal: Journal,
        clock: Clock,
    ) -> io::Result<Self> {
        let (root, temporary) = (directory.blobs(), directory.tmp());
        for left in fs::read_dir(&temporary)? {
            fs::remove_file(left?.path())?;
        }
        // What is there already has its name from now on, whichever process made it.
        sync_directory(&root)?;
        Ok(Self {
            _directory: directory,
            root,
            temporary,
            health,
            reserve,
            journal,
            clock,
            integrity: Mutex::default(),
            prefixes: (0..=u8::MAX).map(|_| Mutex::default()).collect(),
        })
    }

    /// Whether writes may go on.
    pub(super) fn check(&self) -> Result<(), BlobError> {
        self.health
            .check()
            .map_err(|poisoned| BlobError::Io(Box::new(poisoned)))
    }

    /// Whether the disk has the room that a blob may take.
    pub(super) fn check_room(&self, room: SpaceClass) -> Result<(), BlobError> {
        let checked = match room {
            SpaceClass::Spare => self.reserve.for_uploads(),
            SpaceClass::Kept => self.reserve.for_growth(),
        };
        checked.map_err(|no_room| BlobError::Full(Box::new(no_room)))
    }

    /// Where a blob lies if it is there.
    pub(super) fn path(&self, hash: &BlobHash) -> PathBuf {
        self.folder(hash).join(hash.to_hex())
    }

    /// A file to write a new blob into.
    pub(super) fn temporary(&self) -> Result<TemporaryFile, BlobError> {
        self.check()?;
        TemporaryFile::create(&self.temporary).map_err(failed)
    }

    /// Makes the bytes of a file durable.
    pub(super) fn sync(&self, file: &TemporaryFile) -> Result<(), BlobError> {
        self.check()?;
        file.sync().map_err(|error| {
            // Without room the file is given up, and nothing else is in doubt.
            if !is_full(&error) {
                self.health.poison(&error);
            }
            failed(error)
        })
    }

    /// Gives durable bytes their name, unless the blob is there already and whole; durable when this returns.
    pub(super) fn put(&self, blob: &Blob, file: TemporaryFile) -> Result<(), BlobError> {
        self.check()?;
        let damaged = self.find_damaged(&blob.hash)?;
        let mut prefix = self.prefix(&blob.hash);
        if self.renew(&mut prefix, blob, damaged)? {
            return Ok(());
        }
        self.make_folders(&mut prefix, &blob.hash).map_err(failed)?;
        file.place(&self.path(&blob.hash), self.now())
            .map_err(failed)?;
        self.note_put(blob);
        self.sync_way(&mut prefix, &blob.hash)?;
        crate::faults::fault_point!("blob-placed");
        Ok(())
    }

    /// Gives bytes their name now, and has the next transaction of the database make them durable.
    pub(super) fn put_with_rows(&self, blob: &Blob, bytes: Bytes) -> Result<(), BlobError> {
        self.check()?;
        // Held to the end: a caller that meets the file finds its bytes waiting for the very next transaction.
        let mut prefix = self.prefix(&blob.hash);
        let [_, second, ..] = *blob.hash.as_bytes();
        let there = self.refresh(&blob.hash).map_err(failed)?;
        let is_whole = there.is_some_and(|there| there.len() == blob.size_bytes)
            && self.holds(&blob.hash, &bytes);
        if !is_whole {
            self.place(&mut prefix, &blob.hash, &bytes)
                .map_err(failed)?;
        }
        self.note_put(blob);
        if is_whole && prefix.has(second) {
            return Ok(());
        }
        self.journal.add(Entry {
            hash: blob.hash,
            bytes,
        });
        crate::faults::fault_point!("blob-journaled");
        Ok(())
    }

    /// Makes the file of a journaled blob what it was.
    pub(super) fn restore(&self, entry: &Entry) -> io::Result<()> {
        let kept = if_there(fs::read(self.path(&entry.hash)))?;
        if kept.is_some_and(|kept| kept == entry.bytes) {
            return Ok(());
        }
        let mut prefix = self.prefix(&entry.hash);
        self.place(&mut prefix, &entry.hash, &entry.bytes)
    }

    /// If the blob is there already and whole, makes it as durable and as fresh as if it had just been put.
    pub(super) fn met(&self, blob: &Blob) -> Result<bool, BlobError> {
        self.check()?;
        let damaged = self.find_damaged(&blob.hash)?;
        let mut prefix = self.prefix(&blob.hash);
        self.renew(&mut prefix, blob, damaged)
    }

    /// Renews the age of a blob that is not known to be damaged, and answers its size.
    pub(super) fn touch(&self, hash: &BlobHash) -> Result<Option<u64>, BlobError> {
        let _shelf = self.prefix(hash);
        if self.integrity().is_damaged(hash) {
            return Ok(None);
        }
        let there = self.refresh(hash).map_err(failed)?;
        Ok(there.map(|there| there.len()))
    }

    /// Removes a blob that is older than `untouched_since`; whether it is gone now.
    pub(super) fn delete(
        &self,
        hash: &BlobHash,
        untouched_since: Timestamp,
    ) -> Result<bool, BlobError> {
        self.check()?;
        let _shelf = self.prefix(hash);
        let path = self.path(hash);
        let Some(metadata) = if_there(fs::metadata(&path)).map_err(failed)? else {
            self.integrity().forget(hash);
            return Ok(true);
        };
        let touched_at = metadata.modified().map_err(failed)?;
        if touched_at >= SystemTime::from(untouched_since) {
            return Ok(false);
        }
        // Not made durable: a blob that comes back with the power is swept again.
        crate::faults::fault_point!("blob-delete");
        fs::remove_file(&path).map_err(failed)?;
        self.integrity().forget(hash);
        Ok(true)
    }

    /// Blobs in the order of their hashes, from behind `after`.
    pub(super) fn list(&self, after: Option<BlobHash>, limit: usize) -> io::Result<Vec<Blob>> {
        let from = after.map(|hash| *hash.as_bytes());
        let mut found = Vec::new();
        for first in names(&self.root, from.map(|from| from[0]))? {
            let prefix = self.root.join(hex(first));
            let begun = from.filter(|from| from[0] == first);
            for second in names(&prefix, begun.map(|from| from[1]))? {
                let mut part = blobs_in(&prefix.join(hex(second)), [first, second])?;
                part.retain(|blob| after.is_none_or(|after| blob.hash > after));
                part.sort_unstable_by_key(|blob| blob.hash);
                found.extend(part);
                if found.len() >= limit {
                    found.truncate(limit);
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    pub(super) fn prefix(&self, hash: &BlobHash) -> MutexGuard<'_, Prefix> {
        // A panic leaves at worst a folder that is synced once more than needed.
        self.prefixes[usize::from(hash.as_bytes()[0])]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self, hash: &BlobHash) -> PathBuf {
        let [first, second, ..] = *hash.as_bytes();
        self.root.join(hex(first)).join(hex(second))
    }

    pub(super) fn timestamp(&self) -> Timestamp {
        self.clock.now()
    }

    fn now(&self) -> SystemTime {
        self.timestamp().into()
    }

    /// Whether a blob of this hash is there in another file than the `damaged` one; it is then fresh, and its name is on the
    /// disk.
    fn renew(
        &self,
        prefix: &mut Prefix,
        blob: &Blob,
        damaged: Option<FileId>,
    ) -> Result<bool, BlobError> {
        let Some(there) = self.refresh(&blob.hash).map_err(failed)? else {
            return Ok(false);
        };
        if damaged == Some(FileId::of(&there)) || there.len() != blob.size_bytes {
            return Ok(false);
        }
        if !prefix.has(blob.hash.as_bytes()[1]) {
            self.sync_way(prefix, &blob.hash)?;
        }
        Ok(true)
    }

    /// Sets the age of a blob to now, never back, and answers what its file is.
    fn refresh(&self, hash: &BlobHash) -> io::Result<Option<fs::Metadata>> {
        let Some(file) = if_there(File::open(self.path(hash)))? else {
            return Ok(None);
        };
        let metadata = file.metadata()?;
        let now = self.now();
        if metadata.modified()? < now {
            file.set_modified(now)?;
        }
        Ok(Some(metadata))
    }

    /// Gives bytes their name, and nobody knows when the disk will have them.
    fn place(&self, prefix: &mut Prefix, hash: &BlobHash, bytes: &Bytes) -> io::Result<()> {
        let mut file = TemporaryFile::create(&self.temporary)?;
        if !bytes.is_empty() {
            // Writing nothing would look like a disk that takes nothing.
            file.append(std::slice::from_ref(bytes))?;
        }
        self.make_folders(prefix, hash)?;
        prefix.unmark(hash.as_bytes()[1]);
        file.place(&self.path(hash), self.now())
    }

    /// Makes the two folders of a hash where they are missing.
    fn make_folders(&self, prefix: &mut Prefix, hash: &BlobHash) -> io::Result<()> {
        let [first, second, ..] = *hash.as_bytes();
        if prefix.has(second) {
            return Ok(());
        }
        let outer = self.root.join(hex(first));
        if make(&outer)? {
            prefix.nameless = true;
        }
        if make(&outer.join(hex(second)))? {
            prefix.synced = false;
        }
        Ok(())
    }

    /// Makes the name of a blob durable, and the names of the folders that lead to it. In this order, because a file system
    /// that keeps a journal writes all of it with the first and has nothing left to do for the others.
    fn sync_way(&self, prefix: &mut Prefix, hash: &BlobHash) -> Result<(), BlobError> {
        let [first, second, ..] = *hash.as_bytes();
        // Until all of it is done, a caller that meets the name has to make it durable.
        prefix.unmark(second);
        self.sync_folder(&self.folder(hash))?;
        if !prefix.synced {
            self.sync_folder(&self.root.join(hex(first)))?;
        }
        if prefix.nameless {
            self.sync_folder(&self.root)?;
        }
        prefix.synced = true;
        prefix.nameless = false;
        prefix.mark(second);
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> Result<(), BlobError> {
        // A folder that cannot be opened, for want of descriptors, says nothing about the disk.
        let opened = open_blob_folder(folder).map_err(failed)?;
        sync_blob_folder(&opened).map_err(|error| {
            self.health.poison(&error);
            BlobError::Io(Box::new(error))
        })
    }
}

impl Prefix {
    fn has(&self, second: u8) -> bool {
        self.parts[usize::from(second / 64)] & (1 << (second % 64)) != 0
    }

    fn unmark(&mut self, second: u8) {
        self.parts[usize::from(second / 64)] &= !(1 << (second % 64));
    }

    fn mark(&mut self, second: u8) {
        self.parts[usize::from(second / 64)] |= 1 << (second % 64);
    }
}

fn open_blob_folder(folder: &Path) -> io::Result<File> {
    crate::faults::fault_point!("blob-folder-open", |kind| Err(crate::faults::io(kind)));
    File::open(folder)
}

fn sync_blob_folder(folder: &File) -> io::Result<()> {
    crate::faults::fault_point!("blob-folder-sync", |kind| Err(crate::faults::io(kind)));
    folder.sync_all()
}

/// Makes a folder; whether it was not there.
fn make(folder: &Path) -> io::Result<bool> {
    match fs::create_dir(folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

fn hex(byte: u8) -> String {
    format!("{byte:02x}")
}

/// The folders in `folder` that are named by a byte, in order, from `from` on.
fn names(folder: &Path, from: Option<u8>) -> io::Result<Vec<u8>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let byte = name.to_str().filter(|name| name.len() == 2);
        if let Some(byte) = byte.and_then(|name| u8::from_str_radix(name, 16).ok())
            && from.is_none_or(|from| byte >= from)
        {
            names.push(byte);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The blobs in one innermost folder; other files there are passed over.
fn blobs_in(folder: &Path, prefix: [u8; 2]) -> io::Result<Vec<Blob>> {
    let mut blobs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let hash = name.to_str().and_then(|name| BlobHash::from_hex(name).ok());
        let Some(hash) = hash.filter(|hash| hash.as_bytes()[..2] == prefix) else {
            continue;
        };
        // Gone means deleted since the folder was read.
        if let Some(metadata) = if_there(entry.metadata())? {
            blobs.push(Blob {
                hash,
                size_bytes: metadata.len(),
            });
        }
    }
    Ok(blobs)
}
