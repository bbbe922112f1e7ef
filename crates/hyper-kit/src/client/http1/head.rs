//! The heads of requests and answers, as bytes. Nothing here waits.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Request, StatusCode, Version};

use super::framing::Framing;

/// The longest head of an answer that is taken.
pub(super) const LONGEST: usize = 64 * 1024;

/// The most headers of an answer that are taken.
const MOST_HEADERS: usize = 128;

/// What a head usually has room in.
const USUAL: usize = 512;

/// How a body of unknown or known length is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    Nothing,
    Length(u64),
    Chunks,
}

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) version: Version,
    pub(super) headers: HeaderMap,
}

/// Why an answer is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("it answers in something else than HTTP/1")]
    NotHttp,
    #[error("its answer has a malformed head")]
    Head,
    #[error("its answer has a head that is too long")]
    TooLong,
    #[error("its answer says two things about its length")]
    Length,
    #[error("its answer has a malformed chunk")]
    Chunk,
}

/// The head of a request; `host` is asked if the request names none. What the caller says about connection and framing is not its to say and is left out.
pub(super) fn written<B>(
    request: &Request<B>,
    host: impl FnOnce() -> String,
    announced: Announced,
) -> Vec<u8> {
    let mut head = Vec::with_capacity(USUAL);
    let target = request.uri().path_and_query();
    let target = target.map_or("/", http::uri::PathAndQuery::as_str);
    for part in [request.method().as_str(), " ", target, " HTTP/1.1\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
    if !request.headers().contains_key(HOST) {
        header(&mut head, &HOST, host().as_bytes());
    }
    for (name, value) in request.headers() {
        if ![CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING].contains(name) {
            header(&mut head, name, value.as_bytes());
        }
    }
    match announced {
        Announced::Nothing => {}
        Announced::Length(length) => {
            let mut digits = itoa::Buffer::new();
            header(&mut head, &CONTENT_LENGTH, digits.format(length).as_bytes());
        }
        Announced::Chunks => header(&mut head, &TRANSFER_ENCODING, b"chunked"),
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn header(head: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    head.extend_from_slice(name.as_str().as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

/// Where a head ends, if its end is there; what comes before `seen` was looked at.
pub(super) fn end(received: &[u8], seen: usize) -> Result<Option<usize>, Malformed> {
    const BEGINNING: &[u8] = b"HTTP/1.";
    let begun = received.len().min(BEGINNING.len());
    if received[..begun] != BEGINNING[..begun] {
        return Err(Malformed::NotHttp);
    }
    // The end may have begun before.
    let from = seen.saturating_sub(3);
    for at in memchr::memchr_iter(b'\n', &received[from..]) {
        let rest = &received[from + at + 1..];
        if rest.starts_with(b"\n") {
            return Ok(Some(from + at + 2));
        }
        if rest.starts_with(b"\r\n") {
            return Ok(Some(from + at + 3));
        }
    }
    if received.len() > LONGEST {
        return Err(Malformed::TooLong);
    }
    Ok(None)
}

impl Head {
    /// Reads a whole head.
    pub(super) fn read(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut space = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Response::new(&mut space);
        match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return Err(Malformed::Head),
            Err(httparse::Error::TooManyHeaders) => return Err(Malformed::TooLong),
            Err(_) => return Err(Malformed::Head),
        }
        let mut headers = HeaderMap::with_capacity(parsed.headers.len());
        for header in parsed.headers.iter() {
            let name = HeaderName::from_bytes(header.name.as_bytes());
            let value = HeaderValue::from_maybe_shared(bytes.slice_ref(header.value));
            let (Ok(name), Ok(value)) = (name, value) else {
                return Err(Malformed::Head);
            };
            headers.append(name, value);
        }
        let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
        Ok(Self {
            status: status.ok_or(Malformed::Head)?,
            version: match parsed.version {
                Some(0) => Version::HTTP_10,
                Some(_) | None => Version::HTTP_11,
            },
            headers,
        })
    }

    /// Whether this head only announces another one.
    pub(super) fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }

    /// How the body that follows is framed (RFC 9112, section 6.3); `is_head` is whether the request asked for the head alone.
    pub(super) fn framing(&mut self, is_head: bool) -> Result<Framing, Malformed> {
        if self.status.is_informational() {
            // Nothing was to be switched.
            return Err(Malformed::Head);
        }
        let is_bare = matches!(
            self.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
        if is_head || is_bare {
            return Ok(Framing::Over);
        }
        if self.headers.contains_key(TRANSFER_ENCODING) {
            if self.version == Version::HTTP_10 {
                return Err(Malformed::Length);
            }
            // A length beside it is a lie.
            self.headers.remove(CONTENT_LENGTH);
            let mut codings = self.headers.get_all(TRANSFER_ENCODING).iter();
            let last = codings
                .next_back()
                .and_then(|codings| codings.to_str().ok());
            let last = last.and_then(|codings| codings.rsplit(',').next());
            let is_chunked = last.is_some_and(|last| last.trim().eq_ignore_ascii_case("chunked"));
            return Ok(match is_chunked {
                true => Framing::chunked(),
                false => Framing::UntilClosed,
            });
        }
        let lengths = self.headers.get_all(CONTENT_LENGTH).iter();
        let mut values = lengths.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let Some(first) = values.next() else {
            return Ok(Framing::UntilClosed);
        };
        let first = length(first).ok_or(Malformed::Length)?;
        if values.any(|value| length(value) != Some(first)) {
            return Err(Malformed::Length);
        }
        Ok(Framing::of_length(first))
    }

    /// Whether another request may follow on the same connection.
    pub(super) fn keeps_alive(&self) -> bool {
        let says = |word: &str| {
            let options = self.headers.get_all(CONNECTION).iter();
            options
                .filter_map(|options| options.to_str().ok())
                .flat_map(|options| options.split(','))
                .any(|option| option.trim().eq_ignore_ascii_case(word))
        };
        match self.version {
            Version::HTTP_10 => says("keep-alive"),
            _ => !says("close"),
        }
    }
}

/// A length in digits alone: a sign or a space within is a way to smuggle.
fn length(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
