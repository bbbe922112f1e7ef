//! The pool: its workers, what they can run together, and the engine over them.

mod acquire;
mod added;
mod config;
#[cfg(feature = "bench")]
mod imagined;
mod kept;
mod managed;
mod refusal;
mod report;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use asset_store::BlobStore;
use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use workflow_core::{
    Availability, Engine, EngineName, EngineWorkers, JobId, ModelFile, NodeCatalog, Refusal,
    Requirements, RunContext, RunError, Ticket, ValidGraph, WorkerNote,
};

use crate::address::WorkerUrl;
use crate::client::WorkerClient;
use crate::definitions::{Definitions, Merged};
use crate::run;
use crate::worker::{Able, Worker};

pub(crate) use acquire::WorkerSlot;
use config::authorities;
pub use config::{PoolConfig, WorkerConfig};
use refusal::lacking_refusal;
pub use report::WorkerReport;
use report::report;

/// The name of the engine, as jobs are stored with it.
pub const COMFYUI: &str = "comfyui";

/// A worker that is away for less than this still counts: submissions for it are taken.
const AWAY_TIME: Duration = Duration::from_secs(120);

/// Most workers of a pool.
const MOST_WORKERS: usize = 4096;

/// Why a worker is not part of the pool.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// Its name or address is taken.
    #[error("the pool has a worker with this name or address already; remove that one first")]
    Taken,
    /// There are too many.
    #[error("the pool has {MOST_WORKERS} workers already; remove one first")]
    Full,
    /// It cannot be kept for the next start.
    #[error("the worker cannot be kept for the next start; make the data directory writable")]
    NotKept(#[source] io::Error),
    /// The extra authorities cannot be used.
    #[error("the extra authorities cannot be used; name a PEM file with certificates")]
    ExtraCa,
}

/// The pool of workers: an engine. Clones are the same pool. Its connections end when the last clone is dropped.
#[derive(Clone)]
pub struct ComfyPool {
    shared: Arc<Shared>,
    /// Ends the connections with the last clone.
    _alive: Arc<Alive>,
}

/// What runs and workers share.
pub(crate) struct Shared {
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) config: PoolConfig,
    workers: RwLock<Vec<Member>>,
    merged: RwLock<Arc<Merged>>,
    /// Locked while `merged` is put together.
    merging: Mutex<()>,
    /// Rung when a place may have become free.
    freed: Notify,
    /// Jobs that wait within a run, by the model files that they need.
    waiting: Mutex<HashMap<BTreeSet<ModelFile>, u64>>,
    /// Jobs that have a place, and the names of their workers.
    placed: Mutex<HashMap<JobId, String>>,
    /// Since when runs wait for a place.
    began: Mutex<Vec<Instant>>,
    /// What workers had that are gone.
    remembered: Mutex<Option<Arc<Definitions>>>,
}

/// A worker of the pool and its connection.
struct Member {
    worker: Arc<Worker>,
    stop: CancellationToken,
    _task: JoinHandle<()>,
}

struct Alive(Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        for member in self.0.members().iter() {
            member.stop.cancel();
        }
    }
}

impl ComfyPool {
    /// A pool without workers.
    #[must_use]
    pub fn new(blobs: Arc<dyn BlobStore>, config: PoolConfig) -> Self {
        let shared = Arc::new(Shared {
            blobs,
            config,
            workers: RwLock::default(),
            merged: RwLock::default(),
            merging: Mutex::default(),
            freed: Notify::new(),
            waiting: Mutex::default(),
            placed: Mutex::default(),
            began: Mutex::default(),
            remembered: Mutex::default(),
        });
        Self {
            _alive: Arc::new(Alive(Arc::clone(&shared))),
            shared,
        }
    }

    /// Adds a worker and begins to connect to it. What it had when it was seen last is known at once. Needs a tokio runtime.
    ///
    /// # Errors
    /// If the pool cannot take it.
    pub fn add(&self, config: WorkerConfig) -> Result<(), AddError> {
        let client = WorkerClient::new(
            config.url.clone(),
            config.headers.into_map(),
            authorities(&self.shared.config.extra_ca_pem, config.ca_pem),
        );
        let client = client.map_err(|_| AddError::ExtraCa)?;
        let client_id = self.shared.client_id(&config.url);
        let slots = config.slots.unwrap_or(self.shared.config.slots);
        let mut worker = Worker::new(config.name, client, client_id, config.url, slots);
        worker.keeps_definitions = config.keeps_definitions;
        let worker = Arc::new(worker);
        if let Some(known) = self.shared.kept(&worker) {
            worker.shared().definitions = Some(self.shared.once(known));
        }
        {
            let mut members = self.shared.members_mut();
            if members.len() >= MOST_WORKERS {
                return Err(AddError::Full);
            }
            let is_taken = |member: &Member| {
                member.worker.name == worker.name || member.worker.url == worker.url
            };
            if members.iter().any(is_taken) {
                return Err(AddError::Taken);
            }
            let stop = CancellationToken::new();
            let task =
                tokio::spawn(Arc::clone(&worker).keep(Arc::clone(&self.shared), stop.clone()));
            members.push(Member {
                worker,
                stop,
                _task: task,
            });
        }
        self.shared.merge();
        Ok(())
    }

