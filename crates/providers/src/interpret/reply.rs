//! An answer as it came, and as far as it can be read.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use router_core::{Answer, read_leniently};
use serde::de::IgnoredAny;
use serde_json::Value;

/// What came back, freed of its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The status.
    pub status: u16,
    /// Its headers. Nothing of them is passed on but the media type.
    pub headers: Box<HeaderMap>,
    /// When it asks to be asked again.
    pub retry_after: Option<Duration>,
    /// The body, byte for byte.
    pub body: Bytes,
}

/// A body as a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Document {
    /// JSON, as far as a value can be made of it.
    Json(Value),
    /// Something else.
    Other,
}

impl Reply {
    /// Whether the status is a success.
    #[must_use]
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Reads the body, whatever it says that it is. JSON by its grammar is a document also where it holds what no value can:
    /// a number past all bounds, half a surrogate pair, deep nesting. A state or a price beside that counts all the same.
    #[must_use]
    pub(crate) fn document(&self) -> Document {
        read_leniently(&self.body).map_or(Document::Other, Document::Json)
    }

    /// Whether a result can be told from garbage: what says that it is JSON must be; a page for people is a gateway that
    /// speaks, and no model; anything else is as it is.
    #[must_use]
    pub(crate) fn can_be_interpreted(&self) -> bool {
        let essence = self.content_type().unwrap_or_default();
        let essence = essence.split(';').next().unwrap_or_default().trim();
        let essence = essence.to_ascii_lowercase();
        let says_json = essence.ends_with("/json") || essence.ends_with("+json");
        !self.body.is_empty() && essence != "text/html" && (!says_json || self.is_grammatical())
    }

    /// The answer for the caller, byte for byte.
    #[must_use]
    pub(crate) fn into_answer(self) -> Answer {
        let content_type = self.content_type().unwrap_or("application/octet-stream");
        Answer {
            content_type: content_type.to_owned(),
            body: self.body,
        }
    }

    /// Its `Content-Type`, if it has a readable one.
    fn content_type(&self) -> Option<&str> {
        self.headers.get(CONTENT_TYPE)?.to_str().ok()
    }

    fn is_grammatical(&self) -> bool {
        serde_json::from_slice::<IgnoredAny>(&self.body).is_ok()
    }
}

impl Document {
    /// The value; null where there is none.
    #[must_use]
    pub(crate) fn value(&self) -> &Value {
        match self {
            Self::Json(value) => value,
            Self::Other => &Value::Null,
        }
    }
}
