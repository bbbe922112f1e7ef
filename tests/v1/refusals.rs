//! What is refused, and in which words: recorded submissions, credentials, other accounts, other origins.

use it::{Request, Server, Socket, goldens};
use serde_json::{Value, json};

use super::{post, slow_graph, submit, tiny_graph};

const TOKEN: [&str; 2] = ["--token", "s3cret-of-a-test"];

/// Kinds that are newer than the recording.
fn renamed(kind: &str) -> &str {
    match kind {
        "invalid_prompt" => "missing_node_type",
        kind => kind,
    }
}

/// The errors of a body: node, kind, input.
fn errors(body: &Value) -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    for (node, errors) in body["node_errors"].as_object().into_iter().flatten() {
        for error in errors["errors"].as_array().into_iter().flatten() {
            let kind = error["type"].as_str().unwrap().to_owned();
            found.push((
                node.clone(),
                kind,
                error["extra_info"]["input_name"].clone(),
            ));
        }
    }
    found
}

#[tokio::test]
async fn recorded_submissions_are_refused_as_recorded() {
    let Some(folder) = goldens("recorded_submissions_are_refused_as_recorded") else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let photo = std::fs::read(folder.join("invert/gold_photo.png"))
        .or_else(|_| std::fs::read(folder.join("load_photo_png/gold_photo.png")))
        .unwrap_or_else(|_| super::photo());
    super::upload(&server, "gold_photo.png", &photo).await;
    let mut cases: Vec<_> = std::fs::read_dir(folder.join("invalid"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    cases.sort_by_key(std::fs::DirEntry::file_name);
    for case in cases {
        let name = case.file_name().into_string().unwrap();
        let recorded: Value =
            serde_json::from_slice(&std::fs::read(case.path().join("response.json")).unwrap())
                .unwrap();
        let body = match name.as_str() {
            "raw_empty_body" => String::new(),
            "raw_not_json" => "{not json".to_owned(),
            "raw_no_prompt" => "{}".to_owned(),
            "raw_prompt_not_object" => json!({"prompt": "x"}).to_string(),
            "raw_ui_format" => {
                json!({"prompt": {"nodes": [], "links": [], "version": 0.4}}).to_string()
            }
            _ => {
                let graph = std::fs::read_to_string(case.path().join("workflow.json")).unwrap();
                format!("{{\"prompt\": {graph}}}")
            }
        };
        let request = Request::new("POST", "/prompt").header("Content-Type", "application/json");
        let answer = server.send(&request.body(body)).await.unwrap();
        let ours = answer.json();
        let kind = ours["error"]["type"].as_str().unwrap_or_default();
        // Where the recording aborts, answers 500, or lets through what cannot run, ours says what is wrong.
        match name.as_str() {
            "raw_empty_body" | "raw_not_json" => {
                assert_eq!((answer.status, kind), (400, "invalid_json"), "{name}");
                continue;
            }
            "raw_prompt_not_object" => {
                assert_eq!((answer.status, kind), (400, "invalid_prompt"), "{name}");
                continue;
            }
            "cycle" => {
                let found = errors(&ours);
                assert!(
                    found.iter().all(|(_, kind, _)| kind == "dependency_cycle"),
                    "{found:?}"
                );
                assert_eq!(found.len(), 2, "{name}");
                continue;
            }
            "image_literal_instead_of_link" => {
                let expected = (
                    "1".to_owned(),
                    "invalid_input_type".to_owned(),
                    json!("images"),
                );
                assert_eq!(
                    (answer.status, errors(&ours)),
                    (400, vec![expected]),
                    "{name}"
                );
                continue;
            }
            _ => {}
        }
        assert_eq!(json!(answer.status), recorded["status"], "{name}: {ours}");
        let theirs = &recorded["body"];
        assert_eq!(
            kind,
            renamed(theirs["error"]["type"].as_str().unwrap_or_default()),
            "{name}"
        );
        if !errors(theirs).is_empty() {
            assert_eq!(errors(&ours), errors(theirs), "{name}");
            assert_eq!(
                ours["error"]["details"], theirs["error"]["details"],
                "{name}"
            );
            assert_eq!(dependents(&ours), dependents(theirs), "{name}");
        }
        let text = ours.to_string();
        assert!(
            !text.contains("traceback") && !text.contains(".py"),
            "{name}"
        );
    }
}

fn dependents(body: &Value) -> Vec<Value> {
    let nodes = body["node_errors"].as_object().unwrap();
    nodes
        .values()
        .map(|node| node["dependent_outputs"].clone())
        .collect()
}

#[tokio::test]
async fn credentials_are_read_from_every_place_and_nowhere_else() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), TOKEN).await.unwrap();
    let none = server.send(&Request::get("/api/queue")).await.unwrap();
    assert_eq!(
        (none.status, &none.json()["code"]),
        (401, &json!("UNAUTHORIZED"))
    );
    let submission = post(&server, "/api/prompt", &json!({"prompt": tiny_graph(1)})).await;
    assert_eq!(
        (submission.status, &submission.json()["code"]),
        (401, &json!("UNAUTHORIZED"))
    );
    for (name, value) in [
        ("X-API-Key", TOKEN[1].to_owned()),
        ("Authorization", format!("Bearer {}", TOKEN[1])),
    ] {
        let request = Request::get("/queue").header(name, &value);
        assert_eq!(server.send(&request).await.unwrap().status, 200, "{name}");
        let wrong = Request::get("/queue").header(name, &format!("{value}x"));
        assert_eq!(server.send(&wrong).await.unwrap().status, 401, "{name}");
    }
    let in_query = Request::get(&format!("/queue?token={}", TOKEN[1]));
    assert_eq!(
        server.send(&in_query).await.unwrap().status,
        401,
        "for sockets alone"
    );
    for public in [
        "/api/features",
        "/api/system_stats",
        "/api/workflow_templates",
        "/api/global_subgraphs",
        "/api/experiment/models",
        "/api/node_replacements",
        "/api/openapi.json",
    ] {
        assert_eq!(
            server.send(&Request::get(public)).await.unwrap().status,
            200,
            "{public}"
        );
    }

    let socket = |target: String| Socket::open(server.address, Request::get(&target));
    let refused = socket("/ws?clientId=c".to_owned()).await.unwrap_err();
    assert_eq!(refused.to_string(), "401");
    let refused = socket("/ws?token=wrong".to_owned()).await.unwrap_err();
    assert_eq!(refused.to_string(), "401");
    let mut open = socket(format!("/ws?clientId=c&token={}", TOKEN[1]))
        .await
        .unwrap();
    assert_eq!(open.next().await.unwrap().data()["sid"], "c");
}

