//! The rules of budgets: what is held and charged in hours, days and months.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::{join, join_all};
use jiff::Timestamp;
use uuid::Uuid;

use super::{Dice, Ports, account, change};
use crate::{
    AccountChange, AccountId, AccountQuery, BudgetWindow, Budgets, LedgerRef, Reservation, Spend,
};

/// How long holds of these rules last: longer than the rules.
const LASTS: Duration = Duration::from_secs(400 * 86_400);

/// How many steps a history has.
const STEPS: usize = 150;

pub(super) async fn rules(fresh: &impl Fn() -> Ports) {
    what_is_held_and_charged_counts_until_the_window_ends(&fresh()).await;
    grants_and_other_accounts_take_nothing_of_a_budget(&fresh()).await;
    a_budget_counts_what_was_charged_before_it_was_set(&fresh()).await;
    what_is_asked_for_at_once_never_exceeds_a_budget(&fresh()).await;
}

pub(super) fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

pub(super) fn generation(number: u64) -> LedgerRef {
    LedgerRef::Generation(Uuid::from_u128(u128::from(number)))
}

/// An account that is not billed and has these budgets.
pub(super) async fn with_budgets(store: &Ports, name: &str, budgets: &str) -> AccountId {
    let id = account(store, name).await;
    let budgets: Budgets = budgets.parse().expect("budgets");
    change(store, &id, &[AccountChange::Budgets(Some(budgets))]).await;
    id
}

async fn reserve(
    store: &Ports,
    id: &AccountId,
    (number, cents): (u64, u32),
    now: Timestamp,
) -> Reservation {
    let accounts = &store.accounts;
    let answer = accounts.reserve(id.into(), generation(number), cents, LASTS, now);
    answer.await.expect("the store answers")
}

pub(super) async fn settle(
    store: &Ports,
    id: &AccountId,
    (number, cents): (u64, u32),
    now: Timestamp,
) {
    let settled = store.accounts.settle(id, generation(number), cents, now);
    settled.await.expect("the account is there");
}

pub(super) async fn release(store: &Ports, id: &AccountId, number: u64) {
    let released = store.accounts.release(id, generation(number)).await;
    released.expect("the store answers");
}

/// The window that refused, and what it has left.
fn refused(answer: Reservation) -> (BudgetWindow, u64) {
    match answer {
        Reservation::OverBudget(over) => (over.left.window, over.left.left_cents),
        Reservation::Held | Reservation::Insufficient { .. } => panic!("{answer:?}"),
    }
}

async fn what_is_held_and_charged_counts_until_the_window_ends(store: &Ports) {
    let acme = with_budgets(store, "acme", "100/hour,150/day,170/month").await;
    let now = time("2027-12-30T10:59:00Z");
    assert_eq!(reserve(store, &acme, (1, 60), now).await, Reservation::Held);
    let answer = reserve(store, &acme, (2, 41), now).await;
    assert_eq!(refused(answer.clone()), (BudgetWindow::Hour, 40));
    let Reservation::OverBudget(over) = answer else {
        unreachable!("it was refused");
    };
    assert_eq!(over.retry_after, Duration::from_secs(60));
    assert_eq!(over.left.ends_at, time("2027-12-30T11:00:00Z"));
    assert_eq!(reserve(store, &acme, (2, 40), now).await, Reservation::Held);
    assert_eq!(
        reserve(store, &acme, (1, 99), now).await,
        Reservation::Held,
        "a repeat"
    );
    settle(store, &acme, (1, 50), now).await;
    settle(store, &acme, (1, 90), now).await;
    release(store, &acme, 2).await;
    let answer = reserve(store, &acme, (3, 51), now).await;
    assert_eq!(
        refused(answer),
        (BudgetWindow::Hour, 50),
        "a charge counts once"
    );

    // What is held over the end of a window counts in the next one, and is charged in it.
    assert_eq!(reserve(store, &acme, (3, 50), now).await, Reservation::Held);
    let next = time("2027-12-30T11:00:00Z");
    let answer = reserve(store, &acme, (4, 51), next).await;
    assert_eq!(refused(answer), (BudgetWindow::Day, 50));
    settle(store, &acme, (3, 50), next).await;
    assert_eq!(
        reserve(store, &acme, (4, 50), next).await,
        Reservation::Held
    );
    settle(store, &acme, (4, 50), next).await;
    let tomorrow = time("2027-12-31T00:00:00Z");
    let answer = reserve(store, &acme, (5, 21), tomorrow).await;
    assert_eq!(refused(answer), (BudgetWindow::Month, 20));
    let later = time("2028-01-01T00:00:00Z");
    assert_eq!(
        reserve(store, &acme, (5, 100), later).await,
        Reservation::Held
    );

    let credits = store.accounts.credits(&acme, later).await;
    let credits = credits.expect("the store answers");
    let expected = Spend {
        at: next,
        hour_cents: 100,
        day_cents: 150,
        month_cents: 150,
    };
    assert_eq!((credits.held_cents, credits.spend), (100, expected));
    let views = store.admin.accounts(&AccountQuery::One(acme)).await;
    assert_eq!(views.expect("the store answers")[0].credits, credits);
}

