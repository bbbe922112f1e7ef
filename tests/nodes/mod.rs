//! Partner nodes: graphs that call models through the router, in the real program before simulated partners.

mod credentials;
mod definitions;
mod page;
mod running;
mod waiting;

use std::path::{Path, PathBuf};

use accounts::{AccountAdmin, AccountChange, CreditLedger, LedgerRef, Scope, Scopes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use it::partners::{Partner, Partners, Step};
use it::{Answer, Form, Launch, Request, Server};
use jiff::Timestamp;
use serde_json::{Value, json};
use store_local::Store;
use uuid::Uuid;

use crate::models::png::Picture;
use crate::router::{add_account, add_key, of, write_catalog};

/// A model that edits a picture and is polled, one that answers at once, one that answers with sound, and one with a video.
const EDIT: &str = "partner:bfl:flux-kontext-pro";
const AT_ONCE: &str = "partner:openai:gpt-image-1";
const SOUND: &str = "partner:elevenlabs:sound-generation";
const VIDEO: &str = "partner:luma:ray-2";

/// What an edit costs, in cents.
const PRICE: i64 = 4;

/// The whole program before its partners, with the account `acme`, whose key may do everything but administer.
struct Rig {
    partners: Partners,
    folder: tempfile::TempDir,
    launch: Launch,
    server: Option<Server>,
}

impl Rig {
    async fn start() -> Self {
        Self::with(&[], &[]).await
    }

    /// With further flags, and changes of the account.
    async fn with(flags: &[&str], changes: &[AccountChange]) -> Self {
        let partners = Partners::start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        write_catalog(&folder.path().join("catalog"));
        let store = Store::open(&folder.path().join("data")).unwrap();
        let rows = store.accounts();
        add_account(&rows, "acme", changes.to_vec()).await;
        add_account(&rows, "other", Vec::new()).await;
        let other = "other".parse().unwrap();
        let cause = LedgerRef::Grant(Uuid::new_v4());
        let granted = rows.grant(&other, cause, 100, Timestamp::now());
        granted.await.unwrap();
        add_key(&rows, "acme", "acme", Scopes::standard()).await;
        add_key(&rows, "other", "other", Scopes::standard()).await;
        let jobs_alone = [
            Scope::JobsRead,
            Scope::JobsWrite,
            Scope::AssetsRead,
            Scope::AssetsWrite,
        ];
        add_key(&rows, "acme", "jobs", jobs_alone.into_iter().collect()).await;
        drop((rows, store));

        let relocations = partners.relocations().into_iter();
        let relocations: Vec<String> = relocations
            .map(|(host, url)| format!("{host}={url}"))
            .collect();
        let catalog = folder.path().join("catalog");
        let mut arguments = vec![
            "--catalog".to_owned(),
            catalog.to_str().unwrap().to_owned(),
            "--relocate-partners".to_owned(),
            relocations.join(","),
            "--log-level".to_owned(),
            "debug".to_owned(),
        ];
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let secrets = [
            ("BFL_API_KEY", Partner::Bfl),
            ("OPENAI_API_KEY", Partner::OpenaiImages),
            ("ELEVENLABS_API_KEY", Partner::Elevenlabs),
            ("LUMAAI_API_KEY", Partner::Luma),
        ];
        let secrets = secrets.map(|(name, partner)| (name.to_owned(), partner.secret()));
        let launch = Launch {
            arguments: arguments.into_iter().map(Into::into).collect(),
            variables: secrets.to_vec(),
            log: Some(folder.path().join("log")),
            ..Launch::of("all-in-one")
        };
        let mut rig = Self {
            partners,
            folder,
            launch,
            server: None,
        };
        rig.begin().await;
        rig
    }

    /// Starts the program, over what the one before left.
    async fn begin(&mut self) {
        let started = Server::launch(&self.data(), &self.launch).await;
        self.server = Some(started.unwrap_or_else(|error| panic!("{error}: {}", self.log())));
    }

    async fn kill(&mut self) {
        self.server.take().unwrap().kill().await.unwrap();
    }

    async fn end(&mut self) {
        let server = self.server.take().unwrap();
        assert!(server.terminate().await.unwrap().success());
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Sends a request of `acme`.
    async fn send(&self, request: Request) -> Answer {
        let server = self.server.as_ref().unwrap();
        server.send(&of("acme", request)).await.unwrap()
    }

    async fn get(&self, target: &str) -> Value {
        let answer = self.send(Request::get(target)).await;
        assert_eq!(answer.status, 200, "{target}: {}", answer.text());
        answer.json()
    }

    /// Uploads a picture; answers the reference to it.
    async fn upload(&self, picture: &Picture) -> Value {
        self.upload_bytes("in.png", &picture.encode()).await
    }

    async fn upload_bytes(&self, name: &str, bytes: &[u8]) -> Value {
        let form = Form::new()
            .field("content_type", "image/png")
            .field("file_path", name)
            .file("file", name, bytes);
        let request = Request::new("POST", "/api/v2/assets")
            .header("Content-Type", &Form::content_type())
            .body(form.body());
        let answer = self.send(request).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        json!({"__type": "core/ASSET", "info": {"id": answer.json()["id"]}})
    }

    /// Submits a graph; answers the job's id.
    async fn submit(&self, graph: &Value) -> String {
        self.submit_with(&json!({"workflow": graph})).await
    }

    async fn submit_with(&self, body: &Value) -> String {
        let answer = self.send(Request::post_json("/api/v2/jobs", body)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// The job at its end.
    async fn ended(&self, id: &str) -> Value {
        let events = self
            .send(Request::get(&format!("/api/v2/jobs/{id}/events")))
            .await;
        assert_eq!(events.status, 200, "{}", events.text());
        self.get(&format!("/api/v2/jobs/{id}")).await
    }

    /// Runs a graph to its end.
    async fn run(&self, graph: &Value) -> Value {
        let id = self.submit(graph).await;
        self.ended(&id).await
    }

    /// The bytes of the only output of a job that succeeded.
    async fn output(&self, job: &Value) -> Vec<u8> {
        assert_eq!(job["status"], "succeeded", "{job:#} {}", self.log());
        let outputs = job["outputs"].as_array().unwrap();
        assert_eq!(outputs.len(), 1, "{job:#}");
        self.read(outputs[0]["id"].as_str().unwrap()).await
    }

    /// The bytes of an asset.
    async fn read(&self, asset: &str) -> Vec<u8> {
        let path = format!("/api/v2/assets/{asset}/content");
        let content = self.send(Request::get(&path)).await;
        assert_eq!(content.status, 200);
        content.body
    }

    fn submits(&self, partner: Partner) -> usize {
        self.partners.requests_of(partner, Step::Submit).len()
    }

    /// Ends the program well, and answers what the account has spent.
    async fn spent(&mut self, account: &str) -> i64 {
        self.end().await;
        let store = Store::open(&self.data()).unwrap();
        let entries = store
            .accounts()
            .entries(&account.parse().unwrap(), None, 100)
            .await;
        let charges = entries
            .unwrap()
            .into_iter()
            .map(|entry| -entry.amount_cents);
        charges.filter(|cents| *cents > 0).sum()
    }
}

/// Four pixels of four colours.
fn small() -> Picture {
    Picture {
        width: 2,
        height: 2,
        rgb: vec![255, 0, 0, 0, 255, 0, 0, 0, 255, 200, 100, 50],
    }
}

/// What the edit comes to.
fn edited() -> Picture {
    Picture {
        width: 3,
        height: 1,
        rgb: vec![1, 2, 3, 40, 50, 60, 250, 251, 252],
    }
}

fn base64_of(picture: &Picture) -> String {
    STANDARD.encode(picture.encode())
}

/// The last word on an edit, whose result is in it.
fn ready(picture: &Picture) -> String {
    let sample = format!("data:image/png;base64,{}", base64_of(picture));
    json!({"id": "t", "status": "Ready", "result": {"sample": sample}}).to_string()
}

/// `LoadImage -> edit -> SaveImage`.
fn edit(picture: &Value, prompt: &str) -> Value {
    json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": picture}},
        "2": {"class_type": EDIT, "inputs": {"prompt": prompt, "input_image": ["1", 0], "seed": 7}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "edited"}},
    })
}

/// `make -> SaveImage`.
fn make(prompt: &str) -> Value {
    json!({
        "1": {"class_type": AT_ONCE, "inputs": {"prompt": prompt}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "made"}},
    })
}

/// The picture that the model made.
fn decoded(bytes: &[u8]) -> Picture {
    Picture::decode(bytes)
}

/// Every file below a folder, with its bytes.
fn files(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if let Ok(bytes) = std::fs::read(&path) {
            found.push((path, bytes));
        }
    }
}
