//! Records of calls, written in batches soon after they are handed in.

use std::time::Duration;

use router_core::{Bucket, CallRecord};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::labels;
use crate::statements::execute;
use crate::{Database, DatabaseError};

/// Most records that wait to be written: some seconds of what a process can answer.
const WAITING: usize = 65_536;

/// Most records of one statement.
const MOST: usize = 1_000;

/// Pauses after a failure: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// What waits. Clones share it; the task that writes ends with the last of them.
#[derive(Clone)]
pub(super) struct Records(mpsc::Sender<Waiting>);

enum Waiting {
    Call(CallRecord),
    /// Somebody wants to read: all records that came before this are to be written first.
    Reader(oneshot::Sender<()>),
}

impl Records {
    /// # Panics
    /// Outside of a Tokio runtime.
    pub(super) fn start(database: Database) -> Self {
        let (sender, arriving) = mpsc::channel(WAITING);
        tokio::spawn(write(database, arriving));
        Self(sender)
    }

    /// Hands a record in.
    pub(super) fn add(&self, call: CallRecord) {
        if let Err(error) = self.0.try_send(Waiting::Call(call)) {
            let (Waiting::Call(call), cause) = (match error {
                mpsc::error::TrySendError::Full(call) => (call, "too many wait to be written"),
                mpsc::error::TrySendError::Closed(call) => (call, "the store is closing"),
            }) else {
                return;
            };
            tracing::error!(request.id = %call.request, cause, "the record of a call is lost; its bill is not");
        }
    }

    /// Waits until what was handed in before is written, or cannot be for now.
    pub(super) async fn written(&self) {
        let (reader, written) = oneshot::channel();
        let told = async {
            if self.0.send(Waiting::Reader(reader)).await.is_ok() {
                let _ = written.await;
            }
        };
        // While the database is away, what reads fails by itself.
        let _ = tokio::time::timeout(PAUSES.1, told).await;
    }
}

async fn write(database: Database, mut arriving: mpsc::Receiver<Waiting>) {
    let (mut together, mut pause) = (Vec::with_capacity(MOST), PAUSES.0);
    while arriving.recv_many(&mut together, MOST).await > 0 {
        let (mut calls, mut readers) = (Vec::new(), Vec::new());
        for waiting in together.drain(..) {
            match waiting {
                Waiting::Call(call) => calls.push(call),
                Waiting::Reader(reader) => readers.push(reader),
            }
        }
        while let Err(error) = insert(&database, &calls).await {
            if arriving.is_closed() && arriving.is_empty() {
                tracing::error!(
                    %error,
                    lost = calls.len(),
                    "the last records of calls are lost"
                );
                return;
            }
            tracing::warn!(%error, "the records of calls cannot be written now and wait");
            // Readers see themselves that the database is away.
            readers.clear();
            tokio::time::sleep(pause).await;
            pause = PAUSES.1.min(pause * 2);
        }
        pause = PAUSES.0;
        for reader in readers {
            // A reader that is gone needs no answer.
            let _ = reader.send(());
        }
    }
}

/// Writes records down, but for those that are there.
async fn insert(database: &Database, calls: &[CallRecord]) -> Result<(), DatabaseError> {
    if calls.is_empty() {
        return Ok(());
    }
    let connection = database.connection().await?;
    let labelled = calls.iter().filter(|one| {
        // Those of a call that began its generation are there since then.
        one.generation.is_none_or(|id| id.0 != one.request.0)
    });
    let labelled = labelled.map(|one| (one.received_at, one.request.0, &one.labels));
    labels::insert(&connection, labelled).await?;
    let received: Vec<i64> = calls
        .iter()
        .map(|one| one.received_at.as_microsecond())
        .collect();
    let requests: Vec<Uuid> = calls.iter().map(|one| one.request.0).collect();
    let accounts: Vec<&str> = calls.iter().map(|one| one.account.as_str()).collect();
    let models: Vec<Option<&str>> = calls
        .iter()
        .map(|one| one.model.as_ref().map(router_core::ModelId::as_str))
        .collect();
    let keys: Vec<Option<&[u8]>> = calls
        .iter()
        .map(|one| one.key.as_ref().map(|key| key.0.as_slice()))
        .collect();
    let generations: Vec<Option<Uuid>> = calls
        .iter()
        .map(|one| one.generation.map(|id| id.0))
        .collect();
    let buckets: Vec<Option<&str>> = calls
        .iter()
        .map(|one| one.bucket.map(Bucket::name))
        .collect();
    let replayed: Vec<bool> = calls.iter().map(|one| one.replayed).collect();
    let answered: Vec<i64> = calls
        .iter()
        .map(|one| one.answered_at.as_microsecond())
        .collect();
    let delivered: Vec<bool> = calls.iter().map(|one| one.delivered).collect();
    let api_keys: Vec<Option<&str>> = calls
        .iter()
        .map(|one| one.api_key.as_ref().map(|key| key.as_str()))
        .collect();
    execute(
        &connection,
        "WITH lazily AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
         INSERT INTO calls (received_at, request, account, model, key, generation, bucket, replayed, answered_at, delivered,
                api_key)
         SELECT a.* FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::bytea[], $6::uuid[], $7::text[],
                $8::boolean[], $9::bigint[], $10::boolean[], $11::text[])
            AS a (received_at, request, account, model, key, generation, bucket, replayed, answered_at, delivered, api_key),
                lazily
         ORDER BY a.received_at, a.request ON CONFLICT DO NOTHING",
        &[
            &received,
            &requests,
            &accounts,
            &models,
            &keys,
            &generations,
            &buckets,
            &replayed,
            &answered,
            &delivered,
            &api_keys,
        ],
    )
    .await?;
    Ok(())
}
