//! A blob on its way out.
//!
//! A small one is read at once. A large one goes out in chunks, with the next chunk being read while one is on its way; how
//! many readers may hold such a second chunk, and the open file with it, is bounded. A reader beyond that holds nothing but
//! the chunk that is on its way, and opens the file again for each chunk: that costs a few microseconds of each, and clients
//! that do not take their bytes cannot use up the descriptors of the process. The sweep leaves blobs alone for hours after
//! their last use, so a file is still there when it is opened again.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asset_store::{BlobError, BlobReader};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{self, JoinHandle};

use super::{failed, joined};

/// What is read at once, however the reader keeps up.
const SMALL: u64 = 256 * 1024;

/// Bytes of one chunk: a stalled reader holds one, and its connection another.
const CHUNK: u64 = 32 * 1024;

/// How many readers may hold a second chunk and an open file.
pub(super) const AHEAD: usize = 64;

/// Bytes of blobs that are read at once, of all readers together; beyond, small ones go out in chunks like large ones.
pub(super) const AT_ONCE: usize = 64 << 20;

/// What readers may hold while they wait for their clients.
#[derive(Clone)]
pub(super) struct ReadAhead {
    /// Second chunks with their files.
    ahead: Arc<Semaphore>,
    /// Bytes of small blobs.
    at_once: Arc<Semaphore>,
}

/// The bytes of a small blob, and the right to hold them.
struct Small {
    bytes: Vec<u8>,
    _at_once: OwnedSemaphorePermit,
}

enum Opened {
    Small(u64, Bytes),
    Large(u64, Rest),
}

/// What is still to be read.
struct Rest {
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
        }
    }

    /// Begins to read the next chunk if another one may be held; else closes the file.
    fn begin(&self, mut rest: Rest) -> Next {
        match Arc::clone(&self.ahead).try_acquire_owned() {
            Ok(ahead) if rest.bytes > 0 => Next::UnderWay(read(rest, Some(ahead))),
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

/// Opens `range` of the file at `path`.
pub(super) async fn open(
    path: PathBuf,
    range: Range<u64>,
    ahead: ReadAhead,
) -> Result<BlobReader, BlobError> {
    let held = ahead.clone();
    let mut opened = task::spawn_blocking(move || open_file(path, range, &held));
    let opened = joined(&mut opened).await?;
    Ok(match opened {
        Opened::Small(size_bytes, bytes) => BlobReader {
            size_bytes,
            bytes: stream::iter([Ok(bytes)]).boxed(),
        },
        Opened::Large(size_bytes, rest) => BlobReader {
            size_bytes,
            bytes: chunks(rest, ahead).boxed(),
        },
    })
}

fn open_file(path: PathBuf, range: Range<u64>, held: &ReadAhead) -> Result<Opened, BlobError> {
    let file = open_at(&path, range.start)?;
    let size = file.metadata().map_err(failed)?.len();
    if range.start > range.end || range.end > size {
        return Err(BlobError::Absent);
    }
    let mut rest = Rest {
        path: path.into(),
        file: Some(file),
        start: range.start,
        bytes: range.end - range.start,
    };
    let Some(permit) = held.at_once(rest.bytes) else {
        return Ok(Opened::Large(size, rest));
    };
    let small = Small {
        bytes: rest.take(SMALL)?,
        _at_once: permit,
    };
    Ok(Opened::Small(size, Bytes::from_owner(small)))
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
            Next::Waiting(rest) => read(rest, None),
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
) -> JoinHandle<Result<Chunk, BlobError>> {
    task::spawn_blocking(move || {
        let bytes = rest.take(CHUNK)?;
        Ok(Chunk {
            bytes: bytes.into(),
            rest,
            _ahead: ahead,
        })
    })
}

impl Rest {
    /// The next bytes, at most `limit` of them. The file stays open.
    fn take(&mut self, limit: u64) -> Result<Vec<u8>, BlobError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => open_at(&self.path, self.start)?,
        };
        let wanted = self.bytes.min(limit);
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or(0));
        let read = (&file).take(wanted).read_to_end(&mut bytes);
        if read.map_err(failed)? as u64 != wanted {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        self.file = Some(file);
        self.start += wanted;
        self.bytes -= wanted;
        Ok(bytes)
    }
}

impl AsRef<[u8]> for Small {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
