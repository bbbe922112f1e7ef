//! A blob on its way out.
//!
//! A small one is read and compared with its hash at once, whatever part of it is asked for. A whole large one is hashed on its
//! way, and its last chunk waits for the hash: a client never gets all of a damaged blob. A part of a large one goes out as it is
//! if the blob was compared lately; if not, the caller has that done first.
//!
//! A large one goes out in chunks, with the next chunk being read while one is on its way; how
//! many readers may hold such a second chunk, and the open file with it, is bounded. A reader beyond that holds nothing but
//! the chunk that is on its way, and opens the file again for each chunk: that costs a few microseconds of each, and clients
//! that do not take their bytes cannot use up the descriptors of the process. The sweep leaves blobs alone for hours after
//! their last use, so a file is still there when it is opened again.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use asset_store::{Blob, BlobError, BlobHash, BlobReader};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{self, JoinHandle};

use super::directory::BlobDirectory;
use super::{failed, joined};

/// What is read at once, however the reader keeps up.
pub(super) const SMALL: u64 = 256 * 1024;

/// Bytes of one chunk: a stalled reader holds one, and its connection another.
const CHUNK: u64 = 32 * 1024;

/// How many threads read blobs, at most: those that read ahead, and those that read for readers that hold no second chunk.
const THREADS: usize = 64;

/// How many threads open, touch and compare blobs, and read for readers that hold no second chunk. Callers wait for each other
/// in order: each wait is for the disk alone, never for a client.
pub(super) const READS: usize = 8;

/// How many readers may hold a second chunk and an open file.
pub(super) const AHEAD: usize = THREADS - READS;

/// Bytes of blobs that are read at once, of all readers together; beyond, small ones go out in chunks like large ones.
pub(super) const AT_ONCE: usize = 64 << 20;

/// What readers may hold while they wait for their clients.
#[derive(Clone)]
pub(super) struct ReadAhead {
    /// Second chunks with their files.
    ahead: Arc<Semaphore>,
    /// Bytes of small blobs.
    at_once: Arc<Semaphore>,
    /// Threads beyond those that read ahead.
    reads: Arc<Semaphore>,
}

/// The bytes of a small blob, and the right to hold them.
struct Small {
    bytes: Vec<u8>,
    _at_once: OwnedSemaphorePermit,
}

/// What came of opening a blob.
pub(super) enum Opened {
    Reading(BlobReader),
    /// The blob, of this size, has to be compared with its hash first.
    Unverified(u64),
}

/// What is still to be read.
struct Rest {
    prefixes: Arc<BlobDirectory>,
    blob: Blob,
    /// Of a whole blob: what was read until now.
    hasher: Option<Box<blake3::Hasher>>,
    path: Arc<Path>,
    /// Open at `start` while a chunk is read or another one may be held.
    file: Option<File>,
    start: u64,
    bytes: u64,
}

/// A chunk that was read before it was asked for.
struct Chunk {
    bytes: Bytes,
    rest: Rest,
    _ahead: Option<OwnedSemaphorePermit>,
}

enum Next {
    UnderWay(JoinHandle<Result<Chunk, BlobError>>),
    Waiting(Rest),
}

impl ReadAhead {
    pub(super) fn new() -> Self {
        Self {
            ahead: Arc::new(Semaphore::new(AHEAD)),
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            reads: Arc::new(Semaphore::new(READS)),
        }
    }

    /// Waits for one of the threads that open blobs and read for those who hold no second chunk.
    pub(super) async fn turn(&self) -> OwnedSemaphorePermit {
        let turn = Arc::clone(&self.reads).acquire_owned().await;
        turn.expect("nobody closes the semaphore")
    }

    /// Begins to read the next chunk if another one may be held; else closes the file if it is open.
    fn begin(&self, mut rest: Rest) -> Next {
        match Arc::clone(&self.ahead).try_acquire_owned() {
            Ok(ahead) if rest.bytes > 0 => Next::UnderWay(read(rest, Some(ahead), None)),
            Ok(_) | Err(_) => {
                rest.file = None;
                Next::Waiting(rest)
            }
        }
    }

    /// The right to hold so many bytes of a small blob, where it is small and they may be held.
    fn at_once(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes)
            .ok()
            .filter(|bytes| u64::from(*bytes) <= SMALL)?;
        Arc::clone(&self.at_once).try_acquire_many_owned(bytes).ok()
    }
}

