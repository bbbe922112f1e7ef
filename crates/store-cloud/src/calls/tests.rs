//! Calls over one handle and over two of one database.

mod admissions;
mod clock;
mod gone;
mod model;
mod zombies;

use std::sync::Arc;

use accounts::{Account, AccountAdmin, RouterLimits, Tier};
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::BoxStream;
use router_core::contract::{self, Stores};
use router_core::{
    Admissions, Bucket, CallAdmission, CallQueue, Dispatched, Enqueued, Generation, KeyDigest,
    Load, ModelTotal, QueueBounds, QueueState, QueuedCall, RequestId, RouterError, Usage,
    UsageCursor, UsageQuery, UsageRow,
};
use uuid::Uuid;

use super::*;
use crate::testing::{self, now};
use crate::{PgAccounts, PgQuota};

async fn stores(database: &Database) -> (PgCalls, Stores) {
    let calls = PgCalls::open(database).await.expect("it opens");
    let shared = Arc::new(calls.clone());
    let accounts = Arc::new(PgAccounts::new(database.clone(), Tier::standard()));
    let stores = Stores {
        calls: shared.clone(),
        retention: shared.clone(),
        quota: Arc::new(PgQuota::new(database)),
        admissions: shared.clone(),
        queue: shared.clone(),
        kept: shared,
        usage: Arc::new(calls.usage()),
        accounts: accounts.clone(),
        admin: accounts,
    };
    (calls, stores)
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::calls(|| now(async { stores(&testing::database().await).await.1 })).await;
}

/// What reads after both processes have written what was handed in, which is soon.
struct AfterBoth(PgUsage, [Records; 2]);

impl AfterBoth {
    async fn written(&self) {
        for records in &self.1 {
            records.written().await;
        }
    }
}

#[async_trait]
impl Usage for AfterBoth {
    async fn page(
        &self,
        query: &UsageQuery,
        after: Option<UsageCursor>,
        limit: usize,
    ) -> Result<Vec<UsageRow>, CallsError> {
        self.written().await;
        self.0.page(query, after, limit).await
    }

    async fn totals(
        &self,
        query: &UsageQuery,
        by: router_core::Breakdown<'_>,
    ) -> Result<Vec<ModelTotal>, CallsError> {
        self.0.totals(query, by).await
    }

    fn export(&self, query: UsageQuery) -> BoxStream<'static, Result<UsageRow, CallsError>> {
        self.0.export(query)
    }

    async fn find(
        &self,
        request: RequestId,
        came: (Timestamp, Timestamp),
    ) -> Result<Option<UsageRow>, CallsError> {
        self.written().await;
        self.0.find(request, came).await
    }

    async fn unfinished(&self) -> Result<Vec<Unfinished>, CallsError> {
        self.0.unfinished().await
    }
}

async fn two() -> [(PgCalls, Stores); 2] {
    let url = testing::fresh_database().await;
    [
        stores(&testing::open(&url).await).await,
        stores(&testing::open(&url).await).await,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn two_handles_keep_the_contract_of_replicas() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::replicas(|| {
        let [(one, mut first), (other, mut second)] = now(two());
        let records = [one.records.clone(), other.records.clone()];
        first.usage = Arc::new(AfterBoth(one.usage(), records.clone()));
        second.usage = Arc::new(AfterBoth(other.usage(), records));
        [first, second]
    })
    .await;
}

const OWNER: OwnerId = OwnerId(Uuid::from_u128(1));

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).expect("in range")
}

fn id(n: u128) -> GenerationId {
    GenerationId(Uuid::from_u128(n))
}

fn acme() -> AccountId {
    "acme".parse().expect("an id")
}

fn generation(n: u128) -> Generation {
    Generation {
        id: id(n),
        account: acme(),
        model: "bfl/flux-2".parse().expect("an id"),
        hold_cents: 7,
        received_at: at(i64::try_from(n).expect("few")),
        dispatched_at: at(0),
        api_key: None,
        labels: accounts::Labels::NONE,
        serving: None,
    }
}

fn lease() -> Lease {
    Lease {
        owner: OWNER,
        lasts: Duration::from_secs(30),
    }
}

