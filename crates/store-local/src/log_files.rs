//! The files of a log: two of them, used in turns, with entries in frames one behind the other.
//!
//! A frame is what was written at once: its epoch (8 bytes), the length of its entries (4), a checksum of all of it (4), each
//! with the lowest byte first, and the entries. A turn of a file is an epoch: what is left of the one before behind the frames
//! of a new one has another number. So a file is written over and never made anew, and what is written over costs the disk half
//! of what makes a file longer. Nothing is behind a frame that is not whole.
//!
//! What the entries mean, and up to which place they are in rows, is for the log's owner.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directory::{create_private, sync_directory};

/// Bytes in front of the entries of a frame.
pub(crate) const HEAD_BYTES: usize = 16;

/// The room of a file from its beginning. It becomes longer if rows cannot be written for long.
const FILE_BYTES: usize = 1 << 20;
const FILE_LENGTH: u64 = FILE_BYTES as u64;

/// What the system keeps of a file at least.
const PAGE_BYTES: usize = 4096;

/// From here on the other file is used, as soon as it may be.
const TURN_AT: u64 = FILE_BYTES as u64 / 2;

/// Which log the files in a directory belong to: what their names begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogName(pub(crate) &'static str);

/// What lies in the two files of a log.
pub(crate) type Contents = [Vec<u8>; 2];

/// A position in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPosition {
    pub(crate) epoch: u64,
    /// Bytes in the file of this epoch.
    pub(crate) offset: u64,
}

/// The files, open to be written.
#[derive(Debug)]
pub(crate) struct Frames {
    files: [Arc<File>; 2],
    /// Where the next frame goes.
    end: LogPosition,
    /// Which of them have something that may not be on the disk.
    unsynced: [bool; 2],
    /// Whether one of them was missing or too short beside the other.
    is_short: bool,
}

impl Frames {
    /// Opens the files, making them where they are missing. [`Frames::begin`] has to follow.
    pub(crate) fn open(directory: &Path, log: LogName) -> io::Result<Self> {
        let paths = log.paths(directory);
        let lengths = paths
            .each_ref()
            .map(|path| path.metadata().map(|file| file.len()));
        // Both are missing in a backup, and in what a version without them left.
        let is_short = lengths.iter().any(Result::is_ok)
            && lengths
                .iter()
                .any(|length| !matches!(length, Ok(FILE_LENGTH..)));
        for path in paths.iter().filter(|path| !path.exists()) {
            let mut file = create_private(path)?;
            // Page by page: a piece that is written at once may be kept as one, and each small frame in it pays for its size.
            for _ in 0..FILE_BYTES / PAGE_BYTES {
                file.write_all(&[0; PAGE_BYTES])?;
            }
            file.sync_all()?;
            sync_directory(directory)?;
        }
        let open = |path: &PathBuf| File::options().write(true).open(path).map(Arc::new);
        Ok(Self {
            files: [open(&paths[0])?, open(&paths[1])?],
            end: LogPosition::default(),
            unsynced: [false; 2],
            is_short,
        })
    }

    /// Whether a file was found missing or too short, which it never is by itself after the first start.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Writes from the beginning of an epoch on.
    pub(crate) fn begin(&mut self, epoch: u64) {
        self.end = LogPosition { epoch, offset: 0 };
    }

    /// Where the next frame goes.
    pub(crate) fn end(&self) -> LogPosition {
        self.end
    }

    /// Writes a frame, whose first [`HEAD_BYTES`] are for its head. What fails is written over by the next one.
    pub(crate) fn append(&mut self, frame: &mut [u8]) -> io::Result<()> {
        crate::faults::fault_point!("call-log-write", |kind| Err(crate::faults::io(kind)));
        seal(self.end.epoch, frame)?;
        let file = turn_of(self.end.epoch);
        self.files[file].write_all_at(frame, self.end.offset)?;
        self.end.offset += frame.len() as u64;
        self.unsynced[file] = true;
        Ok(())
    }

    /// Goes on in the other file if this one is used up. What is in the other one is written over.
    pub(crate) fn turn(&mut self) {
        if self.end.offset >= TURN_AT {
            self.begin(self.end.epoch + 1);
        }
    }

    /// The files to be synced, for the thread that does it now.
    pub(crate) fn take_unsynced(&mut self) -> impl Iterator<Item = Arc<File>> + use<> {
        let unsynced = std::mem::take(&mut self.unsynced);
        let files = self.files.clone().into_iter().zip(unsynced);
        files.filter_map(|(file, is_unsynced)| is_unsynced.then_some(file))
    }

    /// Takes none of the files for being on the disk.
    pub(crate) fn mark_unsynced(&mut self) {
        self.unsynced = [true; 2];
    }
}

