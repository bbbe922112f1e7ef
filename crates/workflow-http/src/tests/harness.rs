//! An API over memory, a clock that stands still, and a worker that does as it is told.

use asset_store::Blob;
use workflow_core::{
    ImageTools, ImageToolsError, MadePicture, PictureChannel, PictureInfo, PreviewOptions,
};

use crate::V1Service;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use accounts::{MemoryAccounts, Principal, Tier};
use asset_store::{Assets, BlobHash, LinkKeys, MemoryBlobs, MemoryRecords, Retention};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_kit::{Body, ConnectionInfo, PublicAddress, ReadPace};
use identity::Identity;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use workflow_core::{
    Availability, BlockingPool, ClaimRequest, CompletionRate, Durability, Engine, EngineWorkers,
    Engines, FileSource, Hub, InputDefinition, Job, JobChange, JobEvent, JobId, JobPorts, JobQueue,
    JobStore, Jobs, JobsConfig, MemoryJobs, ModelFile, NewOutput, NodeCatalog, NodeDefinition,
    OutputDefinition, OutputKind, OutputName, Preview, Progress, RequirementSet, Requirements,
    Rooms, RunContext, RunError, SaveJob, SaveOutcome, Secrets, Socket, Ticket, Timer, ValidGraph,
    WorkerId,
};

use hyper_kit::Observed;

use crate::{WorkflowApi, WorkflowConfig, WorkflowService, routes};

use ports::catalog;

mod ports;

/// A server of one account over stores that others may share.
pub(super) struct Server {
    pub(super) api: WorkflowApi,
    pub(super) service: WorkflowService,
    pub(super) rig: Rig,
    pub(super) observed: Arc<Mutex<Vec<Observed>>>,
}

/// What servers share: the stores and the clock.
#[derive(Clone)]
pub(super) struct Rig {
    pub(super) clock: Arc<Clock>,
    /// Whether the engine runs jobs.
    pub(super) available: Arc<Mutex<Availability>>,
    jobs: Arc<MemoryJobs>,
    hub: Arc<Hub>,
    secrets: Secrets,
    blobs: MemoryBlobs,
    records: MemoryRecords,
    pub(super) accounts: Arc<MemoryAccounts>,
}

/// A clock that is moved by hand.
pub(super) struct Clock(Mutex<Timestamp>);

/// An answer, read to its end.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Threads that do the work at once.
struct AtOnce;

/// An engine that knows three classes and is never asked to run any.
struct Classes {
    catalog: NodeCatalog,
    available: Arc<Mutex<Availability>>,
}

impl Rig {
    pub(super) fn new() -> Self {
        let clock = Arc::new(Clock(Mutex::new(start())));
        let records = MemoryRecords::new();
        let tells = Arc::clone(&clock);
        Self {
            jobs: Arc::new(MemoryJobs::new(records.clone())),
            hub: Arc::new(Hub::new()),
            secrets: Secrets::new(WorkerId(Uuid::nil())),
            blobs: MemoryBlobs::new(move || tells.now()),
            records,
            accounts: Arc::new(MemoryAccounts::new()),
            clock,
            available: Arc::new(Mutex::new(Availability::Ready)),
        }
    }

    /// A server for `principal`, changed by `change` before it is mounted.
    pub(super) fn server(
        &self,
        principal: Principal,
        change: impl FnOnce(&mut WorkflowService),
    ) -> Server {
        let account = principal.account.clone();
        let accounts = Arc::clone(&self.accounts);
        accounts.put(principal);
        let retention = Retention::default();
        let assets = Assets::new(
            Arc::new(self.blobs.clone()),
            Arc::new(self.records.clone()),
            retention,
        );
        let ports = JobPorts {
            store: Arc::clone(&self.jobs) as Arc<dyn JobStore>,
            queue: Arc::clone(&self.jobs) as Arc<dyn JobQueue>,
            hub: Arc::clone(&self.hub),
            engines: Engines::native(Arc::new(Classes {
                catalog: catalog(),
                available: Arc::clone(&self.available),
            })),
            timer: Arc::clone(&self.clock) as Arc<dyn Timer>,
            secrets: self.secrets.clone(),
            threads: Arc::new(AtOnce),
        };
        let config = JobsConfig { queued_jobs: 100 };
        let observed = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&observed);
        let mut service = WorkflowService {
            jobs: Jobs::new(
                ports,
                assets.clone(),
                config,
                Arc::new(CompletionRate::default()),
            ),
            assets,
            link_keys: Arc::new(LinkKeys::new(vec![(1, [7; 32])])),
            identity: Identity::none(accounts.clone(), account),
            accounts,
            clock: Arc::clone(&self.clock) as Arc<dyn Timer>,
            drain: CancellationToken::new(),
            v1: None,
            deployments: None,
            observer: Arc::new(move |seen: &Observed| {
                hears
                    .lock()
                    .expect("no test panics here")
                    .push(seen.clone());
            }),
            config: WorkflowConfig {
                address: PublicAddress::default(),
                allowed_origins: Vec::new(),
                upload_bytes: WorkflowConfig::UPLOAD_BYTES,
                json_bytes: WorkflowConfig::JSON_BYTES,
                link_lifetime: WorkflowConfig::LINK_LIFETIME,
                read_pace: ReadPace::DEFAULT,
            },
        };
        change(&mut service);
        Server {
            api: routes(service.clone()).expect("the prefix is one"),
            service,
            rig: self.clone(),
            observed,
        }
    }
}

