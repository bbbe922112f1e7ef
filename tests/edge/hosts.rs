//! A web page whose own name resolves to this machine reads nothing of a server that asks for no credential.

use std::ffi::OsString;

use it::{Answer, Form, Launch, Request, Server};
use serde_json::Value;

/// A name that a page on the internet might have.
const REBOUND: &str = "rebound.example";

/// A route of every family, and a member of the error body that its envelope has.
const ROUTES: &[(&str, &str, &str)] = &[
    ("GET", "/", "/code"),
    ("GET", "/index.html", "/code"),
    ("GET", "/assets/app.js", "/code"),
    ("GET", "/signin", "/code"),
    ("GET", "/health", "/code"),
    ("GET", "/ready", "/code"),
    ("GET", "/metrics", "/code"),
    ("GET", "/ws", "/code"),
    ("GET", "/api/queue", "/code"),
    ("GET", "/object_info", "/code"),
    ("POST", "/api/prompt", "/code"),
    ("GET", "/api/openapi.json", "/code"),
    ("GET", "/no/such/path", "/code"),
    ("GET", "/api/v2/jobs", "/error/code"),
    ("POST", "/api/v2/jobs", "/error/code"),
    ("GET", "/api/v2/openapi.json", "/error/code"),
    ("GET", "/api/v2/nothing", "/error/code"),
    ("OPTIONS", "/api/v2/jobs", "/error/code"),
    ("GET", "/v1/models", "/error_type"),
    ("GET", "/v1/openapi.json", "/error_type"),
    ("POST", "/v1/models/a/b", "/error_type"),
    ("GET", "/v2/models", "/error_type"),
];

async fn ask(server: &Server, method: &str, path: &str, host: &str) -> Answer {
    let request = Request::new(method, path).header("Host", host);
    server.send(&request).await.unwrap()
}

fn is_refused(answer: &Answer, member: &str) -> bool {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let code = body.pointer(member).and_then(Value::as_str);
    answer.status == 403
        && code.is_some_and(|code| code.eq_ignore_ascii_case("forbidden"))
        && answer.text().contains("allowed_hosts")
}

async fn open(data: &tempfile::TempDir, more: &[&str]) -> Server {
    let page = data.path().join("page");
    std::fs::create_dir_all(page.join("assets")).unwrap();
    std::fs::write(page.join("index.html"), "<p>page").unwrap();
    std::fs::write(page.join("assets/app.js"), "1").unwrap();
    let mut arguments = vec![OsString::from("--web-root"), page.into()];
    arguments.extend(more.iter().map(OsString::from));
    let store = data.path().join("data");
    Server::start_with(&store, arguments).await.unwrap()
}

#[tokio::test]
async fn an_unknown_host_name_is_refused_on_every_route() {
    let data = tempfile::tempdir().unwrap();
    let server = open(&data, &[]).await;
    let port = server.address.port();
    let form = Form::new()
        .field("content_type", "text/plain")
        .field("file_path", "a.txt")
        .file("file", "a.txt", b"content");
    let upload = Request::new("POST", "/api/v2/assets")
        .header("Content-Type", &Form::content_type())
        .body(form.body());
    let asset = server.send(&upload).await.unwrap();
    let link = asset.json()["url"].as_str().unwrap().to_owned();
    let path = link.split_once("://").unwrap().1;
    let signed = &path[path.find('/').unwrap()..];
    assert!(signed.starts_with("/signed/"), "{link}");

    let routes = ROUTES
        .iter()
        .copied()
        .chain([("GET", signed, "/error/code")]);
    for (method, path, member) in routes {
        for host in [REBOUND.to_owned(), format!("{REBOUND}:{port}")] {
            let answer = ask(&server, method, path, &host).await;
            assert!(
                is_refused(&answer, member),
                "{method} {path} {host}: {} {}",
                answer.status,
                answer.text()
            );
        }
        // In the form that proxies use, the target names the host.
        let target = format!("http://{REBOUND}{path}");
        let answer = ask(&server, method, &target, "localhost").await;
        assert!(is_refused(&answer, member), "{method} {target}");
        for host in [
            "localhost",
            "app.localhost:9",
            "127.0.0.1",
            "[::1]:8189",
            "192.0.2.7",
        ] {
            let answer = ask(&server, method, path, host).await;
            assert!(
                !is_refused(&answer, member),
                "{method} {path} {host}: {}",
                answer.text()
            );
        }
    }
}

#[tokio::test]
async fn names_that_the_operator_gave_are_answered() {
    let data = tempfile::tempdir().unwrap();
    let more = [
        "--allowed-hosts",
        "gpu-box,Easel.Test",
        "--allowed-origins",
        "https://pages.example",
    ];
    let server = open(&data, &more).await;
    for host in ["gpu-box:81", "easel.test", "pages.example"] {
        for path in ["/", "/metrics", "/api/queue", "/api/v2/jobs", "/ready"] {
            let answer = ask(&server, "GET", path, host).await;
            assert_eq!(answer.status, 200, "{host} {path}: {}", answer.text());
        }
    }
    let answer = ask(&server, "GET", "/api/queue", "other.example").await;
    assert_eq!(answer.status, 403);
}

#[tokio::test]
async fn where_credentials_are_asked_only_what_needs_none_goes_by_the_name() {
    let data = tempfile::tempdir().unwrap();
    let token = "the-token-of-this-test";
    for (package, path) in [
        ("all-in-one", "/api/v2/jobs"),
        ("router-server", "/v1/models"),
    ] {
        let launch = Launch {
            arguments: vec!["--token".into(), token.into()],
            ..Launch::of(package)
        };
        let store = data.path().join(package);
        let server = Server::launch(&store, &launch).await.unwrap();
        let request = Request::get(path)
            .header("Host", REBOUND)
            .header("Authorization", &format!("Bearer {token}"));
        assert_eq!(
            server.send(&request).await.unwrap().status,
            200,
            "{package}"
        );
        for path in ["/metrics", "/health", "/ready"] {
            assert_eq!(ask(&server, "GET", path, REBOUND).await.status, 403);
            assert_eq!(ask(&server, "GET", path, "localhost").await.status, 200);
        }
    }
}
