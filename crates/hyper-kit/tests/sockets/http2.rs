//! HTTP/2 over the same port, framed by hand.

use std::time::Duration;

use hyper_kit::{Drained, HostNames, ServerLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::harness::{Server, limits};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
const PRIORITY: u8 = 2;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
const END_STREAM_AND_HEADERS: u8 = 0x5;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small frame");
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// `GET path` as literal header fields without indexing.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    // Indexed: method GET, scheme http. Then path by its indexed name, and authority likewise.
    let mut block = vec![0x82, 0x86, 0x04, u8::try_from(path.len()).expect("short")];
    block.extend(path.as_bytes());
    block.extend([0x01, 1, b'a']);
    frame(HEADERS, END_STREAM_AND_HEADERS, stream, &block)
}

pub(crate) async fn open(server: &Server) -> TcpStream {
    let mut stream = server.connect().await;
    stream.write_all(PREFACE).await.expect("sent");
    stream
        .write_all(&frame(SETTINGS, 0, 0, &[]))
        .await
        .expect("sent");
    stream
}

/// Reads one frame: its kind, stream and payload; `None` when the server closed.
pub(crate) async fn read_frame(stream: &mut TcpStream) -> Option<(u8, u32, Vec<u8>)> {
    let read = async {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await.ok()?;
        Some((head[3], id, payload))
    };
    let frame = timeout(Duration::from_secs(20), read).await;
    frame.expect("a frame, or the end of the connection")
}

pub(crate) async fn read_data(stream: &mut TcpStream) -> Vec<u8> {
    while let Some((kind, _, payload)) = read_frame(stream).await {
        if kind == DATA && !payload.is_empty() {
            return payload;
        }
    }
    panic!("the server closed without an answer");
}

#[tokio::test]
async fn a_request_is_answered_on_the_port_of_http_1() {
    let server = Server::start(limits()).await;
    let mut stream = open(&server).await;
    stream.write_all(&get(1, "/")).await.expect("sent");
    assert_eq!(read_data(&mut stream).await, b"hello");
}

#[tokio::test]
async fn the_preface_may_come_in_pieces() {
    let server = Server::start(limits()).await;
    let mut stream = server.connect().await;
    let (start, rest) = PREFACE.split_at(7);
    stream.write_all(start).await.expect("sent");
    while server.stats.accepted.get() == 0 {
        tokio::task::yield_now().await;
    }
    stream.write_all(rest).await.expect("sent");
    stream
        .write_all(&frame(SETTINGS, 0, 0, &[]))
        .await
        .expect("sent");
    stream.write_all(&get(1, "/")).await.expect("sent");
    assert_eq!(read_data(&mut stream).await, b"hello");
}

#[tokio::test]
async fn a_connection_without_requests_is_closed() {
    let server = Server::start(ServerLimits {
        h2_idle: Duration::from_millis(100),
        ..limits()
    })
    .await;
    let mut stream = open(&server).await;
    let mut kinds = Vec::new();
    while let Some((kind, _, _)) = read_frame(&mut stream).await {
        kinds.push(kind);
    }
    assert!(kinds.contains(&GOAWAY), "{kinds:?}");
}

#[tokio::test]
async fn a_connection_that_never_asked_anything_is_closed_sooner() {
    let server = Server::start(ServerLimits {
        header_read_timeout: Duration::from_millis(100),
        h2_idle: Duration::from_secs(3600),
        linger: Duration::from_millis(100),
        ..limits()
    })
    .await;
    let mut silent = open(&server).await;
    while read_frame(&mut silent).await.is_some() {}

    // One that asked something lives on: two others come and go meanwhile.
    let mut used = open(&server).await;
    used.write_all(&get(1, "/")).await.expect("sent");
    assert_eq!(read_data(&mut used).await, b"hello");
    for _ in 0..2 {
        let mut silent = open(&server).await;
        while read_frame(&mut silent).await.is_some() {}
    }
    used.write_all(&get(3, "/")).await.expect("sent");
    assert_eq!(read_data(&mut used).await, b"hello");
}