/// Fills in the head of a frame, whose entries are behind its first [`HEAD_BYTES`].
fn seal(epoch: u64, frame: &mut [u8]) -> io::Result<()> {
    let (head, entries) = frame.split_at_mut(HEAD_BYTES);
    let length = u32::try_from(entries.len()).map_err(io::Error::other)?;
    head[..8].copy_from_slice(&epoch.to_le_bytes());
    head[8..12].copy_from_slice(&length.to_le_bytes());
    let checksum = checksum(&head[..12], entries);
    head[12..].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// What lies in the files now, written by any process; nothing where there are none.
pub(crate) fn read(directory: &Path, log: LogName) -> io::Result<Contents> {
    let read = |path: PathBuf| match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    };
    let [first, second] = log.paths(directory);
    Ok([read(first)?, read(second)?])
}

/// The entries from a place on.
pub(crate) fn entries(contents: &Contents, from: LogPosition) -> Vec<u8> {
    let mut found = Vec::new();
    for epoch in [from.epoch, from.epoch + 1] {
        let start = if epoch == from.epoch { from.offset } else { 0 };
        let file = &contents[turn_of(epoch)];
        let mut rest = usize::try_from(start)
            .ok()
            .and_then(|start| file.get(start..))
            .unwrap_or_default();
        while let Some((entries, behind)) = frame(epoch, rest) {
            found.extend_from_slice(entries);
            rest = behind;
        }
    }
    found
}

/// Whether frames are missing that were there: those up to the place, or some between others. What a power cut took from the end
/// is not seen.
pub(crate) fn is_damaged(contents: &Contents, from: LogPosition) -> bool {
    let whole = |epoch: u64| {
        let file = &contents[turn_of(epoch)];
        let mut rest = &file[..];
        while let Some((_, behind)) = frame(epoch, rest) {
            rest = behind;
        }
        (file.len() - rest.len(), has_frame(epoch, rest))
    };
    let (bytes, is_cut) = whole(from.epoch);
    let (_, is_next_cut) = whole(from.epoch + 1);
    (bytes as u64) < from.offset || is_cut || is_next_cut
}

/// Whether a frame of this epoch begins anywhere in these bytes.
fn has_frame(epoch: u64, bytes: &[u8]) -> bool {
    // Most of a file is empty.
    let pages = (0..bytes.len()).step_by(PAGE_BYTES);
    let used = pages.filter(|&start| {
        let page = &bytes[start..bytes.len().min(start + PAGE_BYTES)];
        *page != [0; PAGE_BYTES][..page.len()]
    });
    // A frame that begins in the page before has most of its head in this one, so a page is looked through with what follows.
    used.flat_map(|start| start.saturating_sub(HEAD_BYTES)..bytes.len().min(start + PAGE_BYTES))
        .any(|at| frame(epoch, &bytes[at..]).is_some_and(|(entries, _)| !entries.is_empty()))
}

