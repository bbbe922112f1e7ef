//! Accounts, keys and the commands that operators change them with, on the real program.

use std::path::Path;

use it::{Answer, Connection, Form, Message, Operated, Request, Server, Socket, operate};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::tiny_graph;
use crate::v1::blurs;

/// A server that lets nobody in without a credential, over a directory of its own.
pub(super) async fn closed() -> (TempDir, Server) {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path()).await;
    (data, server)
}

pub(super) async fn start(data: &Path) -> Server {
    let flags = ["--require-credentials"];
    Server::start_with(data, flags).await.unwrap()
}

/// A command that succeeds; its standard output.
pub(super) async fn run(data: &Path, line: &str) -> String {
    let done = operate(data, line.split(' ')).await;
    assert_eq!(done.code, 0, "{line}: {}", done.stderr);
    done.stdout
}

/// A command that fails.
async fn fails(data: &Path, line: &str) -> Operated {
    let done = operate(data, line.split(' ')).await;
    assert_ne!(done.code, 0, "{line}");
    assert_eq!(done.stdout, "", "{line}");
    done
}

/// A new account and a key of it.
pub(super) async fn account(data: &Path, id: &str) -> String {
    run(data, &format!("account add {id}")).await;
    key(data, id).await
}

/// A new key, which is the only thing on standard output.
async fn key(data: &Path, account: &str) -> String {
    let out = run(data, &format!("key add {account}")).await;
    let key = out.strip_suffix('\n').unwrap().to_owned();
    assert!(
        key.starts_with("easel_") && key.bytes().all(|byte| byte.is_ascii_graphic()),
        "{out}"
    );
    key
}

pub(super) async fn send(server: &Server, key: &str, request: Request) -> Answer {
    let request = request.header("Authorization", &format!("Bearer {key}"));
    server.send(&request).await.unwrap()
}

async fn jobs_status(server: &Server, key: &str) -> u16 {
    send(server, key, Request::get("/api/v2/jobs")).await.status
}

pub(super) async fn submit(server: &Server, key: &str, workflow: Value) -> Answer {
    let body = json!({ "workflow": workflow });
    send(server, key, Request::post_json("/api/v2/jobs", &body)).await
}

pub(super) async fn upload(server: &Server, key: &str, path: &str, bytes: &str) -> Answer {
    let form = Form::new()
        .field("content_type", "text/plain")
        .field("file_path", path)
        .file("file", path, bytes.as_bytes());
    let request =
        Request::new("POST", "/api/v2/assets").header("Content-Type", &Form::content_type());
    send(server, key, request.body(form.body())).await
}

#[tokio::test]
async fn a_key_that_is_revoked_by_a_command_is_refused_from_the_next_request_on() {
    let (data, server) = closed().await;
    let refused = server.send(&Request::get("/api/v2/jobs")).await.unwrap();
    assert_eq!(refused.status, 401);
    let first = account(data.path(), "acme").await;
    let second = key(data.path(), "acme").await;
    assert_eq!(jobs_status(&server, &first).await, 200);
    assert_eq!(jobs_status(&server, &format!("{first}x")).await, 401);

    let id = &first[6..14];
    run(data.path(), &format!("key revoke {id}")).await;
    let answer = send(&server, &first, Request::get("/api/v2/jobs")).await;
    assert_eq!(answer.status, 401);
    assert_eq!(answer.body, refused.body, "a refusal does not say why");
    assert_eq!(jobs_status(&server, &second).await, 200);
    let listed = run(data.path(), "key list acme").await;
    let line = listed.lines().find(|line| line.starts_with(id)).unwrap();
    assert!(line.contains("revoked"), "{listed}");
    assert!(!listed.contains(&first[15..]), "a list shows no secret");
}

