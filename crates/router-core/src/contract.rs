//! What every store of calls must do, written once and run on each.

mod admissions;
mod generations;
mod kept;
mod keys;
mod labels;
mod ownership;
mod published;
mod queue;
mod quota;
mod replicas;
mod serving;
mod usage;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use accounts::{
    Account, AccountAdmin, AccountId, Accounts, Credits, Fingerprint, LedgerRef, RouterLimits,
};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::{
    Admission, Admissions, Answer, Bucket, CallAdmission, CallQueue, CallRecord, CallRetention,
    Calls, Claimed, Dispatched, Ending, Generation, GenerationId, Handle, KeptResults, KeyClaim,
    KeyDigest, Lease, ModelId, Outcome, OwnerId, Quota, RequestId, RouterError, Settled,
    Unfinished, Usage,
};

pub use published::published;
pub use replicas::replicas;

/// A fresh store: its faces, and the accounts that it bills.
#[derive(Clone)]
pub struct Stores {
    /// What writes.
    pub calls: Arc<dyn Calls>,
    /// What forgets.
    pub retention: Arc<dyn CallRetention>,
    /// What accounts may have in flight.
    pub quota: Arc<dyn Quota>,
    /// What admits and ends calls.
    pub admissions: Arc<dyn Admissions>,
    /// What waits.
    pub queue: Arc<dyn CallQueue>,
    /// What reads.
    pub usage: Arc<dyn Usage>,
    /// What is kept of results.
    pub kept: Arc<dyn KeptResults>,
    /// Who is billed.
    pub accounts: Arc<dyn Accounts>,
    /// Where accounts come from.
    pub admin: Arc<dyn AccountAdmin>,
}

/// A rule, run on a fresh store.
type Rule = fn(Stores) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs every rule on a fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn calls(fresh: impl Fn() -> Stores) {
    let rules: [&[Rule]; 10] = [
        &quota::RULES,
        &keys::RULES,
        &labels::RULES,
        &queue::RULES,
        &generations::RULES,
        &ownership::RULES,
        &admissions::RULES,
        &serving::RULES,
        &kept::RULES,
        &usage::RULES,
    ];
    for rule in rules.into_iter().flatten() {
        rule(fresh()).await;
    }
}

/// How long the leases and claims of the suites last.
const LASTS: Duration = Duration::from_secs(30);

/// The owner of what the suites dispatch, where a rule names no other.
const FIRST: OwnerId = OwnerId(Uuid::from_u128(1));

/// Another one.
const SECOND: OwnerId = OwnerId(Uuid::from_u128(2));

fn lease(owner: OwnerId) -> Lease {
    Lease {
        owner,
        lasts: LASTS,
    }
}

/// `second` seconds after the suites begin.
fn at(second: i64) -> Timestamp {
    let start = Timestamp::from_second(1_790_000_000).expect("in range");
    start + SignedDuration::from_secs(second)
}

fn id(n: u128) -> GenerationId {
    GenerationId(Uuid::from_u128(n))
}

fn account(name: &str) -> AccountId {
    name.parse().expect("the suites use valid ids")
}

fn model() -> ModelId {
    "bfl/flux-2".parse().expect("a valid id")
}

/// The claim of a key that is made at 0 and lasts 24 hours, for the `n`th generation.
fn claim(key: u8, n: u128) -> KeyClaim {
    KeyClaim {
        account: account("acme"),
        key: KeyDigest([key; 32]),
        fingerprint: Fingerprint([1; 32]),
        generation: id(n),
        expires_at: at(24 * 3600),
        lasts: LASTS,
    }
}

fn generation(n: u128, hold_cents: u64) -> Generation {
    Generation {
        id: id(n),
        account: account("acme"),
        model: model(),
        hold_cents,
        received_at: at(0),
        dispatched_at: at(i64::try_from(n).unwrap_or(0)),
        api_key: None,
        labels: accounts::Labels::NONE,
        serving: None,
    }
}

fn answer(body: Bytes) -> Answer {
    Answer {
        content_type: "application/json; charset=utf-8".to_owned(),
        body,
    }
}

fn kept(outcome: Outcome, charge_cents: u64) -> Ending {
    Ending::Kept {
        outcome,
        charge_cents,
        results: Vec::new(),
    }
}

fn answered(body: &'static [u8], charge_cents: u64) -> Ending {
    kept(
        Outcome::Answered(answer(Bytes::from_static(body))),
        charge_cents,
    )
}

/// The record of a successful call, received `second` seconds in.
fn record(n: u128, second: i64) -> CallRecord {
    CallRecord {
        request: RequestId(Uuid::from_u128(n)),
        account: account("acme"),
        model: Some(model()),
        key: None,
        generation: Some(id(n)),
        api_key: None,
        labels: accounts::Labels::NONE,
        bucket: None,
        replayed: false,
        received_at: at(second),
        answered_at: at(second + 1),
        delivered: true,
    }
}

impl Stores {
    async fn claim(&self, claim: KeyClaim, now: i64) -> Claimed {
        let claimed = self.calls.claim(claim, at(now)).await;
        claimed.expect("the store answers")
    }

    async fn dispatch(&self, n: u128, hold_cents: u64) {
        let begun = self.dispatch_by(FIRST, None, generation(n, hold_cents));
        assert_eq!(begun.await, Dispatched::Begun);
    }

