//! Which installation a directory holds: an id in the file `installation` and, as a function of the first secret, in the rows.
//!
//! Blobs without their rows look unused, and a sweep deletes what is unused. So a directory whose rows are missing, or belong
//! to another installation, is refused before anything in it is touched.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use uuid::Uuid;

use crate::call_log_rows::LOG;
use crate::directory::{Directory, create_private, if_there, sync_directory};
use crate::link_keys;
use crate::wrong_rows::{FILE, WrongRows};

/// What a new installation in an old directory leaves of the old rows' logs gets this ending.
const SET_ASIDE: &str = "before";

/// Refuses a directory whose rows are gone or are another installation's, before anything in it is changed. If a `fresh`
/// installation is wanted where rows are gone, what would be read into the new ones is set aside instead.
pub(crate) fn expect_rows(directory: &Directory, fresh: bool) -> Result<(), WrongRows> {
    let path = directory.path();
    let failed = |source| io_failed(path, source);
    let has_rows = if_there(fs::metadata(directory.database()))
        .map_err(failed)?
        .is_some_and(|metadata| metadata.len() > 0);
    if has_rows {
        let (of_file, of_rows) = (read(path).map_err(failed)?, peek(&directory.database()));
        let differ = matches!((of_file, of_rows), (Some(one), Some(other)) if one != other);
        return match differ {
            true => Err(WrongRows::Exchanged(path.to_owned())),
            false => Ok(()),
        };
    }
    if !has_files(directory).map_err(failed)? {
        return Ok(());
    }
    if !fresh {
        return Err(WrongRows::Missing(path.to_owned()));
    }
    set_aside(path).map_err(failed)
}

/// Writes the file where it is missing or cannot be understood.
pub(crate) fn record(directory: &Directory, of_rows: Uuid) -> Result<(), WrongRows> {
    let path = directory.path();
    let failed = |source| io_failed(path, source);
    match read(path).map_err(failed)? {
        Some(_) => Ok(()),
        None => write(path, of_rows).map_err(failed),
    }
}

/// The id that the rows stand for. It follows from a secret and does not tell it.
pub(crate) fn of_rows(rows: &Connection) -> rusqlite::Result<Uuid> {
    if let Some((id, _)) = link_keys::moved(rows)? {
        return Ok(id);
    }
    let secret = link_keys::installation_secret(rows)?;
    let id = blake3::derive_key("easel installation id v1", &secret);
    let bytes = id.first_chunk().expect("32 bytes begin with 16");
    Ok(uuid::Builder::from_random_bytes(*bytes).into_uuid())
}

/// The id in the rows of a database that nobody has open; `None` if it has none yet, or cannot be read: opening it says why.
fn peek(database: &Path) -> Option<Uuid> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let rows = Connection::open_with_flags(database, flags).ok()?;
    of_rows(&rows).ok()
}

/// The id in the file; `None` if there is no file, or one that was damaged.
fn read(path: &Path) -> io::Result<Option<Uuid>> {
    let text = if_there(fs::read(path.join(FILE)))?;
    let id = text
        .as_deref()
        .and_then(|text| std::str::from_utf8(text).ok())
        .and_then(|text| Uuid::parse_str(text.trim()).ok());
    if text.is_some() && id.is_none() {
        tracing::warn!("the file `{FILE}` is damaged; it is written again from the rows");
    }
    Ok(id)
}

/// Whether anything is there that only an installation leaves.
fn has_files(directory: &Directory) -> io::Result<bool> {
    let path = directory.path();
    if path.join(FILE).exists() || path.join("main.db-wal").exists() {
        return Ok(true);
    }
    Ok(has_file_below(&directory.blobs())? || has_file_below(&directory.replays())?)
}

/// Whether there is a file in a folder or in one below it.
fn has_file_below(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() || has_file_below(&entry.path())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Renames what belongs to the rows that are gone, so that it is neither read into the new ones nor lost.
fn set_aside(path: &Path) -> io::Result<()> {
    let [first_log, second_log] = LOG.files();
    for name in [FILE, "main.db-wal", &first_log, &second_log] {
        let from = path.join(name);
        if from.exists() {
            fs::rename(&from, path.join(format!("{name}.{SET_ASIDE}")))?;
        }
    }
    sync_directory(path)
}

/// Writes the file, durable under its name when this returns.
fn write(path: &Path, id: Uuid) -> io::Result<()> {
    let new = path.join(format!("{FILE}.new"));
    if_there(fs::remove_file(&new))?;
    let mut file: File = create_private(&new)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    fs::rename(&new, path.join(FILE))?;
    sync_directory(path)
}

fn io_failed(path: &Path, source: io::Error) -> WrongRows {
    WrongRows::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
