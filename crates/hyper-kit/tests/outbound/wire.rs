//! HTTP/1.1 as servers really speak it: what they say is written out here, byte by byte.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, Response};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use hyper_kit::Body;
use hyper_kit::client::{Client, ClientConfig, FetchError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::harness::config;

/// Serves connections one after the other: each says these answers in turn, one a request, and then closes.
struct Script {
    address: String,
    client: Client,
    /// The requests, head and body as they came, and after those of a connection [`CLOSED`].
    seen: mpsc::UnboundedReceiver<String>,
}

const CLOSED: &str = "closed";

impl Script {
    async fn new(connections: &[&[&str]]) -> Self {
        let owned = |answers: &&[&str]| -> Vec<String> {
            answers.iter().map(|answer| (*answer).to_owned()).collect()
        };
        let connections: Vec<Vec<String>> = connections.iter().map(owned).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let (tell, seen) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for answers in connections {
                let (mut tcp, _) = listener.accept().await.expect("a connection");
                for answer in answers {
                    let Some(request) = request(&mut tcp).await else {
                        break;
                    };
                    // Few tests look.
                    let _ = tell.send(request);
                    tcp.write_all(answer.as_bytes()).await.expect("it is open");
                }
                drop(tcp);
                let _ = tell.send(CLOSED.to_owned());
            }
        });
        Self {
            client: client(&address),
            address,
            seen,
        }
    }

    async fn ask(&self, method: Method) -> Result<Response<Body>, FetchError> {
        let body = match method {
            Method::POST => Body::full("hello"),
            _ => Body::empty(),
        };
        self.send(method, body).await
    }

    async fn send(&self, method: Method, body: Body) -> Result<Response<Body>, FetchError> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}/path?query", self.address))
            .body(body);
        self.client.send(request.expect("a request")).await
    }

    /// What the answer says, or how it broke.
    async fn text(&self, method: Method) -> Result<String, String> {
        let answer = self.ask(method).await.map_err(|error| error.to_string())?;
        let body = answer.into_body().collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        Ok(String::from_utf8(body.to_vec()).expect("text"))
    }
}

fn client(address: &str) -> Client {
    Client::new(config(false, &[address.to_owned()])).expect("a client")
}

/// One request with a body of the announced length, or in chunks.
async fn request(tcp: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1);
            let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
            let is_over = match head.contains("chunked") {
                true => body.ends_with("0\r\n\r\n"),
                false => body.len() >= length.unwrap_or(0),
            };
            if is_over {
                return Some(text.into_owned());
            }
        }
        match tcp.read_u8().await {
            Ok(byte) => bytes.push(byte),
            Err(_) => return None,
        }
    }
}

#[tokio::test]
async fn a_request_is_written_as_it_should_be() {
    let mut script = Script::new(&[&["HTTP/1.1 204 No Content\r\n\r\n"; 4]]).await;
    for method in [Method::POST, Method::GET] {
        script.ask(method).await.expect("an answer");
    }
    script
        .send(Method::POST, Body::empty())
        .await
        .expect("an answer");
    let pieces = ["one", "", "and two"].map(|piece| Ok::<_, FetchError>(Bytes::from(piece)));
    let streamed = Body::stream(stream::iter(pieces));
    script.send(Method::PUT, streamed).await.expect("an answer");
    let host = format!("host: {}", script.address);
    for expected in [
        format!("POST /path?query HTTP/1.1\r\n{host}\r\ncontent-length: 5\r\n\r\nhello"),
        format!("GET /path?query HTTP/1.1\r\n{host}\r\n\r\n"),
        format!("POST /path?query HTTP/1.1\r\n{host}\r\ncontent-length: 0\r\n\r\n"),
        format!(
            "PUT /path?query HTTP/1.1\r\n{host}\r\ntransfer-encoding: chunked\r\n\r\n\
             3\r\none\r\n7\r\nand two\r\n0\r\n\r\n"
        ),
    ] {
        assert_eq!(script.seen.recv().await, Some(expected));
    }
}

/// A body that says that it is as long as this, and is "hello".
struct Liar(u64, Option<Bytes>);

