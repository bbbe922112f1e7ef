//! Everything that an address of the server has, below the address of a deployment: routes, sockets, streams, and the page.

use it::http::Connection;
use it::{Form, Message, Server, Socket, root};

use super::*;
use crate::v1::page::{drive_at, judge_windows, web_root};

/// Paths of the older API without `/api`.
const BARE: [&str; 14] = [
    "prompt",
    "queue",
    "history",
    "view",
    "object_info",
    "interrupt",
    "system_stats",
    "features",
    "users",
    "settings",
    "userdata",
    "ws",
    "upload/image",
    "upload/mask",
];

/// The operations of a document: method and path, with ids that are nobody's.
fn operations(document: &str) -> Vec<(String, String)> {
    let path = root().join("docs/openapi").join(document);
    let text = std::fs::read_to_string(path).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let nobodys = uuid::Uuid::nil().to_string();
        let target = path
            .replace("{id}", &nobodys)
            .replace("{hash}", &format!("blake3:{}", "0".repeat(64)))
            .replace("{class}", "Wait");
        // Files, folders and tokens have names.
        let target: String = target.replace(['{', '}'], "");
        for method in ["get", "post", "put", "patch", "delete"] {
            if methods.get(method).is_some() {
                all.push((method.to_uppercase(), target.clone()));
            }
        }
    }
    all
}

/// An answer without what differs each time: its status, what it is, and its error.
fn shape(answer: &Answer) -> (u16, Option<String>, Value) {
    let kind = answer.header("content-type").map(str::to_owned);
    let error = match answer.status {
        400.. => answer.try_json().unwrap_or_default(),
        _ => Value::Null,
    };
    (answer.status, kind, without_ids(error))
}

fn without_ids(mut error: Value) -> Value {
    for part in ["/request_id", "/error/request_id"] {
        if let Some(id) = error.pointer_mut(part) {
            *id = Value::Null;
        }
    }
    error
}

#[tokio::test]
async fn every_operation_of_both_apis_answers_below_a_deployment_as_at_the_root() {
    let mut operations = [operations("v1.json"), operations("v2.json")].concat();
    // The older API has these without `/api`, too.
    for path in BARE {
        for method in ["GET", "POST"] {
            operations.push((method.to_owned(), format!("/{path}")));
        }
    }
    // A stream without an end has a test of its own.
    operations.retain(|(_, target)| target != "/api/v2/events");
    assert!(operations.len() > 90, "{}", operations.len());
    // What an operation changes is seen by later ones, so each base address has a server of its own.
    let (at_root, below) = tokio::join!(
        answers("", &operations),
        answers("/deployment/sim", &operations)
    );
    for (asked, (here, there)) in operations.iter().zip(below.into_iter().zip(at_root)) {
        assert_eq!(here, there, "{asked:?}");
        // Only an id or a token that is nobody's is not found: all of them are routes.
        let names_nothing = ["0000", "/signed/", "/file", "/id"];
        let may_be_absent = names_nothing.iter().any(|part| asked.1.contains(part));
        assert!(here.0 != 404 || may_be_absent, "{asked:?}: {here:?}");
    }
}

/// What a server answers to these operations, one after the other, below a base address.
async fn answers(base: &str, operations: &[(String, String)]) -> Vec<(u16, Option<String>, Value)> {
    let rig = Rig::with(&[], "min = 1").await;
    let mut answers = Vec::new();
    for (method, target) in operations {
        let request = Request::new(method, &format!("{base}{target}"));
        let request = match method.as_str() {
            "GET" | "DELETE" => request,
            _ => request
                .header("Content-Type", "application/json")
                .body("{}"),
        };
        answers.push(shape(&rig.send(request).await));
    }
    answers
}

