//! Results that keys answer again and bodies of requests that wait: long bytes that lie in files, and travel in pieces.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use ::installation::transfer::{PAGE_BYTES, PIECE_BYTES, Part, Row, Value};
use asset_store::BlobHash;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::rows::id;
use crate::columns::{Hash, Id, unreadable};
use crate::directory::{Directory, create, if_there, private, sync_directory};

/// How many results are summed up in one transaction.
const TOGETHER: u32 = 64;

/// The files of results and bodies in a directory.
#[derive(Clone)]
pub(super) struct Files(Arc<PathBuf>);

/// Where bytes lie.
struct PieceSource {
    generation: Uuid,
    bytes: Bytes,
    /// What they sum up to, if that was kept.
    sum: Option<Vec<u8>>,
}

enum Bytes {
    Here(Vec<u8>),
    InFile { path: PathBuf, from: u64, to: u64 },
}

impl Files {
    pub(super) fn of(directory: &Directory) -> Self {
        Self(Arc::new(directory.replays()))
    }

    /// The file of a name: a generation's own, or that of a body.
    fn path(&self, name: Uuid) -> PathBuf {
        self.folder(name).join(name.simple().to_string())
    }

    fn folder(&self, name: Uuid) -> PathBuf {
        self.0.join(format!("{:02x}", name.as_bytes()[15]))
    }

    fn whole(&self, name: Uuid) -> io::Result<Option<Bytes>> {
        let path = self.path(name);
        let found = if_there(fs::metadata(&path))?;
        Ok(found.map(|file| Bytes::InFile {
            path,
            from: 0,
            to: file.len(),
        }))
    }
}

/// The next pieces. Results whose bytes are gone or damaged have none, as their keys answer nothing any more.
pub(super) fn read(
    rows: &Connection,
    files: &Files,
    part: &'static Part,
    after: Option<&[Value]>,
) -> rusqlite::Result<Vec<Row>> {
    let (mut last, mut number) = match after {
        Some([generation, Value::Int(piece)]) => (id(generation)?.0, piece + 1),
        _ => (Uuid::nil(), 0),
    };
    let mut place = match number {
        0 => next(rows, files, part, last, false)?,
        _ => next(rows, files, part, last, true)?,
    };
    let (mut page, mut bytes) = (Vec::new(), 0);
    while let Some(found) = place {
        if found.generation != last {
            (last, number) = (found.generation, 0);
        }
        let is_whole = number > 0 || found.is_whole().map_err(of_files)?;
        while is_whole && page.len() < part.page && bytes < PAGE_BYTES {
            let piece = found.piece(number).map_err(of_files)?;
            let Some(piece) = piece else {
                break;
            };
            bytes += piece.len();
            page.push(vec![
                Value::Bytes(last.as_bytes().to_vec()),
                Value::Int(number),
                Value::Bytes(piece),
            ]);
            number += 1;
        }
        if page.len() >= part.page || bytes >= PAGE_BYTES {
            return Ok(page);
        }
        place = next(rows, files, part, last, false)?;
    }
    Ok(page)
}

/// The place of the next generation that has bytes, or of this one again.
fn next(
    rows: &Connection,
    files: &Files,
    part: &Part,
    mut after: Uuid,
    again: bool,
) -> rusqlite::Result<Option<PieceSource>> {
    let mut operator = if again { ">=" } else { ">" };
    loop {
        let found = match part.name {
            "replays" => replay(rows, files, after, operator)?,
            _ => body(rows, files, after, operator)?,
        };
        match found {
            None => return Ok(None),
            Some((_, Some(place))) => return Ok(Some(place)),
            Some((generation, None)) => (after, operator) = (generation, ">"),
        }
    }
}

type Found = Option<(Uuid, Option<PieceSource>)>;

fn replay(
    rows: &Connection,
    files: &Files,
    after: Uuid,
    operator: &str,
) -> rusqlite::Result<Found> {
    let sql = format!(
        "SELECT id, replay_hour, replay_offset, replay_length, replay_hash FROM generations
         WHERE id {operator} ?1 AND replay IN (1, 3) ORDER BY id LIMIT 1"
    );
    let mut statement = rows.prepare_cached(&sql)?;
    let found = statement.query_row([Id(after)], |row| {
        let Id(generation) = row.get(0)?;
        let slice: (Option<i64>, Option<i64>, Option<i64>) =
            (row.get(1)?, row.get(2)?, row.get(3)?);
        Ok((generation, slice, row.get(4)?))
    });
    let Some((generation, slice, sum)) = found.optional()? else {
        return Ok(None);
    };
    let bytes = match slice {
        (Some(hour), Some(offset), Some(length)) => {
            let path = files.0.join("hours").join(hour.to_string());
            let (from, length) = (offset.unsigned_abs(), length.unsigned_abs());
            let to = from + length;
            let there = if_there(fs::metadata(&path)).map_err(of_files)?;
            there
                .filter(|file| file.len() >= to)
                .map(|_| Bytes::InFile { path, from, to })
        }
        _ => files.whole(generation).map_err(of_files)?,
    };
    let place = bytes.map(|bytes| PieceSource {
        generation,
        bytes,
        sum,
    });
    Ok(Some((generation, place)))
}

