//! Reports that are wrong in every way: the witness that keeps the oracle honest.

use serde_json::json;

use super::*;
use crate::partner::{Book, Order};

const GENERATION: &str = "00000000-0000-0000-0000-00000000000a";
const DIGITS: &str = "0000000000000000000000000000000a";

/// A call without a key that cost 7 cents and was answered if `is_told`; killed meanwhile if not.
fn calls(is_told: bool) -> Calls {
    let order = Order {
        call: "a".to_owned(),
        behavior: Behavior::Answer,
        cents: 7,
        delay_ms: 0,
        looks: 0,
        padding: 0,
    };
    let mut calls = Calls::new(Book::default(), String::new());
    calls.book.submitted(&order, GENERATION, false);
    calls.sending("a", || Call::new(order, false, false));
    if is_told {
        let result = calls.dispatches("a")[0].result.clone();
        let told = calls.answered("a", (200, &result), false);
        told.expect("it is what the partner gave");
    } else {
        calls.restarted();
    }
    calls
}

fn line(status: &str, cents: u64) -> Value {
    json!({
        "generation_id": GENERATION,
        "began": true,
        "settled_at": "now",
        "generation_status": status,
        "charge_cents": cents,
    })
}

/// Reports that agree about these lines.
fn reports(export: Vec<Value>) -> Reports {
    let cents = export
        .iter()
        .filter_map(|line| line["charge_cents"].as_i64());
    let cents: i64 = cents.sum();
    let bill = (cents > 0).then(|| (Some(DIGITS.to_owned()), -cents));
    Reports {
        export,
        totals_cents: cents,
        ledger: Some([(None, 100)].into_iter().chain(bill).collect()),
        balance_cents: 100 - cents,
        held_cents: 0,
        granted_cents: 100,
    }
}

fn kinds(calls: &mut Calls, reports: &Reports) -> Vec<Kind> {
    let (_, violations) = judge(calls, reports);
    violations.iter().map(|violation| violation.kind).collect()
}

#[test]
fn what_was_acknowledged_is_billed_and_what_was_not_may_be_unknown() {
    for (is_told, status, cents, is_right) in [
        (true, "ok", 7, true),
        (true, "ok", 6, false),
        (true, UNKNOWN, 0, false),
        (false, "ok", 7, true),
        (false, UNKNOWN, 0, true),
        (false, UNKNOWN, 7, false),
        (false, "ok", 0, false),
    ] {
        let found = kinds(&mut calls(is_told), &reports(vec![line(status, cents)]));
        assert_eq!(
            found.is_empty(),
            is_right,
            "{is_told} {status} {cents}: {found:?}"
        );
    }
    let (counted, _) = judge(&mut calls(false), &reports(vec![line(UNKNOWN, 0)]));
    assert_eq!((counted.unknown, counted.unknown_cents), (1, 7));
}

#[test]
fn a_power_cut_may_take_a_late_end_of_a_call_without_a_key() {
    let mut calls = calls(true);
    calls.lost_power();
    calls.restarted();
    assert_eq!(kinds(&mut calls, &reports(vec![line(UNKNOWN, 0)])), []);
    assert_eq!(
        kinds(&mut calls, &reports(vec![line("ok", 7)])),
        [Kind::Money],
        "what was reported once stays so"
    );
}

#[test]
fn a_lost_row_of_the_ledger_is_reported_and_a_second_one_too() {
    let right = reports(vec![line("ok", 7)]);
    let mut lost = right.clone();
    lost.ledger.iter_mut().for_each(|ledger| ledger.truncate(1));
    assert_eq!(kinds(&mut calls(true), &lost), [Kind::Money]);
    let mut twice = right.clone();
    let ledger = twice.ledger.as_mut().expect("it was read");
    ledger.push(ledger[1].clone());
    assert_eq!(kinds(&mut calls(true), &twice), [Kind::Money]);
}

#[test]
fn sums_holds_and_missing_generations_are_reported() {
    let right = reports(vec![line("ok", 7)]);
    for wrong in [
        Reports {
            totals_cents: 6,
            ..right.clone()
        },
        Reports {
            balance_cents: 94,
            ..right.clone()
        },
        Reports {
            held_cents: 1,
            ..right.clone()
        },
        reports(Vec::new()),
        reports(vec![line("ok", 7), line("ok", 7)]),
    ] {
        assert!(
            kinds(&mut calls(true), &wrong).contains(&Kind::Money),
            "{wrong:?}"
        );
    }
    let mut running = line("ok", 7);
    running["settled_at"] = Value::Null;
    let found = kinds(&mut calls(true), &reports(vec![running]));
    assert_eq!(found, [Kind::Endless]);
}

#[test]
fn what_was_settled_stays_so() {
    let mut calls = calls(false);
    assert_eq!(kinds(&mut calls, &reports(vec![line(UNKNOWN, 0)])), []);
    assert_eq!(
        kinds(&mut calls, &reports(vec![line("ok", 7)])),
        [Kind::Money]
    );
}

#[test]
fn a_second_dispatch_is_reported() {
    let mut calls = calls(true);
    let order = calls.calls["a"].order.clone();
    calls.book.submitted(&order, GENERATION, false);
    let found = kinds(&mut calls, &reports(vec![line("ok", 7)]));
    assert!(found.contains(&Kind::Duplicated), "{found:?}");
}
