//! Two replicas of one installation: what one begins, the other shows, tells, replays and stops.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use it::partners::{Outcome, Partner, Plan, Step};
use it::{Connection, Request};
use serde_json::{Value, json};

use super::*;

/// A replica's stream of a job, from here on.
pub(super) struct Stream {
    connection: Connection,
    heard: String,
}

impl Stream {
    pub(super) async fn open(fleet: &Fleet, server: &Server, job: &str) -> Self {
        let request = fleet.own(Request::get(&format!("/api/v2/jobs/{job}/events")));
        let mut connection = Connection::open(server.address).await.unwrap();
        let bytes = request.bytes(server.address);
        connection.write(&bytes).await.unwrap();
        let (status, _) = connection.head().await.unwrap();
        assert_eq!(status, 200);
        Self {
            connection,
            heard: String::new(),
        }
    }

    /// Hears until this was said.
    pub(super) async fn until(&mut self, words: &str) {
        while !self.heard.contains(words) {
            let chunk = in_time(self.connection.chunk()).await.unwrap();
            let chunk = chunk.unwrap_or_else(|| panic!("no {words} in {}", self.heard));
            self.heard.push_str(&String::from_utf8(chunk).unwrap());
        }
    }

    /// What is told from the last such event on to the end, but for how far it got: a reader is told the newest of that alone.
    pub(super) async fn rest(mut self, from: &str) -> Vec<(String, Value)> {
        while let Some(chunk) = in_time(self.connection.chunk()).await.unwrap() {
            self.heard.push_str(&String::from_utf8(chunk).unwrap());
        }
        let mut events = events_in(&self.heard);
        events.retain(|event| !event.contains("event: progress"));
        let start = events.iter().rposition(|event| event.contains(from));
        let events = &events[start.unwrap_or_else(|| panic!("{events:#?}"))..];
        let told = events.iter().map(|event| {
            let (name, data) = event.split_once("\ndata: ").unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            // An output is told by itself, too.
            let data = match data["outputs"].is_null() {
                true => json!({"outputs": [data]}),
                false => data,
            };
            (name.to_owned(), without_links(data))
        });
        told.collect()
    }
}

/// What a partner answers with that made a picture.
pub(super) fn ready() -> String {
    let pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let sample = format!("data:image/png;base64,{pixel}");
    json!({"id": "t", "status": "Ready", "result": {"sample": sample}}).to_string()
}