#[tokio::test]
async fn a_key_that_is_revoked_by_a_command_closes_what_it_listens_to() {
    let (data, server) = closed().await;
    let first = account(data.path(), "acme").await;
    let second = key(data.path(), "acme").await;
    // Keys are looked at every 20 s: it runs for far longer.
    let job = submit(&server, &first, blurs(4_000)).await.json();
    let path = format!("/api/v2/jobs/{}", job["id"].as_str().unwrap());
    let mut of_first = Vec::new();
    for key in [&first, &second] {
        let socket = Request::get(&format!("/ws?token={key}"));
        let socket = Socket::open(server.address, socket).await.unwrap();
        let events = Request::get(&format!("{path}/events"));
        let events = events.header("Authorization", &format!("Bearer {key}"));
        let mut stream = Connection::open(server.address).await.unwrap();
        stream.write(&events.bytes(server.address)).await.unwrap();
        assert_eq!(stream.head().await.unwrap().0, 200);
        of_first.push((socket, stream));
    }
    let (mut stays, mut events) = of_first.pop().unwrap();
    let (mut closed, mut ended) = of_first.pop().unwrap();
    run(data.path(), &format!("key revoke {}", &first[6..14])).await;
    let heard = closed.until(|message| matches!(message, Message::Closed(_)));
    assert_eq!(heard.await.unwrap().last(), Some(&Message::Closed(1008)));
    // Nothing says that the job is over, and it is not.
    let mut told = Vec::new();
    while let Ok(Some(chunk)) = ended.chunk().await {
        told.extend_from_slice(&chunk);
    }
    let told = String::from_utf8(told).unwrap();
    assert!(!told.contains("succeeded"), "{told}");
    let cancel = Request::new("POST", &format!("{path}/cancel"));
    assert_eq!(send(&server, &second, cancel).await.status, 200);
    // The other key goes on to hear of it.
    let mut told = Vec::new();
    while let Some(chunk) = events.chunk().await.unwrap() {
        told.extend_from_slice(&chunk);
    }
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains("canceled"), "{told}");
    let is_stopped = |message: &Message| message.kind() == "execution_interrupted";
    stays.until(is_stopped).await.unwrap();
}

#[tokio::test]
async fn a_suspended_account_is_nobody_and_one_without_subscription_runs_nothing() {
    let (data, server) = closed().await;
    let key = account(data.path(), "acme").await;
    let other = account(data.path(), "other").await;
    run(data.path(), "account suspend acme").await;
    assert_eq!(jobs_status(&server, &key).await, 401);
    assert_eq!(jobs_status(&server, &other).await, 200);
    run(data.path(), "account resume acme").await;
    assert_eq!(jobs_status(&server, &key).await, 200);

    run(data.path(), "account subscription acme off").await;
    let refused = submit(&server, &key, tiny_graph(1)).await;
    assert_eq!(
        (refused.status, refused.error_code().as_str()),
        (403, "forbidden")
    );
    assert_eq!(jobs_status(&server, &key).await, 200, "reading needs none");
    run(data.path(), "account subscription acme on").await;
    assert_eq!(submit(&server, &key, tiny_graph(1)).await.status, 201);
}

#[tokio::test]
async fn a_key_allows_its_scopes_alone() {
    let (data, server) = closed().await;
    account(data.path(), "acme").await;
    let reader = run(data.path(), "key add acme --scopes jobs:read --expires 1h").await;
    let reader = reader.trim_end();
    assert_eq!(jobs_status(&server, reader).await, 200);
    let refused = submit(&server, reader, tiny_graph(1)).await;
    assert_eq!(
        (refused.status, refused.error_code().as_str()),
        (403, "forbidden")
    );
    let listed = run(data.path(), "key list acme").await;
    let line = listed.lines().find(|line| line.starts_with(&reader[6..14]));
    assert!(
        line.is_some_and(|line| line.contains("  jobs:read  ")),
        "{listed}"
    );
}

#[tokio::test]
async fn an_asset_that_the_operator_holds_is_not_deleted() {
    let (data, server) = closed().await;
    let key = account(data.path(), "acme").await;
    let asset = upload(&server, &key, "a.txt", "kept").await.json();
    let id = asset["id"].as_str().unwrap();
    run(data.path(), &format!("asset hold add {id}")).await;
    let delete = || Request::new("DELETE", &format!("/api/v2/assets/{id}"));
    let refused = send(&server, &key, delete()).await;
    assert_eq!(
        (refused.status, refused.error_code().as_str()),
        (409, "asset_in_use")
    );
    run(data.path(), &format!("asset hold remove {id}")).await;
    assert_eq!(send(&server, &key, delete()).await.status, 204);
    let refused = fails(data.path(), &format!("asset hold add {id}")).await;
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}

#[tokio::test]
async fn without_credits_nothing_is_submitted_where_billing_is_on() {
    let (data, server) = closed().await;
    let key = account(data.path(), "acme").await;
    assert_eq!(submit(&server, &key, tiny_graph(1)).await.status, 201);
    run(data.path(), "account billing acme on").await;
    let refused = submit(&server, &key, tiny_graph(1)).await;
    assert_eq!(
        (refused.status, refused.error_code().as_str()),
        (402, "insufficient_credits")
    );
    run(data.path(), "account credit acme 5").await;
    assert_eq!(submit(&server, &key, tiny_graph(1)).await.status, 201);
    run(data.path(), "account credit acme -5").await;
    assert_eq!(submit(&server, &key, tiny_graph(1)).await.status, 402);
    let ledger = run(data.path(), "account credit acme").await;
    assert_eq!(ledger.lines().count(), 3, "{ledger}");
}

