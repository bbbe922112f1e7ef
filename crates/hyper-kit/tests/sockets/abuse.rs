//! Clients that are slow, silent, greedy or gone.

use std::time::Duration;

use hyper_kit::ServerLimits;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::harness::{Server, impatient, limits, read_to_close, status};

#[tokio::test]
async fn a_silent_connection_is_closed() {
    let server = Server::start(impatient()).await;
    let mut stream = server.connect().await;
    assert_eq!(read_to_close(&mut stream).await, "");
}

#[tokio::test]
async fn half_a_head_is_closed() {
    let server = Server::start(impatient()).await;
    for start in ["G", "GET / HTTP/1.1\r\nHost: a\r\n", "PRI * HTTP/2.0\r\n"] {
        let answer = server.exchange(start).await;
        assert!(
            ["", "408"].contains(&answer.as_str()) || status(&answer) == "400",
            "{answer}"
        );
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_answer() {
    let server = Server::start(impatient()).await;
    let answer = server.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(answer.ends_with("hello"));
}

#[tokio::test]
async fn a_body_that_stops_coming_is_answered_and_closed() {
    let server = Server::start(limits()).await;
    let request = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf";
    assert_eq!(status(&server.exchange(request).await), "408");
}

#[tokio::test]
async fn a_reader_that_stalls_is_cut() {
    let server = Server::start(impatient()).await;
    let mut stream = server.connect().await;
    let request = "GET /flood HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("sent");
    // Nothing is read until the server has given up: it reports that by closing, which readiness alone does not show.
    let stalled = async {
        while server.stats.write_stalls.get() == 0 || server.stats.open.get() != 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), stalled)
        .await
        .expect("the reader is cut");
    assert_eq!(server.stats.in_flight.get(), 0);
}

#[tokio::test]
async fn a_full_server_closes_the_next_connection_and_has_room_again() {
    let server = Server::start(ServerLimits {
        max_connections: 1,
        ..limits()
    })
    .await;
    let mut first = server.connect().await;
    let request = "GET /gate HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    first.write_all(request.as_bytes()).await.expect("sent");
    server.reached.notified().await;

    assert_eq!(server.exchange("").await, "");
    assert_eq!(server.stats.refused_full.get(), 1);

    server.gate.notify_one();
    assert!(read_to_close(&mut first).await.ends_with("opened"));
    drop(first);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    while status(&server.exchange(request).await) != "200" {}
}

#[tokio::test]
async fn a_handler_is_dropped_when_its_client_leaves() {
    let server = Server::start(limits()).await;
    let mut stream = server.connect().await;
    let request = "GET /forever HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("sent");
    server.reached.notified().await;
    drop(stream);
    let told = timeout(Duration::from_secs(20), server.dropped.notified()).await;
    told.expect("the handler is dropped");
}
