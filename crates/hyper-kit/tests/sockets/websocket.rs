//! WebSockets through real sockets: messages arrive in order, and a peer that sends too much, reads too slowly or is dead is cut.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{Request, Response, StatusCode};
use hyper_kit::{
    Application, Body, ConnectionInfo, Conversation, Incoming, Outgoing, Refusal, ServerLimits,
    ServerStats, SocketLimits, Sockets, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{WebSocketStream, client_async};
use tokio_util::sync::CancellationToken;

use crate::harness::{limits, read_until};

/// Far longer than anything here takes: reached only when the server hangs.
const PATIENCE: Duration = Duration::from_secs(20);

struct Server {
    address: std::net::SocketAddr,
    sockets: Sockets,
    drain: CancellationToken,
    /// Rung when it is asked whether a client of `/undecided` may stay.
    undecided: Arc<Notify>,
    /// Set when its conversation is over.
    over: Arc<AtomicBool>,
}

/// `/parrot` says what it hears, `/torrent` never stops talking, `/hello` says one thing and ends, `/stranger` may stay for one ping, and
/// of `/undecided` it never becomes known.
struct Situations {
    sockets: Sockets,
    undecided: Arc<Notify>,
    /// Set when its conversation is over.
    over: Arc<AtomicBool>,
}

/// Hears on one end and speaks on the other.
struct Parrot {
    heard: mpsc::Sender<String>,
    to_say: mpsc::Receiver<String>,
}

struct Torrent;

struct Hello(Option<Outgoing>);

struct Stranger {
    pings: u32,
}

/// Tells when it is asked whether its client may stay, and when it is over.
struct Undecided(Arc<Notify>, Arc<AtomicBool>);

impl Drop for Undecided {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
    }
}

impl Conversation for Undecided {
    async fn next(&mut self) -> Option<Outgoing> {
        std::future::pending().await
    }

    async fn may_stay(&mut self) -> bool {
        self.0.notify_one();
        std::future::pending().await
    }

    fn hear(&mut self, _: &str) {}
}

impl Conversation for Stranger {
    async fn next(&mut self) -> Option<Outgoing> {
        std::future::pending().await
    }

    async fn may_stay(&mut self) -> bool {
        self.pings += 1;
        self.pings == 1
    }

    fn hear(&mut self, _: &str) {}
}

impl Conversation for Parrot {
    async fn next(&mut self) -> Option<Outgoing> {
        let text = self.to_say.recv().await?;
        Some(Outgoing::Text(text.into()))
    }

    async fn may_stay(&mut self) -> bool {
        true
    }

    fn hear(&mut self, text: &str) {
        let _ = self.heard.try_send(text.to_owned());
    }
}

impl Conversation for Torrent {
    async fn next(&mut self) -> Option<Outgoing> {
        Some(Outgoing::Text("x".repeat(64 * 1024).into()))
    }

    async fn may_stay(&mut self) -> bool {
        true
    }

    fn hear(&mut self, _: &str) {}
}

impl Conversation for Hello {
    async fn next(&mut self) -> Option<Outgoing> {
        self.0.take()
    }

    async fn may_stay(&mut self) -> bool {
        true
    }

    fn hear(&mut self, _: &str) {}
}

impl Application for Situations {
    async fn call(&self, request: Request<Incoming>, _: ConnectionInfo) -> Response<Body> {
        let (head, _) = request.into_parts();
        let accepted = match head.uri.path() {
            "/parrot" => {
                let (heard, to_say) = mpsc::channel(100);
                self.sockets.accept(&head, Parrot { heard, to_say })
            }
            "/torrent" => self.sockets.accept(&head, Torrent),
            "/stranger" => self.sockets.accept(&head, Stranger { pings: 0 }),
            "/undecided" => {
                let (asked, over) = (Arc::clone(&self.undecided), Arc::clone(&self.over));
                let undecided = Undecided(asked, over);
                self.sockets.accept(&head, undecided)
            }
            _ => {
                let hello = Outgoing::Binary(Bytes::from_static(b"he"), Bytes::from_static(b"llo"));
                self.sockets.accept(&head, Hello(Some(hello)))
            }
        };
        accepted.unwrap_or_else(|error| {
            let mut response = Response::new(Body::full(error.to_string()));
            *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
            response
        })
    }

