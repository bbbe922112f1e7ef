//! The end of a server: what runs finishes, what does not is cut, nothing new begins.

use std::time::Duration;

use hyper_kit::{Drained, ServerLimits};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Server, limits, read_to_close, read_until, status};
use crate::http2::{self, GOAWAY, read_data, read_frame};

#[tokio::test]
async fn an_idle_server_stops_at_once_and_stops_listening() {
    let server = Server::start(limits()).await;
    let address = server.address;
    let mut idle = server.connect().await;
    idle.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .expect("sent");
    read_until(&mut idle, "hello").await;

    let drained = server.stop().await.expect("no panic");
    assert_eq!(drained, Drained { cut: 0 });
    assert_eq!(read_to_close(&mut idle).await, "");
    TcpStream::connect(address)
        .await
        .expect_err("nobody listens");
}

#[tokio::test]
async fn a_running_request_finishes_and_its_connection_closes() {
    let server = Server::start(limits()).await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /gate HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .expect("sent");
    server.reached.notified().await;

    let gate = server.gate.clone();
    let stopping = server.stop();
    gate.notify_one();
    let answer = read_to_close(&mut stream).await;
    assert_eq!(status(&answer), "200");
    assert!(closes(&answer) && answer.ends_with("opened"), "{answer}");
    assert_eq!(stopping.await.expect("no panic"), Drained { cut: 0 });
}

#[tokio::test]
async fn what_outlives_the_grace_is_cut_and_counted() {
    let server = Server::start(ServerLimits {
        grace: Duration::from_millis(100),
        ..limits()
    })
    .await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /forever HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .expect("sent");
    server.reached.notified().await;

    let dropped = server.dropped.clone();
    let drained = server.stop().await.expect("no panic");
    assert_eq!(drained, Drained { cut: 1 });
    dropped.notified().await;
    assert_eq!(read_to_close(&mut stream).await, "");
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Whether an answer of HTTP/1 ends its connection.
fn closes(answer: &str) -> bool {
    answer.to_ascii_lowercase().contains("connection: close")
}

#[tokio::test]
async fn a_server_that_leaves_answers_on_and_each_answer_ends_its_connection() {
    let server = Server::start(limits()).await;
    let mut known = server.connect().await;
    known.write_all(GET).await.expect("sent");
    assert!(!closes(&read_until(&mut known, "hello").await));
    server.leave();
    known.write_all(GET).await.expect("sent");
    let mut new = server.connect().await;
    new.write_all(GET).await.expect("sent");
    for stream in [&mut known, &mut new] {
        let answer = read_to_close(stream).await;
        assert_eq!(status(&answer), "200");
        assert!(closes(&answer) && answer.ends_with("hello"), "{answer}");
    }
    // An upgraded connection is none of HTTP any more.
    let upgrade =
        "GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n";
    let mut upgraded = server.connect().await;
    upgraded.write_all(upgrade.as_bytes()).await.expect("sent");
    let answer = read_until(&mut upgraded, "\r\n\r\n").await;
    assert!(status(&answer) == "101" && !closes(&answer), "{answer}");
    drop(upgraded);
    let drained = server.stop().await.expect("no panic");
    assert_eq!(drained, Drained { cut: 0 });
}

/// Reads until the server says goodbye.
async fn read_goaway(stream: &mut TcpStream) {
    while let Some((kind, _, _)) = read_frame(stream).await {
        if kind == GOAWAY {
            return;
        }
    }
    panic!("the server closed without a word");
}

#[tokio::test]
async fn a_server_that_leaves_says_goodbye_on_http_2_after_the_first_request() {
    let server = Server::start(limits()).await;
    let mut known = http2::open(&server).await;
    known.write_all(&http2::get(1, "/")).await.expect("sent");
    assert_eq!(read_data(&mut known).await, b"hello");
    // One that has asked nothing yet could not ask at all if it heard it first.
    let mut fresh = http2::open(&server).await;
    server.leave();
    read_goaway(&mut known).await;
    fresh
        .write_all(&http2::get(1, "/gate"))
        .await
        .expect("sent");
    server.reached.notified().await;
    read_goaway(&mut fresh).await;
    server.gate.notify_one();
    assert_eq!(read_data(&mut fresh).await, b"opened");
}

#[tokio::test]
async fn who_waits_to_be_accepted_when_the_server_stops_is_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    // The system takes them: nobody accepts yet.
    let mut waiting = Vec::new();
    for place in 0..100 {
        let mut stream = TcpStream::connect(address).await.expect("a backlog");
        // Every second one has sent nothing when the server stops.
        if place % 2 == 0 {
            stream.write_all(GET).await.expect("sent");
        }
        waiting.push(stream);
    }
    let limits = ServerLimits {
        first_request: Duration::from_secs(20),
        ..limits()
    };
    let server = Server::over(listener, limits);
    let stats = server.stats.clone();
    let stopping = server.stop();
    while stats.accepted.get() < 100 {
        tokio::task::yield_now().await;
    }
    for (place, stream) in waiting.iter_mut().enumerate() {
        if place % 2 == 1 {
            stream.write_all(GET).await.expect("sent");
        }
        let answer = read_to_close(stream).await;
        assert_eq!(status(&answer), "200", "{place}");
        assert!(closes(&answer), "{answer}");
    }
    assert_eq!(stopping.await.expect("no panic"), Drained { cut: 0 });
    TcpStream::connect(address)
        .await
        .expect_err("nobody listens");
}

#[tokio::test]
async fn who_connects_and_asks_nothing_holds_a_stop_up_for_a_moment_alone() {
    let server = Server::start(ServerLimits {
        first_request: Duration::from_millis(50),
        ..limits()
    })
    .await;
    let mut silent = server.connect().await;
    while server.stats.accepted.get() == 0 {
        tokio::task::yield_now().await;
    }
    let drained = server.stop().await.expect("no panic");
    assert_eq!(drained, Drained { cut: 0 });
    assert_eq!(read_to_close(&mut silent).await, "");
}
