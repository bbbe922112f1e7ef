//! The answers as a client reads them from a real socket.

use hyper_kit::{ServerLimits, ServerStats, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// An API that knows no path.
struct Nothing;

impl Application for Nothing {
    async fn call(&self, request: Request<Incoming>, _: ConnectionInfo) -> Response<Body> {
        let mut response = Response::new(Body::full(format!("api: {}", request.uri().path())));
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    }

    fn refuse(&self, refusal: Refusal, _: &str) -> Response<Body> {
        Response::new(Body::full(refusal.message()))
    }
}

/// Asks a server, mounted below `/x` and complaining so, and answers head and body.
async fn ask(complaints: &'static [&'static str], method: &str, path: &str) -> (String, String) {
    let complaints: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    let mut metrics = Metrics::new("easel", "0");
    let requests = HttpMetrics::register(&mut metrics, Arc::new(ServerStats::default()));
    let front = Front {
        api: Nothing,
        mount_path: "/x".to_owned(),
        host_names: HostNames::default(),
        probe: Arc::new(move || {
            let complaints = complaints.clone();
            Box::pin(async move { complaints })
        }),
        metrics: Arc::new(metrics),
        requests,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let stats = Arc::new(ServerStats::default());
    let limits = ServerLimits::default();
    let server = serve(listener, front, limits, stats, std::future::pending());

    let client = async {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        answer
    };
    let answer = tokio::select! {
        _ = server => unreachable!("nobody stops the server"),
        answer = client => answer,
    };
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

#[tokio::test]
async fn health_and_readiness_are_answered_at_the_root_and_below_the_mount() {
    for prefix in ["", "/x"] {
        let (head, body) = ask(&[], "GET", &format!("{prefix}/health")).await;
        assert!(
            head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("x-service-request-id: "),
            "{head}"
        );
        assert_eq!(body, r#"{"status":"ok"}"#);
        let (head, body) = ask(&[], "GET", &format!("{prefix}/ready")).await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert_eq!(body, r#"{"status":"ready","reasons":[]}"#);
    }
}

#[tokio::test]
async fn what_cannot_serve_is_alive_and_says_why_it_is_not_ready() {
    let complaints = &["the disk failed", "the server is shutting down"];
    let (head, body) = ask(complaints, "GET", "/ready").await;
    assert!(
        head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
        "{head}"
    );
    assert_eq!(
        body,
        r#"{"status":"unavailable","reasons":["the disk failed","the server is shutting down"]}"#
    );
    let (head, _) = ask(complaints, "GET", "/health").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
}

#[tokio::test]
async fn metrics_are_text_for_prometheus() {
    let (head, body) = ask(&[], "GET", "/metrics").await;
    assert!(
        head.contains(
            "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"
        ),
        "{head}"
    );
    assert!(
        body.contains("easel_build_info{program=\"easel\",version=\"0\"} 1\n")
            && body.ends_with("# EOF\n"),
        "{body}"
    );
}

#[tokio::test]
async fn head_has_no_body_and_the_rest_is_the_apis() {
    let (head, body) = ask(&[], "HEAD", "/health").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(body, "");
    for (method, path) in [
        ("POST", "/health"),
        ("GET", "/healthy"),
        ("GET", "/x/api"),
        ("GET", "/y/health"),
    ] {
        let (_, body) = ask(&[], method, path).await;
        assert_eq!(body, format!("api: {path}"), "{method}");
    }
}