    fn refuse(&self, refusal: Refusal, _: &str) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = refusal.status();
        response
    }
}

async fn start(socket_limits: SocketLimits, limits: ServerLimits) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    let drain = CancellationToken::new();
    let sockets = Sockets::new(socket_limits, drain.clone());
    let undecided = Arc::new(Notify::new());
    let over = Arc::new(AtomicBool::new(false));
    let application = Situations {
        sockets: sockets.clone(),
        undecided: Arc::clone(&undecided),
        over: Arc::clone(&over),
    };
    let stats = Arc::new(ServerStats::default());
    let shutdown = drain.clone().cancelled_owned();
    tokio::spawn(serve(listener, application, limits, stats, shutdown));
    Server {
        address,
        sockets,
        drain,
        undecided,
        over,
    }
}

impl Server {
    async fn connect(&self, path: &str) -> WebSocketStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.expect("a listener");
        let url = format!("ws://{}{path}", self.address);
        let (socket, answer) = client_async(url, stream).await.expect("a socket");
        assert_eq!(answer.status(), 101);
        socket
    }

    /// A socket whose client answers nothing that it is not told to.
    async fn connect_raw(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("a listener");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let head = read_until(&mut stream, "\r\n\r\n").await;
        assert!(
            head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
            "{head}"
        );
        stream
    }

    /// Waits until nobody is connected.
    async fn is_empty(&self) {
        let empty = async {
            while self.sockets.open() > 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, empty)
            .await
            .expect("the socket is let go");
    }
}

async fn next(socket: &mut WebSocketStream<TcpStream>) -> Option<Message> {
    let next = timeout(PATIENCE, socket.next()).await;
    next.expect("the server says something")?.ok()
}

fn close_code(message: Option<Message>) -> Option<CloseCode> {
    match message {
        Some(Message::Close(Some(frame))) => Some(frame.code),
        other => panic!("expected a close, got {other:?}"),
    }
}

#[tokio::test]
async fn what_is_said_arrives_in_order() {
    let server = start(SocketLimits::DEFAULT, limits()).await;
    let mut socket = server.connect("/parrot").await;
    for word in ["a", "é", ""] {
        socket.send(Message::text(word)).await.expect("sent");
    }
    for word in ["a", "é", ""] {
        assert_eq!(next(&mut socket).await, Some(Message::text(word)));
    }
    assert_eq!(server.sockets.open(), 1);
    socket.close(None).await.expect("closed");
    while next(&mut socket).await.is_some() {}
    server.is_empty().await;
}

#[tokio::test]
async fn the_parts_of_a_picture_are_one_message() {
    let server = start(SocketLimits::DEFAULT, limits()).await;
    let mut socket = server.connect("/hello").await;
    let hello = Message::binary(&b"hello"[..]);
    assert_eq!(next(&mut socket).await, Some(hello));
    assert_eq!(close_code(next(&mut socket).await), Some(CloseCode::Normal));
}

#[tokio::test]
async fn a_drain_says_goodbye_and_waits_for_every_socket() {
    let server = start(SocketLimits::DEFAULT, limits()).await;
    let mut socket = server.connect("/parrot").await;
    server.drain.cancel();
    assert_eq!(close_code(next(&mut socket).await), Some(CloseCode::Away));
    assert_eq!(next(&mut socket).await, None);
    server.sockets.closed().await;
    assert_eq!(server.sockets.open(), 0);
}

#[tokio::test]
async fn a_message_beyond_the_bound_ends_the_socket() {
    let server = start(SocketLimits::DEFAULT, limits()).await;
    for beyond in [64 * 1024 + 1, 64 * 1024] {
        let mut socket = server.connect("/parrot").await;
        let text = "x".repeat(beyond);
        socket
            .send(Message::text(text.clone()))
            .await
            .expect("sent");
        let answer = next(&mut socket).await;
        if beyond > 64 * 1024 {
            assert_eq!(close_code(answer), Some(CloseCode::Size));
        } else {
            assert_eq!(answer, Some(Message::text(text)));
        }
    }
}

