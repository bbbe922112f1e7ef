//! Deployments: named sets of workers, each behind a base address of its own, with workers that are started when jobs wait and
//! stopped when none do.
//!
//! Rows say what there is to be; [`Deployments::keep`] makes it so, again and again. Every replica follows the rows, so it takes
//! submissions; one of them, the owner, starts and stops workers.

mod engine;
mod keep;
mod process;
mod record;
mod report;
mod running;
mod seen;
mod start;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use asset_store::BlobStore;
use jiff::Timestamp;
use tokio::sync::Notify;
use workflow_core::deployment::{
    ChangeRefused, Definition, Deployment, DeploymentChange, DeploymentEvent, DeploymentName,
    InvalidDefinition, NewEvent, StoredDeployment, WorkerSource,
};
use workflow_core::{Engines, JobQueue, StoreError};

use crate::address::WorkerUrl;
use crate::pool::PoolConfig;
use engine::engine_name;
use running::Running;

pub use report::{DeploymentReport, ManagedReport, WorkerLog};

/// Most deployments of an installation.
const MOST_DEPLOYMENTS: usize = 256;

/// How often a change is tried again that another one came before.
const TRIES: usize = 10;

/// What deployments stand on.
#[derive(Clone)]
pub struct DeploymentPorts {
    /// Their rows.
    pub rows: Arc<dyn workflow_core::deployment::Deployments>,
    /// The jobs that wait for them.
    pub queue: Arc<dyn JobQueue>,
    /// The files of jobs.
    pub blobs: Arc<dyn BlobStore>,
    /// The engines of the server, which those of deployments are added to.
    pub engines: Engines,
}

/// What is settled for all deployments.
#[derive(Clone)]
pub struct DeploymentsConfig {
    /// Where logs and records of processes are; no other server of this machine has it.
    pub folder: PathBuf,
    /// How their pools are made; the folder and the name of sockets are their own.
    pub pool: PoolConfig,
}

/// Why something is not done to a deployment. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum DeploymentsError {
    /// There is none of this name.
    #[error("there is no deployment {0}; `deployment list` shows those there are")]
    Absent(DeploymentName),
    /// The change cannot be made.
    #[error(transparent)]
    Refused(#[from] ChangeRefused),
    /// There are too many.
    #[error("there are {MOST_DEPLOYMENTS} deployments already; remove one first")]
    Full,
    /// Jobs would wait for it in vain.
    #[error(
        "jobs wait for the deployment {0} or run on it; cancel them, or let them end, then remove it"
    )]
    InUse(DeploymentName),
    /// Others change it all the time.
    #[error("the deployment is being changed by others; try again")]
    Busy,
    /// A newer version of the program wrote it.
    #[error("a newer version of the program wrote this deployment; use that one")]
    Newer,
    /// The rows cannot be read or written.
    #[error("the deployments cannot be read or written now")]
    Store(#[from] StoreError),
}

/// All deployments of a server. Clones are the same.
#[derive(Clone)]
pub struct Deployments {
    inner: Arc<Inner>,
}

struct Inner {
    ports: DeploymentPorts,
    config: DeploymentsConfig,
    running: Mutex<BTreeMap<DeploymentName, Arc<Running>>>,
    /// Rung when there may be something to do.
    bell: Arc<Notify>,
    /// Whether this process starts and stops workers.
    owns: AtomicBool,
}

/// While it lives, this process starts and stops workers.
pub struct Ownership(Arc<Inner>);

impl Drop for Ownership {
    fn drop(&mut self) {
        self.0.owns.store(false, Ordering::Relaxed);
        self.0.bell.notify_one();
    }
}

impl Deployments {
    /// The deployments of these rows. They are followed and kept by [`Deployments::keep`].
    #[must_use]
    pub fn new(ports: DeploymentPorts, config: DeploymentsConfig) -> Self {
        Self {
            inner: Arc::new(Inner {
                ports,
                config,
                running: Mutex::default(),
                bell: Arc::default(),
                owns: AtomicBool::new(false),
            }),
        }
    }

    /// Lets this process start and stop workers until the answer is dropped.
    #[must_use]
    pub fn own(&self) -> Ownership {
        self.inner.owns.store(true, Ordering::Relaxed);
        self.inner.bell.notify_one();
        Ownership(Arc::clone(&self.inner))
    }

    /// The engines of a deployment's base address, and how many jobs its workers may have together.
    #[must_use]
    pub fn engines(&self, name: &str) -> Option<(Engines, u32)> {
        let running = self.inner.running();
        let (_, found) = running.iter().find(|(known, _)| known.as_str() == name)?;
        let state = found.state();
        let serving = state.row.serving();
        let workers = serving.map_or(0, |revision| state.row.bounds_of(revision).max);
        let places = workers.saturating_mul(found.pool.slots());
        (!state.is_removed).then(|| (found.engines.clone(), places))
    }

