//! Clients of two accounts, each of which asks any replica, writes down what it was told, and asks again what was not answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use it::http::{Answer, Request};
use it::load::graphs;
use it::multipart::Form;
use it::random::Random;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::history::{History, Observation, is_over};
use super::members::Member;
use crate::partner::{Behavior, Order};

/// How long a client waits for an answer: a process that was stopped gives none.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many questions are asked side by side when all is over.
const LANES: usize = 8;
/// The pause before something is asked again.
const AGAIN: Duration = Duration::from_millis(60);

/// What all clients have in common.
#[derive(Debug)]
pub(super) struct World {
    /// Those that answer.
    pub(super) apis: Vec<Arc<Member>>,
    pub(super) history: History,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) counts: Counts,
    /// By key: calls that were sent.
    calls: Mutex<BTreeMap<String, Call>>,
    /// By id: files that were taken in.
    assets: Mutex<BTreeMap<String, Asset>>,
    /// By id: the accounts of jobs that were taken in.
    jobs: Mutex<BTreeMap<String, Account>>,
}

/// How many requests there were.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) answered: AtomicU64,
    /// Answered with 429 or 5xx.
    pub(super) refused: AtomicU64,
    /// Not answered at all.
    pub(super) unanswered: AtomicU64,
    /// Jobs that were taken in, and calls whose answers stand.
    pub(super) work: AtomicU64,
}

/// Who asks.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) name: &'static str,
    pub(super) key: String,
}

#[derive(Debug, Clone)]
struct Call {
    account: Account,
    target: &'static str,
    order: Order,
}

#[derive(Debug, Clone)]
struct Asset {
    account: Account,
    hash: blake3::Hash,
}

/// What a look at a job found.
#[derive(Debug)]
enum Look {
    Shown(Value),
    Missing,
    Unanswered,
}

impl Look {
    /// Whether no later look finds anything else.
    fn is_last(&self) -> bool {
        match self {
            Self::Shown(shown) => is_over(&text(&shown["status"])),
            Self::Missing => true,
            Self::Unanswered => false,
        }
    }
}

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) world: Arc<World>,
    pub(super) account: Account,
    pub(super) random: Random,
    /// Its number: part of its keys.
    pub(super) number: u64,
}

