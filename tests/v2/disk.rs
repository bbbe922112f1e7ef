//! A disk that fills up, at every step: clean refusals, nothing half there, and room is all that heals it takes.

use it::{Answer, Disk, Form, Request, Server, skipped};
use serde_json::{Value, json};

use super::tiny_graph;

const MIB: u64 = 1 << 20;

/// 8 MiB are kept from uploads, and 4 MiB of ballast beside 4 MiB from everything that grows.
const RESERVE: [&str; 4] = ["--min-free", "8MiB", "--ballast", "4MiB"];

struct Fixture {
    disk: Disk,
    server: Server,
}

impl Fixture {
    /// A server on a disk of 96 MiB; `None`, said aloud, where none can be mounted.
    async fn new(test: &str, arguments: &[&str]) -> Option<Self> {
        let Some(disk) = Disk::new(96).await.unwrap() else {
            skipped(test, "no file system can be mounted here");
            return None;
        };
        let server = disk.start(RESERVE.iter().chain(arguments)).await.unwrap();
        Some(Self { disk, server })
    }

    async fn send(&self, request: Request) -> Answer {
        self.server.send(&request).await.unwrap()
    }

    async fn leave(&self, bytes: u64) {
        self.disk.leave(bytes).await.unwrap();
    }

    async fn upload(&self, key: &str, content: &[u8]) -> Answer {
        let form = Form::new()
            .field("content_type", "application/octet-stream")
            .field("file_path", "file.bin")
            .file("file", "file.bin", content);
        self.send(
            Request::new("POST", "/api/v2/assets")
                .header("Content-Type", &Form::content_type())
                .header("Idempotency-Key", key)
                .body(form.body()),
        )
        .await
    }

    async fn submit(&self, key: &str, graph: &Value) -> Answer {
        let body = json!({"workflow": graph, "metadata": {"key": key}});
        self.send(Request::post_json("/api/v2/jobs", &body).header("Idempotency-Key", key))
            .await
    }

    /// Reads the events of a job to their end and answers the job as it then stands.
    async fn finished(&self, job: &Value) -> Value {
        let id = job["id"].as_str().unwrap();
        self.send(Request::get(&format!("/api/v2/jobs/{id}/events")))
            .await;
        self.job(id).await
    }

    async fn job(&self, id: &str) -> Value {
        self.send(Request::get(&format!("/api/v2/jobs/{id}")))
            .await
            .json()
    }

    async fn ready(&self) -> u16 {
        self.send(Request::get("/ready")).await.status
    }

    async fn jobs_of(&self, key: &str) -> usize {
        let target = format!("/api/v2/jobs?metadata%5Bkey%5D={key}");
        let page = self.send(Request::get(&target)).await.json();
        page["jobs"].as_array().unwrap().len()
    }

    fn half_written(&self) -> usize {
        std::fs::read_dir(self.disk.path("data/tmp"))
            .unwrap()
            .count()
    }

    fn has_ballast(&self) -> bool {
        self.disk.path("data/ballast").exists()
    }
}

fn refused(answer: &Answer) {
    let envelope = answer.text();
    assert_eq!(
        (answer.status, answer.error_code().as_str()),
        (500, "upstream_error"),
        "{envelope}"
    );
    for inside in ["disk", "SQLite", "data/"] {
        assert!(!envelope.contains(inside), "{envelope}");
    }
}

/// Many pictures one after the other, each of some MiB.
fn long_graph(pictures: u32) -> Value {
    let mut graph = serde_json::Map::new();
    for number in 0..pictures {
        graph.insert(
            format!("{number}"),
            json!({"class_type": "EmptyImage", "inputs": {"width": 2048, "height": 2048, "batch_size": 2, "color": number}}),
        );
        graph.insert(
            format!("save-{number}"),
            json!({"class_type": "SaveImage", "inputs": {"images": [format!("{number}"), 0], "filename_prefix": "long"}}),
        );
    }
    graph.into()
}

#[tokio::test]
async fn uploads_below_the_reserve_are_refused_and_taken_again_when_there_is_room() {
    let name = "uploads_below_the_reserve";
    let Some(it) = Fixture::new(name, &[]).await else {
        return;
    };
    assert_eq!(it.ready().await, 200);
    it.leave(6 * MIB).await;
    let content = b"refused at first";
    refused(&it.upload("one", content).await);
    assert_eq!(it.ready().await, 503);
    assert_eq!(it.half_written(), 0);
    let by_hash = format!(
        "/api/v2/assets/by-hash/{}",
        asset_store::BlobHash::of(content)
    );
    assert_eq!(it.send(Request::new("HEAD", &by_hash)).await.status, 404);
    // What is kept from uploads is there for jobs.
    let submitted = it.submit("job", &tiny_graph(1)).await;
    assert_eq!(submitted.status, 201, "{}", submitted.text());
    assert_eq!(
        it.finished(&submitted.json()).await["status"],
        json!("succeeded")
    );

    it.leave(60 * MIB).await;
    assert_eq!(it.ready().await, 200);
    let taken = it.upload("one", content).await;
    assert_eq!(taken.status, 201, "{}", taken.text());
    assert_eq!(taken.header("Idempotent-Replayed"), None);
}

