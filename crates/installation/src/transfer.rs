//! Moving an installation from one store to another: [`transfer`] reads [`PARTS`] from a [`TransferSource`] and writes them into a
//! [`TransferTarget`], page by page.
//!
//! A page is written together with how far its part is, so a move that was cut off goes on behind the last page, and no row is
//! written twice. Rows are counted and summed up as they are read, and the target is read once more at the end and compared. Blobs
//! are compared with their hashes on the way. Both places note the move before anything is copied: no server opens the source
//! from then on, nor the target before the end.

mod blobs;
mod memory;
mod note;
mod parts;
mod values;

use std::sync::Arc;

use asset_store::{BlobHash, BlobStore};
use async_trait::async_trait;
use uuid::Uuid;

use crate::{BoxError, InstallationStore, OpenError};

pub use memory::MemoryPlace;
pub use note::{Direction, NoNote, Note, Unsettled};
pub use parts::{Column, Kind, PAGE_BYTES, PARTS, PIECE_BYTES, Part, part};
pub use values::{Digest, Progress, Row, Value};

/// A store whose installation can move.
#[async_trait]
pub trait TransferStore: InstallationStore {
    /// Opens the installation to be read; no server may have it. Servers are kept out once [`TransferSource::set_note`] was called.
    async fn source(&self) -> Result<Arc<dyn TransferSource>, OpenError>;

    /// Opens an empty place for an installation that comes, and notes it there, or one where such a note is already.
    async fn target(&self, fresh: &Note) -> Result<Arc<dyn TransferTarget>, OpenError>;
}

/// An installation that is read as a whole.
///
/// **Contract.** `read` answers the rows of a part behind a key, in the order of their keys: at least one unless there are none, at
/// most [`Part::page`], and about [`PAGE_BYTES`] at most unless a single row has more. The order of keys is the store's own.
#[async_trait]
pub trait TransferSource: Send + Sync + 'static {
    /// What it remembers of a move.
    async fn note(&self) -> Result<Option<Note>, BoxError>;

    /// Remembers a move in place of what was remembered; durable when this returns.
    async fn set_note(&self, note: &Note) -> Result<(), BoxError>;

    /// How many rows a part has, about; nothing depends on it but what is shown.
    async fn count(&self, part: &'static Part) -> Result<u64, BoxError>;

    /// The next rows of a part.
    async fn read(
        &self,
        part: &'static Part,
        after: Option<&[Value]>,
    ) -> Result<Vec<Row>, BoxError>;

    /// Its bytes.
    fn blobs(&self) -> Arc<dyn BlobStore>;

    /// What an operator does to use it again after a move was noted, as the end of a sentence.
    fn undo(&self) -> &'static str;
}

/// A place that an installation comes to.
///
/// **Contract.** `write` adds the rows and keeps the progress, both or neither, durably. `finish` makes what follows from the rows and
/// keeps the note; from then on servers open it.
#[async_trait]
pub trait TransferTarget: TransferSource {
    /// How far a part is.
    async fn progress(&self, part: &'static Part) -> Result<Progress, BoxError>;

    /// Adds rows of a part, each of which is new.
    async fn write(
        &self,
        part: &'static Part,
        rows: Vec<Row>,
        progress: &Progress,
    ) -> Result<(), BoxError>;

    /// Ends the move.
    async fn finish(&self, note: &Note) -> Result<(), BoxError>;
}

/// Why a move does not go on. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The target is no empty place.
    #[error("{0} holds an installation already; name an empty place")]
    TargetTaken(String),
    /// The source may not be used.
    #[error(transparent)]
    Source(#[from] Unsettled),
    /// The source was opened since the move began.
    #[error(
        "{source_place} was used after its move to {target_place} began, so what was copied is no longer right; empty the target and begin again"
    )]
    SourceUsed {
        /// Where it is.
        source_place: String,
        /// Where it goes.
        target_place: String,
    },
    /// A store failed.
    #[error("the {part} cannot be moved; run the same command again to go on")]
    Store {
        /// Which part.
        part: &'static str,
        /// What the store said.
        #[source]
        source: BoxError,
    },
    /// Bytes that are gone or damaged.
    #[error(
        "the bytes of {count} files are missing or damaged in the source; restore them from a backup and run the same command again, or leave them behind with --leave-damaged:\n{}",
        list(.first)
    )]
    Damaged {
        /// How many were met; there may be more.
        count: usize,
        /// The first ones.
        first: Vec<BlobHash>,
    },
    /// The target does not hold what was written.
    #[error(
        "the {0} in the target are not those of the source; empty the target and begin again, and report this: it is a defect"
    )]
    Differs(&'static str),
}

/// How far a move is: rows of a part, or bytes of blobs.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What moves.
    pub part: &'static Part,
    /// Whether it is being compared, not moved.
    pub is_comparing: bool,
    /// How many rows are done.
    pub rows: u64,
    /// How many there are, about.
    pub of: u64,
}

/// What moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Rows of all kinds.
    pub rows: u64,
    /// Blobs that records name.
    pub blobs: u64,
    /// How many of them were left behind, because their bytes are gone or damaged.
    pub left_behind: usize,
}

/// How a move is made.
#[derive(Clone, Copy, Debug)]
pub struct TransferOptions {
    /// Whether blobs whose bytes are gone or damaged are left behind. Their records move in any case.
    pub leave_damaged: bool,
}

