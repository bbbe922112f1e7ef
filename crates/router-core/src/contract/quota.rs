//! What every store of quotas must do.

use std::sync::Arc;

use accounts::{AccountId, RateWindow, RouterLimits};
use futures_util::future::join_all;

use super::{FIRST, LASTS, SECOND, account, at, id, lease};
use crate::{Admission, Load, OwnerId, Permit, Quota};

/// Runs every rule on a fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn quota(fresh: impl Fn() -> Arc<dyn Quota>) {
    the_count_is_judged_before_the_spend(&*fresh()).await;
    a_call_dearer_than_the_cap_is_refused_even_when_idle(&*fresh()).await;
    the_committed_spend_excludes_the_refused_call(&*fresh()).await;
    accounts_do_not_share_their_room(&*fresh()).await;
    a_call_has_one_permit(&*fresh()).await;
    what_lapsed_counts_nowhere(&*fresh()).await;
    a_renewed_permit_stays(&*fresh()).await;
    a_permit_is_released_by_its_owner_alone(&*fresh()).await;
    what_runs_goes_on_whatever_the_limits_are(&*fresh()).await;
    at_once_no_more_are_admitted_than_have_room(&*fresh()).await;
    a_window_counts_to_its_quota_and_tells_when_it_ends(&*fresh()).await;
    at_once_no_more_are_counted_than_a_window_takes(&*fresh()).await;
}

/// One account's side of a store, at a time.
struct Of<'a> {
    quota: &'a dyn Quota,
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

    async fn admit(&self, n: u128, hold_cents: u64, limits: &RouterLimits) -> Admission {
        let (permit, lease) = (self.permit(n, hold_cents), lease(self.owner));
        let admission = self.quota.admit(permit, limits, lease, at(self.now)).await;
        admission.expect("the store answers")
    }

    async fn has(&self, n: u128) -> bool {
        let permits = [self.permit(n, 0)];
        let lost = self.quota.renew(&permits, lease(self.owner), at(self.now));
        lost.await.expect("the store answers").is_empty()
    }

    async fn release(&self, n: u128) {
        let released = self.quota.release(self.permit(n, 0), self.owner).await;
        released.expect("the store answers");
    }

    async fn load(&self) -> (u32, u64) {
        let load = self.quota.load(&self.account, at(self.now)).await;
        let Load {
            calls,
            committed_cents,
        } = load.expect("the store answers");
        (calls, committed_cents)
    }
}

