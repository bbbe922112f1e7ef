//! What an account may do in the older API: with and without a subscription, with and without credits, beside another.

use std::path::Path;

use it::{Answer, Form, Request, Server, Socket, operate};
use serde_json::{Value, json};

use super::{ends, slow_graph, tiny_graph};

/// A server that lets nobody in without a credential, with one slot for jobs and room for one more of each account.
async fn closed(data: &Path) -> Server {
    let flags = [
        "--require-credentials",
        "--job-slots",
        "1",
        "--queue-per-account",
        "1",
    ];
    Server::start_with(data, flags).await.unwrap()
}

/// A command that succeeds; what it printed.
async fn run(data: &Path, line: &str) -> String {
    let done = operate(data, line.split(' ')).await;
    assert_eq!(done.code, 0, "{line}: {}", done.stderr);
    done.stdout.trim_end().to_owned()
}

async fn account(data: &Path, id: &str) -> String {
    run(data, &format!("account add {id}")).await;
    run(data, &format!("key add {id}")).await
}

async fn send(server: &Server, key: &str, request: Request) -> Answer {
    server
        .send(&request.header("X-API-Key", key))
        .await
        .unwrap()
}

async fn post(server: &Server, key: &str, target: &str, body: &Value) -> Answer {
    send(server, key, Request::post_json(target, body)).await
}

async fn get(server: &Server, key: &str, target: &str) -> Value {
    let answer = send(server, key, Request::get(target)).await;
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    answer.json()
}

async fn submit(server: &Server, key: &str, graph: &Value) -> Answer {
    post(server, key, "/api/prompt", &json!({"prompt": graph})).await
}

/// Submits a graph that is taken in; the job's id.
async fn submitted(server: &Server, key: &str, graph: &Value) -> String {
    let answer = submit(server, key, graph).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["prompt_id"].as_str().unwrap().to_owned()
}

async fn listen(server: &Server, key: &str) -> Socket {
    let target = format!("/ws?clientId=c&token={key}");
    let mut socket = Socket::open(server.address, Request::get(&target))
        .await
        .unwrap();
    assert_eq!(socket.next().await.unwrap().kind(), "status");
    socket
}

/// A refused submission: its status, when to come back, and its whole body.
fn whole(answer: &Answer) -> (u16, Option<&str>, Value) {
    (answer.status, answer.header("retry-after"), answer.json())
}

fn refusal(kind: &str, message: &str, details: &str) -> Value {
    json!({
        "error": {"type": kind, "message": message, "details": details, "extra_info": {}},
        "node_errors": {},
    })
}

#[tokio::test]
async fn an_upload_is_kept_for_as_long_as_its_account_has_it() {
    let data = tempfile::tempdir().unwrap();
    let server = closed(data.path()).await;
    let key = account(data.path(), "acme").await;
    run(data.path(), "account tier acme --keep-uploads 1m").await;
    let form = Form::new().file("image", "x.txt", b"some bytes");
    let upload = Request::new("POST", "/api/upload/image")
        .header("Content-Type", &Form::content_type())
        .body(form.body());
    let told = send(&server, &key, upload).await.json();
    let id = told["asset"]["id"].as_str().unwrap();
    let asset = get(&server, &key, &format!("/api/v2/assets/{id}")).await;
    let time = |name: &str| {
        let text = asset[name].as_str().unwrap();
        text.parse::<jiff::Timestamp>().unwrap()
    };
    let lifetime = time("expires_at").duration_since(time("created_at"));
    assert_eq!(lifetime.as_secs(), 60);
}

