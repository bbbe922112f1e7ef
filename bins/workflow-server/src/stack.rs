//! Everything behind the API, wired together: store, engine, assets, jobs, and the loops that keep them going.
//!
//! The same stack serves over HTTP and runs a single graph from a command line.

use std::io;
use std::sync::Arc;

use accounts::{AccountId, Accounts, AdminError, Principal};
use asset_store::{Assets, LinkKeys, Retention};
use engine_comfy::{AddError, ComfyPool, DeploymentPorts, Deployments, DeploymentsConfig};
use engine_native::{Downloads, EngineConfig, NativeEngine, NativeTools, ToolsConfig};
use hyper_kit::client::{AddressPolicy, Client, ClientConfig, ExtraCaError};
use hyper_kit::{SocketLimits, Sockets};
use identity::WebSessions;
use installation::{Installation, InstallationError, InstallationStore, OpenError};
use server_kit::admin::AdminPorts;
use server_kit::metrics::Metrics;
use server_kit::opening::{self, Keeps};
use server_kit::scrub::BlobHealth;
use server_kit::store_metrics;
use server_kit::sweeps::Sweeps;
use server_kit::threads::LargeWork;
use server_kit::timer::TokioTimer;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use workflow_core::{
    CompletionRate, Engine, Hub, ImageTools, JobPorts, Jobs, JobsConfig, Secrets, Timer, Worker,
    WorkerConfig, WorkerId,
};
use workflow_http::{DeploymentJobs, LogReaders, V1Service, WebPage};

use crate::background::{Background, Loops};
use crate::config::{Content, WorkflowLimits};
use crate::deployments::{self, BaseAddresses};
use crate::maintenance::Maintenance;
use crate::metrics::JobMetrics;
use crate::operator_jobs::OperatorJobs;
use crate::role::Role;
use crate::scrub::Scrub;
use crate::worker_metrics::WorkerMetrics;
use crate::workers;

/// How long a claim counts without being renewed; a worker that is lost is noticed after that.
const LEASE: std::time::Duration = std::time::Duration::from_secs(15);

/// How long a server that starts waits until it hears of other replicas.
const HEARS_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);

/// How long an address in the bucket works that a reader is sent to: readers go there at once.
const ADDRESS_LASTS: std::time::Duration = std::time::Duration::from_secs(60);

/// One installation, open.
#[derive(Clone)]
pub struct Stack {
    /// Jobs of all accounts.
    pub jobs: Jobs,
    /// Assets of all accounts.
    pub assets: Assets,
    /// The accounts.
    pub accounts: Arc<dyn Accounts>,
    /// What runs graphs.
    pub engine: Arc<dyn Engine>,
    /// The same, for code that offers classes of its own ([`NativeEngine::offer`]).
    pub native: NativeEngine,
    /// The ComfyUI workers.
    pub pool: ComfyPool,
    /// The deployments of others.
    pub deployments: Deployments,
    /// Reads and rewrites pictures outside jobs.
    pub image_tools: Arc<dyn ImageTools>,
    /// Signs links.
    pub link_keys: Arc<LinkKeys>,
    /// The clock.
    pub timer: Arc<dyn Timer>,
    installation: Installation,
    sweeps: Sweeps,
    health: BlobHealth,
    ports: JobPorts,
    pace: Arc<CompletionRate>,
    metrics: JobMetrics,
    worker_metrics: WorkerMetrics,
    limits: WorkflowLimits,
    sockets: Sockets,
}