/// Admits a generation of an account that has room for everything.
async fn admit(
    calls: &PgCalls,
    generation: &Generation,
    key: Option<KeyDigest>,
    lease: Lease,
) -> Dispatched {
    let ample = RouterLimits {
        concurrent_calls: u32::MAX,
        committed_spend_cents: u64::MAX,
        ..RouterLimits::standard()
    };
    let admission = CallAdmission {
        payer: (&generation.account).into(),
        limits: &ample,
        generation,
        key,
        lease,
    };
    match calls.admit(admission).await {
        Ok(()) => Dispatched::Begun,
        Err(RouterError::InFlight { .. }) => Dispatched::ClaimLost,
        Err(error) => panic!("{error:?}"),
    }
}

fn failed(message: &str, charge_cents: u64) -> Ending {
    Ending::Kept {
        outcome: Outcome::Failed {
            bucket: Bucket::ProviderError,
            message: message.to_owned(),
        },
        charge_cents,
        results: Vec::new(),
    }
}

async fn open_account(accounts: &dyn AccountAdmin) {
    let account = Account::new(acme(), (&acme()).into(), at(0));
    accounts.create(account).await.expect("a free id");
}

fn queued(n: u128) -> QueuedCall {
    QueuedCall {
        id: id(n),
        account: if n.is_multiple_of(2) {
            acme()
        } else {
            AccountId::local()
        },
        model: generation(0).model,
        query: String::new(),
        labels: accounts::Labels::NONE,
        api_key: None,
        key: KeyDigest::of_request(id(n)),
        received_at: at(0),
        expires_at: at(86_400),
        body: Bytes::from(vec![b'x'; 600_000]),
    }
}

const BOUNDS: QueueBounds = QueueBounds {
    of_account: 10,
    of_all: 15,
};

