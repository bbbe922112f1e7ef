//! Copies of a data directory that may be in use, and whether a directory is sound.
//!
//! The log of calls first, then the rows, as one moment of them, into which it is brought; then the files that they name, which
//! are there by then, never change (or only grow), and go a while after their last row at the earliest. A copy of rows and files
//! is a data directory: a server can start over it, unless the installation was moved elsewhere, which goes with the copy.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use asset_store::BlobHash;
use installation::Contents;
use rusqlite::{Connection, OpenFlags};

use crate::call_log_rows::LOG;
#[cfg(not(feature = "router"))]
use crate::call_log_rows::park;
#[cfg(feature = "router")]
use crate::calls;
use crate::columns::Hash;
use crate::database::{keep_log_on_close, number_copy};
use crate::directory::{Directory, DirectoryError, sync_directory};
use crate::log_files::{self, Contents as Logged};
use crate::transfer;
#[cfg(feature = "router")]
use crate::webhooks::Hooks;

/// A backup was not made.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is nothing to copy.
    #[error("{} is no data directory; name the one that a server uses", .0.display())]
    NoStore(PathBuf),
    /// The rows could not be copied.
    #[error("the rows could not be copied")]
    Rows(#[source] rusqlite::Error),
    /// A file could not be copied.
    #[error("{} could not be copied", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A directory could not be looked over.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// It is in use, or cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Its rows cannot be read.
    #[error("the rows cannot be read; restore the directory from a backup")]
    Rows(#[source] rusqlite::Error),
}

/// Copies the installation in `from`, which a server may be using, into `to`, where an earlier backup may be. What is in `to`
/// is the earlier backup until the last step and the new one after it; everything is on the disk when this returns.
///
/// # Errors
/// If `from` is no data directory or something cannot be copied; the earlier backup is then as it was.
pub fn back_up(from: &Path, to: &Path) -> Result<Contents, BackupError> {
    let database = from.join("main.db");
    if !database.is_file() {
        return Err(BackupError::NoStore(from.to_owned()));
    }
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| BackupError::File { path, source }
    };
    create(&to.join("blobs")).map_err(at(to))?;
    let (rows, new) = (to.join("main.db"), to.join("main.db.new"));
    remove(&new).map_err(at(&new))?;
    // Before the rows: what leaves it meanwhile is among them.
    let logged = log_files::read(from, LOG).map_err(at(from))?;
    let (hashes, journaled) = copy_rows(&database, &new, &logged).map_err(BackupError::Rows)?;
    let mut contents = Contents::default();
    let mut folders = BTreeSet::new();
    for hash in hashes {
        let place = place(from, hash);
        let target = to.join(&place);
        let (bytes, kept) = match copy_blob(&from.join(&place), &target) {
            // A power cut took the file, and no server was started since. The rows have its bytes.
            Err(error) if error.kind() == io::ErrorKind::NotFound && journaled.contains(&hash) => {
                continue;
            }
            copied => copied.map_err(at(&target))?,
        };
        contents.blobs += 1;
        contents.bytes += bytes;
        contents.kept += u64::from(kept);
        folders.extend(target.ancestors().skip(1).take(3).map(Path::to_owned));
    }
    // A replay that goes while it is copied is one that its key answers no more.
    for place in replays(from).map_err(at(&from.join("replays")))? {
        let (source, target) = (from.join(&place), to.join(&place));
        let copied = match place.starts_with("replays/hours") {
            true => copy_growing(&source, &target),
            false => copy_blob(&source, &target).map(|_| ()),
        };
        match copied {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            copied => copied.map_err(at(&target))?,
        }
        folders.extend(target.ancestors().skip(1).take(2).map(Path::to_owned));
    }
    for folder in &folders {
        sync_directory(folder).map_err(at(folder))?;
    }
    // Read last, so that a move which began meanwhile is in it. It is there before the rows: over no copy of an installation that
    // was moved may a server start.
    let note = transfer::read_note(from).map_err(at(from))?;
    if let Some(note) = &note {
        transfer::write_note(to, note).map_err(at(to))?;
    }
    File::open(&new)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&new, &rows))
        .and_then(|()| sync_directory(to))
        .map_err(at(&rows))?;
    if note.is_none() {
        // That of an earlier backup, whose move was given up since.
        transfer::remove_note(to).map_err(at(to))?;
    }
    Ok(contents)
}

