//! A queue with thousands of requests: what they take of the memory, and that a submission and a look at one take as long as with
//! ten.

use std::io::Write;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use it::http::Connection;
use it::partners::{Partner, Plan};

use super::*;

/// Requests that wait, unless `EASEL_QUEUED` says otherwise. A queue takes 200,000 in all.
const QUEUED: usize = 2_000;

/// Connections that submit them.
const CONNECTIONS: usize = 8;

/// How often a submission, a look and a withdrawal are timed.
const TIMED: usize = 60;

/// Memory that a waiting request may take: its id and its account's place. Its body and its row are on the disk.
const MOST_BYTES_EACH: u64 = 1_024;

/// Memory that may come beside, whatever waits: caches of the database, buffers of connections.
const MOST_BYTES_BESIDE: u64 = 32 << 20;

/// How much longer a submission or a look may take; that of a busy machine is within it.
const MOST_SLOWER: f64 = 2.5;

/// The medians of what was timed.
#[derive(Debug)]
struct Times {
    submission: Duration,
    look: Duration,
    withdrawal: Duration,
}

fn submission(n: usize) -> Request {
    let body = json!({"prompt": format!("{n} {}", "p".repeat(900))});
    let path = format!("/v2/models/{POLLED}/requests");
    of("crowd", Request::post_json(&path, &body))
}

/// The path of an address.
fn path_of_url(url: &Value) -> String {
    let (_, rest) = url.as_str().unwrap().split_once("://").unwrap();
    rest[rest.find('/').unwrap()..].to_owned()
}

impl Rig {
    /// Submits requests `from` to `to` over some connections.
    async fn fill(&self, from: usize, to: usize) {
        let address = self.server().address;
        let lanes = (0..CONNECTIONS).map(async |lane| {
            let mut connection = Connection::open(address).await.unwrap();
            for n in (from + lane..to).step_by(CONNECTIONS) {
                let answer = connection.send(&submission(n).bytes(address)).await;
                answer.unwrap().expect_status(201).unwrap();
            }
        });
        join_all(lanes).await;
    }

    /// Submits, looks and withdraws, one after the other, so that the queue stays as long as it is.
    async fn times(&self, waiting: usize) -> Times {
        let address = self.server().address;
        let mut connection = Connection::open(address).await.unwrap();
        let mut times: [Vec<Duration>; 3] = Default::default();
        for n in 0..TIMED {
            let mut timed = async |place: usize, request: Request, status: u16| {
                let bytes = request.bytes(address);
                let began = Instant::now();
                let answer = connection.send(&bytes).await.unwrap();
                times[place].push(began.elapsed());
                answer.expect_status(status).unwrap().json()
            };
            let submitted = timed(0, submission(n), 201).await;
            let look = Request::get(&path_of_url(&submitted["status_url"]));
            let looked = timed(1, of("crowd", look), 200).await;
            assert_eq!(looked["status"], "IN_QUEUE");
            assert_eq!(looked["queue_position"], waiting, "behind all others");
            let cancel = Request::new("PUT", &path_of_url(&submitted["cancel_url"]));
            timed(2, of("crowd", cancel), 202).await;
        }
        let [submission, look, withdrawal] = times.map(|mut times| {
            times.sort_unstable();
            times[TIMED / 2]
        });
        Times {
            submission,
            look,
            withdrawal,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_requests_wait_without_memory_and_are_no_slower_than_ten() {
    let queued = std::env::var("EASEL_QUEUED").ok();
    let queued = queued.map_or(QUEUED, |queued| queued.parse().expect("a number"));
    let crowd = vec![AccountChange::ConcurrentCalls(Some(1))];
    let most = (queued + 100).to_string();
    let flags = ["--log-level", "warn", "--queued-calls", &most];
    let mut rig = Rig::with(&flags, &[("crowd", crowd)]).await;
    rig.partners.plan(Partner::Bfl, Plan::held());
    // The first one runs and does not end; ten wait.
    rig.fill(0, 1).await;
    rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;
    rig.fill(1, 11).await;
    let few = rig.times(10).await;
    let before = rig.server().resident_bytes();
    let began = Instant::now();
    rig.fill(11, queued + 1).await;
    let filled = began.elapsed();
    let many = rig.times(queued).await;
    let grown = rig.server().resident_bytes().saturating_sub(before);
    let _ = writeln!(
        std::io::stderr(),
        "queue: with 10 {few:?}, with {queued} {many:?}; filled in {filled:?}; {} MB before, {} KB more",
        before >> 20,
        grown >> 10,
    );
    let bound = MOST_BYTES_BESIDE + MOST_BYTES_EACH * queued as u64;
    assert!(grown <= bound, "{grown} bytes more, where {bound} may be");
    for (what, few, many) in [
        ("a submission", few.submission, many.submission),
        ("a look", few.look, many.look),
        ("a withdrawal", few.withdrawal, many.withdrawal),
    ] {
        let slower = many.as_secs_f64() / few.as_secs_f64();
        assert!(
            slower <= MOST_SLOWER,
            "{what} takes {slower:.2} times as long"
        );
    }
    // One alone was ever sent: the others wait for its end.
    assert_eq!(rig.submits(Partner::Bfl), 1);
    rig.kill().await;
}