#[tokio::test]
async fn bytes_that_are_no_frames_end_the_socket() {
    let server = start(SocketLimits::DEFAULT, limits()).await;
    let mut stream = server.connect_raw("/parrot").await;
    // A text without the mask that a client must set.
    stream.write_all(&[0x81, 0x01, b'a']).await.expect("sent");
    let mut rest = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    read.expect("the server closes").expect("what it said");
    assert_eq!(
        rest[2..4],
        1002_u16.to_be_bytes(),
        "a close for the protocol"
    );
    server.is_empty().await;
}

#[tokio::test]
async fn a_reader_that_stalls_is_cut() {
    let server_limits = ServerLimits {
        write_stall: Duration::from_millis(100),
        ..limits()
    };
    let server = start(SocketLimits::DEFAULT, server_limits).await;
    let stalled = server.connect_raw("/torrent").await;
    server.is_empty().await;
    drop(stalled);
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_dead() {
    let socket_limits = SocketLimits {
        ping: Duration::from_millis(20),
        ..SocketLimits::DEFAULT
    };
    let server = start(socket_limits, limits()).await;
    let mut alive = server.connect("/parrot").await;
    let mut dead = server.connect_raw("/parrot").await;
    let mut pings = Vec::new();
    // The client library answers pings while it waits for a message; there will be none, until the dead one is gone.
    let answering = async {
        while server.sockets.open() > 1 {
            let _ = timeout(Duration::from_millis(5), alive.next()).await;
        }
        Ok::<_, Infallible>(())
    };
    let (answered, read) = tokio::join!(
        timeout(PATIENCE, answering),
        timeout(PATIENCE, dead.read_to_end(&mut pings))
    );
    assert!(answered.is_ok() && read.is_ok());
    assert_eq!(pings, [0x89, 0, 0x89, 0], "it was asked twice");
    assert_eq!(server.sockets.open(), 1);
    alive.send(Message::text("still here")).await.expect("sent");
    loop {
        match next(&mut alive).await {
            Some(Message::Ping(_)) => {}
            other => break assert_eq!(other, Some(Message::text("still here"))),
        }
    }
}

#[tokio::test]
async fn an_ordinary_request_gets_no_socket() {
    let server = start(SocketLimits::DEFAULT, limits()).await;
    let mut stream = TcpStream::connect(server.address)
        .await
        .expect("a listener");
    let request = "GET /parrot HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("sent");
    let head = read_until(&mut stream, "\r\n").await;
    assert!(head.starts_with("HTTP/1.1 426 "), "{head}");
    assert_eq!(server.sockets.open(), 0);
}

#[tokio::test]
async fn a_client_that_may_stay_no_longer_is_told_so() {
    let socket_limits = SocketLimits {
        ping: Duration::from_millis(20),
        ..SocketLimits::DEFAULT
    };
    let server = start(socket_limits, limits()).await;
    let mut stranger = server.connect("/stranger").await;
    assert_eq!(
        next(&mut stranger).await,
        Some(Message::Ping(Bytes::new())),
        "it may, at first"
    );
    assert_eq!(
        close_code(next(&mut stranger).await),
        Some(CloseCode::Policy)
    );
    server.is_empty().await;
}

#[tokio::test]
async fn a_client_of_whom_nobody_knows_whether_it_may_stay_stays() {
    let socket_limits = SocketLimits {
        ping: Duration::from_millis(20),
        goodbye: Duration::from_millis(20),
        stall: PATIENCE * 10,
        ..SocketLimits::DEFAULT
    };
    let server = start(socket_limits, limits()).await;
    let mut socket = server.connect("/undecided").await;
    for _ in 0..3 {
        let ping = Some(Message::Ping(Bytes::new()));
        assert_eq!(next(&mut socket).await, ping);
    }
}

#[tokio::test]
async fn a_drain_does_not_wait_until_it_is_known_who_may_stay() {
    let socket_limits = SocketLimits {
        ping: Duration::from_millis(20),
        goodbye: PATIENCE * 10,
        stall: PATIENCE * 10,
        ..SocketLimits::DEFAULT
    };
    let server = start(socket_limits, limits()).await;
    let mut socket = server.connect("/undecided").await;
    let asked = timeout(PATIENCE, server.undecided.notified()).await;
    asked.expect("it is asked");
    server.drain.cancel();
    assert_eq!(close_code(next(&mut socket).await), Some(CloseCode::Away));
    // What the conversation held is free before the client answers.
    assert!(server.over.load(Ordering::Relaxed));
}
