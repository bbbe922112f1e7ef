//! What a process uses, as the system tells it from outside: processor time, threads, descriptors, memory.

use std::fs;
use std::io;

/// The clock ticks of a second that Linux shows to programs, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a process uses at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Processor time since it started, in user and kernel, in seconds.
    pub cpu_seconds: f64,
    /// Its threads.
    pub threads: u64,
    /// Its open file descriptors: files, sockets and what watches them.
    pub descriptors: u64,
    /// Memory that is resident now, in bytes.
    pub resident_bytes: u64,
    /// The most memory that ever was resident, in bytes.
    pub peak_bytes: u64,
}

impl Usage {
    /// Reads what the process `pid` uses.
    ///
    /// # Errors
    /// When there is no such process, or no `/proc`.
    pub fn of(pid: u32) -> io::Result<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
        let (stat, status) = (read("stat")?, read("status")?);
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
        Self::parse(&stat, &status, descriptors).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("/proc/{pid} is not understood"),
            )
        })
    }

    fn parse(stat: &str, status: &str, descriptors: u64) -> Option<Self> {
        // The name of the program, in brackets, may hold anything; the numbers stand behind its last bracket.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<f64>().ok();
        let cpu_seconds = (ticks()? + ticks()?) / TICKS_PER_SECOND;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Some(Self {
            cpu_seconds,
            threads: number("Threads:")?,
            descriptors,
            resident_bytes: number("VmRSS:")? * 1024,
            peak_bytes: number("VmHWM:")? * 1024,
        })
    }
}

/// The threads of a process: their ids and names.
///
/// # Errors
/// When there is no such process, or no `/proc`.
pub fn threads(pid: u32) -> io::Result<Vec<(u32, String)>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let entry = entry?;
        // A thread may end between the listing and the reading.
        let Ok(name) = fs::read_to_string(entry.path().join("comm")) else {
            continue;
        };
        if let Some(id) = entry.file_name().to_str().and_then(|id| id.parse().ok()) {
            threads.push((id, name.trim().to_owned()));
        }
    }
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_behind_any_name() {
        let stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 4 0 100 0 0";
        let status = "Name:\ta\nVmHWM:\t    3000 kB\nVmRSS:\t    2000 kB\nThreads:\t4\n";
        let usage = Usage::parse(stat, status, 7).expect("both texts are whole");
        assert_eq!(
            usage,
            Usage {
                cpu_seconds: 3.0,
                threads: 4,
                descriptors: 7,
                resident_bytes: 2000 * 1024,
                peak_bytes: 3000 * 1024,
            }
        );
    }

    #[test]
    fn a_text_that_is_cut_short_is_not_guessed_at() {
        assert_eq!(
            Usage::parse("42 (a) S 1 2", "VmHWM: 1 kB\nVmRSS: 1 kB\nThreads: 4\n", 7),
            None
        );
        let stat = "42 (a) S 1 2 3 4 5 6 7 8 9 10 250 50 0";
        assert_eq!(Usage::parse(stat, "VmRSS: 1 kB\nThreads: 4\n", 7), None);
    }

    #[test]
    fn this_process_uses_memory_and_has_a_thread() {
        let pid = std::process::id();
        let usage = Usage::of(pid).expect("this process is there");
        assert!(usage.threads > 0 && usage.descriptors > 0);
        assert!(usage.resident_bytes > 0 && usage.peak_bytes >= usage.resident_bytes / 2);
        assert!(!threads(pid).expect("this process is there").is_empty());
    }
}
