//! Comparing files with the hashes that name them, and what follows from it.
//!
//! A comparison is of one file. While it runs the file may be replaced or deleted, so what it found is noted only while that
//! very file is in the blob's place. A file that cannot be read is as damaged as one with other bytes.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::sync::{MutexGuard, PoisonError};

use asset_store::{Blob, BlobError, BlobHash, BlobIntegrity};

use super::directory::{BlobDirectory, Layout};
use super::failed;
use super::reader::SMALL;

/// Bytes that are compared at once.
const PIECE: usize = 256 * 1024;

/// One file, whatever its name becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// A comparison under way.
pub(super) struct Comparison {
    hash: BlobHash,
    file: File,
    id: FileId,
    hasher: Box<blake3::Hasher>,
    piece: Vec<u8>,
    read_bytes: u64,
}

/// What a step of a comparison came to.
pub(super) enum Compared {
    /// So many bytes were read, and more may follow.
    Piece(u64),
    /// So many bytes were read, the last ones.
    End(u64),
    /// The file could not be read on.
    Unreadable(io::Error),
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

impl Comparison {
    /// Reads on.
    pub(super) fn step(&mut self) -> Compared {
        self.piece.clear();
        let wanted = PIECE as u64;
        match (&self.file).take(wanted).read_to_end(&mut self.piece) {
            Ok(read) => {
                let read = read as u64;
                self.hasher.update(&self.piece);
                self.read_bytes += read;
                match read == wanted {
                    true => Compared::Piece(read),
                    false => Compared::End(read),
                }
            }
            Err(error) => Compared::Unreadable(error),
        }
    }

    /// Has the system forget what it holds of the file, so that the disk is what is compared, and nothing else is
    /// pushed out of memory for it. Only a hint.
    pub(super) fn pass_cache(&self) {
        #[cfg(target_os = "linux")]
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
    }
}

impl BlobDirectory {
    pub(super) fn integrity(&self) -> MutexGuard<'_, BlobIntegrity> {
        // Every change leaves it whole: what a panic lost is found again.
        self.integrity
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to compare a blob; [`BlobError::Absent`] if it is not there.
    pub(super) fn compare(&self, hash: &BlobHash) -> Result<Comparison, BlobError> {
        let opened = self.find(hash, |path| File::open(path)).map_err(failed)?;
        let (_, file) = opened.ok_or(BlobError::Absent)?;
        let id = FileId::of(&file.metadata().map_err(failed)?);
        Ok(Comparison {
            hash: *hash,
            file,
            id,
            hasher: Box::default(),
            piece: Vec::new(),
            read_bytes: 0,
        })
    }

    /// Notes what a comparison found that was read to its end, or as far as the file could be read.
    pub(super) fn conclude(
        &self,
        comparison: &Comparison,
        unreadable: Option<&io::Error>,
    ) -> Result<(), BlobError> {
        let hash = comparison.hash;
        let found = BlobHash::from(comparison.hasher.finalize());
        let prefix = self.prefix(&hash);
        let there = self
            .find(&hash, |path| fs::metadata(path))
            .map_err(failed)?;
        if there.map(|(_, there)| FileId::of(&there)) != Some(comparison.id) {
            // Put anew, or deleted: what was read is not the blob any more.
            return Ok(());
        }
        if found == hash && unreadable.is_none() {
            let size_bytes = comparison.read_bytes;
            self.note_put(&Blob { hash, size_bytes });
            return Ok(());
        }
        let is_new = self.integrity().damaged(hash);
        drop(prefix);
        if is_new {
            let reason = match unreadable {
                Some(error) => error.to_string(),
                None => format!("its bytes hash to {found}"),
            };
            tracing::error!(
                %hash,
                reason,
                "a blob is damaged and read no more; upload its bytes again, or restore its file from a backup"
            );
        }
        Err(BlobError::Damaged(hash))
    }

    /// Compares a blob at once.
    pub(super) fn confirm(&self, hash: &BlobHash) -> Result<(), BlobError> {
        self.compare_all(self.compare(hash)?)
    }

    /// The file in a blob's place, if it is there and damaged.
    pub(super) fn find_damaged(&self, hash: &BlobHash) -> Result<Option<FileId>, BlobError> {
        let comparison = match self.compare(hash) {
            Err(BlobError::Absent) => return Ok(None),
            begun => begun?,
        };
        let id = comparison.id;
        match self.compare_all(comparison) {
            Err(BlobError::Damaged(_)) => Ok(Some(id)),
            compared => compared.map(|()| None),
        }
    }

    /// Notes that what is in a blob's place is whole. Its prefix must be held.
    pub(super) fn note_put(&self, blob: &Blob) {
        let was_damaged = self.integrity().healed(&blob.hash);
        if was_damaged {
            tracing::info!(hash = %blob.hash, "a damaged blob is whole again");
        }
        self.note_read(blob);
    }

    /// Notes that a reader got all of a blob and found it right.
    pub(super) fn note_read(&self, blob: &Blob) {
        // Small ones are compared whenever they are read.
        if blob.size_bytes > SMALL {
            self.integrity().verified(blob, self.timestamp());
        }
    }

    /// Whether a blob of this size was compared lately.
    pub(super) fn was_verified(&self, blob: &Blob) -> bool {
        let verified = self.integrity().verified_size(&blob.hash, self.timestamp());
        verified == Some(blob.size_bytes)
    }

    /// Whether the file in a blob's place has these bytes; one that cannot be read has not.
    pub(super) fn holds(&self, layout: Layout, hash: &BlobHash, bytes: &[u8]) -> bool {
        fs::read(self.path(layout, hash)).is_ok_and(|there| there == bytes)
    }

    fn compare_all(&self, mut comparison: Comparison) -> Result<(), BlobError> {
        loop {
            match comparison.step() {
                Compared::Piece(_) => {}
                Compared::End(_) => return self.conclude(&comparison, None),
                Compared::Unreadable(error) => return self.conclude(&comparison, Some(&error)),
            }
        }
    }
}
