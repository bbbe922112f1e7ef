//! Both ports in memory: the twins of every asset store, for tests and for installations that keep nothing.
//!
//! What they answer is what `contract` asks of any store. They forget everything with the process.

mod blobs;
mod records;

pub use blobs::MemoryBlobs;
pub use records::{MemoryRecords, RecordRows};

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::{BlobHash, contract};

    #[tokio::test]
    async fn memory_blobs_keep_the_contract() {
        contract::blob_store(|clock| Arc::new(MemoryBlobs::new(move || clock.now()))).await;
        contract::damaged_blobs(|clock| {
            let blobs = MemoryBlobs::new(move || clock.now());
            let damaged = blobs.clone();
            let damage = move |hash: &BlobHash, bytes: &[u8]| {
                damaged.damage(hash, Bytes::copy_from_slice(bytes));
            };
            (Arc::new(blobs), Box::new(damage))
        })
        .await;
    }

    #[tokio::test]
    async fn memory_records_keep_the_contract() {
        contract::asset_records(|| Arc::new(MemoryRecords::new())).await;
        contract::file_names(|| {
            let records = Arc::new(MemoryRecords::new());
            (records.clone(), records)
        })
        .await;
        contract::sweeps(|| Arc::new(MemoryRecords::new())).await;
        contract::scrub_states(&MemoryRecords::new()).await;
    }

    #[tokio::test]
    async fn memory_keeps_the_contract_of_replicas() {
        contract::replicas(|clock| {
            let records = Arc::new(MemoryRecords::new());
            let replica = contract::Replica {
                blobs: Arc::new(MemoryBlobs::new(move || clock.now())),
                records: records.clone(),
                released: records.clone(),
                sweeps: records,
            };
            [replica.clone(), replica]
        })
        .await;
    }
}
