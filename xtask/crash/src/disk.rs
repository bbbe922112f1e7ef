//! What an installation lies on, and what becomes of that when the process dies.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use it::random::Random;

/// Makes disks.
pub(crate) trait Disks: Debug + Send + Sync {
    /// An empty one in the folder of an installation.
    ///
    /// # Errors
    /// When it cannot be made.
    fn make(&self, folder: &Path) -> io::Result<Box<dyn Disk>>;
}

/// What the death of a process took from its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// Nothing: what was written is there.
    Kill,
    /// What was not synced may be gone.
    PowerCut,
}

/// The disk of an installation.
pub(crate) trait Disk: Send {
    /// Where the data directory is, or will be.
    fn data_dir(&self) -> PathBuf;

    /// A process is about to start. Returns whether the disk ends it, at any moment from its start on.
    fn arm(&mut self, random: Random) -> bool;

    /// The process is dead: the disk becomes what the next one finds.
    ///
    /// # Errors
    /// When it cannot.
    fn died(&mut self, random: Random) -> io::Result<Death>;

    /// Keeps what is on the disk in the folder of the installation, for people.
    ///
    /// # Errors
    /// When it cannot be written.
    fn keep(&self, folder: &Path) -> io::Result<()>;
}

/// Plain folders of this machine, which survive everything.
#[derive(Debug)]
pub(super) struct Folders;

#[derive(Debug)]
struct Folder(PathBuf);

impl Disks for Folders {
    fn make(&self, folder: &Path) -> io::Result<Box<dyn Disk>> {
        Ok(Box::new(Folder(folder.join("data"))))
    }
}

impl Disk for Folder {
    fn data_dir(&self) -> PathBuf {
        self.0.clone()
    }

    fn arm(&mut self, _random: Random) -> bool {
        false
    }

    fn died(&mut self, _random: Random) -> io::Result<Death> {
        Ok(Death::Kill)
    }

    fn keep(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }
}