#[tokio::test(flavor = "multi_thread")]
async fn what_one_process_queues_another_takes_once_and_bounds_hold_for_both() {
    if !crate::testing::has_postgres() {
        return;
    }
    let [(one, _), (other, _)] = two().await;
    let handles = [&one, &other];
    let submitted = (0..40_u128).map(|n| {
        let calls = handles[usize::from(n % 4 < 2)].clone();
        tokio::spawn(async move {
            let fingerprint = accounts::Fingerprint([1; 32]);
            calls.enqueue(queued(n), fingerprint, BOUNDS, at(0)).await
        })
    });
    let enqueued = join_all(submitted).await.into_iter();
    let enqueued: Vec<Enqueued> = enqueued
        .map(|one| one.expect("it ends").expect("it answers"))
        .collect();
    let waits =
        (0..40_u128).filter(|n| enqueued[usize::try_from(*n).expect("few")] == Enqueued::Waits);
    let waits: Vec<u128> = waits.collect();
    assert_eq!(waits.len(), 15);
    for (index, n) in waits.iter().enumerate() {
        let account = queued(*n).account;
        for calls in handles {
            let found = calls.find(&account, id(*n)).await.expect("it answers");
            let state = found.expect("it is there").state;
            assert!(matches!(state, QueueState::Waiting { .. }), "{state:?}");
        }
        // Both take it at once.
        let taken = join_all(handles.map(|calls| calls.take(id(*n), at(1)))).await;
        let taken: Vec<QueuedCall> = taken
            .into_iter()
            .filter_map(|one| one.expect("it answers"))
            .collect();
        assert_eq!(taken, [queued(*n)]);
        for calls in handles {
            let found = calls.find(&account, id(*n)).await.expect("it answers");
            assert_eq!(found.expect("it is there").state, QueueState::Running);
            assert_eq!(calls.waiting(), 14 - index);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_back_is_taken_by_another_process() {
    if !crate::testing::has_postgres() {
        return;
    }
    let [(one, _), (other, _)] = two().await;
    let fingerprint = accounts::Fingerprint([1; 32]);
    let enqueued = one.enqueue(queued(2), fingerprint, BOUNDS, at(0)).await;
    assert_eq!(enqueued.expect("it answers"), Enqueued::Waits);
    let place = one.first(&foldhash::HashSet::default()).expect("one waits");
    assert!(one.take(id(2), at(1)).await.expect("it answers").is_some());
    assert!(
        other
            .take(id(2), at(1))
            .await
            .expect("it answers")
            .is_none()
    );
    one.put_back(place);
    one.queue.write_returned().await.expect("it is written");
    assert!(
        other
            .take(id(2), at(1))
            .await
            .expect("it answers")
            .is_some()
    );
    assert!(one.take(id(2), at(1)).await.expect("it answers").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_process_took_waits_again_unless_it_was_dispatched() {
    if !crate::testing::has_postgres() {
        return;
    }
    let [(one, stores), (other, _)] = two().await;
    open_account(&*stores.admin).await;
    for n in [2, 4] {
        let fingerprint = accounts::Fingerprint([1; 32]);
        let enqueued = one.enqueue(queued(n), fingerprint, BOUNDS, at(0)).await;
        assert_eq!(enqueued.expect("it answers"), Enqueued::Waits);
        let taken = one.take(id(n), at(1)).await.expect("it answers");
        assert_eq!(taken, Some(queued(n)));
    }
    let (key, owner) = (Some(KeyDigest::of_request(id(4))), lease());
    let begun = admit(&one, &generation(4), key, owner).await;
    assert_eq!(begun, Dispatched::Begun);
    assert_eq!(other.waiting(), 0);
    let connection = one.database.connection().await.expect("it answers");
    let lapsed = connection.batch_execute("UPDATE queued_calls SET taken_until = 0");
    lapsed.await.expect("the table is there");
    other.queue.recover().await.expect("it is written");
    assert_eq!(other.waiting(), 1);
    let taken = other.take(id(2), at(2)).await.expect("it answers");
    assert_eq!(taken, Some(queued(2)));
    assert_eq!(other.take(id(4), at(2)).await.expect("it answers"), None);
    // The one that was thought dead runs nothing beside the other.
    let own = Lease {
        owner: OwnerId(Uuid::from_u128(2)),
        ..lease()
    };
    let key = Some(KeyDigest::of_request(id(2)));
    let begun = admit(&other, &generation(2), key, own).await;
    assert_eq!(begun, Dispatched::Begun);
    let late = admit(&one, &generation(2), key, lease()).await;
    assert_eq!(late, Dispatched::ClaimLost);
}

/// A batch of large results would take longer than a server may be silent for, and then be tried again and again.
#[tokio::test(flavor = "multi_thread")]
async fn large_results_that_end_together_are_written_a_few_at_a_time() {
    if !crate::testing::has_postgres() {
        return;
    }
    const ENDS: u128 = 6;
    let (calls, stores) = stores(&testing::database().await).await;
    open_account(&*stores.admin).await;
    let key = |n| KeyDigest::of_request(id(n));
    for n in 0..ENDS {
        let claim = KeyClaim {
            account: acme(),
            key: key(n),
            fingerprint: accounts::Fingerprint([1; 32]),
            generation: id(n),
            expires_at: at(86_400),
            lasts: Duration::from_secs(30),
        };
        let claimed = calls.claim(claim, at(0)).await.expect("it answers");
        assert_eq!(claimed, Claimed::Fresh);
        let begun = admit(&calls, &generation(n), Some(key(n)), lease()).await;
        assert_eq!(begun, Dispatched::Begun);
    }
    let body = Bytes::from(vec![7; router_core::REPLAY_CAP_BYTES]);
    let outcome = Outcome::Answered(router_core::Answer {
        content_type: "image/png".to_owned(),
        body,
    });
    let turn = calls.database.turnstile().hold().await;
    let ending = async |n| {
        let ending = Ending::Kept {
            outcome: outcome.clone(),
            charge_cents: 0,
            results: Vec::new(),
        };
        let account = acme();
        let settled = calls.settle((id(n), OWNER), &account, ending, None, at(1));
        settled.await.expect("it answers")
    };
    let letting_go = async {
        tokio::task::yield_now().await;
        drop(turn);
    };
    let (settled, ()) = tokio::join!(join_all((0..ENDS).map(ending)), letting_go);
    assert_eq!(settled, [Settled::Now; 6]);
    let connection = calls.database.connection().await.expect("it answers");
    let counted = "SELECT count(DISTINCT xmin::text) FROM generations";
    let counted = connection.query_one(counted, &[]).await;
    // Two of them have 16 MiB.
    assert_eq!(counted.expect("it answers").get::<_, i64>(0), 3);
}

/// What partners write may hold U+0000, which no text of PostgreSQL does.
#[tokio::test(flavor = "multi_thread")]
async fn any_text_of_a_partner_is_kept() {
    if !crate::testing::has_postgres() {
        return;
    }
    let (calls, stores) = stores(&testing::database().await).await;
    open_account(&*stores.admin).await;
    let claim = |n| KeyClaim {
        account: acme(),
        key: KeyDigest([1; 32]),
        fingerprint: accounts::Fingerprint([1; 32]),
        generation: id(n),
        expires_at: at(86_400),
        lasts: Duration::from_secs(30),
    };
    let claimed = calls.claim(claim(1), at(0)).await.expect("it answers");
    assert_eq!(claimed, Claimed::Fresh);
    let key = Some(KeyDigest([1; 32]));
    let begun = admit(&calls, &generation(1), key, lease()).await;
    assert_eq!(begun, Dispatched::Begun);
    let ending = failed("a\0b", 0);
    let (of, payer) = ((id(1), OWNER), acme());
    let settled = calls.settle(of, &payer, ending.clone(), Some("t\0"), at(1));
    assert_eq!(settled.await.expect("it answers"), Settled::Now);
    let again = calls.claim(claim(2), at(2)).await.expect("it answers");
    let Ending::Kept { outcome, .. } = ending else {
        unreachable!("it is kept");
    };
    assert_eq!(again, Claimed::Replay(id(1), outcome));
}

/// The answer to a commit is lost, and the batch is written again: the caller hears that its call ended, and it is billed once.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_commit_ended_is_known_and_billed_once() {
    if !crate::testing::has_postgres() {
        return;
    }
    let database = testing::database().await;
    let (calls, stores) = stores(&database).await;
    open_account(&*stores.admin).await;
    for n in 1..=2 {
        let begun = admit(&calls, &generation(n), None, lease()).await;
        assert_eq!(begun, Dispatched::Begun);
    }
    let load = stores.quota.load(&acme(), at(1)).await;
    assert_eq!(load.expect("it answers").calls, 2);
    let ends = |now: i64| {
        [1, 2, 3].map(|n| Settling {
            generation: id(n),
            owner: OWNER,
            account: acme(),
            ending: failed("it failed", 5),
            task_id: None,
            gives_room_back: true,
            now: at(now),
        })
    };
    let expected = [Settled::Now, Settled::Now, Settled::Before];
    for again in [false, true] {
        let settled = settling::settle_once(&database, &ends(1), again).await;
        let Ok(settled) = settled else {
            panic!("it is written")
        };
        assert_eq!(settled, expected, "again: {again}");
        // The permits went with that commit.
        let load = stores.quota.load(&acme(), at(2)).await;
        assert_eq!(load.expect("it answers"), Load::default());
    }
    // Another batch is not that one.
    let settled = settling::settle_once(&database, &ends(2), true).await;
    let Ok(settled) = settled else {
        panic!("it is written")
    };
    assert_eq!(settled, [Settled::Before; 3]);
    let credits = stores.accounts.credits(&acme(), at(2)).await;
    assert_eq!(credits.expect("it answers").balance_cents, -10);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_reads_page_by_page() {
    if !crate::testing::has_postgres() {
        return;
    }
    let (calls, _) = stores(&testing::database().await).await;
    for n in 0..1_000_u32 {
        calls.record(CallRecord {
            request: RequestId(Uuid::from_u128(n.into())),
            account: acme(),
            model: None,
            key: None,
            generation: None,
            api_key: None,
            labels: accounts::Labels::NONE,
            bucket: None,
            replayed: false,
            received_at: at((n / 7).into()),
            answered_at: at(0),
            delivered: true,
        });
    }
    let exported: Vec<_> = calls.usage().export(UsageQuery::default()).collect().await;
    let requests = exported
        .into_iter()
        .map(|row| row.expect("a row").call.request);
    let expected = (0..1_000_u32).map(|n| RequestId(Uuid::from_u128(n.into())));
    assert!(requests.eq(expected));
}