impl Rig {
    /// The older API over the same stores. Every file is a picture of one pixel to it.
    pub(super) fn older(&self) -> V1Service {
        let bounds = v1_compat::UserFilesBounds::DEFAULT;
        V1Service {
            user_files: Arc::new(v1_compat::MemoryUserFiles::new(bounds)),
            file_names: Arc::new(self.records.clone()),
            image_tools: Arc::new(OnePixel),
            sockets: hyper_kit::Sockets::new(
                hyper_kit::SocketLimits::DEFAULT,
                CancellationToken::new(),
            ),
            log_readers: crate::LogReaders::default(),
            sessions: identity::WebSessions::new(self.accounts.clone()),
            web_page: None,
            version: "0",
            memory: || (2, 1),
        }
    }
}

/// Tools that take everything for one pixel.
struct OnePixel;

/// A server of its own for the local account.
pub(super) fn server() -> Server {
    Rig::new().server(principal("local"), |_| {})
}

/// An account that may do everything.
pub(super) fn principal(account: &str) -> Principal {
    let tier = Tier {
        queued_jobs: 100,
        streams: 2,
        ..Tier::standard()
    };
    Principal::full(account.parse().expect("an account id"), tier)
}

/// One that may do everything within a tier that differs a little.
pub(super) fn limited(change: impl FnOnce(&mut Tier)) -> Principal {
    let mut limited = principal("local");
    change(Arc::make_mut(&mut limited.tier));
    limited
}

pub(super) fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

/// A graph that can run.
pub(super) fn graph() -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 64}},
        "9": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
    })
}

impl Server {
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        Answer::read(self.open(method, path, headers, body).await).await
    }

    /// Sends a request and leaves the body of the answer unread.
    pub(super) async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        if headers.iter().all(|(name, _)| *name != "host") {
            request = request.header("host", "127.0.0.1:8189");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("a request");
        self.api.handle(request, connection()).await
    }

    /// Sends a form chunk by chunk, without saying how long it is; the answer, and how many chunks were taken.
    pub(super) async fn send_chunked(&self, kind: &str, chunks: Vec<Bytes>) -> (Answer, usize) {
        let taken = Arc::new(Mutex::new(0));
        let counts = Arc::clone(&taken);
        let body = Body::stream(stream::iter(chunks).map(move |chunk| {
            *counts.lock().expect("no test panics here") += 1;
            Ok::<_, hyper_kit::BoxError>(chunk)
        }));
        let request = Request::post("/api/v2/assets")
            .header("host", "127.0.0.1:8189")
            .header("content-type", kind);
        let request = request.body(body).expect("a request");
        let response = self.api.handle(request, connection()).await;
        let taken = *taken.lock().expect("no test panics here");
        (Answer::read(response).await, taken)
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], "").await
    }

    pub(super) async fn post_json(&self, path: &str, body: &Value) -> Answer {
        let headers = [("content-type", "application/json")];
        self.send(Method::POST, path, &headers, body.to_string())
            .await
    }

    /// Submits a graph that can run; its id.
    pub(super) async fn submit(&self) -> JobId {
        let answer = self
            .post_json("/api/v2/jobs", &json!({ "workflow": graph() }))
            .await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"]
            .as_str()
            .expect("an id")
            .parse()
            .expect("a UUID")
    }

    /// Uploads bytes; the asset.
    pub(super) async fn upload(&self, name: &str, bytes: &str) -> Value {
        let parts = [("content_type", "image/png"), ("file_path", name)];
        let (kind, body) = form(&parts, Some(bytes));
        let headers = [("content-type", kind.as_str())];
        let answer = self
            .send(Method::POST, "/api/v2/assets", &headers, body)
            .await;
        assert!(answer.status.is_success(), "{answer:?}");
        answer.json()
    }
}

/// A worker: claims the next job, and saves and tells what a test has it do.
impl Rig {
    pub(super) async fn claim(&self) -> Arc<Job> {
        let demand = self.jobs.demand(self.clock.now()).await;
        let demand = demand.expect("memory answers");
        let request = ClaimRequest {
            worker: WorkerId(Uuid::nil()),
            sets: demand.sets.iter().map(RequirementSet::id).collect(),
            rooms: Rooms::default(),
            lease: Duration::from_secs(30),
        };
        let claim = self.jobs.claim(&request, self.clock.now()).await;
        let claim = claim.expect("memory answers").expect("a job waits");
        let job = Arc::clone(&claim.job);
        self.hub.publish(job.id, JobChange::Saved(claim.job));
        job
    }

    pub(super) async fn apply(&self, job: &Job, event: JobEvent) -> Arc<Job> {
        self.save(job, Some(event), Vec::new()).await
    }

