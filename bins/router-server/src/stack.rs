//! Everything behind the router's API, wired together: rows, catalog, router, and what keeps them going.
//!
//! It stands over an installation that its caller opened, so that another server can mount it beside its own.

use std::sync::Arc;
use std::time::Duration;

use accounts::Accounts;
use asset_store::{Assets, LinkKeys, ReleasedBlobs, Retention};
use futures_util::FutureExt;
use hyper_kit::{PublicAddress, ReadPace, RouteError};
use identity::Identity;
use installation::{Installation, InstallationError, Turns, Work};
use jiff::Timestamp;
use providers::{PartnerStatus, Watch};
use router_core::{
    CallRetention, CallsError, CursorKey, KeptResults, LiveCatalog, OwnerId, QueueBounds, Router,
    RouterConfig, RouterPorts, Timer, Usage,
};
use router_http::{Observed, ResultFiles, RouterApi, RouterHttpConfig, RouterService};
use server_kit::admin::{CatalogControl, ModelAdmin};
use server_kit::config::ServerConfig;
use server_kit::metrics::{HttpMetrics, Metrics};
use server_kit::sweeps::{Passes, SweepName, Sweeps};
use server_kit::threads::LargeWork;
use server_kit::timer::TokioTimer;
use server_kit::turns::in_turn;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::caller::Caller;
use crate::catalog::{self, CatalogFaults, CatalogSource, PartnerError};
use crate::config::RouterSettings;
use crate::control::{CatalogKeeper, Control, Served};
use crate::files::FileSweep;
use crate::keeping::{Fetcher, FetcherError, FilePorts, KeptMetrics, ResultKeeper};
use crate::leases::LeaseKeeper;
use crate::metrics::RouterMetrics;
use crate::published::{OwnModels, PublishedControl, PublishedSource};
use crate::queue::QueueKeeper;

/// The pause between two sweeps of what is past its time.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Most rows of a kind that one step of a sweep forgets, so that no transaction is long.
const SWEEP_STEP: usize = 500;

/// The router of one installation.
pub struct RouterStack {
    /// The router.
    pub router: Router,
    /// Executions at work.
    executions: TaskTracker,
    retention: Arc<dyn CallRetention>,
    turns: Arc<dyn Turns>,
    usage: Arc<dyn Usage>,
    accounts: Arc<dyn Accounts>,
    kept: Arc<dyn KeptResults>,
    kept_metrics: KeptMetrics,
    owner: OwnerId,
    /// The files of results that are kept.
    assets: Assets,
    released: Arc<dyn ReleasedBlobs>,
    link_keys: Arc<LinkKeys>,
    /// Whether it deletes files that are past their time: nobody else does.
    sweeps_files: bool,
    timer: Arc<dyn Timer>,
    keeper: Arc<CatalogKeeper>,
    published: Option<Arc<PublishedSource>>,
    watch: Option<Watch>,
    partners: Vec<PartnerStatus>,
    models: usize,
    switched_off: Vec<String>,
    settings: RouterSettings,
    metrics: RouterMetrics,
}

