//! Whether the file of the rows, its write-ahead log and the index of that log belong together, looked at before SQLite opens
//! them.
//!
//! SQLite takes every log with right checksums for a continuation of the file beside it, ends it at the first frame that is not
//! whole, and takes a file without a log for complete. So a restored `main.db` beside the log of another one becomes a mixture
//! of both, and a log that is damaged, cut or gone takes rows along that clients were told of, without a word. What shows it:
//!
//! - **Logs have numbers.** The first transaction after a checkpoint sets `user_version` to the next number. It lies in the first
//!   page, so the file tells the number up to which it is complete, and the first and the last such page in the log tell which
//!   it continues and how far it goes.
//! - **The index counts the frames of the log** (`main.db-shm`). A killed process leaves it; it is no longer trusted after the
//!   machine was started anew, since it is never made durable.
//! - **The file `lock` tells the latest number**, so an older `main.db` without a log is recognised.

use std::fs;
use std::io;
use std::path::Path;

use rusqlite::Connection;

use crate::directory::{Directory, if_there};
use crate::wrong_rows::WrongRows;

/// What a file of SQLite begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Bytes in front of the first page of a log, and in front of each.
const LOG_HEAD: usize = 32;
const FRAME_HEAD: usize = 24;

/// Where a first page has `user_version`.
const NUMBER_AT: usize = 60;

/// The two copies of the head of an index.
const INDEX_HEAD: usize = 48;

/// What is left of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Log {
    /// Frames up to the last whole transaction.
    frames: u32,
    /// What tells it from others that lay in the same file.
    salts: [u8; 8],
    /// The checksum behind the last of them.
    checksum: [u32; 2],
    /// The number in the first copy of the first page, and in the last.
    numbers: Option<(i32, i32)>,
}

/// What an index tells of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Index {
    frames: u32,
    salts: [u8; 8],
    checksum: [u32; 2],
}

/// Refuses files that do not belong together, and tells of rows that are older than the directory.
pub(crate) fn expect_whole(directory: &Directory) -> Result<(), WrongRows> {
    let path = directory.path();
    let database = directory.database();
    let failed = |source| WrongRows::Unreadable {
        path: path.to_owned(),
        source,
    };
    let Some(base) = number_of_file(&database).map_err(failed)? else {
        return Ok(());
    };
    let read = |name: &str| if_there(fs::read(path.join(name)));
    let log = read("main.db-wal").map_err(failed)?.unwrap_or_default();
    let index = read("main.db-shm").map_err(failed)?;
    let index = index.as_deref().and_then(Index::read);
    let counted = index.filter(|_| directory.is_of_this_boot());
    let log = Log::read(&log, counted);
    if let Some(index) = counted.filter(|index| index.frames > 0) {
        let is_whole = log.frames > index.frames || log.is_at(index);
        if log.salts != index.salts || !is_whole {
            return Err(WrongRows::LogDamaged {
                path: path.to_owned(),
                found: log.frames,
                expected: index.frames,
            });
        }
    }
    if let Some((first, last)) = log.numbers
        && !(first.saturating_sub(1)..=last).contains(&base)
    {
        return Err(WrongRows::LogOfAnother(path.to_owned()));
    }
    let newest = log.numbers.map_or(base, |(_, last)| last.max(base));
    if directory.newest_number().is_some_and(|seen| seen > newest) {
        tracing::warn!(
            "main.db is older than the other files of the data directory, so newer jobs and calls are missing in it; if you did not put it there on purpose, stop the server and restore the newer main.db"
        );
    }
    Ok(())
}

/// Gives the log that begins with the open transaction its number, and answers it.
pub(super) fn number_log(rows: &Connection) -> rusqlite::Result<i32> {
    let before: i32 = rows.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let number = before.wrapping_add(1);
    rows.pragma_update(None, "user_version", number)?;
    Ok(number)
}

/// Gives a copy a number that no log of the original continues.
pub(crate) fn number_copy(rows: &Connection) -> rusqlite::Result<()> {
    let random = uuid::Uuid::new_v4().as_u128();
    // Numbers of originals count up from 0.
    let number = i32::MIN + i32::try_from(random % (1 << 30)).unwrap_or(0);
    rows.pragma_update(None, "user_version", number)
}

