//! The loops of an installation as tasks: one per job slot, one for the leases, one for what other replicas change, and, in
//! one process of the installation, one that sweeps and one that compares stored bytes with their hashes.
//!
//! A loop that panics is a bug that must not cost the server a slot: it is logged and the loop starts again. What a slot had
//! at hand by then is claimed anew once its lease is over.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use engine_comfy::Deployments;
use futures_util::FutureExt;
use hyper_kit::Sockets;
use installation::{Turns, Work};
use server_kit::turns::in_turn;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use workflow_core::{JobPorts, Worker};

use crate::deployments::keep;
use crate::maintenance::Maintenance;
use crate::scrub::Scrub;

/// What is to be kept going.
pub(crate) struct Loops {
    /// Runs jobs.
    pub(crate) worker: Arc<Worker>,
    /// How many at once.
    pub(crate) slots: u32,
    /// Hears of other replicas.
    pub(crate) ports: JobPorts,
    /// Whether this process may sweep and compare.
    pub(crate) sweeps: bool,
    /// Which process sweeps and compares.
    pub(crate) turns: Arc<dyn Turns>,
    /// Sweeps.
    pub(crate) maintenance: Maintenance,
    /// Compares.
    pub(crate) scrub: Scrub,
    /// What is said goodbye to.
    pub(crate) sockets: Sockets,
}

/// The running loops. Dropping them cuts them off; the next start finds the jobs as they were last saved.
#[derive(Debug)]
pub struct Background {
    /// No job is taken up any more.
    draining: CancellationToken,
    /// Jobs at hand are given back.
    halt: CancellationToken,
    /// Leases are kept no longer.
    stop: CancellationToken,
    slots: JoinSet<()>,
    keepers: JoinSet<()>,
    sockets: Sockets,
}

/// How long giving jobs back may take once their time is over: a node is interrupted between two of its steps.
const GIVE_BACK: Duration = Duration::from_secs(5);

impl Background {
    pub(crate) fn start(loops: Loops) -> Self {
        let background = Self {
            draining: CancellationToken::new(),
            halt: CancellationToken::new(),
            stop: CancellationToken::new(),
            slots: JoinSet::new(),
            keepers: JoinSet::new(),
            sockets: loops.sockets.clone(),
        };
        background.with(loops)
    }

    fn with(mut self, loops: Loops) -> Self {
        let Loops {
            worker,
            slots,
            ports,
            turns,
            sweeps,
            maintenance,
            scrub,
            sockets: _,
        } = loops;
        for _ in 0..slots {
            let (worker, draining, halt) =
                (worker.clone(), self.draining.clone(), self.halt.clone());
            self.slots.spawn(kept_going("job slot", move || {
                let (worker, draining, halt) = (worker.clone(), draining.clone(), halt.clone());
                async move { worker.run_slot(&draining, &halt).await }
            }));
        }
        let stop = self.stop.clone();
        self.keepers.spawn(kept_going("lease keeper", move || {
            let (worker, stop) = (worker.clone(), stop.clone());
            async move { worker.keep_leases(&stop).await }
        }));
        let stop = self.stop.clone();
        self.keepers.spawn(kept_going("replica follower", move || {
            let (ports, stop) = (ports.clone(), stop.clone());
            async move { ports.hub.follow_replicas(&ports, &stop).await }
        }));
        if !sweeps {
            return self;
        }
        let (maintenance, stop) = (Arc::new(maintenance), self.stop.clone());
        let sweeping = Arc::clone(&turns);
        self.keepers.spawn(kept_going("maintenance", move || {
            let (maintenance, stop) = (maintenance.clone(), stop.clone());
            let turns = Arc::clone(&sweeping);
            async move { in_turn(&*turns, Work::Assets, &stop, || maintenance.run(&stop)).await }
        }));
        let (scrub, stop) = (Arc::new(scrub), self.stop.clone());
        self.keepers.spawn(kept_going("scrub", move || {
            let (scrub, stop) = (scrub.clone(), stop.clone());
            let turns = Arc::clone(&turns);
            async move { in_turn(&*turns, Work::Scrub, &stop, || scrub.run(&stop)).await }
        }));
        self
    }

    /// Keeps deployments too, and owns their workers in turn with other processes, or never without turns.
    pub(crate) fn keeping(
        mut self,
        deployments: Deployments,
        turns: Option<Arc<dyn Turns>>,
    ) -> Self {
        let stop = self.stop.clone();
        self.keepers.spawn(kept_going("deployments", move || {
            let (deployments, turns, stop) = (deployments.clone(), turns.clone(), stop.clone());
            async move {
                match turns {
                    Some(turns) => keep(&deployments, &*turns, &stop).await,
                    None => deployments.keep(&stop).await,
                }
            }
        }));
        self
    }

    /// Says goodbye to sockets, takes up no more jobs, lets those at hand end within `grace`, gives the rest back, and joins every loop.
    pub async fn drain(mut self, grace: Duration) {
        self.draining.cancel();
        self.sockets.drain();
        if timeout(grace, joined(&mut self.slots)).await.is_err() {
            tracing::info!(
                jobs = self.slots.len(),
                "jobs are given back and run again after the next start"
            );
            self.halt.cancel();
            if timeout(GIVE_BACK, joined(&mut self.slots)).await.is_err() {
                tracing::warn!(
                    "jobs could not be given back in time; they run again once their leases are over"
                );
            }
        }
        self.stop.cancel();
        joined(&mut self.keepers).await;
        self.sockets.closed().await;
    }
}

async fn joined(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// Runs a loop to its end, again from its start when it panics.
async fn kept_going<F: Future<Output = ()>>(name: &'static str, mut begin: impl FnMut() -> F) {
    while AssertUnwindSafe(begin()).catch_unwind().await.is_err() {
        tracing::error!(name, "a loop panicked and was started again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_loop_that_panics_goes_on() {
        let mut begun = 0;
        let looped = kept_going("test", || {
            begun += 1;
            let fails = begun < 3;
            async move { assert!(!fails, "the first two fail") }
        });
        looped.await;
        assert_eq!(begun, 3);
    }
}
