//! Looks at the queue that begin where the one before them found something.

use super::*;
use crate::testing::reads::{self, left_open};

/// How many jobs a round submits, claims and ends.
const ROUND: u128 = 64;

async fn claimed(jobs: &PgJobs) -> Option<Arc<Job>> {
    let claimed = jobs.claim(&request(), at(1)).await.expect("an answer");
    claimed.map(|claim| claim.job)
}

async fn saved(jobs: &PgJobs, job: &Job, event: JobEvent) {
    let mut job = job.clone();
    job.apply(event, at(2)).expect("it runs");
    let saved = jobs.save(plain(job)).await.expect("an answer");
    assert!(matches!(saved, SaveOutcome::Saved(_)));
}

/// Submits jobs with these numbers, claims as many, and ends what was claimed.
async fn round(jobs: &PgJobs, first: u128) {
    let numbers = first..first + ROUND;
    futures_util::future::join_all(numbers.map(|n| insert_for(jobs, "acme", n))).await;
    let claims = futures_util::future::join_all((0..ROUND).map(|_| claimed(jobs))).await;
    let ends = claims.iter().flatten().map(|job| {
        let epoch = job.epoch;
        saved(jobs, job, JobEvent::Finished { epoch })
    });
    assert_eq!(futures_util::future::join_all(ends).await.len(), 64);
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_pass_over_what_is_gone_while_a_transaction_is_open() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let (database, other) = (testing::open(&url).await, testing::open(&url).await);
    let _open = left_open(&other).await;
    let jobs = jobs(&database);
    for n in 0..20 {
        round(&jobs, 1 + n * ROUND).await;
    }

    let indexes = ["job_queue_pkey", "job_runs_by_account"];
    let read = reads::of_indexes(&database, indexes).await;
    let read = read.map(|(_, entries)| entries);
    // One look from the beginning in each round reads 13,440 entries of each, and there are two or three.
    assert!(read[0] < 13_000 && read[1] < 10_000, "{read:?}");
}

/// Few jobs live then in long indexes, and plans are made anew when the tables are analyzed.
#[tokio::test(flavor = "multi_thread")]
async fn statements_of_jobs_pass_over_what_is_gone_while_a_transaction_is_open() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let (database, other) = (testing::open(&url).await, testing::open(&url).await);
    let _open = left_open(&other).await;
    let jobs = jobs(&database);
    let indexes = ["job_queue_pkey", "job_runs_pkey", "jobs_pkey"];
    let read = async || {
        let read = reads::of_indexes(&database, indexes).await;
        read.map(|(_, entries)| entries)
    };
    for n in 0..20 {
        round(&jobs, 1 + n * ROUND).await;
    }
    reads::analyze(&database, "jobs, job_queue, job_runs").await;
    // What is learned now is believed by connections that are older: this makes all that there may be.
    read().await;
    let last = 1_000_000;
    insert_for(&jobs, "acme", last).await;
    jobs.demand(at(1)).await.expect("an answer");
    let before = read().await;
    for _ in 0..50 {
        let place = jobs.position(&acme(), JobId(Uuid::from_u128(last))).await;
        assert_eq!(place.expect("an answer"), Some(0));
    }
    let places = read().await;
    let mut job = Job::clone(&claimed(&jobs).await.expect("it waits"));
    let (epoch, progress) = (job.epoch, job.progress.clone());
    for _ in 0..50 {
        let event = JobEvent::Advanced {
            epoch,
            progress: progress.clone(),
        };
        job.apply(event, at(2)).expect("it runs");
        let saved = jobs.save(plain(job)).await.expect("an answer");
        let SaveOutcome::Saved(saved) = saved else {
            panic!("{saved:?}");
        };
        job = Job::clone(&saved);
    }
    let saves = read().await;
    for _ in 0..50 {
        let claim = [(job.id, epoch)];
        let renewed = jobs
            .renew(request().worker, &claim, request().lease, at(2))
            .await;
        assert_eq!(
            renewed.expect("an answer"),
            [workflow_core::LeaseNews::Renewed]
        );
    }
    let renewals = read().await;
    for n in 1..=50 {
        insert_for(&jobs, "acme", last + n).await;
        let job = claimed(&jobs).await.expect("it waits");
        let epoch = job.epoch;
        saved(&jobs, &job, JobEvent::Finished { epoch }).await;
    }
    let claims = read().await;
    let told = [
        places[0] - before[0],
        saves[2] - places[2],
        renewals[1] - saves[1],
        claims[0] - renewals[0],
    ];
    // From the beginning, each place reads 1,280 entries twice, and each of the others as many and more.
    assert!(told.iter().all(|read| *read < 5_000), "{told:?}");
    let whole = reads::of_whole_tables(&database, ["jobs", "job_queue", "job_runs"]).await;
    assert!(whole < 500, "{whole}");
}

