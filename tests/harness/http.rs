//! A small HTTP/1.1 client over plain sockets: what is sent and what comes back is exactly what a test sees.
//!
//! Benches use it, too, on the same cores as the server. So it does little: a head stays the text that came until somebody asks
//! for a header, and a request may be given as the bytes that are sent.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest head of an answer; ours are far shorter.
const MAX_HEAD: usize = 64 * 1024;
/// Room for a head and a small body in one read.
const READ_BYTES: usize = 16 * 1024;

/// A request, spelled out.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// An answer, whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers in the order they came.
    pub headers: Headers,
    /// The body, decoded from chunks.
    pub body: Vec<u8>,
}

/// The headers of an answer, in the order they came: whole lines, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(String);

/// A connection, and what was read from it beyond what was taken.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes at the start of `buffer` that were taken.
    used: usize,
}

/// Spells a request without a body.
#[must_use]
pub fn request(method: &str, target: &str) -> Vec<u8> {
    format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

/// Spells a `POST` of JSON; `headers` are whole lines, each with its end.
#[must_use]
pub fn post_json(target: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

impl Request {
    /// A request without headers and body.
    #[must_use]
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// `GET target`.
    #[must_use]
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// `POST target` with a JSON body.
    #[must_use]
    pub fn post_json(target: &str, body: &Value) -> Self {
        Self::new("POST", target)
            .header("Content-Type", "application/json")
            .body(body.to_string())
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body; its length is sent with it.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The request as it goes over the wire.
    #[must_use]
    pub fn bytes(&self, host: SocketAddr) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let has = |wanted: &str| {
            self.headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case(wanted))
        };
        if !has("host") {
            head.push_str(&format!("Host: {host}\r\n"));
        }
        if !has("content-length")
            && !has("transfer-encoding")
            && (!self.body.is_empty() || self.method == "POST")
        {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Sends the request on a connection of its own and reads the whole answer.
    ///
    /// # Errors
    /// If the server cannot be reached or cuts the connection before the answer is complete.
    pub async fn send(&self, server: SocketAddr) -> io::Result<Answer> {
        Connection::open(server)
            .await?
            .send(&self.bytes(server))
            .await
    }
}

impl Answer {
    /// The first header of a name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    /// The answer itself, when it has the status that was hoped for.
    ///
    /// # Errors
    /// With status and body, when it has another.
    pub fn expect_status(self, status: u16) -> io::Result<Self> {
        if self.status == status {
            return Ok(self);
        }
        let text = format!(
            "the server answered {} where {status} was expected: {}",
            self.status,
            self.text()
        );
        Err(io::Error::other(text))
    }

    /// The body as JSON, for who goes on when it is none.
    ///
    /// # Errors
    /// When it is none.
    pub fn try_json(&self) -> io::Result<Value> {
        serde_json::from_slice(&self.body)
            .map_err(|error| malformed(&format!("{error} in {}", self.text())))
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is none: every answer that a test reads as JSON must be.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{} is no JSON ({error}): {}", self.status, self.text()))
    }

    /// The body as text, for messages.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// `error.code` of an envelope.
    #[must_use]
    pub fn error_code(&self) -> String {
        self.json()["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

impl Headers {
    /// The headers in these lines.
    fn of(lines: &str) -> io::Result<Self> {
        match lines.lines().find(|line| !line.contains(':')) {
            Some(line) => Err(malformed(line)),
            None => Ok(Self(lines.to_owned())),
        }
    }

    /// Names and values, in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.lines().filter_map(|line| line.split_once(':'));
        pairs.map(|(name, value)| (name, value.trim()))
    }

    /// The first value of a name, whatever its case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// If nobody listens there.
    pub async fn open(server: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect(server).await?)
    }

    /// Takes a socket that is connected.
    ///
    /// # Errors
    /// If the socket is closed.
    pub fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
            used: 0,
        })
    }

    /// Sends a request, spelled as bytes, and reads the whole answer.
    ///
    /// A server may answer before it has the whole request and take no more of it: then its answer is returned as well.
    ///
    /// # Errors
    /// As [`Connection::answer`].
    pub async fn send(&mut self, request: &[u8]) -> io::Result<Answer> {
        let written = self.write(request).await;
        let answer = self.answer(request.starts_with(b"HEAD ")).await;
        answer.map_err(|error| written.err().unwrap_or(error))
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// If the server has cut the connection.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads a whole answer; one to a `HEAD` has no body.
    ///
    /// # Errors
    /// If the connection ends before the answer does, or what comes is no answer.
    pub async fn answer(&mut self, to_head: bool) -> io::Result<Answer> {
        let (status, headers) = self.head().await?;
        let mut body = Vec::new();
        if to_head || status == 204 || status == 304 || status < 200 {
            // No body whatever the headers say.
        } else if headers.get("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await? {
                body.extend_from_slice(&chunk);
            }
        } else if let Some(length) = headers.get("content-length") {
            let length = length.parse().map_err(|_| malformed("content-length"))?;
            body = self.exactly(length).await?;
        } else {
            body = self.take(usize::MAX);
            self.stream.read_to_end(&mut body).await?;
        }
        Ok(Answer {
            status,
            headers,
            body,
        })
    }

    /// Reads status and headers, skipping interim answers.
    ///
    /// # Errors
    /// As [`Connection::answer`].
    pub async fn head(&mut self) -> io::Result<(u16, Headers)> {
        loop {
            let end = self.found(b"\r\n\r\n").await?;
            // With the end of the last line, which may be that of the status.
            let head = self.take(end + 2);
            self.used += 2;
            let head = std::str::from_utf8(&head).map_err(|_| malformed("its head is no text"))?;
            let (status_line, lines) = head.split_once("\r\n").unwrap_or((head, ""));
            let status: u16 = status_line
                .strip_prefix("HTTP/1.1 ")
                .and_then(|rest| rest.get(..3)?.parse().ok())
                .ok_or_else(|| malformed(status_line))?;
            let headers = Headers::of(lines)?;
            if status != 100 {
                return Ok((status, headers));
            }
        }
    }

    /// Reads the next chunk of a chunked body; `None` at its end.
    ///
    /// # Errors
    /// As [`Connection::answer`].
    pub async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let end = self.found(b"\r\n").await?;
        let size = std::str::from_utf8(&self.unused()[..end])
            .ok()
            .and_then(|line| usize::from_str_radix(line.trim(), 16).ok())
            .ok_or_else(|| malformed("a chunk has no size"))?;
        self.used += end + 2;
        let chunk = self.exactly(size).await?;
        self.exactly(2).await?;
        Ok((size > 0).then_some(chunk))
    }

    /// Reads until the server closes; answers what came.
    ///
    /// # Errors
    /// Never for a reset: a cut connection is an end, too.
    pub async fn until_closed(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = self.take(usize::MAX);
        match self.stream.read_to_end(&mut rest).await {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error),
            Ok(_) | Err(_) => Ok(rest),
        }
    }

    /// Asks for a WebSocket and waits until it is one.
    ///
    /// # Errors
    /// If the server refuses, and as [`Connection::answer`].
    pub async fn upgrade(&mut self, target: &str) -> io::Result<()> {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        self.write(request.as_bytes()).await?;
        match self.head().await?.0 {
            101 => Ok(()),
            status => Err(io::Error::other(format!("a socket was answered {status}"))),
        }
    }

    /// Reads the payload of the next frame of a WebSocket, whatever its kind.
    ///
    /// # Errors
    /// If the connection ends before it does.
    pub async fn frame(&mut self) -> io::Result<Vec<u8>> {
        let (head, payload) = loop {
            if let Some(lengths) = frame_lengths(self.unused()) {
                break lengths;
            }
            self.read_more().await?;
        };
        self.used += head;
        self.exactly(payload).await
    }

    fn unused(&self) -> &[u8] {
        &self.buffer[self.used..]
    }

    /// Takes what was read already, up to `most` bytes.
    fn take(&mut self, most: usize) -> Vec<u8> {
        let unused = self.unused();
        let taken = unused[..unused.len().min(most)].to_vec();
        self.used += taken.len();
        taken
    }

    /// Reads so many bytes.
    async fn exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = self.take(count);
        let taken = bytes.len();
        bytes.resize(count, 0);
        self.stream.read_exact(&mut bytes[taken..]).await?;
        Ok(bytes)
    }

    /// Reads until these bytes are among those not taken; where they begin.
    async fn found(&mut self, end: &[u8]) -> io::Result<usize> {
        loop {
            if let Some(at) = find(self.unused(), end) {
                return Ok(at);
            }
            if self.unused().len() > MAX_HEAD {
                return Err(malformed("a line of its head does not end"));
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.used);
        self.used = 0;
        self.buffer.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// How long the head of a frame is and how long its payload, once the head is there. Servers do not mask.
fn frame_lengths(bytes: &[u8]) -> Option<(usize, usize)> {
    match *bytes.get(1)? & 0x7f {
        126 => {
            let length = bytes.get(2..4)?.try_into().ok()?;
            Some((4, usize::from(u16::from_be_bytes(length))))
        }
        127 => {
            let length = bytes.get(2..10)?.try_into().ok()?;
            Some((10, usize::try_from(u64::from_be_bytes(length)).ok()?))
        }
        short => Some((2, usize::from(short))),
    }
}

/// Where `needle` begins in `bytes`.
#[must_use]
pub fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the answer is malformed: {what}"),
    )
}

#[cfg(test)]
mod tests;