async fn grants_and_other_accounts_take_nothing_of_a_budget(store: &Ports) {
    let acme = with_budgets(store, "acme", "100/month").await;
    let other = with_budgets(store, "other", "100/month").await;
    let now = time("2027-12-30T10:00:00Z");
    let cause = LedgerRef::Grant(Uuid::from_u128(1));
    let granted = store.admin.grant(&acme, cause, -90, now).await;
    granted.expect("the account is there");
    settle(store, &other, (1, 100), now).await;
    assert_eq!(
        reserve(store, &acme, (2, 100), now).await,
        Reservation::Held
    );
    let answer = reserve(store, &other, (3, 1), now).await;
    assert_eq!(refused(answer), (BudgetWindow::Month, 0));
    assert_eq!(reserve(store, &other, (3, 0), now).await, Reservation::Held);
}

async fn a_budget_counts_what_was_charged_before_it_was_set(store: &Ports) {
    let acme = account(store, "acme").await;
    let now = time("2027-12-30T10:00:00Z");
    assert_eq!(reserve(store, &acme, (1, 80), now).await, Reservation::Held);
    settle(store, &acme, (2, 30), now).await;
    let budgets: Budgets = "100/day".parse().expect("budgets");
    change(store, &acme, &[AccountChange::Budgets(Some(budgets))]).await;
    let answer = reserve(store, &acme, (3, 1), now).await;
    assert_eq!(refused(answer), (BudgetWindow::Day, 0));
    change(store, &acme, &[AccountChange::Budgets(None)]).await;
    assert_eq!(reserve(store, &acme, (3, 1), now).await, Reservation::Held);
}

async fn what_is_asked_for_at_once_never_exceeds_a_budget(store: &Ports) {
    let acme = with_budgets(store, "acme", "100/hour").await;
    let now = time("2027-12-30T10:00:00Z");
    let tries = (1..=30).map(|number| reserve(store, &acme, (number, 10), now));
    let answers = join_all(tries).await;
    let held = answers
        .iter()
        .filter(|answer| **answer == Reservation::Held);
    assert_eq!(held.count(), 10);
}

/// What is true of the account.
#[derive(Default)]
struct Model {
    /// By hour, day and month, as they are written.
    charged: HashMap<String, u64>,
    holds: HashMap<u64, u32>,
}

impl Model {
    fn left(&self, window: &str, limit: u64) -> u64 {
        let held: u64 = self.holds.values().map(|cents| u64::from(*cents)).sum();
        let charged = self.charged.get(window).copied().unwrap_or(0);
        limit.saturating_sub(charged + held)
    }

    /// No window may be charged more than its limit.
    fn charge(&mut self, cents: u32, now: Timestamp) {
        for (window, limit) in windows(now) {
            let sum = self.charged.entry(window).or_default();
            *sum += u64::from(cents);
            assert!(*sum <= limit, "a budget is exceeded at {now}");
        }
    }
}

/// The windows of a moment and their budgets.
fn windows(now: Timestamp) -> [(String, u64); 3] {
    let of = |format: &str, limit| (now.strftime(format).to_string(), limit);
    [
        of("%Y-%m-%dT%H", 200),
        of("%Y-%m-%d", 400),
        of("%Y-%m", 900),
    ]
}

/// What two replicas hold and charge in an order that a seed decides, and at once: never more than a budget.
pub(super) async fn history(handles: [Ports; 2], seed: u64) {
    let mut dice = Dice::new(seed);
    let mut model = Model::default();
    let mut now = time("2027-12-29T20:00:00Z");
    let acme = with_budgets(&handles[0], "acme", "200/hour,400/day,900/month").await;
    for _ in 0..STEPS {
        let store = &handles[dice.roll(2)];
        let mut call = || {
            let cents = u32::try_from(dice.roll(90)).expect("few");
            (dice.roll(1_000_000) as u64, cents)
        };
        let (one, other) = (call(), call());
        let held: Vec<u64> = {
            let mut held: Vec<u64> = model.holds.keys().copied().collect();
            held.sort_unstable();
            held
        };
        match dice.roll(6) {
            0 | 1 => {
                let answer = reserve(store, &acme, one, now).await;
                let fits = windows(now)
                    .iter()
                    .all(|(window, limit)| u64::from(one.1) <= model.left(window, *limit));
                assert_eq!(answer == Reservation::Held, fits, "{answer:?}");
                if fits {
                    model.holds.insert(one.0, one.1);
                }
            }
            2 if one.0 != other.0 => {
                let answers = join(
                    reserve(&handles[0], &acme, one, now),
                    reserve(&handles[1], &acme, other, now),
                );
                let (first, second) = answers.await;
                for (answer, call) in [(first, one), (second, other)] {
                    if answer == Reservation::Held {
                        model.holds.insert(call.0, call.1);
                    }
                }
            }
            3 => {
                let Some(number) = dice.pick(&held) else {
                    continue;
                };
                let hold = model.holds.remove(&number).expect("it is held");
                // Both bill the same call for at most what is held.
                let cents = hold.min(one.1);
                let bill = (number, cents);
                join(
                    settle(&handles[0], &acme, bill, now),
                    settle(&handles[1], &acme, bill, now),
                )
                .await;
                model.charge(cents, now);
            }
            4 => {
                let Some(number) = dice.pick(&held) else {
                    continue;
                };
                release(store, &acme, number).await;
                model.holds.remove(&number);
            }
            _ => now += Duration::from_secs(dice.roll(5_000) as u64),
        }
    }
}
