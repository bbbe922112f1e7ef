//! Form uploads, part by part and chunk by chunk: a file is never held in memory.
//!
//! multer finds the boundaries. Left alone it would buffer as fast as a sender sends, and the whole body while it looks
//! for a boundary or the end of a part's head; the feed between it and the body hands over one chunk at a time and
//! stops when a head grows too long. File names are read here too.

mod disposition;
mod feed;

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};

use crate::body::{BodyError, BoxError};
use crate::pace::{PacedBody, ReadPace};
use disposition::Disposition;
use feed::{Feed, FeedError, HeadRoom};

/// RFC 2046: a boundary has at most 70 characters.
const LONGEST_BOUNDARY: usize = 70;

/// The bounds of one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultipartLimits {
    /// Bytes of the whole body, boundaries and heads included.
    pub total_bytes: u64,
    /// Bytes of one part that is read in chunks.
    pub part_bytes: u64,
    /// Bytes of one part that is read as a text.
    pub text_bytes: usize,
    /// How many parts.
    pub parts: usize,
    /// How slowly the body may arrive.
    pub pace: ReadPace,
}

/// A form that is being received.
#[derive(Debug)]
pub struct Multipart {
    form: multer::Multipart<'static>,
    /// The part last handed out; what is left of it is skipped before the next one.
    current: Option<multer::Field<'static>>,
    head_room: Arc<HeadRoom>,
    limits: MultipartLimits,
    seen: usize,
}

/// One part of a form, to be read before the next one is asked for; what is not read is skipped.
#[derive(Debug)]
pub struct Part<'m> {
    form: &'m mut Multipart,
    disposition: Disposition,
    content_type: Option<String>,
    taken: u64,
}

/// Why a form could not be read.
#[derive(Debug, thiserror::Error)]
pub enum MultipartError {
    /// The content type is not `multipart/form-data`.
    #[error("the body is not a form; send multipart/form-data")]
    NotMultipart,
    /// The content type names no usable boundary.
    #[error("the content type names no boundary of 1 to 70 characters")]
    NoBoundary,
    /// The body is not what its content type says.
    #[error("the form is malformed: {0}")]
    Malformed(&'static str),
    /// The body, or a part of it, is larger than allowed.
    #[error("the form, or a part of it, is larger than {limit} bytes; send a smaller one")]
    TooLarge {
        /// The bound that was passed, in bytes.
        limit: u64,
    },
    /// There are more parts than allowed.
    #[error("the form has more than {limit} parts")]
    TooManyParts {
        /// The most that are taken.
        limit: usize,
    },
    /// Its sender paused too long, or kept sending too slowly.
    #[error("the form arrived too slowly; send it again over a better connection")]
    Idle,
    /// The connection or the framing broke before its end.
    #[error("the form broke off before its end")]
    Broken(#[source] BoxError),
}

// === impl Multipart ===

impl Multipart {
    /// Begins to read a form; nothing is taken from the body yet.
    ///
    /// Fails with [`MultipartError::TooLarge`] when the announced length passes the total.
    pub fn new<B>(
        headers: &HeaderMap,
        body: B,
        limits: MultipartLimits,
    ) -> Result<Self, MultipartError>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let boundary = boundary(headers)?;
        if body.size_hint().lower() > limits.total_bytes {
            let limit = limits.total_bytes;
            return Err(MultipartError::TooLarge { limit });
        }
        let head_room = Arc::new(HeadRoom::default());
        let body = PacedBody::new(body, limits.pace);
        let feed = Feed::new(body, limits.total_bytes, Arc::clone(&head_room));
        Ok(Self {
            form: multer::Multipart::new(feed, boundary),
            current: None,
            head_room,
            limits,
            seen: 0,
        })
    }

    /// The next part, in the order they were sent; `None` at the end of the form.
    pub async fn next_part(&mut self) -> Result<Option<Part<'_>>, MultipartError> {
        // The rest of the last part is read away here and not by multer, whose search for the next head it would look
        // like.
        while self.current_chunk().await?.is_some() {}

        self.head_room.bound();
        let field = self.form.next_field().await?;
        self.head_room.unbound();
        let Some(field) = field else {
            return Ok(None);
        };
        self.seen += 1;
        if self.seen > self.limits.parts {
            let limit = self.limits.parts;
            return Err(MultipartError::TooManyParts { limit });
        }

        let disposition = field.headers().get(CONTENT_DISPOSITION);
        let disposition = disposition
            .and_then(|value| Disposition::parse(value.as_bytes()))
            .ok_or(MultipartError::Malformed("a part has no readable name"))?;
        let content_type = field.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| Some(value.to_str().ok()?.to_owned()));
        self.current = Some(field);
        Ok(Some(Part {
            form: self,
            disposition,
            content_type,
            taken: 0,
        }))
    }

    async fn current_chunk(&mut self) -> Result<Option<Bytes>, MultipartError> {
        let Some(field) = &mut self.current else {
            return Ok(None);
        };
        let chunk = field.chunk().await?;
        if chunk.is_none() {
            self.current = None;
        }
        Ok(chunk)
    }
}

