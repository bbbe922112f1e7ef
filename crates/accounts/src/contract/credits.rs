//! The rules of credits: what is held, billed and granted.

use std::time::Duration;

use futures_util::future::join_all;
use uuid::Uuid;

use super::{AccountChange, AccountState, Dice, Ports, account, at, change, id};
use crate::{AccountId, Credits, LedgerEntry, LedgerRef, Reservation};

pub(super) async fn rules(fresh: &impl Fn() -> Ports) {
    grants_add_up_and_a_repeated_one_does_not(&fresh()).await;
    holds_never_exceed_the_balance_when_billing_is_on(&fresh()).await;
    without_billing_anything_is_held(&fresh()).await;
    a_charge_may_differ_from_its_hold(&fresh()).await;
    a_cause_is_billed_once(&fresh()).await;
    what_is_released_can_be_held_again(&fresh()).await;
    credits_are_those_of_one_account(&fresh()).await;
    a_suspended_account_settles_what_it_has_under_way(&fresh()).await;
    a_hold_that_lapsed_frees_its_cents(&fresh()).await;
    a_renewed_hold_stays(&fresh()).await;
    what_lapsed_is_billed_all_the_same(&fresh()).await;
    what_happens_at_once_happens_once(&fresh()).await;
    a_repeated_grant_answers_its_first_entry(&fresh()).await;
    the_balance_is_the_sum_of_the_ledger(&fresh()).await;
}

/// How long holds of the suites last.
const LASTS: Duration = Duration::from_secs(30);

fn generation(number: u64) -> LedgerRef {
    LedgerRef::Generation(Uuid::from_u128(u128::from(number)))
}

/// An account with billing on and credits granted.
async fn billed(store: &Ports, name: &str, cents: i32) -> AccountId {
    let id = account(store, name).await;
    change(store, &id, &[AccountChange::Billed(true)]).await;
    if cents != 0 {
        grant(store, &id, u64::MAX, cents).await;
    }
    id
}

async fn grant(store: &Ports, id: &AccountId, number: u64, cents: i32) -> Credits {
    let cause = LedgerRef::Grant(Uuid::from_u128(u128::from(number)));
    let granted = store.admin.grant(id, cause, cents, at(0)).await;
    granted.expect("the account is there").credits
}

async fn a_repeated_grant_answers_its_first_entry(store: &Ports) {
    let acme = account(store, "acme").await;
    let cause = LedgerRef::Grant(Uuid::from_u128(1));
    let granted = async |cents, seconds| {
        let granted = store.admin.grant(&acme, cause, cents, at(seconds)).await;
        granted.expect("the account is there")
    };
    let first = granted(500, 0).await;
    assert_eq!((first.entry.cause, first.entry.amount_cents), (cause, 500));
    let again = granted(700, 9).await;
    assert_eq!(again.entry, first.entry, "another amount changes nothing");
    assert_eq!(again.credits.balance_cents, 500);
}

async fn reserve(store: &Ports, id: &AccountId, number: u64, cents: u32) -> Reservation {
    reserve_at(store, id, (number, cents), 0).await
}

/// A hold of [`LASTS`].
async fn reserve_at(
    store: &Ports,
    id: &AccountId,
    (number, cents): (u64, u32),
    now: i64,
) -> Reservation {
    let cause = generation(number);
    let answer = store
        .accounts
        .reserve(id.into(), cause, cents, LASTS, at(now));
    answer.await.expect("the store answers")
}

/// Which of these holds are there to be renewed.
async fn renewed(store: &Ports, id: &AccountId, numbers: &[u64], now: i64) -> Vec<u64> {
    let holds: Vec<_> = numbers
        .iter()
        .map(|number| (id, generation(*number)))
        .collect();
    let gone = store.accounts.renew(&holds, LASTS, at(now)).await;
    let gone = gone.expect("the store answers");
    let there = numbers.iter().enumerate();
    let there = there.filter(|(position, _)| !gone.contains(position));
    there.map(|(_, number)| *number).collect()
}