/// Looks over a data directory that no server uses: the rows, and that the bytes which they name are whole. Answers what it
/// met, and what is wrong; an empty list when it is sound.
///
/// # Errors
/// If it is in use or cannot be read at all.
pub fn inspect(path: &Path) -> Result<(Contents, Vec<String>), InspectError> {
    let directory = Directory::take(path)?;
    let rows = Connection::open_with_flags(
        directory.database(),
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NOFOLLOW,
    )
    .map_err(InspectError::Rows)?;
    // Looking changes nothing, least of all what is damaged.
    keep_log_on_close(&rows, true).map_err(InspectError::Rows)?;
    let mut faults = complaints(&rows).map_err(InspectError::Rows)?;
    let mut contents = Contents::default();
    let journaled = journaled(&rows).map_err(InspectError::Rows)?;
    for hash in hashes(&rows).map_err(InspectError::Rows)? {
        if journaled.contains(&hash) {
            // The next start makes the file what it was.
            continue;
        }
        match hash_of(&path.join(place(path, hash))) {
            Ok((found, bytes)) => {
                contents.blobs += 1;
                contents.bytes += bytes;
                if found != hash {
                    faults.push(format!("the bytes of {hash} are others"));
                }
            }
            Err(error) => faults.push(format!("the bytes of {hash} cannot be read: {error}")),
        }
    }
    Ok((contents, faults))
}

/// Copies one moment of the rows into a database of its own, with the calls that were in the log before, and answers the blobs
/// that they name and those whose bytes they have.
fn copy_rows(
    from: &Path,
    to: &Path,
    logged: &Logged,
) -> rusqlite::Result<(Vec<BlobHash>, BTreeSet<BlobHash>)> {
    // It only reads: the writer goes on meanwhile.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let rows = Connection::open_with_flags(fs::canonicalize(from).unwrap_or_default(), flags)?;
    let target = to.to_string_lossy();
    rows.execute("VACUUM INTO ?1", [&target])?;
    let mut copy = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    if has_table(&copy, "call_log_place")? {
        let transaction = copy.transaction()?;
        bring_in(&transaction, logged)?;
        transaction.commit()?;
    }
    number_copy(&copy)?;
    Ok((hashes(&copy)?, journaled(&copy)?))
}

#[cfg(not(feature = "router"))]
fn bring_in(copy: &Connection, logged: &Logged) -> rusqlite::Result<()> {
    park(copy, logged).map(drop)
}

/// Brings the calls of the log into a copy, with what webhooks hear of them.
#[cfg(feature = "router")]
fn bring_in(copy: &Connection, logged: &Logged) -> rusqlite::Result<()> {
    let hooks = Hooks::default();
    if has_table(copy, "webhooks")? {
        hooks.load(copy)?;
    }
    // The bytes that keys answer again are not this copy's: their ends wait for the program that opens it.
    let targets = calls::FlushTargets {
        hooks: &hooks,
        replays: None,
    };
    calls::bring_in(copy, targets, logged).map(drop)
}

/// Whether there is such a table: those of an earlier version have not all of them.
fn has_table(rows: &Connection, name: &str) -> rusqlite::Result<bool> {
    let mut table = rows.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?1")?;
    table.exists([name])
}

/// The blobs whose bytes are in the rows.
fn journaled(rows: &Connection) -> rusqlite::Result<BTreeSet<BlobHash>> {
    if !has_table(rows, "blob_journal")? {
        return Ok(BTreeSet::new());
    }
    let mut statement = rows.prepare("SELECT hash FROM blob_journal")?;
    let hashes = statement.query_map([], |row| row.get::<_, Hash>(0))?;
    hashes.map(|hash| Ok(hash?.0)).collect()
}