/// Of each row there are so many versions that nothing may clean up.
#[tokio::test(flavor = "multi_thread")]
async fn counts_are_read_newest_first_while_a_transaction_is_open() {
    const VERSIONS: usize = 4_000;
    const JOBS: u128 = 50;
    const INDEXES: [&str; 4] = [
        "job_turns_pkey",
        "job_accounts_pkey",
        "stored_bytes_pkey",
        "output_counters_pkey",
    ];
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let (database, other) = (testing::open(&url).await, testing::open(&url).await);
    let jobs = jobs(&database);
    let with_output = async |n| {
        insert_for(&jobs, "acme", n).await;
        let claimed = claimed(&jobs).await.expect("it waits");
        let (mut job, epoch) = (Job::clone(&claimed), claimed.epoch);
        let progress = job.progress.clone();
        job.apply(JobEvent::Advanced { epoch, progress }, at(2))
            .expect("it runs");
        let mut save = plain(job);
        save.outputs = vec![output(n)];
        let saved = jobs.save(save).await.expect("an answer");
        let SaveOutcome::Saved(job) = saved else {
            panic!("{saved:?}");
        };
        assert_eq!(job.outputs[0].path.as_str(), format!("picture_{n:05}_.png"));
        self::saved(&jobs, &job, JobEvent::Finished { epoch }).await;
    };
    with_output(1).await;
    let _open = left_open(&other).await;
    let versions = format!(
        "DO $$ BEGIN FOR i IN 1..{VERSIONS} LOOP
            UPDATE job_turns SET departed = departed; UPDATE job_accounts SET entered = entered;
            UPDATE stored_bytes SET bytes = bytes; UPDATE output_counters SET number = number;
            COMMIT;
        END LOOP; END $$"
    );
    let writer = other.connection().await.expect("it answers");
    for sql in ["SET synchronous_commit = off", &versions] {
        writer.batch_execute(sql).await.expect("it answers");
    }
    let before = reads::of_indexes(&database, INDEXES).await;
    for n in 2..2 + JOBS {
        with_output(n).await;
    }
    let depth = jobs.depth().await.expect("an answer");
    assert_eq!((depth.queued, depth.running), (0, 0));
    let read = reads::of_indexes(&database, INDEXES).await;
    for ((looks, entries), before) in read.into_iter().zip(before) {
        let (looks, entries) = (looks - before.0, entries - before.1);
        assert!(entries < 2 * looks, "{entries} entries in {looks} looks");
    }
}

