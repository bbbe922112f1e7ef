//! What the root of each program answers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use it::{Answer, Launch, Request, Server};
use sha2::{Digest, Sha256};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// The programs, and a path that each must name.
const PROGRAMS: [(&str, &[&str]); 3] = [
    (
        "all-in-one",
        &[
            "/api/v2/openapi.json",
            "/api/openapi.json",
            "/v1/openapi.json",
        ],
    ),
    (
        "workflow-server",
        &["/api/v2/openapi.json", "/api/openapi.json"],
    ),
    ("router-server", &["/v1/openapi.json"]),
];

async fn root(server: &Server, accept: &str) -> Answer {
    let request = Request::get("/").header("Accept", accept);
    let answer = server.send(&request).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// What a browser shows that opens the address of a server for the first time.
pub(super) async fn first_visit(server: &Server) -> Answer {
    let visit = |target: &str| Request::get(target).header("Accept", BROWSER);
    let first = server.send(&visit("/")).await.unwrap();
    assert_eq!(first.status, 302, "{}", first.text());
    let target = first.header("Location").unwrap();
    let answer = server.send(&visit(target)).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// The document that every program has.
const ADMIN: &str = "/api/v2/admin/openapi.json";

/// What stands between two texts, every time.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    let parts = text.split(start).skip(1);
    parts
        .filter_map(|part| Some(part.split_once(end)?.0))
        .collect()
}

#[tokio::test]
async fn every_program_says_what_it_is_and_every_link_works() {
    for (program, documents) in PROGRAMS {
        let data = tempfile::tempdir().unwrap();
        let server = Server::launch(data.path(), &Launch::of(program))
            .await
            .unwrap();
        let page = root(&server, BROWSER).await;
        let html = page.text();
        let links = between(&html, "href=\"", "\"");
        for path in documents.iter().chain(&[ADMIN, "/health", "/ready"]) {
            assert!(links.contains(path), "{path} of {program} in {links:?}");
        }
        for path in links {
            let answer = server.send(&Request::get(path)).await.unwrap();
            assert_eq!(answer.status, 200, "{program} {path}: {}", answer.text());
        }
        // The policy allows this very style, and nothing else.
        let [style] = between(&html, "<style>", "</style>")[..] else {
            panic!("one style in {html}");
        };
        let hash = STANDARD.encode(Sha256::digest(style));
        let policy = page.header("content-security-policy").unwrap();
        assert!(
            policy.contains(&format!("style-src 'sha256-{hash}'")),
            "{policy}; the hash is {hash}"
        );

        let text = root(&server, "*/*").await;
        assert_eq!(
            text.header("content-type"),
            Some("text/plain; charset=utf-8")
        );
        let listing = root(&server, "application/json").await.json();
        for path in documents.iter().chain(&[ADMIN]) {
            assert!(text.text().contains(path), "{path} in {}", text.text());
            assert!(listing.to_string().contains(path), "{path} in {listing:#}");
        }
    }
}

#[tokio::test]
async fn a_web_page_keeps_the_root() {
    let data = tempfile::tempdir().unwrap();
    let web = data.path().join("web");
    std::fs::create_dir(&web).unwrap();
    std::fs::write(web.join("index.html"), "<p>the page</p>").unwrap();
    let flags = ["--web-root", web.to_str().unwrap()];
    let server = Server::start_with(&data.path().join("data"), flags).await;
    let answer = first_visit(&server.unwrap()).await;
    assert_eq!(answer.text(), "<p>the page</p>");
}
