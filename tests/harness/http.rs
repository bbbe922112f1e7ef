//! A small HTTP/1.1 client over plain sockets: what is sent and what comes back is exactly what a test sees.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Longest head of an answer; ours are far shorter.
const MAX_HEAD: usize = 64 * 1024;

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
    /// The headers in the order they came, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, decoded from chunks.
    pub body: Vec<u8>,
}

/// A connection on which an answer's body is still to be read.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
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
        let mut connection = Connection::open(server).await?;
        connection.write(&self.bytes(server)).await?;
        connection.answer(self.method == "HEAD").await
    }
}

impl Answer {
    /// The first header of a name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
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

    /// The body as text, for messages of tests.
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
            stream: BufReader::new(stream),
        })
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// If the server has cut the connection.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes).await
    }

    /// Reads a whole answer; one to a `HEAD` has no body.
    ///
    /// # Errors
    /// If the connection ends before the answer does, or what comes is no answer.
    pub async fn answer(&mut self, to_head: bool) -> io::Result<Answer> {
        let (status, headers) = self.head().await?;
        let header = |name: &str| {
            headers
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.as_str())
        };
        let mut body = Vec::new();
        if to_head || status == 204 || status == 304 || status < 200 {
            // No body whatever the headers say.
        } else if header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await? {
                body.extend_from_slice(&chunk);
            }
        } else if let Some(length) = header("content-length") {
            body.resize(length.parse().map_err(|_| malformed("content-length"))?, 0);
            self.stream.read_exact(&mut body).await?;
        } else {
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
    pub async fn head(&mut self) -> io::Result<(u16, Vec<(String, String)>)> {
        loop {
            let status_line = self.line().await?;
            let status: u16 = status_line
                .strip_prefix("HTTP/1.1 ")
                .and_then(|rest| rest.get(..3)?.parse().ok())
                .ok_or_else(|| malformed(&status_line))?;
            let mut headers = Vec::new();
            loop {
                let line = self.line().await?;
                if line.is_empty() {
                    break;
                }
                let (name, value) = line.split_once(':').ok_or_else(|| malformed(&line))?;
                headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
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
        let line = self.line().await?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(|_| malformed(&line))?;
        let mut chunk = vec![0; size];
        self.stream.read_exact(&mut chunk).await?;
        self.line().await?;
        Ok((size > 0).then_some(chunk))
    }

    /// Reads until the server closes; answers what came.
    ///
    /// # Errors
    /// Never for a reset: a cut connection is an end, too.
    pub async fn until_closed(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest).await {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error),
            Ok(_) | Err(_) => Ok(rest),
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        (&mut self.stream)
            .take(MAX_HEAD as u64)
            .read_until(b'\n', &mut line)
            .await?;
        if !line.ends_with(b"\r\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).map_err(|_| malformed("a header line"))
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the answer is malformed: {what}"),
    )
}