/// Up to 32 accounts are read one by one, and more of them together.
#[tokio::test(flavor = "multi_thread")]
async fn few_accounts_and_many_have_their_turns_alike() {
    if !crate::testing::has_postgres() {
        return;
    }
    for accounts in [1_u64, 32, 33] {
        let jobs = jobs(&testing::database().await);
        for n in 1..=accounts * 2 {
            insert_for(&jobs, &format!("account-{}", n % accounts), n.into()).await;
        }
        let last = "account-0".parse().expect("a valid name");
        let place = jobs
            .position(&last, JobId(Uuid::from_u128(accounts.into())))
            .await;
        assert_eq!(place.expect("an answer"), Some(accounts - 1));
        for n in 1..=accounts {
            let job = claimed(&jobs).await.expect("it waits");
            assert_eq!(job.id, JobId(Uuid::from_u128(n.into())));
        }
        let depth = jobs.depth().await.expect("an answer");
        assert_eq!((depth.queued, depth.running), (accounts, accounts));
        let demand = jobs.demand(at(1)).await.expect("an answer");
        assert_eq!(demand.sets.len(), 1);
    }
}

/// Looks for jobs by their ids have one index that they can take.
#[tokio::test(flavor = "multi_thread")]
async fn no_index_by_account_is_read_for_ids() {
    if !crate::testing::has_postgres() {
        return;
    }
    let database = testing::database().await;
    let mut connection = database.connection().await.expect("it answers");
    let transaction = connection.transaction().await.expect("it begins");
    let without = "SET LOCAL enable_seqscan = off;
        ALTER TABLE jobs DROP CONSTRAINT jobs_pkey; ALTER TABLE job_runs DROP CONSTRAINT job_runs_pkey";
    transaction
        .batch_execute(without)
        .await
        .expect("they are there");
    let plan = async |sql: &str| {
        let lines = transaction.query(&format!("EXPLAIN {sql}"), &[]).await;
        let lines = lines.expect("a plan");
        lines
            .iter()
            .map(|line| line.get::<_, String>(0))
            .collect::<String>()
    };
    for (table, id, index) in [
        ("jobs", "id", "jobs_by_age"),
        ("job_runs", "job", "job_runs_by_account"),
    ] {
        let by_id = plan(&format!(
            "DELETE FROM {table} WHERE {id} = ANY('{{00000000-0000-0000-0000-000000000001}}'::uuid[])"
        ))
        .await;
        assert!(!by_id.contains(index), "{by_id}");
        let by_account = plan(&format!("SELECT {id} FROM {table} WHERE account = 'acme'")).await;
        assert!(by_account.contains(index), "{by_account}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_again_is_next_whoever_gave_it_back() {
    if !crate::testing::has_postgres() {
        return;
    }
    let database = testing::database().await;
    let (one, other) = (jobs(&database), jobs(&database));
    for n in 1..=8 {
        insert_for(&one, "acme", n).await;
    }
    for giver in [&one, &other] {
        let first = claimed(&one).await.expect("it waits");
        let second = claimed(&one).await.expect("it waits");
        // The look of this claim and the next ones begin behind both.
        let third = claimed(&one).await.expect("it waits");
        let epoch = first.epoch;
        saved(giver, &first, JobEvent::GivenBack { epoch }).await;
        assert_eq!(claimed(&one).await.expect("it waits").id, first.id);
        for job in [second, third] {
            let epoch = job.epoch;
            saved(giver, &job, JobEvent::GivenBack { epoch }).await;
        }
        let back = claimed(&one).await.expect("it waits");
        let (back, epoch) = (&back, back.epoch);
        saved(giver, back, JobEvent::Finished { epoch }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_count_whoever_wrote_them_and_however_often_they_were_counted() {
    if !crate::testing::has_postgres() {
        return;
    }
    let database = testing::database().await;
    let jobs = jobs(&database);
    for n in 1..=3 {
        let mut insert = submission(n);
        insert.body.placement.account_room = 1;
        let inserted = jobs.insert(insert, at(0)).await.expect("an answer");
        assert!(matches!(inserted, InsertJobOutcome::Inserted(_)));
    }
    let connection = database.connection().await.expect("it answers");
    let mut running = claimed(&jobs).await.expect("it waits");
    for _ in 0..2 {
        // Once as one that is new, and then as one that is known.
        for _ in 0..2 {
            assert_eq!(claimed(&jobs).await, None, "the account has one");
        }
        // The version before writes no number.
        let old = connection.batch_execute("UPDATE job_runs SET claim = 0");
        old.await.expect("the table is there");
        assert_eq!(claimed(&jobs).await, None, "the account has one");
        let epoch = running.epoch;
        saved(&jobs, &running, JobEvent::Finished { epoch }).await;
        running = claimed(&jobs).await.expect("there is room");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sets_of_jobs_are_found_of_however_many_accounts() {
    if !crate::testing::has_postgres() {
        return;
    }
    let jobs = jobs(&testing::database().await);
    let demand = async || {
        let demand = jobs.demand(at(1)).await.expect("an answer");
        let mut sets: Vec<_> = demand.sets.iter().map(RequirementSet::id).collect();
        sets.sort_unstable();
        sets
    };
    assert_eq!(demand().await, []);
    let rare = Requirements::of_engine("rare").to_set();
    for n in 1..=20 {
        insert_for(&jobs, &format!("a{n:02}"), n).await;
        assert_eq!(demand().await, [needs().id()]);
    }
    let mut insert = submission(21);
    insert.body.placement.requirements = rare.clone();
    jobs.insert(insert, at(0)).await.expect("an answer");
    let mut both = [needs().id(), rare.id()];
    both.sort_unstable();
    assert_eq!(demand().await, both);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_told_without_reading_all_jobs_of_its_account() {
    if !crate::testing::has_postgres() {
        return;
    }
    const JOBS: u128 = 2_000;
    let url = testing::fresh_database().await;
    let database = testing::open(&url).await;
    let jobs = jobs(&database);
    for first in (1..=JOBS).step_by(50) {
        let some = (first..first + 50).map(|n| insert_for(&jobs, "acme", n));
        futures_util::future::join_all(some).await;
    }
    let watch = testing::open(&url).await;
    let watch = watch.connection().await.expect("it answers");
    let read = async || {
        reads::tell(&database).await;
        let read = "SELECT (seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables WHERE relname = 'jobs'";
        let row = watch.query_one(read, &[]).await;
        row.expect("an answer").get::<_, i64>(0)
    };
    let (before, account) = (read().await, acme());
    let places = (1..=50).map(|n| jobs.position(&account, JobId(Uuid::from_u128(n * 40))));
    for (place, n) in futures_util::future::join_all(places)
        .await
        .into_iter()
        .zip(1..)
    {
        assert_eq!(place.expect("an answer"), Some(n * 40 - 1));
    }
    let after = read().await;
    assert!(after - before < 500, "{} rows were read", after - before);
}

/// They are made while the tables are empty, and have to be right for any number of jobs.
#[tokio::test(flavor = "multi_thread")]
async fn looks_keep_their_plans_and_read_no_queue_whole() {
    if !crate::testing::has_postgres() {
        return;
    }
    let database = testing::database().await;
    let jobs = jobs(&database);
    for n in 1..=20 {
        insert_for(&jobs, "acme", n).await;
        jobs.demand(at(1)).await.expect("an answer");
        claimed(&jobs).await.expect("it waits");
    }
    let mut kept = 0;
    for connection in database.every_connection().await {
        let planned = "SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements
            WHERE statement LIKE '%job_queue%' AND statement NOT LIKE '%pg_prepared_statements%'";
        for row in connection.query(planned, &[]).await.expect("an answer") {
            let (sql, anew): (&str, i64) = (row.get(0), row.get(2));
            assert_eq!(anew, 0, "{sql}");
            kept += row.get::<_, i64>(1);
        }
    }
    reads::tell(&database).await;
    assert!(kept >= 60, "{kept}");
    let connection = database.connection().await.expect("it answers");
    let whole = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'job_queue'";
    let row = connection.query_one(whole, &[]).await.expect("an answer");
    assert_eq!(row.get::<_, i64>(0), 0);
}