#[tokio::test]
async fn without_a_subscription_nothing_new_runs_and_all_the_rest_works() {
    let data = tempfile::tempdir().unwrap();
    let server = closed(data.path()).await;
    let key = account(data.path(), "acme").await;
    let mut socket = listen(&server, &key).await;
    let running = submitted(&server, &key, &slow_graph()).await;
    let is_running = |message: &it::Message| message.kind() == "execution_start";
    socket.until(is_running).await.unwrap();
    let waiting = submitted(&server, &key, &tiny_graph(1)).await;
    let form = Form::new().file("image", "x.txt", b"some bytes");
    let upload =
        Request::new("POST", "/api/upload/image").header("Content-Type", &Form::content_type());
    let asset = send(&server, &key, upload.body(form.body())).await.json()["asset"]["id"].clone();
    run(data.path(), "account subscription acme off").await;

    let message = "the subscription of this account is not active; nothing new runs until it is";
    let refused = submit(&server, &key, &tiny_graph(2)).await;
    let expected = refusal("SUBSCRIPTION_INACTIVE", message, "");
    assert_eq!(
        whole(&refused),
        (429, None, expected),
        "coming back later does not help"
    );
    let refused = post(
        &server,
        &key,
        "/api/v2/jobs",
        &json!({"workflow": tiny_graph(2)}),
    )
    .await;
    let envelope = json!({"error": {"code": "forbidden", "message": message, "details": null}});
    assert_eq!(whole(&refused), (403, None, envelope));

    assert_eq!(
        get(&server, &key, "/api/queue").await["queue_pending"][0][1],
        json!(waiting)
    );
    let canceled = post(
        &server,
        &key,
        &format!("/api/v2/jobs/{waiting}/cancel"),
        &json!({}),
    )
    .await;
    assert_eq!(canceled.json()["status"], "canceled");
    let again = post(
        &server,
        &key,
        &format!("/api/jobs/{waiting}/cancel"),
        &json!({}),
    )
    .await;
    assert_eq!(again.json(), json!({"cancelled": false}));
    let many = post(
        &server,
        &key,
        "/api/jobs/cancel",
        &json!({"job_ids": [waiting]}),
    )
    .await;
    assert_eq!(many.json(), json!({"cancelled": []}));
    let body = json!({"prompt_id": running});
    assert_eq!(
        post(&server, &key, "/api/interrupt", &body).await.status,
        200
    );
    socket.until(ends).await.unwrap();
    let queue = post(
        &server,
        &key,
        "/api/queue",
        &json!({"delete": [running], "clear": true}),
    )
    .await;
    assert_eq!(queue.json(), json!({"deleted": [], "cleared": true}));
    assert_eq!(
        post(&server, &key, "/api/history", &json!({"clear": true}))
            .await
            .status,
        200
    );
    assert_eq!(get(&server, &key, "/api/history").await, json!({}));
    let delete = Request::new(
        "DELETE",
        &format!("/api/v2/assets/{}", asset.as_str().unwrap()),
    );
    assert_eq!(send(&server, &key, delete).await.status, 204);
    run(data.path(), "account subscription acme on").await;
    submitted(&server, &key, &tiny_graph(3)).await;
}

#[tokio::test]
async fn without_credits_a_submission_is_402() {
    let data = tempfile::tempdir().unwrap();
    let server = closed(data.path()).await;
    let key = account(data.path(), "acme").await;
    run(data.path(), "account billing acme on").await;
    let message = "the account has no credits left; add credits and submit again";
    let expected = (402, None, refusal("PAYMENT_REQUIRED", message, ""));
    assert_eq!(
        whole(&submit(&server, &key, &tiny_graph(1)).await),
        expected
    );
    // Also what could not run anyway: nothing of a body is looked at.
    assert_eq!(whole(&submit(&server, &key, &json!({})).await), expected);
    assert_eq!(
        get(&server, &key, "/api/prompt").await["exec_info"]["queue_remaining"],
        0
    );
    run(data.path(), "account credit acme 5").await;
    submitted(&server, &key, &tiny_graph(1)).await;
}

#[tokio::test]
async fn a_run_tells_that_the_credits_are_low() {
    let data = tempfile::tempdir().unwrap();
    let server = closed(data.path()).await;
    let key = account(data.path(), "acme").await;
    run(data.path(), "account billing acme on").await;
    run(data.path(), "account credit acme 42").await;
    let mut socket = listen(&server, &key).await;
    submitted(&server, &key, &tiny_graph(1)).await;
    let heard = socket.until(ends).await.unwrap();
    let told: Vec<&it::Message> = heard
        .iter()
        .filter(|message| message.kind() == "notification")
        .collect();
    assert_eq!(told.len(), 1, "once");
    assert_eq!(
        told[0].data()["value"],
        "The account has $0.42 of credits left."
    );
    // Enough is no news, nor is the end of a run that cost nothing.
    run(data.path(), "account credit acme 1000").await;
    submitted(&server, &key, &tiny_graph(2)).await;
    let heard = socket.until(ends).await.unwrap();
    assert!(heard.iter().all(|message| message.kind() != "notification"));
}