/// Why an installation cannot be opened. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The data directory.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// Its database.
    #[error(
        "the keys in the data directory cannot be read; if it is damaged, restore it from a backup"
    )]
    LinkKeys(#[source] InstallationError),
    /// Its first account.
    #[error("the account `local` cannot be made in the data directory")]
    Accounts(#[source] AdminError),
    /// The engine.
    #[error(
        "the threads of the engine cannot be started; lower `threads`, or raise the limits of this user"
    )]
    Engine(#[source] io::Error),
    /// Readers are to be sent to a store that gives nothing out itself.
    #[error(
        "`content` cannot be redirect with a data directory, whose bytes only this server sends: set `store` and `blobs`, or leave out `content`"
    )]
    NoAddresses,
    /// The file of authorities.
    #[error("the file of `extra_ca` cannot be read; name a PEM file with certificates")]
    ExtraCaFile(#[source] io::Error),
    /// A worker.
    #[error("a ComfyUI worker cannot be used: {0}")]
    Worker(#[source] AddError),
    /// A header of a worker.
    #[error(
        "the header {header} of the worker {worker} has no value: {why}; correct it, or remove the header from the configuration"
    )]
    WorkerHeader {
        /// The worker.
        worker: String,
        /// The header.
        header: String,
        /// Why, without its value.
        why: String,
    },
    /// The authorities of a worker.
    #[error(
        "the file `ca` of the worker {worker} cannot be read; name a PEM file with certificates"
    )]
    WorkerCa {
        /// The worker.
        worker: String,
        /// Why.
        source: io::Error,
    },
    /// What is in it.
    #[error("the file of `extra_ca` cannot be used; name a PEM file with certificates")]
    ExtraCa(#[source] ExtraCaError),
}

impl Stack {
    /// Opens the installation of a store, creating it where it is missing. Nothing runs yet.
    ///
    /// # Errors
    /// If the installation cannot be opened, or the engine cannot be started.
    pub async fn open(
        store: &dyn InstallationStore,
        limits: &WorkflowLimits,
        metrics: &mut Metrics,
    ) -> Result<Self, StackError> {
        let installation = opening::open(store, limits.opening()).await?;
        Self::over(installation, limits, metrics).await
    }

    /// As [`Stack::open`], over an installation that is open already.
    ///
    /// # Errors
    /// If the store cannot be read, or the engine cannot be had.
    pub async fn over(
        installation: Installation,
        limits: &WorkflowLimits,
        metrics: &mut Metrics,
    ) -> Result<Self, StackError> {
        let timer = TokioTimer;
        let local = accounts::ensure_local(&*installation.account_admin, timer.now()).await;
        local.map_err(StackError::Accounts)?;
        let link_keys = installation.keys.link_keys().await;
        let link_keys = link_keys.map_err(StackError::LinkKeys)?;
        let retention = Retention {
            uploads: limits.upload_retention,
            grace: limits.sweep_grace,
        };
        let blobs = installation.assets.blobs.clone();
        let records = installation.assets.records.clone();
        let assets = Assets::new(blobs.clone(), records, retention);
        let assets = match (limits.content, &installation.assets.direct) {
            (Content::Through, _) => assets,
            (Content::Redirect, Some(direct)) => {
                assets.read_directly(direct.clone(), ADDRESS_LASTS)
            }
            (Content::Redirect, None) => return Err(StackError::NoAddresses),
        };
        let extra_ca_pem = match &limits.extra_ca {
            Some(file) => Some(
                tokio::fs::read(file)
                    .await
                    .map_err(StackError::ExtraCaFile)?,
            ),
            None => None,
        };
        let engine_config = EngineConfig {
            threads: limits.threads as usize,
            cache_bytes: limits.cache_bytes,
            job_memory_bytes: limits.job_memory_bytes,
            downloads: Some(Downloads::new(client(limits, extra_ca_pem.clone())?)),
        };
        let tools_config = ToolsConfig {
            threads: limits.threads as usize,
            memory_bytes: limits.job_memory_bytes,
        };
        let image_tools =
            NativeTools::new(blobs.clone(), tools_config).map_err(StackError::Engine)?;
        let native = NativeEngine::new(blobs.clone(), engine_config).map_err(StackError::Engine)?;
        let engine: Arc<dyn Engine> = Arc::new(native.clone());

        let sweeps = Sweeps::register(installation.assets.sweeps.clone(), metrics);
        let health = BlobHealth::register(sweeps.notes(), metrics);
        store_metrics::register(installation.health.clone(), metrics);
        let worker_metrics = WorkerMetrics::register(metrics);
        let metrics = JobMetrics::register(metrics);
        let ended = metrics.clone();
        let hub = Hub::over(installation.jobs.changes.clone()).on_end(move |job| ended.ended(job));
        let hub = Arc::new(hub);
        let pool_config = workers::pool_config(&limits.workers, extra_ca_pem, Arc::clone(&hub));
        let pool = workers::pool(&limits.workers, pool_config.clone(), blobs.clone())?;
        let ports = JobPorts {
            store: installation.jobs.store.clone(),
            queue: installation.jobs.queue.clone(),
            hub,
            engines: workers::engines(engine.clone(), &pool, &limits.workers),
            timer: Arc::new(TokioTimer),
            secrets: Secrets::new(WorkerId(Uuid::now_v7())),
            threads: Arc::new(LargeWork::new()),
        };
        let deployments = Deployments::new(
            DeploymentPorts {
                rows: installation.jobs.deployments.clone(),
                queue: ports.queue.clone(),
                blobs,
                engines: ports.engines.clone(),
            },
            DeploymentsConfig {
                folder: limits.workers.deployments(),
                pool: pool_config,
            },
        );
        let pace = Arc::new(CompletionRate::default());
        let jobs_config = JobsConfig {
            queued_jobs: limits.queue_total,
        };
        let jobs = Jobs::new(ports.clone(), assets.clone(), jobs_config, pace.clone());
        let (added, default) = (pool.clone(), limits.tier().concurrent_jobs);
        let room = move |of_tier| workers::room(of_tier, default, added.added_places());
        Ok(Self {
            jobs: jobs.at(ports.engines.clone(), room),
            assets,
            engine,
            native,
            pool,
            deployments,
            image_tools: Arc::new(image_tools),
            link_keys: Arc::new(link_keys),
            timer: Arc::new(timer),
            accounts: installation.accounts.clone(),
            installation,
            sweeps,
            health,
            ports,
            pace,
            metrics,
            worker_metrics,
            limits: limits.clone(),
            sockets: Sockets::new(SocketLimits::DEFAULT, CancellationToken::new()),
        })
    }

