//! When the log wants to be brought into the rows: soon, sooner where much waits, and not at once after a failure.

use std::time::Instant;

use router_core::CallRecord;

use super::log::{apart, begin, count, end, flush, known, record};
use super::undone::end_with_key;
use super::*;
use crate::database::{DatabaseError, Participant};

#[test]
fn the_writing_thread_is_told_once_and_sooner_when_many_wait() {
    let (_root, rows, log) = apart();
    assert_eq!(log.due(), None);
    let is_told_of = |n| {
        begin(&log, n);
        log.take_news()
    };
    assert!(is_told_of(1), "something is here");
    let first = log.due().expect("something is here");
    let told: Vec<u128> = (2..=2_000).filter(|n| is_told_of(*n)).collect();
    assert_eq!(told, [1_024]);
    assert!(log.due().is_some_and(|due| due < first));
    flush(&log, &rows, Flush::All);
    assert_eq!(log.due(), None);
    assert_eq!(end(&log, 1), Some(Settled::Now));
    assert!(log.take_news() && !log.take_news());
    log.record(&record(2));
    assert!(!log.take_news());
}

#[test]
fn results_are_brought_in_once_256_kib_of_them_wait() {
    let (_root, _rows, log) = apart();
    let result = [b'x'; 8 << 10];
    let is_told_of = |n: &u128| {
        begin(&log, *n);
        end_with_key(&log, *n, &result);
        log.take_news()
    };
    let told: Vec<u128> = (1..=64).filter(is_told_of).collect();
    let [1, many] = told[..] else {
        panic!("something is here, and then much is: {told:?}");
    };
    // Beside each result stands a little more.
    assert!((28..=32).contains(&many), "{many}");
    assert!(log.due().is_some_and(|due| due <= Instant::now()));
}

#[test]
fn what_waits_for_its_end_is_no_work_by_itself_and_waits_a_moment_only() {
    let (_root, rows, log) = apart();
    begin(&log, 1);
    flush(&log, &rows, Flush::Due);
    assert_eq!(known(&rows), (0, 0));
    assert_eq!((log.due(), log.is_ahead()), (None, true));
    let much_later = CallRecord {
        answered_at: at(3_600),
        ..record(1)
    };
    log.record(&much_later);
    flush(&log, &rows, Flush::Due);
    assert_eq!((known(&rows), count(&rows, "calls")), ((1, 0), 1));
    assert!(!log.is_ahead());
}

#[test]
fn what_failed_is_not_tried_again_at_once_whatever_is_noted_meanwhile() {
    let (_root, rows, log) = apart();
    begin(&log, 1);
    let failed = Instant::now();
    log.flush(&rows, Flush::All).expect("rows");
    log.rolled_back();
    assert!(log.due().is_some() && log.take_news());
    (2..2_000).for_each(|n| {
        begin(&log, n);
    });
    let due = log.due().expect("something is there");
    assert!(due >= failed + crate::calls::log::RETRY_AFTER);
    assert!(!log.take_news(), "it is known to come then");
}

#[test]
fn so_much_waits_for_rows_that_cannot_be_written_and_no_more() {
    let (_root, rows, log) = apart();
    begin(&log, 1);
    // A record is at least its two ids.
    let more = crate::calls::log::MOST_BYTES as u128 / 32;
    (0..more).for_each(|n| {
        log.record(&record(n));
    });
    let refused = log.begin(&generation(2), None);
    assert!(matches!(refused, Err(DatabaseError::Busy)), "{refused:?}");
    assert_eq!(end(&log, 1), Some(Settled::Now), "an end finds room");
    flush(&log, &rows, Flush::All);
    let taken = count(&rows, "calls");
    assert!(taken > 0 && u128::try_from(taken).is_ok_and(|taken| taken < more));
    begin(&log, 2);
}
