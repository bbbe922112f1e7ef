//! The disk of one installation: its files and names, what of them is durable, and the moment when the power goes.
//!
//! What a file system must keep after a sync is kept here and nothing more, where real ones keep more: syncing a file does not
//! save its name, syncing a directory saves no bytes, and nothing is in order unless a sync lies between.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::Broken;
use super::content::Content;
use super::fate::Fate;
use super::names::{Change, Inode, Name, Names};

/// The directory that is mounted.
pub(super) const ROOT: Inode = 1;

/// The numbers of errors that the disk answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Refusal {
    NotFound = 2,
    Io = 5,
    Exists = 17,
    NotADirectory = 20,
    Invalid = 22,
    NotSupported = 38,
    NotEmpty = 39,
}

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    /// A socket: its name is all that it has on a disk.
    Socket,
}

/// What is known of a file besides names and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    /// Since 1970.
    pub(super) modified: Duration,
}

/// A file or directory.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) attributes: Attributes,
    durable_attributes: Attributes,
    pub(super) content: Content,
}

/// What happened to a disk, for a report.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) cuts: u64,
    /// Cuts at a chosen operation.
    pub(super) at_operations: u64,
    /// Deaths of the process alone.
    pub(super) kills: u64,
    pub(super) operations: u64,
    pub(super) syncs: u64,
    pub(super) file_system_syncs: u64,
    /// Files with bytes in doubt when the power was cut.
    pub(super) doubtful_files: u64,
    /// Changes of names in doubt, and those of them that were lost.
    pub(super) doubtful_names: u64,
    pub(super) lost_names: u64,
}

/// Everything that a disk has.
#[derive(Debug)]
pub(super) struct Disk {
    nodes: BTreeMap<Inode, Node>,
    names: Names,
    next: Inode,
    broken: Broken,
    /// Operations until the power goes.
    until_off: Option<u64>,
    pub(super) counts: Counts,
}

/// Whether an operation happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Power {
    On,
    /// It goes at this very operation.
    Off,
}

type Done<T> = Result<T, Refusal>;

impl Disk {
    /// An empty one.
    pub(super) fn new(broken: Broken) -> Self {
        let mut disk = Self {
            nodes: BTreeMap::new(),
            names: Names::default(),
            next: ROOT,
            broken,
            until_off: None,
            counts: Counts::default(),
        };
        disk.add(Kind::Directory, 0o755, (0, 0));
        disk
    }

    /// Lets the power go at the operation that follows `passing` others; never if that is `None`.
    pub(super) fn arm(&mut self, passing: Option<u64>) {
        self.until_off = passing;
    }

    /// An operation begins that changes or syncs something.
    pub(super) fn begin(&mut self) -> Power {
        self.counts.operations += 1;
        match &mut self.until_off {
            Some(0) => {
                self.until_off = None;
                self.counts.at_operations += 1;
                Power::Off
            }
            Some(left) => {
                *left -= 1;
                Power::On
            }
            None => Power::On,
        }
    }

    /// The power is cut; returns what is found afterwards, in words.
    pub(super) fn cut(&mut self, mut fate: Fate) -> String {
        self.counts.cuts += 1;
        self.until_off = None;
        let mut doubtful = 0;
        for node in self.nodes.values_mut() {
            if fate.spares() {
                node.durable_attributes = node.attributes;
            }
            node.attributes = node.durable_attributes;
            if !node.content.is_synced() {
                doubtful += 1;
                node.content.cut(&mut fate);
            }
        }
        let names = self.names.unsynced();
        let lost = self.names.cut(&mut fate);
        self.counts.doubtful_files += doubtful;
        self.counts.doubtful_names += names as u64;
        self.counts.lost_names += lost.len() as u64;
        self.forget_unreachable();
        format!(
            "cut: {}; {doubtful} files and {names} changes of names in doubt; lost: {}",
            fate.describe(),
            describe(&lost)
        )
    }

    /// The process is dead and the power stays on.
    pub(super) fn killed(&mut self) {
        self.counts.kills += 1;
        self.until_off = None;
        self.forget_unreachable();
    }

    fn forget_unreachable(&mut self) {
        let reachable = self.names.reachable(ROOT);
        self.nodes.retain(|inode, _| reachable.contains(inode));
    }

    pub(super) fn node(&self, inode: Inode) -> Done<&Node> {
        self.nodes.get(&inode).ok_or(Refusal::NotFound)
    }

    fn node_mut(&mut self, inode: Inode) -> Done<&mut Node> {
        self.nodes.get_mut(&inode).ok_or(Refusal::NotFound)
    }

    pub(super) fn find(&self, name: &Name) -> Done<Inode> {
        self.names.find(name).ok_or(Refusal::NotFound)
    }

    /// The names in a directory with where they lead.
    pub(super) fn list(&self, directory: Inode) -> Vec<(Vec<u8>, Inode)> {
        let names = self.names.list(directory);
        names.map(|(name, inode)| (name.to_vec(), inode)).collect()
    }

