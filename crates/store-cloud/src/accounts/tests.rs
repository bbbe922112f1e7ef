//! The contract of accounts on PostgreSQL, and what happens at once.

use std::time::Duration;

use accounts::contract::{self, Ports, SessionPorts};
use tokio::time::timeout;

use super::*;
use crate::testing;

mod storm;

/// Far longer than a look-up takes: reached only when it waits for what does not end.
const PATIENCE: Duration = Duration::from_secs(20);

fn ports(database: Database, tier: Tier) -> Ports {
    let store = Arc::new(PgAccounts::new(database, tier));
    Ports {
        accounts: store.clone(),
        admin: store,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_in_rows_keep_the_contract() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::accounts(|tier| ports(testing::now(testing::database()), tier)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_in_rows_keep_the_contract_of_replicas() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::replicas(|tier| {
        let url = testing::now(testing::fresh_database());
        [(); 2].map(|()| ports(testing::now(testing::open(&url)), tier.clone()))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_in_rows_keep_the_contract_of_replicas() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::sessions(|| {
        let url = testing::now(testing::fresh_database());
        [(); 2].map(|()| {
            let database = testing::now(testing::open(&url));
            let store = Arc::new(PgAccounts::new(database, Tier::standard()));
            SessionPorts {
                sessions: store.clone(),
                admin: store,
            }
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_of_a_credential_waits_for_no_step_of_a_call() {
    if !crate::testing::has_postgres() {
        return;
    }
    let database = testing::database().await;
    let accounts = PgAccounts::new(database.clone(), Tier::standard());
    let step = database.turnstile().hold().await;
    let nobody = KeyHash::of("easel_nobody_has_this_key");
    let looked = timeout(PATIENCE, accounts.by_key(&nobody, Timestamp::UNIX_EPOCH)).await;
    let found = looked.expect("it waits for the step");
    assert_eq!(found.expect("the store answers"), None);
    drop(step);
}
