//! The contract of records on PostgreSQL.

use std::sync::Arc;

use asset_store::MemoryBlobs;
use asset_store::contract::{self, Replica};

use super::*;
use crate::testing;

mod model;
mod storm;

fn records() -> Arc<PgRecords> {
    Arc::new(PgRecords::new(testing::now(testing::database())))
}

#[tokio::test(flavor = "multi_thread")]
async fn records_in_rows_keep_the_contract() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::asset_records(|| records()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_rows_keep_the_contract() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::file_names(|| {
        let records = records();
        (records.clone(), records)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sweeps_in_rows_keep_the_contract() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::sweeps(records).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scrub_in_rows_keeps_the_contract() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::scrub_states(&*records()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_in_rows_keep_the_contract_of_replicas() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::replicas(|clock| {
        let url = testing::now(testing::fresh_database());
        let blobs = Arc::new(MemoryBlobs::new(move || clock.now()));
        [(); 2].map(|()| {
            let records = Arc::new(PgRecords::new(testing::now(testing::open(&url))));
            Replica {
                blobs: blobs.clone(),
                records: records.clone(),
                released: records.clone(),
                sweeps: records,
            }
        })
    })
    .await;
}
