//! The end of a server: what runs finishes, what does not is cut, nothing new begins.

use std::time::Duration;

use hyper_kit::{Drained, ServerLimits};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::{Server, limits, read_to_close, read_until, status};

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
    assert!(answer.ends_with("opened"), "{answer}");
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
