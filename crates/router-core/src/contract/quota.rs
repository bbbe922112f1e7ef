//! What every store of quotas must do.

use accounts::{AccountId, RateWindow, RouterLimits};
use futures_util::future::join_all;

use super::{FIRST, LASTS, Rule, SECOND, Stores, account, at, generation, id, lease};
use crate::{Admission, Generation, Load, OwnerId, Permit};

pub(super) const RULES: [Rule; 12] = [
    |stores| Box::pin(the_count_is_judged_before_the_spend(stores)),
    |stores| Box::pin(a_call_dearer_than_the_cap_is_refused_even_when_idle(stores)),
    |stores| Box::pin(the_committed_spend_excludes_the_refused_call(stores)),
    |stores| Box::pin(accounts_do_not_share_their_room(stores)),
    |stores| Box::pin(a_call_has_one_permit(stores)),
    |stores| Box::pin(what_lapsed_counts_nowhere(stores)),
    |stores| Box::pin(a_renewed_permit_stays(stores)),
    |stores| Box::pin(a_permit_is_released_by_its_owner_alone(stores)),
    |stores| Box::pin(what_runs_goes_on_whatever_the_limits_are(stores)),
    |stores| Box::pin(at_once_no_more_are_admitted_than_have_room(stores)),
    |stores| Box::pin(a_window_counts_to_its_quota_and_tells_when_it_ends(stores)),
    |stores| Box::pin(at_once_no_more_are_counted_than_a_window_takes(stores)),
];

/// One account's side of a store, at a time.
struct Of<'a> {
    stores: &'a Stores,
    account: AccountId,
    owner: OwnerId,
    now: i64,
}

impl Of<'_> {
    fn permit(&self, n: u128, hold_cents: u64) -> Permit<'_> {
        Permit {
            account: &self.account,
            generation: id(n),
            hold_cents,
        }
    }

    fn generation(&self, n: u128, hold_cents: u64) -> Generation {
        Generation {
            account: self.account.clone(),
            dispatched_at: at(self.now),
            ..generation(n, hold_cents)
        }
    }

    async fn admit(&self, n: u128, hold_cents: u64, limits: &RouterLimits) -> Admission {
        let asking = self.generation(n, hold_cents);
        self.stores.ask_room(self.owner, &asking, limits).await
    }

    async fn has(&self, n: u128) -> bool {
        let permits = [self.permit(n, 0)];
        let lost = self
            .stores
            .quota
            .renew(&permits, lease(self.owner), at(self.now));
        lost.await.expect("the store answers").is_empty()
    }

    async fn release(&self, n: u128) {
        let released = self
            .stores
            .quota
            .release(self.permit(n, 0), self.owner)
            .await;
        released.expect("the store answers");
    }

    async fn load(&self) -> (u32, u64) {
        let load = self.stores.quota.load(&self.account, at(self.now)).await;
        let Load {
            calls,
            committed_cents,
        } = load.expect("the store answers");
        (calls, committed_cents)
    }
}

fn acme(stores: &Stores, now: i64) -> Of<'_> {
    Of {
        stores,
        account: account("acme"),
        owner: FIRST,
        now,
    }
}

fn limits(concurrent_calls: u32, committed_spend_cents: u64) -> RouterLimits {
    RouterLimits {
        concurrent_calls,
        committed_spend_cents,
        ..RouterLimits::standard()
    }
}

fn too_dear(limit_cents: u64, current_cents: u64) -> Admission {
    Admission::SpendCap {
        limit_cents,
        current_cents,
    }
}

/// When what began at 0 lapses.
fn lapse() -> i64 {
    i64::try_from(LASTS.as_secs()).expect("few")
}

async fn the_count_is_judged_before_the_spend(stores: Stores) {
    stores.open_account().await;
    let (acme, limits) = (acme(&stores, 0), limits(1, 10));
    assert_eq!(acme.admit(1, 10, &limits).await, Admission::Admitted);
    let refused = Admission::TooManyCalls { limit: 1 };
    assert_eq!(acme.admit(2, 10, &limits).await, refused);
    acme.release(1).await;
    assert_eq!(acme.admit(2, 10, &limits).await, Admission::Admitted);
}

async fn a_call_dearer_than_the_cap_is_refused_even_when_idle(stores: Stores) {
    stores.open_account().await;
    let acme = acme(&stores, 0);
    for hold in [11, u64::MAX] {
        assert_eq!(acme.admit(1, hold, &limits(5, 10)).await, too_dear(10, 0));
    }
    assert_eq!(acme.load().await, (0, 0));
}

async fn the_committed_spend_excludes_the_refused_call(stores: Stores) {
    stores.open_account().await;
    let (acme, limits) = (acme(&stores, 0), limits(5, 10));
    assert_eq!(acme.admit(1, 7, &limits).await, Admission::Admitted);
    assert_eq!(acme.admit(2, 4, &limits).await, too_dear(10, 7));
    assert_eq!(acme.admit(3, 3, &limits).await, Admission::Admitted);
    // A free call needs no room under a full cap.
    assert_eq!(acme.admit(4, 0, &limits).await, Admission::Admitted);
    assert_eq!(acme.load().await, (3, 10));
}

async fn accounts_do_not_share_their_room(stores: Stores) {
    stores.open_account().await;
    stores.open("other").await;
    let (acme, limits) = (acme(&stores, 0), limits(1, 10));
    let other = Of {
        account: account("other"),
        ..acme_again(&acme)
    };
    for of in [&acme, &other] {
        let n = u128::from(of.account.as_str() == "acme");
        assert_eq!(of.admit(n, 10, &limits).await, Admission::Admitted);
    }
    acme.release(1).await;
    assert_eq!((acme.load().await, other.load().await), ((0, 0), (1, 10)));
}

