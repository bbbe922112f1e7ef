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

#[tokio::test]
async fn retry_after_is_the_polling_interval_of_the_definition() {
    let rig = Rig::with(&["--deadline", "1s"], &[]).await;
    // Its pauses are spread by nine tenths.
    for n in 0..3 {
        rig.partners.plan(Partner::Bfl, Plan::held());
        let key = format!("k{n}");
        let late = rig.keyed(&key, "patient/flux-2-pro", &prompt("a")).await;
        let told = (late.status, late.header("retry-after"));
        assert_eq!(told, (504, Some("3")), "{}", late.text());
    }
}

#[tokio::test]
async fn a_model_has_a_time_of_its_own_after_which_its_task_is_cancelled() {
    let mut rig = Rig::start().await;
    rig.partners.plan(Partner::FalQueue, Plan::held());
    let given_up = rig.keyed("k", "brief/flux-dev", &prompt("a")).await;
    let detail = "the provider did not finish in time";
    assert_error(&given_up, 504, "provider_timeout", detail, &[]);
    rig.partners.seen(Partner::FalQueue, Step::Cancel, 1).await;
    let again = rig.keyed("k", "brief/flux-dev", &prompt("a")).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let record = rig.record().await;
    let generation = record[0].generation.as_ref().unwrap();
    assert_eq!(generation.charge_cents, Some(0), "nothing is billed");
}
