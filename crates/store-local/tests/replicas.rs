//! Two handles over one data directory keep the contracts of several processes over one store.

use std::sync::Arc;

use accounts::Tier;
use installation::MemoryTurns;
use router_core::SequentialAdmissions;
use store_local::{Clock, Store, StoreOptions};
use tempfile::TempDir;
use v1_compat::UserFiles;

/// Directories that are open, and go when the test ends.
#[derive(Default)]
struct Roots(std::sync::Mutex<Vec<TempDir>>);

impl Roots {
    fn open(&self, options: StoreOptions) -> Store {
        let root = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open_with(root.path(), options).expect("the store opens");
        self.0.lock().expect("no panic").push(root);
        store
    }
}

fn call_ports(store: &Store) -> router_core::contract::Stores {
    let (calls, accounts) = (Arc::new(store.calls()), Arc::new(store.accounts()));
    router_core::contract::Stores {
        calls: calls.clone(),
        quota: Arc::new(store.quota()),
        admissions: Arc::new(SequentialAdmissions {
            accounts: accounts.clone(),
            quota: store.quota(),
            calls: calls.clone(),
        }),
        retention: calls.clone(),
        usage: calls.clone(),
        queue: calls.clone(),
        kept: calls,
        accounts: accounts.clone(),
        admin: accounts,
    }
}

#[tokio::test]
async fn calls_in_rows_keep_the_contract_of_replicas() {
    let roots = Roots::default();
    router_core::contract::replicas(|| {
        let store = roots.open(StoreOptions::default());
        [call_ports(&store), call_ports(&store)]
    })
    .await;
}

fn job_ports(store: &Store) -> workflow_core::contract::Stores {
    let jobs = Arc::new(store.jobs());
    workflow_core::contract::Stores {
        jobs: jobs.clone(),
        queue: jobs,
        records: Arc::new(store.records()),
    }
}

#[tokio::test]
async fn jobs_in_rows_keep_the_contract_of_replicas() {
    let roots = Roots::default();
    workflow_core::contract::replicas(|| {
        let store = roots.open(StoreOptions::default());
        [job_ports(&store), job_ports(&store)]
    })
    .await;
}

fn asset_ports(store: &Store) -> asset_store::contract::Replica {
    let records = Arc::new(store.records());
    asset_store::contract::Replica {
        blobs: Arc::new(store.blobs()),
        records: records.clone(),
        released: records.clone(),
        sweeps: records,
    }
}

#[tokio::test]
async fn assets_in_files_and_rows_keep_the_contract_of_replicas() {
    let roots = Roots::default();
    asset_store::contract::replicas(|clock| {
        let clock = Clock::new(move || clock.now());
        let store = roots.open(StoreOptions {
            clock,
            ..StoreOptions::default()
        });
        [asset_ports(&store), asset_ports(&store)]
    })
    .await;
}

fn account_ports(store: &Store) -> accounts::contract::Ports {
    let accounts = Arc::new(store.accounts());
    accounts::contract::Ports {
        accounts: accounts.clone(),
        admin: accounts,
    }
}

#[tokio::test]
async fn accounts_in_rows_keep_the_contract_of_replicas() {
    let roots = Roots::default();
    accounts::contract::replicas(|tier: Tier| {
        let store = roots.open(StoreOptions {
            tier,
            ..StoreOptions::default()
        });
        [account_ports(&store), account_ports(&store)]
    })
    .await;
}

#[tokio::test]
async fn saved_files_in_rows_keep_the_contract_of_replicas() {
    let roots = Roots::default();
    v1_compat::contract::replicas(|bounds| {
        let store = roots.open(StoreOptions::default());
        [(); 2].map(|()| -> Arc<dyn UserFiles> { Arc::new(store.user_files(bounds)) })
    })
    .await;
}

/// The lock of the directory keeps other processes out, so that the turns are those of the handles in one process.
#[tokio::test]
async fn the_secrets_of_a_directory_keep_the_contract_of_replicas() {
    let roots = Roots::default();
    installation::contract::replicas(|| {
        let store = roots.open(StoreOptions::default());
        let turns = MemoryTurns::default();
        [(); 2].map(|()| installation::contract::Replica {
            turns: Arc::new(turns.of_another_replica()),
            keys: Arc::new(store.clone()),
        })
    })
    .await;
}