#[tokio::test]
async fn limits_of_a_tier_count_from_the_next_request_on() {
    let (data, server) = closed().await;
    let key = account(data.path(), "acme").await;
    assert_eq!(
        upload(&server, &key, "a.txt", &"x".repeat(2000))
            .await
            .status,
        201
    );
    run(
        data.path(),
        "account tier acme --upload-size 1KiB --queue-depth 0 --keep-uploads 1m",
    )
    .await;
    let refused = upload(&server, &key, "b.txt", &"y".repeat(2000)).await;
    assert_eq!(
        (refused.status, refused.error_code().as_str()),
        (413, "payload_too_large")
    );
    assert_eq!(refused.json()["error"]["details"]["limit_bytes"], 1024);
    let refused = submit(&server, &key, tiny_graph(1)).await;
    assert_eq!(
        (refused.status, refused.error_code().as_str()),
        (429, "queue_full")
    );
    let kept = upload(&server, &key, "c.txt", "z").await.json();
    let time = |name: &str| {
        kept[name]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    let lifetime = time("expires_at").duration_since(time("created_at"));
    assert_eq!(lifetime.as_secs(), 60);
    run(
        data.path(),
        "account tier acme --upload-size default --queue-depth default",
    )
    .await;
    assert_eq!(
        upload(&server, &key, "b.txt", &"y".repeat(2000))
            .await
            .status,
        201
    );
    assert_eq!(submit(&server, &key, tiny_graph(1)).await.status, 201);
}

#[tokio::test]
async fn a_key_outlives_the_kill_of_the_server_that_took_it() {
    let (data, mut server) = closed().await;
    run(data.path(), "account add acme").await;
    for _ in 0..5 {
        let key = key(data.path(), "acme").await;
        server.kill().await.unwrap();
        server = start(data.path()).await;
        assert_eq!(jobs_status(&server, &key).await, 200);
    }
    server.kill().await.unwrap();
    // Nobody listens at the socket that it left behind: the commands do it themselves.
    let key = key(data.path(), "acme").await;
    let listed = run(data.path(), "key list acme").await;
    assert_eq!(listed.lines().count(), 7, "{listed}");
    let server = start(data.path()).await;
    assert_eq!(jobs_status(&server, &key).await, 200);
}

#[tokio::test]
async fn commands_say_what_is_wrong_and_what_to_do() {
    let data = tempfile::tempdir().unwrap();
    let nowhere = data.path().join("nowhere");
    let refused = fails(&nowhere, "account list").await;
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--data-dir"), "{}", refused.stderr);
    assert!(!nowhere.exists(), "looking makes nothing");

    run(data.path(), "account add acme").await;
    for (line, says) in [
        ("account add acme", "there is an account acme already"),
        ("account add Acme", "a-z"),
        ("account show nobody", "account list"),
        ("key add nobody", "account list"),
        ("key add acme --scopes jobs", "jobs:read"),
        ("key add acme --expires soon", "24h"),
        ("key revoke aaaaaaaa", "key list ACCOUNT"),
        ("account tier acme --streams many", "or default"),
        ("account credit acme lots", "CENTS"),
        ("token issue --workspace acme", "jwt_secret"),
    ] {
        let refused = fails(data.path(), line).await;
        assert_eq!(refused.code, 2, "{line}: {}", refused.stderr);
        assert!(refused.stderr.contains(says), "{line}: {}", refused.stderr);
    }
}

#[tokio::test]
async fn a_token_is_issued_for_an_account_and_counts_as_long_as_it() {
    const SECRET: &str = "--jwt-secret=a secret of more than 32 bytes, for tests alone";
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), [SECRET]).await.unwrap();
    run(data.path(), "account add acme").await;
    let issue = [
        "token",
        "issue",
        "--workspace",
        "acme",
        "--ttl",
        "5m",
        SECRET,
    ];
    let issued = operate(data.path(), issue).await;
    assert_eq!(issued.code, 0, "{}", issued.stderr);
    let token = issued.stdout.trim_end();
    assert_eq!(token.split('.').count(), 3, "{token}");
    assert_eq!(jobs_status(&server, token).await, 200);
    run(data.path(), "account suspend acme").await;
    assert_eq!(jobs_status(&server, token).await, 401);
    let nobody = operate(
        data.path(),
        ["token", "issue", "--workspace", "nobody", SECRET],
    )
    .await;
    assert_eq!(nobody.code, 2, "{}", nobody.stderr);
}