async fn settle(store: &Ports, id: &AccountId, number: u64, cents: u32) -> LedgerEntry {
    let settled = store.accounts.settle(id, generation(number), cents, at(1));
    settled.await.expect("the account is there")
}

async fn release(store: &Ports, id: &AccountId, number: u64) {
    let released = store.accounts.release(id, generation(number)).await;
    released.expect("the store answers");
}

/// Balance and holds.
async fn credits(store: &Ports, id: &AccountId) -> (i64, u64) {
    credits_at(store, id, 1).await
}

async fn credits_at(store: &Ports, id: &AccountId, now: i64) -> (i64, u64) {
    let credits = store.accounts.credits(id, at(now)).await;
    let credits = credits.expect("the store answers");
    (credits.balance_cents, credits.held_cents)
}

/// The whole ledger, the oldest entry first, read page by page.
async fn ledger(store: &Ports, id: &AccountId) -> Vec<LedgerEntry> {
    let (mut entries, mut before) = (Vec::new(), None);
    loop {
        let page = store.accounts.entries(id, before, 3).await;
        let page = page.expect("the store answers");
        let Some(last) = page.last() else { break };
        before = Some(last.seq);
        entries.extend(page);
    }
    entries.reverse();
    assert!(entries.is_sorted_by(|a, b| a.seq < b.seq), "{entries:?}");
    entries
}

async fn grants_add_up_and_a_repeated_one_does_not(store: &Ports) {
    let acme = account(store, "acme").await;
    assert_eq!(grant(store, &acme, 1, 500).await.balance_cents, 500);
    assert_eq!(grant(store, &acme, 2, -200).await.balance_cents, 300);
    assert_eq!(grant(store, &acme, 1, 900).await.balance_cents, 300);
    assert_eq!(ledger(store, &acme).await.len(), 2);
}

async fn holds_never_exceed_the_balance_when_billing_is_on(store: &Ports) {
    let acme = billed(store, "acme", 100).await;
    assert_eq!(reserve(store, &acme, 1, 60).await, Reservation::Held);
    let refused = Reservation::Insufficient {
        available_cents: 40,
    };
    assert_eq!(reserve(store, &acme, 2, 41).await, refused);
    assert_eq!(reserve(store, &acme, 2, 40).await, Reservation::Held);
    assert_eq!(credits(store, &acme).await, (100, 100));
    assert_eq!(
        reserve(store, &acme, 1, 90).await,
        Reservation::Held,
        "a repeat"
    );
    assert_eq!(credits(store, &acme).await, (100, 100));
}

async fn without_billing_anything_is_held(store: &Ports) {
    let acme = account(store, "acme").await;
    assert_eq!(reserve(store, &acme, 1, u32::MAX).await, Reservation::Held);
    settle(store, &acme, 1, 30).await;
    assert_eq!(credits(store, &acme).await, (-30, 0));
    change(store, &acme, &[AccountChange::Billed(true)]).await;
    let refused = Reservation::Insufficient {
        available_cents: -30,
    };
    assert_eq!(
        reserve(store, &acme, 2, 0).await,
        refused,
        "billing counts at once"
    );
}

async fn a_charge_may_differ_from_its_hold(store: &Ports) {
    let acme = billed(store, "acme", 100).await;
    reserve(store, &acme, 1, 50).await;
    assert_eq!(settle(store, &acme, 1, 20).await.amount_cents, -20);
    assert_eq!(credits(store, &acme).await, (80, 0));
    reserve(store, &acme, 2, 50).await;
    settle(store, &acme, 2, 95).await;
    assert_eq!(credits(store, &acme).await, (-15, 0));
    settle(store, &acme, 3, 5).await;
    assert_eq!(
        credits(store, &acme).await,
        (-20, 0),
        "settled without a hold"
    );
}

