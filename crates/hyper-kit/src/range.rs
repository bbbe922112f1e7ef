//! Which bytes of a representation a client asks for (RFC 9110, 14).
//!
//! One range is honoured. Several, or one that cannot be read, are answered with the whole: both are allowed, and neither
//! can be used to make the server send more than it has.

use std::ops::Range;

use http::header::{IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, Method};

use crate::etag::{Comparison, ETag};

/// What to answer with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ByteRange {
    /// All of it: 200.
    Whole,
    /// These bytes, at least one: 206 with [`content_range`].
    Part(Range<u64>),
    /// The range begins behind the end: 416 with [`unsatisfied_range`].
    Unsatisfiable,
}

/// Judges a request for a representation of `length` bytes with the tag `current`.
///
/// Only GET has ranges. With an `If-Range` that does not name `current` exactly, a date included, all of it is sent.
pub fn requested_range(
    method: &Method,
    headers: &HeaderMap,
    length: u64,
    current: Option<&ETag>,
) -> ByteRange {
    let mut ranges = headers.get_all(RANGE).iter();
    let (Some(range), None) = (ranges.next(), ranges.next()) else {
        return ByteRange::Whole;
    };
    if method != Method::GET || !if_range_holds(headers, current) {
        return ByteRange::Whole;
    }
    let range = range.to_str().ok().and_then(|text| parse(text, length));
    range.unwrap_or(ByteRange::Whole)
}

/// The `Content-Range` of a 206.
pub fn content_range(part: &Range<u64>, length: u64) -> HeaderValue {
    let last = part.end.saturating_sub(1);
    HeaderValue::from_str(&format!("bytes {}-{last}/{length}", part.start))
        .expect("digits are a header value")
}

/// The `Content-Range` of a 416.
pub fn unsatisfied_range(length: u64) -> HeaderValue {
    HeaderValue::from_str(&format!("bytes */{length}")).expect("digits are a header value")
}

fn if_range_holds(headers: &HeaderMap, current: Option<&ETag>) -> bool {
    let mut conditions = headers.get_all(IF_RANGE).iter();
    match (conditions.next(), conditions.next()) {
        (None, _) => true,
        (Some(only), None) => match (ETag::parse(only), current) {
            (Some(wanted), Some(current)) => wanted.same_as(current, Comparison::Strong),
            (Some(_), None) | (None, _) => false,
        },
        (Some(_), Some(_)) => false,
    }
}

/// Reads one range of bytes; `None` when it is none.
fn parse(text: &str, length: u64) -> Option<ByteRange> {
    let (unit, range) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let (first, last) = (position(first)?, position(last)?);
    match (first, last) {
        (Some(first), Some(last)) if last < first => None,
        (Some(first), _) if first >= length => Some(ByteRange::Unsatisfiable),
        (Some(first), last) => {
            let end = last.map_or(length, |last| last.saturating_add(1).min(length));
            Some(ByteRange::Part(first..end))
        }
        (None, Some(0)) => Some(ByteRange::Unsatisfiable),
        // The last bytes of nothing are nothing, and a 206 cannot say so.
        (None, Some(_)) if length == 0 => None,
        (None, Some(suffix)) => Some(ByteRange::Part(length.saturating_sub(suffix)..length)),
        (None, None) => None,
    }
}

/// An empty text is an open end. A number beyond all lengths is taken for the greatest.
fn position(text: &str) -> Option<Option<u64>> {
    if text.is_empty() {
        return Some(None);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| Some(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests;
