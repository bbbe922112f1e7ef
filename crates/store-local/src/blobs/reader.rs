//! A blob on its way out.
//!
//! A small one is read at once. A large one goes out in chunks, with the next chunk being read while one is on its way; how
//! many readers may hold such a second chunk is bounded, so that a thousand stalled ones hold one chunk each and no more.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;
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

/// How many readers may hold a second chunk.
const AHEAD: usize = 64;

/// The second chunks that may be held.
#[derive(Clone)]
pub(super) struct ReadAhead(Arc<Semaphore>);

enum Opened {
    Small(u64, Bytes),
    Large(u64, Rest),
}

/// What is still to be read.
struct Rest {
    file: File,
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
        Self(Arc::new(Semaphore::new(AHEAD)))
    }

    /// Begins to read the next chunk if another one may be held.
    fn begin(&self, rest: Rest) -> Next {
        match Arc::clone(&self.0).try_acquire_owned() {
            Ok(ahead) if rest.bytes > 0 => Next::UnderWay(read(rest, Some(ahead))),
            Ok(_) | Err(_) => Next::Waiting(rest),
        }
    }
}

/// Opens `range` of the file at `path`.
pub(super) async fn open(
    path: PathBuf,
    range: Range<u64>,
    ahead: ReadAhead,
) -> Result<BlobReader, BlobError> {
    let opened = joined(&mut task::spawn_blocking(move || open_file(&path, range))).await?;
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

fn open_file(path: &PathBuf, range: Range<u64>) -> Result<Opened, BlobError> {
    let mut file = File::open(path).map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            BlobError::Absent
        } else {
            failed(error)
        }
    })?;
    let size = file.metadata().map_err(failed)?.len();
    if range.start > range.end || range.end > size {
        return Err(BlobError::Absent);
    }
    if range.start > 0 {
        file.seek(SeekFrom::Start(range.start)).map_err(failed)?;
    }
    let bytes = range.end - range.start;
    let mut rest = Rest { file, bytes };
    if bytes <= SMALL {
        return Ok(Opened::Small(size, rest.take(SMALL)?));
    }
    Ok(Opened::Large(size, rest))
}

fn chunks(
    rest: Rest,
    ahead: ReadAhead,
) -> impl futures_util::Stream<Item = Result<Bytes, BlobError>> + Send {
    let first = Some(Next::Waiting(rest));
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
            bytes,
            rest,
            _ahead: ahead,
        })
    })
}

impl Rest {
    /// The next bytes, at most `limit` of them.
    fn take(&mut self, limit: u64) -> Result<Bytes, BlobError> {
        let wanted = self.bytes.min(limit);
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or(0));
        let read = (&self.file).take(wanted).read_to_end(&mut bytes);
        if read.map_err(failed)? as u64 != wanted {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        self.bytes -= wanted;
        Ok(bytes.into())
    }
}
