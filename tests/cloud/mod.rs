//! One installation in PostgreSQL and a bucket: the real program as one replica, and as several of one fleet.

mod deployments;
mod kept;
mod metrics;
mod migrate;
mod one;
mod outages;
mod publish;
mod refused;
mod rolling;
mod secured;
mod sockets;
mod trouble;
mod two;
mod versions;
mod webhooks;
mod workers;

use std::path::PathBuf;
use std::time::Duration;

use it::partners::{Partner, Partners, Step};
use it::{Answer, Form, Launch, Request, Server, operate, process::binary, skipped};
use serde_json::{Value, json};
use store_cloud::testing::{self, PostgresServer};
use tokio::process::Command;

use crate::router::streams;

/// Far longer than anything here takes, and than the leases of what a dead replica left.
const PATIENCE: Duration = Duration::from_secs(180);

/// A model that is polled, and one that answers at once.
const POLLED: &str = "bfl/flux-2-pro";
const AT_ONCE: &str = "fal-sync/flux-schnell";

/// What opens the bucket.
const BUCKET_KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "easel"),
    ("AWS_SECRET_ACCESS_KEY", "easel-secret"),
];

/// An installation with its servers, its partners and the account `acme`.
struct Fleet {
    partners: Partners,
    folder: tempfile::TempDir,
    /// Where rows and blobs are, as flags.
    place: [String; 4],
    /// The key of the account.
    key: String,
}

impl Fleet {
    /// A fresh installation; `None`, with a line that says so, where this machine or the program has none such.
    async fn start(test: &str) -> Option<Self> {
        if !is_possible(test).await {
            return None;
        }
        let database = testing::empty_database().await;
        Self::over(database).await
    }

    /// A fresh installation in an empty database.
    async fn over(database: String) -> Option<Self> {
        let bucket = testing::bucket()?;
        let endpoint = bucket.endpoint.expect("it is a server of this machine");
        let blobs = format!(
            "s3://{}/{}?endpoint={endpoint}",
            bucket.bucket, bucket.prefix
        );
        let folder = tempfile::tempdir().unwrap();
        crate::router::write_catalog(&folder.path().join("catalog"));
        let mut fleet = Self {
            partners: Partners::start().await.unwrap(),
            folder,
            place: ["--store".to_owned(), database, "--blobs".to_owned(), blobs],
            key: String::new(),
        };
        let founder = fleet.replica("founder").await;
        fleet.operate("founder", &["account", "add", "acme"]).await;
        fleet.key = fleet.operate("founder", &["key", "add", "acme"]).await;
        assert!(founder.terminate().await.unwrap().success());
        Some(fleet)
    }

    /// A process over the installation, with a directory of its own by this name.
    async fn replica(&self, name: &str) -> Server {
        self.replica_with(name, &[]).await
    }

    async fn replica_with(&self, name: &str, flags: &[&str]) -> Server {
        let relocations = self.partners.relocations().into_iter();
        let relocations: Vec<String> = relocations
            .map(|(host, url)| format!("{host}={url}"))
            .collect();
        let catalog = self.folder.path().join("catalog").display().to_string();
        let mut arguments = vec![
            "--require-credentials".to_owned(),
            "--catalog".to_owned(),
            catalog,
            "--relocate-partners".to_owned(),
            relocations.join(","),
        ];
        arguments.extend(self.place.clone());
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let variables = [
            ("BFL_API_KEY", Partner::Bfl.secret()),
            ("FAL_KEY", Partner::FalSync.secret()),
            ("ANTHROPIC_API_KEY", streams::partner().secret()),
        ];
        let keys = BUCKET_KEYS.map(|(name, value)| (name, value.to_owned()));
        let variables = keys.into_iter().chain(variables);
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        let launch = Launch {
            arguments: arguments.into_iter().map(Into::into).collect(),
            variables: variables.collect(),
            log: Some(self.log_of(name)),
            ..Launch::of("all-in-one")
        };
        let started = Server::launch(&self.data_of(name), &launch).await;
        started.unwrap_or_else(|error| panic!("{error}: {}", self.log(name)))
    }

    fn data_of(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log_of(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.log_of(name)).unwrap_or_default()
    }