fn body(rows: &Connection, files: &Files, after: Uuid, operator: &str) -> rusqlite::Result<Found> {
    let sql = format!(
        "SELECT id, body, body_file FROM queued_calls
         WHERE id {operator} ?1 AND dispatched = 0 AND ended_at IS NULL ORDER BY id LIMIT 1"
    );
    let mut statement = rows.prepare_cached(&sql)?;
    let found = statement.query_row([Id(after)], |row| {
        let Id(generation) = row.get(0)?;
        let (here, file): (Option<Vec<u8>>, Option<Id>) = (row.get(1)?, row.get(2)?);
        Ok((generation, here, file))
    });
    let Some((generation, here, file)) = found.optional()? else {
        return Ok(None);
    };
    let bytes = match (here, file) {
        (Some(here), _) => Some(Bytes::Here(here)),
        (None, Some(Id(name))) => files.whole(name).map_err(of_files)?,
        (None, None) => None,
    };
    let place = bytes.map(|bytes| PieceSource {
        generation,
        bytes,
        sum: None,
    });
    Ok(Some((generation, place)))
}

impl PieceSource {
    /// A piece; `None` behind the last one.
    fn piece(&self, number: i64) -> io::Result<Option<Vec<u8>>> {
        let start = number.unsigned_abs() * PIECE_BYTES as u64;
        match &self.bytes {
            Bytes::Here(bytes) => {
                let mut pieces = bytes.chunks(PIECE_BYTES);
                let place = usize::try_from(number).unwrap_or(usize::MAX);
                Ok(pieces.nth(place).map(<[u8]>::to_vec))
            }
            Bytes::InFile { path, from, to } => {
                let start = from + start;
                if start >= *to {
                    return Ok(None);
                }
                let length = (to - start).min(PIECE_BYTES as u64);
                let mut piece = vec![0; usize::try_from(length).unwrap_or(PIECE_BYTES)];
                File::open(path)?.read_exact_at(&mut piece, start)?;
                Ok(Some(piece))
            }
        }
    }

    /// Whether the bytes are those that were written.
    fn is_whole(&self) -> io::Result<bool> {
        let (Bytes::InFile { path, from, to }, Some(sum)) = (&self.bytes, &self.sum) else {
            return Ok(true);
        };
        let mut file = File::open(path)?;
        io::Seek::seek(&mut file, io::SeekFrom::Start(*from))?;
        let mut bytes = file.take(to - from);
        // A small one has a checksum, a large one a hash.
        Ok(match sum.len() {
            4 => {
                let mut all = Vec::new();
                bytes.read_to_end(&mut all)?;
                crc32fast::hash(&all).to_be_bytes() == sum[..]
            }
            _ => hash_of(&mut bytes)?.as_bytes() == &sum[..],
        })
    }
}

/// Puts pieces into files; they are on the disk before the rows that name them.
pub(super) fn write(
    rows: &Connection,
    files: &Files,
    part: &'static Part,
    new: &[Row],
) -> rusqlite::Result<()> {
    for row in new {
        let [generation, Value::Int(number), Value::Bytes(bytes)] = &row[..] else {
            return Err(of_files(io::Error::other("a piece has a number and bytes")));
        };
        let Id(generation) = id(generation)?;
        let name = match part.name {
            "replays" => generation,
            _ => body_name(generation),
        };
        let start = number.unsigned_abs() * PIECE_BYTES as u64;
        put(files, name, start, bytes).map_err(of_files)?;
        if part.name == "queued_bodies" {
            rows.execute(
                "UPDATE queued_calls SET body_file = ?2 WHERE id = ?1",
                params![Id(generation), Id(name)],
            )?;
        }
    }
    Ok(())
}

fn put(files: &Files, name: Uuid, start: u64, bytes: &[u8]) -> io::Result<()> {
    let folder = files.folder(name);
    create(&folder)?;
    let mut options = private();
    let file = options
        .create(true)
        .truncate(false)
        .write(true)
        .open(files.path(name))?;
    file.write_all_at(bytes, start)?;
    file.sync_all()?;
    sync_directory(&folder)?;
    sync_directory(&files.0)
}

/// Keeps what results sum up to that came, and that those whose bytes did not come are not kept. Some at a time: the last one, from
/// which the next call goes on; `None` at the end.
pub(super) fn sum_up(
    rows: &Connection,
    files: &Files,
    after: &[u8],
) -> rusqlite::Result<Option<Vec<u8>>> {
    let sql = "SELECT id FROM generations WHERE id > ?1 AND replay = 1 AND replay_hash IS NULL ORDER BY id LIMIT ?2";
    let mut next = rows.prepare_cached(sql)?;
    let next = next.query_map(params![after, TOGETHER], |row| row.get::<_, Id>(0))?;
    let next = next.collect::<rusqlite::Result<Vec<Id>>>()?;
    for Id(generation) in &next {
        let file = if_there(File::open(files.path(*generation))).map_err(of_files)?;
        let hash = file.map(|mut file| hash_of(&mut file)).transpose();
        let hash = hash.map_err(of_files)?.map(Hash);
        rows.prepare_cached(
            "UPDATE generations SET replay_hash = ?2, replay = CASE WHEN ?2 IS NULL THEN 2 ELSE 1 END WHERE id = ?1",
        )?
        .execute(params![Id(*generation), hash])?;
    }
    Ok(next.last().map(|Id(last)| last.as_bytes().to_vec()))
}

/// The name of the file of a body: another one than that of the result, which lies in the same folders.
fn body_name(generation: Uuid) -> Uuid {
    let hash = BlobHash::of(&[generation.as_bytes().as_slice(), b"body"].concat());
    let mut name = [0; 16];
    name.copy_from_slice(&hash.as_bytes()[..16]);
    Uuid::from_bytes(name)
}

fn hash_of(bytes: &mut impl Read) -> io::Result<BlobHash> {
    let mut hasher = blake3::Hasher::new();
    io::copy(bytes, &mut hasher)?;
    Ok(hasher.finalize().into())
}

fn of_files(error: io::Error) -> rusqlite::Error {
    unreadable(error)
}