/// Opens `range` of a blob, which was just `verified` or was not; may wait for the disk. When it returns, no file is open but
/// those of readers that may hold one.
pub(super) fn open(
    prefixes: Arc<BlobDirectory>,
    hash: BlobHash,
    range: Range<u64>,
    verified: bool,
    held: &ReadAhead,
) -> Result<Opened, BlobError> {
    if prefixes.integrity().is_damaged(&hash) {
        return Err(BlobError::Damaged(hash));
    }
    let found = prefixes.find(&hash, |path| File::open(path));
    let Some((layout, file)) = found.map_err(failed)? else {
        tracing::error!(
            %hash,
            "the file of a blob is missing; upload its bytes again, or restore its file from a backup"
        );
        return Err(BlobError::Absent);
    };
    let path = prefixes.path(layout, &hash);
    let size_bytes = file.metadata().map_err(failed)?.len();
    let blob = Blob { hash, size_bytes };
    if range.start > range.end {
        return Err(BlobError::Absent);
    }
    if range.end > size_bytes {
        // Either the caller is wrong, or the blob has lost its end.
        return match verified || prefixes.was_verified(&blob) {
            true => Err(BlobError::Absent),
            false => Ok(Opened::Unverified(size_bytes)),
        };
    }
    if range.is_empty() && size_bytes > 0 {
        return Ok(read_at_once(size_bytes, Bytes::new()));
    }
    let mut rest = Rest {
        prefixes,
        blob,
        hasher: None,
        path: path.into(),
        file: Some(file),
        start: 0,
        bytes: size_bytes,
    };
    if let Some(permit) = held.at_once(size_bytes) {
        rest.hasher = Some(Box::default());
        let small = Small {
            bytes: rest.take(SMALL)?,
            _at_once: permit,
        };
        // At most [`SMALL`].
        let part = range.start as usize..range.end as usize;
        let bytes = Bytes::from_owner(small).slice(part);
        return Ok(read_at_once(size_bytes, bytes));
    }
    if range == (0..size_bytes) {
        rest.hasher = Some(Box::default());
    } else if verified || rest.prefixes.was_verified(&blob) {
        rest.seek(&range)?;
    } else {
        return Ok(Opened::Unverified(size_bytes));
    }
    Ok(Opened::Reading(BlobReader {
        size_bytes,
        bytes: chunks(rest, held.clone()).boxed(),
    }))
}

/// A blob of which the asked bytes are there.
fn read_at_once(size_bytes: u64, bytes: Bytes) -> Opened {
    Opened::Reading(BlobReader {
        size_bytes,
        bytes: stream::iter([Ok(bytes)]).boxed(),
    })
}

fn open_at(path: &Path, start: u64) -> Result<File, BlobError> {
    let mut file = File::open(path).map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            BlobError::Absent
        } else {
            failed(error)
        }
    })?;
    if start > 0 {
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
    }
    Ok(file)
}

fn chunks(
    rest: Rest,
    ahead: ReadAhead,
) -> impl futures_util::Stream<Item = Result<Bytes, BlobError>> + Send {
    let first = Some(ahead.begin(rest));
    stream::unfold((first, ahead), |(next, ahead)| async move {
        let mut reading = match next? {
            Next::Waiting(rest) if rest.bytes == 0 => return None,
            Next::Waiting(rest) => read(rest, None, Some(ahead.turn().await)),
            Next::UnderWay(reading) => reading,
        };
        match joined(&mut reading).await {
            Ok(chunk) => {
                let next = ahead.begin(chunk.rest);
                Some((Ok(chunk.bytes), (Some(next), ahead)))
            }
            Err(error) => Some((Err(error), (None, ahead))),
        }
    })
}

fn read(
    mut rest: Rest,
    ahead: Option<OwnedSemaphorePermit>,
    turn: Option<OwnedSemaphorePermit>,
) -> JoinHandle<Result<Chunk, BlobError>> {
    task::spawn_blocking(move || {
        let bytes = rest.take(CHUNK)?;
        if ahead.is_none() {
            // Closed at once: the reader may take the chunk much later.
            rest.file = None;
        }
        drop(turn);
        Ok(Chunk {
            bytes: bytes.into(),
            rest,
            _ahead: ahead,
        })
    })
}

impl Rest {
    /// Goes to a part of the blob.
    fn seek(&mut self, range: &Range<u64>) -> Result<(), BlobError> {
        if let Some(mut file) = self.file.as_ref() {
            file.seek(SeekFrom::Start(range.start)).map_err(failed)?;
        }
        (self.start, self.bytes) = (range.start, range.end - range.start);
        Ok(())
    }

    /// The next bytes, at most `limit` of them; of a whole blob the last ones only if it is right. The file stays open.
    fn take(&mut self, limit: u64) -> Result<Vec<u8>, BlobError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => open_at(&self.path, self.start)?,
        };
        let wanted = self.bytes.min(limit);
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or(0));
        let read = (&file).take(wanted).read_to_end(&mut bytes);
        let read = read.and_then(|read| match read as u64 == wanted {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        });
        if let Err(error) = read {
            // What is wrong with the file others are to know, too.
            let _ = self.prefixes.confirm(&self.blob.hash);
            return Err(failed(error));
        }
        self.file = Some(file);
        self.start += wanted;
        self.bytes -= wanted;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&bytes);
            if self.bytes == 0 {
                let found = BlobHash::from(hasher.finalize());
                self.judge(found)?;
            }
        }
        Ok(bytes)
    }

    /// Refuses the last bytes of a blob of another hash.
    fn judge(&self, found: BlobHash) -> Result<(), BlobError> {
        let hash = self.blob.hash;
        if found == hash {
            self.prefixes.note_read(&self.blob);
            return Ok(());
        }
        // Once more: the file may have been replaced between two chunks, which is no damage. What was read is wrong anyhow.
        self.prefixes.confirm(&hash)?;
        Err(BlobError::Damaged(hash))
    }
}

impl AsRef<[u8]> for Small {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
