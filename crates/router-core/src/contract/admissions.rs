//! How calls are admitted and ended.

use accounts::{
    AccountChange, BudgetScope, BudgetWindow, Label, Labels, LedgerRef, Payer, RouterLimits,
};
use futures_util::future::join_all;
use uuid::Uuid;

use super::{
    Bucket, Claimed, Ending, FIRST, OwnerId, Rule, SECOND, Settled, Stores, account, answered, at,
    claim, generation, id, lease,
};
use crate::{CallAdmission, CallEnd, Generation, KeyDigest, Permit, RouterError};

pub(super) const RULES: [Rule; 7] = [
    |stores| Box::pin(an_admitted_call_has_its_hold_its_permit_and_its_row(stores)),
    |stores| Box::pin(the_first_refusal_is_the_answer_and_takes_nothing(stores)),
    |stores| Box::pin(budgets_of_labels_are_judged_before_the_room(stores)),
    |stores| Box::pin(a_call_that_lost_its_key_is_not_admitted(stores)),
    |stores| Box::pin(a_call_that_is_admitted_twice_counts_once(stores)),
    |stores| Box::pin(an_end_releases_the_permit_if_it_is_its_owners(stores)),
    |stores| {
        Box::pin(at_once_no_more_are_admitted_than_have_room_and_credits(
            stores,
        ))
    },
];

/// All come in the same second, so that nothing lapses meanwhile.
fn call(n: u128, cents: u64) -> Generation {
    Generation {
        dispatched_at: at(1),
        ..generation(n, cents)
    }
}

fn limits(calls: u32, cents: u64) -> RouterLimits {
    RouterLimits {
        concurrent_calls: calls,
        committed_spend_cents: cents,
        ..RouterLimits::standard()
    }
}

impl Stores {
    /// Opens the account, which pays for what it calls, and has so much.
    async fn open_with(&self, cents: i32) {
        self.open_account().await;
        self.change(AccountChange::Billed(true)).await;
        let grant = LedgerRef::Grant(Uuid::from_u128(1));
        let acme = account("acme");
        let granted = self.admin.grant(&acme, grant, cents, at(0)).await;
        granted.expect("the account is there");
    }

    async fn change(&self, change: AccountChange) {
        let changed = self.admin.change(&account("acme"), vec![change]).await;
        changed.expect("the account is there");
    }

    async fn begin(
        &self,
        generation: &Generation,
        scopes: &[BudgetScope],
        limits: &RouterLimits,
        key: Option<u8>,
    ) -> Result<(), RouterError> {
        let admission = CallAdmission {
            payer: Payer {
                account: &generation.account,
                scopes,
            },
            limits,
            generation,
            key: key.map(|key| KeyDigest([key; 32])),
            lease: lease(FIRST),
        };
        self.admissions.admit(admission).await
    }

    /// Begins the generation `n` that costs so much; one that is refused gives back what it may have taken.
    async fn enter(&self, n: u128, cents: u64, limits: &RouterLimits) -> Result<(), RouterError> {
        let begun = self.begin(&call(n, cents), &[], limits, None).await;
        if begun.is_err() {
            self.give_back(n).await;
        }
        begun
    }

    async fn give_back(&self, n: u128) {
        let acme = account("acme");
        let cause = LedgerRef::Generation(id(n).0);
        let released = self.accounts.release(&acme, cause).await;
        released.expect("the store answers");
        let permit = Permit {
            account: &acme,
            generation: id(n),
            hold_cents: 0,
        };
        let released = self.quota.release(permit, FIRST).await;
        released.expect("the store answers");
    }

    async fn end(&self, owner: OwnerId, n: u128, ending: Ending) -> Settled {
        let call = CallEnd {
            permit: Permit {
                account: &account("acme"),
                generation: id(n),
                hold_cents: 0,
            },
            owner,
            ending,
            task_id: Some("task"),
            now: at(60),
        };
        let ended = self.admissions.end(call).await;
        ended.expect("the store answers")
    }