    /// Gives a worker no more jobs, or jobs again. Answers whether there is one of this name.
    #[must_use]
    pub fn drain(&self, name: &str, draining: bool) -> bool {
        let Some(worker) = self.shared.worker(name) else {
            return false;
        };
        worker.set_draining(draining);
        tracing::info!(worker = name, draining, "an operator changed a worker");
        self.shared.merge();
        self.shared.changed();
        true
    }

    /// Takes a worker out of the pool. Jobs that it has go on to their end. Answers whether there was one of this name.
    #[must_use]
    pub fn remove(&self, name: &str) -> bool {
        let removed = {
            let mut members = self.shared.members_mut();
            let found = members.iter().position(|member| member.worker.name == name);
            found.map(|position| members.remove(position))
        };
        let Some(member) = removed else {
            return false;
        };
        member.worker.set_draining(true);
        let shared = Arc::clone(&self.shared);
        // The connection is needed until its last job is over.
        tokio::spawn(async move {
            let places = member.worker.slots.count();
            let _ = member.worker.places.acquire_many(places).await;
            member.stop.cancel();
            drop(shared);
        });
        tracing::info!(worker = name, "an operator removed a worker");
        self.shared.merge();
        self.shared.changed();
        true
    }

    /// All workers, in the order in which they were added.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerReport> {
        let members = self.shared.members();
        members
            .iter()
            .map(|member| report(&member.worker))
            .collect()
    }

    /// The name of the engine.
    #[must_use]
    pub fn name() -> EngineName {
        COMFYUI.into()
    }
}

impl Shared {
    fn members(&self) -> std::sync::RwLockReadGuard<'_, Vec<Member>> {
        // Every change is one push or remove.
        self.workers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn members_mut(&self) -> std::sync::RwLockWriteGuard<'_, Vec<Member>> {
        self.workers.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn worker(&self, name: &str) -> Option<Arc<Worker>> {
        let members = self.members();
        let member = members.iter().find(|member| member.worker.name == name);
        member.map(|member| Arc::clone(&member.worker))
    }

    pub(crate) fn workers(&self) -> Vec<Arc<Worker>> {
        let members = self.members();
        members
            .iter()
            .map(|member| Arc::clone(&member.worker))
            .collect()
    }

    /// Names our socket at a worker: the same at every start, so that prompts that ran on are heard again.
    fn client_id(&self, url: &WorkerUrl) -> String {
        let Some(name) = &self.config.socket_name else {
            return Uuid::new_v4().simple().to_string();
        };
        let mut hasher = blake3::Hasher::new_derive_key("easel client id at a worker v1");
        hasher
            .update(name.as_bytes())
            .update(url.as_str().as_bytes());
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// Something may run that could not before.
    pub(crate) fn changed(&self) {
        self.freed.notify_waiters();
        (self.config.bell)();
    }

    /// These definitions, or the same ones of another worker: many workers are alike, and theirs are large.
    pub(crate) fn once(&self, definitions: Definitions) -> Arc<Definitions> {
        let members = self.members();
        let same = members.iter().find_map(|member| {
            let known = member.worker.shared().definitions.clone();
            known.filter(|known| known.is_same(&definitions))
        });
        same.unwrap_or_else(|| Arc::new(definitions))
    }

    /// A worker said what it has.
    pub(crate) fn definitions_changed(&self, worker: &Worker, definitions: &Arc<Definitions>) {
        self.keep(worker, definitions);
        self.merge();
        self.changed();
    }

    /// Puts together what all workers have that may get jobs, and what only drained ones have.
    pub(crate) fn merge(&self) {
        self.merge_with(None, || ());
    }

    /// As [`Shared::merge`], as if this worker had these definitions already; `then` gives them to it, before anybody else
    /// puts together what is there without them.
    pub(crate) fn merge_with<T>(
        &self,
        new: Option<(&Worker, &Arc<Definitions>)>,
        then: impl FnOnce() -> T,
    ) -> T {
        let _alone = self.merging.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut definitions, mut drained) = (Vec::new(), Vec::new());
        for worker in self.workers() {
            let known = match new {
                Some((other, new)) if std::ptr::eq(other, &*worker) => Some(Arc::clone(new)),
                Some(_) | None => worker.shared().definitions.clone(),
            };
            let of_kind: &mut Vec<Arc<Definitions>> = match worker.is_draining() {
                true => &mut drained,
                false => &mut definitions,
            };
            if let Some(known) = known
                && !of_kind.iter().any(|other| Arc::ptr_eq(other, &known))
            {
                of_kind.push(known);
            }
        }
        if definitions.is_empty() {
            definitions.extend(self.remembered().clone());
        }
        if !self.merged().is_of(&definitions, &drained) {
            let merged = Arc::new(Merged::of(&definitions, &drained));
            *self.merged.write().unwrap_or_else(PoisonError::into_inner) = merged;
        }
        then()
    }