/// The note for a target that nothing came to yet.
#[must_use]
pub fn arriving(id: Uuid, from: &str) -> Note {
    Note {
        id,
        direction: Direction::In,
        is_finished: false,
        other: from.to_owned(),
    }
}

/// Moves everything, or what is left of an earlier attempt. `from` and `to` are the places with their names; `report` hears how far
/// it is.
///
/// # Errors
/// If the places do not belong together, a store fails, or bytes are damaged. Everything that was copied stays copied.
pub async fn transfer(
    (from, source_place): (&dyn TransferSource, &str),
    (to, target_place): (&dyn TransferTarget, &str),
    options: TransferOptions,
    report: &(dyn Fn(Step) + Sync),
) -> Result<Transferred, TransferError> {
    let taken = || TransferError::TargetTaken(target_place.to_owned());
    let arriving = noted(to.note().await)?.ok_or_else(taken)?;
    if arriving.direction == Direction::Out {
        return Err(taken());
    }
    let leaving = Note {
        id: arriving.id,
        direction: Direction::Out,
        is_finished: arriving.is_finished,
        other: target_place.to_owned(),
    };
    let before = noted(from.note().await)?;
    let is_ours = before
        .as_ref()
        .is_some_and(|note| (note.direction, note.id) == (Direction::Out, arriving.id));
    if !is_ours {
        if arriving.is_finished {
            return Err(taken());
        }
        if let Some(before) = before {
            before.allows_opening(source_place, from.undo())?;
        }
        for part in PARTS {
            if progress_of(to, part).await? != Progress::default() {
                return Err(TransferError::SourceUsed {
                    source_place: source_place.to_owned(),
                    target_place: target_place.to_owned(),
                });
            }
        }
    }
    noted(from.set_note(&leaving).await)?;
    if arriving.is_finished {
        return summary(to, 0).await;
    }
    for part in PARTS.iter().filter(|part| part.name != BLOBS) {
        copy(from, to, part, report).await?;
    }
    let left_behind = blobs::copy(from, to, options, report).await?;
    for part in PARTS {
        compare(to, part, report).await?;
    }
    let moved = summary(to, left_behind).await?;
    noted(to.finish(&arriving.finished()).await)?;
    noted(from.set_note(&leaving.finished()).await)?;
    Ok(moved)
}

/// The part whose rows no store has: the blobs that records name.
const BLOBS: &str = "blobs";

async fn copy(
    from: &dyn TransferSource,
    to: &dyn TransferTarget,
    part: &'static Part,
    report: &(dyn Fn(Step) + Sync),
) -> Result<(), TransferError> {
    let mut progress = progress_of(to, part).await?;
    let of = in_part(part, from.count(part).await)?;
    while !progress.is_complete {
        let rows = in_part(part, from.read(part, progress.after.as_deref()).await)?;
        advance(part, &mut progress, &rows);
        in_part(part, to.write(part, rows, &progress).await)?;
        report(Step {
            part,
            is_comparing: false,
            rows: progress.digest.rows,
            of,
        });
    }
    Ok(())
}

/// Counts a page.
fn advance(part: &Part, progress: &mut Progress, rows: &[Row]) {
    for row in rows {
        progress.digest.add(part, row);
    }
    match rows.last() {
        Some(last) => progress.after = Some(last[..part.key].to_vec()),
        None => progress.is_complete = true,
    }
}

/// Reads a part of the target again, and compares it with what was read from the source.
async fn compare(
    to: &dyn TransferTarget,
    part: &'static Part,
    report: &(dyn Fn(Step) + Sync),
) -> Result<(), TransferError> {
    let wanted = progress_of(to, part).await?.digest;
    let mut found = Progress::default();
    while !found.is_complete {
        let rows = in_part(part, to.read(part, found.after.as_deref()).await)?;
        advance(part, &mut found, &rows);
        report(Step {
            part,
            is_comparing: true,
            rows: found.digest.rows,
            of: wanted.rows,
        });
    }
    match found.digest == wanted {
        true => Ok(()),
        false => Err(TransferError::Differs(part.name)),
    }
}

async fn summary(
    to: &dyn TransferTarget,
    left_behind: usize,
) -> Result<Transferred, TransferError> {
    let mut moved = Transferred {
        left_behind,
        ..Transferred::default()
    };
    for part in PARTS {
        let rows = progress_of(to, part).await?.digest.rows;
        match part.name == BLOBS {
            true => moved.blobs = rows,
            false => moved.rows += rows,
        }
    }
    Ok(moved)
}

async fn progress_of(
    to: &dyn TransferTarget,
    part: &'static Part,
) -> Result<Progress, TransferError> {
    in_part(part, to.progress(part).await)
}

fn in_part<T>(part: &'static Part, done: Result<T, BoxError>) -> Result<T, TransferError> {
    done.map_err(|source| TransferError::Store {
        part: part.name,
        source,
    })
}

fn noted<T>(done: Result<T, BoxError>) -> Result<T, TransferError> {
    done.map_err(|source| TransferError::Store {
        part: "note of the move",
        source,
    })
}

fn list(hashes: &[BlobHash]) -> String {
    let lines: Vec<String> = hashes.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests;
