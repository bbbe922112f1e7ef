//! Entries that a program without the router found in the log.

use super::log::{apart, begin, count, end, known, log_of};
use super::*;
use crate::call_log_rows::{LOG, park};
use crate::database::Participant;
use crate::log_files;

#[test]
fn what_a_program_without_the_router_kept_of_the_log_is_brought_in_by_the_next_one_with_it() {
    let (root, rows, log) = apart();
    begin(&log, 1);
    begin(&log, 2);
    assert_eq!(end(&log, 1), Some(Settled::Now));
    drop(log);
    let contents = log_files::read(root.path(), LOG).expect("a disk");
    // Twice: a backup of a backup.
    for _ in 0..2 {
        park(&rows, &contents).expect("rows");
        assert_eq!(known(&rows), (0, 0), "nothing was read");
        assert_eq!(count(&rows, "call_log"), 1);
    }
    let log = log_of(root.path(), &rows);
    assert_eq!(known(&rows), (2, 1));
    assert_eq!(count(&rows, "call_log"), 0);
    assert!(!log.is_ahead());
}
