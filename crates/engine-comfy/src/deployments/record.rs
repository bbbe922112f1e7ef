//! What is written down of a process, so that the next life of the server finds it.
//!
//! A file for each worker. It says nothing that is not seen again: one that is damaged is passed over, and the process is then found
//! by its mark.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Value, json};
use workflow_core::deployment::RevisionNumber;

use super::process::ProcessId;

/// A process of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) process: ProcessId,
    pub(super) port: u16,
    pub(super) revision: RevisionNumber,
    pub(super) started_at: Timestamp,
}

impl Record {
    /// Writes it down, whole or not at all.
    pub(super) fn write(&self, folder: &Path, number: u32) -> io::Result<()> {
        let text = json!({
            "pid": self.process.pid,
            "started": self.process.started,
            "boot": boot(),
            "port": self.port,
            "revision": self.revision.0,
            "started_at": self.started_at.as_microsecond(),
        });
        fs::create_dir_all(folder)?;
        let path = path(folder, number);
        let new = path.with_extension("new");
        fs::write(&new, text.to_string())?;
        fs::rename(&new, &path)
    }

    /// All that were written since the machine was started, by the number of their worker.
    pub(super) fn all(folder: &Path) -> Vec<(u32, Self)> {
        let Ok(entries) = fs::read_dir(folder) else {
            return Vec::new();
        };
        let found = entries.filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let number = name
                .to_str()?
                .strip_prefix("worker-")?
                .strip_suffix(".json")?;
            let number = number.parse().ok()?;
            Some((number, Self::read(folder, number)?))
        });
        found.collect()
    }

    /// Forgets the one of a worker.
    pub(super) fn remove(folder: &Path, number: u32) {
        // One that stays names a process that is gone.
        let _ = fs::remove_file(path(folder, number));
    }

    fn read(folder: &Path, number: u32) -> Option<Self> {
        let text = fs::read(path(folder, number)).ok()?;
        let value: Value = serde_json::from_slice(&text).ok()?;
        if value.get("boot")?.as_str()? != boot() {
            return None;
        }
        Some(Self {
            process: ProcessId {
                pid: i32::try_from(value.get("pid")?.as_i64()?).ok()?,
                started: value.get("started")?.as_u64()?,
            },
            port: u16::try_from(value.get("port")?.as_u64()?).ok()?,
            revision: RevisionNumber(u32::try_from(value.get("revision")?.as_u64()?).ok()?),
            started_at: Timestamp::from_microsecond(value.get("started_at")?.as_i64()?).ok()?,
        })
    }
}

fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("worker-{number}.json"))
}

/// Names the time since the machine was started: process numbers begin again after it.
fn boot() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_again_and_a_damaged_one_is_passed_over() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let record = Record {
            process: ProcessId {
                pid: 7,
                started: 99,
            },
            port: 8188,
            revision: RevisionNumber(3),
            started_at: Timestamp::from_second(5).expect("in range"),
        };
        assert_eq!(Record::all(root.path()), []);
        record.write(root.path(), 12).expect("room");
        assert_eq!(Record::all(root.path()), [(12, record)]);
        fs::write(path(root.path(), 12), "{").expect("room");
        assert_eq!(Record::all(root.path()), []);
        Record::remove(root.path(), 12);
        assert!(!path(root.path(), 12).exists());
    }
}
