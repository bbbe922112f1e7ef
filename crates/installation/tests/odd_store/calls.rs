//! Calls whose records are written late and out of order.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use accounts::{AccountId, CreditLedger, Fingerprint, RateWindow, UsedUp};
use async_trait::async_trait;
use foldhash::HashSet;
use futures_util::stream::BoxStream;
use installation::CallRows;
use jiff::Timestamp;
use router_core::{
    Admissions, Breakdown, CallAdmission, CallEnd, CallQueue, CallRecord, CallRetention, Calls,
    CallsError, Cancelled, Claimed, DueResult, Ending, Enqueued, GenerationId, Handle, KeepOutcome,
    KeptResult, KeptResults, KeyClaim, KeyDigest, Lease, Load, ModelId, ModelTotal, Outcome,
    OwnerId, Permit, QueueBounds, QueueFailure, QueuedCall, QueuedRequest, Quota, QuotaError,
    RequestId, ResultId, ResultTurn, RouterError, Serving, Settled, Unfinished, Usage, UsageCursor,
    UsageQuery, UsageRow, WaitingCall,
};

use crate::accounts::OddAccounts;
use crate::jitter::Jitter;

/// Records that were handed in and are not written yet.
pub(crate) type Unwritten = Arc<Mutex<Vec<CallRecord>>>;

pub(crate) struct OddCalls {
    pub(crate) inner: CallRows,
    pub(crate) jitter: Jitter,
    pub(crate) unwritten: Unwritten,
}

impl OddCalls {
    /// Writes the records that were handed in, in any order.
    fn write_records(&self) {
        let unwritten = self.unwritten.lock();
        let mut unwritten = unwritten.unwrap_or_else(PoisonError::into_inner);
        self.jitter.shuffle(&mut unwritten);
        for record in unwritten.drain(..) {
            self.inner.calls.record(record);
        }
    }
}

#[async_trait]
impl Calls for OddCalls {
    async fn claim(&self, claim: KeyClaim, now: Timestamp) -> Result<Claimed, CallsError> {
        self.jitter.around(self.inner.calls.claim(claim, now)).await
    }

