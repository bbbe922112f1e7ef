//! A small WebSocket client over plain sockets: what it hears is exactly what was sent.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Request;

/// Far longer than anything a test waits for: reached only when nothing comes any more.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connected socket.
#[derive(Debug)]
pub struct Socket {
    stream: BufReader<TcpStream>,
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A JSON text.
    Json(Value),
    /// Bytes.
    Binary(Vec<u8>),
    /// The server said goodbye, with this code.
    Closed(u16),
}

impl Socket {
    /// Connects; any other answer than a socket is an error that tells its status.
    ///
    /// # Errors
    /// If the server cannot be reached, or gives no socket.
    pub async fn open(server: SocketAddr, request: Request) -> io::Result<Self> {
        Self::over(TcpStream::connect(server).await?, server, request).await
    }

    /// As [`Socket::open`], over a connection that is there.
    ///
    /// # Errors
    /// As [`Socket::open`].
    pub async fn over(
        mut stream: TcpStream,
        server: SocketAddr,
        request: Request,
    ) -> io::Result<Self> {
        let request = request
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
        stream.set_nodelay(true)?;
        stream.write_all(&request.bytes(server)).await?;
        let mut stream = BufReader::new(stream);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        if !head.starts_with(b"HTTP/1.1 101 ") {
            let head = String::from_utf8_lossy(&head);
            let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
            return Err(io::Error::other(status));
        }
        Ok(Self { stream })
    }

    /// Says a text.
    ///
    /// # Errors
    /// If the server has cut the connection.
    pub async fn say(&mut self, text: &str) -> io::Result<()> {
        // A mask of zeros is one, and leaves the text readable.
        let mut frame = vec![0x81];
        match text.len() {
            short @ 0..126 => frame.push(0x80 | short as u8),
            long => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&(long as u16).to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(text.as_bytes());
        self.stream.get_mut().write_all(&frame).await
    }

    /// The next message.
    ///
    /// # Errors
    /// If nothing comes for long, or the connection ends without a goodbye.
    pub async fn next(&mut self) -> io::Result<Message> {
        timeout(PATIENCE, self.read())
            .await
            .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Messages up to and with the first that fits.
    ///
    /// # Errors
    /// As [`Socket::next`].
    pub async fn until(&mut self, fits: impl Fn(&Message) -> bool) -> io::Result<Vec<Message>> {
        let mut heard = Vec::new();
        loop {
            heard.push(self.next().await?);
            if heard.last().is_some_and(&fits) {
                return Ok(heard);
            }
        }
    }

    async fn read(&mut self) -> io::Result<Message> {
        loop {
            let first = self.stream.read_u8().await?;
            let length = match self.stream.read_u8().await? {
                126 => u64::from(self.stream.read_u16().await?),
                127 => self.stream.read_u64().await?,
                short => u64::from(short),
            };
            let mut payload = vec![0; usize::try_from(length).map_err(io::Error::other)?];
            self.stream.read_exact(&mut payload).await?;
            match first & 0x0f {
                1 => return Ok(Message::Json(serde_json::from_slice(&payload)?)),
                2 => return Ok(Message::Binary(payload)),
                8 => {
                    let code = payload
                        .get(..2)
                        .map(|code| u16::from_be_bytes([code[0], code[1]]));
                    return Ok(Message::Closed(code.unwrap_or(1005)));
                }
                // Pings need no answer within the patience of a test.
                _ => {}
            }
        }
    }
}

impl Message {
    /// The type of a JSON message, and of a binary one its number.
    #[must_use]
    pub fn kind(&self) -> String {
        match self {
            Self::Json(message) => message["type"].as_str().unwrap_or_default().to_owned(),
            Self::Binary(bytes) => format!("binary {}", bytes.get(3).copied().unwrap_or_default()),
            Self::Closed(code) => format!("closed {code}"),
        }
    }

    /// `data` of a JSON message; null of any other.
    #[must_use]
    pub fn data(&self) -> &Value {
        match self {
            Self::Json(message) => &message["data"],
            Self::Binary(_) | Self::Closed(_) => &Value::Null,
        }
    }
}