/// The entries of the frame that begins here, and what is behind it; `None` if none does.
fn frame(epoch: u64, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let (told, told_checksum) = head.split_at(12);
    let (told_epoch, length) = told.split_at(8);
    if told_epoch != epoch.to_le_bytes() {
        return None;
    }
    let length = u32::from_le_bytes(length.try_into().ok()?);
    let (entries, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    (told_checksum == checksum(told, entries).to_le_bytes()).then_some((entries, behind))
}

fn checksum(head: &[u8], entries: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(entries);
    hasher.finalize()
}

/// Which file an epoch is written into.
fn turn_of(epoch: u64) -> usize {
    usize::from(epoch % 2 == 1)
}

impl LogName {
    /// The names of the two files.
    pub(crate) fn files(self) -> [String; 2] {
        [0, 1].map(|file| format!("{}-{file}.log", self.0))
    }

    fn paths(self, directory: &Path) -> [PathBuf; 2] {
        self.files().map(|name| directory.join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogName = LogName("log");

    fn fresh(epoch: u64) -> (tempfile::TempDir, Frames) {
        let root = tempfile::tempdir().expect("a temporary directory");
        let mut frames = Frames::open(root.path(), LOG).expect("a disk");
        frames.begin(epoch);
        (root, frames)
    }

    fn append(frames: &mut Frames, entries: &[u8]) {
        let mut frame = vec![0; HEAD_BYTES];
        frame.extend_from_slice(entries);
        frames.append(&mut frame).expect("there is room");
    }

    fn found(root: &Path, epoch: u64, offset: u64) -> String {
        let contents = read(root, LOG).expect("a disk");
        let entries = entries(&contents, LogPosition { epoch, offset });
        String::from_utf8(entries).expect("a text")
    }

    #[test]
    fn what_was_appended_is_read_from_its_place_on() {
        let (root, mut frames) = fresh(2);
        append(&mut frames, b"one ");
        let second = frames.end();
        append(&mut frames, b"two");
        assert_eq!(found(root.path(), 2, 0), "one two");
        assert_eq!(found(root.path(), 2, second.offset), "two");
        assert_eq!(found(root.path(), 2, frames.end().offset), "");
        assert_eq!(found(root.path(), 2, u64::MAX), "");
        assert_eq!(found(root.path(), 0, 0), "", "another epoch");
        let nothing = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(found(nothing.path(), 2, 0), "");
    }

    #[test]
    fn what_is_left_of_another_epoch_is_not_taken_for_a_frame() {
        let (root, mut frames) = fresh(4);
        append(&mut frames, b"old old old");
        append(&mut frames, b"old");
        drop(frames);
        let mut frames = Frames::open(root.path(), LOG).expect("a disk");
        frames.begin(6);
        append(&mut frames, b"new new new");
        assert_eq!(found(root.path(), 6, 0), "new new new");
        assert_eq!(found(root.path(), 4, 0), "");
    }

    #[test]
    fn a_used_up_file_is_followed_by_the_other_one() {
        let (root, mut frames) = fresh(1);
        append(&mut frames, b"in the first");
        frames.turn();
        assert_eq!(frames.end().epoch, 1, "there is room");
        let long = vec![b'.'; FILE_BYTES];
        append(&mut frames, &long);
        frames.turn();
        assert_eq!(
            frames.end(),
            LogPosition {
                epoch: 2,
                offset: 0
            }
        );
        append(&mut frames, b"in the second");
        assert_eq!(frames.take_unsynced().count(), 2);
        assert_eq!(frames.take_unsynced().count(), 0);
        let all = found(root.path(), 1, 0);
        assert_eq!(all.trim_matches('.').len(), all.len());
        assert!(all.starts_with("in the first.") && all.ends_with(".in the second"));
        assert_eq!(found(root.path(), 2, 0), "in the second");
    }

    #[test]
    fn nothing_is_behind_a_frame_that_is_not_whole() {
        let (root, mut frames) = fresh(0);
        append(&mut frames, b"one");
        append(&mut frames, b"two");
        append(&mut frames, b"three");
        let whole = read(root.path(), LOG).expect("a disk");
        let second = HEAD_BYTES + "one".len();
        for broken in 0..second + HEAD_BYTES + "two".len() {
            let mut contents = whole.clone();
            contents[0][broken] ^= 1;
            let left = entries(&contents, LogPosition::default());
            let expected: &[u8] = if broken < second { b"" } else { b"one" };
            assert_eq!(left, expected, "byte {broken}");
        }
        for length in 0..second {
            let contents = [whole[0][..length].to_vec(), Vec::new()];
            assert_eq!(entries(&contents, LogPosition::default()), b"", "{length}");
        }
    }

    #[test]
    fn damage_is_told_and_what_another_epoch_or_a_power_cut_left_is_none() {
        let (root, mut frames) = fresh(2);
        assert!(!is_damaged(
            &read(root.path(), LOG).expect("a disk"),
            frames.end()
        ));
        append(&mut frames, b"one");
        let second = frames.end();
        append(&mut frames, b"two");
        let third = frames.end();
        append(&mut frames, b"three");
        let whole = read(root.path(), LOG).expect("a disk");
        for from in [
            LogPosition {
                epoch: 2,
                offset: 0,
            },
            second,
            third,
            frames.end(),
        ] {
            assert!(!is_damaged(&whole, from));
            let next = LogPosition {
                epoch: 4,
                offset: 0,
            };
            assert!(!is_damaged(&whole, next), "an epoch that has not begun");
        }
        let third = usize::try_from(third.offset).expect("a small file");
        for broken in 0..third {
            let mut contents = whole.clone();
            contents[0][broken] ^= 1;
            assert!(is_damaged(&contents, second), "byte {broken}");
            contents[0][third..].fill(0);
            // Of the last frame nobody knows that it was there.
            let is_told = broken < usize::try_from(second.offset).expect("a small file");
            assert_eq!(is_damaged(&contents, second), is_told, "byte {broken}");
        }
        for gone in [Vec::new(), vec![0; FILE_BYTES]] {
            assert!(is_damaged(&[gone, Vec::new()], second));
        }
    }

    #[test]
    fn files_are_as_long_as_they_were_and_hold_nothing_at_first() {
        let (root, _frames) = fresh(0);
        let [first, second] = read(root.path(), LOG).expect("a disk");
        assert_eq!((first.len(), second.len()), (FILE_BYTES, FILE_BYTES));
        assert_eq!(found(root.path(), 0, 0), "");
    }
}