    async fn accepted(
        &self,
        of: (GenerationId, OwnerId),
        handle: &Handle,
        poll_after: Duration,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<(), CallsError> {
        let calls = &self.inner.calls;
        let accepted = calls.accepted(of, handle, poll_after, task_id, now);
        self.jitter.around(accepted).await
    }

    async fn serve(
        &self,
        of: (GenerationId, OwnerId),
        serving: &Serving,
    ) -> Result<Settled, CallsError> {
        let served = self.inner.calls.serve(of, serving);
        self.jitter.around(served).await
    }

    async fn serving(&self, generation: GenerationId) -> Result<Option<Serving>, CallsError> {
        let serving = self.inner.calls.serving(generation);
        self.jitter.around(serving).await
    }

    async fn settle(
        &self,
        of: (GenerationId, OwnerId),
        account: &AccountId,
        ending: Ending,
        task_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Settled, CallsError> {
        let calls = &self.inner.calls;
        let settled = calls.settle(of, account, ending, task_id, now);
        self.jitter.around(settled).await
    }

    fn record(&self, call: CallRecord) {
        let unwritten = self.unwritten.lock();
        unwritten.unwrap_or_else(PoisonError::into_inner).push(call);
    }

    async fn renew(
        &self,
        generations: &[GenerationId],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<GenerationId>, CallsError> {
        let renewed = self.inner.calls.renew(generations, lease, now);
        self.jitter.around(renewed).await
    }

    async fn take_over(
        &self,
        lease: Lease,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Unfinished>, CallsError> {
        let taken = self.inner.calls.take_over(lease, limit, now);
        self.jitter.around(taken).await
    }
}

/// Admits and ends calls in steps, between which others come.
pub(crate) struct OddAdmissions {
    pub(crate) accounts: Arc<OddAccounts>,
    pub(crate) calls: Arc<OddCalls>,
    pub(crate) jitter: Jitter,
}

#[async_trait]
impl Admissions for OddAdmissions {
    async fn admit(&self, call: CallAdmission<'_>) -> Result<(), RouterError> {
        let (generation, lasts) = (call.generation, call.lease.lasts);
        let (cause, hold) = (generation.id.cause(), generation.hold());
        let now = generation.dispatched_at;
        let held = self.accounts.reserve(call.payer, cause, hold, lasts, now);
        RouterError::of_reservation(held.await.expect("memory answers"))?;
        // Others may look before it has its room.
        let admitted = self.calls.inner.admissions.admit(call);
        self.jitter.around(admitted).await
    }

    async fn end(&self, call: CallEnd<'_>) -> Result<Settled, CallsError> {
        let (permit, owner, now) = (call.permit, call.owner, call.now);
        let of = (permit.generation, owner);
        let settled = self
            .calls
            .settle(of, permit.account, call.ending, call.task_id, now)
            .await?;
        let released = self.calls.release(permit, owner).await;
        released.expect("memory answers");
        Ok(settled)
    }
}

#[async_trait]
impl CallQueue for OddCalls {
    async fn known(
        &self,
        account: &AccountId,
        key: KeyDigest,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Result<Option<Enqueued>, CallsError> {
        let known = self.inner.queue.known(account, key, fingerprint, now);
        self.jitter.around(known).await
    }

    async fn enqueue(
        &self,
        call: QueuedCall,
        fingerprint: Fingerprint,
        bounds: QueueBounds,
        now: Timestamp,
    ) -> Result<Enqueued, CallsError> {
        let enqueued = self.inner.queue.enqueue(call, fingerprint, bounds, now);
        self.jitter.around(enqueued).await
    }

    async fn find(
        &self,
        account: &AccountId,
        id: GenerationId,
    ) -> Result<Option<QueuedRequest>, CallsError> {
        self.jitter.around(self.inner.queue.find(account, id)).await
    }

    async fn list(
        &self,
        account: &AccountId,
        model: &ModelId,
        before: Option<GenerationId>,
        limit: usize,
    ) -> Result<Option<Vec<QueuedRequest>>, CallsError> {
        let listed = self.inner.queue.list(account, model, before, limit);
        self.jitter.around(listed).await
    }

    async fn outcome(&self, id: GenerationId) -> Result<Option<Outcome>, CallsError> {
        self.jitter.around(self.inner.queue.outcome(id)).await
    }

    async fn cancel(
        &self,
        account: &AccountId,
        id: GenerationId,
        now: Timestamp,
    ) -> Result<Option<Cancelled>, CallsError> {
        let cancelled = self.inner.queue.cancel(account, id, now);
        self.jitter.around(cancelled).await
    }

    fn first(&self, blocked: &HashSet<AccountId>) -> Option<WaitingCall> {
        self.inner.queue.first(blocked)
    }

    async fn take(
        &self,
        id: GenerationId,
        now: Timestamp,
    ) -> Result<Option<QueuedCall>, CallsError> {
        self.jitter.around(self.inner.queue.take(id, now)).await
    }

    fn put_back(&self, waiting: WaitingCall) {
        self.inner.queue.put_back(waiting);
    }

    async fn dispatched(&self, id: GenerationId) -> Result<(), CallsError> {
        self.jitter.around(self.inner.queue.dispatched(id)).await
    }

    async fn end(
        &self,
        id: GenerationId,
        failure: QueueFailure,
        now: Timestamp,
    ) -> Result<(), CallsError> {
        let ended = self.inner.queue.end(id, failure, now);
        self.jitter.around(ended).await
    }

    fn overdue(&self, received_before: Timestamp, limit: usize) -> Vec<GenerationId> {
        self.inner.queue.overdue(received_before, limit)
    }

    fn waiting(&self) -> usize {
        self.inner.queue.waiting()
    }
}

#[async_trait]
impl CallRetention for OddCalls {
    async fn expire(
        &self,
        now: Timestamp,
        keep_from: Timestamp,
        limit: usize,
    ) -> Result<usize, CallsError> {
        self.write_records();
        let expired = self.inner.retention.expire(now, keep_from, limit);
        self.jitter.around(expired).await
    }
}

#[async_trait]
impl Quota for OddCalls {
    async fn count(
        &self,
        account: &AccountId,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<Result<(), UsedUp>, QuotaError> {
        let counted = self.inner.quota.count(account, windows, now);
        self.jitter.around(counted).await
    }

    async fn resume(
        &self,
        permit: Permit<'_>,
        lease: Lease,
        now: Timestamp,
    ) -> Result<(), QuotaError> {
        let resumed = self.inner.quota.resume(permit, lease, now);
        self.jitter.around(resumed).await
    }

    async fn renew(
        &self,
        permits: &[Permit<'_>],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<usize>, QuotaError> {
        let renewed = self.inner.quota.renew(permits, lease, now);
        self.jitter.around(renewed).await
    }

    async fn release(&self, permit: Permit<'_>, owner: OwnerId) -> Result<(), QuotaError> {
        let released = self.inner.quota.release(permit, owner);
        self.jitter.around(released).await
    }

    async fn load(&self, account: &AccountId, now: Timestamp) -> Result<Load, QuotaError> {
        self.jitter
            .around(self.inner.quota.load(account, now))
            .await
    }
}

#[async_trait]
impl KeptResults for OddCalls {
    async fn of(&self, generation: GenerationId) -> Result<Vec<KeptResult>, CallsError> {
        self.jitter.around(self.inner.kept.of(generation)).await
    }

    async fn take(
        &self,
        lease: Lease,
        turn: &ResultTurn,
        now: Timestamp,
    ) -> Result<Option<DueResult>, CallsError> {
        let taken = self.inner.kept.take(lease, turn, now);
        self.jitter.around(taken).await
    }

    async fn renew(
        &self,
        results: &[ResultId],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<ResultId>, CallsError> {
        let renewed = self.inner.kept.renew(results, lease, now);
        self.jitter.around(renewed).await
    }

    async fn note(
        &self,
        of: (ResultId, OwnerId),
        came: KeepOutcome,
        now: Timestamp,
    ) -> Result<Settled, CallsError> {
        let noted = self.inner.kept.note(of, came, now);
        self.jitter.around(noted).await
    }
}

#[async_trait]
impl Usage for OddCalls {
    async fn page(
        &self,
        query: &UsageQuery,
        after: Option<UsageCursor>,
        limit: usize,
    ) -> Result<Vec<UsageRow>, CallsError> {
        self.write_records();
        let page = self.inner.usage.page(query, after, limit);
        self.jitter.around(page).await
    }

    async fn totals(
        &self,
        query: &UsageQuery,
        by: Breakdown<'_>,
    ) -> Result<Vec<ModelTotal>, CallsError> {
        self.write_records();
        let totals = self.inner.usage.totals(query, by);
        self.jitter.around(totals).await
    }

    fn export(&self, query: UsageQuery) -> BoxStream<'static, Result<UsageRow, CallsError>> {
        self.write_records();
        self.inner.usage.export(query)
    }

    async fn find(
        &self,
        request: RequestId,
        came: (Timestamp, Timestamp),
    ) -> Result<Option<UsageRow>, CallsError> {
        self.write_records();
        self.jitter
            .around(self.inner.usage.find(request, came))
            .await
    }

    async fn unfinished(&self) -> Result<Vec<Unfinished>, CallsError> {
        self.jitter.around(self.inner.usage.unfinished()).await
    }
}
