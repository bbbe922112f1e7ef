//! An installation that moves into a data directory, or out of it.
//!
//! The file `transfer` tells which; it is there before anything else is copied, and servers refuse the directory until a move into
//! it is finished, and from the moment on when a move out of it begins. A directory that an installation comes to is opened without
//! what a server does at its start: rows stay as they came.

mod mappings;
mod pieces;
mod rows;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::installation::transfer::{
    Direction, Note, Part, Progress, Row, TransferSource, TransferStore, TransferTarget, Value,
};
use ::installation::{BoxError, OpenError, ReserveOptions};
use asset_store::BlobStore;
use async_trait::async_trait;
use rusqlite::{OptionalExtension, params};

use crate::blobs::{FileBlobs, Journal, journal};
use crate::call_log_rows::{self, LOG};
use crate::database::{Database, Durability, expect_whole};
use crate::directory::{Directory, DirectoryError, create_private, if_there, sync_directory};
use crate::health::Health;
use crate::installation::opening;
use crate::reserve::Reserve;
use crate::schema::SCHEMA;
use crate::{LocalStore, OpenError as LocalOpenError, Store, StoreOptions, log_files};

use pieces::Files;

/// The file of the note.
const FILE: &str = "transfer";

/// What makes a directory usable again whose installation was to move.
const UNDO: &str = "delete the file `transfer` in that directory";

/// Why a directory cannot be a source.
#[derive(Debug, thiserror::Error)]
#[error(
    "the log of {0} holds calls of models that this program cannot read; move it with a program that has the model router, or start and stop one over it first"
)]
struct CallsInLog(String);

/// A directory that is no place for an installation to come to.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not empty; name a new directory")]
struct NotEmpty(String);

/// A directory that is read or filled as a whole.
struct LocalPlace {
    database: Database,
    blobs: FileBlobs,
    files: Files,
    path: PathBuf,
    /// Of a source: what a server has open.
    _store: Option<Store>,
}

/// Refuses a directory whose installation is somewhere else, or not all here.
pub(crate) fn expect_settled(directory: &Directory) -> Result<(), LocalOpenError> {
    let path = directory.path();
    match read_note(path).map_err(|source| unusable(path, source))? {
        Some(note) => Ok(note.allows_opening(&path.display().to_string(), UNDO)?),
        None => Ok(()),
    }
}

#[async_trait]
impl TransferStore for LocalStore {
    async fn source(&self) -> Result<Arc<dyn TransferSource>, OpenError> {
        Ok(Arc::new(source(self.path()).map_err(opening)?))
    }

    async fn target(&self, fresh: &Note) -> Result<Arc<dyn TransferTarget>, OpenError> {
        if !is_free(self.path()) {
            return Err(OpenError::Failed(
                NotEmpty(self.path().display().to_string()).into(),
            ));
        }
        let target = target(self.path(), fresh);
        Ok(Arc::new(target.map_err(opening)?))
    }
}

/// Opens the directory as a server does, so that nothing is left in logs and journals.
fn source(path: &Path) -> Result<LocalPlace, LocalOpenError> {
    if !path.join("main.db").exists() {
        return Err(DirectoryError::Missing(path.to_owned()).into());
    }
    let directory = Arc::new(Directory::take(path)?);
    let note = read_note(directory.path()).map_err(|source| unusable(path, source))?;
    if note.is_some_and(|note| note.direction == Direction::In && !note.is_finished) {
        expect_settled(&directory)?;
    }
    let store = Store::open_in(&directory, StoreOptions::default())?;
    Ok(LocalPlace {
        database: store.database().clone(),
        blobs: store.blobs(),
        files: Files::of(&directory),
        path: directory.path().to_owned(),
        _store: Some(store),
    })
}

/// Opens a directory for rows to come, which stay as they come.
fn target(path: &Path, fresh: &Note) -> Result<LocalPlace, LocalOpenError> {
    let directory = Arc::new(Directory::take(path)?);
    let path = directory.path();
    let failed = |source| unusable(path, source);
    if read_note(path).map_err(failed)?.is_none() {
        write_note(path, fresh).map_err(failed)?;
    }
    expect_whole(&directory)?;
    directory.create_database()?;
    let health = Health::default();
    let reserve = Reserve::open(&directory, ReserveOptions::NONE);
    let journal = Journal::new(Arc::clone(&directory), health.clone());
    let (database, (newest, journaled)) = Database::open(
        Arc::clone(&directory),
        (health.clone(), reserve.clone()),
        SCHEMA,
        vec![Arc::new(journal.clone()) as _].into(),
        journal::load,
    )?;
    let clock = StoreOptions::default().clock;
    let blobs = FileBlobs::open(
        Arc::clone(&directory),
        health,
        reserve,
        journal.clone(),
        clock,
    )
    .map_err(LocalOpenError::Blobs)?;
    blobs.restore(&journaled).map_err(LocalOpenError::Blobs)?;
    journal.resume(newest, &journaled);
    Ok(LocalPlace {
        database,
        blobs,
        files: Files::of(&directory),
        path: path.to_owned(),
        _store: None,
    })
}

