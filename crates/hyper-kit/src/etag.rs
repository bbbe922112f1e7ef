//! Entity tags and the conditions a client puts on them (RFC 9110, 8.8.3 and 13.1).
//!
//! A condition may come as `*`, as a list, and over several header lines. An element that cannot be read ends its line:
//! what follows it might be anything, and a missed match only costs a transfer.

use http::header::IF_NONE_MATCH;
use http::{HeaderMap, HeaderName, HeaderValue};

/// An entity tag: the opaque text between the quotes, and whether it is weak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ETag {
    opaque: Vec<u8>,
    weak: bool,
}

/// How two tags are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Equal texts are equal: for `If-None-Match`.
    Weak,
    /// And neither may be weak: for `If-Match` and `If-Range`, where bytes are put together.
    Strong,
}

/// Whether a GET or HEAD of what is now `current` is to be answered 304: its `If-None-Match` is `*` or names it.
pub fn not_modified(headers: &HeaderMap, current: &ETag) -> bool {
    names(headers, &IF_NONE_MATCH, current, Comparison::Weak)
}

/// Whether a condition (`If-Match`, `If-None-Match`), over all its lines, is `*` or names `current`.
pub fn names(
    headers: &HeaderMap,
    condition: &HeaderName,
    current: &ETag,
    comparison: Comparison,
) -> bool {
    headers.get_all(condition).iter().any(|line| {
        let line = line.as_bytes().trim_ascii();
        line == b"*" || list(line).any(|tag| tag.same_as(current, comparison))
    })
}

// === impl ETag ===

impl ETag {
    /// A tag that stands for exactly these bytes. `None` when the text has a character that no tag may have.
    pub fn strong(opaque: &str) -> Option<Self> {
        let opaque = opaque.as_bytes();
        opaque.iter().all(|&byte| is_tag_byte(byte)).then(|| Self {
            opaque: opaque.to_vec(),
            weak: false,
        })
    }

    /// Reads a header value that is one tag, such as that of `If-Range`.
    pub fn parse(value: &HeaderValue) -> Option<Self> {
        let (tag, rest) = take(value.as_bytes().trim_ascii())?;
        rest.is_empty().then_some(tag)
    }

    /// The value of the `ETag` header.
    pub fn to_value(&self) -> HeaderValue {
        let start: &[u8] = if self.weak { b"W/\"" } else { b"\"" };
        HeaderValue::from_bytes(&[start, &self.opaque, b"\""].concat())
            .expect("the bytes of a tag are bytes of a header value")
    }

    /// Whether two tags are the same under a comparison.
    pub fn same_as(&self, other: &Self, comparison: Comparison) -> bool {
        let strong_enough = match comparison {
            Comparison::Weak => true,
            Comparison::Strong => !self.weak && !other.weak,
        };
        strong_enough && self.opaque == other.opaque
    }
}

/// RFC 9110: any visible character but the quote, and the bytes above ASCII.
fn is_tag_byte(byte: u8) -> bool {
    byte == 0x21 || (0x23..=0x7e).contains(&byte) || byte >= 0x80
}

/// Takes one tag off the front.
fn take(bytes: &[u8]) -> Option<(ETag, &[u8])> {
    let (weak, bytes) = match bytes.strip_prefix(b"W/") {
        Some(rest) => (true, rest),
        None => (false, bytes),
    };
    let bytes = bytes.strip_prefix(b"\"")?;
    let end = bytes.iter().position(|&byte| !is_tag_byte(byte))?;
    let (opaque, rest) = bytes.split_at(end);
    let rest = rest.strip_prefix(b"\"")?;
    let opaque = opaque.to_vec();
    Some((ETag { opaque, weak }, rest))
}

/// The tags of a list. Empty elements are skipped; a comma inside quotes belongs to its tag.
fn list(line: &[u8]) -> impl Iterator<Item = ETag> {
    let mut rest = line;
    std::iter::from_fn(move || {
        while let [b',' | b' ' | b'\t', after @ ..] = rest {
            rest = after;
        }
        let (tag, after) = take(rest)?;
        let after = after.trim_ascii_start();
        // Two tags without a comma between them are no list.
        rest = if after.is_empty() || after[0] == b',' {
            after
        } else {
            &[]
        };
        Some(tag)
    })
}

#[cfg(test)]
mod tests;
