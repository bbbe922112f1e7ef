//! Webhooks of an installation with several replicas: what each of them does is told, by one of them.

use std::collections::BTreeMap;

use it::{Received, Receivers};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn what_every_replica_does_is_told_by_one_of_them() {
    let Some(fleet) = Fleet::start("what_every_replica_does_is_told_by_one_of_them").await else {
        return;
    };
    let receivers = Receivers::start().await.unwrap();
    let host = receivers.host();
    let flags = ["--webhook-private-hosts", &host];
    let one = fleet.replica_with("one", &flags).await;
    let other = fleet.replica_with("other", &flags).await;
    let url = receivers.url("/takes/all");
    let events = "job.created,job.ended,call.ended";
    let words = ["webhook", "add", "acme", "--url", &url, "--events", events];
    fleet.operate("one", &words).await;
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": 7}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "told"}},
    });
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(fleet.submit(&one, &graph).await);
        jobs.push(fleet.submit(&other, &graph).await);
    }
    for (server, key) in [(&one, "first"), (&other, "second")] {
        let called = server.send(&fleet.call(AT_ONCE, key)).await.unwrap();
        assert_eq!(called.status, 200, "{}", called.text());
    }
    let expected = 2 * jobs.len() + 2;
    in_time(receivers.until(|all| all.len() >= expected)).await;
    let taken = receivers.taken("/takes/all");
    assert_eq!(taken.len(), expected, "each once: {taken:#?}");
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in taken.iter().map(Received::json) {
        let id = event["data"]["id"].as_str().unwrap().to_owned();
        let kind = event["type"].as_str().unwrap().to_owned();
        told.entry(id).or_default().push(kind);
    }
    for job in &jobs {
        assert_eq!(told[job], ["job.created", "job.ended"]);
    }
    assert_eq!(told.len(), jobs.len() + 2, "and two calls");

    // The one that ends well hands its turn over.
    assert!(one.terminate().await.unwrap().success());
    let job = fleet.submit(&other, &graph).await;
    in_time(receivers.until(|all| all.iter().filter(|it| it.body.contains(&job)).count() >= 2))
        .await;
    drop(other);
}
