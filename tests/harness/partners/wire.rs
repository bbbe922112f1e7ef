//! Requests as they come and answers as they go, over plain sockets: what is recorded is what was on the wire.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use super::partner::Partner;

/// The longest head or chunk line that is read.
const MAX_LINE: u64 = 64 * 1024;

/// What a request is for, in the life of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Starts something: what a partner charges for.
    Submit,
    /// Asks for the state.
    Poll,
    /// Fetches the result of what is done.
    Result,
    /// Asks to stop.
    Cancel,
    /// Nothing that the partner knows.
    Unknown,
}

/// A request, to the last byte.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Whom it was for; `None` when the path names nobody.
    pub partner: Option<Partner>,
    /// What it was for.
    pub step: Step,
    /// The method.
    pub method: String,
    /// Path and query, without the partner's prefix.
    pub target: String,
    /// The headers in the order they came, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, freed of chunks.
    pub body: Vec<u8>,
    /// Head and body as they were on the wire.
    pub raw: Vec<u8>,
}

/// A request that a dialect looks at.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// Without prefix and query.
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// The address of the partner as the client knows it.
    pub(super) base_url: String,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers, without those about length and connection.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What was read from a connection.
#[derive(Debug)]
pub struct Incoming {
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The headers in the order they came, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, freed of chunks.
    pub body: Vec<u8>,
    /// Head and body as they were on the wire.
    pub raw: Vec<u8>,
}

// === impl Incoming ===

impl Incoming {
    /// The first header of a name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

// === impl Recorded ===

impl Recorded {
    /// The first header of a name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

// === impl Request ===

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Method and segments, for matching.
    pub(super) fn route(&self) -> (&str, Vec<&str>) {
        let path = self.path.trim_start_matches('/');
        (&self.method, path.split('/').collect())
    }

    /// A parameter of the query, as it was written.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let mut pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// The body as JSON; null when it is none.
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn is_form(&self) -> bool {
        self.header("content-type")
            .is_some_and(|value| value.starts_with("multipart/form-data; boundary="))
    }
}

// === impl Reply ===

impl Reply {
    /// JSON of any make.
    #[must_use]
    pub fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::of(status, "application/json", body)
    }

    /// A body of a media type.
    #[must_use]
    pub fn of(status: u16, media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), media_type.to_owned())],
            body: body.into(),
        }
    }

    pub(super) fn success((media_type, body): (String, Vec<u8>)) -> Self {
        Self::of(200, &media_type, body)
    }

    pub(super) fn value(status: u16, body: &serde_json::Value) -> Self {
        Self::json(status, body.to_string())
    }

    /// What a partner says to an address that it does not know.
    pub(super) fn not_found() -> Self {
        Self::json(404, r#"{"detail":"no such thing"}"#)
    }

    /// Status line and headers, with the length announced.
    #[must_use]
    pub fn head(&self) -> String {
        let mut head = self.start();
        if self.status != 204 {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        head
    }

    /// Status line and headers, still open.
    pub(super) fn start(&self) -> String {
        let mut head = format!("HTTP/1.1 {} simulated\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head
    }
}

// === reading ===

/// Reads the next request of a connection; `None` at its end.
///
/// # Errors
/// If the connection ends in the middle of one, or what comes is none.
pub async fn read<R>(from: &mut R) -> io::Result<Option<Incoming>>
where
    R: AsyncBufRead + Unpin,
{
    let mut raw = Vec::new();
    let Some(first) = line(from, &mut raw).await? else {
        return Ok(None);
    };
    let mut words = first.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(malformed(&first));
    };
    let mut headers = Vec::new();
    loop {
        let line = line(from, &mut raw).await?.ok_or_else(cut)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| malformed(&line))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut body = Vec::new();
    if header(&headers, "transfer-encoding") == Some("chunked") {
        loop {
            let size = line(from, &mut raw).await?.ok_or_else(cut)?;
            let size = usize::from_str_radix(&size, 16).map_err(|_| malformed(&size))?;
            let mut chunk = vec![0; size];
            from.read_exact(&mut chunk).await?;
            raw.extend_from_slice(&chunk);
            body.extend_from_slice(&chunk);
            line(from, &mut raw).await?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = header(&headers, "content-length") {
        body.resize(length.parse().map_err(|_| malformed(length))?, 0);
        from.read_exact(&mut body).await?;
        raw.extend_from_slice(&body);
    }
    Ok(Some(Incoming {
        method: method.to_owned(),
        target: target.to_owned(),
        headers,
        body,
        raw,
    }))
}

async fn line<R>(from: &mut R, raw: &mut Vec<u8>) -> io::Result<Option<String>>
where
    R: AsyncBufRead + Unpin,
{
    let start = raw.len();
    from.take(MAX_LINE).read_until(b'\n', raw).await?;
    let line = &raw[start..];
    if line.is_empty() {
        return Ok(None);
    }
    let line = line.strip_suffix(b"\r\n").ok_or_else(cut)?;
    let line = std::str::from_utf8(line).map_err(|_| malformed("a header line"))?;
    Ok(Some(line.to_owned()))
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut headers = headers.iter();
    headers
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

fn cut() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed: {what}"))
}
