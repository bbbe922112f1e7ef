//! The answers as a client reads them from a real socket.

use accounts::{AccountAdmin, AccountId, ApiKey, MemoryAccounts, MintedKey, Scopes, ensure_local};
use hyper_kit::{ServerLimits, ServerStats, serve};
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::admin::AdminPorts;

const TOKEN: &str = "the-token-of-the-installation";

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

const HOME_ENTRIES: &[HomeEntry] = &[HomeEntry {
    path: "/api",
    what: "an API",
    document: Some("/api/openapi.json"),
}];

/// An API below `/x` that complains so.
fn front(complaints: &'static [&'static str], accounts: Arc<MemoryAccounts>) -> Front<Nothing> {
    let complaints: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    let mut metrics = Metrics::new("easel", "0");
    let requests = HttpMetrics::register(&mut metrics, Arc::new(ServerStats::default()));
    let token: SecretString = TOKEN.into();
    let identity = Identity::token(accounts.clone(), AccountId::local(), &token);
    let ports = AdminPorts {
        accounts: accounts.clone(),
        admin: accounts,
        records: None,
        sweeps: Arc::new(asset_store::MemoryRecords::new()),
        catalog: None,
        webhooks: crate::admin::tests::webhook_admin(),
        settings: None,
        workers: None,
        jobs: None,
        deployments: None,
        models: None,
    };
    let admin = AdminApi::new("/x", Arc::new(ports), identity.clone(), requests.observer());
    Front {
        refuses: None,
        admin: admin.expect("a mount path"),
        api: Nothing,
        endpoints: Endpoints {
            mount_path: "/x".to_owned(),
            host_names: HostNames::default(),
            probe: Arc::new(move || {
                let complaints = complaints.clone();
                Box::pin(async move { complaints })
            }),
            home: Some(Home::new("A server of a test.", HOME_ENTRIES, "/x")),
            metrics: Arc::new(metrics),
            notes: Notes::default(),
            requests,
        },
        identity,
    }
}

/// Asks a server, mounted below `/x` and complaining so, and answers head and body.
async fn ask(complaints: &'static [&'static str], method: &str, path: &str) -> (String, String) {
    let front = front(complaints, Arc::new(MemoryAccounts::new()));
    ask_of(front, method, path, "").await
}