fn boundary(headers: &HeaderMap) -> Result<String, MultipartError> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else {
        return Err(MultipartError::NotMultipart);
    };
    let text = only.to_str().map_err(|_| MultipartError::NotMultipart)?;
    let boundary = match multer::parse_boundary(text) {
        Ok(boundary) => boundary,
        Err(multer::Error::NoBoundary) => return Err(MultipartError::NoBoundary),
        Err(_) => return Err(MultipartError::NotMultipart),
    };
    if boundary.is_empty() || boundary.len() > LONGEST_BOUNDARY {
        return Err(MultipartError::NoBoundary);
    }
    Ok(boundary)
}

// === impl Part ===

impl Part<'_> {
    /// The name of the form's field.
    pub fn name(&self) -> &str {
        &self.disposition.name
    }

    /// The name of the file, as its sender gave it: any text, to be joined to no path.
    pub fn file_name(&self) -> Option<&str> {
        self.disposition.file_name.as_deref()
    }

    /// The content type that the sender claims.
    pub fn content_type(&self) -> Option<&str> {
        self.content_type.as_deref()
    }

    /// The next bytes of the part; `None` at its end. Fails once they pass [`MultipartLimits::part_bytes`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, MultipartError> {
        self.chunk_within(self.form.limits.part_bytes).await
    }

    /// The whole part as a text of at most [`MultipartLimits::text_bytes`].
    pub async fn text(mut self) -> Result<String, MultipartError> {
        let limit = self.form.limits.text_bytes as u64;
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk_within(limit).await? {
            bytes.extend_from_slice(&chunk);
        }
        String::from_utf8(bytes).map_err(|_| MultipartError::Malformed("a field is not UTF-8"))
    }

    async fn chunk_within(&mut self, limit: u64) -> Result<Option<Bytes>, MultipartError> {
        let chunk = self.form.current_chunk().await?;
        self.taken += chunk.as_ref().map_or(0, Bytes::len) as u64;
        if self.taken > limit {
            return Err(MultipartError::TooLarge { limit });
        }
        Ok(chunk)
    }
}

// === errors ===

impl From<multer::Error> for MultipartError {
    fn from(error: multer::Error) -> Self {
        let multer::Error::StreamReadFailed(cause) = error else {
            return Self::Malformed("its boundaries or the head of a part cannot be read");
        };
        match cause.downcast::<FeedError>() {
            Ok(cause) => match *cause {
                FeedError::TooLarge { limit } => Self::TooLarge { limit },
                FeedError::LongHead => Self::Malformed("a boundary is missing, or a head too long"),
                FeedError::Body(BodyError::TooLarge { limit }) => Self::TooLarge { limit },
                FeedError::Body(BodyError::Idle) => Self::Idle,
                FeedError::Body(BodyError::Broken(cause)) => Self::Broken(cause),
            },
            Err(cause) => Self::Broken(cause),
        }
    }
}

#[cfg(test)]
mod tests;
