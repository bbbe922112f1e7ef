//! The older API over stores in memory: every kind of route once, and that accounts do not meet.

use http::Method;
use serde_json::{Value, json};

use super::harness::{Rig, Server, graph, principal, server};

fn older() -> Server {
    let rig = Rig::new();
    let older = rig.older();
    rig.server(principal("local"), |service| service.v1 = Some(older))
}

async fn submit(server: &Server) -> String {
    let answer = server
        .post_json("/prompt", &json!({"prompt": graph()}))
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let id = answer.json()["prompt_id"].as_str().map(str::to_owned);
    id.expect("an id")
}

#[tokio::test]
async fn a_submission_is_in_the_queue_and_leaves_it() {
    let server = older();
    let id = submit(&server).await;
    let queue = server.get("/api/queue").await.json();
    assert_eq!(queue["queue_pending"][0][1], json!(id));
    let info = server.get("/prompt").await.json();
    assert_eq!(info["exec_info"]["queue_remaining"], 1);
    let status = server.get(&format!("/api/job/{id}/status")).await.json();
    assert_eq!(status["status"], "queued_waiting");
    let entry = &server.get("/api/jobs?status=pending").await.json()["jobs"][0];
    assert_eq!(
        (&entry["id"], &entry["status"]),
        (&json!(id), &json!("pending"))
    );
    let detail = server.get(&format!("/api/jobs/{id}")).await.json();
    assert_eq!(
        (&detail["workflow"]["prompt"], &detail["queue_position"]),
        (&graph(), &json!(0))
    );
    let deleted = server
        .post_json("/queue", &json!({"delete": [id]}))
        .await
        .json();
    assert_eq!(deleted, json!({"deleted": [id], "cleared": false}));
    let history = server.get(&format!("/history/{id}")).await.json();
    assert_eq!(history[&id]["status"]["completed"], false);
    let v2 = server.get(&format!("/api/v2/jobs/{id}")).await.json();
    assert_eq!(v2["status"], "canceled", "one job, two views");
}

#[tokio::test]
async fn what_cannot_run_is_told_in_the_shape_of_a_submission() {
    let server = older();
    let refused = server
        .post_json("/api/prompt", &json!({"prompt": {}}))
        .await;
    let body = refused.json();
    assert_eq!(
        (refused.status.as_u16(), &body["error"]["type"]),
        (400, &json!("prompt_no_outputs"))
    );
    let mut half = graph();
    half["5"] = json!({"class_type": "SaveImage", "inputs": {}});
    let answer = server
        .post_json("/api/prompt", &json!({"prompt": half}))
        .await;
    let errors = &answer.json()["node_errors"]["5"]["errors"];
    assert_eq!(
        (answer.status.as_u16(), &errors[0]["type"]),
        (200, &json!("required_input_missing"))
    );
    let unreadable = server.send(Method::POST, "/prompt", &[], "{oh").await;
    assert_eq!(unreadable.json()["error"]["type"], "invalid_json");
}

#[tokio::test]
async fn settings_files_and_the_same_answers() {
    let server = older();
    for (path, expected) in [
        ("/api/users", json!({"storage": "server", "migrated": true})),
        ("/extensions", json!([])),
        ("/api/i18n", json!({})),
        ("/settings", json!({})),
        ("/api/object_info/Nothing", json!({})),
    ] {
        assert_eq!(server.get(path).await.json(), expected, "{path}");
    }
    assert!(server.get("/object_info").await.json()["SaveImage"]["output_node"] == true);
    server.post_json("/settings", &json!({"a": 1})).await;
    assert_eq!(server.get("/api/settings/a").await.json(), json!(1));
    let saved = server
        .send(Method::POST, "/userdata/w%2Fa.json", &[], "{}")
        .await;
    assert_eq!(
        (saved.status.as_u16(), saved.json()),
        (200, json!("w/a.json"))
    );
    let listed = server.get("/api/userdata?dir=w").await.json();
    assert_eq!(listed, json!(["a.json"]));
    let moved = server
        .send(
            Method::POST,
            "/userdata/w%2Fa.json/move/w%2Fb.json",
            &[],
            "",
        )
        .await;
    assert_eq!(moved.json(), json!("w/b.json"));
    let hidden = server.get("/userdata/.easel%2Fhistory.json").await;
    assert_eq!(hidden.status, 400);
    let view = server.get("/view?filename=none.png").await;
    let body: Value = view.json();
    assert_eq!(
        (view.status.as_u16(), &body["code"]),
        (404, &json!("NOT_FOUND"))
    );
    assert_eq!(server.get("/api/nothing").await.json(), body);
    let socket = server.get("/ws").await;
    assert_eq!(socket.status, 426);
}

#[tokio::test]
async fn an_upload_is_shown_through_a_signed_link() {
    let server = older();
    let (kind, body) = form();
    let headers = [("content-type", kind)];
    let told = server
        .send(Method::POST, "/upload/image", &headers, body)
        .await
        .json();
    let name = told["name"].as_str().expect("a name");
    assert_eq!(name, "x.png");
    let view = server
        .get(&format!("/view?filename={name}&type=input"))
        .await;
    assert_eq!(view.status, 302);
    let link = view.header("location").expect("a link");
    let path = link
        .strip_prefix("http://127.0.0.1:8189")
        .expect("the base");
    assert_eq!(server.get(path).await.body, "picture");
    let choices = &server.get("/internal/files/input").await.json();
    assert_eq!(choices, &json!(["x.png"]));
}

fn form() -> (&'static str, String) {
    let body = "--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"x.png\"\r\n\r\npicture\r\n\
                --b\r\nContent-Disposition: form-data; name=\"type\"\r\n\r\ninput\r\n--b--\r\n";
    ("multipart/form-data; boundary=b", body.to_owned())
}

#[tokio::test]
async fn another_account_finds_nothing() {
    let rig = Rig::new();
    let mine = rig.server(principal("a"), |service| service.v1 = Some(rig.older()));
    let theirs = rig.server(principal("b"), |service| service.v1 = Some(rig.older()));
    let id = submit(&mine).await;
    let unknown = "9c0e6f4a-0000-4000-8000-000000000009";
    for route in [
        "/api/job/{id}/status",
        "/api/jobs/{id}",
        "/history/{id}",
        "/api/history_v2/{id}",
    ] {
        let foreign = theirs.get(&route.replace("{id}", &id)).await;
        let absent = theirs.get(&route.replace("{id}", unknown)).await;
        assert_eq!(
            (foreign.status, foreign.body),
            (absent.status, absent.body),
            "{route}"
        );
    }
    let canceled = theirs
        .post_json(&format!("/api/jobs/{id}/cancel"), &json!({}))
        .await;
    assert_eq!(canceled.status, 404);
    let deleted = theirs
        .post_json("/api/queue", &json!({"delete": [id], "clear": true}))
        .await;
    assert_eq!(deleted.json()["deleted"], json!([]));
    let listed = theirs.get("/api/jobs").await.json();
    assert_eq!(listed["pagination"]["total"], 0);
    let status = mine.get(&format!("/api/job/{id}/status")).await.json();
    assert_eq!(status["status"], "queued_waiting");
}

#[tokio::test]
async fn without_it_the_paths_are_unknown() {
    let server = server();
    let answer = server.get("/api/queue").await;
    answer.is_error(404, "not_found");
}
