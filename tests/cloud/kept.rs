//! Kept results of an installation with several replicas: each is fetched by one of them, and what one left by the next.

use std::collections::BTreeMap;
use std::time::Instant;

use it::file_host::{FileHost, SECRET};

use super::*;

/// The results of a call, once none of them waits, as a replica lists them.
async fn kept(fleet: &Fleet, server: &Server, id: &str) -> Vec<Value> {
    let started = Instant::now();
    loop {
        let record = fleet.get(server, &format!("/v1/generations/{id}")).await;
        let results = record.json()["results"].as_array().unwrap().clone();
        if results.iter().all(|it| it["state"] != "waiting") {
            return results;
        }
        assert!(started.elapsed() < PATIENCE, "{results:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_replicas_keeps_a_result_and_another_one_what_a_dead_one_left() {
    let test = "one_of_several_replicas_keeps_a_result_and_another_one_what_a_dead_one_left";
    let Some(fleet) = Fleet::start(test).await else {
        return;
    };
    let files = FileHost::start().await.unwrap();
    let host = files.host();
    let flags = ["--keep-results", "--plain-partners", &host];
    let one = fleet.replica_with("one", &flags).await;
    let other = fleet.replica_with("other", &flags).await;
    let images = |paths: &[String]| {
        let images: Vec<Value> = paths
            .iter()
            .map(|path| json!({"url": files.url(path)}))
            .collect();
        json!({ "images": images }).to_string()
    };
    let named: Vec<String> = (0..12).map(|n| format!("/file/{n}")).collect();
    let answer = |body: String| {
        fleet
            .partners
            .answer_with(Partner::FalSync, "application/json", body);
    };
    let mut calls = Vec::new();
    for (n, (server, paths)) in [(&one, &named[..6]), (&other, &named[6..])]
        .into_iter()
        .enumerate()
    {
        answer(images(paths));
        let request = fleet.call(AT_ONCE, &format!("key-{n}"));
        let called = server.send(&request).await.unwrap();
        assert_eq!(called.status, 200, "{}", called.text());
        let id = called.header("x-service-request-id").unwrap().to_owned();
        calls.push((id, paths));
    }
    for (id, paths) in &calls {
        // Each replica lists what either of them kept.
        for server in [&one, &other] {
            let results = kept(&fleet, server, id).await;
            assert_eq!(results.len(), paths.len());
            for result in &results {
                assert_eq!(result["state"], "kept", "{result}");
                let url = result["url"].as_str().unwrap();
                let path = &url[url.find("/signed/").unwrap()..];
                let read = server.send(&Request::get(path)).await.unwrap();
                assert_eq!(read.status, 200);
            }
        }
    }
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    for path in files.seen() {
        *asked.entry(path).or_default() += 1;
    }
    assert_eq!(asked.len(), named.len());
    assert!(asked.values().all(|count| *count == 1), "{asked:?}");

    answer(images(&["/held/a".to_owned()]));
    let called = one.send(&fleet.call(AT_ONCE, "key-held")).await.unwrap();
    let id = called.header("x-service-request-id").unwrap().to_owned();
    in_time(files.until("/held/a", 1)).await;
    // Whoever has it dies. The other one takes it once its lease is over.
    one.kill().await.unwrap();
    other.kill().await.unwrap();
    files.release();
    let third = fleet.replica_with("third", &flags).await;
    let results = kept(&fleet, &third, &id).await;
    assert_eq!(results[0]["state"], "kept", "{results:?}");
    for name in ["one", "other", "third"] {
        assert!(!fleet.log(name).contains(SECRET), "an address is in a log");
    }
}
