//! Where blobs lie: `blobs/aa/<64 hex>`, and who may change what there when.
//!
//! A blob that an earlier version put into `blobs/aa/bb/` stays there, also when it is put again: a blob has one place.
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
use super::listing::Unlisted;
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
    pub(super) root: PathBuf,
    temporary: PathBuf,
    health: Health,
    reserve: Reserve,
    journal: Journal,
    clock: Clock,
    /// Taken after a prefix where both are needed.
    pub(super) integrity: Mutex<BlobIntegrity>,
    /// By the first byte of the hashes.
    prefixes: Vec<Mutex<Prefix>>,
    /// What the next page of a list begins with.
    pub(super) unlisted: Mutex<Option<Unlisted>>,
}

/// The folder that a blob lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layout {
    /// `aa/`.
    Flat,
    /// `aa/bb/`, of an earlier version.
    Nested,
}

/// What this process knows of one `aa/`. A process that was killed may have left names that the disk does not have yet.
#[derive(Default)]
pub(super) struct Prefix {
    /// Whether the folder is there.
    made: bool,
    /// Whether this process made it and its name is not on the disk yet.
    nameless: bool,
    /// Whether the names of its `bb/` are on the disk.
    outer_synced: bool,
    /// The blobs in the folder whose names are on the disk.
    flat: Names,
    /// Those in its `bb/`.
    nested: Names,
}

