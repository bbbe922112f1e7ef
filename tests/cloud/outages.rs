//! What a fleet does when a part of it dies, sleeps or goes away for a while: nothing that was acknowledged is lost, and nothing
//! is done twice.

use std::collections::{BTreeMap, BTreeSet};

use it::partners::{Fault, Outcome, Partner, Plan, Step};
use it::{Connection, Request};
use serde_json::json;
use store_cloud::testing::PostgresServer;
use tokio::sync::{mpsc, watch};

use super::two::{edit, ready};
use super::*;

/// Sends a process a signal.
async fn signal(server: &Server, name: &str) {
    let mut command = Command::new("kill");
    let sent = command.args(["-s", name]).arg(server.pid().to_string());
    assert!(sent.status().await.unwrap().success());
}

/// How each job was told to have ended, on a stream of its account that was open before any of them; read until these have
/// ended. A job is told anew when something of it changes, so an end may be told twice, but not two ends.
async fn ends_of(mut stream: Connection, jobs: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let mut ends: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut told = String::new();
    while jobs.iter().any(|job| !ends.contains_key(job)) {
        let chunk = in_time(stream.chunk()).await.unwrap().unwrap();
        told.push_str(&String::from_utf8(chunk).unwrap());
        while let Some((event, behind)) = told.split_once("\n\n") {
            let data = event.lines().find_map(|line| line.strip_prefix("data: "));
            let job: Value = serde_json::from_str(data.unwrap_or("null")).unwrap();
            if let (Some(id), Some("succeeded" | "failed")) =
                (job["id"].as_str(), job["status"].as_str())
            {
                let end = format!("{} at {}", job["status"], job["update_time"]);
                ends.entry(id.to_owned()).or_default().insert(end);
            }
            told = behind.to_owned();
        }
    }
    ends
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_replica_that_is_killed_end_elsewhere_once() {
    const CLIENTS: usize = 4;
    let Some(fleet) = Fleet::start("a replica that is killed").await else {
        return;
    };
    let (a, b) = tokio::join!(fleet.replica("a"), fleet.replica("b"));
    let follow = fleet.own(Request::get("/api/v2/events"));
    let mut stream = Connection::open(b.address).await.unwrap();
    stream.write(&follow.bytes(b.address)).await.unwrap();
    assert_eq!(stream.head().await.unwrap().0, 200);
    let first = in_time(stream.chunk()).await.unwrap().unwrap();
    assert!(String::from_utf8(first).unwrap().contains("sync"));

    let (told, mut hears) = mpsc::unbounded_channel();
    let submitting = (0..CLIENTS).map(|client| {
        let (told, fleet, address) = (told.clone(), &fleet, a.address);
        async move {
            for n in 0.. {
                let body = json!({"workflow": tiny_graph(client * 10_000 + n)});
                let request = fleet.own(Request::post_json("/api/v2/jobs", &body));
                match request.send(address).await {
                    Ok(answer) if answer.status == 201 => {
                        let id = answer.json()["id"].as_str().unwrap().to_owned();
                        told.send(id).unwrap();
                    }
                    Ok(answer) => assert_eq!(answer.status, 429, "{}", answer.text()),
                    Err(_) => return,
                }
            }
        }
    });
    let submitting = futures_util::future::join_all(submitting);
    let killing = async {
        let mut jobs = Vec::new();
        while jobs.len() < 40 {
            jobs.push(in_time(hears.recv()).await.unwrap());
        }
        a.kill().await.unwrap();
        jobs
    };
    let (_, mut jobs) = tokio::join!(submitting, killing);
    drop(told);
    while let Some(job) = hears.recv().await {
        jobs.push(job);
    }
    for id in &jobs {
        let job = fleet.ended(&b, id).await;
        let is_lost = job["status"] == "failed" && job["error"]["code"] == "worker_lost";
        assert!(job["status"] == "succeeded" || is_lost, "{job:#}");
        for output in job["outputs"].as_array().unwrap() {
            let id = output["id"].as_str().unwrap();
            fleet.get(&b, &format!("/api/v2/assets/{id}/content")).await;
        }
    }
    for (id, ends) in ends_of(stream, &jobs).await {
        assert_eq!(ends.len(), 1, "{id}: {ends:?}");
    }
    assert!(b.terminate().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_replica_that_is_killed_is_taken_over_and_billed_once() {
    let Some(fleet) = Fleet::start("a call that is taken over").await else {
        return;
    };
    let (a, b) = tokio::join!(fleet.replica("a"), fleet.replica("b"));
    fleet.partners.plan(Partner::Bfl, Plan::held());
    let call = fleet.call(POLLED, "k");
    let mut connection = Connection::open(a.address).await.unwrap();
    connection.write(&call.bytes(a.address)).await.unwrap();
    in_time(fleet.partners.seen(Partner::Bfl, Step::Poll, 1)).await;
    a.kill().await.unwrap();
    let polls = fleet.partners.requests_of(Partner::Bfl, Step::Poll).len();
    // Nobody retries: the other replica goes on by itself.
    in_time(fleet.partners.seen(Partner::Bfl, Step::Poll, polls + 1)).await;
    let task = fleet.partners.tasks(Partner::Bfl).remove(0);
    fleet.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    let answer = in_time(b.send(&call)).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let again = b.send(&call).await.unwrap();
    assert_eq!((again.status, again.body), (200, answer.body));
    assert_eq!(fleet.submits(Partner::Bfl), 1);
    assert_eq!(fleet.charges("b").await, [-4]);
    assert!(b.terminate().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_a_replica_that_is_killed_ends_with_an_unknown_outcome() {
    let Some(fleet) = Fleet::start("a stream that is cut by a kill").await else {
        return;
    };
    let (a, b) = tokio::join!(fleet.replica("a"), fleet.replica("b"));
    let partner = streams::partner();
    let pieces = Fault::Pieces(streams::events(), false);
    fleet.partners.fault(partner, Step::Submit, pieces);
    let path = format!("/v1/models/{}", streams::MODEL);
    let call = Request::post_json(&path, &streams::body()).header("Idempotency-Key", "k");
    let call = fleet.own(call);
    let mut connection = Connection::open(a.address).await.unwrap();
    connection.write(&call.bytes(a.address)).await.unwrap();
    assert_eq!(connection.head().await.unwrap().0, 200);
    let first = connection.chunk().await.unwrap();
    assert_eq!(first.as_ref(), Some(&streams::events()[0]));
    a.kill().await.unwrap();
    // The retry waits until the lease of the dead replica is over.
    let answer = in_time(b.send(&call)).await.unwrap();
    let bucket = answer.header("x-service-error-type");
    assert_eq!((answer.status, bucket), (502, Some("provider_error")));
    assert!(answer.text().contains("unknown"), "{}", answer.text());
    assert_eq!(fleet.submits(partner), 1);
    assert!(fleet.charges("b").await.is_empty());
    assert!(b.terminate().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_slept_past_its_leases_writes_nothing() {
    let Some(fleet) = Fleet::start("a replica that sleeps").await else {
        return;
    };
    let a = fleet.replica("a").await;
    for _ in 0..2 {
        fleet.partners.plan(Partner::Bfl, Plan::held());
    }
    let finished = (Partner::Bfl, "application/json", ready());
    fleet
        .partners
        .answer_with(finished.0, finished.1, finished.2);
    // Nobody else is there: this replica runs both.
    let job = fleet.submit(&a, &edit("slow")).await;
    in_time(fleet.partners.seen(Partner::Bfl, Step::Poll, 1)).await;
    let call = fleet.call(POLLED, "k");
    let mut connection = Connection::open(a.address).await.unwrap();
    connection.write(&call.bytes(a.address)).await.unwrap();
    in_time(fleet.partners.seen(Partner::Bfl, Step::Submit, 2)).await;
    let both_polled = |asked: &[it::partners::Recorded]| {
        let tasks: BTreeSet<_> = asked.iter().map(|it| it.target.clone()).collect();
        tasks.len() == 2
    };
    let mut polls = 2;
    while !both_polled(&in_time(fleet.partners.seen(Partner::Bfl, Step::Poll, polls)).await) {
        polls += 1;
    }
    let b = fleet.replica("b").await;
    signal(&a, "STOP").await;
    let asleep = fleet.partners.requests_of(Partner::Bfl, Step::Poll).len();
    let mut polls = asleep + 1;
    while !both_polled(
        &in_time(fleet.partners.seen(Partner::Bfl, Step::Poll, polls)).await[asleep..],
    ) {
        polls += 1;
    }
    for task in fleet.partners.tasks(Partner::Bfl) {
        fleet.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    }
    let before = fleet.ended(&b, &job).await;
    assert_eq!(before["status"], "succeeded", "{before:#}");
    let answer = in_time(b.send(&call)).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());

    signal(&a, "CONT").await;
    // It works again, and what it had in hand is not its own any more.
    let other = fleet.submit(&a, &tiny_graph(9)).await;
    assert_eq!(fleet.ended(&a, &other).await["status"], "succeeded");
    let late = in_time(connection.answer(false)).await.unwrap();
    assert!(
        late.status != 200 || late.body == answer.body,
        "{}",
        late.text()
    );
    assert_eq!(a.send(&call).await.unwrap().body, answer.body);
    assert!(a.terminate().await.unwrap().success());
    let after = fleet.look(&b, &job).await;
    assert_eq!(without_links(after), without_links(before));
    assert_eq!(fleet.submits(Partner::Bfl), 2);
    assert_eq!(fleet.charges("b").await, [-4, -4]);
    assert!(b.terminate().await.unwrap().success());
}

/// Submits jobs to a replica one after the other until `stop`, each as often as it takes under one key; tells each that was
/// acknowledged.
async fn submit_on(
    fleet: &Fleet,
    server: &Server,
    name: &str,
    stop: &watch::Receiver<bool>,
    acknowledged: &watch::Sender<usize>,
) -> Vec<String> {
    let mut jobs = Vec::new();
    while !*stop.borrow() {
        let n = jobs.len();
        let body = json!({"workflow": tiny_graph(n)});
        let request = Request::post_json("/api/v2/jobs", &body);
        let request = fleet.own(request.header("Idempotency-Key", &format!("{name}-{n}")));
        let answer = in_time(server.send(&request)).await.unwrap();
        if answer.status == 201 {
            jobs.push(answer.json()["id"].as_str().unwrap().to_owned());
            acknowledged.send_modify(|count| *count += 1);
        } else {
            assert!(
                answer.status == 429 || answer.status >= 500,
                "{}: {}",
                answer.status,
                answer.text()
            );
        }
    }
    jobs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_away_and_comes_back_loses_nothing() {
    if !is_possible("a database that goes away").await {
        return;
    }
    let postgres = PostgresServer::start(&[]);
    let Some(fleet) = Fleet::over(postgres.url("postgres")).await else {
        return;
    };
    let (a, b) = tokio::join!(fleet.replica("a"), fleet.replica("b"));
    let (stop, stopped) = watch::channel(false);
    let acknowledged = watch::Sender::new(0);
    let more = async || {
        let mut acknowledged = acknowledged.subscribe();
        let enough = *acknowledged.borrow() + 10;
        let told = acknowledged.wait_for(|count| *count >= enough);
        in_time(told).await.unwrap();
    };
    let outages = async {
        more().await;
        for outage in ["backends", "INT", "backends", "QUIT"] {
            if outage == "backends" {
                const CUT: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                     WHERE application_name LIKE 'easel%'";
                postgres.execute("postgres", CUT).await;
            } else {
                tokio::task::block_in_place(|| postgres.restart(outage));
            }
            more().await;
        }
        for server in [&a, &b] {
            let call = fleet.call(AT_ONCE, &format!("after {}", server.address));
            let answer = in_time(server.send(&call)).await.unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        stop.send_replace(true);
    };
    let (here, there, ()) = tokio::join!(
        submit_on(&fleet, &a, "a", &stopped, &acknowledged),
        submit_on(&fleet, &b, "b", &stopped, &acknowledged),
        outages
    );
    // Each replica tells the end of what the other took in.
    for (server, jobs) in [(&b, here), (&a, there)] {
        for id in jobs {
            let job = fleet.ended(server, &id).await;
            assert_eq!(job["status"], "succeeded", "{job:#}");
        }
    }
    assert_eq!(fleet.submits(Partner::FalSync), 2);
    assert_eq!(fleet.charges("a").await, [-1, -1]);
    for server in [a, b] {
        assert!(server.terminate().await.unwrap().success());
    }
}

/// It takes connections and bytes, and answers nothing, as a machine does whose disk hangs.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_says_nothing_for_a_while_loses_nothing() {
    if !is_possible("a database that says nothing").await {
        return;
    }
    let postgres = PostgresServer::start(&["fsync=off"]);
    let Some(fleet) = Fleet::over(postgres.url("postgres")).await else {
        return;
    };
    // Few connections, so that what nobody watches can have all of them.
    let few = ["--store-connections", "3"];
    let (a, b) = tokio::join!(fleet.replica_with("a", &few), fleet.replica_with("b", &few));
    let (stop, stopped) = watch::channel(false);
    let acknowledged = watch::Sender::new(0);
    let silence = async {
        let mut told = acknowledged.subscribe();
        in_time(told.wait_for(|count| *count >= 10)).await.unwrap();
        tokio::task::block_in_place(|| postgres.silence());
        let look = fleet.own(Request::get("/api/v2/jobs"));
        let looks = (0..8).map(|n| [&a, &b][n % 2].send(&look));
        // Nobody is kept waiting until it is over.
        for answer in in_time(futures_util::future::join_all(looks)).await {
            let answer = answer.unwrap();
            assert!([200, 500].contains(&answer.status), "{}", answer.text());
        }
        let ended = async {
            while !["a", "b"]
                .iter()
                .all(|name| fleet.log(name).contains("said nothing for long"))
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        in_time(ended).await;
        tokio::task::block_in_place(|| postgres.wake());
        let enough = *told.borrow() + 10;
        in_time(told.wait_for(|count| *count >= enough))
            .await
            .unwrap();
        stop.send_replace(true);
    };
    let (here, there, ()) = tokio::join!(
        submit_on(&fleet, &a, "a", &stopped, &acknowledged),
        submit_on(&fleet, &b, "b", &stopped, &acknowledged),
        silence
    );
    for (server, jobs) in [(&b, here), (&a, there)] {
        for id in jobs {
            let job = fleet.ended(server, &id).await;
            // Nobody knows whether an end was written that got no answer.
            let is_lost = job["status"] == "failed" && job["error"]["code"] == "worker_lost";
            assert!(job["status"] == "succeeded" || is_lost, "{job:#}");
        }
    }
    let call = fleet.call(AT_ONCE, "after");
    assert_eq!(in_time(a.send(&call)).await.unwrap().status, 200);
    assert_eq!(fleet.charges("b").await, [-1]);
    for server in [a, b] {
        assert!(server.terminate().await.unwrap().success());
    }
}
