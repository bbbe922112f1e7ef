//! The data directory as the store of an installation: what programs choose.

use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "router")]
use ::installation::CallRows;
#[cfg(feature = "workflow")]
use ::installation::JobRows;
use ::installation::{
    AssetRows, BoxError, Closing, Contents, CopyError, Health, Installation, InstallationError,
    InstallationStore, MemoryTurns, OpenError, OpenOptions, SigningKeys, Unhealthy,
};
use asset_store::LinkKeys;
use async_trait::async_trait;
#[cfg(feature = "router")]
use router_core::{SequentialAdmissions, Usage};
#[cfg(feature = "v1")]
use v1_compat::UserFilesBounds;
#[cfg(feature = "workflow")]
use workflow_core::OneReplica;

#[cfg(feature = "router")]
use crate::SqliteUsage;
use crate::{DirectoryError, Store, StoreOptions};

/// One data directory, to be opened, copied or inspected.
#[derive(Clone, Debug)]
pub struct LocalStore {
    path: PathBuf,
}

impl LocalStore {
    /// The directory at `path`, which need not exist.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[async_trait]
impl InstallationStore for LocalStore {
    async fn open(&self, options: OpenOptions) -> Result<Installation, OpenError> {
        crate::faults::arm();
        let OpenOptions {
            tier,
            reserve,
            fresh,
        } = options;
        let options = StoreOptions {
            tier,
            reserve,
            fresh,
            ..StoreOptions::default()
        };
        let opened = Store::open_with(&self.path, options).map_err(opening)?;
        Ok(opened.installation())
    }

    async fn exists(&self) -> bool {
        self.path.join("main.db").exists()
    }

    #[cfg(feature = "router")]
    async fn usage(&self) -> Result<Arc<dyn Usage>, OpenError> {
        let usage = SqliteUsage::open(&self.path).map_err(opening)?;
        Ok(Arc::new(usage))
    }

    async fn back_up(&self, target: &Path) -> Result<Contents, CopyError> {
        crate::back_up(&self.path, target).map_err(|error| CopyError(error.into()))
    }

    async fn inspect(&self) -> Result<(Contents, Vec<String>), CopyError> {
        crate::inspect(&self.path).map_err(|error| CopyError(error.into()))
    }

    fn location(&self) -> String {
        self.path.display().to_string()
    }
}

pub(crate) fn opening(error: crate::OpenError) -> OpenError {
    let is_in_use = matches!(error, crate::OpenError::Directory(DirectoryError::InUse(_)));
    let error: BoxError = error.into();
    match is_in_use {
        true => OpenError::InUse(error),
        false => OpenError::Failed(error),
    }
}

impl Store {
    /// The ports over everything in the directory.
    #[must_use]
    pub fn installation(&self) -> Installation {
        let accounts = Arc::new(self.accounts());
        let records = Arc::new(self.records());
        #[cfg(feature = "workflow")]
        let jobs = Arc::new(self.jobs());
        #[cfg(feature = "router")]
        let calls = Arc::new(self.calls());
        let webhooks = Arc::new(self.webhooks());
        let store = Arc::new(self.clone());
        Installation {
            accounts: accounts.clone(),
            account_admin: accounts.clone(),
            sessions: accounts.clone(),
            assets: AssetRows {
                blobs: Arc::new(self.blobs()),
                records: records.clone(),
                file_names: records.clone(),
                released: records.clone(),
                sweeps: records.clone(),
                scrub: records,
                direct: None,
            },
            keys: store.clone(),
            health: store.clone(),
            closing: store,
            // The lock of the directory keeps other processes out.
            turns: Arc::new(MemoryTurns::default()),
            webhooks: webhooks.clone(),
            outbox: webhooks,
            #[cfg(feature = "workflow")]
            jobs: JobRows {
                store: jobs.clone(),
                queue: jobs,
                // The lock of the directory keeps other processes out.
                changes: Arc::new(OneReplica),
                deployments: Arc::new(self.deployments()),
            },
            #[cfg(feature = "router")]
            calls: CallRows {
                calls: calls.clone(),
                quota: Arc::new(self.quota()),
                admissions: Arc::new(SequentialAdmissions {
                    accounts,
                    quota: self.quota(),
                    calls: calls.clone(),
                }),
                retention: calls.clone(),
                queue: calls.clone(),
                usage: calls.clone(),
                kept: calls,
                published: Arc::new(self.published()),
            },
            #[cfg(feature = "v1")]
            user_files: Arc::new(self.user_files(UserFilesBounds::DEFAULT)),
        }
    }
}

#[async_trait]
impl SigningKeys for Store {
    async fn link_keys(&self) -> Result<LinkKeys, InstallationError> {
        Self::link_keys(self).await.map_err(unavailable)
    }

    async fn rotate_link_keys(&self) -> Result<(), InstallationError> {
        Self::rotate_link_keys(self).await.map_err(unavailable)
    }

    async fn installation_secret(&self) -> Result<[u8; 32], InstallationError> {
        Self::installation_secret(self).await.map_err(unavailable)
    }
}

#[async_trait]
impl Health for Store {
    fn writable(&self) -> Result<(), Unhealthy> {
        self.healthy().map_err(|error| Unhealthy(error.into()))
    }

    fn room(&self) -> Result<(), Unhealthy> {
        Self::room(self).map_err(|error| Unhealthy(error.into()))
    }

    fn free_bytes(&self) -> Option<u64> {
        Self::free_bytes(self)
    }

    async fn check(&self) -> Result<Vec<String>, InstallationError> {
        self.look_through().await.map_err(unavailable)
    }
}

#[async_trait]
impl Closing for Store {
    async fn write_back(&self) {
        Self::write_back(self).await;
    }
}

fn unavailable(error: crate::DatabaseError) -> InstallationError {
    InstallationError(error.into())
}

#[cfg(test)]
mod tests {
    use ::installation::{ReserveOptions, contract};
    use accounts::Tier;

    use super::*;

    #[tokio::test]
    async fn a_data_directory_keeps_the_contract_of_an_installation() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let store = LocalStore::at(&root.path().join("data"));
        contract::installation_store(&store).await;
    }

    #[tokio::test]
    async fn an_installation_is_in_use_until_its_last_port_is_gone() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let store = LocalStore::at(root.path());
        let options = || OpenOptions {
            tier: Tier::standard(),
            reserve: ReserveOptions::NONE,
            fresh: false,
        };
        let keys = store.open(options()).await.expect("it is new").keys;
        let refused = store.open(options()).await;
        assert!(matches!(refused, Err(OpenError::InUse(_))), "{refused:?}");
        store.usage().await.expect("reading needs no opening");
        drop(keys);
        store.open(options()).await.expect("it is free again");
    }
}
