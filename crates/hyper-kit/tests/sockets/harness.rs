//! A server on a free port, with an application whose paths are situations.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_kit::{
    Application, Body, BodyError, BoxError, ConnectionInfo, Drained, Incoming, ReadPace, Refusal,
    ServerLimits, ServerStats, read_limited, serve_and_leave,
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Far longer than any limit of these tests: reached only when the server hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// The longest body that `/echo` takes.
pub(crate) const ECHO_LIMIT: usize = 1000;

/// The length of the body of `/large`: more than any window of these tests.
pub(crate) const LARGE: usize = 100_000;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) stats: Arc<ServerStats>,
    /// Told when `/gate` or `/refuse` has begun to answer, and when `/events` waits to tell its next event.
    pub(crate) reached: Arc<Notify>,
    /// Opens `/gate`, and lets `/events` tell one more.
    pub(crate) gate: Arc<Notify>,
    /// Told when the handler of `/forever` is dropped.
    pub(crate) dropped: Arc<Notify>,
    leave: CancellationToken,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Drained>,
}

pub(crate) struct Situations {
    reached: Arc<Notify>,
    gate: Arc<Notify>,
    dropped: Arc<Notify>,
}

/// Limits that no test meets by being slow on a busy machine.
pub(crate) fn limits() -> ServerLimits {
    ServerLimits {
        header_read_timeout: PATIENCE,
        linger: PATIENCE,
        ..ServerLimits::default()
    }
}

/// Limits that a test meets at once.
pub(crate) fn impatient() -> ServerLimits {
    ServerLimits {
        header_read_timeout: Duration::from_millis(200),
        write_stall: Duration::from_millis(200),
        ..limits()
    }
}

impl Server {
    pub(crate) async fn start(limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self::over(listener, limits)
    }

    /// A server over a socket to which clients may have connected already.
    pub(crate) fn over(listener: TcpListener, limits: ServerLimits) -> Self {
        let address = listener.local_addr().expect("a bound socket");
        let stats = Arc::new(ServerStats::default());
        let (reached, gate, dropped) = (Arc::default(), Arc::default(), Arc::default());
        let situations = Situations {
            reached: Arc::clone(&reached),
            gate: Arc::clone(&gate),
            dropped: Arc::clone(&dropped),
        };
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        let counted = Arc::clone(&stats);
        let leave = CancellationToken::new();
        let leaving = leave.clone().cancelled_owned();
        let served = serve_and_leave(listener, situations, limits, counted, leaving, shutdown);
        let served = tokio::spawn(served);
        Self {
            address,
            stats,
            reached,
            gate,
            dropped,
            leave,
            stop,
            served,
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("a listener")
    }

    /// Sends these bytes on a fresh connection and reads until the server closes it.
    pub(crate) async fn exchange(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.expect("sent");
        read_to_close(&mut stream).await
    }

    /// Has clients go elsewhere from now on.
    pub(crate) fn leave(&self) {
        self.leave.cancel();
    }

    /// Begins the shutdown; the answer is how it ends.
    pub(crate) fn stop(self) -> JoinHandle<Drained> {
        self.stop.send(()).expect("a running server");
        self.served
    }
}

/// Reads until the server closes; a reset counts as closed, because a cut connection may end in one.
pub(crate) async fn read_to_close(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    match read.expect("the server closes the connection") {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    String::from_utf8(bytes).expect("text")
}

/// Reads until the text so far ends with `end`.
pub(crate) async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        let byte = timeout(PATIENCE, stream.read_u8()).await;
        bytes.push(byte.expect("an answer").expect("an open connection"));
    }
    String::from_utf8(bytes).expect("text")
}

pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("no answer")
}

impl Application for Situations {
    async fn call(&self, request: Request<Incoming>, _: ConnectionInfo) -> Response<Body> {
        match request.uri().path() {
            "/" => Response::new(Body::full("hello")),
            "/echo" => echo(request).await,
            "/refuse" => {
                self.reached.notify_one();
                plain(StatusCode::PAYLOAD_TOO_LARGE, "unread")
            }
            "/panic" => panic!("as asked"),
            "/flood" => {
                let chunk = Bytes::from(vec![b'x'; 64 * 1024]);
                let chunks = stream::repeat_with(move || Ok::<_, BoxError>(chunk.clone()));
                Response::new(Body::stream(chunks))
            }
            "/large" => Response::new(Body::full(vec![b'x'; LARGE])),
            "/events" => {
                let (reached, gate) = (Arc::clone(&self.reached), Arc::clone(&self.gate));
                let events = stream::unfold(0, move |told| {
                    let (reached, gate) = (Arc::clone(&reached), Arc::clone(&gate));
                    async move {
                        if told > 0 {
                            reached.notify_one();
                            gate.notified().await;
                        }
                        Some((Ok::<_, BoxError>(Bytes::from_static(b"event")), told + 1))
                    }
                });
                Response::new(Body::stream(events))
            }
            "/gate" => {
                self.reached.notify_one();
                self.gate.notified().await;
                Response::new(Body::full("opened"))
            }
            "/forever" => {
                let _tell = Tell(Arc::clone(&self.dropped));
                self.reached.notify_one();
                std::future::pending().await
            }
            "/upgrade" => {
                tokio::spawn(shout(hyper::upgrade::on(request)));
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                let headers = response.headers_mut();
                headers.insert("connection", HeaderValue::from_static("upgrade"));
                headers.insert("upgrade", HeaderValue::from_static("shout"));
                response
            }
            _ => plain(StatusCode::NOT_FOUND, "no such situation"),
        }
    }

    fn refuse(&self, refusal: Refusal, path: &str) -> Response<Body> {
        plain(refusal.status(), format!("refused {refusal:?} at {path}"))
    }
}

struct Tell(Arc<Notify>);

impl Drop for Tell {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A protocol that gives letters back in upper case, to the end.
async fn shout(upgrade: OnUpgrade) {
    let upgraded = upgrade.await.expect("an upgraded connection");
    let mut stream = TokioIo::new(upgraded);
    while let Ok(byte) = stream.read_u8().await {
        let loud = byte.to_ascii_uppercase();
        stream.write_u8(loud).await.expect("an open connection");
    }
}

async fn echo(request: Request<Incoming>) -> Response<Body> {
    let pace = ReadPace {
        idle: Duration::from_millis(200),
        ..ReadPace::DEFAULT
    };
    match read_limited(request.into_body(), ECHO_LIMIT, pace).await {
        Ok(bytes) => Response::new(Body::full(bytes)),
        Err(BodyError::TooLarge { .. }) => plain(StatusCode::PAYLOAD_TOO_LARGE, "too large"),
        Err(BodyError::Idle) => plain(StatusCode::REQUEST_TIMEOUT, "too slow"),
        Err(BodyError::Broken(_)) => plain(StatusCode::BAD_REQUEST, "broken"),
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    *response.status_mut() = status;
    response
}
