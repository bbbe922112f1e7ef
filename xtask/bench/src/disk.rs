//! What the disk takes by itself: the floors that durable work stands on.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::samples::Samples;

/// How often the disk is asked; a busy one makes this a second or so.
const FSYNCS: usize = 1_000;
/// What is written before each fsync: the page that a small commit appends.
const PAGE: [u8; 4096] = [7; 4096];
/// How much of a file is hashed and copied at a time.
const PIECE_BYTES: usize = 1 << 20;

/// What an fsync takes.
#[derive(Debug, Clone, Copy)]
pub struct Disk {
    /// Median after a page was written where the file had one: a commit into a log that is used again.
    pub overwrite_p50_ms: f64,
    /// What one of a hundred of these takes at least.
    pub overwrite_p99_ms: f64,
    /// Median after a page was appended: the file system has to write down the new length too.
    pub append_p50_ms: f64,
}

impl Disk {
    /// Measures with a file in `folder`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn measure(folder: &Path) -> io::Result<Self> {
        let path = folder.join("fsync-probe");
        let mut file = File::create(&path)?;
        let append = fsyncs(&mut file)?;
        file.rewind()?;
        let overwrite = fsyncs(&mut file)?;
        fs::remove_file(path)?;
        Ok(Self {
            overwrite_p50_ms: overwrite.median_ms().unwrap_or_default(),
            overwrite_p99_ms: overwrite.percentile_ms(99.0).unwrap_or_default(),
            append_p50_ms: append.median_ms().unwrap_or_default(),
        })
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "an fsync takes {} ms at p50 and {} at p99, {} ms where a file grows",
            self.overwrite_p50_ms, self.overwrite_p99_ms, self.append_p50_ms
        )
    }
}

/// Times `fdatasync` after each of many pages.
fn fsyncs(file: &mut File) -> io::Result<Samples> {
    let mut times = Vec::with_capacity(FSYNCS);
    for _ in 0..FSYNCS {
        file.write_all(&PAGE)?;
        let began = Instant::now();
        file.sync_data()?;
        times.push(began.elapsed());
    }
    Ok(Samples::of(&times))
}

/// How long it takes to copy a file and to hash it, as `cp` and `b3sum` (on one thread) do one after the other, and how
/// long with the copy brought to the disk.
///
/// # Errors
/// When a file cannot be read or written.
pub fn copy_and_hash(file: &Path, folder: &Path) -> io::Result<(Duration, Duration)> {
    let copy = folder.join("copy-probe");
    let began = Instant::now();
    fs::copy(file, &copy)?;
    let mut hasher = blake3::Hasher::new();
    let mut source = File::open(file)?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match source.read(&mut piece)? {
            0 => break,
            count => drop(hasher.update(&piece[..count])),
        }
    }
    let hash = hasher.finalize();
    let unsynced = began.elapsed();
    File::open(&copy)?.sync_all()?;
    let synced = began.elapsed();
    fs::remove_file(copy)?;
    // Naming the hash keeps the work from being left out.
    std::hint::black_box(hash);
    Ok((unsynced, synced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_leave_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, [1; 3000]).expect("room for a file");
        let (unsynced, synced) = copy_and_hash(&file, folder.path()).expect("a copy");
        assert!(unsynced <= synced);
        let disk = Disk::measure(folder.path()).expect("a disk");
        assert!(disk.overwrite_p50_ms >= 0.0 && disk.append_p50_ms >= 0.0);
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 1);
    }
}
