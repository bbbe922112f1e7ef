//! Clients of HTTP/2 that do not take the answers they asked for, on connections that are well alive.

use std::time::Duration;

use hyper_kit::ServerLimits;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{interval, timeout};

use crate::harness::{LARGE, Server, impatient, limits, status};
use crate::http2::{
    DATA, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, get, open, read_data, read_frame,
};

/// A connection whose streams have no window until they are given one.
async fn open_without_window(server: &Server) -> TcpStream {
    let mut stream = server.connect().await;
    stream.write_all(PREFACE).await.expect("sent");
    // The setting 4 is the initial window of streams.
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    stream.write_all(&settings).await.expect("sent");
    stream
}

async fn grant(connection: &mut TcpStream, stream: u32, bytes: u32) {
    let update = frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
    connection.write_all(&update).await.expect("sent");
}

/// Reads until a stream is reset; fails when the connection ends before.
async fn read_to_reset(connection: &mut TcpStream, stream: u32) {
    loop {
        let (kind, id, _) = read_frame(connection).await.expect("an open connection");
        if (kind, id) == (RST_STREAM, stream) {
            return;
        }
    }
}

/// Waits until two streams in a row were reset for their stall: longer than twice the span of the clock.
async fn two_stalls(server: &Server) {
    let mut connection = open_without_window(server).await;
    for id in [1, 3] {
        let request = get(id, "/flood");
        connection.write_all(&request).await.expect("sent");
        read_to_reset(&mut connection, id).await;
    }
}

#[tokio::test]
async fn a_stream_without_window_is_reset_and_its_connection_lives() {
    let server = Server::start(impatient()).await;
    let mut connection = open_without_window(&server).await;
    for request in [get(1, "/flood"), get(3, "/large"), get(5, "/gate")] {
        connection.write_all(&request).await.expect("sent");
    }
    grant(&mut connection, 5, 1000).await;
    let mut reset = Vec::new();
    while reset.len() < 2 {
        let (kind, id, _) = read_frame(&mut connection)
            .await
            .expect("an open connection");
        assert_ne!(kind, DATA);
        if kind == RST_STREAM {
            reset.push(id);
        }
    }
    reset.sort_unstable();
    assert_eq!(reset, [1, 3]);
    assert_eq!(server.stats.response_stalls.get(), 2);
    assert_eq!(server.stats.in_flight.get(), 1);
    server.gate.notify_one();
    assert_eq!(read_data(&mut connection).await, b"opened");
}

#[tokio::test]
async fn a_window_that_opens_by_a_byte_is_no_progress() {
    let server = Server::start(ServerLimits {
        // More than single bytes can make up, however fast they come.
        write_min_rate: 100_000_000,
        ..impatient()
    })
    .await;
    let mut connection = open_without_window(&server).await;
    let request = get(1, "/flood");
    connection.write_all(&request).await.expect("sent");
    grant(&mut connection, 1, 1).await;
    let mut taken = 0;
    // Slower than the bound on window updates, which would end the connection.
    let mut pace = interval(Duration::from_millis(20));
    loop {
        let (kind, id, payload) = read_frame(&mut connection)
            .await
            .expect("an open connection");
        match kind {
            RST_STREAM if id == 1 => break,
            DATA => {
                taken += payload.len();
                pace.tick().await;
                grant(&mut connection, 1, 1).await;
            }
            _ => {}
        }
    }
    assert!(taken > 1, "{taken}");
    assert_eq!(server.stats.response_stalls.get(), 1);
}