/// `EmptyImage -> edit -> SaveImage`: it runs until the partner is done.
pub(super) fn edit(prompt: &str) -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": 7}},
        "2": {"class_type": "partner:bfl:flux-kontext-pro", "inputs": {"prompt": prompt, "input_image": ["1", 0], "seed": 7}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "edited"}},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_one_replica_is_seen_told_and_fetched_on_the_other() {
    let Some(fleet) = Fleet::start("a job of two replicas").await else {
        return;
    };
    let (a, b) = tokio::join!(fleet.replica("a"), fleet.replica("b"));
    fleet.partners.plan(Partner::Bfl, Plan::held());
    fleet
        .partners
        .answer_with(Partner::Bfl, "application/json", ready());
    let job = fleet.submit(&a, &edit("slow")).await;
    in_time(fleet.partners.seen(Partner::Bfl, Step::Poll, 1)).await;
    let mut streams = Vec::new();
    for server in [&a, &b] {
        let mut stream = Stream::open(&fleet, server, &job).await;
        stream.until("running").await;
        streams.push(stream);
    }
    let task = fleet.partners.tasks(Partner::Bfl).remove(0);
    fleet.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    let there = streams.pop().unwrap().rest("running").await;
    let here = streams.pop().unwrap().rest("running").await;
    assert_eq!(here, there);
    assert_eq!(here.last().unwrap().1["status"], "succeeded", "{here:#?}");

    let (here, there) = tokio::join!(fleet.look(&a, &job), fleet.look(&b, &job));
    assert_eq!(here["outputs"][0]["hash"], there["outputs"][0]["hash"]);
    let output = there["outputs"][0]["id"].as_str().unwrap();
    let content = format!("/api/v2/assets/{output}/content");
    let (here, there) = tokio::join!(fleet.get(&a, &content), fleet.get(&b, &content));
    assert_eq!(here.body, there.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_one_replica_is_cancelled_through_the_other() {
    let Some(fleet) = Fleet::start("a cancel through another replica").await else {
        return;
    };
    let (a, b) = tokio::join!(fleet.replica("a"), fleet.replica("b"));
    for (through, n) in [(&a, 1), (&b, 2)] {
        fleet.partners.plan(Partner::Bfl, Plan::held());
        let job = fleet.submit(&a, &edit(&format!("never {n}"))).await;
        in_time(fleet.partners.seen(Partner::Bfl, Step::Submit, n)).await;
        let cancel = Request::new("POST", &format!("/api/v2/jobs/{job}/cancel"));
        fleet.send(through, cancel).await;
        for server in [&a, &b] {
            assert_eq!(fleet.ended(server, &job).await["status"], "canceled");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_sessions_and_keys_of_one_replica_count_on_the_other() {
    let Some(fleet) = Fleet::start("links of two replicas").await else {
        return;
    };
    let (a, b) = tokio::join!(fleet.replica("a"), fleet.replica("b"));
    let asset = fleet.upload(&a, "hello.txt", b"hello").await;
    let link = path_of(asset["url"].as_str().unwrap());
    let linked = b.send(&Request::get(&link)).await.unwrap();
    assert_eq!((linked.status, linked.text()), (200, "hello".to_owned()));

    let sign_in = Request::post_json("/api/session", &json!({"key": fleet.key}));
    let cookie = a.send(&sign_in).await.unwrap();
    let cookie = cookie.header("set-cookie").unwrap().split(';').next();
    let with = |request: Request| request.header("Cookie", cookie.unwrap());
    let queue = with(Request::get("/api/queue"));
    assert_eq!(b.send(&queue).await.unwrap().status, 200);
    let out = with(Request::new("DELETE", "/api/session"));
    assert_eq!(b.send(&out).await.unwrap().status, 204);
    assert_eq!(a.send(&queue).await.unwrap().status, 401);

    let submission = || {
        let request = Request::post_json("/api/v2/jobs", &json!({"workflow": tiny_graph(3)}));
        request.header("Idempotency-Key", "job")
    };
    let first = fleet.send(&a, submission()).await.json();
    let again = fleet.send(&b, submission()).await.json();
    assert_eq!(first["id"], again["id"]);

    let first = a.send(&fleet.call(AT_ONCE, "call")).await.unwrap();
    assert_eq!(first.status, 200, "{}", first.text());
    let again = b.send(&fleet.call(AT_ONCE, "call")).await.unwrap();
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert_eq!(fleet.submits(Partner::FalSync), 1);
    assert_eq!(fleet.charges("b").await, [-1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_in_flight_are_bounded_over_all_replicas() {
    const BOUND: usize = 4;
    let Some(fleet) = Fleet::start("a bound of two replicas").await else {
        return;
    };
    let flags = ["--concurrent-calls", "4"];
    let (a, b) = tokio::join!(
        fleet.replica_with("a", &flags),
        fleet.replica_with("b", &flags)
    );
    for round in 0..3 {
        for _ in 0..BOUND {
            fleet.partners.plan(Partner::Bfl, Plan::held());
        }
        let calls = (0..4 * BOUND).map(|n| {
            let server = [&a, &b][n % 2];
            let call = fleet.call(POLLED, &format!("{round}-{n}"));
            async move { server.send(&call).await.unwrap() }
        });
        let mut calls: FuturesUnordered<_> = calls.collect();
        // Those that were admitted go on until their tasks end.
        for _ in BOUND..4 * BOUND {
            let refused = in_time(calls.next()).await.unwrap();
            assert_eq!(refused.status, 429, "{}", refused.text());
        }
        let ending = async {
            let seen = (round + 1) * BOUND;
            in_time(fleet.partners.seen(Partner::Bfl, Step::Submit, seen)).await;
            let tasks = fleet.partners.tasks(Partner::Bfl);
            assert_eq!(tasks.len(), seen);
            for task in &tasks[round * BOUND..] {
                fleet.partners.end(Partner::Bfl, task, Outcome::Succeed);
            }
        };
        let ((), answers) = tokio::join!(ending, in_time(calls.collect::<Vec<_>>()));
        for answer in answers {
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    }
}