/// The number up to which the file alone is complete; `None` if it is no database, which opening it tells.
fn number_of_file(path: &Path) -> io::Result<Option<i32>> {
    use std::io::Read;

    let mut head = Vec::new();
    let Some(file) = if_there(fs::File::open(path))? else {
        return Ok(None);
    };
    file.take(100).read_to_end(&mut head)?;
    Ok((head.len() == 100 && head.starts_with(MAGIC)).then(|| number_in(&head)))
}

fn number_in(page: &[u8]) -> i32 {
    big(page, NUMBER_AT).cast_signed()
}

fn big(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at).map_or(0, u32::from_be_bytes)
}

fn native(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at).map_or(0, u32::from_ne_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..)?.first_chunk().copied()
}

impl Log {
    /// Reads a log to the frame that `counted` ends at, or to the last that is whole.
    fn read(bytes: &[u8], counted: Option<Index>) -> Self {
        let mut log = Self::default();
        let magic = big(bytes, 0);
        let Some(head) = bytes.get(..LOG_HEAD) else {
            return log;
        };
        if magic & !1 != 0x377f_0682 {
            return log;
        }
        let order = match magic & 1 {
            1 => u32::from_be_bytes,
            _ => u32::from_le_bytes,
        };
        let page_bytes = big(bytes, 8) as usize;
        let mut sum = checksum(order, [0, 0], &head[..24]);
        if sum != [big(head, 24), big(head, 28)] || page_bytes < 512 {
            return log;
        }
        let Some(&salts) = head[16..].first_chunk() else {
            return log;
        };
        log.salts = salts;
        let (mut seen, mut numbers) = (0, None);
        for frame in bytes[LOG_HEAD..].chunks_exact(FRAME_HEAD + page_bytes) {
            let (frame_head, page) = frame.split_at(FRAME_HEAD);
            sum = checksum(order, checksum(order, sum, &frame_head[..8]), page);
            // The salts are those of the head: others are of frames that an earlier log left behind.
            if frame_head[8..16] != salts || sum != [big(frame, 16), big(frame, 20)] {
                break;
            }
            seen += 1;
            if big(frame, 0) == 1 {
                let number = number_in(page);
                numbers = Some((numbers.map_or(number, |(first, _)| first), number));
            }
            // A transaction ends with the size of the database after it.
            if big(frame, 4) != 0 {
                log = Self {
                    frames: seen,
                    salts,
                    checksum: sum,
                    numbers,
                };
            }
            if counted.is_some_and(|index| index.frames == seen && index.checksum != sum) {
                break;
            }
        }
        log
    }

    fn is_at(&self, index: Index) -> bool {
        self.frames == index.frames && self.checksum == index.checksum
    }
}

impl Index {
    /// Reads the head of an index; `None` if it was being written.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(INDEX_HEAD)?;
        let copy = rest.get(..INDEX_HEAD)?;
        let sum = checksum(u32::from_ne_bytes, [0, 0], &head[..40]);
        let is_whole = head == copy && sum == [native(head, 40), native(head, 44)];
        let is_begun = head[12] != 0;
        let salts = *head[32..].first_chunk()?;
        (is_whole && is_begun).then(|| Self {
            frames: native(head, 16),
            salts,
            checksum: [native(head, 24), native(head, 28)],
        })
    }
}

/// The checksum of SQLite's logs, going on from `sum`.
fn checksum(order: fn([u8; 4]) -> u32, sum: [u32; 2], bytes: &[u8]) -> [u32; 2] {
    let [mut first, mut second] = sum;
    let (pairs, _) = bytes.as_chunks::<8>();
    for &[a, b, c, d, e, f, g, h] in pairs {
        first = first.wrapping_add(order([a, b, c, d])).wrapping_add(second);
        second = second.wrapping_add(order([e, f, g, h])).wrapping_add(first);
    }
    [first, second]
}