/// Names that are on the disk, by the second byte of their hashes: one bit for all that share it.
#[derive(Clone, Copy, Default)]
struct Names([u64; 4]);

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
            unlisted: Mutex::default(),
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
    pub(super) fn path(&self, layout: Layout, hash: &BlobHash) -> PathBuf {
        self.folder(layout, hash).join(hash.to_hex())
    }

    /// What `look` finds where a blob may lie, and where that is.
    pub(super) fn find<T>(
        &self,
        hash: &BlobHash,
        look: impl Fn(&Path) -> io::Result<T>,
    ) -> io::Result<Option<(Layout, T)>> {
        for layout in [Layout::Flat, Layout::Nested] {
            if let Some(found) = if_there(look(&self.path(layout, hash)))? {
                return Ok(Some((layout, found)));
            }
        }
        Ok(None)
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
        let there = self.refresh(&blob.hash).map_err(failed)?;
        if self.renew(&mut prefix, blob, there.as_ref(), damaged)? {
            return Ok(());
        }
        let layout = layout_of(there.as_ref());
        self.make_folder(&mut prefix, &blob.hash).map_err(failed)?;
        file.place(&self.path(layout, &blob.hash), self.now())
            .map_err(failed)?;
        self.note_put(blob);
        self.sync_way(&mut prefix, layout, &blob.hash)?;
        crate::faults::fault_point!("blob-placed");
        Ok(())
    }

    /// Gives bytes their name now, and has the next transaction of the database make them durable.
    pub(super) fn put_with_rows(&self, blob: &Blob, bytes: Bytes) -> Result<(), BlobError> {
        self.check()?;
        // Held to the end: a caller that meets the file finds its bytes waiting for the very next transaction.
        let mut prefix = self.prefix(&blob.hash);
        let there = self.refresh(&blob.hash).map_err(failed)?;
        let layout = layout_of(there.as_ref());
        let is_whole = there.is_some_and(|(_, there)| there.len() == blob.size_bytes)
            && self.holds(layout, &blob.hash, &bytes);
        if !is_whole {
            self.place(&mut prefix, layout, &blob.hash, &bytes)
                .map_err(failed)?;
        }
        self.note_put(blob);
        if is_whole && prefix.names(layout).has(&blob.hash) {
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
        let kept = self.find(&entry.hash, |path| fs::read(path))?;
        let layout = layout_of(kept.as_ref());
        if kept.is_some_and(|(_, kept)| kept == entry.bytes) {
            return Ok(());
        }
        let mut prefix = self.prefix(&entry.hash);
        self.place(&mut prefix, layout, &entry.hash, &entry.bytes)
    }

    /// If the blob is there already and whole, makes it as durable and as fresh as if it had just been put.
    pub(super) fn met(&self, blob: &Blob) -> Result<bool, BlobError> {
        self.check()?;
        let damaged = self.find_damaged(&blob.hash)?;
        let mut prefix = self.prefix(&blob.hash);
        let there = self.refresh(&blob.hash).map_err(failed)?;
        self.renew(&mut prefix, blob, there.as_ref(), damaged)
    }

    /// Renews the age of a blob that is not known to be damaged, and answers its size.
    pub(super) fn touch(&self, hash: &BlobHash) -> Result<Option<u64>, BlobError> {
        let _shelf = self.prefix(hash);
        if self.integrity().is_damaged(hash) {
            return Ok(None);
        }
        let there = self.refresh(hash).map_err(failed)?;
        Ok(there.map(|(_, there)| there.len()))
    }

    /// Removes a blob that is older than `untouched_since`; whether it is gone now.
    pub(super) fn delete(
        &self,
        hash: &BlobHash,
        untouched_since: Timestamp,
    ) -> Result<bool, BlobError> {
        self.check()?;
        let _shelf = self.prefix(hash);
        let found = self.find(hash, |path| fs::metadata(path)).map_err(failed)?;
        let Some((layout, metadata)) = found else {
            self.integrity().forget(hash);
            return Ok(true);
        };
        let touched_at = metadata.modified().map_err(failed)?;
        if touched_at >= SystemTime::from(untouched_since) {
            return Ok(false);
        }
        // Not made durable: a blob that comes back with the power is swept again.
        crate::faults::fault_point!("blob-delete");
        fs::remove_file(self.path(layout, hash)).map_err(failed)?;
        self.integrity().forget(hash);
        Ok(true)
    }

    pub(super) fn prefix(&self, hash: &BlobHash) -> MutexGuard<'_, Prefix> {
        // A panic leaves at worst a folder that is synced once more than needed.
        self.prefixes[usize::from(hash.as_bytes()[0])]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// `aa/`.
    pub(super) fn outer(&self, first: u8) -> PathBuf {
        self.root.join(hex(first))
    }

    fn folder(&self, layout: Layout, hash: &BlobHash) -> PathBuf {
        let [first, second, ..] = *hash.as_bytes();
        match layout {
            Layout::Flat => self.outer(first),
            Layout::Nested => self.outer(first).join(hex(second)),
        }
    }

    pub(super) fn timestamp(&self) -> Timestamp {
        self.clock.now()
    }

    fn now(&self) -> SystemTime {
        self.timestamp().into()
    }

    /// Whether what is there of a blob is whole and no `damaged` file; its name is then on the disk.
    fn renew(
        &self,
        prefix: &mut Prefix,
        blob: &Blob,
        there: Option<&(Layout, fs::Metadata)>,
        damaged: Option<FileId>,
    ) -> Result<bool, BlobError> {
        let Some((layout, there)) = there else {
            return Ok(false);
        };
        if damaged == Some(FileId::of(there)) || there.len() != blob.size_bytes {
            return Ok(false);
        }
        if !prefix.names(*layout).has(&blob.hash) {
            self.sync_way(prefix, *layout, &blob.hash)?;
        }
        Ok(true)
    }

    /// Sets the age of a blob to now, never back, and answers where its file is, and what.
    fn refresh(&self, hash: &BlobHash) -> io::Result<Option<(Layout, fs::Metadata)>> {
        let Some((layout, file)) = self.find(hash, |path| File::open(path))? else {
            return Ok(None);
        };
        let metadata = file.metadata()?;
        let now = self.now();
        if metadata.modified()? < now {
            file.set_modified(now)?;
        }
        Ok(Some((layout, metadata)))
    }

    /// Gives bytes their name, and nobody knows when the disk will have them.
    fn place(
        &self,
        prefix: &mut Prefix,
        layout: Layout,
        hash: &BlobHash,
        bytes: &Bytes,
    ) -> io::Result<()> {
        let mut file = TemporaryFile::create(&self.temporary)?;
        if !bytes.is_empty() {
            // Writing nothing would look like a disk that takes nothing.
            file.append(std::slice::from_ref(bytes))?;
        }
        self.make_folder(prefix, hash)?;
        prefix.names_mut(layout).unmark(hash);
        file.place(&self.path(layout, hash), self.now())
    }

    /// Makes the folder of a hash, once.
    fn make_folder(&self, prefix: &mut Prefix, hash: &BlobHash) -> io::Result<()> {
        if !prefix.made {
            prefix.nameless |= make(&self.folder(Layout::Flat, hash))?;
            prefix.made = true;
        }
        Ok(())
    }

    /// Makes the name of a blob durable, and the names of the folders that lead to it. In this order, because a file system
    /// that keeps a journal writes all of it with the first and has nothing left to do for the others.
    fn sync_way(
        &self,
        prefix: &mut Prefix,
        layout: Layout,
        hash: &BlobHash,
    ) -> Result<(), BlobError> {
        // Until all of it is done, a caller that meets the name has to make it durable.
        prefix.names_mut(layout).unmark(hash);
        if layout == Layout::Nested {
            self.sync_folder(&self.folder(layout, hash))?;
        }
        if layout == Layout::Flat || !prefix.outer_synced {
            self.sync_folder(&self.folder(Layout::Flat, hash))?;
        }
        if prefix.nameless {
            self.sync_folder(&self.root)?;
        }
        prefix.nameless = false;
        // Nobody makes another `bb/`.
        prefix.outer_synced = true;
        match layout {
            Layout::Flat => prefix.flat = Names::ALL,
            Layout::Nested => prefix.nested.mark(hash),
        }
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
    fn names(&self, layout: Layout) -> &Names {
        match layout {
            Layout::Flat => &self.flat,
            Layout::Nested => &self.nested,
        }
    }

    fn names_mut(&mut self, layout: Layout) -> &mut Names {
        match layout {
            Layout::Flat => &mut self.flat,
            Layout::Nested => &mut self.nested,
        }
    }
}

impl Names {
    const ALL: Self = Self([u64::MAX; 4]);

    fn has(&self, hash: &BlobHash) -> bool {
        let (word, bit) = Self::place(hash);
        self.0[word] & bit != 0
    }

    fn unmark(&mut self, hash: &BlobHash) {
        let (word, bit) = Self::place(hash);
        self.0[word] &= !bit;
    }

    fn mark(&mut self, hash: &BlobHash) {
        let (word, bit) = Self::place(hash);
        self.0[word] |= bit;
    }

    fn place(hash: &BlobHash) -> (usize, u64) {
        let second = hash.as_bytes()[1];
        (usize::from(second / 64), 1 << (second % 64))
    }
}

/// Where a blob is put: a file of it that is there is replaced, so that it has one place.
fn layout_of<T>(there: Option<&(Layout, T)>) -> Layout {
    there.map_or(Layout::Flat, |(layout, _)| *layout)
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

pub(super) fn hex(byte: u8) -> String {
    format!("{byte:02x}")
}