/// Whether an installation may come to a directory: it is new, empty, or has a note of a move.
fn is_free(path: &Path) -> bool {
    if path.join(FILE).exists() {
        return true;
    }
    match fs::read_dir(path) {
        // A lock is left by whoever looked before.
        Ok(entries) => entries
            .into_iter()
            .all(|entry| entry.is_ok_and(|entry| entry.file_name() == "lock")),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[async_trait]
impl TransferSource for LocalPlace {
    async fn note(&self) -> Result<Option<Note>, BoxError> {
        Ok(read_note(&self.path)?)
    }

    async fn set_note(&self, note: &Note) -> Result<(), BoxError> {
        if note.direction == Direction::Out {
            let (path, files) = (self.path.clone(), log_files::read(&self.path, LOG)?);
            let pending = self
                .database
                .read(move |rows| call_log_rows::pending(rows, &files));
            if !pending.await?.0.is_empty() {
                return Err(CallsInLog(path.display().to_string()).into());
            }
        }
        Ok(write_note(&self.path, note)?)
    }

    async fn count(&self, part: &'static Part) -> Result<u64, BoxError> {
        let count = self
            .database
            .read(move |connection| rows::count(connection, part));
        Ok(count.await?)
    }

    async fn read(
        &self,
        part: &'static Part,
        after: Option<&[Value]>,
    ) -> Result<Vec<Row>, BoxError> {
        let (after, files) = (after.map(<[Value]>::to_vec), self.files.clone());
        let read = self.database.read(move |connection| match part.name {
            "replays" | "queued_bodies" => pieces::read(connection, &files, part, after.as_deref()),
            "installation" => rows::read_secrets(connection, after.is_some()),
            _ => rows::read(connection, part, after.as_deref()),
        });
        Ok(read.await?)
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        Arc::new(self.blobs.clone())
    }

    fn undo(&self) -> &'static str {
        UNDO
    }
}

#[async_trait]
impl TransferTarget for LocalPlace {
    async fn progress(&self, part: &'static Part) -> Result<Progress, BoxError> {
        let kept = self.database.read(move |rows| {
            let sql = "SELECT progress FROM transfer_progress WHERE part = ?1";
            let kept = rows.query_row(sql, [part.name], |row| row.get::<_, Vec<u8>>(0));
            kept.optional()
        });
        match kept.await? {
            None => Ok(Progress::default()),
            Some(bytes) => {
                Progress::from_bytes(&bytes).ok_or_else(|| "the progress cannot be read".into())
            }
        }
    }

    async fn write(
        &self,
        part: &'static Part,
        new: Vec<Row>,
        progress: &Progress,
    ) -> Result<(), BoxError> {
        let (progress, files) = (progress.to_bytes(), self.files.clone());
        let written = self.database.write(Durability::Now, move |connection| {
            match part.name {
                "replays" | "queued_bodies" => pieces::write(connection, &files, part, &new)?,
                "installation" => rows::write_secrets(connection, &new)?,
                _ => rows::write(connection, part, &new)?,
            }
            let sql = "INSERT OR REPLACE INTO transfer_progress (part, progress) VALUES (?1, ?2)";
            connection.execute(sql, params![part.name, progress])?;
            Ok(())
        });
        Ok(written.await?)
    }

    async fn finish(&self, note: &Note) -> Result<(), BoxError> {
        let mut after = Some(Vec::new());
        while let Some(last) = after {
            let files = self.files.clone();
            let summed = self.database.write(Durability::Now, move |connection| {
                pieces::sum_up(connection, &files, &last)
            });
            after = summed.await?;
        }
        write_note(&self.path, note)?;
        self.database.write_back().await;
        Ok(())
    }
}

/// What is noted of a move of the installation in a directory.
pub(crate) fn read_note(path: &Path) -> io::Result<Option<Note>> {
    let text = if_there(fs::read_to_string(path.join(FILE)))?;
    let note = text.map(|text| text.parse().map_err(io::Error::other));
    note.transpose()
}

/// Writes the note, durable under its name when this returns.
pub(crate) fn write_note(path: &Path, note: &Note) -> io::Result<()> {
    let new = path.join(format!("{FILE}.new"));
    if_there(fs::remove_file(&new))?;
    let mut file = create_private(&new)?;
    writeln!(file, "{note}")?;
    file.sync_all()?;
    fs::rename(&new, path.join(FILE))?;
    sync_directory(path)
}

/// Takes the note away, durably, where there is one.
pub(crate) fn remove_note(path: &Path) -> io::Result<()> {
    match if_there(fs::remove_file(path.join(FILE)))? {
        Some(()) => sync_directory(path),
        None => Ok(()),
    }
}

fn unusable(path: &Path, source: io::Error) -> LocalOpenError {
    let path = path.to_owned();
    DirectoryError::Io { path, source }.into()
}

#[cfg(test)]
mod tests;
