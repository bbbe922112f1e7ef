//! The rules of budgets of keys and labels: they hold beside those of the account, and what a call counts against is remembered.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join;
use jiff::Timestamp;

use super::budgets::{generation, release, settle, time, with_budgets};
use super::{Dice, Ports, account, change};
use crate::{
    AccountChange, AccountId, AccountQuery, BudgetScope, BudgetWindow, Budgets, Credits,
    OverBudget, Payer, Reservation, ScopedBudgetView,
};

/// How long holds of these rules last, in seconds.
const LASTS: u64 = 60;

/// How many steps a history has.
const STEPS: usize = 120;

pub(super) async fn rules(fresh: &impl Fn() -> Ports) {
    a_scope_is_bounded_beside_its_account(&fresh()).await;
    of_several_budgets_the_one_that_ends_last_is_named(&fresh()).await;
    what_lapsed_is_charged_where_it_was_held(&fresh()).await;
    a_budget_that_is_taken_away_bounds_nothing(&fresh()).await;
}

fn scope(text: &str) -> BudgetScope {
    text.parse().expect("a scope")
}

fn budgets(text: &str) -> Budgets {
    text.parse().expect("budgets")
}

async fn set(store: &Ports, id: &AccountId, all: &[(&str, &str)]) {
    let all = all.iter().map(|(of, text)| (scope(of), budgets(text)));
    change(store, id, &[AccountChange::ScopedBudgets(all.collect())]).await;
}

async fn reserve(
    store: &Ports,
    (account, scopes): (&AccountId, &[&str]),
    (number, cents): (u64, u32),
    now: Timestamp,
) -> Reservation {
    let scopes: Vec<BudgetScope> = scopes.iter().map(|text| scope(text)).collect();
    let payer = Payer {
        account,
        scopes: &scopes,
    };
    let lasts = Duration::from_secs(LASTS);
    let held = store
        .accounts
        .reserve(payer, generation(number), cents, lasts, now);
    held.await.expect("the store answers")
}

fn refused(answer: Reservation) -> OverBudget {
    match answer {
        Reservation::OverBudget(over) => over,
        Reservation::Held | Reservation::Insufficient { .. } => panic!("{answer:?}"),
    }
}

async fn views(store: &Ports, id: &AccountId) -> Vec<ScopedBudgetView> {
    let views = store.admin.accounts(&AccountQuery::One(id.clone())).await;
    let view = views.expect("the store answers").into_iter().next();
    view.expect("the account is there").scoped
}

async fn a_scope_is_bounded_beside_its_account(store: &Ports) {
    let acme = with_budgets(store, "acme", "1000/day").await;
    let other = account(store, "other").await;
    let all = [("label:team=blue", "100/day"), ("key:abcd2345", "150/day")];
    set(store, &acme, &all).await;
    set(store, &other, &all).await;
    let now = time("2027-12-30T10:00:00Z");
    let blue = (&acme, &["label:team=blue"][..]);
    let both = (&acme, &["key:abcd2345", "label:team=blue"][..]);
    let neither = (&acme, &["key:efgh6789", "label:team=red"][..]);
    assert_eq!(reserve(store, blue, (1, 60), now).await, Reservation::Held);
    let over = refused(reserve(store, both, (2, 41), now).await);
    assert_eq!(over.of, Some(scope("label:team=blue")));
    assert_eq!(
        (over.left.window, over.left.left_cents),
        (BudgetWindow::Day, 40)
    );
    assert!(over.to_string().contains("for the label team=blue"));
    assert_eq!(reserve(store, both, (2, 40), now).await, Reservation::Held);
    assert_eq!(
        reserve(store, both, (2, 99), now).await,
        Reservation::Held,
        "a repeat"
    );
    settle(store, &acme, (1, 50), now).await;
    settle(store, &acme, (1, 90), now).await;
    assert_eq!(
        reserve(store, neither, (3, 500), now).await,
        Reservation::Held
    );
    let free = (&other, &["label:team=blue"][..]);
    assert_eq!(reserve(store, free, (4, 100), now).await, Reservation::Held);
    let held = |cents, spend| Credits {
        held_cents: cents,
        spend,
        ..Credits::default()
    };
    let charged = crate::Spend {
        at: now,
        hour_cents: 50,
        day_cents: 50,
        month_cents: 50,
    };
    let expected = [
        ScopedBudgetView {
            scope: scope("key:abcd2345"),
            budgets: budgets("150/day"),
            credits: held(40, crate::Spend::default()),
        },
        ScopedBudgetView {
            scope: scope("label:team=blue"),
            budgets: budgets("100/day"),
            credits: held(40, charged),
        },
    ];
    assert_eq!(views(store, &acme).await, expected);
    release(store, &acme, 2).await;
    assert_eq!(views(store, &acme).await[0].credits, Credits::default());
    let over = refused(reserve(store, blue, (5, 51), now).await);
    assert_eq!(over.left.left_cents, 50);
    let tomorrow = time("2027-12-31T00:00:00Z");
    assert_eq!(
        reserve(store, blue, (5, 100), tomorrow).await,
        Reservation::Held
    );
}