    /// Makes a file or directory that was not there.
    pub(super) fn create(
        &mut self,
        name: Name,
        kind: Kind,
        mode: u32,
        owner: (u32, u32),
    ) -> Done<Inode> {
        if self.names.find(&name).is_some() {
            return Err(Refusal::Exists);
        }
        self.node(name.directory)?;
        let inode = self.add(kind, mode, owner);
        self.change(vec![(name, Some(inode))]);
        Ok(inode)
    }

    /// Gives a file another name.
    pub(super) fn link(&mut self, inode: Inode, name: Name) -> Done<()> {
        self.node(inode)?;
        if self.names.find(&name).is_some() {
            return Err(Refusal::Exists);
        }
        self.change(vec![(name, Some(inode))]);
        Ok(())
    }

    /// Removes a name; `directory` says of what.
    pub(super) fn remove(&mut self, name: Name, directory: bool) -> Done<()> {
        let inode = self.find(&name)?;
        let is_directory = self.node(inode)?.kind == Kind::Directory;
        if directory && !is_directory {
            return Err(Refusal::NotADirectory);
        }
        if directory && self.names.list(inode).next().is_some() {
            return Err(Refusal::NotEmpty);
        }
        self.change(vec![(name, None)]);
        Ok(())
    }

    /// Renames, in place of what is there unless that is to `stay`.
    pub(super) fn rename(&mut self, from: Name, to: Name, stay: bool) -> Done<()> {
        let inode = self.find(&from)?;
        match self.names.find(&to) {
            Some(_) if stay => return Err(Refusal::Exists),
            Some(there) if there == inode => return Ok(()),
            Some(there) if self.names.list(there).next().is_some() => {
                return Err(Refusal::NotEmpty);
            }
            Some(_) | None => {}
        }
        self.change(vec![(from, None), (to, Some(inode))]);
        Ok(())
    }

    pub(super) fn write(&mut self, inode: Inode, offset: u64, bytes: &[u8]) -> Done<()> {
        let node = self.node_mut(inode)?;
        node.content.write(offset, bytes);
        node.attributes.modified = now();
        Ok(())
    }

    pub(super) fn resize(&mut self, inode: Inode, size: u64) -> Done<()> {
        let node = self.node_mut(inode)?;
        node.content.resize(size);
        node.attributes.modified = now();
        Ok(())
    }

    /// Changes what else is known of a file.
    pub(super) fn set(&mut self, inode: Inode, set: impl FnOnce(&mut Attributes)) -> Done<()> {
        set(&mut self.node_mut(inode)?.attributes);
        Ok(())
    }

    /// Makes a file durable, or the names in a directory; of a file's attributes only if `whole`.
    pub(super) fn sync(&mut self, inode: Inode, whole: bool) -> Done<()> {
        self.counts.syncs += 1;
        let broken = self.broken;
        let node = self.node_mut(inode)?;
        match node.kind {
            Kind::Directory if broken == Broken::Directories => {}
            Kind::Directory => self.names.sync(inode),
            Kind::File | Kind::Socket if broken == Broken::Files => {}
            Kind::File | Kind::Socket => {
                node.content.sync();
                if whole {
                    node.durable_attributes = node.attributes;
                }
            }
        }
        Ok(())
    }

    /// Makes everything durable.
    pub(super) fn sync_all(&mut self) {
        self.counts.file_system_syncs += 1;
        if self.broken == Broken::FileSystems {
            return;
        }
        for node in self.nodes.values_mut() {
            node.content.sync();
            node.durable_attributes = node.attributes;
        }
        self.names.sync_all();
    }

    fn change(&mut self, change: Change) {
        for (name, _) in &change {
            if let Some(directory) = self.nodes.get_mut(&name.directory) {
                directory.attributes.modified = now();
            }
        }
        self.names.change(change);
    }

    fn add(&mut self, kind: Kind, mode: u32, owner: (u32, u32)) -> Inode {
        let inode = self.next;
        self.next += 1;
        let attributes = Attributes {
            mode,
            owner,
            modified: now(),
        };
        let node = Node {
            kind,
            attributes,
            durable_attributes: attributes,
            content: Content::default(),
        };
        self.nodes.insert(inode, node);
        inode
    }
}

impl Counts {
    /// Adds those of another disk.
    pub(super) fn add(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.at_operations += other.at_operations;
        self.kills += other.kills;
        self.operations += other.operations;
        self.syncs += other.syncs;
        self.file_system_syncs += other.file_system_syncs;
        self.doubtful_files += other.doubtful_files;
        self.doubtful_names += other.doubtful_names;
        self.lost_names += other.lost_names;
    }
}

/// Changes of names in words.
fn describe(changes: &[Change]) -> String {
    let one = |(name, inode): &(Name, Option<Inode>)| {
        let text = String::from_utf8_lossy(&name.name);
        match inode {
            Some(inode) => format!("{}/{text} -> {inode}", name.directory),
            None => format!("{}/{text} removed", name.directory),
        }
    };
    let change = |change: &Change| change.iter().map(one).collect::<Vec<_>>().join(" and ");
    changes.iter().map(change).collect::<Vec<_>>().join(", ")
}

fn now() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}

#[cfg(test)]
mod tests;