fn locked<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is one insert.
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(super) fn new(apis: Vec<Arc<Member>>, stop: watch::Receiver<bool>) -> Self {
        Self {
            apis,
            history: History::new(),
            stop,
            counts: Counts::default(),
            calls: Mutex::default(),
            assets: Mutex::default(),
            jobs: Mutex::default(),
        }
    }

    /// Asks a replica; `None` if there is no answer.
    async fn ask(
        &self,
        random: &mut Random,
        account: &Account,
        request: Request,
    ) -> Option<(Instant, Answer)> {
        let address = self.apis[random.index(self.apis.len())].address()?;
        let request = request.header("Authorization", &format!("Bearer {}", account.key));
        let began = Instant::now();
        let answer = timeout(PATIENCE, request.send(address)).await;
        let Ok(Ok(answer)) = answer else {
            self.counts.unanswered.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let count = match answer.status {
            429 | 500.. => &self.counts.refused,
            _ => &self.counts.answered,
        };
        count.fetch_add(1, Ordering::Relaxed);
        Some((began, answer))
    }

    /// Looks at a job, and writes it down.
    async fn look(&self, random: &mut Random, account: &Account, job: &str) -> Look {
        let request = Request::get(&format!("/api/v2/jobs/{job}"));
        let Some((began, answer)) = self.ask(random, account, request).await else {
            return Look::Unanswered;
        };
        let job = job.to_owned();
        match answer.status {
            200 => {
                let Ok(shown) = answer.try_json() else {
                    return Look::Unanswered;
                };
                let outputs = shown["outputs"].as_array().into_iter().flatten();
                let outputs = outputs.map(|output| format!("{}={}", output["id"], output["hash"]));
                let told = Observation::Seen {
                    job,
                    status: text(&shown["status"]),
                    outputs: outputs.collect(),
                };
                self.history.add(began, told);
                Look::Shown(shown)
            }
            404 => {
                self.history.add(began, Observation::Missing { job });
                Look::Missing
            }
            _ => Look::Unanswered,
        }
    }

    /// Calls a model; whether the answer stands.
    async fn call(&self, random: &mut Random, key: &str, call: &Call) -> bool {
        let body = serde_json::to_vec(&call.order).unwrap_or_default();
        let request = Request::new("POST", call.target)
            .header("Content-Type", "application/json")
            .header("Idempotency-Key", key)
            .body(body);
        let Some((began, answer)) = self.ask(random, &call.account, request).await else {
            return false;
        };
        // Everything else leaves the key free, or says that the call is under way.
        if ![200, 502].contains(&answer.status) {
            return false;
        }
        let told = Observation::Called {
            key: key.to_owned(),
            status: answer.status,
            body: answer.body,
        };
        self.history.add(began, told);
        true
    }

    /// Reads a file, and writes down whether it is whole; whether there was an answer.
    async fn read(&self, random: &mut Random, id: &str, asset: &Asset) -> bool {
        let request = Request::get(&format!("/api/v2/assets/{id}/content"));
        let Some((began, answer)) = self.ask(random, &asset.account, request).await else {
            return false;
        };
        if ![200, 404].contains(&answer.status) {
            return false;
        }
        let is_whole = answer.status == 200 && blake3::hash(&answer.body) == asset.hash;
        let asset = id.to_owned();
        self.history
            .add(began, Observation::Read { asset, is_whole });
        true
    }

    /// Waits until every job that was taken in is over, at most for `patience`.
    pub(super) async fn wait_for_ends(self: &Arc<Self>, random: &mut Random, patience: Duration) {
        let deadline = Instant::now() + patience;
        let jobs = locked(&self.jobs).clone();
        in_lanes(random, jobs, |(job, account), mut random| {
            let world = Arc::clone(self);
            async move {
                while Instant::now() < deadline {
                    if world.look(&mut random, &account, &job).await.is_last() {
                        break;
                    }
                    sleep(AGAIN).await;
                }
            }
        })
        .await;
    }

    /// Has every call answered, and asks for everything that was acknowledged; how many files were read.
    pub(super) async fn look_at_all(
        self: &Arc<Self>,
        random: &mut Random,
        patience: Duration,
    ) -> usize {
        let deadline = Instant::now() + patience;
        let calls = locked(&self.calls).clone();
        in_lanes(random, calls, |(key, call), mut random| {
            let world = Arc::clone(self);
            async move {
                while Instant::now() < deadline && !world.call(&mut random, &key, &call).await {
                    sleep(AGAIN).await;
                }
            }
        })
        .await;
        let jobs = locked(&self.jobs).clone();
        in_lanes(random, jobs, |(job, account), mut random| {
            let world = Arc::clone(self);
            async move {
                while Instant::now() < deadline
                    && !world.look_last(&mut random, &account, &job).await
                {
                    sleep(AGAIN).await;
                }
            }
        })
        .await;
        let files = locked(&self.assets).clone();
        let count = files.len();
        in_lanes(random, files, |(id, asset), mut random| {
            let world = Arc::clone(self);
            async move {
                while Instant::now() < deadline && !world.read(&mut random, &id, &asset).await {
                    sleep(AGAIN).await;
                }
            }
        })
        .await;
        count
    }

    /// Writes down how a job ended, and adds its outputs to the files; whether there was an answer.
    async fn look_last(&self, random: &mut Random, account: &Account, job: &str) -> bool {
        let began = Instant::now();
        let look = self.look(random, account, job).await;
        let Look::Shown(shown) = &look else {
            return look.is_last();
        };
        let (job, status) = (job.to_owned(), text(&shown["status"]));
        self.history.add(began, Observation::Final { job, status });
        for output in shown["outputs"].as_array().into_iter().flatten() {
            let hash = text(&output["hash"]);
            let hash = hash.strip_prefix("blake3:").unwrap_or(&hash);
            if let Ok(hash) = blake3::Hash::from_hex(hash) {
                let account = account.clone();
                let asset = Asset { account, hash };
                locked(&self.assets).insert(text(&output["id"]), asset);
            }
        }
        true
    }
}

/// Does something with each of them, a few at a time.
async fn in_lanes<T, F: Future<Output = ()> + Send + 'static>(
    random: &mut Random,
    all: impl IntoIterator<Item = T>,
    what: impl Fn(T, Random) -> F,
) {
    let mut lanes = JoinSet::new();
    for one in all {
        if lanes.len() == LANES {
            let ended = lanes.join_next().await;
            ended.transpose().expect("it does not panic");
        }
        lanes.spawn(what(one, Random::of(random.next())));
    }
    lanes.join_all().await;
}

impl Client {
    fn goes_on(&self) -> bool {
        !*self.world.stop.borrow()
    }

    fn key(&self, number: u64) -> String {
        format!("{}-{}-{number}", self.account.name, self.number)
    }

