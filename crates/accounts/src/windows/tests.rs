//! Quotas by window, one rule each.

use super::*;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn windows(text: &str) -> std::sync::Arc<[RateWindow]> {
    RateWindow::read_list(text).expect("windows")
}

/// `None` if the request counts, else the seconds to wait and the window's words.
fn refused(counted: &Windows, windows: &[RateWindow], now: i64) -> Option<(u64, String)> {
    match counted.count(&AccountId::local(), windows, second(now)) {
        Ok(()) => None,
        Err(used_up) => Some((used_up.retry_after.as_secs(), used_up.span)),
    }
}

#[test]
fn a_used_up_window_tells_the_seconds_to_its_end() {
    let (counted, windows) = (Windows::new(), windows("2/1m"));
    assert_eq!(refused(&counted, &windows, 60), None);
    assert_eq!(refused(&counted, &windows, 70), None);
    assert_eq!(refused(&counted, &windows, 70), Some((50, "1m".to_owned())));
    assert_eq!(refused(&counted, &windows, 119), Some((1, "1m".to_owned())));
    assert_eq!(refused(&counted, &windows, 120), None);
}

#[test]
fn a_refused_request_counts_in_no_window() {
    let (counted, windows) = (Windows::new(), windows("1/1s,3/1h"));
    assert_eq!(refused(&counted, &windows, 0), None);
    for _ in 0..10 {
        assert_eq!(refused(&counted, &windows, 0), Some((1, "1s".to_owned())));
    }
    assert_eq!(refused(&counted, &windows, 1), None);
    assert_eq!(refused(&counted, &windows, 2), None);
    assert_eq!(
        refused(&counted, &windows, 3),
        Some((3597, "1h".to_owned()))
    );
}

#[test]
fn of_several_used_up_windows_the_one_that_ends_last_is_told() {
    let (counted, windows) = (Windows::new(), windows("1/1m,1/1h"));
    assert_eq!(refused(&counted, &windows, 0), None);
    assert_eq!(
        refused(&counted, &windows, 0),
        Some((3600, "1h".to_owned()))
    );
}

#[test]
fn a_clock_that_is_put_back_hands_out_no_window_twice() {
    let (counted, windows) = (Windows::new(), windows("1/1m"));
    assert_eq!(refused(&counted, &windows, 600), None);
    assert!(refused(&counted, &windows, 540).is_some());
    assert_eq!(refused(&counted, &windows, 660), None);
}

#[test]
fn accounts_are_counted_apart_and_forgotten_when_their_windows_are_over() {
    let (counted, windows) = (Windows::new(), windows("1/1m"));
    for n in 0..5_000_i64 {
        let account: AccountId = format!("a{n}").parse().expect("a valid id");
        let now = second(n * 60);
        counted.count(&account, &windows, now).expect("its first");
        counted
            .count(&account, &windows, now)
            .expect_err("its second");
    }
    let kept = counted.0.lock().expect("not poisoned").accounts.len();
    assert!(kept <= SWEEP_AT, "{kept} accounts are kept");
}

#[test]
fn changed_windows_count_anew() {
    let counted = Windows::new();
    assert_eq!(refused(&counted, &windows("1/1m"), 0), None);
    assert!(refused(&counted, &windows("1/1m"), 0).is_some());
    assert_eq!(refused(&counted, &windows("2/1m"), 0), None);
    assert_eq!(refused(&counted, &[], 0), None);
}

#[test]
fn a_request_that_is_given_back_was_never_counted() {
    let (counted, windows) = (Windows::new(), windows("1/1m,5/1h"));
    let account = AccountId::local();
    for _ in 0..10 {
        assert_eq!(refused(&counted, &windows, 60), None);
        assert!(refused(&counted, &windows, 60).is_some());
        counted.give_back(&account, &windows, second(60));
    }
    assert_eq!(refused(&counted, &windows, 60), None);
    // Its minute is over, its hour is not.
    assert_eq!(refused(&counted, &windows, 120), None);
    counted.give_back(&account, &windows, second(60));
    assert_eq!(
        refused(&counted, &windows, 120),
        Some((60, "1m".to_owned()))
    );
}