fn hashes(rows: &Connection) -> rusqlite::Result<Vec<BlobHash>> {
    let mut statement = rows.prepare("SELECT DISTINCT hash FROM assets ORDER BY hash")?;
    let hashes = statement.query_map([], |row| row.get::<_, Hash>(0))?;
    hashes.map(|hash| Ok(hash?.0)).collect()
}

fn complaints(rows: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = rows.prepare("PRAGMA integrity_check")?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut found = lines.collect::<rusqlite::Result<Vec<_>>>()?;
    found.retain(|line| line != "ok");
    let mut statement = rows.prepare("PRAGMA foreign_key_check")?;
    let dangling = statement.query_map([], |row| row.get::<_, String>(0))?;
    for table in dangling {
        found.push(format!("a row of {} refers to nothing", table?));
    }
    Ok(found)
}

/// Where a blob lies in a data directory; one that is not there, where it would.
fn place(root: &Path, hash: BlobHash) -> PathBuf {
    let hex = hash.to_hex();
    let flat: PathBuf = ["blobs", &hex[..2], &hex].iter().collect();
    // Where an earlier version put it.
    let nested: PathBuf = ["blobs", &hex[..2], &hex[2..4], &hex].iter().collect();
    match !root.join(&flat).exists() && root.join(&nested).exists() {
        true => nested,
        false => flat,
    }
}

/// Where the results lie that keys answer again.
fn replays(from: &Path) -> io::Result<Vec<PathBuf>> {
    let root = from.join("replays");
    if !root.is_dir() {
        return Ok(Vec::new());
    }
    let mut places = Vec::new();
    for folder in fs::read_dir(&root)? {
        let folder = folder?.path();
        for file in fs::read_dir(&folder)? {
            let file = file?.path();
            places.extend(file.strip_prefix(from).ok().map(Path::to_owned));
        }
    }
    Ok(places)
}

/// Puts a file that never changes into its place, unless it is there whole; answers its size, and whether it was.
fn copy_blob(from: &Path, to: &Path) -> io::Result<(u64, bool)> {
    let size = fs::metadata(from)?.len();
    if fs::metadata(to).is_ok_and(|there| there.len() == size) {
        return Ok((size, true));
    }
    if let Some(folder) = to.parent() {
        create(folder)?;
    }
    let new = to.with_extension("new");
    remove(&new)?;
    // On the same file system they share their room: the bytes of a blob never change.
    if fs::hard_link(from, &new).is_err() {
        fs::copy(from, &new)?;
        File::open(&new)?.sync_all()?;
    }
    fs::rename(&new, to)?;
    Ok((size, false))
}

/// Copies a file that others append to, unless it is as it was when it was copied last. What rows name of it does not change.
fn copy_growing(from: &Path, to: &Path) -> io::Result<()> {
    let source = fs::metadata(from)?;
    let changed = source.modified()?;
    let is_same = |copy: &fs::Metadata| {
        copy.len() == source.len() && copy.modified().is_ok_and(|copied| copied == changed)
    };
    if fs::metadata(to).is_ok_and(|copy| is_same(&copy)) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        create(folder)?;
    }
    let new = to.with_extension("new");
    remove(&new)?;
    fs::copy(from, &new)?;
    let file = File::options().write(true).open(&new)?;
    // Of before: what was appended meanwhile makes it another one.
    file.set_modified(changed)?;
    file.sync_all()?;
    fs::rename(&new, to)
}

fn hash_of(path: &Path) -> io::Result<(BlobHash, u64)> {
    let mut hasher = blake3::Hasher::new();
    let bytes = io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok((hasher.finalize().into(), bytes))
}

fn create(folder: &Path) -> io::Result<()> {
    // As private as the directory that it is a copy of.
    DirBuilder::new().mode(0o700).recursive(true).create(folder)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
