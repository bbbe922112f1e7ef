//! The port that admits and ends calls: credits, quotas and rows of calls, changed together.
//!
//! A store that has all three changes them in one transaction. That of one process may change them one after the other.

use std::sync::Arc;

use accounts::{Accounts, Payer, RouterLimits};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    Calls, CallsError, Dispatched, Ending, Generation, KeyDigest, Lease, MemoryQuota, OwnerId,
    Permit, RouterError, Settled,
};

/// A call that is to be admitted.
#[derive(Clone, Copy, Debug)]
pub struct CallAdmission<'a> {
    /// Whose credits are held, and which budgets of keys and labels they count against.
    pub payer: Payer<'a>,
    /// What the account may have in flight, and be charged.
    pub limits: &'a RouterLimits,
    /// What is dispatched. Its credits are held and its room is taken from its `dispatched_at` on.
    pub generation: &'a Generation,
    /// The key that was claimed for it.
    pub key: Option<KeyDigest>,
    /// Who owns it, and for how long.
    pub lease: Lease,
}

/// A call that is to be ended.
#[derive(Clone, Debug)]
pub struct CallEnd<'a> {
    /// The permit that it has.
    pub permit: Permit<'a>,
    /// Who owns it.
    pub owner: OwnerId,
    /// How its generation ends.
    pub ending: Ending,
    /// The partner's own name of the work.
    pub task_id: Option<&'a str>,
    /// When it ends.
    pub now: Timestamp,
}

/// Admits and ends calls.
///
/// **Contract.** `admit` holds credits as [`reserve`](accounts::CreditLedger::reserve) does, gives a permit if the account has room for
/// another call and for its cents, and writes down that the generation is about to be dispatched, in this order. The answer is that of the first
/// one that refuses; the count of calls is judged before their cents. A call that has a permit keeps it, and the permit is the asking
/// owner's from then on. A generation is dispatched once for its id. It is the owner's from its `dispatched_at` on, and the key that
/// was claimed for it is its own; if another claim has the key by then, the answer is [`RouterError::InFlight`].
///
/// What was admitted is on disk when this returns, and `admit` runs to its end even if the caller stops waiting. After a
/// refusal or an error, the caller releases the hold and the permit. A call that was refused was not dispatched. Nor was one after an
/// error, unless the source of the error is [`CallsError::Unavailable`]: then nobody knows.
///
/// `end` does what [`Calls::settle`] does and then, unless that failed, what [`Quota::release`](crate::Quota::release) does. After an
/// error the permit may still be there.
#[async_trait]
pub trait Admissions: Send + Sync + 'static {
    /// Holds credits for a call, gives it a permit and dispatches it.
    async fn admit(&self, call: CallAdmission<'_>) -> Result<(), RouterError>;

    /// Settles the generation of a call and releases its permit.
    async fn end(&self, call: CallEnd<'_>) -> Result<Settled, CallsError>;
}

/// The calls of a store that one process has, whose admissions are steps one after the other.
///
/// **Contract.** What [`Admissions`] says of what is dispatched, and what [`Calls`] says of every method.
#[async_trait]
pub trait SequentialCalls: Calls {
    /// Writes down that a generation is about to be dispatched.
    async fn dispatch(
        &self,
        generation: Generation,
        key: Option<KeyDigest>,
        lease: Lease,
    ) -> Result<Dispatched, CallsError>;
}

/// Changes credits, quotas and rows one after the other: for the store of one process, whose permits are in memory.
pub struct SequentialAdmissions {
    /// The credits.
    pub accounts: Arc<dyn Accounts>,
    /// The permits.
    pub quota: MemoryQuota,
    /// The rows.
    pub calls: Arc<dyn SequentialCalls>,
}

#[async_trait]
impl Admissions for SequentialAdmissions {
    async fn admit(&self, call: CallAdmission<'_>) -> Result<(), RouterError> {
        let CallAdmission {
            generation, lease, ..
        } = call;
        let (cause, hold) = (generation.id.cause(), generation.hold());
        let now = generation.dispatched_at;
        let held = self
            .accounts
            .reserve(call.payer, cause, hold, lease.lasts, now);
        RouterError::of_reservation(held.await.map_err(RouterError::unavailable)?)?;
        let permit = generation.permit();
        let admitted = self.quota.admit(permit, call.limits, lease, now);
        admitted.into_result(generation.hold_cents)?;
        let dispatched = self.calls.dispatch(generation.clone(), call.key, lease);
        let dispatched = dispatched.await.map_err(RouterError::unavailable)?;
        dispatched.into_result()
    }

    async fn end(&self, call: CallEnd<'_>) -> Result<Settled, CallsError> {
        let CallEnd {
            permit,
            owner,
            ending,
            task_id,
            now,
        } = call;
        let of = (permit.generation, owner);
        let settled = self.calls.settle(of, permit.account, ending, task_id, now);
        let settled = settled.await?;
        self.quota.give_back(permit, owner);
        Ok(settled)
    }
}

impl std::fmt::Debug for SequentialAdmissions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SequentialAdmissions")
    }
}
