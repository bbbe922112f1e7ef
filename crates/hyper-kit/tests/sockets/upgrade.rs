//! Connections that go over to another protocol: they keep their place, and outlive the drain.

use std::time::Duration;

use hyper_kit::{Drained, ServerLimits};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::{Server, limits, read_to_close, read_until, status};

async fn upgraded(server: &Server) -> TcpStream {
    let mut stream = server.connect().await;
    let request =
        "GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("sent");
    let head = read_until(&mut stream, "\r\n\r\n").await;
    assert_eq!(status(&head), "101");
    stream
}

#[tokio::test]
async fn an_upgraded_connection_speaks_its_own_protocol() {
    let server = Server::start(limits()).await;
    let mut stream = upgraded(&server).await;
    // What would be a doubtful head of HTTP/1.
    stream
        .write_all(b"get / http/1.1\nhost: a\n\n")
        .await
        .expect("sent");
    read_until(&mut stream, "HOST: A\n\n").await;
    assert_eq!(server.stats.refused_requests.get(), 0);
}

#[tokio::test]
async fn an_upgraded_connection_keeps_its_place() {
    let server = Server::start(ServerLimits {
        max_connections: 1,
        ..limits()
    })
    .await;
    let stream = upgraded(&server).await;
    assert_eq!(server.exchange("").await, "");
    assert_eq!(server.stats.refused_full.get(), 1);
    drop(stream);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    while status(&server.exchange(request).await) != "200" {}
}

#[tokio::test]
async fn a_drain_leaves_upgraded_connections_to_their_owner() {
    let server = Server::start(ServerLimits {
        grace: Duration::from_secs(20),
        ..limits()
    })
    .await;
    let mut stream = upgraded(&server).await;
    let drained = server.stop().await.expect("no panic");
    assert_eq!(drained, Drained { cut: 0 });
    stream.write_all(b"on").await.expect("sent");
    read_until(&mut stream, "ON").await;
    stream.shutdown().await.expect("closed");
    assert_eq!(read_to_close(&mut stream).await, "");
}