#[tokio::test]
async fn both_sockets_below_a_deployment_tell_of_its_jobs_and_so_does_the_root() {
    let rig = Rig::with(&[], "min = 1").await;
    let mut sockets = Vec::new();
    for path in ["/deployment/sim/ws", "/deployment/sim/api/ws", "/ws"] {
        let request = Request::get(&format!("{path}?clientId=page"));
        let mut socket = Socket::open(rig.server.address, request).await.unwrap();
        let flags = r#"{"type":"feature_flags","data":{"supports_preview_metadata":true}}"#;
        socket.say(flags).await.unwrap();
        let first = socket
            .until(|message| message.kind() == "feature_flags")
            .await
            .unwrap();
        assert_eq!(first[0].kind(), "status", "{path}: {first:?}");
        sockets.push(socket);
    }
    let sampled = json!({
        "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "a.safetensors"}},
        "2": {"class_type": "Sampler", "inputs": {"model": ["1", 0], "seed": 1, "steps": 3}},
        "3": {"class_type": "Decode", "inputs": {"samples": ["2", 0]}},
        "4": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "told"}}
    });
    let body = json!({"prompt": sampled, "client_id": "page"});
    let target = "/deployment/sim/api/prompt";
    let answer = rig.send(Request::post_json(target, &body)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.json()["prompt_id"].clone();
    let is_end =
        |message: &Message| message.kind() == "executing" && message.data()["node"].is_null();
    for socket in &mut sockets {
        let heard = socket.until(is_end).await.unwrap();
        let kinds: Vec<String> = heard.iter().map(Message::kind).collect();
        for kind in [
            "execution_start",
            "progress_state",
            "progress",
            "binary 4",
            "executed",
            "execution_success",
        ] {
            assert!(kinds.contains(&kind.to_owned()), "{kind}: {kinds:?}");
        }
        let ours = heard.iter().filter(|message| message.kind() == "executed");
        assert!(
            ours.into_iter()
                .all(|message| message.data()["prompt_id"] == id)
        );
    }
    // Without an upgrade, and at a deployment that there is not, it is no socket.
    let plain = rig.send(Request::get("/deployment/sim/ws")).await;
    assert_eq!(plain.status, 426, "{}", plain.text());
    let nowhere = Socket::open(rig.server.address, Request::get("/deployment/none/ws")).await;
    assert_eq!(nowhere.unwrap_err().to_string(), "404");
}

#[tokio::test]
async fn a_job_goes_from_its_files_to_its_events_below_a_deployment() {
    let rig = Rig::with(&["--step", "20"], "min = 1").await;
    let below = |path: &str| format!("/deployment/sim{path}");
    // Both uploads.
    let upload = Request::new("POST", &below("/upload/image"))
        .header("Content-Type", &Form::content_type())
        .body(Form::new().file("image", "a.png", b"older").body());
    let uploaded = rig.send(upload).await;
    assert_eq!(uploaded.status, 200, "{}", uploaded.text());
    let form = Form::new()
        .field("content_type", "image/png")
        .field("file_path", "b.png")
        .file("file", "b.png", b"newer");
    let upload = Request::new("POST", &below("/api/v2/assets"))
        .header("Content-Type", &Form::content_type())
        .body(form.body());
    let asset = rig.send(upload).await;
    assert_eq!(asset.status, 201, "{}", asset.text());
    let asset = asset.json();
    let content = below(&format!(
        "/api/v2/assets/{}/content",
        asset["id"].as_str().unwrap()
    ));
    let part = rig
        .send(Request::get(&content).header("Range", "bytes=1-2"))
        .await;
    assert_eq!((part.status, part.body.as_slice()), (206, &b"ew"[..]));

    // The stream of the account says what happens to the jobs of all addresses.
    let mut stream = Connection::open(rig.server.address).await.unwrap();
    let events = Request::get(&below("/api/v2/events")).bytes(rig.server.address);
    stream.write(&events).await.unwrap();
    assert_eq!(stream.head().await.unwrap().0, 200);

    let mut loading = graph("loaded", 500);
    loading["1"] = json!({"class_type": "LoadImage", "inputs": {"image": "a.png"}});
    let id = rig.submit(&loading).await;
    let mut heard = String::new();
    while !heard.contains(&id) {
        let chunk = stream.chunk().await.unwrap().expect("the stream goes on");
        heard.push_str(&String::from_utf8_lossy(&chunk));
    }
    rig.until_runs(&id).await;
    let job = below(&format!("/api/v2/jobs/{id}"));
    let workflow = rig.send(Request::get(&format!("{job}/workflow"))).await;
    assert_eq!(workflow.json()["workflow"], loading);
    let queue = rig.send(Request::get(&below("/api/queue"))).await.json();
    assert_eq!(queue["queue_running"][0][1], id.as_str(), "{queue:#}");
    let canceled = rig
        .send(Request::new("POST", &format!("{job}/cancel")))
        .await;
    assert!(canceled.status < 300, "{}", canceled.text());
    assert_eq!(rig.ended(&id).await["status"], "canceled");
    let logs = rig.send(Request::get(&format!("{job}/logs"))).await;
    assert_eq!(logs.status, 200, "{}", logs.text());
    let older = rig
        .send(Request::get(&below(&format!("/api/jobs/{id}"))))
        .await;
    assert_eq!(older.json()["status"], "cancelled", "{}", older.text());
}

