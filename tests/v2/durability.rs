//! Nothing that was acknowledged is ever lost, whenever the process dies.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use asset_store::BlobHash;
use it::{Answer, Request, Server};
use serde_json::{Value, json};

use super::tiny_graph;

/// How often the process is killed.
const CYCLES: u32 = 50;

/// Clients that submit at the same time.
const CLIENTS: u32 = 4;

/// What the world outside the process knows: it survives every kill.
#[derive(Default)]
struct Oracle {
    /// Every submission that was sent, by its key.
    sent: HashMap<String, Value>,
    /// The job of every submission that was acknowledged, by its key.
    acknowledged: HashMap<String, String>,
}

fn submission(key: &str, color: u32) -> Value {
    json!({"workflow": tiny_graph(color), "metadata": {"key": key}})
}

async fn submit(server: SocketAddr, key: &str, body: &Value) -> std::io::Result<Answer> {
    Request::post_json("/api/v2/jobs", body)
        .header("Idempotency-Key", key)
        .send(server)
        .await
}

/// One client: submits until the server is gone; tells what was sent before it is sent, and what was acknowledged.
async fn client(
    server: SocketAddr,
    cycle: u32,
    number: u32,
    told: tokio::sync::mpsc::Sender<(String, Value, Option<String>)>,
) {
    for n in 0.. {
        let key = format!("{cycle}-{number}-{n}");
        let body = submission(&key, cycle * 10_000 + number * 1_000 + n % 1_000);
        told.send((key.clone(), body.clone(), None)).await.unwrap();
        let Ok(answer) = submit(server, &key, &body).await else {
            return;
        };
        if answer.status == 429 {
            continue;
        }
        assert_eq!(answer.status, 201, "{}", answer.text());
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        if told.send((key, body, Some(id))).await.is_err() {
            return;
        }
    }
}

/// Reads the events of a job to their end and answers the job as it then stands.
async fn finished(server: SocketAddr, id: &str) -> Value {
    let events = Request::get(&format!("/api/v2/jobs/{id}/events"))
        .send(server)
        .await
        .unwrap();
    assert_eq!(events.status, 200, "{}", events.text());
    Request::get(&format!("/api/v2/jobs/{id}"))
        .send(server)
        .await
        .unwrap()
        .json()
}

async fn check_outputs(server: SocketAddr, job: &Value) {
    for output in job["outputs"].as_array().unwrap() {
        let id = output["id"].as_str().unwrap();
        let content = Request::get(&format!("/api/v2/assets/{id}/content"))
            .send(server)
            .await
            .unwrap();
        assert_eq!(
            content.status, 200,
            "an output of {} is not readable",
            job["id"]
        );
        assert_eq!(
            BlobHash::of(&content.body).to_string(),
            output["hash"].as_str().unwrap()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_job_is_lost_over_fifty_kills() {
    let data = tempfile::tempdir().unwrap();
    let mut oracle = Oracle::default();
    // A seeded walk decides after how many acknowledgements the process dies.
    let mut random = 0x9e37_79b9_u32;
    for cycle in 0..CYCLES {
        let server = Server::start(data.path()).await.unwrap();
        let (told, mut hears) = tokio::sync::mpsc::channel(1);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| tokio::spawn(client(server.address, cycle, number, told.clone())))
            .collect();
        drop(told);
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let enough = 1 + (random >> 16) % 24;
        let mut acknowledged = 0;
        let mut server = Some(server);
        while let Some((key, body, id)) = hears.recv().await {
            oracle.sent.insert(key.clone(), body);
            if let Some(id) = id {
                oracle.acknowledged.insert(key, id);
                acknowledged += 1;
            }
            if acknowledged == enough
                && let Some(server) = server.take()
            {
                server.kill().await.unwrap();
            }
        }
        for client in clients {
            client.await.unwrap();
        }
    }

    let server = Server::start(data.path()).await.unwrap();
    let mut statuses: HashMap<String, u32> = HashMap::new();
    for (key, id) in &oracle.acknowledged {
        let job = finished(server.address, id).await;
        assert_eq!(
            job["metadata"]["key"],
            key.as_str(),
            "job {id} is another one: {job}"
        );
        let status = job["status"].as_str().unwrap().to_owned();
        let lost = status == "failed" && job["error"]["code"] == "worker_lost";
        assert!(
            status == "succeeded" || lost,
            "job {id} ended as {status}: {}",
            job["error"]
        );
        check_outputs(server.address, &job).await;
        *statuses.entry(status).or_default() += 1;
    }
    // Sending again whatever was sent gives the one job of its key, acknowledged or not.
    let mut ids = HashSet::new();
    for (key, body) in &oracle.sent {
        let answer = submit(server.address, key, body).await.unwrap();
        if answer.status == 429 {
            continue;
        }
        assert_eq!(answer.status, 201, "{}", answer.text());
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        if let Some(acknowledged) = oracle.acknowledged.get(key) {
            assert_eq!(acknowledged, &id, "key {key} was answered with another job");
        }
        assert!(ids.insert(id), "two keys share a job");
    }
    assert!(
        statuses.get("succeeded").is_some_and(|count| *count > 0),
        "{statuses:?}"
    );
    assert!(server.terminate().await.unwrap().success());
}
