//! What accounts may have in flight and ask for, exact over all processes of an installation.
//!
//! The row of an account is locked in the transaction that admits ([`calls`](crate::calls)), which is on the disk before its call is
//! dispatched. So no call runs at a partner whose permit a crash of the database forgot. No other commit here waits for the disk.
//! A permit that lapsed counts while the row of its generation is among those that run, whichever process this is.

pub(crate) mod permits;
mod windows;

use accounts::{AccountId, RateWindow, UsedUp};
use async_trait::async_trait;
use futures_util::FutureExt;
use jiff::Timestamp;
use router_core::{Lease, Load, OwnerId, Permit, Quota, QuotaError};

use crate::batch::Batches;
use crate::{Database, DatabaseError};
use permits::Released;
use windows::Request;

/// Most requests of one transaction.
const MOST: usize = 256;

/// The quotas of an installation. Clones share their batches.
#[derive(Clone)]
pub struct PgQuota {
    database: Database,
    requests: Batches<Request, Result<(), UsedUp>>,
    releases: Batches<Released, ()>,
}

impl PgQuota {
    /// The quotas in a database.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    #[must_use]
    pub fn new(database: &Database) -> Self {
        let turnstile = database.turnstile();
        let [counting, releasing] = [(); 2].map(|()| database.clone());
        Self {
            database: database.clone(),
            requests: Batches::in_turn(turnstile, MOST, move |requests| {
                let database = counting.clone();
                async move { windows::count(&database, &requests).await }.boxed()
            }),
            releases: Batches::in_turn(turnstile, MOST, move |released| {
                let database = releasing.clone();
                async move { permits::release(&database, &released).await }.boxed()
            }),
        }
    }
}

#[async_trait]
impl Quota for PgQuota {
    async fn count(
        &self,
        account: &AccountId,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<Result<(), UsedUp>, QuotaError> {
        if windows.is_empty() {
            return Ok(Ok(()));
        }
        let request = Request {
            account: account.clone(),
            windows: windows.into(),
            now,
        };
        self.requests.write(request).await.map_err(unavailable)
    }

    async fn resume(
        &self,
        permit: Permit<'_>,
        lease: Lease,
        now: Timestamp,
    ) -> Result<(), QuotaError> {
        let resumed = permits::resume(&self.database, permit, lease, now);
        resumed.await.map_err(unavailable)
    }

    async fn renew(
        &self,
        permits: &[Permit<'_>],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<usize>, QuotaError> {
        let renewed = permits::renew(&self.database, permits, lease, now);
        renewed.await.map_err(unavailable)
    }

    async fn release(&self, permit: Permit<'_>, owner: OwnerId) -> Result<(), QuotaError> {
        let released = Released {
            account: permit.account.clone(),
            generation: permit.generation,
            owner,
        };
        self.releases.write(released).await.map_err(unavailable)
    }

    async fn load(&self, account: &AccountId, now: Timestamp) -> Result<Load, QuotaError> {
        let load = permits::load(&self.database, account, now);
        load.await.map_err(unavailable)
    }
}

impl std::fmt::Debug for PgQuota {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PgQuota")
    }
}

fn unavailable(error: DatabaseError) -> QuotaError {
    QuotaError(Box::new(error))
}

#[cfg(test)]
mod tests;