#[tokio::test]
async fn the_files_of_the_page_are_below_a_deployment() {
    let data = tempfile::tempdir().unwrap();
    let page = data.path().join("page");
    std::fs::create_dir_all(page.join("assets")).unwrap();
    std::fs::write(page.join("index.html"), "<p>page").unwrap();
    std::fs::write(page.join("assets/app.js"), "let app;").unwrap();
    let page = page.to_str().unwrap().to_owned();
    let server = Server::start_with(data.path(), ["--web-root", &page]).await;
    let server = server.unwrap();
    let rig = Rig { data, server };
    rig.apply(&[], "").await;
    for (path, is_page) in [
        ("/", true),
        ("/index.html", true),
        ("/assets/app.js", false),
    ] {
        let at_root = rig.send(Request::get(path)).await;
        let here = rig
            .send(Request::get(&format!("/deployment/sim{path}")))
            .await;
        assert_eq!(here.status, 200, "{path}: {}", here.text());
        let whole: &[u8] = if is_page { b"<p>page" } else { b"let app;" };
        assert_eq!(here.body, whole, "{path}");
        for name in ["content-type", "etag", "content-security-policy"] {
            assert_eq!(here.header(name), at_root.header(name), "{path}: {name}");
        }
        let known = Request::get(&format!("/deployment/sim{path}"))
            .header("If-None-Match", here.header("etag").unwrap());
        assert_eq!(rig.send(known).await.status, 304, "{path}");
    }
    // The page asks for what is beside it, so its address has to end with a slash.
    let bare = rig.send(Request::get("/deployment/sim")).await;
    assert!([301, 302, 307, 308].contains(&bare.status), "{bare:?}");
    let to = bare.header("location").unwrap();
    assert!(to.ends_with("/deployment/sim/"), "{to}");
    for path in [
        "/deployment/sim/nothing.js",
        "/deployment/none/",
        "/deployment/none/index.html",
    ] {
        let unknown = rig.send(Request::get(path)).await;
        assert_eq!(unknown.status, 404, "{path}: {}", unknown.text());
    }
}