    /// Dispatches what a key was claimed for.
    async fn dispatch_keyed(&self, key: u8, n: u128, hold_cents: u64) {
        let begun = self.dispatch_by(FIRST, Some(key), generation(n, hold_cents));
        assert_eq!(begun.await, Dispatched::Begun);
    }

    async fn dispatch_by(
        &self,
        owner: OwnerId,
        key: Option<u8>,
        generation: Generation,
    ) -> Dispatched {
        let key = key.map(|key| KeyDigest([key; 32]));
        self.dispatch_with(owner, key, generation).await
    }

    /// Dispatches a generation of an account that has room for everything, and gives its room back at once.
    async fn dispatch_with(
        &self,
        owner: OwnerId,
        key: Option<KeyDigest>,
        generation: Generation,
    ) -> Dispatched {
        let ample = RouterLimits {
            concurrent_calls: u32::MAX,
            committed_spend_cents: u64::MAX,
            ..RouterLimits::standard()
        };
        let admitted = self.admit(owner, key, &generation, &ample).await;
        let released = self.quota.release(generation.permit(), owner).await;
        released.expect("the store answers");
        match admitted {
            Ok(()) => Dispatched::Begun,
            Err(RouterError::InFlight { .. }) => {
                self.release_hold(&generation).await;
                Dispatched::ClaimLost
            }
            Err(error) => panic!("the store answers: {error}"),
        }
    }

    async fn admit(
        &self,
        owner: OwnerId,
        key: Option<KeyDigest>,
        generation: &Generation,
        limits: &RouterLimits,
    ) -> Result<(), RouterError> {
        let admission = CallAdmission {
            payer: (&generation.account).into(),
            limits,
            generation,
            key,
            lease: lease(owner),
        };
        self.admissions.admit(admission).await
    }

    async fn release_hold(&self, generation: &Generation) {
        let cause = generation.id.cause();
        let released = self.accounts.release(&generation.account, cause).await;
        released.expect("the store answers");
    }

    /// Asks for the permit of a generation that is over right after it is dispatched: its room is not given back, and it runs no
    /// more.
    async fn ask_room(
        &self,
        owner: OwnerId,
        generation: &Generation,
        limits: &RouterLimits,
    ) -> Admission {
        let admitted = self.admit(owner, None, generation, limits).await;
        let admission = match admitted {
            Ok(()) => {
                let ending = Ending::Released(Bucket::ServiceUnavailable);
                let (name, n) = (generation.account.as_str(), generation.id.0.as_u128());
                let settled = self.settle_by(owner, name, n, ending).await;
                assert_eq!(settled, Settled::Now);
                Admission::Admitted
            }
            Err(RouterError::TooManyCalls { limit }) => Admission::TooManyCalls { limit },
            Err(RouterError::SpendCap {
                limit_cents,
                current_cents,
                ..
            }) => Admission::SpendCap {
                limit_cents,
                current_cents,
            },
            Err(error) => panic!("the store answers: {error}"),
        };
        self.release_hold(generation).await;
        admission
    }

    async fn renew(&self, owner: OwnerId, ids: &[GenerationId], now: i64) -> Vec<GenerationId> {
        let lost = self.calls.renew(ids, lease(owner), at(now)).await;
        lost.expect("the store answers")
    }

    async fn take_over(&self, owner: OwnerId, limit: usize, now: i64) -> Vec<Unfinished> {
        let taken = self.calls.take_over(lease(owner), limit, at(now)).await;
        taken.expect("the store answers")
    }

    async fn accepted(&self, n: u128, handle: &'static [u8]) {
        self.accepted_by(FIRST, n, handle).await;
    }

    async fn accepted_by(&self, owner: OwnerId, n: u128, handle: &'static [u8]) {
        let handle = Handle(Bytes::from_static(handle));
        let poll_after = Duration::from_millis(1500);
        self.calls
            .accepted((id(n), owner), &handle, poll_after, Some("task"), at(50))
            .await
            .expect("the store answers");
    }

    async fn settle(&self, n: u128, ending: Ending) -> Settled {
        self.settle_of("acme", n, ending).await
    }

    async fn settle_of(&self, name: &str, n: u128, ending: Ending) -> Settled {
        self.settle_by(FIRST, name, n, ending).await
    }

    async fn settle_by(&self, owner: OwnerId, name: &str, n: u128, ending: Ending) -> Settled {
        let settled = self
            .calls
            .settle((id(n), owner), &account(name), ending, None, at(60))
            .await;
        settled.expect("the store answers")
    }

    fn record(&self, call: CallRecord) {
        self.calls.record(call);
    }

    /// Adds the account that the suites bill.
    async fn open_account(&self) {
        self.open("acme").await;
    }

    async fn open(&self, name: &str) {
        let id = account(name);
        let row = Account::new(id.clone(), (&id).into(), at(0));
        self.admin.create(row).await.expect("the id is free");
    }

    async fn credits(&self) -> Credits {
        let credits = self.accounts.credits(&account("acme"), at(0)).await;
        credits.expect("the store answers")
    }

    async fn hold(&self, n: u128, cents: u32) {
        let cause = LedgerRef::Generation(id(n).0);
        let acme = account("acme");
        let held = self
            .accounts
            .reserve((&acme).into(), cause, cents, LASTS, at(0));
        held.await.expect("the store answers");
    }
}
