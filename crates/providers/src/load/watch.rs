//! Noticing that a folder has changed, by asking.
//!
//! A look costs one listing. Notifications of the operating system are not used: they miss network file systems and
//! folders that are swapped by renaming, which is how configuration is delivered in many places.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A folder, and how it looked last.
#[derive(Debug)]
pub struct Watch {
    folder: PathBuf,
    seen: Vec<Entry>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    path: PathBuf,
    modified: Option<SystemTime>,
    bytes: u64,
}

impl Watch {
    /// Watches a folder from now on.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        let seen = look(&folder);
        Self { folder, seen }
    }

    /// Whether something has changed since it was last asked.
    #[must_use]
    pub fn has_changed(&mut self) -> bool {
        let now = look(&self.folder);
        let changed = now != self.seen;
        self.seen = now;
        changed
    }
}

/// Every file of the folder and of the folders in it. What cannot be read is not there.
fn look(folder: &Path) -> Vec<Entry> {
    let mut entries = Vec::new();
    for path in listed(folder) {
        if path.is_dir() {
            entries.extend(listed(&path).into_iter().map(entry));
        } else {
            entries.push(entry(path));
        }
    }
    entries.sort();
    entries
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    let listing = fs::read_dir(folder).into_iter().flatten();
    listing.flatten().map(|entry| entry.path()).collect()
}

fn entry(path: PathBuf) -> Entry {
    let metadata = fs::metadata(&path).ok();
    Entry {
        modified: metadata.as_ref().and_then(|data| data.modified().ok()),
        bytes: metadata.map_or(0, |data| data.len()),
        path,
    }
}