#[tokio::test]
async fn people_sign_in_at_the_address_of_a_deployment_and_see_their_own_jobs() {
    let data = tempfile::tempdir().unwrap();
    let page = data.path().join("page");
    std::fs::create_dir(&page).unwrap();
    std::fs::write(page.join("index.html"), "<p>page").unwrap();
    let page = page.to_str().unwrap().to_owned();
    let arguments = ["--web-root", &page, "--token", "the-token-of-this-test"];
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let rig = Rig { data, server };
    rig.apply(&[], "min = 1").await;
    rig.until("revision 1", |it| it["revision"] == 1).await;

    // A stranger is sent to sign in, and hears nothing.
    let page = rig.send(Request::get("/deployment/sim/")).await;
    let to = page.header("location");
    assert_eq!((page.status, to), (302, Some("/deployment/sim/signin")));
    let signin = rig.send(Request::get("/deployment/sim/signin")).await;
    assert_eq!(signin.status, 200, "{}", signin.text());
    let queue = Request::get("/deployment/sim/api/queue");
    assert_eq!(rig.send(queue.clone()).await.status, 401);
    let socket = Request::get("/deployment/sim/ws");
    let refused = Socket::open(rig.server.address, socket.clone()).await;
    assert_eq!(refused.unwrap_err().to_string(), "401");

    let mut cookies = Vec::new();
    for account in ["acme", "other"] {
        rig.done(&["account", "add", account]).await;
        let key = rig.done(&["key", "add", account]).await;
        let body = json!({"key": key.trim()});
        let target = "/deployment/sim/api/session";
        let answer = rig.send(Request::post_json(target, &body)).await;
        assert_eq!(answer.status, 204, "{}", answer.text());
        let cookie = answer.header("set-cookie").unwrap();
        assert!(cookie.contains("Path=/deployment/sim"), "{cookie}");
        cookies.push(cookie.split(';').next().unwrap().to_owned());
    }
    let with = |request: Request, of: usize| request.header("Cookie", &cookies[of]);
    let page = with(Request::get("/deployment/sim/"), 0);
    assert_eq!(rig.send(page).await.body, b"<p>page");
    assert_eq!(rig.send(with(queue, 0)).await.status, 200);
    let mut sockets = Vec::new();
    for of in 0..2 {
        let socket = Socket::open(rig.server.address, with(socket.clone(), of));
        sockets.push(socket.await.unwrap());
    }
    let is_end =
        |message: &Message| message.kind() == "executing" && message.data()["node"].is_null();
    for (of, name) in ["of-acme", "of-other"].into_iter().enumerate() {
        let body = json!({"prompt": graph(name, 1), "client_id": "page"});
        let submitted = with(Request::post_json("/deployment/sim/api/prompt", &body), of);
        let submitted = rig.send(submitted).await;
        assert_eq!(submitted.status, 200, "{}", submitted.text());
        let id = submitted.json()["prompt_id"].as_str().unwrap().to_owned();
        // All that each of them hears is of their own job.
        let heard = sockets[of].until(is_end).await.unwrap();
        let ids = heard.iter().filter_map(|message| match message {
            Message::Json(_) => message.data()["prompt_id"].as_str(),
            Message::Binary(_) | Message::Closed(_) => None,
        });
        assert!(ids.into_iter().all(|told| told == id), "{heard:?}");
        for (asks, status) in [(of, 200), (1 - of, 404)] {
            let job = Request::get(&format!("/deployment/sim/api/jobs/{id}"));
            assert_eq!(rig.send(with(job, asks)).await.status, status, "{asks}");
        }
    }
}

#[tokio::test]
async fn the_page_below_a_deployment_runs_graphs_on_its_workers() {
    let test = "the_page_below_a_deployment_runs_graphs_on_its_workers";
    let Some(web_root) = web_root(test) else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), ["--web-root", &web_root]).await;
    let server = server.unwrap();
    let rig = Rig { data, server };
    rig.apply(&[], "min = 1").await;
    rig.until("revision 1", |it| it["revision"] == 1).await;
    let told = drive_at(
        &rig.server,
        test,
        "web_deployment.mjs",
        &["/deployment/sim"],
    )
    .await;
    judge_windows(&told);
    for (what, value) in [
        ("elsewhere", json!([])),
        ("here", json!([200, 200])),
        ("opened", json!("/deployment/sim/")),
        ("socket", json!("/deployment/sim/ws")),
        ("native", json!(false)),
    ] {
        assert_eq!(told[what], value, "{what}: {told:#}");
    }
    let job = told["job"].as_str().unwrap();
    rig.succeeds(job).await;
    let explained = rig.done(&["job", "explain", job, "--json"]).await;
    let explained: Value = serde_json::from_str(&explained).unwrap();
    assert_eq!(explained["engine"], "comfyui:sim");
}