    pub(super) async fn commit(&self, job: &Job, index: u32, bytes: &str) -> Arc<Job> {
        let assets = Assets::new(
            Arc::new(self.blobs.clone()),
            Arc::new(self.records.clone()),
            Retention::default(),
        );
        let mut writer = assets.begin().await.expect("memory writes");
        let written = writer.write(Bytes::copy_from_slice(bytes.as_bytes())).await;
        written.expect("memory writes");
        writer.finish().await.expect("memory writes");
        writer.commit().await.expect("memory writes");
        let output = NewOutput {
            node_id: "9".into(),
            index,
            kind: OutputKind::Image,
            temp: false,
            name: OutputName::Counted {
                counter: "x".to_owned(),
                stem: "x".to_owned(),
                extension: "png".to_owned(),
            },
            content_type: "image/png".to_owned(),
            size_bytes: bytes.len() as u64,
            asset: asset_store::AssetId(Uuid::now_v7()),
            hash: BlobHash::of(bytes.as_bytes()),
        };
        self.save(job, None, vec![output]).await
    }

    /// Commits so many pictures at once.
    pub(super) async fn commit_many(&self, job: &Job, count: u32) -> Arc<Job> {
        let outputs = (0..count).map(|index| NewOutput {
            node_id: "9".into(),
            index,
            kind: OutputKind::Image,
            temp: false,
            name: OutputName::Counted {
                counter: "many".to_owned(),
                stem: "many".to_owned(),
                extension: "png".to_owned(),
            },
            content_type: "image/png".to_owned(),
            size_bytes: 4,
            asset: asset_store::AssetId(Uuid::now_v7()),
            hash: BlobHash::of(b"many"),
        });
        self.save(job, None, outputs.collect()).await
    }

    pub(super) fn progress(&self, id: JobId, value: f64) {
        let progress = Progress {
            value,
            ..Progress::start(2)
        };
        self.hub.publish(id, JobChange::Progress(progress));
    }

    pub(super) fn preview(&self, id: JobId) {
        let preview = Preview {
            node_id: "9".into(),
            content_type: "image/jpeg",
            bytes: Bytes::from_static(b"jpeg"),
        };
        self.hub.publish(id, JobChange::Preview(preview));
    }

    async fn save(&self, job: &Job, event: Option<JobEvent>, outputs: Vec<NewOutput>) -> Arc<Job> {
        let mut job = job.clone();
        if let Some(event) = event {
            job.apply(event, self.clock.now()).expect("a legal event");
        }
        let id = job.id;
        let save = SaveJob {
            job,
            outputs,
            log: None,
            durability: Durability::Now,
            reports: Vec::new(),
        };
        let saved = self.jobs.save(save).await.expect("memory answers");
        let SaveOutcome::Saved(job) = saved else {
            panic!("nobody else saves");
        };
        self.hub.publish(id, JobChange::Saved(Arc::clone(&job)));
        job
    }

    /// Whether these bytes are in the store, of any account.
    pub(super) async fn has_blob(&self, bytes: &str) -> bool {
        use asset_store::BlobStore;
        let hash = BlobHash::of(bytes.as_bytes());
        let found = self.blobs.touch(&hash).await.expect("memory answers");
        found.is_some()
    }

    /// Whether a secret is kept for a job.
    pub(super) fn has_secret(&self, id: JobId) -> bool {
        self.secrets.get(id).is_some()
    }
}

impl Answer {
    async fn read(response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("the body is whole").to_bytes();
        Self {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| {
            value
                .to_str()
                .expect("headers of answers are printable ASCII")
        })
    }

    /// Checks that this is an error, whole: its status, its code, and an envelope that says something.
    #[track_caller]
    pub(super) fn is_error(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        let envelope = self.json();
        assert_eq!(envelope["error"]["code"], code, "{self:?}");
        let message = envelope["error"]["message"].as_str().unwrap_or_default();
        assert!(!message.is_empty() && !message.ends_with('.'), "{self:?}");
        assert!(self.header("x-service-request-id").is_some(), "{self:?}");
        envelope["error"].clone()
    }
}

/// A form of these parts, and of a file where there is one; its content type and its bytes.
pub(super) fn form(parts: &[(&str, &str)], file: Option<&str>) -> (String, Bytes) {
    let mut body = String::new();
    for (name, value) in parts {
        body +=
            &format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    }
    if let Some(file) = file {
        body += "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"Bild é \\\"1\\\".png\"\r\n";
        body += &format!("Content-Type: image/png\r\n\r\n{file}\r\n");
    }
    body += "--b--\r\n";
    ("multipart/form-data; boundary=b".to_owned(), body.into())
}

pub(super) fn connection() -> ConnectionInfo {
    ConnectionInfo {
        peer: "127.0.0.1:50000".parse().expect("an address"),
        local: "127.0.0.1:8189".parse().expect("an address"),
    }
}

impl Clock {
    pub(super) fn advance(&self, by: SignedDuration) {
        let mut now = self.0.lock().expect("no test panics here");
        *now = now.saturating_add(by).expect("in range");
    }
}