#[tokio::test]
async fn a_cookie_stands_for_the_key_that_was_shown_once() {
    let data = tempfile::tempdir().unwrap();
    let page = tempfile::tempdir().unwrap();
    std::fs::write(page.path().join("index.html"), "<p>page").unwrap();
    let root = page.path().to_str().unwrap().to_owned();
    let arguments = [
        TOKEN[0].to_owned(),
        TOKEN[1].to_owned(),
        "--web-root".to_owned(),
        root,
    ];
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let front = server.send(&Request::get("/")).await.unwrap();
    assert_eq!(
        (front.status, front.header("location")),
        (302, Some("/signin"))
    );
    let signin = server.send(&Request::get("/signin")).await.unwrap();
    assert!(signin.status == 200 && signin.text().contains("API key"));

    let wrong = post(&server, "/api/session", &json!({"key": "wrong"})).await;
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
    let right = post(&server, "/api/session", &json!({"key": TOKEN[1]})).await;
    assert_eq!(right.status, 204);
    let cookie = right.header("set-cookie").unwrap();
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(!cookie.contains(TOKEN[1]));
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let with = |request: Request| request.header("Cookie", &cookie);
    let page = server.send(&with(Request::get("/"))).await.unwrap();
    assert_eq!((page.status, page.text()), (200, "<p>page".to_owned()));
    assert_eq!(
        server
            .send(&with(Request::get("/api/queue")))
            .await
            .unwrap()
            .status,
        200
    );
    let mut socket = Socket::open(server.address, with(Request::get("/ws")))
        .await
        .unwrap();
    assert_eq!(socket.next().await.unwrap().kind(), "status");
    let out = with(Request::new("DELETE", "/api/session"));
    assert_eq!(server.send(&out).await.unwrap().status, 204);
    assert_eq!(
        server
            .send(&with(Request::get("/api/queue")))
            .await
            .unwrap()
            .status,
        401
    );

    let mut refused = 0;
    for _ in 0..12 {
        let answer = post(&server, "/api/session", &json!({"key": "wrong"})).await;
        refused += usize::from(answer.status == 429);
    }
    assert!(refused >= 2, "attempts are counted");
}

