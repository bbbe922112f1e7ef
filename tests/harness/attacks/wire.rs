//! How attacks talk: whole exchanges, and many streams on one connection.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::interval;

use super::Target;
use super::lane::{End, Hold, Lane};
use crate::http2::{Event, Http2};
use crate::{Answer, Connection, Request};

/// Where attacks come from: another address than the neighbour's, as it would be outside of a test.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Most bytes of an answer that are kept to tell what it says.
const MOST_TEXT_BYTES: usize = 4 * 1024;

/// An answer, as far as an attack looks at it.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// Head and the beginning of the body; empty where none may be sent.
    pub(super) text: String,
}

/// How a body goes on that trickles: so that it is just not too slow to be cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drip {
    pub(super) bytes: usize,
    pub(super) every: Duration,
}

/// Connects to the server.
pub(super) async fn connect(target: &Target) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((ATTACKER, 0).into())?;
    socket.connect(target.server).await
}

/// A request of the account that attacks.
pub(super) fn owned(target: &Target, request: Request) -> Request {
    request.header("Authorization", &format!("Bearer {}", target.key))
}

/// Sends a request of the account and reads the whole answer.
pub(super) async fn ask(target: &Target, request: Request) -> io::Result<Answer> {
    let request = owned(target, request);
    let mut connection = Connection::over(connect(target).await?)?;
    connection.write(&request.bytes(target.server)).await?;
    connection.answer(false).await
}

/// Sends a head that announces so much and a body that may be shorter, and reads until the server closes. The lane has begun
/// once the server has taken the body, or has answered.
///
/// The answer is read while the body is written, as it may come before the body's end.
pub(super) async fn exchange(
    target: &Target,
    lane: &Lane,
    request: Request,
    announced: usize,
    body: &[u8],
    drip: Option<Drip>,
) -> io::Result<Reply> {
    let request = request
        .header("Content-Length", &announced.to_string())
        .header("Connection", "close");
    let head = request.bytes(target.server);
    let (mut reader, mut writer) = connect(target).await?.into_split();
    let write = async {
        writer.write_all(&head).await?;
        writer.write_all(body).await?;
        lane.begun();
        let (Some(drip), mut left) = (drip, announced - body.len()) else {
            return Ok(());
        };
        let mut ticks = interval(drip.every);
        // The first tick is at once; and one byte is kept back, so that the body never ends.
        while left > 1 {
            ticks.tick().await;
            let some = drip.bytes.min(left - 1);
            writer.write_all(&vec![0; some]).await?;
            left -= some;
        }
        io::Result::Ok(())
    };
    let read = async {
        let (mut text, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            match reader.read(&mut buffer).await {
                Ok(0) | Err(_) => return text,
                Ok(read) => {
                    let room = MOST_TEXT_BYTES.saturating_sub(text.len());
                    text.extend_from_slice(&buffer[..read.min(room)]);
                }
            }
        }
    };
    // A server that refuses early does not read the rest, so a failed write says nothing.
    let (_, text) = tokio::join!(write, read);
    let text = String::from_utf8_lossy(&text).into_owned();
    let status = text.strip_prefix("HTTP/1.1 ");
    let status = status.and_then(|rest| rest.get(..3)?.parse().ok());
    let status = status.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(Reply { status, text })
}

/// Streams of one connection that are kept open.
pub(super) struct Streams<'a> {
    /// What the streams ask for, in turn.
    pub(super) requests: &'a [Request],
    /// How many there are at a time.
    pub(super) count: usize,
    /// How many bytes of each answer may be sent.
    pub(super) window: u32,
    /// Whether the server answers with a head at once, and holds something for the stream from then on; else it does from
    /// the request on.
    pub(super) from_head: bool,
}

impl Streams<'_> {
    /// Opens the streams and keeps them: what the server cuts is opened anew, what it refuses is not.
    pub(super) async fn keep(&self, target: &Target, lane: &Lane) -> io::Result<End> {
        let mut connection = Http2::begin(connect(target).await?, self.window).await?;
        let mut open: BTreeMap<u32, Option<Hold>> = BTreeMap::new();
        let mut next = self.requests.iter().cycle();
        let mut waiting = self.count;
        let mut refused = 0;
        for request in next.by_ref().take(self.count) {
            let stream = connection.send(request).await?;
            open.insert(stream, (!self.from_head).then(|| lane.hold()));
        }
        connection.ping().await?;
        loop {
            match connection.next().await? {
                Event::Head { stream, status } if (200..300).contains(&status) => {
                    open.insert(stream, Some(lane.hold()));
                    waiting = waiting.saturating_sub(1);
                }
                Event::Head { stream, status } => {
                    open.remove(&stream);
                    waiting = waiting.saturating_sub(1);
                    let text = String::new();
                    let reply = Reply { status, text };
                    refused += usize::from(!lane.takes(&reply));
                }
                Event::Ended { stream } if open.remove(&stream).is_some() => {
                    lane.cut();
                    if let Some(request) = next.next() {
                        let stream = connection.send(request).await?;
                        open.insert(stream, (!self.from_head).then(|| lane.hold()));
                    }
                }
                Event::Ended { .. } => {}
                Event::Pong if !self.from_head => waiting = 0,
                Event::Pong => {}
                Event::Goodbye => return Err(io::ErrorKind::ConnectionReset.into()),
            }
            if waiting == 0 {
                lane.begun();
            }
            if refused >= self.count {
                return Ok(End::Refused);
            }
        }
    }
}
