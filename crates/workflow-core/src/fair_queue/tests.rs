//! Turns, rooms, sets and positions.

use super::*;
use crate::Requirements;
use crate::contract::new_job;

fn account(name: &str) -> AccountId {
    name.parse().expect("a valid name")
}

fn set(engine: &str) -> RequirementSet {
    Requirements::of_engine(engine).to_set()
}

fn queued(order: u64, engine: &str, account_room: u32) -> QueuedAs {
    QueuedAs {
        order,
        requirements: set(engine),
        account_room,
    }
}

/// Jobs of these accounts, submitted in this order, each for an engine.
struct Bench {
    fair_queue: FairQueue,
    jobs: Vec<(Job, QueuedAs)>,
}

impl Bench {
    fn new(submitted: &[(&str, &str)], room: u32) -> Self {
        let mut bench = Self {
            fair_queue: FairQueue::new(),
            jobs: Vec::new(),
        };
        for (name, engine) in submitted {
            bench.submit(name, engine, room);
        }
        bench
    }

    fn submit(&mut self, name: &str, engine: &str, room: u32) {
        let job = new_job(self.jobs.len() as u128, &account(name));
        let queued = queued(self.fair_queue.number(), engine, room);
        self.fair_queue.note(None, &job, &queued);
        self.jobs.push((job, queued));
    }

    /// Claims for these engines; the job by its place among the submissions.
    fn claim(&mut self, engines: &[&str]) -> Option<usize> {
        let sets = engines.iter().map(|engine| set(engine).id()).collect();
        let next = self.fair_queue.next(&sets, &Rooms::default())?;
        let n = self.jobs.iter().position(|(job, _)| job.id == next.job)?;
        self.becomes(n, JobStatus::Running);
        Some(n)
    }

    fn becomes(&mut self, n: usize, status: JobStatus) {
        let (job, queued) = &mut self.jobs[n];
        let before = std::mem::replace(&mut job.status, status);
        self.fair_queue.note(Some(before), job, queued);
    }

    fn claim_all(&mut self, engines: &[&str]) -> Vec<usize> {
        std::iter::from_fn(|| self.claim(engines)).collect()
    }

    fn position(&self, n: usize) -> Option<u64> {
        let (job, queued) = &self.jobs[n];
        self.fair_queue.position(&job.account, queued.order)
    }
}

fn native(accounts: &[&str], room: u32) -> Bench {
    let jobs: Vec<_> = accounts.iter().map(|name| (*name, "native")).collect();
    Bench::new(&jobs, room)
}

#[test]
fn accounts_take_turns_and_positions_say_so_exactly() {
    let mut bench = native(&["a", "a", "a", "b", "c", "b"], 9);
    let positions: Vec<_> = (0..6).map(|n| bench.position(n)).collect();
    let claimed = bench.claim_all(&["native"]);
    assert_eq!(claimed, [0, 3, 4, 1, 5, 2]);
    for (place, n) in claimed.iter().enumerate() {
        assert_eq!(positions[*n], Some(place as u64), "job {n}");
    }
    let all_run = QueueDepth {
        queued: 0,
        running: 6,
    };
    assert_eq!(bench.fair_queue.depth(), all_run);
    assert!(bench.fair_queue.sets().is_empty());
}

#[test]
fn an_account_that_comes_back_queues_up_behind_those_that_wait() {
    let mut bench = native(&["a", "a", "b", "b"], 9);
    assert_eq!(bench.claim(&["native"]), Some(0));
    bench.submit("c", "native", 9);
    assert_eq!(bench.claim_all(&["native"]), [2, 1, 4, 3]);
}

#[test]
fn an_account_without_room_is_passed_over() {
    let mut bench = native(&["a", "a", "b"], 1);
    assert_eq!(bench.claim_all(&["native"]), [0, 2]);
    bench.becomes(0, JobStatus::Succeeded);
    assert_eq!(bench.claim(&["native"]), Some(1));
}

#[test]
fn a_job_that_is_queued_again_keeps_its_place() {
    let mut bench = native(&["a", "a", "a"], 9);
    bench.claim(&["native"]);
    bench.becomes(0, JobStatus::Queued);
    assert_eq!(bench.position(0), Some(0));
    assert_eq!(bench.position(2), Some(2));
}

#[test]
fn what_cannot_run_blocks_nothing_behind_it() {
    let jobs = [
        ("a", "x"),
        ("a", "native"),
        ("b", "x"),
        ("a", "native"),
        ("b", "native"),
    ];
    let mut bench = Bench::new(&jobs, 9);
    assert_eq!(bench.fair_queue.sets().len(), 2);
    assert_eq!(bench.claim_all(&["native"]), [1, 4, 3]);
    assert_eq!(
        bench.fair_queue.sets().iter().collect::<Vec<_>>(),
        [&set("x")]
    );
    assert_eq!(
        bench.claim_all(&["native", "x"]),
        [2, 0],
        "b was served before a"
    );
}

#[test]
fn a_job_that_cannot_run_wins_its_account_no_turn() {
    // a's first job is the oldest of all, and cannot run.
    let mut bench = Bench::new(&[("a", "x"), ("b", "native"), ("a", "native")], 9);
    assert_eq!(bench.claim(&["native"]), Some(1));
}

#[test]
fn a_store_that_opens_goes_on_with_the_turns_of_the_one_before() {
    let mut before = native(&["a", "a", "b", "b"], 9);
    assert_eq!(before.claim(&["native"]), Some(0));
    let last_claim = before.fair_queue.claims[&account("a")];

    let mut after = Bench {
        fair_queue: FairQueue::new(),
        jobs: before.jobs,
    };
    for (job, queued) in &after.jobs {
        after.fair_queue.note(None, job, queued);
    }
    after.fair_queue.note_claim(&account("a"), last_claim);
    after
        .fair_queue
        .note_claim(&account("gone"), last_claim + 10);
    assert_eq!(after.fair_queue.number(), last_claim + 11);
    assert_eq!(after.claim_all(&["native"]), [2, 1, 3]);
}

#[test]
fn nothing_is_kept_of_an_account_without_jobs() {
    let mut bench = native(&["a", "b", "a"], 9);
    bench.claim_all(&["native"]);
    for n in 0..3 {
        bench.becomes(n, JobStatus::Succeeded);
    }
    let fair_queue = &bench.fair_queue;
    assert!(
        fair_queue.claims.is_empty() && fair_queue.lines.is_empty() && fair_queue.turns.is_empty()
    );
    assert!(fair_queue.running.is_empty() && fair_queue.sets.is_empty());
}