    /// Submits jobs, cancels some of them, and follows each to its end.
    pub(super) async fn run_jobs(mut self) {
        for number in 0.. {
            let color = self.number * 100_000 + number;
            let body = match self.random.below(8) {
                0 => graphs::busy(1),
                1 => graphs::several(color, 3),
                _ => graphs::solid(color),
            };
            let key = self.key(number);
            let Some(job) = self.submit(&key, &body).await else {
                return;
            };
            if self.random.one_in(6) {
                let request = Request::new("POST", &format!("/api/v2/jobs/{job}/cancel"));
                let told = self.ask(request).await;
                if let Some((began, answer)) = told
                    && answer.status < 300
                {
                    let job = job.clone();
                    self.world
                        .history
                        .add(began, Observation::Cancelled { job });
                }
            }
            while self.goes_on() {
                let (world, account) = (Arc::clone(&self.world), self.account.clone());
                let look = world.look(&mut self.random, &account, &job).await;
                if look.is_last() {
                    break;
                }
                sleep(AGAIN).await;
            }
        }
    }

    /// Submits a job under a key until it is taken in; `None` if the campaign ends first.
    async fn submit(&mut self, key: &str, body: &str) -> Option<String> {
        let request = Request::new("POST", "/api/v2/jobs")
            .header("Content-Type", "application/json")
            .header("Idempotency-Key", key)
            .body(body);
        while self.goes_on() {
            if let Some((began, answer)) = self.ask(request.clone()).await
                && [200, 201].contains(&answer.status)
                && let Ok(job) = answer.try_json()
            {
                let job = text(&job["id"]);
                let told = Observation::Submitted {
                    key: key.to_owned(),
                    job: job.clone(),
                };
                self.world.history.add(began, told);
                locked(&self.world.jobs).insert(job.clone(), self.account.clone());
                if self.random.one_in(10) && self.goes_on() {
                    // Once more, at any replica: the same job.
                    continue;
                }
                self.world.counts.work.fetch_add(1, Ordering::Relaxed);
                return Some(job);
            }
            sleep(AGAIN).await;
        }
        None
    }

    /// Uploads files, small and large, and reads them and earlier ones.
    pub(super) async fn upload(mut self) {
        for number in 0.. {
            if !self.goes_on() {
                return;
            }
            let size = match self.random.below(4) {
                0 => 300_000 + self.random.below(300_000),
                _ => 100 + self.random.below(20_000),
            };
            let content = self.random.bytes(usize::try_from(size).unwrap_or(100));
            let form = Form::new()
                .field("content_type", "application/octet-stream")
                .field("file_path", &format!("{}.bin", self.key(number)))
                .file("file", "a.bin", &content);
            let request = Request::new("POST", "/api/v2/assets")
                .header("Content-Type", &Form::content_type())
                .body(form.body());
            if let Some((began, answer)) = self.ask(request).await
                && [200, 201].contains(&answer.status)
                && let Ok(asset) = answer.try_json()
            {
                let id = text(&asset["id"]);
                let asset = id.clone();
                self.world
                    .history
                    .add(began, Observation::Uploaded { asset });
                let asset = Asset {
                    account: self.account.clone(),
                    hash: blake3::hash(&content),
                };
                locked(&self.world.assets).insert(id, asset);
            }
            let known = {
                let assets = locked(&self.world.assets);
                let own = assets
                    .iter()
                    .filter(|(_, asset)| asset.account.name == self.account.name);
                let own: Vec<(&String, &Asset)> = own.collect();
                let picked = self.random.pick(&own);
                picked.map(|(id, asset)| ((*id).clone(), (*asset).clone()))
            };
            if let Some((id, asset)) = known {
                self.world.read(&mut self.random, &id, &asset).await;
            }
            sleep(AGAIN).await;
        }
    }

    /// Calls models under keys, each until its answer stands.
    pub(super) async fn call_models(mut self) {
        for number in 0.. {
            let key = self.key(number);
            let behavior = match self.random.below(20) {
                0 => Behavior::Cut,
                1 => Behavior::Break,
                _ => Behavior::Answer,
            };
            let is_polled = self.random.one_in(2);
            let call = Call {
                account: self.account.clone(),
                target: match is_polled {
                    true => "/v1/models/crash/later",
                    false => "/v1/models/crash/now",
                },
                order: Order {
                    call: key.clone(),
                    behavior,
                    cents: 1 + self.random.below(9),
                    delay_ms: self.random.below(250),
                    looks: u32::try_from(self.random.below(20)).unwrap_or(0),
                    padding: usize::try_from(self.random.below(4_000)).unwrap_or(0),
                },
            };
            if !self.goes_on() {
                return;
            }
            locked(&self.world.calls).insert(key.clone(), call.clone());
            let world = Arc::clone(&self.world);
            while self.goes_on() {
                if world.call(&mut self.random, &key, &call).await {
                    world.counts.work.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                sleep(AGAIN).await;
            }
        }
    }

    async fn ask(&mut self, request: Request) -> Option<(Instant, Answer)> {
        let (world, account) = (Arc::clone(&self.world), self.account.clone());
        world.ask(&mut self.random, &account, request).await
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