#[tokio::test]
async fn an_upload_that_does_not_fit_leaves_nothing() {
    let Some(it) = Fixture::new("an_upload_that_does_not_fit", &[]).await else {
        return;
    };
    it.leave(20 * MIB).await;
    let content = vec![7; 40 << 20];
    refused(&it.upload("large", &content).await);
    assert_eq!(it.half_written(), 0);
    assert_eq!(it.ready().await, 200, "what it took it gave back");
    let small = it.upload("small", b"fits").await;
    assert_eq!(small.status, 201, "{}", small.text());
    it.leave(70 * MIB).await;
    let taken = it.upload("large", &content).await;
    assert_eq!(taken.status, 201, "{}", taken.text());
    let id = taken.json()["id"].as_str().unwrap().to_owned();
    let read = it
        .send(Request::get(&format!("/api/v2/assets/{id}/content")))
        .await;
    assert_eq!(
        asset_store::BlobHash::of(&read.body),
        asset_store::BlobHash::of(&content)
    );
}

#[tokio::test]
async fn a_submission_on_a_full_disk_burns_no_key() {
    let Some(it) = Fixture::new("a_submission_on_a_full_disk", &[]).await else {
        return;
    };
    for free in [2 * MIB, 0] {
        it.leave(free).await;
        let key = format!("key-{free}");
        refused(&it.submit(&key, &tiny_graph(2)).await);
        assert_eq!(it.jobs_of(&key).await, 0);
        assert_eq!(it.ready().await, 503);
        it.leave(60 * MIB).await;
        let taken = it.submit(&key, &tiny_graph(2)).await;
        assert_eq!(taken.status, 201, "{}", taken.text());
        assert_eq!(taken.header("Idempotent-Replayed"), None);
        assert_eq!(it.jobs_of(&key).await, 1);
        assert_eq!(
            it.finished(&taken.json()).await["status"],
            json!("succeeded")
        );
    }
}

#[tokio::test]
async fn a_running_job_ends_on_a_full_disk_and_waiting_ones_run_when_there_is_room() {
    let Some(it) = Fixture::new("a_running_job_ends_on_a_full_disk", &["--job-slots", "1"]).await
    else {
        return;
    };
    let running = it.submit("running", &long_graph(40)).await.json();
    let waiting = it.submit("waiting", &tiny_graph(3)).await.json();
    let id = running["id"].as_str().unwrap();
    // Its first output says that it is at work, with most of it to come.
    let mut events = it::Connection::open(it.server.address).await.unwrap();
    let follow = Request::get(&format!("/api/v2/jobs/{id}/events"));
    events
        .write(&follow.bytes(it.server.address))
        .await
        .unwrap();
    assert_eq!(events.head().await.unwrap().0, 200);
    let mut seen = String::new();
    while !seen.contains("event: output") {
        let chunk = events.chunk().await.unwrap().expect("it has not ended");
        seen.push_str(&String::from_utf8_lossy(&chunk));
    }
    it.leave(0).await;
    while let Some(chunk) = events.chunk().await.unwrap() {
        seen.push_str(&String::from_utf8_lossy(&chunk));
    }
    let ended = it.job(id).await;
    assert_eq!(ended["status"], json!("failed"), "{ended}");
    assert!(ended["error"]["message"].is_string(), "{ended}");
    assert!(!it.has_ballast(), "it was given up for this");
    assert_eq!(it.half_written(), 0);
    let waits = it.job(waiting["id"].as_str().unwrap()).await;
    assert_eq!(
        waits["status"],
        json!("queued"),
        "it waits for room: {waits}"
    );
    // What is over stays over, also in the eyes of the next process, which starts on the full disk.
    let Fixture { disk, server } = it;
    server.kill().await.unwrap();
    let server = disk
        .start(RESERVE.iter().chain(&["--job-slots", "1"]))
        .await
        .unwrap();
    let it = Fixture { disk, server };
    let again = it.job(id).await;
    assert_eq!(again["status"], json!("failed"), "{again}");
    // Their links name the address of the process that is asked.
    let ids = |job: &Value| -> Vec<Value> {
        let outputs = job["outputs"].as_array().unwrap().iter();
        outputs.map(|output| output["id"].clone()).collect()
    };
    assert_eq!(ids(&again), ids(&ended));
    assert_eq!(it.ready().await, 503);
    for output in ended["outputs"].as_array().unwrap() {
        let target = format!("/api/v2/assets/{}/content", output["id"].as_str().unwrap());
        let read = it.send(Request::get(&target)).await;
        assert_eq!(
            asset_store::BlobHash::of(&read.body).to_string(),
            output["hash"].as_str().unwrap()
        );
    }

    it.leave(50 * MIB).await;
    assert_eq!(it.finished(&waiting).await["status"], json!("succeeded"));
    assert_eq!(it.ready().await, 200);
    assert!(it.has_ballast(), "it was made again");
}