    /// Makes a deployment, or a new revision of it. One that is as the newest revision is left alone.
    ///
    /// # Errors
    /// If the definition cannot be used, or the rows cannot be written.
    pub async fn apply(
        &self,
        name: &DeploymentName,
        definition: Definition,
        now: Timestamp,
    ) -> Result<Deployment, DeploymentsError> {
        if let WorkerSource::Urls(urls) = &definition.source {
            for url in urls {
                // The text may have a password: it is not repeated.
                url.parse::<WorkerUrl>().map_err(|_| {
                    let text = "`urls` has a text that is no address of a ComfyUI; write it like http://gpu-box:8188, without a \
                                user name, query or fragment";
                    ChangeRefused::Invalid(InvalidDefinition(text.to_owned()))
                })?;
            }
        }
        let change = DeploymentChange::Apply(definition.clone());
        match self.change(name, change, now).await {
            Err(DeploymentsError::Absent(_)) => {}
            changed => return changed,
        }
        if self.inner.ports.rows.list().await?.len() >= MOST_DEPLOYMENTS {
            return Err(DeploymentsError::Full);
        }
        let (new, events) = Deployment::new(name.clone(), definition.clone(), now)?;
        if self
            .inner
            .ports
            .rows
            .save(&new.to_stored(), &events)
            .await?
        {
            return self.inner.follow_rows(name).await;
        }
        // Somebody else made it at this moment.
        let change = DeploymentChange::Apply(definition);
        self.change(name, change, now).await
    }

    /// Makes a change that an operator asks for.
    ///
    /// # Errors
    /// If there is no such deployment, the change cannot be made, or the rows cannot be written.
    pub async fn change(
        &self,
        name: &DeploymentName,
        change: DeploymentChange,
        now: Timestamp,
    ) -> Result<Deployment, DeploymentsError> {
        self.inner
            .change(name, vec![change], Vec::new(), now)
            .await?;
        self.inner.follow_rows(name).await
    }

    /// Removes a deployment, once no job waits for it or runs on it. Its workers end.
    ///
    /// # Errors
    /// If there is no such deployment, it has jobs, or the rows cannot be written.
    pub async fn remove(
        &self,
        name: &DeploymentName,
        now: Timestamp,
    ) -> Result<(), DeploymentsError> {
        let mut stored = self.inner.stored(name).await?;
        let running = self.inner.running().get(name).cloned();
        if let Some(running) = &running {
            // No submission comes in between: those that were taken before are seen.
            running.engine.end();
            let has_jobs = self.inner.has_jobs(running, now).await;
            if !matches!(has_jobs, Ok(false)) {
                running.engine.follow(&running.state().row);
                has_jobs?;
                return Err(DeploymentsError::InUse(name.clone()));
            }
        }
        for _ in 0..TRIES {
            if self.inner.ports.rows.remove(name, stored.version).await? {
                tracing::info!(deployment = name.as_str(), "a deployment is removed");
                self.inner.sync().await?;
                self.inner.bell.notify_one();
                return Ok(());
            }
            // The owner of the deployment wrote the state of a worker in between.
            stored = self.inner.stored(name).await?;
        }
        if let Some(running) = running {
            running.engine.follow(&running.state().row);
        }
        Err(DeploymentsError::Busy)
    }

    /// The newest things that happened to a deployment, newest first.
    ///
    /// # Errors
    /// If there is no such deployment, or the rows cannot be read.
    pub async fn events(
        &self,
        name: &DeploymentName,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeploymentEvent>, DeploymentsError> {
        self.inner.stored(name).await?;
        Ok(self.inner.ports.rows.events(name, before, limit).await?)
    }
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, BTreeMap<DeploymentName, Arc<Running>>> {
        // Every change is one insert or remove.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owns(&self) -> bool {
        self.owns.load(Ordering::Relaxed)
    }

    async fn stored(&self, name: &DeploymentName) -> Result<StoredDeployment, DeploymentsError> {
        let rows = self.ports.rows.list().await?;
        let found = rows.into_iter().find(|row| row.name == *name);
        found.ok_or_else(|| DeploymentsError::Absent(name.clone()))
    }

    /// Makes changes over the newest row, and keeps what happened besides.
    async fn change(
        &self,
        name: &DeploymentName,
        changes: Vec<DeploymentChange>,
        events: Vec<NewEvent>,
        now: Timestamp,
    ) -> Result<(), DeploymentsError> {
        for _ in 0..TRIES {
            let stored = self.stored(name).await?;
            let mut row = Deployment::read(&stored).ok_or(DeploymentsError::Newer)?;
            let mut told = events.clone();
            for change in &changes {
                told.extend(row.apply(change.clone(), now)?);
            }
            let next = row.to_stored();
            let is_same = next == stored && told.is_empty();
            if is_same || self.ports.rows.save(&next, &told).await? {
                for event in &told {
                    tracing::info!(
                        deployment = name.as_str(),
                        kind = event.kind,
                        "{}",
                        event.text
                    );
                }
                return Ok(());
            }
        }
        Err(DeploymentsError::Busy)
    }

    /// Takes over what the rows say, and answers what they say of one.
    async fn follow_rows(&self, name: &DeploymentName) -> Result<Deployment, DeploymentsError> {
        self.sync().await?;
        self.bell.notify_one();
        let stored = self.stored(name).await?;
        Deployment::read(&stored).ok_or(DeploymentsError::Newer)
    }

    async fn has_jobs(&self, running: &Running, now: Timestamp) -> Result<bool, StoreError> {
        let runs = running.pool.workers().iter().any(|worker| worker.jobs > 0);
        let engine = engine_name(&running.name);
        let demand = self.ports.queue.demand(now).await?;
        let of_it = |set: &workflow_core::RequirementSet| {
            set.read().is_some_and(|needs| needs.engine == engine)
        };
        Ok(runs || running.pool.waiting().0 > 0 || demand.sets.iter().any(of_it))
    }
}

impl fmt::Debug for Deployments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.inner.running();
        f.debug_list()
            .entries(running.keys().map(DeploymentName::as_str))
            .finish()
    }
}

impl fmt::Debug for DeploymentPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeploymentPorts")
    }
}

impl fmt::Debug for DeploymentsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeploymentsConfig")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ownership")
    }
}
