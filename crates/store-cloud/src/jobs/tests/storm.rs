//! Workers of several processes claim jobs and give them back as fast as they can. Meanwhile the test counts what runs.
//!
//! `EASEL_ADMISSIONS` is how many claims are made.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use futures_util::future::join_all;

use super::*;

const ADMISSIONS: &str = "EASEL_ADMISSIONS";
/// How many unless the variable says so.
const FEW: u64 = 1_000;
const HANDLES: usize = 3;
const ACCOUNTS: u32 = 20;
/// How many jobs of an account may run, and how many it has.
const ROOM: u32 = 3;
const JOBS: u32 = 8;
/// Runs that each process asks for at once: together more than there is room for.
const SLOTS: usize = 32;

/// What all workers share.
struct Storm {
    handles: Vec<PgJobs>,
    most: u64,
    claimed: AtomicU64,
    nothing: AtomicU64,
    /// Of each account, the runs that were claimed and are not being given back.
    running: Vec<AtomicU32>,
    is_over: AtomicBool,
}

fn place(account: &AccountId) -> usize {
    let (_, number) = account.as_str().split_once('-').expect("a name");
    number.parse().expect("a number")
}

async fn give_back(jobs: &PgJobs, claimed: &Job) {
    let mut job = claimed.clone();
    let epoch = job.epoch;
    job.apply(JobEvent::GivenBack { epoch }, at(2))
        .expect("it runs");
    let saved = jobs.save(plain(job)).await.expect("an answer");
    assert!(matches!(saved, SaveOutcome::Saved(_)), "{saved:?}");
}

/// Every account has more jobs than room: without a storm, claims end where all rooms are full.
async fn rooms_bound_claims(jobs: &PgJobs) {
    let mut claimed = Vec::new();
    while let Some(claim) = jobs.claim(&request(), at(1)).await.expect("an answer") {
        claimed.push(claim.job);
    }
    assert_eq!(claimed.len(), (ROOM * ACCOUNTS) as usize);
    for job in claimed {
        give_back(jobs, &job).await;
    }
}

impl Storm {
    async fn slot(self: Arc<Self>, process: usize) {
        let request = ClaimRequest {
            worker: WorkerId(Uuid::from_u128(process as u128)),
            ..request()
        };
        let jobs = &self.handles[process];
        while self.claimed.load(Ordering::Relaxed) < self.most {
            let claim = jobs.claim(&request, at(1)).await.expect("an answer");
            let Some(claim) = claim else {
                self.nothing.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let of_account = &self.running[place(&claim.job.account)];
            let running = of_account.fetch_add(1, Ordering::SeqCst) + 1;
            assert!(running <= ROOM, "{running} jobs of {}", claim.job.account);
            let done = self.claimed.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(10_000) {
                testing::tell(&format!("{done} jobs were claimed"));
            }
            tokio::task::yield_now().await;
            of_account.fetch_sub(1, Ordering::SeqCst);
            give_back(jobs, &claim.job).await;
        }
    }

    /// Counts the runs of all accounts again and again; how often.
    async fn watch(self: Arc<Self>, database: Database) -> u64 {
        let sql = "SELECT account, count(*) FROM job_runs GROUP BY account";
        let mut looks = 0;
        loop {
            let connection = database.connection().await.expect("it answers");
            for row in connection.query(sql, &[]).await.expect("it answers") {
                let (account, runs): (&str, i64) = (row.get(0), row.get(1));
                assert!(runs <= ROOM.into(), "{account} has {runs} runs");
            }
            looks += 1;
            if self.is_over.load(Ordering::Relaxed) {
                return looks;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn however_fast_jobs_come_and_go_no_account_runs_more_than_it_may() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let mut handles = Vec::new();
    for _ in 0..HANDLES {
        handles.push(jobs(&testing::open(&url).await));
    }
    let submitted = (0..ACCOUNTS * JOBS).map(|n| {
        let mut insert = submission(n.into());
        let account = format!("account-{}", n % ACCOUNTS);
        insert.job.account = account.parse().expect("a name");
        insert.body.placement.account_room = ROOM;
        handles[0].insert(insert, at(0))
    });
    for inserted in join_all(submitted).await {
        let inserted = inserted.expect("an answer");
        assert!(matches!(inserted, InsertJobOutcome::Inserted(_)));
    }
    rooms_bound_claims(&handles[0]).await;
    let storm = Arc::new(Storm {
        handles,
        most: testing::number(ADMISSIONS, FEW),
        claimed: AtomicU64::new(0),
        nothing: AtomicU64::new(0),
        running: (0..ACCOUNTS).map(|_| AtomicU32::new(0)).collect(),
        is_over: AtomicBool::new(false),
    });
    let watcher = tokio::spawn(Arc::clone(&storm).watch(testing::open(&url).await));
    let slots = (0..HANDLES * SLOTS).map(|n| tokio::spawn(Arc::clone(&storm).slot(n % HANDLES)));
    for ended in join_all(slots).await {
        ended.expect("no account ran more than it may");
    }
    storm.is_over.store(true, Ordering::Relaxed);
    let looks = watcher.await.expect("no account ran more than it may");
    let (claimed, nothing) = (&storm.claimed, &storm.nothing);
    let [claimed, nothing] = [claimed, nothing].map(|count| count.load(Ordering::Relaxed));
    testing::tell(&format!(
        "{claimed} jobs claimed, {nothing} claims found none, {looks} looks at all runs"
    ));
}
