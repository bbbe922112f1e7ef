//! An answer whose head is here and whose body comes piece by piece.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body::Body as _;
use hyper_kit::Body;
use jiff::Timestamp;
use tokio::time::{Instant, timeout_at};
use tracing::Span;

use super::egress::{Egress, Trouble, note_end, read};
use super::recorder::{Exchange, Heard};
use crate::interpret::Reply;

/// The media type of server-sent events.
const EVENT_STREAM: &str = "text/event-stream";

/// An answer under way.
pub(crate) struct OpenAnswer {
    answer: Response<Body>,
    /// When the whole answer must be there.
    until: Instant,
    max_bytes: usize,
    /// How many bytes of the body have come.
    came: usize,
    /// The record of this exchange, if there is a listener.
    noted: Option<Box<Exchange>>,
    /// The beginning of a line of a stream, for a listener.
    line: BytesMut,
    /// Ends with it.
    span: Span,
}

impl OpenAnswer {
    pub(super) fn new(
        answer: Response<Body>,
        (until, max_bytes): (Instant, usize),
        noted: Option<Box<Exchange>>,
        span: Span,
    ) -> Self {
        Self {
            answer,
            until,
            max_bytes,
            came: 0,
            noted,
            line: BytesMut::new(),
            span,
        }
    }

    /// Its status.
    pub(crate) fn status(&self) -> u16 {
        self.answer.status().as_u16()
    }

    /// Its `Content-Type`, as it came.
    pub(crate) fn content_type(&self) -> String {
        self.text(CONTENT_TYPE.as_str()).to_owned()
    }

    /// Whether it is a success that comes as server-sent events, which can be passed on as they are.
    pub(crate) fn is_event_stream(&self) -> bool {
        let content_type = self.text(CONTENT_TYPE.as_str());
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let encoding = self.text(CONTENT_ENCODING.as_str());
        matches!(self.status(), 200 | 201)
            && essence.eq_ignore_ascii_case(EVENT_STREAM)
            && (encoding.is_empty() || encoding.eq_ignore_ascii_case("identity"))
    }

    /// The next bytes of the body; `None` at its end.
    ///
    /// # Errors
    /// If the answer breaks off, takes too long as a whole, or is longer than is taken.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Trouble> {
        let body = self.answer.body_mut();
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
            let frame = timeout_at(self.until, frame).await;
            let Some(frame) = frame.map_err(|_| Trouble::TimedOut)? else {
                return Ok(None);
            };
            let frame = frame.map_err(|cause| Trouble::Broken(cause.to_string()))?;
            let Ok(bytes) = frame.into_data() else {
                continue;
            };
            self.came += bytes.len();
            if self.came > self.max_bytes {
                return Err(Trouble::TooLarge(self.max_bytes));
            }
            return Ok(Some(bytes));
        }
    }

    /// Reads the answer as one that is no stream.
    ///
    /// # Errors
    /// As [`OpenAnswer::next`], and if its encoding is not understood.
    pub(crate) async fn whole(self, egress: &Egress, now: Timestamp) -> Result<Reply, Trouble> {
        let reading = read(self.answer, self.max_bytes, now).boxed();
        let read = timeout_at(self.until, reading).await;
        let result = read.unwrap_or(Err(Trouble::TimedOut));
        if let Err(trouble) = &result {
            note_end(&self.span, Err(trouble));
        }
        if let Some(noted) = self.noted {
            egress.note(*noted, result.as_ref());
        }
        result
    }

    /// Tells a listener that a stream begins.
    pub(crate) fn tell_head(&mut self, egress: &Egress) {
        if let Some(exchange) = &mut self.noted {
            let headers = self.answer.headers();
            let status = self.answer.status().as_u16();
            exchange.outcome = Ok(egress.received(status, headers, &Bytes::new()));
            egress.tell(Heard::Stream(Exchange::clone(exchange)));
        }
    }

    /// Tells a listener of bytes of a stream, line by line: a secret may come in pieces, but not on several lines.
    pub(crate) fn tell_more(&mut self, egress: &Egress, bytes: &[u8]) {
        if self.noted.is_none() {
            return;
        }
        self.line.extend_from_slice(bytes);
        if let Some(end) = self.line.iter().rposition(|byte| *byte == b'\n') {
            let lines = self.line.split_to(end + 1).freeze();
            egress.tell(Heard::More(egress.masked(&lines)));
        }
    }

    /// Tells a listener and the trace what came of a stream.
    pub(crate) fn tell_end(self, egress: &Egress, broken: Option<&Trouble>) {
        if let Some(trouble) = broken {
            note_end(&self.span, Err(trouble));
        }
        if self.noted.is_none() {
            return;
        }
        if !self.line.is_empty() {
            egress.tell(Heard::More(egress.masked(&self.line.freeze())));
        }
        let broken = broken.map(|trouble| egress.trouble(trouble));
        egress.tell(Heard::Ended(broken.map_or(Ok(()), Err)));
    }

    fn text(&self, name: &str) -> &str {
        let value = self.answer.headers().get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}
