//! Who may say how a generation goes on.

use accounts::{AccountChange, BudgetScope, LedgerRef, Payer, Reservation, RouterLimits};
use futures_util::future::join_all;
use uuid::Uuid;

use super::{
    Bucket, Claimed, Dispatched, Ending, FIRST, Handle, LASTS, Lease, Rule, SECOND, Settled,
    Stores, Unfinished, account, answered, at, claim, generation, id, lease,
};
use crate::{Admission, Calls, Generation, Load, OwnerId, Permit};

pub(super) const RULES: [Rule; 10] = [
    |stores| {
        Box::pin(a_generation_is_taken_over_by_one_and_after_its_lease(
            stores,
        ))
    },
    |stores| Box::pin(a_renewed_lease_is_not_taken_over(stores)),
    |stores| Box::pin(an_owner_that_lost_it_changes_nothing(stores)),
    |stores| Box::pin(what_lapsed_is_its_owners_until_another_takes_it(stores)),
    |stores| Box::pin(what_has_ended_is_nobodys(stores)),
    |stores| Box::pin(the_oldest_are_taken_over_first(stores)),
    |stores| Box::pin(a_claim_that_is_not_dispatched_in_its_time_is_void(stores)),
    |stores| Box::pin(a_result_of_another_owner_answers_its_key(stores)),
    |stores| Box::pin(what_runs_keeps_its_room_past_its_lease(stores)),
    |stores| Box::pin(what_runs_keeps_its_credits_past_its_lease(stores)),
];

/// When the lease of the generation `n` lapses, which is dispatched at `n`.
fn lapsed(n: u128) -> i64 {
    i64::try_from(n + u128::from(LASTS.as_secs())).expect("few")
}

fn ids(taken: &[Unfinished]) -> Vec<u128> {
    taken
        .iter()
        .map(|one| one.generation.id.0.as_u128())
        .collect()
}

async fn a_generation_is_taken_over_by_one_and_after_its_lease(stores: Stores) {
    stores.open_account().await;
    stores.dispatch(1, 7).await;
    stores.accepted(1, b"handle").await;
    assert_eq!(stores.take_over(SECOND, 10, lapsed(1) - 1).await, []);
    let tries = (0..16).map(|n| {
        let stores = stores.clone();
        let owner = crate::OwnerId(uuid::Uuid::from_u128(100 + n));
        async move { stores.take_over(owner, 10, lapsed(1)).await }
    });
    let taken: Vec<Unfinished> = join_all(tries).await.into_iter().flatten().collect();
    assert_eq!(ids(&taken), [1]);
    assert_eq!(taken[0].generation, generation(1, 7));
    let accepted = taken[0].accepted.as_ref().expect("it was accepted");
    assert_eq!(
        accepted.handle,
        Handle(bytes::Bytes::from_static(b"handle"))
    );
}

async fn a_renewed_lease_is_not_taken_over(stores: Stores) {
    stores.open_account().await;
    for n in [1, 2] {
        stores.dispatch(n, 7).await;
    }
    // One that it has not, too.
    assert_eq!(stores.renew(FIRST, &[id(1), id(9)], 20).await, [id(9)]);
    assert_eq!(ids(&stores.take_over(SECOND, 10, 49).await), [2]);
    assert_eq!(ids(&stores.take_over(SECOND, 10, 50).await), [1]);
    let mut lost = stores.renew(FIRST, &[id(1), id(2)], 51).await;
    lost.sort();
    assert_eq!(lost, [id(1), id(2)]);
    assert_eq!(stores.renew(SECOND, &[id(1), id(2)], 51).await, []);
}

