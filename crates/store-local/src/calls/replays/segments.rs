//! Small results, many in a file: those whose keys expire within the same hour lie one behind the other in `replays/hours/`, in a
//! file that is named by the end of that hour.
//!
//! A file of its own that is durable with its name costs a small result many times what the rest of its call does. So whoever
//! commits appends here what the rows of the transaction name, and has it on the disk before them. A file goes as a whole once
//! every key in it has expired. What a transaction appended that was undone is named by no row: the next one writes over it.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;

use crate::directory::{self, private, sync_directory};

/// Results up to this size share a file. Larger ones are few, and nobody else's commit is to wait for them.
pub(in crate::calls) const MOST_BYTES: usize = 64 * 1024;

const HOUR_S: i64 = 3600;

/// How long a file outlives its hour: for a reader at that moment, and for clocks that are set back.
const KEPT_AFTER_S: i64 = HOUR_S;

/// Where a small result lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::calls) struct SegmentSlice {
    /// What its file is named by: the end of the hour in which its key expires, in seconds since 1970.
    pub(in crate::calls) hour: i64,
    /// The first of its bytes,
    pub(in crate::calls) offset: i64,
    /// and how many they are.
    pub(in crate::calls) length: i64,
}

/// The files of a data directory.
#[derive(Debug)]
pub(super) struct ReplaySegments {
    folder: PathBuf,
    /// Those that were appended to last: one, and at the turn of an hour two.
    open: Mutex<Vec<Segment>>,
}

#[derive(Debug)]
struct Segment {
    end: i64,
    file: File,
    length: u64,
    /// How much of it rows may name: the rest is of the open transaction.
    committed_length: u64,
    /// Whether all of it is on the disk.
    is_synced: bool,
}

