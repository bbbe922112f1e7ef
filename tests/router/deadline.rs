//! A call that the router stopped waiting for goes on, and is collected.

use it::partners::{Outcome, Partner, Plan, Step};

use super::*;

#[tokio::test]
async fn what_completes_after_the_deadline_is_recorded_billed_and_collected() {
    let mut rig = Rig::with(&["--deadline", "1s"], &[]).await;
    rig.partners.plan(Partner::Bfl, Plan::held());
    let late = rig.keyed("k", POLLED, &prompt("a")).await;
    assert_eq!((late.status, late.header("retry-after")), (504, Some("1")));
    let task = rig.partners.tasks(Partner::Bfl).remove(0);
    rig.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    let answer = rig.keyed("k", POLLED, &prompt("a")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(rig.submits(Partner::Bfl), 1);
    let polls = rig.partners.requests_of(Partner::Bfl, Step::Poll);
    let last = polls.last().unwrap();
    assert!(last.target.contains("id=task-1"));
    let record = rig.record().await;
    let buckets: Vec<_> = record
        .iter()
        .map(|row| row.call.bucket.map(|bucket| bucket.name()))
        .collect();
    assert_eq!(buckets, [Some("deadline_exceeded"), None]);
    assert_eq!(record[0].generation, record[1].generation);
}