async fn a_cause_is_billed_once(store: &Ports) {
    let acme = billed(store, "acme", 100).await;
    reserve(store, &acme, 1, 50).await;
    let first = settle(store, &acme, 1, 20).await;
    assert_eq!(settle(store, &acme, 1, 70).await, first);
    release(store, &acme, 1).await;
    assert_eq!(credits(store, &acme).await, (80, 0));
    // Held again, as by a process that does not know how far the one before it came.
    assert_eq!(reserve(store, &acme, 1, 50).await, Reservation::Held);
    assert_eq!(settle(store, &acme, 1, 50).await, first);
    assert_eq!(credits(store, &acme).await, (80, 0));
    let causes: Vec<LedgerRef> = ledger(store, &acme)
        .await
        .iter()
        .map(|entry| entry.cause)
        .collect();
    assert_eq!(causes.len(), 2, "{causes:?}");
}

async fn what_is_released_can_be_held_again(store: &Ports) {
    let acme = billed(store, "acme", 100).await;
    reserve(store, &acme, 1, 100).await;
    release(store, &acme, 1).await;
    release(store, &acme, 1).await;
    assert_eq!(credits(store, &acme).await, (100, 0));
    assert_eq!(reserve(store, &acme, 2, 100).await, Reservation::Held);
    release(store, &acme, 3).await;
    assert_eq!(
        credits(store, &acme).await,
        (100, 100),
        "what was never held"
    );
}

async fn credits_are_those_of_one_account(store: &Ports) {
    let acme = billed(store, "acme", 100).await;
    let other = billed(store, "other", 0).await;
    reserve(store, &acme, 1, 10).await;
    settle(store, &acme, 1, 10).await;
    release(store, &other, 1).await;
    assert_eq!(credits(store, &other).await, (0, 0));
    assert_eq!(ledger(store, &other).await, []);
    assert_eq!(ledger(store, &acme).await.len(), 2);

    let nobody = id("nobody");
    assert_eq!(credits(store, &nobody).await, (0, 0));
    let refused = Reservation::Insufficient { available_cents: 0 };
    assert_eq!(reserve(store, &nobody, 1, 0).await, refused);
    let settled = store
        .accounts
        .settle(&nobody, generation(2), 1, at(0))
        .await;
    assert!(settled.is_err(), "{settled:?}");
    release(store, &nobody, 1).await;
}

async fn a_suspended_account_settles_what_it_has_under_way(store: &Ports) {
    let acme = billed(store, "acme", 100).await;
    reserve(store, &acme, 1, 10).await;
    change(
        store,
        &acme,
        &[AccountChange::State(AccountState::Suspended)],
    )
    .await;
    settle(store, &acme, 1, 10).await;
    assert_eq!(credits(store, &acme).await, (90, 0));
}

async fn a_hold_that_lapsed_frees_its_cents(store: &Ports) {
    let acme = billed(store, "acme", 100).await;
    assert_eq!(
        reserve_at(store, &acme, (1, 60), 0).await,
        Reservation::Held
    );
    assert_eq!(
        reserve_at(store, &acme, (2, 40), 5).await,
        Reservation::Held
    );
    let refused = Reservation::Insufficient { available_cents: 0 };
    assert_eq!(reserve_at(store, &acme, (3, 1), 29).await, refused);
    assert_eq!(credits_at(store, &acme, 29).await, (100, 100));
    assert_eq!(credits_at(store, &acme, 30).await, (100, 40));
    let refused = Reservation::Insufficient {
        available_cents: 60,
    };
    assert_eq!(reserve_at(store, &acme, (3, 61), 30).await, refused);
    assert_eq!(
        reserve_at(store, &acme, (3, 60), 30).await,
        Reservation::Held
    );
    // The late one is judged as another.
    let refused = Reservation::Insufficient { available_cents: 0 };
    assert_eq!(reserve_at(store, &acme, (1, 60), 31).await, refused);
    assert_eq!(
        reserve_at(store, &acme, (1, 50), 60).await,
        Reservation::Held
    );
    assert_eq!(credits_at(store, &acme, 60).await, (100, 50));
}