#[tokio::test]
async fn a_full_queue_is_429_and_says_when_to_come_back() {
    let data = tempfile::tempdir().unwrap();
    let server = closed(data.path()).await;
    let (key, other) = (
        account(data.path(), "acme").await,
        account(data.path(), "other").await,
    );
    let mut socket = listen(&server, &key).await;
    submitted(&server, &key, &slow_graph()).await;
    let is_running = |message: &it::Message| message.kind() == "execution_start";
    socket.until(is_running).await.unwrap();
    submitted(&server, &key, &tiny_graph(1)).await;
    let message = "the queue is full; try again after the seconds in `Retry-After`";
    let full = submit(&server, &key, &tiny_graph(2)).await;
    let (status, retry_after, body) = whole(&full);
    assert_eq!((status, body), (429, refusal("QUEUE_LIMIT", message, "")));
    let seconds: u32 = retry_after.unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    submitted(&server, &other, &tiny_graph(3)).await;
}

#[tokio::test]
async fn two_accounts_choose_the_same_id_and_neither_hears_of_it() {
    let data = tempfile::tempdir().unwrap();
    let server = closed(data.path()).await;
    let (one, two) = (
        account(data.path(), "one").await,
        account(data.path(), "two").await,
    );
    let id = "9c0e6f4a-0000-4000-8000-000000000001";
    let body = |color| json!({"prompt": tiny_graph(color), "prompt_id": id});
    let mut jobs = Vec::new();
    for (key, color) in [(&one, 1), (&two, 2)] {
        let mut socket = listen(&server, key).await;
        let answer = post(&server, key, "/api/prompt", &body(color)).await;
        assert_eq!(
            (answer.status, &answer.json()["prompt_id"]),
            (200, &json!(id))
        );
        let heard = socket.until(ends).await.unwrap();
        let of_job = heard.iter().filter(|message| message.kind() != "status");
        for message in of_job {
            assert_eq!(message.data()["prompt_id"], json!(id), "{message:?}");
        }
        let taken = post(&server, key, "/api/prompt", &body(color)).await;
        let details = "there is a job of this id; choose another, or leave it out";
        let expected = refusal("invalid_prompt_id", "The prompt id is taken", details);
        assert_eq!(whole(&taken), (400, None, expected), "once in each account");

        let status = get(&server, key, &format!("/api/job/{id}/status")).await;
        assert_eq!(
            (&status["id"], &status["status"]),
            (&json!(id), &json!("success"))
        );
        assert_eq!(
            get(&server, key, &format!("/api/jobs/{id}")).await["id"],
            json!(id)
        );
        assert_eq!(
            get(&server, key, "/api/jobs").await["jobs"][0]["id"],
            json!(id)
        );
        let history = get(&server, key, "/api/history").await;
        let prompt = &history[id]["prompt"];
        assert_eq!(prompt[1], json!(id));
        assert_eq!(
            prompt[2]["1"]["inputs"]["color"],
            json!(color),
            "its own graph"
        );
        assert_eq!(
            history[id]["status"]["messages"][0][1]["prompt_id"],
            json!(id)
        );
        let v2 = get(
            &server,
            key,
            &format!("/api/v2/jobs?metadata[prompt_id]={id}"),
        )
        .await;
        jobs.push(v2["jobs"][0]["id"].as_str().unwrap().to_owned());
        let hidden = post(&server, key, "/api/history", &json!({"delete": [id]})).await;
        assert_eq!(hidden.status, 200);
        assert_eq!(
            get(&server, key, &format!("/history/{id}")).await,
            json!({})
        );
    }
    assert!(
        jobs[0] != jobs[1] && !jobs.contains(&id.to_owned()),
        "{jobs:?}"
    );
    // A job's own id works as well, and is nothing that anybody else could choose or see.
    assert_eq!(
        get(&server, &one, &format!("/api/jobs/{}", jobs[0])).await["id"],
        json!(id)
    );
    let foreign = send(
        &server,
        &two,
        Request::get(&format!("/api/jobs/{}", jobs[0])),
    )
    .await;
    assert_eq!(foreign.status, 404);
    let chosen = json!({"prompt": tiny_graph(3), "prompt_id": jobs[0]});
    assert_eq!(
        post(&server, &two, "/api/prompt", &chosen).await.status,
        200
    );
}