impl http_body::Body for Liar {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.1.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

#[tokio::test]
async fn a_body_of_another_length_than_it_says_breaks_its_connection() {
    for (method, announced) in [
        (Method::GET, 0),
        (Method::POST, 0),
        (Method::POST, 4),
        (Method::POST, 6),
    ] {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none";
        let mut script = Script::new(&[&[answer; 2]]).await;
        assert_eq!(script.text(Method::GET).await.as_deref(), Ok("one"));
        let liar = Liar(announced, Some(Bytes::from("hello")));
        let outcome = script.send(method, Body::new(liar)).await;
        assert!(
            matches!(outcome, Err(FetchError::Broken { .. })),
            "{outcome:?}"
        );
        // Nothing of it was taken for a request.
        let first = script.seen.recv().await;
        assert!(first.is_some_and(|seen| seen.starts_with("GET /path?query")));
        assert_eq!(
            script.seen.recv().await.as_deref(),
            Some(CLOSED),
            "{announced}"
        );
    }
}

#[tokio::test]
async fn an_answer_is_read_however_it_is_framed() {
    let script = Script::new(&[
        &[
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\na: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nth\r\n3\r\nree\r\n0\r\nA: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
        ],
        &["HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold"],
        &["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast"],
    ])
    .await;
    for expected in ["one", "two", "three", "", "until the end", "old", "last"] {
        assert_eq!(script.text(Method::POST).await.as_deref(), Ok(expected));
    }
}

#[tokio::test]
async fn an_answer_to_head_has_no_body_and_keeps_the_connection() {
    let script = Script::new(&[&[
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none",
    ]])
    .await;
    let head = script.ask(Method::HEAD).await.expect("an answer");
    assert_eq!(head.headers()["content-length"], "3");
    assert_eq!(script.text(Method::GET).await.as_deref(), Ok("one"));
}

#[tokio::test]
async fn what_was_not_asked_for_answers_no_other_request() {
    let script = Script::new(&[
        &["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\noneHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfake"],
        &["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo"],
    ])
    .await;
    for expected in ["one", "two"] {
        assert_eq!(script.text(Method::GET).await.as_deref(), Ok(expected));
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_not_used_again() {
    let mut script = Script::new(&[
        &["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none"],
        &["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo"],
    ])
    .await;
    assert_eq!(script.text(Method::GET).await.as_deref(), Ok("one"));
    while script.seen.recv().await.as_deref() != Some(CLOSED) {}
    assert_eq!(script.text(Method::GET).await.as_deref(), Ok("two"));
}

/// The runtime has no turn between the close and the next request, so that only the kernel knows of it.
#[tokio::test]
async fn a_server_that_closes_after_every_answer_loses_no_request() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let (close, may_close) = std::sync::mpsc::channel();
    let (tell, closed) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        for tcp in listener.incoming().take(100) {
            let mut tcp = tcp.expect("a connection");
            let mut head = [0; 1024];
            let length = tcp.read(&mut head).expect("a request");
            assert!(head[..length].ends_with(b"\r\n\r\n"));
            tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none")
                .expect("it is open");
            may_close.recv().expect("the test goes on");
            drop(tcp);
            tell.send(()).expect("the test waits");
        }
    });
    let client = client(&address);
    for n in 0..100 {
        let asked = Request::get(format!("http://{address}/")).body(Body::empty());
        let answer = client.send(asked.expect("a request")).await;
        let body = answer.unwrap_or_else(|error| panic!("request {n}: {error}"));
        body.into_body().collect().await.expect("a body");
        close.send(()).expect("the server goes on");
        closed.recv().expect("the server goes on");
    }
    server.join().expect("every request had a connection");
}

#[tokio::test]
async fn half_an_answer_is_none() {
    for (answer, cause) in [
        ("", "closed before the answer"),
        ("HTTP/1.1 200 OK\r\nContent-Le", "closed before the answer"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
            "closed within the answer",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
            "closed within the answer",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhalf",
            "malformed chunk",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "about its length",
        ),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "malformed head"),
        ("220 mail.example ESMTP\r\n", "something else than HTTP/1"),
        ("HTTP/1.1 200 OK\r\nbad header\r\n\r\n", "malformed head"),
    ] {
        let script = Script::new(&[&[answer]]).await;
        let text = script.text(Method::POST).await;
        assert!(
            text.as_ref().is_err_and(|error| error.contains(cause)),
            "{answer:?}: {text:?}"
        );
    }
}

/// Eight megabytes are more than the sockets between them hold.
#[tokio::test]
async fn an_answer_before_the_end_of_the_request_is_heard() {
    for closes in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let server = tokio::spawn(async move {
            let (mut tcp, _) = listener.accept().await.expect("a connection");
            let mut begin = [0; 1024];
            tcp.read_exact(&mut begin).await.expect("its beginning");
            let answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!";
            tcp.write_all(answer).await.expect("it is open");
            if closes {
                tcp.shutdown().await.expect("it is open");
            }
            tcp
        });
        let body = Body::full(vec![b'x'; 8 << 20]);
        let request = Request::post(format!("http://{address}/")).body(body);
        let answer = client(&address).send(request.expect("a request")).await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), 413);
        let text = answer
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        assert_eq!(text, "no!");
        // Nothing more comes over a connection that is in the middle of a request.
        let mut tcp = server.await.expect("it served");
        let mut rest = Vec::new();
        let _reset = tcp.read_to_end(&mut rest).await;
        assert!(rest.len() < 8 << 20);
    }
}

#[tokio::test]
async fn a_request_that_is_given_up_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let client = client(&address);
    let request = Request::get(format!("http://{address}/")).body(Body::empty());
    let asked = tokio::spawn(async move { client.send(request.expect("a request")).await });
    let (mut tcp, _) = listener.accept().await.expect("a connection");
    let mut head = [0; 16];
    tcp.read_exact(&mut head).await.expect("a request");
    asked.abort();
    let mut rest = Vec::new();
    tcp.read_to_end(&mut rest).await.expect("its end");
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_kept_for_its_time_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let client = Client::new(ClientConfig {
        idle_timeout: Duration::from_secs(5),
        ..config(false, std::slice::from_ref(&address))
    })
    .expect("a client");
    let server = tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.expect("a connection");
        request(&mut tcp).await.expect("a request");
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none";
        tcp.write_all(answer).await.expect("it is open");
        let mut rest = Vec::new();
        // The clock runs on by itself while everybody waits.
        tcp.read_to_end(&mut rest).await.expect("its end");
    });
    let asked = Request::get(format!("http://{address}/")).body(Body::empty());
    let answer = client
        .send(asked.expect("a request"))
        .await
        .expect("an answer");
    answer.into_body().collect().await.expect("a body");
    server.await.expect("the connection was let go");
    drop(client);
}
