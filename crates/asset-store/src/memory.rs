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

    use super::*;
    use crate::contract;

    #[tokio::test]
    async fn memory_blobs_keep_the_contract() {
        contract::blob_store(|clock| Arc::new(MemoryBlobs::new(move || clock.now()))).await;
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
    }
}
