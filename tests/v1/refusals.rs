//! What is refused, and in which words: recorded submissions, credentials, other accounts, other origins.

use it::{Request, Server, Socket, goldens};
use serde_json::{Value, json};

use super::{post, tiny_graph};

const TOKEN: [&str; 2] = ["--token", "s3cret-of-a-test"];

/// What is wrong with an input: kind, name of the input, and the names of the fields that tell more.
type InputError = (String, Value, Vec<String>);

/// What is wrong with a node: its id, its class and the outputs that it takes with it, and the kind and input of its one error.
type NodeError = (&'static str, Value, &'static str, Value);

/// A refusal as far as it must be the recorded one: status, kind of the whole, and by node what is wrong with which input.
#[derive(Debug, PartialEq)]
struct Refusal {
    status: u64,
    kind: Value,
    nodes: Vec<(String, Value, Vec<InputError>)>,
}

impl Refusal {
    fn of(status: u64, body: &Value) -> Self {
        let nodes = body["node_errors"].as_object().into_iter().flatten();
        let nodes = nodes.map(|(node, told)| {
            let errors = told["errors"].as_array().unwrap().iter();
            let errors = errors.map(|error| {
                let kind = error["type"].as_str().unwrap().to_owned();
                let extra = error["extra_info"].as_object().unwrap();
                // Tracebacks are Python's; the names of the other fields are the recorded ones.
                let fields = extra.keys().filter(|name| *name != "traceback");
                let mut fields: Vec<String> = fields.cloned().collect();
                fields.sort();
                (
                    kind,
                    extra.get("input_name").cloned().unwrap_or_default(),
                    fields,
                )
            });
            let outputs = &told["dependent_outputs"];
            let class = &told["class_type"];
            (node.clone(), json!([class, outputs]), errors.collect())
        });
        Self {
            status,
            kind: body["error"]["type"].clone(),
            nodes: nodes.collect(),
        }
    }
}

/// What ours must say where it does not say what was recorded: kinds that are newer, what the recorded server answered with
/// 500 or cut short, and what it let through although it cannot run. The nodes, each with its class and the outputs that it
/// takes with it, and its one error.
fn instead(name: &str) -> Option<(&'static str, Vec<NodeError>)> {
    let failed = "prompt_outputs_failed_validation";
    Some(match name {
        "raw_empty_body" | "raw_not_json" => ("invalid_json", vec![]),
        "raw_prompt_not_object" => ("invalid_prompt", vec![]),
        "raw_ui_format" => ("missing_node_type", vec![]),
        "missing_class_type" => (
            "missing_node_type",
            vec![("1", json!([null, ["2"]]), "missing_node_type", json!(null))],
        ),
        "unknown_node" => (
            "missing_node_type",
            vec![(
                "1",
                json!(["NoSuchNode", ["2"]]),
                "missing_node_type",
                json!(null),
            )],
        ),
        "cycle" => {
            let node = |id| {
                (
                    id,
                    json!(["ImageInvert", ["3"]]),
                    "dependency_cycle",
                    json!(null),
                )
            };
            (failed, vec![node("1"), node("2")])
        }
        "image_literal_instead_of_link" => (
            failed,
            vec![(
                "1",
                json!(["SaveImage", ["1"]]),
                "invalid_input_type",
                json!("images"),
            )],
        ),
        _ => return None,
    })
}