/// What belongs to one account is, for another, as if it never was: the same status and the same bytes on every route.
#[tokio::test]
async fn what_is_anothers_cannot_be_told_from_what_never_was() {
    let (data, server) = closed().await;
    let (acme, other) = (
        account(data.path(), "acme").await,
        account(data.path(), "other").await,
    );
    let asset = upload(&server, &acme, "secret.txt", "only acme's")
        .await
        .json();
    let job = submit(&server, &acme, tiny_graph(7)).await.json();
    let (asset_id, job_id) = (asset["id"].as_str().unwrap(), job["id"].as_str().unwrap());
    let gone = upload(&server, &other, "gone.txt", "deleted").await.json();
    let gone = gone["id"].as_str().unwrap();
    let deleted = Request::new("DELETE", &format!("/api/v2/assets/{gone}"));
    assert_eq!(send(&server, &other, deleted).await.status, 204);

    let never = "018f0000-0000-7000-8000-000000000000";
    let routes = [
        ("GET", "/api/v2/jobs/{job}"),
        ("GET", "/api/v2/jobs/{job}/workflow"),
        ("GET", "/api/v2/jobs/{job}/logs"),
        ("GET", "/api/v2/jobs/{job}/events"),
        ("POST", "/api/v2/jobs/{job}/cancel"),
        ("GET", "/api/v2/assets/{asset}"),
        ("HEAD", "/api/v2/assets/{asset}"),
        ("GET", "/api/v2/assets/{asset}/content"),
        ("DELETE", "/api/v2/assets/{asset}"),
    ];
    for (method, route) in routes {
        let at = async |asset: &str, job: &str| {
            let path = route.replace("{asset}", asset).replace("{job}", job);
            send(&server, &other, Request::new(method, &path)).await
        };
        let unknown = at(never, never).await;
        assert_eq!(unknown.status, 404, "{method} {route}");
        for answer in [at(asset_id, job_id).await, at(gone, never).await] {
            assert_eq!(same(&answer), same(&unknown), "{method} {route}");
        }
    }

    // By hash, by name, in a graph, in lists.
    let hash = asset["hash"].as_str().unwrap();
    let none = format!("blake3:{}", "0".repeat(64));
    let by_hash = async |hash: &str| {
        let path = format!("/api/v2/assets/by-hash/{hash}");
        let head = send(&server, &other, Request::new("HEAD", &path)).await;
        let body = json!({ "hash": hash, "file_path": "x.txt" });
        let made = Request::post_json("/api/v2/assets/from-hash", &body);
        (same(&head), same(&send(&server, &other, made).await))
    };
    let (head, made) = by_hash(hash).await;
    assert_eq!((head.0, made.0), (404, 404));
    assert_eq!((head, made), by_hash(&none).await);
    let load = |name: &str| {
        json!({
            "1": {"class_type": "LoadImage", "inputs": {"image": name}},
            "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "x"}},
        })
    };
    let named = submit(&server, &other, load("secret.txt")).await;
    let unnamed = submit(&server, &other, load("unheard.txt")).await;
    assert_eq!(named.status, 422);
    assert_eq!(named.text().replace("secret", "unheard"), unnamed.text());
    let reference = |id: &str| json!({"__type": "core/ASSET", "info": {"id": id}});
    let graph = |id: &str| {
        let mut graph = load("x");
        graph["1"]["inputs"]["image"] = reference(id);
        graph
    };
    let foreign = submit(&server, &other, graph(asset_id)).await;
    let unknown = submit(&server, &other, graph(never)).await;
    assert_eq!(foreign.status, 422);
    assert_eq!(foreign.text().replace(asset_id, never), unknown.text());
    let list = send(&server, &other, Request::get("/api/v2/jobs")).await;
    assert_eq!(list.json()["jobs"], json!([]));
    let mine = send(
        &server,
        &acme,
        Request::get(&format!("/api/v2/jobs/{job_id}")),
    )
    .await;
    assert_eq!(mine.status, 200);
}

/// Status, headers and body, but for what differs from request to request.
fn same(answer: &Answer) -> (u16, Vec<(String, String)>, String) {
    let varies = ["date", "x-service-request-id", "x-comfy-request-id"];
    let headers = answer.headers.iter();
    let headers = headers.filter(|(name, _)| !varies.contains(name));
    (
        answer.status,
        headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        answer.text().to_owned(),
    )
}