    /// Cents that are held, calls and cents in flight, and what runs.
    async fn standing(&self) -> (u64, (u32, u64), Vec<Generation>) {
        let load = self.quota.load(&account("acme"), at(0)).await;
        let load = load.expect("the store answers");
        let unfinished = self.usage.unfinished().await.expect("the store answers");
        let running = unfinished.into_iter().map(|one| one.generation);
        let mut running: Vec<Generation> = running.collect();
        running.sort_by_key(|one| one.id);
        let held = self.credits().await.held_cents;
        (held, (load.calls, load.committed_cents), running)
    }
}

async fn an_admitted_call_has_its_hold_its_permit_and_its_row(stores: Stores) {
    stores.open_with(100).await;
    assert_eq!(stores.claim(claim(1, 1), 0).await, Claimed::Fresh);
    let label: Label = "team=blue".parse().expect("a label");
    let keyed = Generation {
        labels: Labels::new(vec![label]).expect("one label"),
        serving: Some(Box::new(super::serving::serving("fal/flux-2", 30))),
        ..call(1, 30)
    };
    let limits = limits(2, 50);
    let begun = stores.begin(&keyed, &[], &limits, Some(1)).await;
    begun.expect("there is room");
    stores.enter(2, 20, &limits).await.expect("there is room");
    let running = vec![keyed, call(2, 20)];
    assert_eq!(stores.standing().await, (50, (2, 50), running));
    assert_eq!(stores.claim(claim(1, 3), 0).await, Claimed::PickUp(id(1)));
    let settled = stores.settle(1, answered(b"{}", 25)).await;
    assert_eq!(settled, Settled::Now);
    let credits = stores.credits().await;
    assert_eq!((credits.balance_cents, credits.held_cents), (75, 20));
}

async fn the_first_refusal_is_the_answer_and_takes_nothing(stores: Stores) {
    stores.open_with(100).await;
    let (one, two) = (limits(1, 50), limits(2, 50));
    let poor = stores.enter(1, 101, &one).await;
    assert!(matches!(poor, Err(RouterError::InsufficientCredits)));
    stores.enter(2, 40, &one).await.expect("there is room");
    let poor = stores.enter(3, 61, &one).await;
    assert!(matches!(poor, Err(RouterError::InsufficientCredits)));
    let crowded = stores.enter(4, 60, &one).await;
    assert!(matches!(
        crowded,
        Err(RouterError::TooManyCalls { limit: 1 })
    ));
    let dear = stores.enter(5, 11, &two).await;
    let Err(RouterError::SpendCap {
        hold_cents,
        limit_cents,
        current_cents,
    }) = dear
    else {
        panic!("{dear:?}");
    };
    assert_eq!((hold_cents, limit_cents, current_cents), (11, 50, 40));
    let standing = (40, (1, 40), vec![call(2, 40)]);
    assert_eq!(stores.standing().await, standing);
    // Nobody else's is given back with it.
    stores.enter(6, 10, &two).await.expect("there is room");
    let nobody = Generation {
        account: account("nobody"),
        ..call(7, 1)
    };
    let poor = stores.begin(&nobody, &[], &two, None).await;
    assert!(matches!(poor, Err(RouterError::InsufficientCredits)));
}

async fn budgets_of_labels_are_judged_before_the_room(stores: Stores) {
    stores.open_with(1_000).await;
    let blue: BudgetScope = "label:team=blue".parse().expect("a scope");
    let budgets = "50/day".parse().expect("budgets");
    let scoped = vec![(blue.clone(), budgets)];
    stores.change(AccountChange::ScopedBudgets(scoped)).await;
    let (limits, blue) = (limits(1, 1_000), [blue]);
    let begun = stores.begin(&call(1, 30), &blue, &limits, None).await;
    begun.expect("there is room");
    let over = stores.begin(&call(2, 21), &blue, &limits, None).await;
    let Err(RouterError::OverBudget(over)) = over else {
        panic!("{over:?}");
    };
    assert_eq!(over.left.window, BudgetWindow::Day);
    let crowded = stores.begin(&call(3, 20), &blue, &limits, None).await;
    assert!(matches!(crowded, Err(RouterError::TooManyCalls { .. })));
    stores.give_back(3).await;
    // The bill counts in the same budget.
    assert_eq!(stores.settle(1, answered(b"{}", 40)).await, Settled::Now);
    stores.give_back(1).await;
    let over = stores.begin(&call(4, 11), &blue, &limits, None).await;
    assert!(matches!(over, Err(RouterError::OverBudget(_))), "{over:?}");
    let begun = stores.begin(&call(5, 10), &blue, &limits, None).await;
    begun.expect("there is room");
}