#[tokio::test]
async fn pages_of_other_origins_change_and_hear_nothing() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let foreign = |request: Request| request.header("Origin", "http://evil.example");
    let body = json!({"prompt": tiny_graph(1)});
    let answer = server
        .send(&foreign(Request::post_json("/api/prompt", &body)))
        .await
        .unwrap();
    assert_eq!(answer.status, 403);
    let refused = Socket::open(server.address, foreign(Request::get("/ws")))
        .await
        .unwrap_err();
    assert_eq!(refused.to_string(), "403");
    let own = format!("http://{}", server.address);
    let mut socket = Socket::open(server.address, Request::get("/ws").header("Origin", &own))
        .await
        .unwrap();
    assert_eq!(socket.next().await.unwrap().kind(), "status");
}

#[tokio::test]
async fn what_is_not_there_reads_the_same_whatever_it_is() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let unknown = "9c0e6f4a-0000-4000-8000-000000000009";
    let mut bodies = Vec::new();
    for target in [
        format!("/api/job/{unknown}/status"),
        format!("/api/jobs/{unknown}"),
        format!("/api/history_v2/{unknown}"),
        "/api/jobs/no-id".to_owned(),
        "/api/view?filename=x.png".to_owned(),
        "/api/nothing".to_owned(),
        "/nothing/at/all".to_owned(),
    ] {
        let answer = server.send(&Request::get(&target)).await.unwrap();
        assert_eq!(answer.status, 404, "{target}");
        bodies.push(answer.body);
    }
    assert!(bodies.windows(2).all(|two| two[0] == two[1]));
    for target in [
        format!("/api/jobs/{unknown}/cancel"),
        "/api/interrupt".to_owned(),
    ] {
        let answer = post(&server, &target, &json!({"prompt_id": unknown})).await;
        assert_eq!((answer.status, &answer.body), (404, &bodies[0]), "{target}");
    }
    let answer = server
        .send(&Request::new("PUT", "/api/prompt"))
        .await
        .unwrap();
    assert_eq!(
        (answer.status, answer.header("allow").is_some()),
        (405, true)
    );
    // The other family keeps its own words.
    let v2 = server.send(&Request::get("/api/v2/nothing")).await.unwrap();
    assert_eq!(v2.error_code(), "not_found");
}

#[tokio::test]
async fn a_full_queue_says_when_to_come_back() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(
        data.path(),
        ["--job-slots", "1", "--queue-per-account", "1"],
    )
    .await
    .unwrap();
    let slow = slow_graph();
    let mut socket = super::listen(&server).await;
    submit(&server, &slow).await;
    socket
        .until(|message| message.kind() == "execution_start")
        .await
        .unwrap();
    submit(&server, &tiny_graph(1)).await;
    let full = post(&server, "/api/prompt", &json!({"prompt": tiny_graph(2)})).await;
    assert_eq!(
        (full.status, &full.json()["error"]["type"]),
        (429, &json!("QUEUE_LIMIT"))
    );
    assert!(full.header("retry-after").is_some());
}