#[tokio::test]
async fn recorded_submissions_are_refused_as_recorded() {
    let Some(folder) = goldens("recorded_submissions_are_refused_as_recorded") else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let photo = std::fs::read(folder.join("load_photo_png/gold_photo.png")).unwrap();
    super::upload(&server, "gold_photo.png", &photo).await;
    let cases = std::fs::read_dir(folder.join("invalid")).unwrap();
    let mut cases: Vec<_> = cases.map(|case| case.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 21, "{cases:?}");
    for case in cases {
        let name = case.file_name().unwrap().to_str().unwrap();
        let recorded = std::fs::read(case.join("response.json")).unwrap();
        let recorded: Value = serde_json::from_slice(&recorded).unwrap();
        let body = std::fs::read(case.join("request.bin")).unwrap_or_else(|_| {
            let graph = std::fs::read_to_string(case.join("workflow.json")).unwrap();
            format!("{{\"prompt\": {graph}}}").into_bytes()
        });
        let request =
            Request::new("POST", "/api/prompt").header("Content-Type", "application/json");
        let answer = server.send(&request.body(body)).await.unwrap();
        let body = answer.json();
        let ours = Refusal::of(answer.status.into(), &body);
        match instead(name) {
            None => {
                let status = recorded["status"].as_u64().unwrap();
                let theirs = Refusal::of(status, &recorded["body"]);
                assert_eq!(ours, theirs, "{name}: {body}");
                let (ours, theirs) = (&body["error"], &recorded["body"]["error"]);
                assert_eq!(ours["message"], theirs["message"], "{name}");
                // Texts of exceptions are Python's.
                let is_python = theirs["details"]
                    .as_str()
                    .is_some_and(|text| text.contains("Exception"));
                assert!(
                    is_python || ours["details"] == theirs["details"],
                    "{name}: {body}"
                );
            }
            Some((kind, nodes)) => {
                assert_eq!(
                    (ours.status, &ours.kind),
                    (400, &json!(kind)),
                    "{name}: {body}"
                );
                let found: Vec<_> = ours
                    .nodes
                    .iter()
                    .map(|(node, about, errors)| {
                        assert_eq!(errors.len(), 1, "{name}: {body}");
                        let (kind, input, _) = &errors[0];
                        (node.as_str(), about.clone(), kind.as_str(), input.clone())
                    })
                    .collect();
                assert_eq!(found, nodes, "{name}: {body}");
            }
        }
        let text = body.to_string();
        assert!(
            !text.contains("traceback") && !text.contains(".py"),
            "{name}: {body}"
        );
    }
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
    // What is shown beside it counts, be it wrong.
    let shown = with(Request::get("/api/queue")).header("X-API-Key", "wrong");
    assert_eq!(server.send(&shown).await.unwrap().status, 401);
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
    let mut refused = 0;
    for document in ["/api/openapi.json", "/api/v2/openapi.json"] {
        let paths = super::get(&server, document).await["paths"].clone();
        for (path, methods) in paths.as_object().unwrap() {
            let id = "9c0e6f4a-0000-4000-8000-000000000009";
            let path = path
                .replace("{id}", id)
                .replace("{file}", "x")
                .replace("{to}", "y");
            let bare = path
                .strip_prefix("/api")
                .filter(|_| document == "/api/openapi.json");
            for method in ["post", "delete"] {
                if methods.get(method).is_none() {
                    continue;
                }
                for path in [Some(path.as_str()), bare].into_iter().flatten() {
                    let request = Request::new(&method.to_uppercase(), path);
                    let answer = server.send(&foreign(request)).await.unwrap();
                    // Not every route is there without its first segment.
                    let is_none = Some(path) == bare && [404, 405].contains(&answer.status);
                    assert!(
                        answer.status == 403 || is_none,
                        "{method} {path}: {}",
                        answer.status
                    );
                    refused += usize::from(answer.status == 403);
                }
            }
        }
    }
    assert!(refused > 25, "{refused}");
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
async fn a_link_to_a_slot_that_is_not_there_fails_as_in_python() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let mut graph = tiny_graph(1);
    for (link, exception) in [
        (json!(["1", 5]), ("IndexError", "tuple index out of range")),
        (json!(["7", 0]), ("KeyError", "'7'")),
    ] {
        graph["3"] = json!({"class_type": "ImageInvert", "inputs": {"image": link}});
        graph["2"]["inputs"]["images"] = json!(["3", 0]);
        let refused = post(&server, "/api/prompt", &json!({"prompt": graph})).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
        let refused = refused.json();
        let extra = &refused["node_errors"]["3"]["errors"][0]["extra_info"];
        let told = (&extra["exception_type"], &extra["exception_message"]);
        assert_eq!(
            told,
            (&json!(exception.0), &json!(exception.1)),
            "{refused}"
        );
    }
}