impl ReplaySegments {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            open: Mutex::default(),
        }
    }

    /// Appends the result of a key that expires then. It is durable after the next [`ReplaySegments::sync`].
    pub(super) fn append(&self, expires_at: Timestamp, body: &[u8]) -> io::Result<SegmentSlice> {
        crate::faults::fault_point!("replay-append", |kind| Err(crate::faults::io(kind)));
        let end = (expires_at.as_second().div_euclid(HOUR_S) + 1) * HOUR_S;
        let mut open = self.open();
        let known = open.iter().position(|hour| hour.end == end);
        let place = match known {
            Some(place) => place,
            None => {
                open.push(self.open_hour(end)?);
                open.len() - 1
            }
        };
        let hour = &mut open[place];
        hour.is_synced = false;
        // Should it fail half-way, the next one is written over it.
        hour.file.write_all_at(body, hour.length)?;
        let offset = hour.length;
        hour.length += body.len() as u64;
        Ok(SegmentSlice {
            hour: end,
            offset: offset.cast_signed(),
            length: body.len() as i64,
        })
    }

    fn open_hour(&self, end: i64) -> io::Result<Segment> {
        directory::create(&self.folder)?;
        // Also if it was there: an earlier process may have been killed between its creation and the sync.
        sync_directory(self.folder.parent().unwrap_or(Path::new(".")))?;
        let path = self.folder.join(end.to_string());
        let file = private()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        sync_directory(&self.folder)?;
        let length = file.metadata()?.len();
        Ok(Segment {
            end,
            file,
            length,
            committed_length: length,
            is_synced: true,
        })
    }

    /// Brings to the disk what was appended.
    pub(super) fn sync(&self) -> io::Result<()> {
        let mut open = self.open();
        if open.iter().all(|hour| hour.is_synced) {
            return Ok(());
        }
        let synced = open.iter_mut().try_for_each(Segment::sync);
        match &synced {
            Ok(()) => {
                let newest = open.iter().map(|hour| hour.end).max();
                open.retain(|hour| Some(hour.end) == newest);
            }
            // What is there of it, the next one is told by the file itself.
            Err(_) => open.clear(),
        }
        synced
    }

    /// The open transaction is committed: what was appended stays.
    pub(super) fn keep(&self) {
        for hour in self.open().iter_mut() {
            hour.committed_length = hour.length;
        }
    }

    /// The open transaction is none: what it appended is written over.
    pub(super) fn undo(&self) {
        for hour in self.open().iter_mut() {
            hour.length = hour.committed_length;
        }
    }

    /// A result; `None` if it is not there.
    pub(super) fn read(&self, place: SegmentSlice) -> io::Result<Option<Bytes>> {
        let (Ok(offset), Ok(length)) = (u64::try_from(place.offset), usize::try_from(place.length))
        else {
            return Ok(None);
        };
        let mut body = vec![0; length.min(MOST_BYTES)];
        let read = File::open(self.folder.join(place.hour.to_string()))
            .and_then(|file| file.read_exact_at(&mut body, offset));
        match read {
            Ok(()) => Ok((body.len() == length).then(|| body.into())),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes the files whose keys have all expired. Another sweep may go over them at the same time.
    pub(super) fn sweep(&self, now: Timestamp) -> io::Result<()> {
        self.over(now)?
            .into_iter()
            .try_for_each(|end| self.remove(end))
    }

    /// The ends of the hours whose files are over.
    fn over(&self, now: Timestamp) -> io::Result<Vec<i64>> {
        let Some(entries) = directory::if_there(fs::read_dir(&self.folder))? else {
            return Ok(Vec::new());
        };
        let is_over = |end: &i64| end.saturating_add(KEPT_AFTER_S) <= now.as_second();
        let mut over = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let end = name.to_str().and_then(|name| name.parse().ok());
            over.extend(end.filter(is_over));
        }
        Ok(over)
    }

    /// Removes the file of an hour, unless another sweep did since it was listed.
    fn remove(&self, end: i64) -> io::Result<()> {
        self.open().retain(|hour| hour.end != end);
        directory::if_there(fs::remove_file(self.folder.join(end.to_string())))?;
        Ok(())
    }

    fn open(&self) -> MutexGuard<'_, Vec<Segment>> {
        // A panic while it is held leaves at most bytes that no row names.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Segment {
    fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced {
            crate::faults::fault_point!("replay-sync", |kind| Err(crate::faults::io(kind)));
            self.file.sync_data()?;
            self.is_synced = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn hours() -> (tempfile::TempDir, ReplaySegments) {
        let root = tempfile::tempdir().expect("a temporary directory");
        let hours = ReplaySegments::new(root.path().join("hours"));
        (root, hours)
    }

    fn names(hours: &ReplaySegments) -> Vec<String> {
        let entries = fs::read_dir(&hours.folder).expect("the folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).into_string().expect("digits"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn results_lie_behind_each_other_by_the_hour() {
        let (_root, hours) = hours();
        let appended = [(3599, "a"), (3600, "bc"), (10, "d"), (7199, "e")];
        let places = appended.map(|(expires, body)| {
            let place = hours.append(at(expires), body.as_bytes());
            place.expect("there is room")
        });
        hours.sync().expect("a disk");
        let told = places.map(|place| (place.hour, place.offset, place.length));
        assert_eq!(
            told,
            [(3600, 0, 1), (7200, 0, 2), (3600, 1, 1), (7200, 2, 1)]
        );
        for (place, (_, body)) in places.into_iter().zip(appended) {
            let read = hours.read(place).expect("it is read");
            assert_eq!(read, Some(Bytes::from_static(body.as_bytes())));
        }
        assert_eq!(names(&hours), ["3600", "7200"]);
    }

    #[test]
    fn what_is_there_already_is_left_alone() {
        let (_root, hours) = hours();
        let first = hours.append(at(0), b"first").expect("there is room");
        drop(hours.open().pop());
        let second = hours.append(at(0), b"second").expect("there is room");
        assert_eq!(second.offset, 5);
        for (place, body) in [(first, "first"), (second, "second")] {
            let read = hours.read(place).expect("it is read");
            assert_eq!(read.as_deref(), Some(body.as_bytes()));
        }
    }

    #[test]
    fn what_was_undone_is_written_over_and_what_was_kept_is_not() {
        let (_root, hours) = hours();
        let kept = hours.append(at(0), b"kept").expect("there is room");
        hours.keep();
        for _ in 0..3 {
            let undone = hours.append(at(0), b"undone").expect("there is room");
            hours.sync().expect("a disk");
            assert_eq!(undone.offset, 4);
            hours.undo();
        }
        let next = hours.append(at(0), b"next").expect("there is room");
        for (place, body) in [(kept, "kept"), (next, "next")] {
            let read = hours.read(place).expect("it is read");
            assert_eq!(read.as_deref(), Some(body.as_bytes()));
        }
    }

    #[test]
    fn what_is_not_there_is_none() {
        let (_root, hours) = hours();
        let place = hours.append(at(0), b"body").expect("there is room");
        let others = [
            SegmentSlice {
                hour: 7200,
                ..place
            },
            SegmentSlice { offset: 1, ..place },
            SegmentSlice { length: 5, ..place },
            SegmentSlice {
                offset: -1,
                ..place
            },
            SegmentSlice {
                length: i64::MAX,
                ..place
            },
        ];
        for other in others {
            assert_eq!(hours.read(other).expect("it is read"), None, "{other:?}");
        }
    }

    #[test]
    fn a_file_goes_an_hour_after_its_own() {
        let (_root, hours) = hours();
        for expires in [0, 3600] {
            hours.append(at(expires), b"body").expect("there is room");
        }
        fs::write(hours.folder.join("not an hour"), "").expect("a file");
        hours.sweep(at(7199)).expect("it is walked");
        assert_eq!(names(&hours), ["3600", "7200", "not an hour"]);
        hours.sweep(at(7200)).expect("it is walked");
        assert_eq!(names(&hours), ["7200", "not an hour"]);
        hours.sync().expect("nothing is left of what went");
    }

    #[test]
    fn two_sweeps_may_remove_the_same_files() {
        let (_root, hours) = hours();
        for expires in [0, 3600] {
            hours.append(at(expires), b"body").expect("there is room");
        }
        let listed = [(); 2].map(|()| hours.over(at(10_800)).expect("it is walked"));
        for end in listed.into_iter().flatten() {
            hours.remove(end).expect("it is not there");
        }
        assert_eq!(names(&hours), [""; 0]);
    }
}
