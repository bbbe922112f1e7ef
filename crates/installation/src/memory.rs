//! An installation in memory, for tests and for hosts that keep nothing.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accounts::MemoryAccounts;
use asset_store::{LinkKeys, MemoryBlobs, MemoryRecords};
use async_trait::async_trait;
use jiff::Timestamp;
#[cfg(feature = "router")]
use router_core::{MemoryCalls, SequentialAdmissions, Usage, published::MemoryPublishedModels};
#[cfg(feature = "v1")]
use v1_compat::{MemoryUserFiles, UserFilesBounds};
use webhooks::MemoryWebhooks;
#[cfg(feature = "workflow")]
use workflow_core::{
    MemoryJobs,
    deployment::{Deployments, MemoryDeployments},
};

#[cfg(feature = "router")]
use crate::CallRows;
#[cfg(feature = "workflow")]
use crate::JobRows;
use crate::{
    AssetRows, Closing, Contents, CopyError, Health, Installation, InstallationError,
    InstallationStore, MemoryTurns, OpenError, OpenOptions, SigningKeys, Unhealthy,
};

/// The place of an installation that ends with the process. Every opening gives the same rows, as those of another replica.
#[derive(Debug)]
pub struct MemoryStore {
    installation: Installation,
    turns: MemoryTurns,
    #[cfg(feature = "workflow")]
    jobs: MemoryJobs,
}

impl MemoryStore {
    /// An empty installation. `clock` tells the ages of blobs; `secret` answers 32 random bytes, other ones each time.
    #[must_use]
    pub fn new(
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        mut secret: impl FnMut() -> [u8; 32] + Send + 'static,
    ) -> Self {
        let accounts = Arc::new(MemoryAccounts::new());
        let records = MemoryRecords::new();
        #[cfg(feature = "workflow")]
        let jobs = MemoryJobs::new(records.clone());
        #[cfg(feature = "workflow")]
        let deployments: Arc<dyn Deployments> = Arc::new(MemoryDeployments::default());
        #[cfg(feature = "router")]
        let calls = Arc::new(MemoryCalls::new(accounts.clone()));
        #[cfg(feature = "router")]
        let quota = calls.quota();
        let shared = Arc::new(records);
        let keys = MemoryKeys {
            installation: secret(),
            links: Mutex::new(vec![secret()]),
            secret: Mutex::new(Box::new(secret)),
        };
        let turns = MemoryTurns::default();
        let webhooks = Arc::new(MemoryWebhooks::default());
        let installation = Installation {
            accounts: accounts.clone(),
            account_admin: accounts.clone(),
            sessions: accounts.clone(),
            assets: AssetRows {
                blobs: Arc::new(MemoryBlobs::new(clock)),
                records: shared.clone(),
                file_names: shared.clone(),
                released: shared.clone(),
                sweeps: shared.clone(),
                scrub: shared,
                direct: None,
            },
            keys: Arc::new(keys),
            health: Arc::new(AlwaysHealthy),
            closing: Arc::new(AlwaysHealthy),
            turns: Arc::new(turns.of_another_replica()),
            // Nothing is written down here by itself: the twins of jobs and calls know no webhook.
            webhooks: webhooks.clone(),
            outbox: webhooks,
            #[cfg(feature = "workflow")]
            jobs: rows_of(&jobs, deployments.clone()),
            #[cfg(feature = "router")]
            calls: CallRows {
                calls: calls.clone(),
                quota: Arc::new(quota.clone()),
                admissions: Arc::new(SequentialAdmissions {
                    accounts,
                    quota,
                    calls: calls.clone(),
                }),
                retention: calls.clone(),
                queue: calls.clone(),
                usage: calls.clone(),
                kept: calls,
                published: Arc::new(MemoryPublishedModels::default()),
            },
            #[cfg(feature = "v1")]
            user_files: Arc::new(MemoryUserFiles::new(UserFilesBounds::DEFAULT)),
        };
        Self {
            installation,
            turns,
            #[cfg(feature = "workflow")]
            jobs,
        }
    }
}