async fn an_owner_that_lost_it_changes_nothing(stores: Stores) {
    stores.open_account().await;
    stores.claim(claim(1, 1), 0).await;
    stores.dispatch_keyed(1, 1, 7).await;
    stores.dispatch(2, 7).await;
    for n in [1, 2] {
        stores.hold(n, 7).await;
    }
    assert_eq!(ids(&stores.take_over(SECOND, 10, lapsed(2)).await), [1, 2]);
    for n in [1, 2] {
        stores.accepted_by(FIRST, n, b"late").await;
        for ending in [
            answered(b"late", 5),
            Ending::Released(Bucket::ProviderError),
        ] {
            let settled = stores.settle_by(FIRST, "acme", n, ending).await;
            assert_eq!(settled, Settled::Before);
        }
    }
    let unfinished = stores.usage.unfinished().await.expect("the store answers");
    assert!(unfinished.iter().all(|one| one.accepted.is_none()));
    let credits = stores.credits().await;
    assert_eq!((credits.balance_cents, credits.held_cents), (0, 14));
    assert_eq!(stores.claim(claim(1, 3), 60).await, Claimed::PickUp(id(1)));
    for n in [1, 2] {
        let settled = stores
            .settle_by(SECOND, "acme", n, answered(b"{}", 3))
            .await;
        assert_eq!(settled, Settled::Now);
    }
    let credits = stores.credits().await;
    assert_eq!((credits.balance_cents, credits.held_cents), (-6, 0));
}

async fn what_lapsed_is_its_owners_until_another_takes_it(stores: Stores) {
    stores.open_account().await;
    for n in [1, 2] {
        stores.dispatch(n, 7).await;
    }
    // Both have lapsed long ago.
    assert_eq!(stores.renew(FIRST, &[id(1)], 1_000).await, []);
    assert_eq!(stores.settle(2, answered(b"{}", 5)).await, Settled::Now);
    assert_eq!(stores.take_over(SECOND, 10, 1_029).await, []);
    // An owner may take over what it left itself.
    assert_eq!(ids(&stores.take_over(FIRST, 10, 1_030).await), [1]);
    assert_eq!(stores.settle(1, answered(b"{}", 5)).await, Settled::Now);
}

async fn what_has_ended_is_nobodys(stores: Stores) {
    stores.open_account().await;
    stores.claim(claim(1, 1), 0).await;
    stores.dispatch_keyed(1, 1, 7).await;
    stores.dispatch(2, 7).await;
    for n in [1, 2] {
        assert_eq!(stores.settle(n, answered(b"{}", 5)).await, Settled::Now);
    }
    assert_eq!(stores.take_over(SECOND, 10, 1_000).await, []);
    assert_eq!(
        stores.renew(FIRST, &[id(1), id(2)], 1).await,
        [id(1), id(2)]
    );
    let settled = stores
        .settle_by(SECOND, "acme", 1, answered(b"{}", 5))
        .await;
    assert_eq!(settled, Settled::Before);
    assert_eq!(stores.credits().await.balance_cents, -10);
}

async fn the_oldest_are_taken_over_first(stores: Stores) {
    stores.open_account().await;
    for n in [4, 2, 5, 1, 3] {
        stores.dispatch(n, 7).await;
    }
    for expected in [&[1, 2][..], &[3, 4], &[5], &[]] {
        assert_eq!(ids(&stores.take_over(SECOND, 2, 100).await), expected);
    }
}

async fn a_claim_that_is_not_dispatched_in_its_time_is_void(stores: Stores) {
    stores.open_account().await;
    stores.claim(claim(1, 1), 0).await;
    let seconds = i64::try_from(LASTS.as_secs()).expect("few");
    assert_eq!(
        stores.claim(claim(1, 2), seconds - 1).await,
        Claimed::InFlight
    );
    assert_eq!(stores.claim(claim(1, 3), seconds).await, Claimed::Fresh);
    // What comes too late runs nothing beside the new claim, and takes nothing from it.
    let late = stores.dispatch_by(FIRST, Some(1), generation(1, 7)).await;
    assert_eq!(late, Dispatched::ClaimLost);
    assert_eq!(
        stores.usage.unfinished().await.expect("the store answers"),
        []
    );
    stores
        .settle(1, Ending::Released(Bucket::ConcurrencyLimitExceeded))
        .await;
    let begun = stores.dispatch_by(SECOND, Some(1), generation(3, 7)).await;
    assert_eq!(begun, Dispatched::Begun);
    let retried = stores.claim(claim(1, 4), seconds + 1).await;
    assert_eq!(retried, Claimed::PickUp(id(3)));
    // One that nobody took is still its own.
    stores.claim(claim(2, 5), 0).await;
    let begun = stores.dispatch_by(FIRST, Some(2), generation(5, 7)).await;
    assert_eq!(begun, Dispatched::Begun);
}

