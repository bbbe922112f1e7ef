//! `cargo xtask power`: the campaign of [`crate`] on a disk that loses what was not synced whenever the server dies.
//!
//! The data directory lies on a file system of this process ([`serve`], mounted through FUSE), which keeps two states of
//! everything: what programs see, and what a disk is bound to have after a power cut. When the server died, mostly at one of
//! its own operations on the disk, one of the many states that a cut may leave is chosen ([`fate`]), and the next server starts
//! over that. Clients, oracle and checks are those of [`crate`].

mod content;
mod disk;
mod fate;
mod mount;
mod names;
mod serve;
mod wire;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, ValueEnum};

use self::disk::{Counts, Disk};
use self::fate::Fate;
use self::mount::Mount;
use self::serve::{Shared, lock};
use crate::{Common, Plan, disk as seam};
use it::random::Random;

/// How long to go on, and where to begin.
#[derive(Debug, Args)]
pub struct Options {
    /// How often the power goes, about, over all lanes; one more death for each three of them leaves it on.
    #[arg(long, default_value_t = 200)]
    cuts: u64,
    /// Let the disk break a promise, which the campaign has to notice: it succeeds if an invariant is broken.
    #[arg(long, value_enum, default_value_t = Broken::Nothing)]
    broken: Broken,
    #[command(flatten)]
    common: Common,
}

/// The promise that a disk breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Broken {
    /// None.
    Nothing,
    /// Syncing a file does nothing.
    Files,
    /// Syncing a directory does nothing.
    Directories,
    /// Syncing the whole file system does nothing.
    FileSystems,
}

/// Disks that lose what was not synced.
#[derive(Debug)]
struct VolatileDisks {
    broken: Broken,
    counts: Arc<Mutex<Counts>>,
}

/// The disk of an installation.
struct VolatileDisk {
    folder: PathBuf,
    disk: Shared,
    mount: Option<Mount>,
    /// What every cut did, for people.
    log: File,
    counts: Arc<Mutex<Counts>>,
}

/// Of so many deaths one leaves the power on.
const ONE_IS_A_KILL: u64 = 4;
/// The power goes at an operation below two to this power: a start makes some dozen, a cycle some hundred. A process that makes
/// fewer stops before.
const MOST_DOUBLINGS: u64 = 13;

/// Runs a campaign and writes its summary; returns whether no invariant was broken, or one was if the disk breaks a promise.
///
/// # Errors
/// When the server cannot be built, disks cannot be mounted, or the campaign's own files cannot be written.
pub fn run(root: &Path, options: Options, out: &mut dyn Write) -> io::Result<bool> {
    mount::with_own_mounts()?;
    expect_syncfs()?;
    mount::own_boots()?;
    let counts = Arc::default();
    let plan = Plan {
        cycles: options.cuts + options.cuts.div_ceil(ONE_IS_A_KILL - 1),
        point: None,
        disks: Arc::new(VolatileDisks {
            broken: options.broken,
            counts: Arc::clone(&counts),
        }),
    };
    let is_clean = crate::campaign(root, plan, options.common, out)?;
    let counts = *counts.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(out, "power: {counts}")?;
    if options.broken == Broken::Nothing {
        return Ok(is_clean);
    }
    let noticed = if is_clean { "was not" } else { "was" };
    writeln!(out, "power: the broken promise {noticed} noticed")?;
    Ok(!is_clean)
}

impl seam::Disks for VolatileDisks {
    fn make(&self, folder: &Path) -> io::Result<Box<dyn seam::Disk>> {
        let made = VolatileDisk::new(folder, self.broken, Arc::clone(&self.counts))?;
        Ok(Box::new(made))
    }
}

impl VolatileDisk {
    fn new(folder: &Path, broken: Broken, counts: Arc<Mutex<Counts>>) -> io::Result<Self> {
        let mut disk = Disk::new(broken);
        // What is mounted was there before the installation.
        disk.sync_all();
        disk.counts = Counts::default();
        let disk = Arc::new(Mutex::new(disk));
        Ok(Self {
            mount: Some(Mount::new(&folder.join("disk"), Arc::clone(&disk))?),
            log: File::create(folder.join("disk.log"))?,
            folder: folder.to_owned(),
            disk,
            counts,
        })
    }
}

impl seam::Disk for VolatileDisk {
    fn data_dir(&self) -> PathBuf {
        self.folder.join("disk").join("data")
    }

    /// Mostly the power goes at an operation of the disk: there are far more of them than fault points.
    fn arm(&mut self, mut random: Random) -> bool {
        let is_armed = random.below(3) > 0;
        let about = 1 << random.below(MOST_DOUBLINGS);
        let passing = about + random.below(about) - 1;
        lock(&self.disk).arm(is_armed.then_some(passing));
        is_armed
    }

    fn died(&mut self, mut random: Random) -> io::Result<seam::Death> {
        let is_kill = random.below(ONE_IS_A_KILL) == 0;
        if let Some(mount) = self.mount.take() {
            if !is_kill {
                mount.switch_off();
            }
            mount.unmount()?;
        }
        if is_kill {
            lock(&self.disk).killed();
            writeln!(self.log, "kill: the power stays on")?;
        } else {
            mount::begin_boot(random.next())?;
            let found = lock(&self.disk).cut(Fate::of(random));
            writeln!(self.log, "{found}")?;
        }
        let folder = self.folder.join("disk");
        self.mount = Some(Mount::new(&folder, Arc::clone(&self.disk))?);
        Ok(match is_kill {
            true => seam::Death::Kill,
            false => seam::Death::PowerCut,
        })
    }

    fn keep(&self, folder: &Path) -> io::Result<()> {
        copy(&self.data_dir(), &folder.join("data"))
    }
}

impl Drop for VolatileDisk {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.add(&lock(&self.disk).counts);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cuts,
            at_operations,
            kills,
            operations,
            syncs,
            file_system_syncs,
            doubtful_files,
            doubtful_names,
            lost_names,
        } = self;
        write!(
            f,
            "cuts={cuts} at_operations={at_operations} kills={kills} disk_operations={operations} syncs={syncs} syncfs={file_system_syncs} \
             doubtful_files={doubtful_files} doubtful_names={doubtful_names} lost_names={lost_names}"
        )
    }
}

/// Checks that the kernel forwards `syncfs` to a disk: the store rests on it, and a disk that it does not reach loses what it must
/// keep.
fn expect_syncfs() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let disk = Arc::new(Mutex::new(Disk::new(Broken::Nothing)));
    let mount = Mount::new(&folder.path().join("disk"), Arc::clone(&disk))?;
    let root = File::open(folder.path().join("disk"))?;
    rustix::fs::syncfs(&root)?;
    drop(root);
    mount.unmount()?;
    if lock(&disk).counts.file_system_syncs > 0 {
        return Ok(());
    }
    let text = "this kernel does not forward syncfs to FUSE; Linux 6.18 and later do";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// Copies a folder with everything in it that is a file or a folder.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &to)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
