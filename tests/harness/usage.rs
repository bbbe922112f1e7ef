//! What a process uses, as the system tells it from outside: threads, descriptors, memory.

use std::fs;
use std::io;

/// What a process uses at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Its threads.
    pub threads: u64,
    /// Its open file descriptors: files, sockets and what watches them.
    pub descriptors: u64,
    /// Memory that is resident now, in bytes.
    pub resident_bytes: u64,
    /// The most memory that was resident at any time, in bytes.
    pub peak_bytes: u64,
}

impl Usage {
    /// What the process `pid` uses.
    ///
    /// # Errors
    /// When there is no such process, or no `/proc`.
    pub fn of(pid: u32) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            number.ok_or_else(|| io::Error::other(format!("/proc/{pid}/status has no {name}")))
        };
        Ok(Self {
            threads: number("Threads:")?,
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64,
            resident_bytes: number("VmRSS:")? * 1024,
            peak_bytes: number("VmHWM:")? * 1024,
        })
    }
}
