//! The names of a file system: what every directory has for certain, and the changes since then in their order.
//!
//! A change is whole or not there at all: a rename never leaves both names or none. Whether it survives a cut is up to the
//! [`Fate`] of the cut, but a change is lost with any earlier one that it builds on, which is one that touched the same name.
//! Syncing a directory makes the changes of its names durable, those that they build on, and nothing else: not the bytes of
//! the files, and not the name of the directory itself.

use std::collections::{BTreeMap, BTreeSet};

use super::fate::Fate;

/// A file or directory, by its number.
pub(super) type Inode = u64;

/// The name of a file in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) directory: Inode,
    pub(super) name: Vec<u8>,
}

/// What becomes of some names, at once: each leads to an inode from then on, or nowhere.
pub(super) type Change = Vec<(Name, Option<Inode>)>;

type Entries = BTreeMap<Name, Inode>;

/// The names of all directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// What the disk has.
    durable: Entries,
    /// What programs see.
    now: Entries,
    /// From the one to the other.
    changes: Vec<Change>,
}

impl Names {
    /// Where a name leads.
    pub(super) fn find(&self, name: &Name) -> Option<Inode> {
        self.now.get(name).copied()
    }

    /// The names in a directory, in order.
    pub(super) fn list(&self, directory: Inode) -> impl Iterator<Item = (&[u8], Inode)> {
        in_directory(&self.now, directory)
    }

    /// Changes names, which no cut has to spare before a sync.
    pub(super) fn change(&mut self, change: Change) {
        apply(&mut self.now, &change);
        self.changes.push(change);
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync(&mut self, directory: Inode) {
        let mut wanted = BTreeSet::new();
        let mut is_synced = vec![false; self.changes.len()];
        for (index, change) in self.changes.iter().enumerate().rev() {
            is_synced[index] = change
                .iter()
                .any(|(name, _)| name.directory == directory || wanted.contains(name));
            if is_synced[index] {
                wanted.extend(change.iter().map(|(name, _)| name.clone()));
            }
        }
        let mut is_synced = is_synced.into_iter();
        self.settle(|_| is_synced.next().unwrap_or(false));
    }

    /// Makes all names durable.
    pub(super) fn sync_all(&mut self) {
        self.settle(|_| true);
    }

    /// The power is cut; returns the changes that were lost.
    pub(super) fn cut(&mut self, fate: &mut Fate) -> Vec<Change> {
        let mut left = fate.ordered(self.changes.len());
        let mut lost_names: BTreeSet<Name> = BTreeSet::new();
        self.settle(|change| {
            let survives = match &mut left {
                Some(left) => {
                    let survives = *left > 0;
                    *left = left.saturating_sub(1);
                    survives
                }
                None => fate.spares() && change.iter().all(|(name, _)| !lost_names.contains(name)),
            };
            if !survives {
                lost_names.extend(change.iter().map(|(name, _)| name.clone()));
            }
            survives
        });
        self.now = self.durable.clone();
        std::mem::take(&mut self.changes)
    }

    /// How many changes are in doubt.
    pub(super) fn unsynced(&self) -> usize {
        self.changes.len()
    }

    /// The inodes that a name or an unsynced change leads to. Removes the names in directories that are not among them.
    pub(super) fn reachable(&mut self, root: Inode) -> BTreeSet<Inode> {
        let mut found = BTreeSet::from([root]);
        let mut waiting = vec![root];
        while let Some(directory) = waiting.pop() {
            let durable = in_directory(&self.durable, directory).map(|(_, inode)| inode);
            let now = in_directory(&self.now, directory).map(|(_, inode)| inode);
            let changes = self.changes.iter().flatten();
            let changed = changes
                .filter(|(name, _)| name.directory == directory)
                .filter_map(|(_, inode)| *inode);
            let inodes: Vec<Inode> = durable.chain(now).chain(changed).collect();
            waiting.extend(inodes.into_iter().filter(|inode| found.insert(*inode)));
        }
        self.durable
            .retain(|name, _| found.contains(&name.directory));
        self.now.retain(|name, _| found.contains(&name.directory));
        found
    }

    /// Makes those changes durable that are `settled`, asking for one after the other.
    fn settle(&mut self, mut settled: impl FnMut(&Change) -> bool) {
        let durable = &mut self.durable;
        self.changes.retain(|change| {
            let is_settled = settled(change);
            if is_settled {
                apply(durable, change);
            }
            !is_settled
        });
    }
}

fn apply(entries: &mut Entries, change: &Change) {
    for (name, inode) in change {
        match inode {
            Some(inode) => entries.insert(name.clone(), *inode),
            None => entries.remove(name),
        };
    }
}

fn in_directory(entries: &Entries, directory: Inode) -> impl Iterator<Item = (&[u8], Inode)> {
    let first = Name {
        directory,
        name: Vec::new(),
    };
    let all = entries.range(first..);
    all.take_while(move |(name, _)| name.directory == directory)
        .map(|(name, inode)| (&name.name[..], *inode))
}

#[cfg(test)]
mod tests;
