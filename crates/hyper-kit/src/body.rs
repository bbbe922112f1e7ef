//! One boxed body for every response, and the reading of a whole request body under a limit.
//!
//! A body that is too large is refused before a byte of it is taken when its length is announced, and otherwise at the
//! first chunk that passes the limit: memory never holds more than the limit and one chunk.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, TryStreamExt};
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};

use crate::pace::{PacedBody, ReadPace};

/// What any layer below may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The size of chunk to stream a file in. A connection buffers up to one chunk beyond its bound, so larger chunks make
/// stalled readers dear: 1,000 of them hold 52 MB with this size, and 84 MB with twice as much.
pub const STREAM_CHUNK_BYTES: usize = 32 * 1024;

/// How much is set aside at once for a body whose sender announced its length: an announcement is not yet a byte.
const FIRST_ALLOCATION: usize = 64 * 1024;

/// The body of every response: empty, whole, or streamed.
#[derive(Debug)]
pub struct Body(UnsyncBoxBody<Bytes, BoxError>);

/// Why a request body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is longer than the route takes; most of it was never read.
    #[error("the body is larger than {limit} bytes; send a smaller one")]
    TooLarge {
        /// The most that would have been taken, in bytes.
        limit: u64,
    },
    /// Its sender paused too long, or kept sending too slowly.
    #[error("the body arrived too slowly; send it again over a better connection")]
    Idle,
    /// The connection or the framing broke before its end.
    #[error("the body broke off before its end")]
    Broken(#[source] BoxError),
}

// === impl Body ===

impl Body {
    /// Has no bytes.
    pub fn empty() -> Self {
        Self::new(Empty::new())
    }

    /// Is these bytes; the length is announced.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::new(Full::new(bytes.into()))
    }

    /// Yields the chunks of a stream; an error cuts the connection, so that the client cannot take a part for the whole.
    ///
    /// No length is announced. A caller that knows it sets `Content-Length` on the response, which is then honoured.
    pub fn stream<S, E>(chunks: S) -> Self
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<BoxError> + 'static,
    {
        Self::new(StreamBody::new(chunks.map_ok(Frame::data)))
    }

    /// Boxes any body.
    pub fn new<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(body.map_err(Into::into).boxed_unsync())
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Self::full(bytes)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

// === reading ===

/// Reads a whole body of at most `limit` bytes at `pace`.
///
/// Fails with [`BodyError::TooLarge`] without reading when the announced length passes the limit. Trailers are dropped.
pub async fn read_limited<B>(body: B, limit: usize, pace: ReadPace) -> Result<Bytes, BodyError>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let too_large = || BodyError::TooLarge {
        limit: limit as u64,
    };
    let announced = body.size_hint().lower();
    if announced > limit as u64 {
        return Err(too_large());
    }

    let mut body = PacedBody::new(body, pace);
    let mut gathered = Gathered::new(announced);
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame?.into_data() else {
            continue;
        };
        if gathered.len() + chunk.len() > limit {
            return Err(too_large());
        }
        gathered.push(chunk);
    }
    Ok(gathered.whole())
}

/// The chunks of a body so far. Most bodies are one chunk, which is handed on as it came.
pub(crate) struct Gathered {
    announced: usize,
    first: Bytes,
    rest: BytesMut,
}

impl Gathered {
    /// Of a body that is said to have so many bytes; 0 is said of one whose length is not known.
    pub(crate) fn new(announced: u64) -> Self {
        Self {
            announced: usize::try_from(announced).unwrap_or(usize::MAX),
            first: Bytes::new(),
            rest: BytesMut::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    pub(crate) fn push(&mut self, chunk: Bytes) {
        if self.first.is_empty() && self.rest.is_empty() {
            self.first = chunk;
            return;
        }
        if self.rest.is_empty() {
            let room = self.announced.min(FIRST_ALLOCATION).max(chunk.len());
            self.rest.reserve(room);
            self.rest
                .extend_from_slice(&std::mem::take(&mut self.first));
        } else if self.rest.capacity() - self.rest.len() < chunk.len() {
            // Twice as much each time, and in the end no more than comes.
            let left = self.announced.saturating_sub(self.rest.len());
            self.rest
                .reserve(left.min(self.rest.len()).max(chunk.len()));
        }
        self.rest.extend_from_slice(&chunk);
    }

    pub(crate) fn whole(self) -> Bytes {
        if self.rest.is_empty() {
            self.first
        } else {
            self.rest.freeze()
        }
    }
}

#[cfg(test)]
mod tests;
