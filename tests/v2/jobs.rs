//! Jobs as a client sees them: shape, list, events, cancel, holds.

use it::{Connection, Request, Server};
use serde_json::{Value, json};

use super::tiny_graph;

pub(super) async fn submit(server: &Server, body: &Value) -> Value {
    let answer = server
        .send(&Request::post_json("/api/v2/jobs", body))
        .await
        .unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

/// Server-sent events of a body: name and data of each.
fn events(body: &str) -> Vec<(String, Value)> {
    let blocks = body
        .split("\n\n")
        .filter(|block| !block.trim().is_empty() && !block.starts_with(':'));
    blocks
        .map(|block| {
            let line = |field: &str| {
                block
                    .lines()
                    .find_map(|line| line.strip_prefix(field))
                    .unwrap_or_default()
                    .trim()
                    .to_owned()
            };
            (
                line("event:"),
                serde_json::from_str(&line("data:")).unwrap(),
            )
        })
        .collect()
}

pub(super) async fn events_of(server: &Server, job: &Value) -> Vec<(String, Value)> {
    let target = format!("/api/v2/jobs/{}/events", job["id"].as_str().unwrap());
    let answer = server.send(&Request::get(&target)).await.unwrap();
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    events(&answer.text())
}

pub(super) async fn look(server: &Server, job: &Value) -> Value {
    server
        .send(&Request::get(&format!(
            "/api/v2/jobs/{}",
            job["id"].as_str().unwrap()
        )))
        .await
        .unwrap()
        .json()
}

#[tokio::test]
async fn a_job_has_every_field_from_its_first_answer_on() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let body = json!({"workflow": tiny_graph(7), "metadata": {"a": "b"}});
    let first = submit(&server, &body).await;
    events_of(&server, &first).await;
    let last = look(&server, &first).await;
    let fields = [
        "id",
        "status",
        "created_at",
        "started_at",
        "completed_at",
        "expires_at",
        "queue_position",
        "progress",
        "outputs",
        "error",
        "urls",
        "metrics",
        "metadata",
    ];
    for (name, job) in [("first", &first), ("last", &last)] {
        for field in fields {
            assert!(
                job.get(field).is_some(),
                "{field} is absent in the {name} answer: {job}"
            );
        }
        for link in ["self", "events", "cancel", "logs"] {
            let url = job["urls"][link].as_str().unwrap();
            assert!(
                url.starts_with(&format!("http://{}/api/v2/jobs/", server.address)),
                "{url}"
            );
        }
    }
    assert_eq!(
        (&last["status"], &last["error"], &last["queue_position"]),
        (&json!("succeeded"), &Value::Null, &Value::Null)
    );
    assert_eq!(
        (
            &last["progress"]["value"],
            &last["progress"]["nodes_done"],
            &last["progress"]["nodes_total"]
        ),
        (&json!(1.0), &json!(2), &json!(2))
    );
    assert_eq!(last["metadata"], json!({"a": "b"}));
    let output = &last["outputs"][0];
    assert_eq!(
        (&output["node_id"], &output["name"], &output["type"]),
        (&json!("2"), &json!("tiny_00001_.png"), &json!("image"))
    );
    assert!(
        last["metrics"]["queue_ms"].is_u64() && last["metrics"]["execution_ms"].is_u64(),
        "{}",
        last["metrics"]
    );

    let workflow = server
        .send(&Request::get(&format!(
            "/api/v2/jobs/{}/workflow",
            last["id"].as_str().unwrap()
        )))
        .await
        .unwrap();
    assert_eq!(
        workflow.json(),
        json!({"workflow": tiny_graph(7), "format": "api"})
    );
    let logs = server
        .send(&Request::get(&format!(
            "/api/v2/jobs/{}/logs",
            last["id"].as_str().unwrap()
        )))
        .await
        .unwrap();
    assert_eq!((logs.status, &logs.json()["complete"]), (200, &json!(true)));
    let nodes = &logs.json()["nodes"];
    let worked: Vec<_> = ["1", "2"]
        .into_iter()
        .map(|id| {
            nodes
                .as_array()
                .unwrap()
                .iter()
                .find(|node| node["node_id"] == id)
        })
        .collect();
    for node in worked {
        let node = node.unwrap_or_else(|| panic!("{nodes}"));
        let time = |name: &str| node[name].as_str().map(str::to_owned);
        assert!(
            time("started_at") >= time_of(&last, "started_at"),
            "{node} {last}"
        );
        assert!(time("ended_at") >= time("started_at"), "{node}");
        assert_eq!(node["cached"], false, "{node}");
    }
    assert!(server.terminate().await.unwrap().success());
}