async fn of_several_budgets_the_one_that_ends_last_is_named(store: &Ports) {
    let acme = with_budgets(store, "acme", "10/day").await;
    let all = [("label:a=1", "10/month"), ("label:b=1", "10/hour,10/day")];
    set(store, &acme, &all).await;
    let now = time("2027-12-30T10:59:00Z");
    let (a, b) = (["label:a=1", "label:b=1"], ["label:b=1"]);
    let over = refused(reserve(store, (&acme, &a), (1, 11), now).await);
    assert_eq!(over.of, Some(scope("label:a=1")));
    assert_eq!(over.left.window, BudgetWindow::Month);
    let over = refused(reserve(store, (&acme, &b), (1, 11), now).await);
    assert_eq!((over.of, over.left.window), (None, BudgetWindow::Day));
    assert_eq!(
        reserve(store, (&acme, &b), (1, 10), now).await,
        Reservation::Held
    );
}

async fn what_lapsed_is_charged_where_it_was_held(store: &Ports) {
    let acme = account(store, "acme").await;
    set(store, &acme, &[("label:team=blue", "100/day")]).await;
    let blue = (&acme, &["label:team=blue"][..]);
    let now = time("2027-12-30T10:00:00Z");
    assert_eq!(reserve(store, blue, (1, 60), now).await, Reservation::Held);
    assert_eq!(reserve(store, blue, (2, 40), now).await, Reservation::Held);
    let later = time("2027-12-30T10:02:00Z");
    // The holds have lapsed, and one of the calls goes on elsewhere: who does so knows no scopes.
    let again = reserve(store, (&acme, &[]), (1, 60), later).await;
    assert_eq!(again, Reservation::Held);
    let over = refused(reserve(store, blue, (3, 41), later).await);
    assert_eq!(over.left.left_cents, 40);
    settle(store, &acme, (2, 30), later).await;
    let over = refused(reserve(store, blue, (3, 11), later).await);
    assert_eq!(over.left.left_cents, 10);
    settle(store, &acme, (1, 60), later).await;
    let over = refused(reserve(store, blue, (3, 11), later).await);
    assert_eq!(over.left.left_cents, 10);
}

async fn a_budget_that_is_taken_away_bounds_nothing(store: &Ports) {
    let acme = account(store, "acme").await;
    set(store, &acme, &[("label:team=blue", "100/day")]).await;
    let blue = (&acme, &["label:team=blue"][..]);
    let now = time("2027-12-30T10:00:00Z");
    assert_eq!(reserve(store, blue, (1, 100), now).await, Reservation::Held);
    settle(store, &acme, (1, 100), now).await;
    set(store, &acme, &[("label:team=blue", "150/day")]).await;
    let over = refused(reserve(store, blue, (2, 51), now).await);
    assert_eq!(over.left.left_cents, 50, "what was charged stays");
    set(store, &acme, &[("label:team=blue", "none")]).await;
    assert_eq!(views(store, &acme).await, []);
    assert_eq!(reserve(store, blue, (2, 999), now).await, Reservation::Held);
    // A budget that is set again begins anew.
    set(store, &acme, &[("label:team=blue", "10/day")]).await;
    assert_eq!(reserve(store, blue, (3, 10), now).await, Reservation::Held);
}