    /// Runs a command on the installation through a replica.
    async fn operate(&self, name: &str, words: &[&str]) -> String {
        let mut command = Command::new(binary());
        command
            .args(words)
            .arg("--data-dir")
            .arg(self.data_of(name));
        let [_, store, _, blobs] = &self.place;
        command.env("EASEL_STORE", store).env("EASEL_BLOBS", blobs);
        command.envs(BUCKET_KEYS).kill_on_drop(true);
        let done = command.output().await.unwrap();
        let complaint = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{words:?}: {complaint}");
        String::from_utf8(done.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    }

    /// The request as the account's.
    fn own(&self, request: Request) -> Request {
        request.header("Authorization", &format!("Bearer {}", self.key))
    }

    /// Sends a request of the account, which has to succeed.
    async fn send(&self, server: &Server, request: Request) -> Answer {
        let target = format!("{request:.200?}");
        let answer = server.send(&self.own(request)).await.unwrap();
        assert!(
            answer.status < 300,
            "{target}: {} {}",
            answer.status,
            answer.text()
        );
        answer
    }

    async fn get(&self, server: &Server, target: &str) -> Answer {
        self.send(server, Request::get(target)).await
    }

    async fn upload(&self, server: &Server, name: &str, content: &[u8]) -> Value {
        let form = Form::new()
            .field("content_type", "text/plain")
            .field("file_path", name)
            .file("file", name, content);
        let request =
            Request::new("POST", "/api/v2/assets").header("Content-Type", &Form::content_type());
        self.send(server, request.body(form.body())).await.json()
    }

    /// Submits a graph; answers the job's id.
    async fn submit(&self, server: &Server, graph: &Value) -> String {
        let request = Request::post_json("/api/v2/jobs", &json!({ "workflow": graph }));
        let job = self.send(server, request).await.json();
        job["id"].as_str().unwrap().to_owned()
    }

    /// A job as a replica shows it.
    async fn look(&self, server: &Server, job: &str) -> Value {
        self.get(server, &format!("/api/v2/jobs/{job}"))
            .await
            .json()
    }

    /// The events of a job to its end: the name and the data of each, as they were told.
    async fn events(&self, server: &Server, job: &str) -> Vec<String> {
        let target = format!("/api/v2/jobs/{job}/events");
        let answer = in_time(self.get(server, &target)).await;
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        events_in(&answer.text())
    }

    /// A job at its end.
    async fn ended(&self, server: &Server, job: &str) -> Value {
        self.events(server, job).await;
        self.look(server, job).await
    }

    /// Calls a model as the account, under a key.
    fn call(&self, model: &str, key: &str) -> Request {
        let request =
            Request::post_json(&format!("/v1/models/{model}"), &json!({"prompt": "a cat"}));
        self.own(request.header("Idempotency-Key", key))
    }

    /// How many submissions a partner has seen.
    fn submits(&self, partner: Partner) -> usize {
        self.partners.requests_of(partner, Step::Submit).len()
    }

    /// What the account's ledger was charged, newest first.
    async fn charges(&self, name: &str) -> Vec<i64> {
        let shown = self
            .operate(name, &["account", "credit", "acme", "--json"])
            .await;
        let ledger: Value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}"));
        let entries = ledger
            .as_array()
            .unwrap_or_else(|| panic!("{shown}"))
            .iter();
        entries
            .map(|entry| entry["amount_cents"].as_i64().unwrap())
            .filter(|cents| *cents < 0)
            .collect()
    }
}

/// Waits, but not for ever.
async fn in_time<T>(what: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, what).await;
    done.expect("it takes far less time than that")
}

/// Whether this machine has the servers and the program its feature; a line says what is missing, and in CI it is a failure.
async fn is_possible(test: &str) -> bool {
    let missing = if !PostgresServer::is_installed() {
        "no PostgreSQL is installed"
    } else if !is_built().await {
        "the program was built without the feature `cloud`"
    } else {
        return true;
    };
    let in_ci = std::env::var("CI").as_deref() == Ok("true");
    assert!(!in_ci, "{missing}");
    skipped(test, missing);
    false
}

/// Whether the program has such installations in it, by what it says of one that cannot be.
async fn is_built() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--store",
        "postgres://",
        "--blobs",
        "s3://",
    ];
    let refused = operate(&folder.path().join("data"), arguments).await;
    assert_ne!(refused.code, 0, "{}", binary().display());
    !refused.stderr.contains("built without databases")
}

/// The events of a stream, without the lines that only keep it open.
fn events_in(stream: &str) -> Vec<String> {
    let blocks = stream.split("\n\n");
    let blocks = blocks.filter(|block| !block.trim().is_empty() && !block.starts_with(':'));
    blocks.map(str::to_owned).collect()
}

/// `EmptyImage -> SaveImage`, told apart by its colour.
fn tiny_graph(color: usize) -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": color}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "tiny"}},
    })
}

/// What is the same of a job whoever shows it: without links, which are the replica's and have their times.
fn without_links(mut job: Value) -> Value {
    job["urls"] = Value::Null;
    for output in job["outputs"].as_array_mut().into_iter().flatten() {
        output["url"] = Value::Null;
        output["url_expires_at"] = Value::Null;
    }
    job
}

/// The path of an absolute address of a replica.
fn path_of(url: &str) -> String {
    let behind = url.split_once("://").map_or(url, |(_, behind)| behind);
    let start = behind.find('/').unwrap_or_else(|| panic!("{url}"));
    behind[start..].to_owned()
}
