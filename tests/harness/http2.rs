//! A small HTTP/2 client over plain sockets: it sends exactly the frames that a test wants, and keeps no window open that the
//! test did not open.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::Request;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Longest payload that a server sends to a client that asked for no longer ones.
const MOST_PAYLOAD_BYTES: usize = 16 * 1024;

/// What an open window is: far more than a test receives.
pub const OPEN_WINDOW: u32 = 1 << 30;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// The flag of an acknowledgement, and of the last frame of a stream: the two share a bit.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A connection whose streams this client has begun.
#[derive(Debug)]
pub struct Http2 {
    stream: BufReader<TcpStream>,
    server: SocketAddr,
    next_stream: u32,
}

/// What the server sent that matters to a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The head of an answer.
    Head {
        /// The stream.
        stream: u32,
        /// The status code.
        status: u16,
    },
    /// The server ended a stream: its answer is whole, or was broken off.
    Ended {
        /// The stream.
        stream: u32,
    },
    /// The answer to [`Http2::ping`].
    Pong,
    /// The server closes the connection.
    Goodbye,
}

/// What came of the body of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Some bytes.
    Data(Vec<u8>),
    /// Its end.
    End,
    /// It was broken off.
    Reset,
}

impl Http2 {
    /// Begins a connection. Each stream of it has a window of so many bytes for its answer: with 0, no byte of any body may
    /// be sent.
    ///
    /// # Errors
    /// If the server has cut the connection.
    pub async fn begin(stream: TcpStream, window: u32) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let mut connection = Self {
            server: stream.peer_addr()?,
            stream: BufReader::new(stream),
            next_stream: 1,
        };
        // No table of headers: each head is then read without those before it.
        let mut settings = Vec::new();
        for (name, value) in [(1_u16, 0_u32), (2, 0), (4, window)] {
            settings.extend_from_slice(&name.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        let mut bytes = PREFACE.to_vec();
        bytes.extend(frame(SETTINGS, 0, 0, &settings));
        if window > 0 {
            bytes.extend(frame(WINDOW_UPDATE, 0, 0, &OPEN_WINDOW.to_be_bytes()));
        }
        connection.write(&bytes).await?;
        Ok(connection)
    }

    /// Sends a request on a stream of its own; answers the number of the stream.
    ///
    /// # Errors
    /// If the server has cut the connection.
    pub async fn send(&mut self, request: &Request) -> io::Result<u32> {
        let stream = self.next_stream;
        self.next_stream += 2;
        let block = self.head(request);
        let ends = if request.body.is_empty() {
            END_STREAM
        } else {
            0
        };
        let mut bytes = frame(HEADERS, END_HEADERS | ends, stream, &block);
        let mut chunks = request.body.chunks(MOST_PAYLOAD_BYTES).peekable();
        while let Some(chunk) = chunks.next() {
            let ends = if chunks.peek().is_none() {
                END_STREAM
            } else {
                0
            };
            bytes.extend(frame(DATA, ends, stream, chunk));
        }
        self.write(&bytes).await?;
        Ok(stream)
    }

    /// Asks for a sign of life, which the server gives behind everything that it read before.
    ///
    /// # Errors
    /// If the server has cut the connection.
    pub async fn ping(&mut self) -> io::Result<()> {
        self.write(&frame(PING, 0, 0, &[7; 8])).await
    }

    /// The next thing that matters. What the protocol wants answered is answered meanwhile.
    ///
    /// # Errors
    /// If the connection ends, or what comes is no HTTP/2.
    pub async fn next(&mut self) -> io::Result<Event> {
        loop {
            let (kind, flags, stream, payload) = self.frame().await?;
            match kind {
                HEADERS if !payload.is_empty() => {
                    // Trailers have no status, and end the stream.
                    if let Some(status) = status_in(&payload) {
                        return Ok(Event::Head { stream, status });
                    }
                    return Ok(Event::Ended { stream });
                }
                DATA if flags & END_STREAM != 0 => return Ok(Event::Ended { stream }),
                RST_STREAM => return Ok(Event::Ended { stream }),
                PING => return Ok(Event::Pong),
                GOAWAY => return Ok(Event::Goodbye),
                _ => {}
            }
        }
    }

    /// The next piece of the body of the only answer under way, whose head was read.
    ///
    /// # Errors
    /// As [`Http2::next`].
    pub async fn piece(&mut self) -> io::Result<Piece> {
        loop {
            let (kind, flags, _, payload) = self.frame().await?;
            match kind {
                DATA if !payload.is_empty() => return Ok(Piece::Data(payload)),
                DATA if flags & END_STREAM != 0 => return Ok(Piece::End),
                RST_STREAM => return Ok(Piece::Reset),
                _ => {}
            }
        }
    }

    /// The next frame that is not answered at once: kind, flags, stream and payload.
    async fn frame(&mut self) -> io::Result<(u8, u8, u32, Vec<u8>)> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
            if length > MOST_PAYLOAD_BYTES {
                return Err(malformed("a frame is too long"));
            }
            let mut payload = vec![0; length];
            self.stream.read_exact(&mut payload).await?;
            let acknowledges = flags & ACK != 0;
            match kind {
                SETTINGS if !acknowledges => self.write(&frame(SETTINGS, ACK, 0, &[])).await?,
                PING if !acknowledges => self.write(&frame(PING, ACK, 0, &payload)).await?,
                _ => return Ok((kind, flags, stream, payload)),
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes).await
    }