#[tokio::test]
async fn a_flood_of_control_frames_ends_the_connection() {
    for (kind, payload) in [
        (PING, &[0; 8][..]),
        (SETTINGS, &[]),
        (PRIORITY, &[0, 0, 0, 0, 1]),
    ] {
        let server = Server::start(limits()).await;
        let stream = open(&server).await;
        let (mut reading, mut writing) = stream.into_split();
        let flood = frame(kind, 0, u32::from(kind == PRIORITY) * 3, payload).repeat(1000);
        let flooding = async {
            // The server closes while this is being sent.
            while writing.write_all(&flood).await.is_ok() {}
        };
        let reading = async {
            let mut answers = Vec::new();
            let _ = reading.read_to_end(&mut answers).await;
        };
        let both = async { tokio::join!(flooding, reading) };
        let ended = timeout(Duration::from_secs(20), both).await;
        ended.expect("the connection ends");
        assert_eq!(server.stats.control_floods.get(), 1, "{kind}");
    }
}

#[tokio::test]
async fn a_running_request_is_no_idle_connection() {
    let server = Server::start(ServerLimits {
        h2_idle: Duration::from_millis(20),
        ..limits()
    })
    .await;
    let mut stream = open(&server).await;
    stream.write_all(&get(1, "/gate")).await.expect("sent");
    server.reached.notified().await;
    // Two connections that idle and are closed show that more than the idle time has passed.
    for _ in 0..2 {
        let mut idle = open(&server).await;
        while read_frame(&mut idle).await.is_some() {}
    }
    server.gate.notify_one();
    assert_eq!(read_data(&mut stream).await, b"opened");
}

#[tokio::test]
async fn rapid_resets_end_the_connection() {
    let server = Server::start(limits()).await;
    let mut stream = open(&server).await;
    let mut attack = Vec::new();
    for n in 0..2000 {
        let id = 2 * n + 1;
        attack.extend(get(id, "/forever"));
        attack.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
    }
    // The server may close while this is being sent.
    let _ = stream.write_all(&attack).await;
    while read_frame(&mut stream).await.is_some() {}
    assert!(server.stats.requests.get() < 2000);
}

#[tokio::test]
async fn a_drain_lets_streams_finish() {
    let server = Server::start(limits()).await;
    let mut stream = open(&server).await;
    stream.write_all(&get(1, "/gate")).await.expect("sent");
    server.reached.notified().await;
    let gate = server.gate.clone();
    let stopping = server.stop();
    gate.notify_one();
    assert_eq!(read_data(&mut stream).await, b"opened");
    drop(stream);
    assert_eq!(stopping.await.expect("no panic"), Drained { cut: 0 });
}

#[tokio::test]
async fn a_cut_drops_the_handlers_of_streams() {
    let server = Server::start(ServerLimits {
        grace: Duration::from_millis(100),
        ..limits()
    })
    .await;
    let mut stream = open(&server).await;
    stream.write_all(&get(1, "/forever")).await.expect("sent");
    server.reached.notified().await;
    let dropped = server.dropped.clone();
    // The connection and its stream.
    assert_eq!(server.stop().await.expect("no panic"), Drained { cut: 2 });
    dropped.notified().await;
}

#[tokio::test]
async fn a_name_that_is_not_the_servers_is_refused() {
    let server = Server::start(ServerLimits {
        host_names: Some(HostNames::default()),
        ..limits()
    })
    .await;
    let mut stream = open(&server).await;
    // `get` asks for the authority `a`.
    stream.write_all(&get(1, "/")).await.expect("sent");
    let answer = read_data(&mut stream).await;
    assert_eq!(answer, b"refused UnknownHost at /");
    assert_eq!(server.stats.refused_requests.get(), 1);
}