    /// Starts the worker, as far as its role has one, and the sweeper. They stop when the answer is dropped, and end well when it is drained.
    #[must_use]
    pub fn start(&self, role: Role) -> Background {
        let config = WorkerConfig {
            slots: self.limits.slots() as usize,
            account_slots: self.limits.job_slots as usize,
            only_secrets: role == Role::Api,
            lease: LEASE,
            run_limit: self.limits.run_limit,
            queue_limit: self.limits.queue_limit,
        };
        let worker = Worker::new(
            self.ports.clone(),
            self.assets.blobs().clone(),
            self.timer.clone(),
            config,
            self.pace.clone(),
        );
        let maintenance = Maintenance {
            jobs: self.jobs.clone(),
            assets: self.assets.clone(),
            released: self.installation.assets.released.clone(),
            sweeps: self.sweeps.clone(),
            timer: self.timer.clone(),
            interval: self.limits.sweep_interval,
        };
        let scrub = Scrub {
            blobs: self.assets.blobs().clone(),
            states: self.installation.assets.scrub.clone(),
            health: self.health.clone(),
            timer: self.timer.clone(),
            interval: self.limits.scrub_interval,
        };
        Background::start(Loops {
            worker: Arc::new(worker),
            ports: self.ports.clone(),
            slots: self.limits.slots(),
            turns: self.installation.turns.clone(),
            sweeps: role != Role::Api,
            maintenance,
            scrub,
            sockets: self.sockets.clone(),
        })
    }

    /// As [`Stack::start`], and keeps the deployments: their workers are started and stopped as jobs need them.
    #[must_use]
    pub fn serve(&self, role: Role) -> Background {
        let turns = match role {
            Role::All | Role::Worker => Some(self.installation.turns.clone()),
            // It runs no jobs, so it owns no worker.
            Role::Api => None,
        };
        self.start(role).keeping(self.deployments.clone(), turns)
    }