/// The result of a generation with a key is kept, whichever process settles it.
async fn a_result_of_another_owner_answers_its_key(stores: Stores) {
    stores.open_account().await;
    stores.claim(claim(1, 1), 0).await;
    stores.dispatch_keyed(1, 1, 7).await;
    let taken = Calls::take_over(&*stores.calls, lease(SECOND), 1, at(lapsed(1))).await;
    assert_eq!(ids(&taken.expect("the store answers")), [1]);
    stores.settle(1, answered(b"the first", 7)).await;
    let ending = answered(b"the second", 7);
    assert_eq!(
        stores.settle_by(SECOND, "acme", 1, ending.clone()).await,
        Settled::Now
    );
    let Ending::Kept { outcome, .. } = ending else {
        unreachable!("it is kept");
    };
    let replayed = stores.claim(claim(1, 2), 60).await;
    assert_eq!(replayed, Claimed::Replay(id(1), outcome));
    let lost = Lease {
        owner: FIRST,
        lasts: LASTS,
    };
    let lost = stores.calls.renew(&[id(1)], lost, at(61)).await;
    assert_eq!(lost.expect("the store answers"), [id(1)]);
}

/// The partner goes on with what a dead process had it do, so nothing else may take its room before that has ended.
async fn what_runs_keeps_its_room_past_its_lease(stores: Stores) {
    stores.open_account().await;
    let acme = account("acme");
    let permit = |n: u128| Permit {
        account: &acme,
        generation: id(n),
        hold_cents: 7,
    };
    let limits = RouterLimits {
        concurrent_calls: 2,
        ..RouterLimits::standard()
    };
    let ask = async |owner: OwnerId, n: u128, now: i64| {
        let asking = Generation {
            dispatched_at: at(now),
            ..generation(n, 7)
        };
        stores.ask_room(owner, &asking, &limits).await
    };
    let load = async |now: i64| {
        let load = stores.quota.load(&acme, at(now)).await;
        let Load {
            calls,
            committed_cents,
        } = load.expect("the store answers");
        (calls, committed_cents)
    };
    let begun = stores.admit(FIRST, None, &generation(1, 7), &limits).await;
    begun.expect("there is room");
    // The second does not run, and neither permit is renewed.
    assert_eq!(ask(FIRST, 2, 0).await, Admission::Admitted);
    let later = lapsed(1);
    // Retention forgets the one and not the other.
    let swept = stores.retention.expire(at(later), at(0), 100).await;
    swept.expect("the store answers");
    assert_eq!(load(later).await, (1, 7));
    assert_eq!(ask(SECOND, 3, later).await, Admission::Admitted);
    let refused = Admission::TooManyCalls { limit: 2 };
    assert_eq!(ask(SECOND, 4, later).await, refused);
    // Who takes it over takes its room, and no second one.
    assert_eq!(ids(&stores.take_over(SECOND, 10, later).await), [1]);
    let resumed = stores.quota.resume(permit(1), lease(SECOND), at(later));
    resumed.await.expect("the store answers");
    assert_eq!(load(later).await, (2, 14));
    // Its end is the end of its room once that lapsed, also if nobody gave it back.
    let settled = stores.settle_by(SECOND, "acme", 1, answered(b"{}", 5));
    assert_eq!(settled.await, Settled::Now);
    assert_eq!(load(later).await, (2, 14));
    let last = later + lapsed(0);
    assert_eq!(load(last).await, (0, 0));
    assert_eq!(ask(SECOND, 4, last).await, Admission::Admitted);
}

