//! What is refused before the application sees it: requests that two servers in a row could read differently.

use http::header::{HOST, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode, Version};

/// A request that the application does not get to answer, or failed to. The application words it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// HTTP/1.1 without a `Host` (RFC 9112, 3.2).
    MissingHost,
    /// More than one `Host`.
    RepeatedHost,
    /// A `Transfer-Encoding` other than `chunked`.
    UnknownTransferEncoding,
    /// The handler panicked; the request may have had an effect.
    Panicked,
}

impl Refusal {
    /// The status that the answer carries.
    pub fn status(self) -> StatusCode {
        match self {
            Self::MissingHost | Self::RepeatedHost => StatusCode::BAD_REQUEST,
            Self::UnknownTransferEncoding => StatusCode::NOT_IMPLEMENTED,
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What is wrong, in words a client may read.
    pub fn message(self) -> &'static str {
        match self {
            Self::MissingHost => "the request has no Host header; send exactly one",
            Self::RepeatedHost => "the request has several Host headers; send exactly one",
            Self::UnknownTransferEncoding => {
                "the transfer encoding is not supported; send the body plain or chunked"
            }
            Self::Panicked => "the request failed through a fault of this server; try again later",
        }
    }
}

/// Judges the head of a request. HTTP/2 has neither rule: its framing cannot be read in two ways.
pub(super) fn check(version: Version, headers: &HeaderMap) -> Result<(), Refusal> {
    if version >= Version::HTTP_2 {
        return Ok(());
    }
    match headers.get_all(HOST).iter().count() {
        0 if version == Version::HTTP_11 => return Err(Refusal::MissingHost),
        0 | 1 => {}
        _ => return Err(Refusal::RepeatedHost),
    }
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    let known = match (encodings.next(), encodings.next()) {
        (None, _) => true,
        (Some(only), None) => only.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    };
    if known {
        Ok(())
    } else {
        Err(Refusal::UnknownTransferEncoding)
    }
}