/// The ports of another replica.
#[cfg(feature = "workflow")]
fn rows_of(jobs: &MemoryJobs, deployments: Arc<dyn Deployments>) -> JobRows {
    let jobs = Arc::new(jobs.of_another_replica());
    JobRows {
        store: jobs.clone(),
        queue: jobs.clone(),
        changes: jobs,
        deployments,
    }
}

#[async_trait]
impl InstallationStore for MemoryStore {
    async fn open(&self, _: OpenOptions) -> Result<Installation, OpenError> {
        Ok(Installation {
            turns: Arc::new(self.turns.of_another_replica()),
            #[cfg(feature = "workflow")]
            jobs: rows_of(&self.jobs, self.installation.jobs.deployments.clone()),
            ..self.installation.clone()
        })
    }

    async fn exists(&self) -> bool {
        true
    }

    #[cfg(feature = "router")]
    async fn usage(&self) -> Result<Arc<dyn Usage>, OpenError> {
        Ok(self.installation.calls.usage.clone())
    }

    async fn back_up(&self, _: &Path) -> Result<Contents, CopyError> {
        Err(CopyError("an installation in memory has no backup".into()))
    }

    async fn inspect(&self) -> Result<(Contents, Vec<String>), CopyError> {
        Ok((Contents::default(), Vec::new()))
    }

    fn location(&self) -> String {
        "memory".to_owned()
    }
}

/// The keys of an installation in memory; the newest last.
struct MemoryKeys {
    installation: [u8; 32],
    links: Mutex<Vec<[u8; 32]>>,
    secret: Mutex<Box<dyn FnMut() -> [u8; 32] + Send>>,
}

#[async_trait]
impl SigningKeys for MemoryKeys {
    async fn link_keys(&self) -> Result<LinkKeys, InstallationError> {
        let keys = locked(&self.links);
        let ids = 1..=u32::try_from(keys.len()).unwrap_or(u32::MAX);
        let keys: Vec<_> = ids.zip(keys.iter().copied()).collect();
        let kept = keys.len().saturating_sub(2);
        Ok(LinkKeys::new(keys[kept..].to_vec()))
    }

    async fn rotate_link_keys(&self) -> Result<(), InstallationError> {
        let fresh = locked(&self.secret)();
        locked(&self.links).push(fresh);
        Ok(())
    }

    async fn installation_secret(&self) -> Result<[u8; 32], InstallationError> {
        Ok(self.installation)
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is one call: a panic elsewhere cannot have left it half-made.
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

struct AlwaysHealthy;

#[async_trait]
impl Health for AlwaysHealthy {
    fn writable(&self) -> Result<(), Unhealthy> {
        Ok(())
    }

    fn room(&self) -> Result<(), Unhealthy> {
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    async fn check(&self) -> Result<Vec<String>, InstallationError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Closing for AlwaysHealthy {
    async fn write_back(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    fn fresh() -> MemoryStore {
        let mut drawn = 0_u64;
        let secret = move || {
            drawn += 1;
            let mut secret = [0; 32];
            secret[..8].copy_from_slice(&drawn.to_le_bytes());
            secret
        };
        MemoryStore::new(|| Timestamp::UNIX_EPOCH, secret)
    }

    #[tokio::test]
    async fn an_installation_in_memory_keeps_the_contract() {
        contract::installation_store(&fresh()).await;
    }

    #[tokio::test]
    async fn an_installation_in_memory_keeps_the_contract_of_replicas() {
        contract::replicas(|| {
            let store = fresh();
            [(); 2].map(|()| contract::Replica {
                turns: Arc::new(store.turns.of_another_replica()),
                keys: store.installation.keys.clone(),
            })
        })
        .await;
    }
}