    /// The head of a request, each field spelled out.
    fn head(&self, request: &Request) -> Vec<u8> {
        let server = self.server.to_string();
        let pseudo = [
            (":method", request.method.as_str()),
            (":scheme", "http"),
            (":path", request.target.as_str()),
            (":authority", server.as_str()),
        ];
        let own = request.headers.iter();
        let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
        let mut block = Vec::new();
        for (name, value) in pseudo.into_iter().chain(own) {
            // A literal that goes into no table, its name spelled out.
            block.push(0);
            text(&mut block, &name.to_ascii_lowercase());
            text(&mut block, value);
        }
        block
    }
}

/// A frame, spelled out.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame is short");
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A text as fields of heads have it: its length, with seven bits in the first byte, then its bytes.
fn text(block: &mut Vec<u8>, text: &str) {
    const IN_FIRST_BYTE: usize = 127;
    if text.len() < IN_FIRST_BYTE {
        block.push(text.len() as u8);
    } else {
        block.push(IN_FIRST_BYTE as u8);
        let mut rest = text.len() - IN_FIRST_BYTE;
        while rest >= 128 {
            block.push((rest % 128) as u8 | 128);
            rest /= 128;
        }
        block.push(rest as u8);
    }
    block.extend_from_slice(text.as_bytes());
}

/// The status in the head of an answer, where it comes first; `None` of trailers.
fn status_in(mut block: &[u8]) -> Option<u16> {
    // Changes of the size of the table, of which there is none.
    while block.first()? & 0xe0 == 0x20 {
        block = &block[1..];
    }
    let first = *block.first()?;
    if first & 0x80 != 0 {
        let known = [200, 204, 206, 304, 400, 404, 500];
        return known
            .get(usize::from((first & 0x7f).checked_sub(8)?))
            .copied();
    }
    let name = if first & 0x40 != 0 {
        first & 0x3f
    } else {
        first & 0x0f
    };
    if !(8..=14).contains(&name) {
        return None;
    }
    let length = *block.get(1)?;
    let value = block.get(2..2 + usize::from(length & 0x7f))?;
    if length & 0x80 == 0 {
        return std::str::from_utf8(value).ok()?.parse().ok();
    }
    digits(value)
}

/// Three digits in the code of RFC 7541: 0 to 2 have five bits, the others six.
fn digits(bytes: &[u8]) -> Option<u16> {
    let bits = bytes
        .iter()
        .fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let mut left = bytes.len().min(8) * 8;
    let mut number = 0;
    for _ in 0..3 {
        let five = (bits >> left.checked_sub(5)?) & 0x1f;
        let digit = if five <= 2 {
            left -= 5;
            five
        } else {
            let six = (bits >> left.checked_sub(6)?) & 0x3f;
            left -= 6;
            six.checked_sub(0x19)? + 3
        };
        number = number * 10 + digit;
    }
    u16::try_from(number).ok()
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