fn acme_again<'a>(of: &Of<'a>) -> Of<'a> {
    Of {
        account: of.account.clone(),
        ..*of
    }
}

async fn a_call_has_one_permit(stores: Stores) {
    stores.open_account().await;
    let (acme, limits) = (acme(&stores, 0), limits(2, 10));
    for _ in 0..3 {
        let asking = acme.generation(1, 6);
        let begun = stores.admit(FIRST, None, &asking, &limits).await;
        begun.expect("it has its permit");
    }
    assert_eq!(acme.load().await, (1, 6));
    acme.release(1).await;
    acme.release(1).await;
    assert_eq!(acme.load().await, (0, 0));
}

async fn what_lapsed_counts_nowhere(stores: Stores) {
    stores.open_account().await;
    let limits = limits(2, 10);
    acme(&stores, 0).admit(1, 6, &limits).await;
    acme(&stores, 1).admit(2, 4, &limits).await;
    let before = acme(&stores, lapse() - 1);
    let refused = Admission::TooManyCalls { limit: 2 };
    assert_eq!(before.admit(3, 1, &limits).await, refused);
    let after = acme(&stores, lapse());
    assert_eq!(after.load().await, (1, 4));
    assert!(!after.has(1).await);
    assert_eq!(after.admit(3, 6, &limits).await, Admission::Admitted);
    // The late call asks again, and is judged as another one.
    assert_eq!(after.admit(1, 6, &limits).await, refused);
    assert_eq!(after.load().await, (2, 10));
}

async fn a_renewed_permit_stays(stores: Stores) {
    stores.open_account().await;
    let limits = limits(1, 10);
    acme(&stores, 0).admit(1, 6, &limits).await;
    let renewed = acme(&stores, lapse() - 1);
    assert!(renewed.has(1).await && !renewed.has(2).await);
    let later = acme(&stores, 2 * lapse() - 2);
    assert_eq!(later.load().await, (1, 6));
    assert_eq!(acme(&stores, 2 * lapse() - 1).load().await, (0, 0));
}

async fn a_permit_is_released_by_its_owner_alone(stores: Stores) {
    stores.open_account().await;
    let limits = limits(1, 10);
    let first = acme(&stores, 0);
    let second = Of {
        owner: SECOND,
        ..acme_again(&first)
    };
    first.admit(1, 6, &limits).await;
    second.release(1).await;
    assert!(!second.has(1).await);
    assert_eq!(first.load().await, (1, 6));
    // Who takes the call over takes its permit.
    let taken = stores
        .quota
        .resume(second.permit(1, 6), lease(SECOND), at(0));
    taken.await.expect("the store answers");
    first.release(1).await;
    assert_eq!(first.load().await, (1, 6));
    second.release(1).await;
    assert_eq!(first.load().await, (0, 0));
}

async fn what_runs_goes_on_whatever_the_limits_are(stores: Stores) {
    stores.open_account().await;
    let acme = acme(&stores, 0);
    for n in 1..=3 {
        let resumed = stores
            .quota
            .resume(acme.permit(n, 9), lease(FIRST), at(0))
            .await;
        resumed.expect("the store answers");
    }
    assert_eq!(acme.load().await, (3, 27));
    let refused = acme.admit(4, 0, &limits(3, 10)).await;
    assert_eq!(refused, Admission::TooManyCalls { limit: 3 });
    assert_eq!(acme.admit(4, 0, &limits(4, 10)).await, too_dear(10, 27));
}

async fn at_once_no_more_are_admitted_than_have_room(stores: Stores) {
    stores.open_account().await;
    let (acme, limits) = (acme(&stores, 0), limits(7, 50));
    let admitted = join_all((0..64).map(|n| acme.admit(n, 9, &limits))).await;
    let admitted = admitted.iter().filter(|one| **one == Admission::Admitted);
    assert_eq!((admitted.count(), acme.load().await), (5, (5, 45)));
}

async fn a_window_counts_to_its_quota_and_tells_when_it_ends(stores: Stores) {
    stores.open_account().await;
    let acme = account("acme");
    let windows = RateWindow::read_list("2/1m,3/1h").expect("windows");
    let count = async |now: i64| {
        let now = jiff::Timestamp::from_second(now).expect("in range");
        let counted = stores.quota.count(&acme, &windows, now).await;
        let counted = counted.expect("the store answers");
        counted.map_err(|used_up| (used_up.quota, used_up.retry_after.as_secs()))
    };
    assert_eq!(count(3_600).await, Ok(()));
    assert_eq!(count(3_605).await, Ok(()));
    // The same on every replica: the windows follow each other from the beginning of time.
    assert_eq!(count(3_610).await, Err((2, 50)));
    assert_eq!(count(3_660).await, Ok(()));
    // Of those that are used up, the one that ends last.
    assert_eq!(count(3_661).await, Err((3, 3_539)));
    assert_eq!(count(7_200).await, Ok(()));
}

async fn at_once_no_more_are_counted_than_a_window_takes(stores: Stores) {
    stores.open_account().await;
    let acme = account("acme");
    let windows = RateWindow::read_list("10/1m").expect("windows");
    let counts = (0..64).map(|_| stores.quota.count(&acme, &windows, at(0)));
    let counted = join_all(counts).await.into_iter();
    let counted = counted.filter(|one| matches!(one, Ok(Ok(()))));
    assert_eq!(counted.count(), 10);
}
