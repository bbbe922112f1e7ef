//! Budgets over the calendar, and under any order of holds and charges.

use std::collections::HashMap;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::{CreditBalance, LedgerRef, Reservation, SpendRules};

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn budgets(text: &str) -> Budgets {
    text.parse().expect("budgets")
}

#[test]
fn budgets_are_read_as_they_are_written() {
    for text in [
        "none",
        "500/hour",
        "500/hour,2000/day,30000/month",
        "0/month",
    ] {
        assert_eq!(budgets(text).to_string(), text);
    }
    assert_eq!(budgets("7/month, 5/hour").to_string(), "5/hour,7/month");
    for bad in [
        "",
        "5",
        "5/",
        "/hour",
        "5/week",
        "-5/hour",
        "+5/hour",
        "5/hour,",
        "5/hour,6/hour",
        "none,5/hour",
        "9223372036854775808/day",
    ] {
        assert_eq!(bad.parse::<Budgets>(), Err(InvalidBudgets), "{bad}");
    }
}

#[test]
fn windows_are_those_of_the_calendar_in_utc() {
    let now = at("2028-02-29T23:59:59.5Z");
    for window in BudgetWindow::ALL {
        assert_eq!(window.end(now), at("2028-03-01T00:00:00Z"), "{window}");
    }
    let now = at("2027-12-03T10:00:00Z");
    assert_eq!(BudgetWindow::Hour.end(now), at("2027-12-03T11:00:00Z"));
    assert_eq!(BudgetWindow::Day.end(now), at("2027-12-04T00:00:00Z"));
    assert_eq!(BudgetWindow::Month.end(now), at("2028-01-01T00:00:00Z"));
    assert_eq!(BudgetWindow::Month.end(Timestamp::MAX), Timestamp::MAX);
}

#[test]
fn a_charge_counts_until_its_windows_end_and_a_clock_that_is_behind_changes_nothing() {
    let mut spend = Spend::default();
    spend.add(5, at("2027-12-31T22:30:00Z"));
    spend.add(7, at("2027-12-31T23:30:00Z"));
    let all = |spend: &Spend, now| BudgetWindow::ALL.map(|window| spend.in_window(window, at(now)));
    assert_eq!(all(&spend, "2027-12-31T23:59:59Z"), [7, 12, 12]);
    assert_eq!(all(&spend, "2028-01-01T00:00:00Z"), [0, 0, 0]);
    assert_eq!(all(&spend, "2027-12-31T22:59:59Z"), [7, 12, 12]);
    spend.add(1, at("2027-12-31T22:59:59Z"));
    assert_eq!(all(&spend, "2027-12-31T23:59:59Z"), [8, 13, 13]);
}

#[test]
fn the_budget_whose_window_ends_last_is_named_with_what_is_left() {
    let mut credits = Credits::default();
    credits.spend.add(30, at("2027-12-03T10:10:00Z"));
    credits.held_cents = 10;
    let of = budgets("50/hour,70/day,90/month");
    let now = at("2027-12-03T10:20:00.001Z");
    let ask = |cents| of.admit(cents, credits, now);
    assert_eq!(ask(10), Ok(()));
    let over = ask(11).expect_err("10 are left in the hour");
    assert_eq!(
        (over.left.window, over.left.left_cents),
        (BudgetWindow::Hour, 10)
    );
    assert_eq!(over.retry_after, Duration::from_secs(2400));
    assert_eq!(
        over.to_string(),
        "the call may cost 11 US cents, and the budget of 50 cents for this hour has 10 cents left; \
         the hour ends at 2027-12-03T11:00:00Z"
    );
    let over = ask(51).expect_err("more than is left of any");
    assert_eq!(
        (over.left.window, over.left.left_cents),
        (BudgetWindow::Month, 50)
    );
    let none = budgets("0/hour").admit(0, credits, now);
    assert_eq!(none, Ok(()), "what is free exceeds nothing");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Reserve(u8, u32),
    Settle(u8, u32),
    Release(u8),
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..12_u8, 0..90_u32).prop_map(|(cause, cents)| Step::Reserve(cause, cents)),
        2 => (0..12_u8, 0..=100_u32).prop_map(|(cause, part)| Step::Settle(cause, part)),
        1 => (0..12_u8).prop_map(Step::Release),
        1 => (0..200_000_i64).prop_map(Step::Wait),
        2 => (0..2_000_i64).prop_map(Step::Wait),
    ]
}

proptest! {
    /// Each charge is a part of its hold. Then no hour, day or month has more than its budget, and a refusal is never wrong.
    #[test]
    fn no_window_is_charged_more_than_its_budget(
        steps in prop::collection::vec(step(), 0..200),
        hour in 0..200_u64,
        day in 0..400_u64,
        month in 0..900_u64,
    ) {
        let budgets = Budgets { hour: Some(hour), day: Some(day), month: Some(month) };
        let rules = SpendRules { budgets, ..SpendRules::default() };
        let mut balance = CreditBalance::default();
        let mut held: HashMap<u8, u32> = HashMap::new();
        let mut charged: HashMap<String, u64> = HashMap::new();
        let mut now = at("2027-12-30T10:10:10Z");
        let cause = |number: u8| LedgerRef::Generation(Uuid::from_u128(number.into()));
        for step in steps {
            let windows = ["%Y-%m-%dT%H", "%Y-%m-%d", "%Y-%m"].map(|of| now.strftime(of).to_string());
            match step {
                Step::Reserve(number, cents) => {
                    let answer = balance.reserve(cause(number), cents, rules, (now, Timestamp::MAX), |_| false);
                    let under_way: u64 = held.values().map(|cents| u64::from(*cents)).sum();
                    let fits = windows.iter().zip([hour, day, month]).all(|(window, limit)| {
                        let used = charged.get(window).copied().unwrap_or(0) + under_way;
                        u64::from(cents) <= limit.saturating_sub(used)
                    });
                    prop_assert_eq!(answer == Reservation::Held, fits || held.contains_key(&number));
                    if answer == Reservation::Held {
                        held.entry(number).or_insert(cents);
                    }
                }
                Step::Settle(number, part) => {
                    let Some(cents) = held.remove(&number) else { continue };
                    let cents = u64::from(cents * part / 100);
                    balance.post(cause(number), -i64::try_from(cents).expect("few"), now);
                    for (window, limit) in windows.into_iter().zip([hour, day, month]) {
                        let sum = charged.entry(window).or_default();
                        *sum += cents;
                        prop_assert!(*sum <= limit);
                    }
                }
                Step::Release(number) => {
                    balance.release(cause(number));
                    held.remove(&number);
                }
                Step::Wait(seconds) => now += jiff::SignedDuration::from_secs(seconds),
            }
        }
    }
}