async fn a_call_that_lost_its_key_is_not_admitted(stores: Stores) {
    stores.open_with(100).await;
    let limits = limits(2, 100);
    assert_eq!(stores.claim(claim(1, 1), 0).await, Claimed::Fresh);
    // The claim lapsed.
    assert_eq!(stores.claim(claim(1, 2), 30).await, Claimed::Fresh);
    let late = stores.begin(&call(1, 30), &[], &limits, Some(1)).await;
    assert!(
        matches!(late, Err(RouterError::InFlight { .. })),
        "{late:?}"
    );
    stores.give_back(1).await;
    assert_eq!(stores.standing().await, (0, (0, 0), vec![]));
    let begun = stores.begin(&call(2, 30), &[], &limits, Some(1)).await;
    begun.expect("the key is its own");
    let standing = (30, (1, 30), vec![call(2, 30)]);
    assert_eq!(stores.standing().await, standing);
}

async fn a_call_that_is_admitted_twice_counts_once(stores: Stores) {
    stores.open_with(30).await;
    let limits = limits(1, 30);
    for _ in 0..2 {
        stores.enter(1, 30, &limits).await.expect("there is room");
    }
    let standing = (30, (1, 30), vec![call(1, 30)]);
    assert_eq!(stores.standing().await, standing);
}

async fn an_end_releases_the_permit_if_it_is_its_owners(stores: Stores) {
    stores.open_with(100).await;
    let limits = limits(3, 100);
    for n in 1..=3 {
        stores.enter(n, 20, &limits).await.expect("there is room");
    }
    let taken = stores.end(SECOND, 1, answered(b"{}", 9)).await;
    assert_eq!(taken, Settled::Before);
    assert_eq!(stores.standing().await.1, (3, 60));
    let ended = stores.end(FIRST, 1, answered(b"{}", 15)).await;
    assert_eq!(ended, Settled::Now);
    let released = Ending::Released(Bucket::ServiceUnavailable);
    assert_eq!(stores.end(FIRST, 2, released).await, Settled::Now);
    stores.give_back(2).await;
    let standing = (20, (1, 20), vec![call(3, 20)]);
    assert_eq!(stores.standing().await, standing);
    assert_eq!(stores.credits().await.balance_cents, 85);
    // Of what has ended before, no more than the room is left.
    let acme = account("acme");
    let permit = Permit {
        account: &acme,
        generation: id(1),
        hold_cents: 20,
    };
    let resumed = stores.quota.resume(permit, lease(FIRST), at(1));
    resumed.await.expect("the store answers");
    assert_eq!(stores.standing().await.1, (2, 40));
    let again = stores.end(FIRST, 1, answered(b"{}", 99)).await;
    assert_eq!(again, Settled::Before);
    assert_eq!(stores.standing().await, standing);
    assert_eq!(stores.credits().await.balance_cents, 85);
}

async fn at_once_no_more_are_admitted_than_have_room_and_credits(stores: Stores) {
    /// Calls that come at once.
    const MANY: u128 = 32;
    stores.open_with(70).await;
    // Room for five in cents, for six in calls, and credits for seven.
    let limits = limits(6, 50);
    let tries = (1..=MANY).map(|n| {
        let (stores, limits) = (stores.clone(), limits.clone());
        async move { stores.enter(n, 10, &limits).await.is_ok() }
    });
    let admitted = join_all(tries).await;
    let admitted = admitted.into_iter().filter(|is_in| *is_in).count();
    assert!((1..=5).contains(&admitted), "{admitted}");
    let (held, load, running) = stores.standing().await;
    let cents = 10 * admitted as u64;
    assert_eq!(
        (held, u64::from(load.0), load.1),
        (cents, admitted as u64, cents)
    );
    assert_eq!(running.len(), admitted);
    // Whatever the others held for a moment, there is room and there are credits for the rest.
    for n in (MANY + 1..).take(5 - admitted) {
        stores.enter(n, 10, &limits).await.expect("there is room");
    }
    let full = stores.enter(100, 10, &limits).await;
    assert!(
        matches!(full, Err(RouterError::SpendCap { .. })),
        "{full:?}"
    );
}