    /// Waits until this replica hears of the changes of others, at most 5 s. Sockets that open before that get the messages of a run
    /// twice.
    pub async fn hears_of_replicas(&self) {
        // If the database does not answer, the requests that need it say so.
        let _ = tokio::time::timeout(HEARS_WITHIN, self.ports.hub.follows_replicas()).await;
    }

    /// The principal of the account that an installation works for without any other: it may do everything, within the limits.
    #[must_use]
    pub fn local_standing(&self) -> Principal {
        Principal::full(AccountId::local(), self.limits.tier())
    }

    /// What the commands of operators work on.
    #[must_use]
    pub fn admin(&self) -> AdminPorts {
        AdminPorts {
            workers: Some(Arc::new(workers::Workers(self.pool.clone()))),
            jobs: Some(Arc::new(OperatorJobs(self.jobs.clone()))),
            deployments: deployments::admin(&self.deployments),
            ..opening::admin_ports(&self.installation, Keeps::Assets)
        }
    }

    /// The deployments as the API finds them.
    #[must_use]
    pub fn base_addresses(&self) -> Arc<dyn DeploymentJobs> {
        Arc::new(BaseAddresses {
            jobs: self.jobs.clone(),
            deployments: self.deployments.clone(),
            room: self.limits.tier().concurrent_jobs,
        })
    }

    /// Whether its sweeps may delete.
    #[must_use]
    pub fn sweeps(&self) -> Sweeps {
        self.sweeps.clone()
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> &JobMetrics {
        &self.metrics
    }

    /// What the older API is made from, with its web page where one is served. A drain of [`Stack::start`] ends its sockets.
    #[must_use]
    pub fn v1(&self, web_page: Option<WebPage>) -> V1Service {
        V1Service {
            user_files: self.installation.user_files.clone(),
            file_names: self.installation.assets.file_names.clone(),
            image_tools: Arc::clone(&self.image_tools),
            sockets: self.sockets.clone(),
            log_readers: LogReaders::new(self.installation.jobs.changes.has_others()),
            sessions: WebSessions::new(self.installation.sessions.clone()),
            web_page,
            version: env!("CARGO_PKG_VERSION"),
            memory: server_kit::machine::memory,
        }
    }

    /// Why jobs cannot be taken in or run now; nothing when they can. Brings what metrics show of the queue up to date.
    pub async fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let health = &self.installation.health;
        if let Err(unhealthy) = health.writable() {
            complaints.push(unhealthy.to_string());
        }
        self.metrics.show_requests();
        let workers = [self.pool.workers(), self.deployments.workers()].concat();
        self.worker_metrics.show(&workers);
        self.health
            .show_damaged(self.assets.blobs().damaged().len());
        if let Some(bytes) = health.free_bytes() {
            self.metrics.set_free(bytes);
        }
        if let Err(no_room) = health.room() {
            complaints.push(no_room.to_string());
        }
        match self.ports.queue.depth().await {
            Ok(depth) => self.metrics.set_depth(depth),
            Err(error) => complaints.push(error.to_string()),
        }
        let overdue = self.native.overdue();
        self.metrics.set_overdue(overdue);
        if overdue.stuck >= self.native.threads() {
            complaints.push(
                "every thread of the engine runs a node whose job has ended; restart the server"
                    .to_owned(),
            );
        }
        if self.engine.nodes().is_empty() {
            complaints.push("no engine can run anything".to_owned());
        }
        complaints
    }
}

/// What loads pictures from web addresses.
fn client(limits: &WorkflowLimits, extra_ca_pem: Option<Vec<u8>>) -> Result<Client, StackError> {
    let policy = AddressPolicy {
        allow_private: limits.private_hosts.clone(),
        ..AddressPolicy::default()
    };
    Client::new(ClientConfig {
        policy,
        extra_ca_pem,
        // Some hosts refuse a client that does not name itself.
        user_agent: concat!("easel/", env!("CARGO_PKG_VERSION")).parse().ok(),
        ..ClientConfig::default()
    })
    .map_err(StackError::ExtraCa)
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stack")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
