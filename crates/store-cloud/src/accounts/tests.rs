//! The contract of accounts on PostgreSQL, and what happens at once.

use accounts::contract::{self, Ports, SessionPorts};

use super::*;
use crate::testing;

mod storm;

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
