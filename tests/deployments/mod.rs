//! Deployments whose workers are processes that the real program starts, stops, and finds again after a crash.

mod addresses;
mod admin;
mod crashes;
mod revisions;
mod scaling;
mod surface;

use std::path::Path;
use std::time::Duration;

use it::process::{binary_of, lifeline};
use it::{Answer, Operated, Request, Server, operate};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server with a deployment `sim`.
struct Rig {
    data: TempDir,
    server: Server,
}

/// The file of a deployment of simulated workers.
fn file(arguments: &[&str], settings: &str) -> String {
    let program = binary_of("simulated-comfyui").display().to_string();
    let own = [program.as_str(), "--port", "{port}", "--name", "{name}"];
    // A server that is killed leaves its workers behind: they end with the test at last.
    let lifeline = lifeline().to_string();
    let own = own.into_iter().chain(["--while", &lifeline]);
    let command: Vec<&str> = own.chain(arguments.iter().copied()).collect();
    format!("name = \"sim\"\ncommand = {}\n{settings}\n", json!(command))
}

impl Rig {
    async fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = serve(data.path()).await;
        Self { data, server }
    }

    /// A server whose deployment has a revision that takes jobs.
    async fn with(arguments: &[&str], settings: &str) -> Self {
        let rig = Self::start().await;
        rig.apply(arguments, settings).await;
        rig.until("revision 1", |it| it["revision"] == 1).await;
        rig
    }

    async fn command(&self, arguments: &[&str]) -> Operated {
        operate(self.data.path(), arguments).await
    }

    /// A command that succeeds; what it printed.
    async fn done(&self, arguments: &[&str]) -> String {
        let operated = self.command(arguments).await;
        assert_eq!(operated.code, 0, "{arguments:?}: {}", operated.stderr);
        operated.stdout
    }

    async fn apply(&self, arguments: &[&str], settings: &str) {
        let path = self.data.path().join("sim.toml");
        std::fs::write(&path, file(arguments, settings)).unwrap();
        self.done(&["deployment", "apply", path.to_str().unwrap()])
            .await;
    }

    async fn shown(&self) -> Value {
        let shown = self.done(&["deployment", "show", "sim", "--json"]).await;
        serde_json::from_str(&shown).unwrap()
    }

    /// Waits until the deployment is so.
    async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut shown = Value::Null;
        for _ in 0..600 {
            shown = self.shown().await;
            if is_so(&shown) {
                return shown;
            }
            pause().await;
        }
        let events = self.done(&["deployment", "events", "sim"]).await;
        panic!("never {what}: {shown:#}\n{events}");
    }

    /// Waits until the deployment is in a state, with so many workers.
    async fn until_state(&self, state: &str, workers: usize) -> Value {
        let is_so = |it: &Value| it["state"] == state && of(it).len() == workers;
        self.until(state, is_so).await
    }

    async fn send(&self, request: Request) -> Answer {
        self.server.send(&request).await.unwrap()
    }

    async fn try_submit(&self, graph: &Value) -> Answer {
        let body = json!({"workflow": graph});
        let request = Request::post_json("/deployment/sim/api/v2/jobs", &body);
        self.send(request).await
    }

    /// Submits a graph to the deployment; answers the id of its job.
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
        let target = format!("/deployment/sim/api/v2/jobs/{job}/events");
        self.send(Request::get(&target)).await;
        self.look(job).await
    }

    async fn succeeds(&self, job: &str) -> Value {
        let job = self.ended(job).await;
        assert_eq!(job["status"], "succeeded", "{job:#}");
        job
    }

    /// Waits until a job runs.
    async fn until_runs(&self, job: &str) {
        for _ in 0..600 {
            let seen = self.look(job).await;
            if seen["status"] == "running" && seen["progress"]["current_node"] == "2" {
                return;
            }
            pause().await;
        }
        panic!("the job never ran: {:#}", self.look(job).await);
    }

    /// The kinds of everything that happened, oldest first.
    async fn kinds(&self) -> Vec<String> {
        let events = self.done(&["deployment", "events", "sim", "--json"]).await;
        let events: Vec<Value> = serde_json::from_str(&events).unwrap();
        let kinds = events.iter().rev();
        kinds
            .map(|event| event["kind"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Kills the server and starts it again over the same data.
    async fn crash(self) -> Self {
        let Self { data, server } = self;
        server.kill().await.unwrap();
        let server = serve(data.path()).await;
        Self { data, server }
    }
}

async fn serve(data: &Path) -> Server {
    Server::start_with(data, [] as [&str; 0]).await.unwrap()
}

/// Waits between two looks at a state that sends no event.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// The workers of a deployment, as it is shown.
fn of(shown: &Value) -> &Vec<Value> {
    shown["workers"].as_array().unwrap()
}

/// The process of its first worker.
fn pid(shown: &Value) -> i64 {
    of(shown)[0]["pid"].as_i64().unwrap()
}

/// Whether a process lives.
fn lives(pid: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

async fn until_gone(pid: i64) {
    for _ in 0..600 {
        if !lives(pid) {
            return;
        }
        pause().await;
    }
    panic!("the process {pid} never ended");
}

/// A graph that takes `steps`.
fn graph(name: &str, steps: u32) -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "Wait", "inputs": {"image": ["1", 0], "steps": steps}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": name}}
    })
}
