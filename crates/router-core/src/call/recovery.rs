//! What another router left, or this one: generations whose leases have lapsed.
//!
//! It is one path for a start after a crash, for a start after a drain, and for a router among others that notices the death of
//! one of them.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, AccountsError, LedgerRef};
use futures_util::FutureExt;

use super::Execution;
use super::execution::{self, Dispatch};
use super::keeping::Keeping;
use super::legs::{self, handle_at};
use super::route::{Candidate, Leg};
use super::running::Running;
use super::settlement::Settlement;
use crate::router::Inner;
use crate::{
    Acceptance, CallsError, Catalog, Generation, GenerationId, Lease, Model, Permit, QuotaError,
    Router, Serving, Unfinished,
};

/// Most generations that are taken over at once.
const BATCH: usize = 1_024;

/// Leases were not renewed. They may be by the next try.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// Those of generations, and of all that goes with them.
    #[error(transparent)]
    Calls(#[from] CallsError),
    /// Those of permits.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// Those of holds on credits.
    #[error(transparent)]
    Credits(#[from] AccountsError),
}

impl Router {
    /// Takes over what was dispatched and has not ended, if its lease has lapsed: to be called before the first request, and
    /// then again and again. What the partner is known to have accepted is given as executions to be spawned, which a retry
    /// with its key can pick up; everything else ends with an unknown outcome, is not billed, and consumes its key.
    ///
    /// # Errors
    /// If the rows cannot be read.
    pub async fn recover(&self) -> Result<Vec<Execution>, CallsError> {
        let router = &self.0;
        let mut executions = Vec::new();
        loop {
            let now = router.ports.timer.now();
            let taken = router.ports.calls.take_over(router.lease(), BATCH, now);
            let taken = taken.await?;
            let is_last = taken.len() < BATCH;
            for unfinished in taken {
                executions.extend(router.recover(unfinished).await);
            }
            if is_last {
                return Ok(executions);
            }
        }
    }

    /// Gives the leases of what runs here back, because this router is about to stop: the next process to recover goes on with it at
    /// once.
    ///
    /// # Errors
    /// If the rows cannot be written; then the leases lapse by themselves.
    pub async fn hand_over(&self) -> Result<(), RenewError> {
        let lease = Lease {
            lasts: Duration::ZERO,
            ..self.0.lease()
        };
        self.0.renew(lease).await
    }

    /// Renews the leases of what runs here: to be called several times in the time of a lease. What another process took over
    /// meanwhile is given up.
    ///
    /// # Errors
    /// If the rows cannot be written.
    pub async fn renew(&self) -> Result<(), RenewError> {
        self.0.renew(self.0.lease()).await
    }
}

impl Inner {
    async fn renew(&self, lease: Lease) -> Result<(), RenewError> {
        let running = self.running.dispatched();
        if running.is_empty() {
            return Ok(());
        }
        let now = self.ports.timer.now();
        let ids: Vec<GenerationId> = running.iter().map(|one| one.permit().generation).collect();
        let lost = self.ports.calls.renew(&ids, lease, now).await?;
        for id in &lost {
            self.running.lose(*id);
        }
        let kept = running
            .iter()
            .filter(|one| !lost.contains(&one.permit().generation));
        let kept: Vec<&Arc<Running>> = kept.collect();
        let permits: Vec<Permit<'_>> = kept.iter().map(|one| one.permit()).collect();
        for position in self.ports.quota.renew(&permits, lease, now).await? {
            let running = kept[position];
            if running.is_settling() {
                continue;
            }
            self.resume_permit(running.permit()).await;
            if running.is_settling() {
                // It may have given its room back before it got it again.
                execution::release_room(self, running.permit()).await;
            }
        }
        let hold = permits.iter();
        let hold = hold.map(|permit| (permit.account, permit.generation.cause()));
        let holds: Vec<(&AccountId, LedgerRef)> = hold.collect();
        let (accounts, lasts) = (&self.ports.accounts, lease.lasts);
        for position in accounts.renew(&holds, lasts, now).await? {
            let running = kept[position];
            if running.is_settling() {
                continue;
            }
            self.hold_again(running.permit()).await;
            if running.is_settling() {
                let (account, cause) = holds[position];
                accounts.release(account, cause).await?;
            }
        }
        Ok(())
    }

    /// Goes on with a generation that was taken over, or ends it.
    async fn recover(self: &Arc<Self>, unfinished: Unfinished) -> Option<Execution> {
        let Generation { id, account, .. } = &unfinished.generation;
        if self.running.get(*id).is_some() {
            // It runs here and its lease was renewed too late, but before anybody else asked.
            return None;
        }
        if let Some((dispatch, accepted)) = self.resumable(&unfinished) {
            let permit = dispatch.registered.running.permit();
            self.hold_again(permit).await;
            self.resume_permit(permit).await;
            return Some(resume(Arc::clone(self), dispatch, accepted));
        }
        tracing::warn!(generation.id = %id, "a generation ends with an unknown outcome");
        let ending = Settlement::unknown().ending();
        // A failure is logged there; it is tried again when the lease has lapsed.
        let _ = execution::settle(self, *id, account, ending, None).await;
        None
    }

    /// Holds credits for a call that runs, as far as there are any: a hold ends with the process that made it, or lapses.
    async fn hold_again(&self, permit: Permit<'_>) {
        let hold = u32::try_from(permit.hold_cents).unwrap_or(u32::MAX);
        let (cause, lasts) = (permit.generation.cause(), self.config.lease);
        let (accounts, now) = (&self.ports.accounts, self.ports.timer.now());
        let held = accounts.reserve(permit.account.into(), cause, hold, lasts, now);
        if let Err(error) = held.await {
            tracing::warn!(generation.id = %permit.generation, error = &error as &dyn std::error::Error, "no credits are held for a call that runs");
        }
    }

    /// Takes room for a call that runs, whatever the limits are.
    async fn resume_permit(&self, permit: Permit<'_>) {
        let now = self.ports.timer.now();
        let resumed = self.ports.quota.resume(permit, self.lease(), now);
        if let Err(error) = resumed.await {
            tracing::warn!(generation.id = %permit.generation, error = &error as &dyn std::error::Error, "a call runs that its account's limits do not count");
        }
    }

    /// What it takes to go on, if the partner accepted and the model is still there.
    fn resumable(&self, unfinished: &Unfinished) -> Option<(Box<Dispatch>, Acceptance)> {
        let mut accepted = unfinished.accepted.clone()?;
        let generation = unfinished.generation.clone();
        let catalog = self.catalog.current();
        let model = Arc::clone(catalog.runnable(&generation.model)?);
        let leg = match &generation.serving {
            None => None,
            Some(serving) => {
                accepted.handle = handle_at(serving.failed.len(), &accepted.handle)?;
                Some(leg_of(&catalog, &model, serving)?)
            }
        };
        let registered = self.running.enter(&generation);
        registered.running.begin(None);
        let asked = leg.as_ref().map_or(&model, |leg| &leg.candidate.model);
        let interval = execution::polling_interval(asked, &accepted);
        registered.running.accepted(interval);
        let dispatch = Box::new(Dispatch {
            generation,
            model,
            legs: leg.map(|leg| Box::from([leg])),
            // It was submitted before.
            streams: false,
            kept_bytes: 0,
            keeping: Keeping::OfAccount,
            registered,
        });
        Some((dispatch, accepted))
    }
}

/// Who served a generation that names its providers, if the catalog still says how. Nobody else is asked after it: the body is
/// gone.
fn leg_of(catalog: &Catalog, model: &Arc<Model>, serving: &Serving) -> Option<Leg> {
    let candidate = if serving.model == *model.id() {
        Candidate::own(model)
    } else {
        let mut alternates = model.alternates().iter();
        let alternate = alternates.find(|one| one.model == serving.model)?;
        Candidate {
            model: Arc::clone(catalog.runnable(&serving.model)?),
            translation: Some(Arc::clone(&alternate.translation)),
        }
    };
    Some(Leg {
        candidate,
        hold_cents: serving.hold_cents,
        streams: false,
        dropped: serving.dropped.clone(),
    })
}

fn resume(router: Arc<Inner>, dispatch: Box<Dispatch>, accepted: Acceptance) -> Execution {
    Box::pin(async move {
        let settlement = {
            let collecting = collect(&router, &dispatch, &accepted);
            let collecting = pin!(AssertUnwindSafe(collecting).catch_unwind());
            execution::while_owned(&dispatch, collecting).await
        };
        let settlement = settlement.map(|ended| ended.unwrap_or_else(|_| Settlement::broken()));
        execution::finish(&router, dispatch, settlement).await;
    })
}

/// What comes of work that was accepted before this router took it over.
async fn collect(router: &Inner, dispatch: &Dispatch, accepted: &Acceptance) -> Settlement {
    let serving = dispatch.generation.serving.clone();
    if let Some([leg]) = dispatch.legs.as_deref() {
        let followed = legs::follow(router, dispatch, leg, accepted).await;
        return followed.served(serving);
    }
    let running = &dispatch.registered.running;
    let ended = execution::collect(router, running, &dispatch.model, accepted).await;
    Settlement::of(ended, dispatch.generation.hold_cents)
}
