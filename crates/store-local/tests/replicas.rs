//! Two handles over one data directory keep the contract of several processes over one store.

use std::sync::{Arc, Mutex};

use router_core::contract::{self, Stores};
use store_local::Store;

fn faces(store: &Store) -> Stores {
    let (calls, accounts) = (Arc::new(store.calls()), Arc::new(store.accounts()));
    Stores {
        calls: calls.clone(),
        quota: Arc::new(store.quota()),
        retention: calls.clone(),
        usage: calls,
        accounts: accounts.clone(),
        admin: accounts,
    }
}

#[tokio::test]
async fn calls_in_rows_keep_the_contract_of_replicas() {
    let roots = Mutex::new(Vec::new());
    contract::replicas(|| {
        let root = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(root.path()).expect("the store opens");
        roots.lock().expect("no panic").push(root);
        [faces(&store), faces(&store)]
    })
    .await;
}