    /// Whether no worker takes jobs, or will by itself: there is none, or all are drained.
    fn is_drained(&self) -> bool {
        let members = self.members();
        members.iter().all(|member| member.worker.is_draining())
    }

    pub(crate) fn model_files(&self, graph: &ValidGraph) -> BTreeSet<ModelFile> {
        self.merged().model_files(graph)
    }

    fn merged(&self) -> Arc<Merged> {
        Arc::clone(&self.merged.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Engine for ComfyPool {
    fn availability(&self) -> Availability {
        let workers = self.shared.workers();
        let is_there =
            |worker: &Arc<Worker>| !worker.is_draining() && !worker.is_away_for(AWAY_TIME);
        match () {
            () if workers.iter().any(is_there) => Availability::Ready,
            () if self.shared.is_drained() => Availability::Stopped,
            () => Availability::NotReady,
        }
    }

    fn nodes(&self) -> NodeCatalog {
        self.shared.merged().catalog.clone()
    }

    fn capacity(&self, needs: &Requirements) -> usize {
        let (mut able, now) = (Able::new(needs), Instant::now());
        let members = self.shared.members();
        let candidates = members
            .iter()
            .map(|member| member.worker.candidate(&mut able, now));
        candidates
            .filter(|candidate| candidate.is_fit && candidate.has_place)
            .count()
    }

    fn model_files(&self, graph: &ValidGraph) -> BTreeSet<ModelFile> {
        self.shared.model_files(graph)
    }

    fn workers(&self) -> Option<&dyn EngineWorkers> {
        Some(self)
    }

    async fn run(&self, ticket: Ticket, context: RunContext) -> Result<(), RunError> {
        // It computes at a worker.
        context.permit.move_out();
        run::run(&self.shared, ticket, context).await
    }
}

#[async_trait]
impl EngineWorkers for ComfyPool {
    /// Refuses what no worker has all classes and files for. Ranges and choices are judged by the worker that runs it.
    async fn judge(&self, ticket: &Ticket) -> Result<(), Refusal> {
        let classes = ticket.graph.nodes.values();
        let needs = Requirements {
            classes: classes.map(|node| node.definition.class.clone()).collect(),
            files: self.model_files(&ticket.graph),
            ..Requirements::of_engine(Self::name())
        };
        let workers = self.shared.workers();
        let known = workers.iter().filter(|worker| !worker.is_draining());
        let is_known = |worker: &&Arc<Worker>| worker.shared().definitions.is_some();
        let known_is_empty = !known.clone().any(|worker| is_known(&worker));
        let lacking = known.filter_map(|worker| {
            let shared = worker.shared();
            let lacks = shared.definitions.as_ref()?.lacks(&needs);
            Some((lacks, worker.name.clone()))
        });
        // While none is there, those that were decide.
        let gone = self.shared.remembered().clone();
        let gone = gone.filter(|_| known_is_empty);
        let gone = gone.map(|known| (known.lacks(&needs), "the one that was here last".to_owned()));
        let lacking = lacking.chain(gone);
        match lacking.min_by_key(|(lacks, _)| lacks.len()) {
            Some((lacks, name)) if !lacks.is_empty() => Err(lacking_refusal(ticket, &name, &lacks)),
            Some(_) | None => Ok(()),
        }
    }

    fn is_idle_for(&self, needs: &Requirements) -> bool {
        // A job that waits for a warm worker has no verdict soon.
        let chosen = self.shared.choice(needs, &[], 1, Duration::ZERO);
        chosen.is_some_and(|worker| worker.compute.available_permits() > 0)
    }

    fn start_time(&self) -> Option<Duration> {
        None
    }

    fn explain(&self, job: JobId, needs: &Requirements) -> Vec<WorkerNote> {
        let place = self.shared.placed().get(&job).cloned();
        let workers = self.shared.workers().into_iter();
        let notes = workers.map(|worker| {
            let has_job = place.as_ref() == Some(&worker.name);
            WorkerNote {
                worker: worker.name.clone(),
                has_job,
                why_not: worker.why_not(needs).filter(|_| !has_job),
            }
        });
        notes.collect()
    }
}

impl fmt::Debug for ComfyPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.shared.members();
        let names = members.iter().map(|member| &member.worker.name);
        f.debug_list().entries(names).finish()
    }
}

#[cfg(test)]
mod tests;
