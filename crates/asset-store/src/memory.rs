//! Both ports in memory: the twins of every asset store, for tests and for installations that keep nothing.
//!
//! What they answer is what `contract` asks of any store. They forget everything with the process.

mod blobs;
mod direct;
mod records;

pub use blobs::MemoryBlobs;
pub use records::{MemoryRecords, RecordRows};

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use std::ops::Range;
    use std::time::Duration;

    use async_trait::async_trait;
    use bytes::Bytes;
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::contract::{DirectReader, DirectStore, TestClock};
    use crate::{BlobHash, DirectAnswer, contract};

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

    /// Who reads from a map, by its clock.
    struct Reader(MemoryBlobs, TestClock);

    #[async_trait]
    impl DirectReader for Reader {
        async fn read(&self, address: &str, range: Option<Range<u64>>) -> Option<DirectAnswer> {
            self.0.read_at(address, range)
        }

        async fn pass(&self, time: Duration) {
            self.1
                .advance(SignedDuration::try_from(time).expect("moments"));
        }
    }

    #[tokio::test]
    async fn memory_keeps_the_contract_of_direct_reads() {
        contract::direct_reads(|| {
            let clock = TestClock::at(Timestamp::UNIX_EPOCH);
            let time = clock.clone();
            let blobs = MemoryBlobs::new(move || time.now());
            let damaged = blobs.clone();
            DirectStore {
                blobs: Arc::new(blobs.clone()),
                direct: Arc::new(blobs.clone()),
                damage: Box::new(move |hash, bytes| {
                    damaged.damage(hash, Bytes::copy_from_slice(bytes));
                }),
                reader: Arc::new(Reader(blobs, clock)),
            }
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