/// Why there is no router. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum RouterStackError {
    /// The files of the catalog.
    #[error(transparent)]
    Catalog(#[from] CatalogFaults),
    /// How partners are reached.
    #[error("partners cannot be reached as configured")]
    Partners(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// How results are fetched.
    #[error("results cannot be fetched as configured")]
    Results(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database.
    #[error("the data directory cannot be read; if it is damaged, restore it from a backup")]
    Store(#[from] InstallationError),
    /// The record of calls.
    #[error("the record of calls cannot be read; if it is damaged, restore it from a backup")]
    Calls(#[from] CallsError),
}

/// What keeps a router going. Dropping it cuts everything off; what was accepted is recovered at the next start.
#[derive(Debug)]
pub struct Background {
    router: Router,
    executions: TaskTracker,
    stop: CancellationToken,
    keepers: Vec<JoinHandle<()>>,
    stop_queue: CancellationToken,
    queue: JoinHandle<()>,
}

impl RouterStack {
    /// Loads the catalog and makes the router over the rows of `installation`. Nothing runs yet.
    ///
    /// # Errors
    /// If the catalog is wrong, or the rows cannot be read.
    pub async fn open(
        installation: &Installation,
        settings: &RouterSettings,
        metrics: &mut Metrics,
        requests: &HttpMetrics,
    ) -> Result<Self, RouterStackError> {
        let own = OwnModels::default();
        Self::open_with(installation, settings, own, metrics, requests).await
    }

    /// The same, with models of the program's own.
    ///
    /// # Errors
    /// As [`RouterStack::open`].
    pub async fn open_with(
        installation: &Installation,
        settings: &RouterSettings,
        own: OwnModels,
        metrics: &mut Metrics,
        requests: &HttpMetrics,
    ) -> Result<Self, RouterStackError> {
        let timer: Arc<dyn Timer> = Arc::new(TokioTimer);
        let source = CatalogSource::new(&settings.partners, Arc::clone(&timer));
        let source =
            source.map_err(|error: PartnerError| RouterStackError::Partners(error.into()))?;
        let mut source = source.with_kinds(own.kinds);
        let watch = source.take_watch();
        let offer = Arc::new(source.load()?);
        let rows = Arc::clone(&installation.calls.published);
        let published = own.graphs.map(|maker| PublishedSource::new(rows, maker));
        let published = published.map(Arc::new);
        let (served, catalog) = Served::first(&offer, published.as_deref()).await?;
        let models = catalog.models().len();
        let switched_off = offer.switched_off.iter();
        let switched_off = switched_off.map(|off| off.model.id().to_string()).collect();
        let ports = RouterPorts {
            calls: Arc::clone(&installation.calls.calls),
            queue: Arc::clone(&installation.calls.queue),
            quota: Arc::clone(&installation.calls.quota),
            admissions: Arc::clone(&installation.calls.admissions),
            accounts: Arc::clone(&installation.accounts),
            timer: Arc::clone(&timer),
            threads: Arc::new(LargeWork::new()),
        };
        let secret = installation.keys.installation_secret().await?;
        let link_keys = installation.keys.link_keys().await?;
        let owner = OwnerId(Uuid::new_v4());
        let files = &installation.assets;
        // What is kept of a call lasts as long as its record.
        let retention = Retention {
            uploads: settings.call_retention,
            ..Retention::default()
        };
        let config = RouterConfig {
            deadline: settings.deadline,
            give_up_after: settings.give_up_after,
            queue_time: settings.queue_time,
            queue_bounds: QueueBounds {
                of_account: settings.queued_calls,
                of_all: RouterConfig::QUEUE_BOUNDS.of_all.max(settings.queued_calls),
            },
            cursor_key: CursorKey::derived_from(&secret),
            owner,
            lease: RouterConfig::LEASE,
        };
        let executions = TaskTracker::new();
        let router = Router::new(ports, LiveCatalog::new(catalog), config);
        let partners = source.settings().clone();
        Ok(Self {
            keeper: CatalogKeeper::new(source, published.clone(), router.clone(), served),
            published,
            watch,
            router,
            metrics: RouterMetrics::register(
                metrics,
                requests.clone(),
                executions.clone(),
                Arc::clone(&installation.calls.queue),
                partners,
            ),
            executions,
            retention: Arc::clone(&installation.calls.retention),
            turns: Arc::clone(&installation.turns),
            usage: Arc::clone(&installation.calls.usage),
            accounts: Arc::clone(&installation.accounts),
            kept: Arc::clone(&installation.calls.kept),
            kept_metrics: KeptMetrics::register(metrics),
            owner,
            assets: Assets::new(files.blobs.clone(), files.records.clone(), retention),
            released: files.released.clone(),
            link_keys: Arc::new(link_keys),
            sweeps_files: false,
            timer,
            partners: offer.partners.clone(),
            models,
            switched_off,
            settings: settings.clone(),
        })
    }

    /// The same, deleting files that are past their time: for a server without another family that does.
    #[must_use]
    pub fn sweeping_files(self) -> Self {
        Self {
            sweeps_files: true,
            ..self
        }
    }

    /// What calls models from within this process.
    #[must_use]
    pub fn caller(&self) -> Caller {
        Caller {
            router: self.router.clone(),
            executions: self.executions.clone(),
            clock: Arc::clone(&self.timer),
            body_bytes: self.settings.body_bytes,
        }
    }

    /// The catalog as operators list and reload it.
    #[must_use]
    pub fn catalog_control(&self) -> Arc<dyn CatalogControl> {
        Arc::new(Control(Arc::clone(&self.keeper)))
    }

    /// Published models as operators look at them and change them, where the program makes any.
    #[must_use]
    pub fn model_admin(&self) -> Option<Arc<dyn ModelAdmin>> {
        let source = self.published.clone()?;
        let control = PublishedControl::new(Arc::clone(&self.keeper), source);
        Some(Arc::new(control))
    }

    /// The API, to be mounted for the callers that `identity` knows.
    ///
    /// # Errors
    /// If the mount path is none.
    pub fn api(&self, server: &ServerConfig, identity: Identity) -> Result<RouterApi, RouteError> {
        let metrics = self.metrics.clone();
        let api = router_http::routes(RouterService {
            router: self.router.clone(),
            usage: Arc::clone(&self.usage),
            results: Some(ResultFiles {
                kept: Arc::clone(&self.kept),
                assets: self.assets.clone(),
                link_keys: Arc::clone(&self.link_keys),
            }),
            identity,
            clock: Arc::clone(&self.timer),
            executions: self.executions.clone(),
            observer: Arc::new(move |seen: &Observed| metrics.observe(seen)),
            config: RouterHttpConfig {
                address: PublicAddress {
                    configured: server.public_url.clone(),
                    trusted_proxies: server.trusted_proxies.clone(),
                    mount_prefix: server.mount_path.clone(),
                },
                allowed_origins: server.allowed_origins.clone(),
                body_bytes: self.settings.body_bytes,
                read_pace: ReadPace::default(),
                aliases: self.settings.aliases,
                mirror_headers: self.settings.mirror_headers,
                api_key_header: self.settings.api_key_header,
                link_lifetime: RouterHttpConfig::LINK_LIFETIME,
            },
        })?;
        self.metrics.watch_bodies(api.memory_counter());
        Ok(api)
    }

    /// Recovers what was running when the program stopped last, and starts what keeps the router going: to be called before
    /// the first request.
    ///
    /// # Errors
    /// If the rows cannot be read.
    pub async fn start(self, sweeps: Sweeps) -> Result<Background, RouterStackError> {
        let stop = CancellationToken::new();
        let leases = LeaseKeeper {
            router: self.router.clone(),
            executions: self.executions.clone(),
            timer: Arc::clone(&self.timer),
        };
        leases.recover().await?;
        let queue = QueueKeeper {
            router: self.router.clone(),
            executions: self.executions.clone(),
            timer: Arc::clone(&self.timer),
        };
        let stop_queue = CancellationToken::new();
        let ports = FilePorts {
            assets: self.assets.clone(),
            accounts: self.accounts,
        };
        let fetcher = Fetcher::new(
            &self.settings.partners,
            ports,
            self.settings.kept_result_bytes,
        );
        let fetcher = fetcher.await;
        let fetcher =
            fetcher.map_err(|error: FetcherError| RouterStackError::Results(error.into()))?;
        let results = ResultKeeper {
            router: self.router.clone(),
            kept: self.kept,
            fetcher,
            owner: self.owner,
            timer: Arc::clone(&self.timer),
            metrics: self.kept_metrics,
        };
        let files = self.sweeps_files.then(|| FileSweep {
            assets: self.assets,
            released: self.released,
            sweeps: sweeps.clone(),
            timer: Arc::clone(&self.timer),
        });
        let sweep = Sweep {
            retention: self.retention,
            timer: self.timer,
            keep_for: self.settings.call_retention,
            sweeps,
        };
        let turns = Arc::clone(&self.turns);
        let mut keepers = vec![
            tokio::spawn(catalog::keep_fresh(self.keeper, self.watch, stop.clone())),
            tokio::spawn(sweep_in_turn(self.turns, sweep, stop.clone())),
            tokio::spawn(leases.run(stop.clone())),
            tokio::spawn(results.run(stop.clone())),
        ];
        keepers.extend(files.map(|files| tokio::spawn(files.run_in_turn(turns, stop.clone()))));
        Ok(Background {
            router: self.router,
            executions: self.executions,
            stop,
            keepers,
            queue: tokio::spawn(queue.run(stop_queue.clone())),
            stop_queue,
        })
    }

    /// Every partner of the catalog, and what brings it into use.
    #[must_use]
    pub fn partners(&self) -> &[PartnerStatus] {
        &self.partners
    }

    /// What is said at start about partners: which are in use, and which variable would bring in the others.
    #[must_use]
    pub fn welcome(&self) -> Vec<(&'static str, String)> {
        let counted = |partner: &PartnerStatus| match partner.models {
            1 => format!("{} (1 model)", partner.id),
            models => format!("{} ({models} models)", partner.id),
        };
        let (waiting, used): (Vec<_>, Vec<_>) = self
            .partners
            .iter()
            .partition(|partner| partner.missing.is_some());
        let used: Vec<String> = used.into_iter().map(counted).collect();
        let models = match used.as_slice() {
            [] => "none yet: no partner has its credentials".to_owned(),
            used => format!("{} of {}", self.models, used.join(", ")),
        };
        let mut lines = vec![("Models", models)];
        if !self.switched_off.is_empty() {
            lines.push((
                "",
                format!("switched off: {}", self.switched_off.join(", ")),
            ));
        }
        lines.extend(waiting.into_iter().map(|partner| {
            let variables = partner.credentials.join(" and ");
            ("", format!("set {variables} for {}", counted(partner)))
        }));
        lines
    }
}

impl Background {
    /// Lets executions end within `grace`, and joins what kept the router going. What is not over by then was accepted by
    /// its partner, and is recovered at the next start; who waits for it is answered, for which connections have a moment more.
    pub async fn drain(self, grace: Duration) {
        // What waits is for the next start.
        self.stop_queue.cancel();
        if self.queue.await.is_err() {
            tracing::error!("the loop that dispatches queued requests panicked");
        }
        self.executions.close();
        if tokio::time::timeout(grace, self.executions.wait())
            .await
            .is_err()
        {
            let calls = self.executions.len();
            tracing::info!(
                calls,
                "calls still run at partners; they are recovered at the next start"
            );
            self.router.dismiss_callers();
        }
        self.stop.cancel();
        for keeper in self.keepers {
            if keeper.await.is_err() {
                tracing::error!("a loop panicked");
            }
        }
        if let Err(error) = self.router.hand_over().await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                error,
                "the leases of calls could not be given back; they lapse by themselves"
            );
        }
    }
}

/// Sweeps while no other process does.
async fn sweep_in_turn(turns: Arc<dyn Turns>, sweep: Sweep, stop: CancellationToken) {
    in_turn(&*turns, Work::Calls, &stop, || sweep.run(&stop)).await;
}

/// Forgets what is past its time.
struct Sweep {
    retention: Arc<dyn CallRetention>,
    timer: Arc<dyn Timer>,
    keep_for: jiff::SignedDuration,
    sweeps: Sweeps,
}

impl Sweep {
    async fn run(&self, stop: &CancellationToken) {
        let mut passes = Passes::of(SweepName::Calls);
        loop {
            // At once: the clock of a server that runs for seconds is remembered, too.
            let admitted = self.sweeps.admit(&mut passes, self.timer.now()).await;
            if admitted.is_some() {
                self.pass().await;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.timer.sleep(SWEEP_INTERVAL) => {}
            }
        }
    }

    async fn pass(&self) {
        // A panic in a store is a bug that must not end the sweeping.
        let swept = std::panic::AssertUnwindSafe(self.once()).catch_unwind();
        match swept.await {
            Ok(Ok(0)) => {}
            Ok(Ok(rows)) => tracing::debug!(rows, "old calls were deleted"),
            Ok(Err(error)) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "old calls could not be deleted; trying again");
            }
            Err(_) => tracing::error!("deleting old calls panicked; trying again"),
        }
    }

    async fn once(&self) -> Result<usize, CallsError> {
        let now: Timestamp = self.timer.now();
        let keep_from = now.checked_sub(self.keep_for).unwrap_or(Timestamp::MIN);
        let mut rows = 0;
        loop {
            let went = self.retention.expire(now, keep_from, SWEEP_STEP).await?;
            rows += went;
            if went < SWEEP_STEP {
                return Ok(rows);
            }
        }
    }
}

impl std::fmt::Debug for RouterStack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterStack")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
