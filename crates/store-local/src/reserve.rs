//! Space on the disk that is kept back, so that what is under way can end when the disk fills up.
//!
//! Three lines, from far to near. Below the first (`min_free`) nobody may bring new bytes. Below the second nothing may
//! grow at all: no job, no record, no output is taken in. What is left then is for the ends of jobs and for deletions,
//! and when even that runs short, a file that only takes up room, the ballast, is given up for them. It is made again,
//! and everything taken in again, as soon as there is room: every request for room looks, so nothing has to be restarted.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use installation::ReserveOptions;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

use crate::directory::{Directory, private};

/// A disk with this much more than is needed is not asked again for [`GOOD_FOR`]: nothing fills it up meanwhile.
const PLENTY_BYTES: u64 = 1 << 30;
const GOOD_FOR: Duration = Duration::from_millis(100);

/// Too little of the disk is free.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{free_bytes} bytes are free on the disk of the data directory and {needed_bytes} are kept free; make room there, nothing has to be restarted"
)]
pub struct NoRoom {
    /// How much is free.
    pub free_bytes: u64,
    /// How much is kept free.
    pub needed_bytes: u64,
}

/// The reserve of a data directory. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Reserve(Arc<Inner>);

struct Inner {
    ballast: PathBuf,
    options: ReserveOptions,
    disk: Box<dyn Fn() -> io::Result<Disk> + Send + Sync>,
    /// Whether the ballast has its room.
    in_place: AtomicBool,
    /// Held while the ballast is made or given up.
    changing: Mutex<()>,
    opened: Instant,
    /// Until when the disk has room for everything, in milliseconds since it was opened.
    plenty_until_ms: AtomicU64,
}

/// A disk as it is now.
#[derive(Clone, Copy, Debug)]
struct Disk {
    free_bytes: u64,
    total_bytes: u64,
}

impl Reserve {
    /// Makes the ballast, or gives up the one of an earlier process when the start itself would not find room.
    pub(crate) fn open(directory: &Directory, options: ReserveOptions) -> Self {
        let path = directory.path().to_owned();
        Self::over(directory, options, move || {
            let disk = statvfs(&path)?;
            Ok(Disk {
                free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
                total_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
            })
        })
    }

    fn over(
        directory: &Directory,
        options: ReserveOptions,
        disk: impl Fn() -> io::Result<Disk> + Send + Sync + 'static,
    ) -> Self {
        let ballast = directory.ballast();
        let there = fs::metadata(&ballast).is_ok_and(|file| file.len() == options.ballast_bytes);
        let reserve = Self(Arc::new(Inner {
            ballast,
            options,
            disk: Box::new(disk),
            in_place: AtomicBool::new(there),
            changing: Mutex::new(()),
            opened: Instant::now(),
            plenty_until_ms: AtomicU64::new(0),
        }));
        if options == ReserveOptions::NONE {
            // A command that opens the directory for a moment leaves the ballast of the server alone.
            return reserve;
        }
        if !there {
            reserve.forget_file();
        }
        match reserve.disk() {
            Some(disk) if !there => reserve.put_back(disk),
            Some(disk) if disk.free_bytes < options.ballast_bytes => reserve.give_up(),
            Some(_) | None => {}
        }
        reserve
    }

    /// How much is free.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.disk().map(|disk| disk.free_bytes)
    }

    /// Whether new bytes may come.
    pub(crate) fn for_uploads(&self) -> Result<(), NoRoom> {
        self.at_least(|options, total| options.min_free.bytes(total).max(options.ballast_bytes))
    }

    /// Whether anything may be taken in that makes rows or files grow.
    pub(crate) fn for_growth(&self) -> Result<(), NoRoom> {
        if self.has_plenty() {
            return Ok(());
        }
        self.at_least(|options, _| options.ballast_bytes)
    }

    /// Sees to it that what must be written now finds room, if that can be had at all.
    pub(crate) fn for_the_end(&self) {
        let short = |disk: Disk| disk.free_bytes < self.0.options.ballast_bytes;
        if self.has_plenty() {
            return;
        }
        if self.in_place() && self.disk().is_some_and(short) {
            self.give_up();
        }
    }

    /// Gives the ballast up.
    pub(crate) fn give_up(&self) {
        let _changing = self.changing();
        if self.0.options.ballast_bytes > 0 && self.0.in_place.swap(false, Ordering::Relaxed) {
            tracing::warn!("the disk is full: giving up the ballast, so that jobs can end");
            self.forget_file();
        }
    }

    fn at_least(&self, needed: impl Fn(ReserveOptions, u64) -> u64) -> Result<(), NoRoom> {
        // A disk that cannot be asked is one that says so when it is written to.
        let Some(mut disk) = self.disk() else {
            return Ok(());
        };
        let needed_bytes = needed(self.0.options, disk.total_bytes);
        if !self.in_place() {
            self.put_back(disk);
            disk = self.disk().unwrap_or(disk);
        }
        if self.in_place() && disk.free_bytes >= needed_bytes {
            if disk.free_bytes - needed_bytes >= PLENTY_BYTES {
                let until = self.0.opened.elapsed() + GOOD_FOR;
                let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
                self.0.plenty_until_ms.store(until, Ordering::Relaxed);
            }
            return Ok(());
        }
        Err(NoRoom {
            free_bytes: disk.free_bytes,
            needed_bytes,
        })
    }

    /// Whether a look a moment ago found far more than is needed.
    fn has_plenty(&self) -> bool {
        let now = self.0.opened.elapsed().as_millis();
        now < u128::from(self.0.plenty_until_ms.load(Ordering::Relaxed))
    }

    fn in_place(&self) -> bool {
        self.0.options.ballast_bytes == 0 || self.0.in_place.load(Ordering::Relaxed)
    }

    /// Makes the ballast if as much is free besides: otherwise it would be given up at once.
    fn put_back(&self, disk: Disk) {
        let bytes = self.0.options.ballast_bytes;
        let _changing = self.changing();
        if self.in_place() || disk.free_bytes < bytes.saturating_mul(2) {
            return;
        }
        match make(&self.0.ballast, bytes) {
            Ok(()) => self.0.in_place.store(true, Ordering::Relaxed),
            Err(error) => {
                tracing::debug!(%error, "the ballast was not made");
                self.forget_file();
            }
        }
    }

    fn forget_file(&self) {
        match fs::remove_file(&self.0.ballast) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "the ballast cannot be removed");
            }
            Ok(()) | Err(_) => {}
        }
    }

    fn disk(&self) -> Option<Disk> {
        (self.0.disk)().ok()
    }

    fn changing(&self) -> std::sync::MutexGuard<'_, ()> {
        // A panic leaves at worst a file that is made again.
        self.0
            .changing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a file that has its room on the disk.
fn make(path: &std::path::Path, bytes: u64) -> io::Result<()> {
    let mut file = private()
        .create(true)
        .truncate(true)
        .write(true)
        .open(path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        allocated => return Ok(allocated?),
    }
    let zeros = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let some = usize::try_from(left).unwrap_or(usize::MAX).min(zeros.len());
        file.write_all(&zeros[..some])?;
        left -= some as u64;
    }
    Ok(())
}

impl std::fmt::Debug for Reserve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reserve")
            .field("options", &self.0.options)
            .field("in_place", &self.in_place())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