async fn a_renewed_hold_stays(store: &Ports) {
    let acme = billed(store, "acme", 100).await;
    for number in [1, 2, 3] {
        reserve_at(store, &acme, (number, 10), 0).await;
    }
    settle(store, &acme, 3, 10).await;
    assert_eq!(renewed(store, &acme, &[3, 1, 4], 29).await, [1]);
    // Another reservation is a renewal, whatever it asks for.
    assert_eq!(
        reserve_at(store, &acme, (2, 90), 29).await,
        Reservation::Held
    );
    assert_eq!(credits_at(store, &acme, 58).await, (90, 20));
    assert_eq!(renewed(store, &acme, &[1], 58).await, [1]);
    assert_eq!(credits_at(store, &acme, 59).await, (90, 10));
    assert_eq!(renewed(store, &acme, &[1, 2], 59).await, [1]);
    let nobody = id("nobody");
    assert_eq!(renewed(store, &nobody, &[1], 59).await, []);
}

async fn what_lapsed_is_billed_all_the_same(store: &Ports) {
    let acme = billed(store, "acme", 100).await;
    reserve_at(store, &acme, (1, 60), 0).await;
    assert_eq!(
        reserve_at(store, &acme, (2, 100), 30).await,
        Reservation::Held
    );
    let late = store.accounts.settle(&acme, generation(1), 60, at(31));
    assert_eq!(late.await.expect("it is there").amount_cents, -60);
    assert_eq!(credits_at(store, &acme, 31).await, (40, 100));
    release(store, &acme, 1).await;
    assert_eq!(credits_at(store, &acme, 31).await, (40, 100));
}

async fn what_happens_at_once_happens_once(store: &Ports) {
    let acme = billed(store, "acme", 100).await;
    let tries = (1..=30).map(|number| reserve(store, &acme, number, 10));
    let answers = join_all(tries).await.into_iter().zip(1..);
    let held = answers.filter(|(answer, _)| *answer == Reservation::Held);
    // Any ten of them.
    let held: Vec<u64> = held.map(|(_, number)| number).collect();
    assert_eq!(held.len(), 10);
    assert_eq!(credits(store, &acme).await, (100, 100));
    let charges = (0..60).map(|number| settle(store, &acme, held[number % 10], 10));
    join_all(charges).await;
    assert_eq!(credits(store, &acme).await, (0, 0));
    assert_eq!(ledger(store, &acme).await.len(), 11);
}

/// A long walk of everything that can happen, beside the simplest model of it.
async fn the_balance_is_the_sum_of_the_ledger(store: &Ports) {
    let acme = billed(store, "acme", 0).await;
    let mut dice = Dice::new(7);
    let (mut posted, mut holds) = (
        std::collections::HashMap::new(),
        std::collections::HashMap::new(),
    );
    for step in 0..300 {
        let (number, cents) = (dice.roll(40) as u64, dice.roll(200) as u32);
        match dice.roll(4) {
            0 => {
                let granted = i64::from(cents) - 50;
                grant(store, &acme, 1_000 + step, granted as i32).await;
                posted.insert(1_000 + step, granted);
            }
            1 => {
                let balance: i64 = posted.values().sum();
                let held: u64 = holds.values().map(|cents| u64::from(*cents)).sum();
                let available = balance - held as i64;
                let answer = reserve(store, &acme, number, cents).await;
                if holds.contains_key(&number) || i64::from(cents) <= available {
                    assert_eq!(answer, Reservation::Held);
                    holds.entry(number).or_insert(cents);
                } else {
                    let available_cents = available;
                    assert_eq!(answer, Reservation::Insufficient { available_cents });
                }
            }
            2 => {
                let charge = -i64::from(cents);
                let stands = *posted.entry(number).or_insert(charge);
                assert_eq!(
                    settle(store, &acme, number, cents).await.amount_cents,
                    stands
                );
                holds.remove(&number);
            }
            _ => {
                release(store, &acme, number).await;
                holds.remove(&number);
            }
        }
        let held = holds.values().map(|cents| u64::from(*cents)).sum();
        assert_eq!(credits(store, &acme).await, (posted.values().sum(), held));
    }
    let sum: i64 = ledger(store, &acme)
        .await
        .iter()
        .map(|entry| entry.amount_cents)
        .sum();
    assert_eq!(sum, credits(store, &acme).await.0);
}