/// The same of this server, with further headers.
async fn ask_of(
    front: Front<Nothing>,
    method: &str,
    path: &str,
    headers: &str,
) -> (String, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let stats = Arc::new(ServerStats::default());
    let limits = ServerLimits::default();
    let server = serve(listener, front, limits, stats, std::future::pending());

    let client = async {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n"
        );
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
async fn a_server_without_an_api_answers_for_itself_alone() {
    let front = || Front {
        refuses: Some("ask another server"),
        ..front(&[], Arc::new(MemoryAccounts::new()))
    };
    for path in ["/health", "/x/ready", "/metrics"] {
        let (head, _) = ask_of(front(), "GET", path, "").await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {head}");
    }
    for path in ["/anything", "/x/admin/v1/accounts"] {
        let (head, body) = ask_of(front(), "GET", path, "").await;
        assert!(head.starts_with("HTTP/1.1 421 "), "{path}: {head}");
        assert_eq!(
            body,
            r#"{"status":"refused","reasons":["ask another server"]}"#
        );
    }
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
    assert!(head.contains("content-length: 15\r\n"), "{head}");
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

/// The status of a question that came to an address of this server, and the text of the answer.
async fn status(
    front: &Front<Nothing>,
    question: Question,
    local: &str,
    headers: &[(&str, &str)],
) -> (u16, String) {
    let mut request = Request::get("/asked");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (head, ()) = request.body(()).expect("a request").into_parts();
    let connection = ConnectionInfo {
        peer: "198.51.100.7:5000".parse().expect("an address"),
        local: local.parse().expect("an address"),
    };
    let response = front.tell(question, head, connection).await;
    let status = response.status().as_u16();
    assert_eq!(
        response.headers().contains_key(WWW_AUTHENTICATE),
        status == 401
    );
    let body = hyper_kit::read_limited(response.into_body(), 1 << 20, hyper_kit::ReadPace::DEFAULT);
    let body = body.await.expect("a body");
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

#[tokio::test]
async fn metrics_over_a_network_need_a_credential_of_operators() {
    const NETWORK: &str = "192.0.2.1:8189";
    let accounts = Arc::new(MemoryAccounts::new());
    let now = Timestamp::now();
    ensure_local(accounts.as_ref(), now)
        .await
        .expect("an account");
    let mut keys = Vec::new();
    for (n, scopes) in [(1, Scopes::all()), (2, Scopes::standard())] {
        let minted = MintedKey::new(&[n; MintedKey::RANDOM_BYTES]);
        let key = ApiKey {
            id: minted.id.clone(),
            account: AccountId::local(),
            name: (&AccountId::local()).into(),
            scopes,
            created_at: now,
            expires_at: None,
            revoked_at: None,
        };
        let added = accounts.add_key(key, minted.hash()).await;
        added.expect("a key");
        keys.push(format!("Bearer {}", minted.text.expose_secret()));
    }
    let front = front(&[], accounts);
    let token = format!("Bearer {TOKEN}");
    for (credential, expected) in [
        (None, 401),
        (Some("Bearer wrong"), 401),
        (Some(keys[1].as_str()), 403),
        (Some(keys[0].as_str()), 200),
        (Some(token.as_str()), 200),
    ] {
        let header = credential.map(|credential| ("authorization", credential));
        let headers: Vec<(&str, &str)> = header.into_iter().collect();
        let (given, text) = status(&front, Question::Metrics, NETWORK, &headers).await;
        assert_eq!(given, expected, "{credential:?}: {text}");
        assert_eq!(text.contains("easel_build_info"), expected == 200);
        assert_eq!(text.contains("metrics_listen"), expected != 200, "{text}");
        // Orchestrators have none.
        for question in [Question::Health, Question::Ready] {
            let (given, _) = status(&front, question, NETWORK, &headers).await;
            assert_eq!(given, 200);
        }
    }
}

#[tokio::test]
async fn what_is_asked_on_this_machine_goes_by_the_host_name() {
    let front = front(&[], Arc::new(MemoryAccounts::new()));
    for local in ["127.0.0.1:8189", "[::1]:8189", "[::ffff:127.0.0.1]:8189"] {
        for (host, known) in [("localhost:8189", true), ("rebound.example", false)] {
            for question in [Question::Metrics, Question::Health, Question::Ready] {
                let (_, text) = status(&front, question, local, &[("host", host)]).await;
                let is_refused = text == Refusal::UnknownHost.message();
                assert_eq!(is_refused, !known, "{local} {host} {question:?}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn the_root_says_what_this_is_to_a_terminal() {
    for path in ["/", "/x", "/x/"] {
        let (head, body) = ask(&[], "GET", path).await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(
            head.contains("content-type: text/plain; charset=utf-8\r\n"),
            "{head}"
        );
        for word in [
            "A server of a test.",
            "/x/api ",
            "/x/api/openapi.json",
            "/x/ready",
        ] {
            assert!(body.contains(word), "{word} in {body}");
        }
    }
    let (head, body) = ask(&[], "HEAD", "/").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(body, "");
}

#[tokio::test]
async fn the_root_is_a_page_for_browsers_and_json_for_programs() {
    let asked = |accept: &'static str| async move {
        let front = front(&[], Arc::new(MemoryAccounts::new()));
        ask_of(front, "GET", "/", accept).await
    };
    let (head, body) = asked("Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n").await;
    for line in [
        "content-type: text/html; charset=utf-8\r\n",
        "content-security-policy: default-src 'none'; style-src 'sha256-",
        "x-content-type-options: nosniff\r\n",
        "x-frame-options: DENY\r\n",
        "referrer-policy: no-referrer\r\n",
        "vary: accept\r\n",
    ] {
        assert!(head.contains(line), "{line} in {head}");
    }
    assert!(body.contains("<a href=\"/x/api/openapi.json\">"), "{body}");
    for foreign in [
        "http://", "https://", "//", "<script", "src=", "{{", "@import", "url(",
    ] {
        assert!(!body.contains(foreign), "{foreign} in {body}");
    }

    let (head, body) = asked("Accept: application/json\r\n").await;
    assert!(
        head.contains("content-type: application/json\r\n"),
        "{head}"
    );
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(body["apis"][0]["document"], "/x/api/openapi.json");
    assert_eq!(body["ready"], "/x/ready");
}

#[tokio::test]
async fn a_server_with_a_page_of_its_own_keeps_its_root() {
    let mut front = front(&[], Arc::new(MemoryAccounts::new()));
    front.endpoints.home = None;
    let (_, body) = ask_of(front, "GET", "/", "").await;
    assert_eq!(body, "api: /");
}
