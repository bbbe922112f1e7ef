//! Values that are not allowed.

use super::*;

#[test]
fn a_job_may_run_for_a_day_and_no_longer() {
    let read = |limit| Config::of(&[("run_limit", limit)]);
    let day = read("24h").expect("it is allowed");
    assert_eq!(day.workflows.run_limit, LONGEST_RUN.unsigned_abs());
    for beyond in ["86400001ms", "2d", "0s"] {
        let refused = read(beyond).expect_err(beyond).to_string();
        assert!(refused.contains("`run_limit` cannot be"), "{refused}");
        assert!(refused.ends_with("at most 24h"), "{refused}");
    }
}