/// Nor may anything else spend the credits that are set aside for it, neither those of its account nor those of a budget.
async fn what_runs_keeps_its_credits_past_its_lease(stores: Stores) {
    stores.open_account().await;
    let acme = account("acme");
    let blue: BudgetScope = "label:team=blue".parse().expect("a scope");
    let budgets = "80/month".parse().expect("budgets");
    let changes = vec![
        AccountChange::Billed(true),
        AccountChange::ScopedBudgets(vec![(blue.clone(), budgets)]),
    ];
    let changed = stores.admin.change(&acme, changes).await;
    changed.expect("the account is there");
    let grant = LedgerRef::Grant(Uuid::from_u128(1));
    let granted = stores.admin.grant(&acme, grant, 100, at(0)).await;
    granted.expect("the account is there");
    let cause = |n: u128| LedgerRef::Generation(id(n).0);
    let reserve = async |scopes: &[BudgetScope], n: u128, cents: u32, now: i64| {
        let account = &acme;
        let payer = Payer { account, scopes };
        let reserved = stores
            .accounts
            .reserve(payer, cause(n), cents, LASTS, at(now));
        reserved.await.expect("the store answers")
    };
    let credits = async |now: i64| {
        let credits = stores.accounts.credits(&acme, at(now)).await;
        let credits = credits.expect("the store answers");
        (credits.balance_cents, credits.held_cents)
    };
    let (blue, plain) = (&[blue][..], &[][..]);
    let held = Reservation::Held;
    assert_eq!(reserve(blue, 1, 60, 0).await, held);
    assert_eq!(reserve(blue, 2, 20, 0).await, held);
    // The second is never dispatched, and neither hold is renewed.
    stores.dispatch(1, 60).await;
    let later = lapsed(1);
    assert_eq!(credits(later).await, (100, 60));
    let refused = reserve(blue, 3, 21, later).await;
    assert!(matches!(refused, Reservation::OverBudget(_)), "{refused:?}");
    assert_eq!(reserve(blue, 3, 20, later).await, held);
    let available_cents = 20;
    let refused = Reservation::Insufficient { available_cents };
    assert_eq!(reserve(plain, 4, 21, later).await, refused);
    // A process that wakes renews it. What did not run is gone, and what runs is not swept away with it.
    let holds = [(&acme, cause(1)), (&acme, cause(2))];
    for now in [later, later + lapsed(0)] {
        let gone = stores.accounts.renew(&holds, LASTS, at(now)).await;
        assert_eq!(gone.expect("the store answers"), [1]);
        assert_eq!(credits(now).await.1, if now == later { 80 } else { 60 });
    }
    // Who takes it over holds it again, and no second time.
    let last = later + 2 * lapsed(0);
    assert_eq!(ids(&stores.take_over(SECOND, 10, last).await), [1]);
    assert_eq!(reserve(plain, 1, 90, last).await, held);
    assert_eq!(credits(last).await, (100, 60));
    let settled = stores.settle_by(SECOND, "acme", 1, answered(b"{}", 5));
    assert_eq!(settled.await, Settled::Now);
    assert_eq!(credits(last).await, (95, 0));
    // What ended without a bill counts for its lease at most.
    assert_eq!(reserve(plain, 5, 95, last).await, held);
    stores.dispatch(5, 95).await;
    let ending = Ending::Released(Bucket::ServiceUnavailable);
    assert_eq!(stores.settle(5, ending).await, Settled::Now);
    assert_eq!(credits(last + lapsed(0)).await, (95, 0));
}
