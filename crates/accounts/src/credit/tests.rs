//! The balance under any interleaving.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use proptest::prelude::*;

use super::*;

/// What may happen to a balance, in any order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Grant(i32),
    Reserve(u8, u32),
    Settle(u8, u32),
    Release(u8),
    Renew(u8),
    Wait(i64),
}

const BILLED: SpendRules<'static> = SpendRules {
    billed: true,
    budgets: Budgets {
        hour: None,
        day: None,
        month: None,
    },
    scoped: &[],
};

fn of(balance_cents: i64) -> CreditBalance {
    CreditBalance::new(Credits {
        balance_cents,
        ..Credits::default()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let cents = prop_oneof![4 => 0..200_u32, 1 => any::<u32>()];
    prop_oneof![
        (-100..300_i32).prop_map(Step::Grant),
        (0..12_u8, cents.clone()).prop_map(|(cause, cents)| Step::Reserve(cause, cents)),
        (0..12_u8, cents).prop_map(|(cause, cents)| Step::Settle(cause, cents)),
        (0..12_u8).prop_map(Step::Release),
        (0..12_u8).prop_map(Step::Renew),
        (0..20_i64).prop_map(Step::Wait),
    ]
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("in range")
}

/// From now on, for 30 seconds.
fn span() -> (Timestamp, Timestamp) {
    (at(0), at(30))
}

fn generation(number: u8) -> LedgerRef {
    LedgerRef::Generation(Uuid::from_u128(u128::from(number)))
}

/// These run all the time, whatever becomes of their holds.
fn runs(cause: LedgerRef) -> bool {
    matches!(cause, LedgerRef::Generation(id) if id.as_u128() >= 8)
}

/// A balance and its ledger, as a store keeps them: an entry is new when its cause is.
#[derive(Default)]
struct Kept {
    balance: CreditBalance,
    ledger: HashMap<LedgerRef, i64>,
}

impl Kept {
    fn post(&mut self, cause: LedgerRef, amount_cents: i64, at: Timestamp) {
        if let Entry::Vacant(free) = self.ledger.entry(cause) {
            free.insert(amount_cents);
            self.balance.post(cause, amount_cents, at);
        } else {
            self.balance.release(cause);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_billed_purse_never_holds_more_than_it_has(steps in prop::collection::vec(step(), 0..60)) {
        let mut kept = Kept::default();
        let mut holds: HashMap<LedgerRef, (u32, i64)> = HashMap::new();
        let mut seconds = 0;
        for (number, step) in steps.into_iter().enumerate() {
            let (now, until) = (at(seconds), at(seconds + 30));
            holds.retain(|cause, (_, until)| *until > seconds || runs(*cause));
            let before = kept.balance.credits(now, runs);
            match step {
                Step::Grant(cents) => {
                    kept.post(LedgerRef::Grant(Uuid::from_u128(number as u128)), i64::from(cents), now);
                }
                Step::Reserve(cause, cents) => {
                    let cause = generation(cause);
                    let answer = kept.balance.reserve(cause, cents, BILLED, (now, until), runs);
                    match answer {
                        Reservation::Held => {
                            let new = !holds.contains_key(&cause);
                            holds.entry(cause).or_insert((cents, 0)).1 = seconds + 30;
                            // A hold alone never takes what is available below nothing.
                            prop_assert!(!new || kept.balance.credits(now, runs).available_cents() >= 0);
                        }
                        Reservation::Insufficient { available_cents } => {
                            prop_assert!(available_cents < i64::from(cents));
                            prop_assert_eq!(kept.balance.credits(now, runs), before);
                        }
                        Reservation::OverBudget(over) => prop_assert!(false, "{over}"),
                    }
                }
                Step::Settle(cause, cents) => {
                    kept.post(generation(cause), -i64::from(cents), now);
                    holds.remove(&generation(cause));
                }
                Step::Release(cause) => {
                    kept.balance.release(generation(cause));
                    holds.remove(&generation(cause));
                }
                Step::Renew(cause) => {
                    let cause = generation(cause);
                    let known = holds.get_mut(&cause);
                    prop_assert_eq!(kept.balance.renew(cause, (now, until), runs), known.is_some());
                    if let Some(known) = known {
                        known.1 = seconds + 30;
                    }
                }
                Step::Wait(by) => seconds += by,
            }
            holds.retain(|cause, (_, until)| *until > seconds || runs(*cause));
            let credits = kept.balance.credits(at(seconds), runs);
            prop_assert_eq!(credits.balance_cents, kept.ledger.values().sum::<i64>());
            let held: u64 = holds.values().map(|(cents, _)| u64::from(*cents)).sum();
            prop_assert_eq!(credits.held_cents, held);
        }
    }
}

#[test]
fn a_purse_that_is_not_billed_holds_anything() {
    let mut balance = of(-5);
    assert_eq!(
        balance.reserve(generation(1), 100, SpendRules::default(), span(), runs),
        Reservation::Held
    );
    assert_eq!(balance.credits(at(0), runs).available_cents(), -105);
}

#[test]
fn an_empty_purse_that_is_billed_holds_nothing_but_nothing() {
    let mut balance = of(0);
    assert_eq!(
        balance.reserve(generation(1), 0, BILLED, span(), runs),
        Reservation::Held
    );
    let refused = Reservation::Insufficient { available_cents: 0 };
    assert_eq!(
        balance.reserve(generation(2), 1, BILLED, span(), runs),
        refused
    );
    let mut owing = of(-1);
    let refused = Reservation::Insufficient {
        available_cents: -1,
    };
    assert_eq!(
        owing.reserve(generation(1), 0, BILLED, span(), runs),
        refused
    );
}