#[tokio::test]
async fn a_stream_tells_outputs_before_the_end_and_then_ends() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let mut graph = tiny_graph(9);
    graph["3"] = json!({"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}});
    let first = submit(&server, &json!({"workflow": graph})).await;
    for attempt in ["live", "afterwards"] {
        let events = events_of(&server, &first).await;
        let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
        // A job may be over before its stream begins: its status is then told once, at the end.
        assert!(
            matches!(names.first(), Some(&"status" | &"progress")),
            "{attempt}: {names:?}"
        );
        assert_eq!(names.last(), Some(&"status"), "{attempt}: {names:?}");
        let (_, end) = events.last().unwrap();
        assert_eq!(
            (&end["status"], end["outputs"].as_array().unwrap().len()),
            (&json!("succeeded"), 2),
            "{attempt}: {end}"
        );
        assert_eq!(
            names.iter().filter(|name| **name == "output").count(),
            2,
            "{attempt}: {names:?}"
        );
        let progress: Vec<f64> = events
            .iter()
            .filter(|(name, _)| name == "progress")
            .map(|(_, data)| data["value"].as_f64().unwrap())
            .collect();
        assert!(
            progress.is_sorted() && progress.last() == Some(&1.0),
            "{attempt}: {progress:?}"
        );
    }
    let head = format!(
        "GET /api/v2/jobs/{}/events HTTP/1.1\r\nHost: {}\r\nLast-Event-ID: 7\r\n\r\n",
        first["id"].as_str().unwrap(),
        server.address
    );
    let mut connection = Connection::open(server.address).await.unwrap();
    connection.write(head.as_bytes()).await.unwrap();
    let answer = connection.answer(false).await.unwrap();
    assert!(
        !answer.text().contains("\nid:"),
        "the stream has no ids: {}",
        answer.text()
    );
    assert!(server.terminate().await.unwrap().success());
}

#[tokio::test]
async fn a_list_is_walked_while_jobs_arrive_and_each_is_met_once() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let mut submitted = Vec::new();
    for n in 0..7 {
        submitted.push(
            submit(
                &server,
                &json!({"workflow": tiny_graph(n), "metadata": {"walk": "1"}}),
            )
            .await["id"]
                .clone(),
        );
    }
    let (mut met, mut target) = (
        Vec::new(),
        "/api/v2/jobs?limit=3&metadata%5Bwalk%5D=1".to_owned(),
    );
    loop {
        let page = server.send(&Request::get(&target)).await.unwrap().json();
        for job in page["jobs"].as_array().unwrap() {
            assert!(
                job["create_time"].is_string()
                    && job["update_time"].is_string()
                    && job["urls"].is_object(),
                "{job}"
            );
            met.push(job["id"].clone());
        }
        submit(
            &server,
            &json!({"workflow": tiny_graph(99), "metadata": {"walk": "1"}}),
        )
        .await;
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        target = format!("/api/v2/jobs?limit=3&metadata%5Bwalk%5D=1&cursor={cursor}");
    }
    submitted.reverse();
    assert_eq!(met, submitted);
    assert!(server.terminate().await.unwrap().success());
}

#[tokio::test]
async fn inputs_and_outputs_of_a_job_cannot_be_deleted() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let first = submit(&server, &json!({"workflow": tiny_graph(3)})).await;
    events_of(&server, &first).await;
    let output = look(&server, &first).await["outputs"][0]["id"].clone();
    let refused = server
        .send(&Request::new(
            "DELETE",
            &format!("/api/v2/assets/{}", output.as_str().unwrap()),
        ))
        .await
        .unwrap();
    assert_eq!(
        (refused.status, refused.error_code().as_str()),
        (409, "asset_in_use")
    );
    assert!(
        !refused.text().contains("job"),
        "the body never says which hold applies: {}",
        refused.text()
    );
    assert!(server.terminate().await.unwrap().success());
}

#[tokio::test]
async fn a_restarted_server_has_what_it_had() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let first = submit(&server, &json!({"workflow": tiny_graph(5)})).await;
    events_of(&server, &first).await;
    let before = look(&server, &first).await;
    assert!(server.terminate().await.unwrap().success());
    let server = Server::start(data.path()).await.unwrap();
    let after = look(&server, &first).await;
    for field in [
        "id",
        "status",
        "created_at",
        "completed_at",
        "expires_at",
        "progress",
        "metadata",
    ] {
        assert_eq!(before[field], after[field], "{field}");
    }
    let output = &after["outputs"][0];
    let content = server
        .send(&Request::get(&format!(
            "/api/v2/assets/{}/content",
            output["id"].as_str().unwrap()
        )))
        .await
        .unwrap();
    assert_eq!(
        content.body.len() as u64,
        output["size_bytes"].as_u64().unwrap()
    );
    assert!(server.terminate().await.unwrap().success());
}

#[tokio::test]
async fn a_second_server_over_the_same_folder_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    assert!(
        Server::start(data.path()).await.is_err(),
        "two servers share a folder"
    );
    assert!(server.terminate().await.unwrap().success());
}

/// A time of a job, as text; texts of times order as times do.
fn time_of(job: &Value, name: &str) -> Option<String> {
    job[name].as_str().map(str::to_owned)
}
