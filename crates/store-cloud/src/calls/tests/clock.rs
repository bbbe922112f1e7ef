//! A replica whose clock went wrong takes no call and no result from one that works on it.

use router_core::{Answer, KeptResults, ResultAddress, ResultLink, ResultTurn};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn no_call_and_no_result_is_taken_by_a_clock_that_is_wrong() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let [own, wrong] = [testing::open(&url).await, testing::open(&url).await];
    let ((one, stores), (other, _)) = (stores(&own).await, stores(&wrong).await);
    open_account(&*stores.admin).await;
    for n in 1..=2 {
        let begun = admit(&one, &generation(n), None, lease()).await;
        assert_eq!(begun, Dispatched::Begun);
    }
    let address = ResultAddress::read("https://files.example.com/one.png").expect("an address");
    let link = ResultLink {
        pointer: "/images/0/url".to_owned(),
        address,
    };
    let ending = Ending::Kept {
        outcome: Outcome::Answered(Answer {
            content_type: "application/json".to_owned(),
            body: Bytes::from_static(b"{}"),
        }),
        charge_cents: 0,
        results: vec![link],
    };
    let settled = one
        .settle((id(2), OWNER), &acme(), ending, None, at(1))
        .await;
    assert_eq!(settled.expect("it answers"), Settled::Now);
    let fetching = KeptResults::take(&one, lease(), &ResultTurn::default(), at(2)).await;
    assert!(fetching.expect("it answers").is_some());

    let lease = Lease {
        owner: OwnerId(Uuid::from_u128(2)),
        ..lease()
    };
    let before = testing::rows(&own, "migrations").await;
    // Ahead by an hour: all leases of the other one seem to be over.
    let ahead = at(3_600);
    wrong.set_clocks_apart(3_600);
    assert_eq!(
        other.take_over(lease, 10, ahead).await.expect("it answers"),
        []
    );
    let taken = KeptResults::take(&other, lease, &ResultTurn::default(), ahead).await;
    assert_eq!(taken.expect("it answers"), None);
    assert_eq!(testing::rows(&own, "migrations").await, before);
    // The same by a clock that is right, once they are.
    wrong.set_clocks_apart(0);
    let taken = other
        .take_over(lease, 10, at(40))
        .await
        .expect("it answers");
    assert_eq!(taken.len(), 1);
    let taken = KeptResults::take(&other, lease, &ResultTurn::default(), at(40)).await;
    assert!(taken.expect("it answers").is_some());
}