fn acme(quota: &dyn Quota, now: i64) -> Of<'_> {
    Of {
        quota,
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

async fn the_count_is_judged_before_the_spend(quota: &dyn Quota) {
    let (acme, limits) = (acme(quota, 0), limits(1, 10));
    assert_eq!(acme.admit(1, 10, &limits).await, Admission::Admitted);
    let refused = Admission::TooManyCalls { limit: 1 };
    assert_eq!(acme.admit(2, 10, &limits).await, refused);
    acme.release(1).await;
    assert_eq!(acme.admit(2, 10, &limits).await, Admission::Admitted);
}

async fn a_call_dearer_than_the_cap_is_refused_even_when_idle(quota: &dyn Quota) {
    let acme = acme(quota, 0);
    for hold in [11, u64::MAX] {
        assert_eq!(acme.admit(1, hold, &limits(5, 10)).await, too_dear(10, 0));
    }
    assert_eq!(acme.load().await, (0, 0));
}

async fn the_committed_spend_excludes_the_refused_call(quota: &dyn Quota) {
    let (acme, limits) = (acme(quota, 0), limits(5, 10));
    assert_eq!(acme.admit(1, 7, &limits).await, Admission::Admitted);
    assert_eq!(acme.admit(2, 4, &limits).await, too_dear(10, 7));
    assert_eq!(acme.admit(3, 3, &limits).await, Admission::Admitted);
    // A free call needs no room under a full cap.
    assert_eq!(acme.admit(4, 0, &limits).await, Admission::Admitted);
    assert_eq!(acme.load().await, (3, 10));
}

async fn accounts_do_not_share_their_room(quota: &dyn Quota) {
    let (acme, limits) = (acme(quota, 0), limits(1, 10));
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

async fn a_call_has_one_permit(quota: &dyn Quota) {
    let (acme, limits) = (acme(quota, 0), limits(2, 10));
    for _ in 0..3 {
        assert_eq!(acme.admit(1, 6, &limits).await, Admission::Admitted);
    }
    assert_eq!(acme.load().await, (1, 6));
    acme.release(1).await;
    acme.release(1).await;
    assert_eq!(acme.load().await, (0, 0));
}

async fn what_lapsed_counts_nowhere(quota: &dyn Quota) {
    let limits = limits(2, 10);
    acme(quota, 0).admit(1, 6, &limits).await;
    acme(quota, 1).admit(2, 4, &limits).await;
    let before = acme(quota, lapse() - 1);
    let refused = Admission::TooManyCalls { limit: 2 };
    assert_eq!(before.admit(3, 1, &limits).await, refused);
    let after = acme(quota, lapse());
    assert_eq!(after.load().await, (1, 4));
    assert!(!after.has(1).await);
    assert_eq!(after.admit(3, 6, &limits).await, Admission::Admitted);
    // The late call asks again, and is judged as another one.
    assert_eq!(after.admit(1, 6, &limits).await, refused);
    assert_eq!(after.load().await, (2, 10));
}

async fn a_renewed_permit_stays(quota: &dyn Quota) {
    let limits = limits(1, 10);
    acme(quota, 0).admit(1, 6, &limits).await;
    let renewed = acme(quota, lapse() - 1);
    assert!(renewed.has(1).await && !renewed.has(2).await);
    let later = acme(quota, 2 * lapse() - 2);
    assert_eq!(later.load().await, (1, 6));
    assert_eq!(acme(quota, 2 * lapse() - 1).load().await, (0, 0));
}

async fn a_permit_is_released_by_its_owner_alone(quota: &dyn Quota) {
    let limits = limits(1, 10);
    let first = acme(quota, 0);
    let second = Of {
        owner: SECOND,
        ..acme_again(&first)
    };
    first.admit(1, 6, &limits).await;
    second.release(1).await;
    assert!(!second.has(1).await);
    assert_eq!(first.load().await, (1, 6));
    // Who takes the call over takes its permit.
    let taken = quota.resume(second.permit(1, 6), lease(SECOND), at(0));
    taken.await.expect("the store answers");
    first.release(1).await;
    assert_eq!(first.load().await, (1, 6));
    second.release(1).await;
    assert_eq!(first.load().await, (0, 0));
}

async fn what_runs_goes_on_whatever_the_limits_are(quota: &dyn Quota) {
    let acme = acme(quota, 0);
    for n in 1..=3 {
        let resumed = quota.resume(acme.permit(n, 9), lease(FIRST), at(0)).await;
        resumed.expect("the store answers");
    }
    assert_eq!(acme.load().await, (3, 27));
    let refused = acme.admit(4, 0, &limits(3, 10)).await;
    assert_eq!(refused, Admission::TooManyCalls { limit: 3 });
    assert_eq!(acme.admit(4, 0, &limits(4, 10)).await, too_dear(10, 27));
}

async fn at_once_no_more_are_admitted_than_have_room(quota: &dyn Quota) {
    let (acme, limits) = (acme(quota, 0), limits(7, 50));
    let admitted = join_all((0..64).map(|n| acme.admit(n, 9, &limits))).await;
    let admitted = admitted.iter().filter(|one| **one == Admission::Admitted);
    assert_eq!((admitted.count(), acme.load().await), (5, (5, 45)));
}

async fn a_window_counts_to_its_quota_and_tells_when_it_ends(quota: &dyn Quota) {
    let acme = account("acme");
    let windows = RateWindow::read_list("2/1m,3/1h").expect("windows");
    let count = async |now: i64| {
        let now = jiff::Timestamp::from_second(now).expect("in range");
        let counted = quota.count(&acme, &windows, now).await;
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

async fn at_once_no_more_are_counted_than_a_window_takes(quota: &dyn Quota) {
    let acme = account("acme");
    let windows = RateWindow::read_list("10/1m").expect("windows");
    let counts = (0..64).map(|_| quota.count(&acme, &windows, at(0)));
    let counted = join_all(counts).await.into_iter();
    let counted = counted.filter(|one| matches!(one, Ok(Ok(()))));
    assert_eq!(counted.count(), 10);
}
