//! The port to queued requests. Whatever changes one is carried out, even if the caller stops waiting.

use std::sync::Arc;

use accounts::{AccountId, Fingerprint};
use async_trait::async_trait;
use foldhash::HashSet;
use jiff::Timestamp;
use router_core::{
    Bucket, CallQueue, CallsError, Cancelled, Enqueued, GenerationId, KeyDigest, KeyTells, ModelId,
    Outcome, QueueBounds, QueueFailure, QueuedCall, QueuedRequest, WaitingCall,
};

use super::{Submission, rows};
use crate::calls::outcome::StoredOutcome;
use crate::calls::pieces::Pieces;
use crate::calls::{PgCalls, keys, to_the_end, unavailable};
use crate::statements::{query_opt, whole};

#[async_trait]
impl CallQueue for PgCalls {
    async fn known(
        &self,
        account: &AccountId,
        key: KeyDigest,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Result<Option<Enqueued>, CallsError> {
        let read = async {
            let connection = self.database.connection().await?;
            keys::known(&connection, account, key).await
        };
        let known = read.await.map_err(unavailable)?;
        Ok(
            known.and_then(|known| match known.tells(&fingerprint, now) {
                KeyTells::Free => None,
                KeyTells::Conflict => Some(Enqueued::Conflict),
                KeyTells::Same => Some(Enqueued::Known(known.generation)),
            }),
        )
    }

    async fn enqueue(
        &self,
        call: QueuedCall,
        fingerprint: Fingerprint,
        bounds: QueueBounds,
        now: Timestamp,
    ) -> Result<Enqueued, CallsError> {
        let submission = Submission {
            call,
            fingerprint,
            bounds,
            now,
        };
        let submitted = self.queue.submissions.write(submission).await;
        submitted.map_err(unavailable)
    }

    async fn find(
        &self,
        account: &AccountId,
        id: GenerationId,
    ) -> Result<Option<QueuedRequest>, CallsError> {
        let read = async {
            self.queue.catch_up().await?;
            let connection = self.database.connection().await?;
            rows::find(&connection, id).await
        };
        let found = read.await.map_err(unavailable)?;
        let own = found.filter(|found| found.account == *account);
        Ok(own.map(|found| self.queue.placed(found)))
    }

    async fn list(
        &self,
        account: &AccountId,
        model: &ModelId,
        before: Option<GenerationId>,
        limit: usize,
    ) -> Result<Option<Vec<QueuedRequest>>, CallsError> {
        let read = async {
            self.queue.catch_up().await?;
            let connection = self.database.connection().await?;
            rows::list(&connection, account, model, before, limit).await
        };
        let found = read.await.map_err(unavailable)?;
        let placed = |found: Vec<_>| {
            let found = found.into_iter();
            found.map(|found| self.queue.placed(found)).collect()
        };
        Ok(found.map(placed))
    }

    async fn outcome(&self, id: GenerationId) -> Result<Option<Outcome>, CallsError> {
        let read = async {
            let connection = self.database.connection().await?;
            let row = query_opt(
                &connection,
                "SELECT outcome, bucket, code, message, content_type, replay_bytes FROM generations WHERE id = $1",
                &[&id.0],
            ).await?;
            let stored = row.as_ref().map(StoredOutcome::read).transpose()?;
            // A connection at a time.
            drop(connection);
            match stored.flatten().filter(StoredOutcome::is_told) {
                Some(stored) => self.outcome_of(id, stored).await,
                None => Ok(None),
            }
        };
        read.await.map_err(unavailable)
    }

    async fn cancel(
        &self,
        account: &AccountId,
        id: GenerationId,
        now: Timestamp,
    ) -> Result<Option<Cancelled>, CallsError> {
        let (queue, account) = (Arc::clone(&self.queue), account.clone());
        let cancelled = to_the_end(async move { queue.cancel(account, id, now).await });
        cancelled.await.map_err(unavailable)
    }

    fn first(&self, blocked: &HashSet<AccountId>) -> Option<WaitingCall> {
        self.queue.turns().first(blocked)
    }

    async fn take(
        &self,
        id: GenerationId,
        now: Timestamp,
    ) -> Result<Option<QueuedCall>, CallsError> {
        let queue = Arc::clone(&self.queue);
        let taken = to_the_end(async move { queue.take(id, now).await });
        let Some((mut call, bytes)) = taken.await.map_err(unavailable)? else {
            return Ok(None);
        };
        let body = Pieces::QueuedBodies.read(&self.database, id);
        call.body = body.await.map_err(unavailable)?;
        if whole(call.body.len()) == bytes {
            return Ok(Some(call));
        }
        tracing::error!(
            generation.id = %id,
            "the body of a queued request is gone, so it cannot be run; restore the table `queued_bodies` from a backup"
        );
        let failure = QueueFailure::NotDispatched {
            bucket: Bucket::InternalError,
            message: "the request was lost before it was run; submit it again".to_owned(),
        };
        self.end(id, failure, now).await?;
        Ok(None)
    }

    fn put_back(&self, waiting: WaitingCall) {
        self.queue.put_back(waiting);
    }

    async fn dispatched(&self, id: GenerationId) -> Result<(), CallsError> {
        let dispatched = rows::dispatched(&self.database, id).await;
        dispatched.map_err(unavailable)
    }

    async fn end(
        &self,
        id: GenerationId,
        failure: QueueFailure,
        now: Timestamp,
    ) -> Result<(), CallsError> {
        let queue = Arc::clone(&self.queue);
        let ended = to_the_end(async move { queue.end(id, failure, now).await });
        ended.await.map_err(unavailable)
    }

    fn overdue(&self, received_before: Timestamp, limit: usize) -> Vec<GenerationId> {
        self.queue.turns().overdue(received_before, limit)
    }

    fn waiting(&self) -> usize {
        self.queue.turns().waiting()
    }
}
