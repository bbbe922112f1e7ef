//! Keeps results: fetches the files that answers name, which their accounts want kept, into the store of files.
//!
//! Each process of an installation takes what is due, a few at a time and under leases that it renews while it fetches. Accounts
//! take turns, and none has all places. What a process was at that ends is taken by the next one.

mod fetching;
mod places;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use accounts::Accounts;
use asset_store::Assets;
use futures_util::FutureExt;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use router_core::{
    CallsError, DueResult, KeepOutcome, KeptResults, Lease, OwnerId, ResultId, Router,
    RouterConfig, Timer,
};
use server_kit::metrics::Metrics;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) use fetching::{Fetcher, FetcherError};
use places::Places;

/// The longest pause between two looks at what is due: attempts whose pause is over ring nobody's bell, and what another process
/// left neither.
const LOOK: Duration = Duration::from_secs(1);

/// The pause between two renewals of leases: two may fail, and the leases still hold.
const RENEWAL: Duration = RouterConfig::LEASE.checked_div(3).expect("not by 0");

/// How long fetches that are under way may go on after a stop.
const LEAVE: Duration = Duration::from_secs(2);

/// Keeps results.
pub(crate) struct ResultKeeper {
    pub(crate) router: Router,
    pub(crate) kept: Arc<dyn KeptResults>,
    pub(crate) fetcher: Fetcher,
    /// This process, as it takes results.
    pub(crate) owner: OwnerId,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) metrics: KeptMetrics,
}

/// What is counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptMetrics(Family<OutcomeLabels, Counter>);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// What runs.
struct Fetching {
    tasks: JoinSet<ResultId>,
    places: Places,
}

impl KeptMetrics {
    pub(crate) fn register(metrics: &mut Metrics) -> Self {
        let counted = Self::default();
        metrics.registry().register(
            "easel_router_kept_results",
            "Attempts to keep the files of results, by outcome",
            counted.0.clone(),
        );
        for outcome in ["kept", "failed", "later"] {
            drop(counted.of(outcome));
        }
        counted
    }

    fn of(&self, outcome: &'static str) -> Counter {
        self.0.get_or_create_owned(&OutcomeLabels { outcome })
    }

    fn count(&self, came: &KeepOutcome) {
        let outcome = match came {
            KeepOutcome::Kept(_) => "kept",
            KeepOutcome::Failed { .. } => "failed",
            KeepOutcome::Later { .. } => "later",
            KeepOutcome::GivenBack => return,
        };
        self.of(outcome).inc();
    }
}

impl ResultKeeper {
    fn lease(&self) -> Lease {
        Lease {
            owner: self.owner,
            lasts: RouterConfig::LEASE,
        }
    }

    /// Keeps results until `stop`. What is being fetched then has a moment more, and is given back.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let keeper = Arc::new(self);
        let mut fetching = Fetching {
            tasks: JoinSet::new(),
            places: Places::default(),
        };
        let mut renewal = keeper.timer.sleep(RENEWAL);
        while !stop.is_cancelled() {
            // A panic in a store is a bug that must not end the keeping.
            let begun = AssertUnwindSafe(keeper.begin(&mut fetching)).catch_unwind();
            match begun.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(error, "results to keep cannot be read; trying again");
                }
                Err(_) => tracing::error!("looking for results to keep panicked; trying again"),
            }
            let is_full = fetching.places.free() == 0;
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some(ended) = fetching.tasks.join_next() => fetching.ended(ended.ok()),
                () = &mut renewal => {
                    keeper.renew(&mut fetching).await;
                    renewal = keeper.timer.sleep(RENEWAL);
                }
                () = keeper.router.results_arrive(), if !is_full => {}
                () = keeper.timer.sleep(LOOK), if !is_full => {}
            }
        }
        keeper.leave(fetching).await;
    }

    /// Begins to fetch what is due, as far as there is room.
    async fn begin(self: &Arc<Self>, fetching: &mut Fetching) -> Result<(), CallsError> {
        while fetching.places.free() > 0 {
            let turn = fetching.places.turn();
            let taken = self.kept.take(self.lease(), &turn, self.timer.now());
            let Some(due) = taken.await? else {
                break;
            };
            let (keeper, id) = (Arc::clone(self), due.id);
            let account = due.account.clone();
            let task = fetching.tasks.spawn(async move {
                keeper.keep(due).await;
                id
            });
            fetching.places.take(id, account, task);
        }
        Ok(())
    }

    /// Fetches one result, and notes what came of it.
    async fn keep(&self, due: DueResult) {
        let came = self.fetcher.keep(&due, &*self.timer).await;
        self.metrics.count(&came);
        match &came {
            KeepOutcome::Failed { reason } => {
                tracing::warn!(generation.id = %due.id.generation, result = due.id.place, attempts = due.attempt, reason, "a result could not be kept");
            }
            KeepOutcome::Later { reason, .. } => {
                tracing::debug!(generation.id = %due.id.generation, result = due.id.place, attempts = due.attempt, reason, "a result is fetched again");
            }
            KeepOutcome::Kept(_) | KeepOutcome::GivenBack => {}
        }
        self.note(due.id, came).await;
    }

    async fn note(&self, id: ResultId, came: KeepOutcome) {
        let noted = self.kept.note((id, self.owner), came, self.timer.now());
        if let Err(error) = noted.await {
            // It is fetched again when its lease has lapsed, and is then the same file.
            let error: &dyn std::error::Error = &error;
            tracing::warn!(generation.id = %id.generation, result = id.place, error, "the outcome of keeping a result could not be saved");
        }
    }

    /// Renews the leases of what is being fetched; what another process has now is not fetched here any more.
    async fn renew(&self, fetching: &mut Fetching) {
        let running = fetching.places.taken();
        if running.is_empty() {
            return;
        }
        let renewed = self.kept.renew(&running, self.lease(), self.timer.now());
        match renewed.await {
            Ok(lost) => {
                for id in lost {
                    fetching.places.abort(id);
                }
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    error,
                    "the leases of results could not be renewed; trying again"
                );
            }
        }
    }

    /// Lets what is under way end for a moment, and gives the rest back.
    async fn leave(&self, mut fetching: Fetching) {
        let ending = async {
            while let Some(ended) = fetching.tasks.join_next().await {
                fetching.ended(ended.ok());
            }
        };
        if tokio::time::timeout(LEAVE, ending).await.is_ok() {
            return;
        }
        fetching.tasks.abort_all();
        while let Some(ended) = fetching.tasks.join_next().await {
            fetching.ended(ended.ok());
        }
        for id in fetching.places.taken() {
            self.note(id, KeepOutcome::GivenBack).await;
        }
    }
}

impl Fetching {
    /// A task is over. One that panicked does not say which it was: those that are over are looked for.
    fn ended(&mut self, id: Option<ResultId>) {
        match id {
            Some(id) => self.places.free_of(id),
            None => self.places.free_ended(),
        }
    }
}

/// Everything that a fetcher puts files with.
pub(crate) struct FilePorts {
    pub(crate) assets: Assets,
    pub(crate) accounts: Arc<dyn Accounts>,
}
