//! Results that are kept: fetched after the answer, listed with a link or the reason, and lost by no crash.

use std::time::{Duration, Instant};

use asset_store::{BlobHash, FileNames};
use it::file_host::{FileHost, SECRET};
use it::partners::Partner;

use super::*;

/// Far longer than the attempts that these tests wait for.
const PATIENCE: Duration = Duration::from_secs(120);

/// A rig that keeps results, and a host of the files that its partners name.
async fn rig(flags: &[&str], accounts: &[Differs<'_>]) -> (Rig, FileHost) {
    let files = FileHost::start().await.unwrap();
    let host = files.host();
    let own = ["--keep-results", "--plain-partners", &host];
    let rig = Rig::with(&[&own, flags].concat(), accounts).await;
    (rig, files)
}

/// What a partner answers that names these addresses.
fn images(urls: &[&str]) -> String {
    let images: Vec<Value> = urls.iter().map(|url| json!({ "url": url })).collect();
    // Spaces that a parser would take away.
    format!("{{ \"images\":  {}, \"seed\": 7 }}", Value::from(images))
}

impl Rig {
    /// Calls the model that answers at once, whose partner names these addresses; the id of the request.
    async fn made(&self, urls: &[&str]) -> String {
        self.made_by("acme", urls).await
    }

    async fn made_by(&self, account: &str, urls: &[&str]) -> String {
        let body = images(urls);
        self.partners
            .answer_with(Partner::FalSync, "application/json", body.clone());
        let answer = self.send(call_of(account, AT_ONCE, &prompt("a"))).await;
        assert_eq!((answer.status, answer.text()), (200, body));
        id_of(&answer)
    }

    async fn generation(&self, id: &str) -> Value {
        self.generation_of("acme", id).await
    }

    async fn generation_of(&self, account: &str, id: &str) -> Value {
        let asked = Request::get(&format!("/v1/generations/{id}"));
        let answer = self.send(of(account, asked)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// The results of a call, once none of them waits.
    async fn kept(&self, id: &str) -> Vec<Value> {
        self.kept_by("acme", id).await
    }

    async fn kept_by(&self, account: &str, id: &str) -> Vec<Value> {
        let started = Instant::now();
        loop {
            let results = self.generation_of(account, id).await["results"].clone();
            let results = results.as_array().unwrap().clone();
            if results.iter().all(|it| it["state"] != "waiting") {
                return results;
            }
            assert!(started.elapsed() < PATIENCE, "{results:#?}: {}", self.log());
        }
    }

    /// Whether a link leads to these bytes.
    async fn assert_reads(&self, result: &Value, expected: &[u8]) {
        assert_eq!(result["state"], "kept", "{result}");
        let url = result["url"].as_str().unwrap();
        let (_, rest) = url.split_once("://").unwrap();
        let path = &rest[rest.find('/').unwrap()..];
        let read = self.send(Request::get(path)).await;
        assert_eq!(read.status, 200);
        assert!(read.body == expected, "the bytes of {url}");
        assert_eq!(result["hash"], BlobHash::of(expected).to_string());
        assert_eq!(result["size_bytes"], expected.len());
        assert_eq!(read.header("content-type"), result["content_type"].as_str());
        let part = self
            .send(Request::get(path).header("Range", "bytes=3-8"))
            .await;
        assert_eq!((part.status, &part.body[..]), (206, &expected[3..9]));
    }
}

fn id_of(answer: &Answer) -> String {
    answer.header("x-service-request-id").unwrap().to_owned()
}

#[tokio::test]
async fn results_are_kept_after_the_answer_and_listed_with_a_link() {
    let plain = ("plain", vec![AccountChange::KeepResults(Some(false))]);
    let (rig, files) = rig(&[], &[plain]).await;
    let (a, b) = (files.url("/file/a"), files.url("/moved/b"));
    let id = rig.made(&[&a, &b, "data:image/png;base64,AAAA"]).await;
    let results = rig.kept(&id).await;
    let pointers: Vec<&Value> = results.iter().map(|it| &it["pointer"]).collect();
    assert_eq!(pointers, ["/images/0/url", "/images/1/url"]);
    rig.assert_reads(&results[0], &FileHost::file("a")).await;
    rig.assert_reads(&results[1], &FileHost::file("b")).await;
    let record = rig.generation(&id).await;
    assert_eq!(record["request_id"], id);
    assert_eq!(record["model"], AT_ONCE);
    assert_eq!(record["generation"]["status"], "ok");

    // The host of the files got no credential, and each file was asked for once.
    let heads = files.heads();
    assert!(
        heads
            .iter()
            .all(|head| !head.to_ascii_lowercase().contains("authorization"))
    );
    let mut seen = files.seen();
    seen.sort_unstable();
    assert_eq!(seen, ["/file/a", "/file/b", "/moved/b"]);

    // A changed link is none, and says where there is a fresh one.
    let url = results[0]["url"].as_str().unwrap();
    let path = &url[url.find("/signed/").unwrap()..];
    let forged = rig
        .send(Request::get(&path.replacen("/signed/", "/signed/x", 1)))
        .await;
    assert_eq!(forged.status, 403);
    assert!(
        forged.text().contains("/v1/generations/"),
        "{}",
        forged.text()
    );

    // Whose it is not, and who keeps nothing.
    let others = of("plain", Request::get(&format!("/v1/generations/{id}")));
    assert_eq!(rig.send(others).await.status, 404);
    for unknown in [&*Uuid::new_v4().to_string(), "x"] {
        let answer = rig.get(&format!("/v1/generations/{unknown}")).await;
        assert_eq!(answer.status, 404, "{unknown}");
    }
    let called = rig.send(call_of("plain", AT_ONCE, &prompt("b"))).await;
    let own = of(
        "plain",
        Request::get(&format!("/v1/generations/{}", id_of(&called))),
    );
    assert_eq!(rig.send(own).await.json()["results"], json!([]));
    assert!(!rig.log().contains(SECRET), "an address is in the log");
}

#[tokio::test]
async fn a_replay_and_a_queued_request_list_what_their_generation_keeps() {
    let (rig, files) = rig(&[], &[]).await;
    let body = images(&[&files.url("/file/a")]);
    rig.partners
        .answer_with(Partner::FalSync, "application/json", body.clone());
    let first = rig.keyed("once", AT_ONCE, &prompt("a")).await;
    let results = rig.kept(&id_of(&first)).await;
    rig.assert_reads(&results[0], &FileHost::file("a")).await;
    let replay = rig.keyed("once", AT_ONCE, &prompt("a")).await;
    assert_eq!(replay.text(), body);
    assert_ne!(id_of(&replay), id_of(&first));
    // What is told of a call is written down a moment later.
    let again = rig.kept(&id_of(&replay)).await;
    assert_eq!(again[0]["asset_id"], results[0]["asset_id"]);
    let generation = rig.generation(&id_of(&replay)).await["generation"].clone();
    assert_eq!(generation["id"], id_of(&first));

    let sample = json!({"id": "t", "status": "Ready", "result": {"sample": files.url("/file/b")}});
    rig.partners
        .answer_with(Partner::Bfl, "application/json", sample.to_string());
    let submit = Request::post_json(&format!("/v2/models/{POLLED}/requests"), &prompt("b"));
    let submitted = rig.send(of("acme", submit)).await;
    assert_eq!(submitted.status, 201, "{}", submitted.text());
    let id = submitted.json()["request_id"].as_str().unwrap().to_owned();
    files.until("/file/b", 1).await;
    let results = rig.kept(&id).await;
    assert_eq!(results[0]["pointer"], "/result/sample");
    rig.assert_reads(&results[0], &FileHost::file("b")).await;
    assert_eq!(files.seen(), ["/file/a", "/file/b"]);
}

#[tokio::test]
async fn what_cannot_be_kept_says_why_and_what_fails_once_is_tried_again() {
    let (rig, files) = rig(&["--kept-result-size", "1MiB"], &[]).await;
    let urls = [
        files.url("/missing/a"),
        files.url("/endless/b"),
        "https://127.0.0.1:1/private".to_owned(),
        "http://files.example/plain".to_owned(),
        files.url("/fails/1/c"),
    ];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let id = rig.made(&urls).await;
    let results = rig.kept(&id).await;
    let states: Vec<&str> = results
        .iter()
        .map(|it| it["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["failed", "failed", "failed", "failed", "kept"]);
    let reasons: Vec<&str> = results[..4]
        .iter()
        .map(|it| it["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons[0], "its address answered with status 404");
    assert_eq!(
        reasons[1],
        "it is larger than 1048576 bytes (`kept_result_size`)"
    );
    assert!(
        reasons[2].contains("not on the public internet"),
        "{}",
        reasons[2]
    );
    assert!(reasons[3].contains("plain http"), "{}", reasons[3]);
    rig.assert_reads(&results[4], &FileHost::file("c")).await;
    let asked = |path: &str| files.seen().iter().filter(|it| *it == path).count();
    assert_eq!(
        (
            asked("/missing/a"),
            asked("/endless/b"),
            asked("/fails/1/c")
        ),
        (3, 1, 2)
    );
    let record = rig.generation(&id).await;
    assert!(!record.to_string().contains(SECRET) && !rig.log().contains(SECRET));
    // The call itself was none of these failures.
    assert_eq!(record["generation"]["status"], "ok");
}

#[tokio::test]
async fn killed_while_results_are_fetched_none_is_lost_and_no_file_is_there_twice() {
    let (mut rig, files) = rig(&[], &[]).await;
    let held = files.url("/held/a");
    let id = rig.made(&[&held]).await;
    let keyed = images(&[&files.url("/held/b"), &files.url("/file/c")]);
    rig.partners
        .answer_with(Partner::FalSync, "application/json", keyed);
    let second = rig.keyed("once", AT_ONCE, &prompt("b")).await;
    files.until("/held/a", 1).await;
    files.until("/held/b", 1).await;
    assert_eq!(rig.generation(&id).await["results"][0]["state"], "waiting");
    rig.kill().await;
    files.release();
    rig.begin().await;
    for (id, names) in [(id, &["a"][..]), (id_of(&second), &["b", "c"])] {
        let results = rig.kept(&id).await;
        assert_eq!(results.len(), names.len());
        for (result, name) in results.iter().zip(names) {
            rig.assert_reads(result, &FileHost::file(name)).await;
        }
    }
    rig.end().await;
    let store = Store::open(&rig.data()).unwrap();
    let acme = "acme".parse().unwrap();
    let records = store.records();
    let named = records.named(&acme, false, 100, Timestamp::now()).await;
    assert_eq!(named.unwrap().len(), 3, "each file is one asset");
}

#[tokio::test]
async fn results_that_do_not_come_take_no_place_from_other_accounts() {
    let others: Vec<Differs<'_>> = vec![("beta", Vec::new()), ("gamma", Vec::new())];
    let (rig, files) = rig(&[], &others).await;
    // More than there are places, and none of them ends.
    let held: Vec<String> = (0..20).map(|n| files.url(&format!("/held/{n}"))).collect();
    let held: Vec<&str> = held.iter().map(String::as_str).collect();
    let slow = rig.made(&held).await;
    for n in 0..4 {
        files.until(&format!("/held/{n}"), 1).await;
    }
    // Two other accounts have theirs meanwhile, each with a slow one beside.
    for name in ["beta", "gamma"] {
        let slow = files.url(&format!("/held/{name}"));
        let urls: Vec<String> = (0..6)
            .map(|n| files.url(&format!("/file/{name}-{n}")))
            .collect();
        let mut all: Vec<&str> = vec![&slow];
        all.extend(urls.iter().map(String::as_str));
        let id = rig.made_by(name, &all).await;
        files.until(&format!("/held/{name}"), 1).await;
        let started = Instant::now();
        loop {
            let record = rig.generation_of(name, &id).await;
            let results = record["results"].as_array().unwrap();
            let waiting = results.iter().filter(|it| it["state"] == "waiting");
            if waiting.count() == 1 {
                break;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "{record:#?}: {:?}",
                files.seen()
            );
        }
    }
    let asked = |what: &str| {
        let seen = files.seen();
        let asked = seen.iter().filter(|path| path.starts_with(what));
        asked.count()
    };
    assert_eq!(asked("/held/"), 4 + 2, "an account has no more than half");
    // Nothing is lost of the account that had to wait.
    files.release();
    let results = rig.kept(&slow).await;
    assert_eq!(results.len(), held.len());
    for result in &results {
        assert_eq!(result["state"], "kept", "{result}");
    }
    assert_eq!(asked("/held/"), 20 + 2, "each was fetched once");
}
