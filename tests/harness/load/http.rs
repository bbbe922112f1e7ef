//! A small HTTP/1.1 client: one connection that is kept, requests spelled out as bytes.
//!
//! It does little on purpose. In a bench the client runs on the same cores as the server, so everything that it does not
//! need to look at is not looked at: of an answer it reads the status and how long the body is.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest head of an answer; ours are far shorter.
const MOST_HEAD_BYTES: usize = 64 * 1024;
/// Room for a head and a small body in one read.
const READ_BYTES: usize = 16 * 1024;

/// A connection, and what was read from it beyond the last answer.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes at the start of `buffer` that were used up.
    used: usize,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body, decoded from chunks.
    pub body: Vec<u8>,
}

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// It has this many bytes.
    Length(usize),
    /// It comes in chunks.
    Chunked,
    /// The connection ends with it.
    UntilClosed,
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

impl Answer {
    /// The body as text, for messages.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none.
    pub fn json(&self) -> io::Result<serde_json::Value> {
        serde_json::from_slice(&self.body)
            .map_err(|error| malformed(&format!("{error} in {}", self.text())))
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
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens there.
    pub async fn open(server: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
            used: 0,
        })
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// When the connection ends before the answer does, or what comes is no answer.
    pub async fn send(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.write(request).await?;
        self.answer(request.starts_with(b"HEAD ")).await
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// When the server has cut the connection.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads a whole answer; one to a `HEAD` has no body.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn answer(&mut self, to_head: bool) -> io::Result<Answer> {
        let (status, framing) = self.head().await?;
        let mut body = Vec::new();
        match framing {
            _ if to_head || matches!(status, 204 | 304) => {}
            Framing::Length(length) => {
                while self.unused().len() < length {
                    self.read_more().await?;
                }
                body.extend_from_slice(&self.unused()[..length]);
                self.used += length;
            }
            Framing::Chunked => {
                while let Some(chunk) = self.chunk().await? {
                    body.extend_from_slice(&chunk);
                }
            }
            Framing::UntilClosed => {
                body.extend_from_slice(self.unused());
                self.stream.read_to_end(&mut body).await?;
            }
        }
        Ok(Answer { status, body })
    }

    /// Reads the head of an answer, skipping interim ones.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn head(&mut self) -> io::Result<(u16, Framing)> {
        loop {
            let length = self.whole_head().await?;
            let head = parse_head(&self.unused()[..length])?;
            self.used += length;
            if head.0 != 100 {
                return Ok(head);
            }
        }
    }

    /// The value of a header of the answer that comes next, which is read after this; none of an interim answer.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn peek_header(&mut self, name: &str) -> io::Result<Option<String>> {
        let length = self.whole_head().await?;
        let head = std::str::from_utf8(&self.unused()[..length]);
        let head = head.map_err(|_| malformed("its head is no text"))?;
        let mut fields = head.lines().filter_map(|line| line.split_once(':'));
        let field = fields.find(|(known, _)| known.eq_ignore_ascii_case(name));
        Ok(field.map(|(_, value)| value.trim().to_owned()))
    }

    /// Reads until the next head is there; how long it is.
    async fn whole_head(&mut self) -> io::Result<usize> {
        loop {
            if let Some(length) = head_length(self.unused()) {
                return Ok(length);
            }
            if self.unused().len() > MOST_HEAD_BYTES {
                return Err(malformed("its head does not end"));
            }
            self.read_more().await?;
        }
    }

    /// Reads the next chunk of a chunked body; `None` at its end.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = loop {
            if let Some(end) = find(self.unused(), b"\r\n") {
                break end;
            }
            self.read_more().await?;
        };
        let size = std::str::from_utf8(&self.unused()[..line])
            .ok()
            .and_then(|text| usize::from_str_radix(text.trim(), 16).ok())
            .ok_or_else(|| malformed("a chunk has no size"))?;
        let whole = line + 2 + size + 2;
        while self.unused().len() < whole {
            self.read_more().await?;
        }
        let chunk = self.unused()[line + 2..whole - 2].to_vec();
        self.used += whole;
        Ok((size > 0).then_some(chunk))
    }

    /// Asks for a WebSocket and waits until it is one.
    ///
    /// # Errors
    /// When the server refuses, and as [`Connection::send`].
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
    /// When the connection ends before it does.
    pub async fn frame(&mut self) -> io::Result<Vec<u8>> {
        let (head, payload) = loop {
            if let Some(lengths) = frame_lengths(self.unused()) {
                break lengths;
            }
            self.read_more().await?;
        };
        while self.unused().len() < head + payload {
            self.read_more().await?;
        }
        let bytes = self.unused()[head..head + payload].to_vec();
        self.used += head + payload;
        Ok(bytes)
    }

    fn unused(&self) -> &[u8] {
        &self.buffer[self.used..]
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

fn head_length(bytes: &[u8]) -> Option<usize> {
    find(bytes, b"\r\n\r\n").map(|at| at + 4)
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

fn parse_head(head: &[u8]) -> io::Result<(u16, Framing)> {
    let head = std::str::from_utf8(head).map_err(|_| malformed("its head is no text"))?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok())
        .ok_or_else(|| malformed(head))?;
    let mut framing = Framing::UntilClosed;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            let length = value
                .trim()
                .parse()
                .map_err(|_| malformed("its length is no number"))?;
            framing = Framing::Length(length);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            framing = Framing::Chunked;
        }
    }
    Ok((status, framing))
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
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// What a client makes of `bytes` that a server sends in pieces of `piece` bytes.
    async fn heard(bytes: &'static [u8], piece: usize) -> io::Result<Vec<(u16, String)>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("the client connects");
            for piece in bytes.chunks(piece) {
                stream.write_all(piece).await.expect("the client reads");
            }
        });
        let mut connection = Connection::open(address).await?;
        let mut answers = Vec::new();
        for _ in 0..2 {
            let answer = connection.answer(false).await?;
            answers.push((answer.status, answer.text()));
        }
        server.await.expect("the server wrote everything");
        Ok(answers)
    }

    #[tokio::test]
    async fn answers_follow_each_other_however_they_are_cut() {
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nab\
                      HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n";
        let expected = [(201, "ab".to_owned()), (200, "abc0123456789".to_owned())];
        for piece in [1, 7, 1000] {
            assert_eq!(heard(bytes, piece).await.expect("two answers"), expected);
        }
    }

    #[test]
    fn a_frame_says_how_long_it_is_in_one_of_three_ways() {
        assert_eq!(frame_lengths(&[0x81]), None);
        assert_eq!(frame_lengths(&[0x81, 5]), Some((2, 5)));
        assert_eq!(frame_lengths(&[0x81, 126, 1]), None);
        assert_eq!(frame_lengths(&[0x81, 126, 1, 2]), Some((4, 258)));
        let long = [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0];
        assert_eq!(frame_lengths(&long), Some((10, 65_536)));
    }

    #[tokio::test]
    async fn an_answer_that_is_cut_short_is_an_error() {
        let short = heard(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", 100).await;
        assert!(short.is_err());
    }

    #[test]
    fn requests_are_spelled_out() {
        let text = String::from_utf8(post_json("/a", "Idempotency-Key: k\r\n", "{}"));
        assert_eq!(
            text.expect("text"),
            "POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
             Idempotency-Key: k\r\n\r\n{}"
        );
    }
}