/// The scopes of the histories, with their budgets of an hour.
const SCOPES: [(&str, u64); 3] = [("key:abcd2345", 150), ("label:a=1", 100), ("label:b=1", 60)];

/// What two replicas hold and charge in scopes, in an order that a seed decides, and at once: never more than a budget.
pub(super) async fn history(handles: [Ports; 2], seed: u64) {
    let mut dice = Dice::new(seed);
    let mut now = time("2027-12-29T20:00:00Z");
    let acme = account(&handles[0], "acme").await;
    let all = SCOPES.map(|(of, limit)| (of, format!("{limit}/hour")));
    let all: Vec<(&str, &str)> = all.iter().map(|(of, text)| (*of, text.as_str())).collect();
    set(&handles[1], &acme, &all).await;
    // Cents, end and scopes of the holds, by number; and what was charged in hours.
    let mut holds: HashMap<u64, (u32, Timestamp, Vec<&str>)> = HashMap::new();
    let mut charged: HashMap<(String, &str), u64> = HashMap::new();
    let mut next = 0;
    for _ in 0..STEPS {
        let store = &handles[dice.roll(2)];
        let hour = now.strftime("%Y-%m-%dT%H").to_string();
        let ends = now + Duration::from_secs(LASTS);
        let mut call = || {
            next += 1;
            let scopes = SCOPES.iter().filter(|_| dice.roll(2) == 0);
            let scopes: Vec<&str> = scopes.map(|(of, _)| *of).collect();
            (scopes, (next, u32::try_from(dice.roll(70)).expect("few")))
        };
        let (one, other) = (call(), call());
        let live: Vec<u64> = {
            let live = holds.iter().filter(|(_, (_, until, _))| *until > now);
            let mut live: Vec<u64> = live.map(|(number, _)| *number).collect();
            live.sort_unstable();
            live
        };
        match dice.roll(6) {
            0 | 1 => {
                let answer = reserve(store, (&acme, &one.0), one.1, now).await;
                let fits = SCOPES.iter().all(|(of, limit)| {
                    let held = holds
                        .values()
                        .filter(|(_, until, within)| *until > now && within.contains(of));
                    let held: u64 = held.map(|(cents, ..)| u64::from(*cents)).sum();
                    let used = charged.get(&(hour.clone(), *of)).copied().unwrap_or(0);
                    let left = limit.saturating_sub(used + held);
                    !one.0.contains(of) || u64::from(one.1.1) <= left
                });
                assert_eq!(answer == Reservation::Held, fits, "{answer:?}");
                if fits {
                    holds.insert(one.1.0, (one.1.1, ends, one.0));
                }
            }
            2 => {
                let answers = join(
                    reserve(&handles[0], (&acme, &one.0), one.1, now),
                    reserve(&handles[1], (&acme, &other.0), other.1, now),
                );
                let (first, second) = answers.await;
                for (answer, (scopes, (number, cents))) in [(first, one), (second, other)] {
                    if answer == Reservation::Held {
                        holds.insert(number, (cents, ends, scopes));
                    }
                }
            }
            3 => {
                let Some(number) = dice.pick(&live) else {
                    continue;
                };
                let (hold, _, scopes) = holds.remove(&number).expect("it is held");
                let bill = (number, hold.min(one.1.1));
                join(
                    settle(&handles[0], &acme, bill, now),
                    settle(&handles[1], &acme, bill, now),
                )
                .await;
                for of in scopes {
                    let sum = charged.entry((hour.clone(), of)).or_default();
                    *sum += u64::from(bill.1);
                    let limit = SCOPES.iter().find(|(scope, _)| *scope == of);
                    let limit = limit.expect("it has a budget").1;
                    assert!(*sum <= limit, "the budget of {of} is exceeded at {now}");
                }
            }
            4 => {
                let Some(number) = dice.pick(&live) else {
                    continue;
                };
                release(store, &acme, number).await;
                holds.remove(&number);
            }
            _ => now += Duration::from_secs(dice.roll(1_500) as u64),
        }
    }
}