#[tokio::test]
async fn an_answer_that_is_all_sent_but_its_last_bytes_ends_with_its_connection() {
    let server = Server::start(impatient()).await;
    let mut connection = open_without_window(&server).await;
    connection.write_all(&get(1, "/")).await.expect("sent");
    // With the first byte the rest is in the hands of the library, and the stream has ended on the server's side.
    grant(&mut connection, 1, 1).await;
    let mut taken = Vec::new();
    while let Some((kind, _, payload)) = read_frame(&mut connection).await {
        assert_ne!(kind, RST_STREAM);
        if kind == DATA {
            taken.extend(payload);
        }
    }
    assert_eq!(taken, b"h");
    assert_eq!(server.stats.response_stalls.get(), 1);
    assert_eq!(server.stats.in_flight.get(), 0);
}

#[tokio::test]
async fn a_slow_reader_that_goes_on_gets_everything() {
    let server = Server::start(ServerLimits {
        write_stall: Duration::from_secs(1),
        write_min_rate: 100,
        ..limits()
    })
    .await;
    let mut connection = open_without_window(&server).await;
    connection.write_all(&get(1, "/flood")).await.expect("sent");
    let reading = async {
        loop {
            grant(&mut connection, 0, 200).await;
            grant(&mut connection, 1, 200).await;
            let (kind, ..) = read_frame(&mut connection)
                .await
                .expect("an open connection");
            assert_ne!(kind, RST_STREAM);
        }
    };
    tokio::select! {
        () = reading => {}
        () = two_stalls(&server) => {}
    }
    assert_eq!(server.stats.response_stalls.get(), 2);
}

#[tokio::test]
async fn a_large_answer_comes_whole_and_ends() {
    let server = Server::start(limits()).await;
    let mut connection = open(&server).await;
    connection.write_all(&get(1, "/large")).await.expect("sent");
    let mut taken = 0;
    loop {
        let (kind, id, payload) = read_frame(&mut connection)
            .await
            .expect("an open connection");
        if (kind, id) != (DATA, 1) {
            continue;
        }
        taken += payload.len();
        if payload.is_empty() {
            break;
        }
        let bytes = u32::try_from(payload.len()).expect("a frame");
        grant(&mut connection, 0, bytes).await;
        grant(&mut connection, 1, bytes).await;
    }
    assert_eq!(taken, LARGE);
    let idle = async {
        while server.stats.in_flight.get() > 0 {
            tokio::task::yield_now().await;
        }
    };
    let idle = timeout(Duration::from_secs(20), idle).await;
    idle.expect("the request is over");
}

#[tokio::test]
async fn a_quiet_stream_of_events_is_no_stall() {
    let server = Server::start(impatient()).await;
    let mut connection = open(&server).await;
    let request = get(1, "/events");
    connection.write_all(&request).await.expect("sent");
    assert_eq!(read_data(&mut connection).await, b"event");
    server.reached.notified().await;
    two_stalls(&server).await;
    server.gate.notify_one();
    assert_eq!(read_data(&mut connection).await, b"event");
}

#[tokio::test]
async fn the_streams_of_all_connections_are_bounded_and_each_connection_has_one() {
    let server = Server::start(ServerLimits {
        h2_streams_in_all: 2,
        ..limits()
    })
    .await;
    let mut connection = open(&server).await;
    for id in [1, 3, 5] {
        let request = get(id, "/forever");
        connection.write_all(&request).await.expect("sent");
        server.reached.notified().await;
    }
    connection.write_all(&get(7, "/")).await.expect("sent");
    let refused = read_data(&mut connection).await;
    assert_eq!(refused, b"refused TooManyStreams at /");
    assert_eq!(server.stats.refused_streams.get(), 1);

    let mut other = open(&server).await;
    other.write_all(&get(1, "/")).await.expect("sent");
    assert_eq!(read_data(&mut other).await, b"hello");
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&server.exchange(request).await), "200");

    // What is given up makes room.
    let reset = frame(RST_STREAM, 0, 3, &8_u32.to_be_bytes());
    connection.write_all(&reset).await.expect("sent");
    server.dropped.notified().await;
    connection.write_all(&get(9, "/")).await.expect("sent");
    assert_eq!(read_data(&mut connection).await, b"hello");
}
