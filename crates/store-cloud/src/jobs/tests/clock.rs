//! A replica whose clock went wrong takes no job from one that runs it.

use std::time::Duration;

use workflow_core::LeaseNews;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn no_claim_lapses_by_a_clock_that_is_wrong() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let [own, wrong] = [testing::open(&url).await, testing::open(&url).await];
    let (one, other) = (jobs(&own), jobs(&wrong));
    let inserted = one.insert(submission(1), at(0)).await.expect("an answer");
    assert!(matches!(inserted, InsertJobOutcome::Inserted(_)));
    let claim = one.claim(&request(), at(1)).await.expect("an answer");
    let claim = claim.expect("the job is next");
    let before = testing::rows(&own, "migrations").await;
    // Ahead by an hour: the lease of 30 s seems to be over, and so does all waiting.
    let ahead = at(3_600);
    wrong.set_clocks_apart(3_600);
    assert_eq!(other.reap(ahead, ahead).await.expect("an answer"), []);
    assert_eq!(testing::rows(&own, "migrations").await, before);
    let claims = [(claim.job.id, claim.job.epoch)];
    let lease = Duration::from_secs(30);
    let renewed = one.renew(request().worker, &claims, lease, at(2)).await;
    assert_eq!(renewed.expect("an answer"), [LeaseNews::Renewed]);
    // The same look by a clock that is right.
    wrong.set_clocks_apart(0);
    let reaped = other.reap(at(0), at(33)).await.expect("an answer");
    assert_eq!(reaped.len(), 1);
}
