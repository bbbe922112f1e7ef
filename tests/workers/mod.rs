//! Jobs at ComfyUI workers: the real program in front of simulated ones that do what the real one does, and go wrong on demand.

mod away;
mod campaign;
mod cancel;
mod commands;
mod configured;
mod explain;
mod faults;
mod metrics;
mod older;
mod running;
mod scenes;
mod slots;

use std::path::Path;
use std::time::Duration;

use it::comfy::Version;
use it::{Answer, Comfy, Form, Request, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server in front of workers.
struct Rig {
    data: TempDir,
    server: Server,
    workers: Vec<Comfy>,
}

impl Rig {
    /// One worker as recorded.
    async fn start() -> Self {
        Self::with(vec![Comfy::start(Version::Recorded).await.unwrap()]).await
    }

    /// These workers, each known to the server when this returns.
    async fn with(workers: Vec<Comfy>) -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = serve(data.path(), &workers).await;
        let rig = Self {
            data,
            server,
            workers,
        };
        for worker in &rig.workers {
            rig.until_worker(worker, &["ready"]).await;
        }
        rig
    }

    fn worker(&self) -> &Comfy {
        &self.workers[0]
    }

    /// Waits until a worker is in one of these states, as metrics show it.
    async fn until_worker(&self, worker: &Comfy, states: &[&str]) {
        let name = worker.url().replace("http://", "");
        let shown =
            |state: &&str| format!("easel_worker_state{{worker=\"{name}\",state=\"{state}\"}} 1");
        let wanted: Vec<String> = states.iter().map(shown).collect();
        for _ in 0..600 {
            // What is not ready answers as well.
            let metrics = self.send(Request::get("/metrics")).await.text();
            if wanted.iter().any(|line| metrics.contains(line.as_str())) {
                return;
            }
            pause().await;
        }
        panic!("the worker {name} never was {states:?}");
    }

    async fn send(&self, request: Request) -> Answer {
        self.server.send(&request).await.unwrap()
    }

    /// Uploads a file; answers the name that the older API gives it.
    async fn upload(&self, name: &str, bytes: &[u8]) -> String {
        let request = Request::new("POST", "/api/upload/image")
            .header("Content-Type", &Form::content_type())
            .body(Form::new().file("image", name, bytes).body());
        let answer = self.send(request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["name"].as_str().unwrap().to_owned()
    }

    async fn try_submit(&self, graph: &Value) -> Answer {
        let body = json!({"workflow": graph});
        self.send(Request::post_json("/api/v2/jobs", &body)).await
    }

    /// Submits a graph; answers the id of its job.
    async fn submit(&self, graph: &Value) -> String {
        let answer = self.try_submit(graph).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    async fn look(&self, job: &str) -> Value {
        let target = format!("/api/v2/jobs/{job}");
        self.send(Request::get(&target)).await.json()
    }

    /// Waits for the end of a job.
    async fn ended(&self, job: &str) -> Value {
        // The stream of its events ends with it.
        let target = format!("/api/v2/jobs/{job}/events");
        self.send(Request::get(&target)).await;
        let job = self.look(job).await;
        let status = job["status"].as_str().unwrap_or_default();
        assert!(
            ["succeeded", "failed", "canceled", "expired"].contains(&status),
            "{job:#}"
        );
        job
    }

    async fn run(&self, graph: &Value) -> Value {
        let job = self.submit(graph).await;
        self.ended(&job).await
    }

    async fn cancel(&self, job: &str) {
        let target = format!("/api/v2/jobs/{job}/cancel");
        let answer = self.send(Request::new("POST", &target)).await;
        assert!(answer.status < 300, "{}", answer.text());
    }

    /// The bytes of an output.
    async fn output(&self, job: &Value, at: usize) -> Vec<u8> {
        let url = job["outputs"][at]["url"].as_str();
        let url = url.unwrap_or_else(|| panic!("no output {at}: {job:#}"));
        let path = url.splitn(4, '/').nth(3).unwrap();
        let answer = self.send(Request::get(&format!("/{path}"))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.body
    }

    /// Kills the server and starts it again over the same data.
    async fn crash(self) -> Self {
        let Self {
            data,
            server,
            workers,
        } = self;
        server.kill().await.unwrap();
        let server = serve(data.path(), &workers).await;
        Self {
            data,
            server,
            workers,
        }
    }
}

async fn serve(data: &Path, workers: &[Comfy]) -> Server {
    let mut arguments = Vec::new();
    for worker in workers {
        arguments.extend(["--comfyui".to_owned(), worker.url()]);
    }
    Server::start_with(data, arguments).await.unwrap()
}

/// Waits between two looks at a state that sends no event.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// A graph of a class that workers alone have: a picture that takes `steps`, saved under a name of its own.
fn graph(name: &str, steps: u32) -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "Wait", "inputs": {"image": ["1", 0], "steps": steps}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": name}}
    })
}

/// A graph that samples.
fn sampled(name: &str, checkpoint: &str, steps: u32) -> Value {
    json!({
        "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": checkpoint}},
        "2": {"class_type": "Sampler", "inputs": {"model": ["1", 0], "seed": 123_456, "steps": steps}},
        "3": {"class_type": "Decode", "inputs": {"samples": ["2", 0]}},
        "4": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": name}}
    })
}
