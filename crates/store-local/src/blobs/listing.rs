//! Blobs in the order of their hashes, a page at a time.
//!
//! A folder of blobs has no order, so all of its names are read and put into one. What a page leaves of them is kept for the
//! next page: otherwise a pass over a folder of 40,000 blobs would read it 80 times.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use asset_store::{Blob, BlobHash};

use super::directory::{BlobDirectory, Layout};
use crate::directory::if_there;

/// How long names that were read are gone through. A blob that was put since is met by the next pass.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// What a page left of an `aa/`.
pub(super) struct Unlisted {
    /// The last blob of the page.
    after: BlobHash,
    names: Unread,
}

/// Blobs of one `aa/`, in the order of their hashes from the end.
struct Unread {
    read_at: Instant,
    left: Vec<(BlobHash, Layout)>,
}

impl BlobDirectory {
    /// Blobs in the order of their hashes, from behind `after`.
    pub(super) fn list(&self, after: Option<BlobHash>, limit: usize) -> io::Result<Vec<Blob>> {
        let mut found = Vec::new();
        if limit == 0 {
            return Ok(found);
        }
        let mut unlisted = after.and_then(|after| self.left_behind(after));
        for first in folders(&self.root)? {
            if after.is_some_and(|after| first < after.as_bytes()[0]) {
                continue;
            }
            let is_begun = after.is_some_and(|after| first == after.as_bytes()[0]);
            let mut names = match unlisted.take_if(|_| is_begun) {
                Some(names) => names,
                None => self.names(first, after)?,
            };
            while let Some((hash, layout)) = names.left.pop() {
                // Gone means deleted since the names were read.
                let there = fs::symlink_metadata(self.path(layout, &hash));
                let Some(there) = if_there(there)? else {
                    continue;
                };
                found.push(Blob {
                    hash,
                    size_bytes: there.len(),
                });
                if found.len() >= limit {
                    *self.unlisted() = Some(Unlisted { after: hash, names });
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    /// What the page that ended with this blob left, if it was the latest one.
    fn left_behind(&self, after: BlobHash) -> Option<Unread> {
        let unlisted = self.unlisted().take()?;
        let is_next = unlisted.after == after && unlisted.names.read_at.elapsed() < KEPT_FOR;
        is_next.then_some(unlisted.names)
    }

    fn unlisted(&self) -> MutexGuard<'_, Option<Unlisted>> {
        // It is put in whole, and taken out whole.
        self.unlisted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The blobs in one `aa/` that are behind `after`; other files there are passed over.
    fn names(&self, first: u8, after: Option<BlobHash>) -> io::Result<Unread> {
        let (read_at, outer) = (Instant::now(), self.outer(first));
        let mut left = Vec::new();
        let mut take = |name: &str, layout, prefix: &[u8]| {
            let hash = BlobHash::from_hex(name).ok();
            let hash = hash.filter(|hash| hash.as_bytes().starts_with(prefix));
            left.extend(
                hash.filter(|hash| after.is_none_or(|after| *hash > after))
                    .map(|hash| (hash, layout)),
            );
        };
        for entry in fs::read_dir(&outer)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            let Some(second) = byte(name) else {
                take(name, Layout::Flat, &[first]);
                continue;
            };
            for entry in fs::read_dir(outer.join(name))? {
                if let Some(name) = entry?.file_name().to_str() {
                    take(name, Layout::Nested, &[first, second]);
                }
            }
        }
        left.sort_unstable_by_key(|(hash, layout)| (Reverse(*hash), *layout));
        left.dedup_by_key(|(hash, _)| *hash);
        Ok(Unread { read_at, left })
    }
}

/// The folders in `folder` that are named by a byte, in order.
fn folders(folder: &Path) -> io::Result<Vec<u8>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().to_str().and_then(byte));
    }
    names.sort_unstable();
    Ok(names)
}

/// The byte that a folder is named by.
fn byte(name: &str) -> Option<u8> {
    let two = Some(name).filter(|name| name.len() == 2)?;
    u8::from_str_radix(two, 16).ok()
}
