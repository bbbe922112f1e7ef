//! One replica: every family of the API does over rows and a bucket what it does over a directory.

use it::partners::Partner;
use it::{Message, Request, Socket};
use serde_json::json;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_runs_from_its_upload_to_its_output() {
    let Some(fleet) = Fleet::start("a graph in the cloud").await else {
        return;
    };
    let server = fleet.replica("one").await;
    let large = vec![7; 9 << 20];
    let asset = fleet.upload(&server, "large.txt", &large).await;
    let id = asset["id"].as_str().unwrap();
    let content = format!("/api/v2/assets/{id}/content");
    assert_eq!(fleet.get(&server, &content).await.body, large);
    let part = Request::get(&content).header("Range", "bytes=5-9");
    let part = fleet.send(&server, part).await;
    assert_eq!((part.status, part.body.len()), (206, 5));

    let job = fleet.submit(&server, &tiny_graph(1)).await;
    let events = fleet.events(&server, &job).await;
    assert!(
        events.last().unwrap().contains("succeeded"),
        "{events:#?}: {}",
        fleet.log("one")
    );
    let ended = fleet.look(&server, &job).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let output = ended["outputs"][0]["id"].as_str().unwrap();
    let content = format!("/api/v2/assets/{output}/content");
    let picture = fleet.get(&server, &content).await;
    assert_eq!(picture.header("content-type"), Some("image/png"));
    let list = fleet.get(&server, "/api/v2/jobs").await.json();
    assert_eq!(list["jobs"][0]["id"], job.as_str(), "{list}");
    let about = |what| format!("/api/v2/jobs/{job}/{what}");
    let logs = fleet.get(&server, &about("logs")).await.json();
    assert_eq!(logs["complete"], true, "{logs}");
    let workflow = fleet.get(&server, &about("workflow")).await.json();
    assert_eq!(workflow["workflow"], tiny_graph(1));

    // Another process finds everything again.
    assert!(server.terminate().await.unwrap().success());
    let server = fleet.replica("one").await;
    assert_eq!(fleet.look(&server, &job).await["status"], "succeeded");
    assert_eq!(fleet.get(&server, &content).await.body, picture.body);
    assert!(server.terminate().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_of_the_older_api_is_told_on_its_socket_and_remembered() {
    let Some(fleet) = Fleet::start("a prompt in the cloud").await else {
        return;
    };
    let server = fleet.replica("one").await;
    let socket = fleet.own(Request::get("/ws?clientId=c"));
    let mut socket = Socket::open(server.address, socket).await.unwrap();
    let body = json!({"prompt": tiny_graph(2), "client_id": "c"});
    let told = fleet.send(&server, Request::post_json("/api/prompt", &body));
    let id = told.await.json()["prompt_id"].as_str().unwrap().to_owned();
    let ends =
        |message: &Message| message.kind() == "executing" && message.data()["node"].is_null();
    let heard = socket.until(ends).await.unwrap();
    let kinds: Vec<String> = heard.iter().map(Message::kind).collect();
    for kind in ["execution_start", "executed", "execution_success"] {
        assert!(kinds.iter().any(|heard| heard == kind), "{kinds:?}");
    }
    let history = fleet.get(&server, &format!("/history/{id}")).await.json();
    assert_eq!(history[&id]["status"]["status_str"], "success", "{history}");
    let file = &history[&id]["outputs"]["2"]["images"][0]["filename"];
    let view = format!("/view?filename={}&type=output", file.as_str().unwrap());
    let link = server.send(&fleet.own(Request::get(&view))).await.unwrap();
    let link = path_of(link.header("location").unwrap());
    let picture = fleet.get(&server, &link).await;
    assert_eq!(picture.header("content-type"), Some("image/png"));
    let saved = Request::post_json("/api/settings/a", &json!("b"));
    fleet.send(&server, saved).await;
    let settings = fleet.get(&server, "/api/settings").await.json();
    assert_eq!(settings["a"], "b");
    assert!(server.terminate().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_model_is_made_once_and_billed_once() {
    let Some(fleet) = Fleet::start("a call in the cloud").await else {
        return;
    };
    let server = fleet.replica("one").await;
    let granted = fleet.operate("one", &["account", "credit", "acme", "100"]);
    granted.await;
    for (model, cents) in [(AT_ONCE, 1), (POLLED, 4)] {
        let first = server.send(&fleet.call(model, model)).await.unwrap();
        assert_eq!(first.status, 200, "{}", first.text());
        let again = server.send(&fleet.call(model, model)).await.unwrap();
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!((again.status, &again.body), (200, &first.body));
        assert_eq!(fleet.charges("one").await[0], -cents);
    }
    assert_eq!(fleet.charges("one").await, [-4, -1]);
    assert_eq!(fleet.submits(Partner::FalSync), 1);
    assert_eq!(fleet.submits(Partner::Bfl), 1);
    assert!(server.terminate().await.unwrap().success());
}
