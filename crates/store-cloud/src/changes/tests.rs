//! The contract of changes on PostgreSQL, and what only several transactions show.

use std::sync::Arc;

use futures_util::FutureExt;
use workflow_core::ChangeKind;
use workflow_core::contract::{self, Stores};

use super::*;
use crate::jobs::tests::ports;
use crate::testing;

async fn replicas() -> [(Stores, Arc<dyn Changes>); 2] {
    let url = testing::fresh_database().await;
    let databases = [testing::open(&url).await, testing::open(&url).await];
    databases.map(|database| {
        let changes = PgChanges::start(database.clone());
        let changes_port: Arc<dyn Changes> = Arc::new(changes.clone());
        (ports(&database, &changes), changes_port)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_hear_what_the_others_changed() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::changes(|| testing::now(replicas())).await;
}

/// What replicas of the version before read: one change in a row.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_hear_the_same_in_rows_of_one_change_each() {
    if !crate::testing::has_postgres() {
        return;
    }
    let single = async || {
        let url = testing::fresh_database().await;
        let databases = [testing::open(&url).await, testing::open(&url).await];
        forbid_packing(&databases[0]).await;
        databases.map(|database| {
            let changes = PgChanges::start(database.clone());
            let changes_port: Arc<dyn Changes> = Arc::new(changes.clone());
            (ports(&database, &changes), changes_port)
        })
    };
    contract::changes(|| testing::now(single())).await;
}

async fn forbid_packing(database: &Database) {
    let connection = database.connection().await.expect("it answers");
    let forbid = "UPDATE job_change_form SET packed = false";
    connection.batch_execute(forbid).await.expect("it may");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_packed_once_the_version_before_is_gone() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let database = testing::open(&url).await;
    let look = async |seen_none: &mut u32, looks| {
        let looked = form::look(&database, form::PACKED_CHANGES, seen_none, looks).await;
        looked.expect("an answer")
    };
    assert!(look(&mut 0, u32::MAX).await, "nobody was here before");
    forbid_packing(&database).await;
    let before = crate::DatabaseOptions {
        connections: 2,
        application: crate::database::SERVING[0],
        ..crate::DatabaseOptions::default()
    };
    let before = Database::open(&url, before).await.expect("it opens");
    let connection = before.connection().await.expect("it answers");
    let mut seen_none = 1;
    assert!(!look(&mut seen_none, 1).await, "one is here");
    assert_eq!(seen_none, 0);
    let pid: i32 = connection
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .expect("an answer")
        .get(0);
    let end = database.connection().await.expect("it answers");
    let end = end
        .query_one("SELECT pg_terminate_backend($1, 5000)", &[&pid])
        .await;
    assert!(end.expect("an answer").get::<_, bool>(0));
    drop((connection, before));
    let mut looks = 0..10_000;
    while seen_none == 0 && looks.next().is_some() {
        assert!(!look(&mut seen_none, 3).await, "it may come back");
    }
    assert!(!look(&mut seen_none, 3).await, "it may come back");
    assert!(look(&mut seen_none, 3).await);
    assert!(look(&mut 0, u32::MAX).await, "and so it stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_tells_of_several_jobs_what_they_reported_and_what_was_saved() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let [one, other] = [testing::open(&url).await, testing::open(&url).await];
    let changes = PgChanges::start(other);
    let Ok(ChangesSince::Missed(after)) = changes.since(None).await else {
        panic!("a replica begins with the rows");
    };
    let account: AccountId = "acme".parse().expect("a valid name");
    let text = |line: &str| Report::Text {
        node: "9".into(),
        line: line.to_owned(),
    };
    let large = "x".repeat(40 << 10);
    let reports = [text("a \"line\""), text(&large), text(&large)];
    let passed: Vec<Passed> = reports.iter().filter_map(Passed::of).collect();
    let job = |n: u128| contract::new_job(n, &account);
    let (first, second) = (job(1), job(2));
    let told = [
        JobNews::saved(&first, &passed[..1]),
        JobNews::saved(&second, &[]),
        JobNews {
            job: first.id,
            account: &account,
            reports: passed.iter().collect(),
            saved: None,
        },
    ];
    let mut connection = one.connection().await.expect("it answers");
    let transaction = connection.transaction().await.expect("it begins");
    let written = packed::write(&transaction, Uuid::new_v4(), true, &told).await;
    written.expect("it is written");
    let rows = "SELECT count(*) FROM job_changes";
    let rows: i64 = transaction
        .query_one(rows, &[])
        .await
        .expect("an answer")
        .get(0);
    assert_eq!(rows, 3, "what is small is one row");
    transaction.commit().await.expect("it commits");
    let (mut heard, mut after) = (Vec::new(), after);
    while heard.len() < 6 {
        match changes.since(Some(after)).await.expect("an answer") {
            ChangesSince::Changes(new, next) => {
                heard.extend(new.into_iter().map(|change| (change.job, change.kind)));
                after = next;
            }
            told @ ChangesSince::Missed(_) => panic!("{told:?}"),
        }
    }
    let reported = |n: usize| (first.id, ChangeKind::Reported(reports[n].clone()));
    let saved = |job: &Job| {
        let (revision, status) = (job.revision, job.status);
        (job.id, ChangeKind::Saved { revision, status })
    };
    let expected = [
        reported(0),
        saved(&first),
        saved(&second),
        reported(0),
        reported(1),
        reported(2),
    ];
    assert_eq!(heard, expected);
}

#[tokio::test]
async fn what_a_job_reports_waits_for_the_save_that_took_along_what_was_before() {
    if !crate::testing::has_postgres() {
        return;
    }
    let database = testing::database().await;
    let changes = PgChanges::start(database);
    // Nobody writes.
    let tasks = std::mem::take(&mut *changes.tasks.lock().expect("nobody panicked"));
    drop(tasks);
    let report = |n: u128, line: &str| {
        changes.shared.reports.push(Reported {
            job: JobId(Uuid::from_u128(n)),
            account: "acme".parse().expect("a valid name"),
            report: Passed {
                text: line.to_owned(),
                is_progress: false,
            },
        });
    };
    let begun = || {
        let begun = changes.shared.reports.begin();
        changes.shared.reports.end();
        let texts = begun.into_iter().map(|reported| reported.report.text);
        texts.collect::<Vec<String>>()
    };
    let job = JobId(Uuid::from_u128(1));
    report(1, "first");
    report(2, "another");
    report(1, "second");
    let along = changes.take_along(vec![job, job]).await;
    let texts = along.of(job).into_iter().map(|report| report.text);
    assert_eq!(texts.collect::<Vec<_>>(), ["first", "second"]);
    report(1, "third");
    assert_eq!(begun(), ["another"]);
    // The save failed.
    drop(along);
    let mut along = changes.take_along(vec![job]).await;
    assert_eq!(along.of(job).len(), 3);
    report(1, "fourth");
    along.told(std::iter::once(job));
    drop(along);
    assert_eq!(begun(), ["fourth"]);

    // What is being written is waited for.
    report(1, "fifth");
    assert_eq!(changes.shared.reports.begin().len(), 1);
    let mut along = Box::pin(changes.take_along(vec![job]));
    assert!(futures_util::poll!(&mut along).is_pending());
    // What comes meanwhile goes with the save, and keeps it from nothing.
    report(1, "sixth");
    report(2, "another");
    changes.shared.reports.end();
    assert_eq!(changes.shared.reports.begin().len(), 1);
    let along = along.now_or_never().expect("nothing of its job is written");
    assert_eq!(along.of(job).len(), 1);
}

/// Its save hangs, and the run goes on.
#[tokio::test]
async fn a_job_whose_save_hangs_costs_others_no_report() {
    if !crate::testing::has_postgres() {
        return;
    }
    let changes = PgChanges::start(testing::database().await);
    // Nobody writes.
    let tasks = std::mem::take(&mut *changes.tasks.lock().expect("nobody panicked"));
    drop(tasks);
    let reports = &changes.shared.reports;
    let report = |n: u128, number: usize| {
        reports.push(Reported {
            job: JobId(Uuid::from_u128(n)),
            account: "acme".parse().expect("a valid name"),
            report: Passed {
                text: number.to_string(),
                is_progress: false,
            },
        });
    };
    let told = || {
        let begun = reports.begin();
        reports.end();
        let texts = begun
            .into_iter()
            .map(|one| (one.job.0.as_u128(), one.report.text));
        texts.collect::<Vec<(u128, String)>>()
    };
    report(1, 0);
    let along = changes.take_along(vec![JobId(Uuid::from_u128(1))]).await;
    for number in 1..10_000 {
        report(1, number);
    }
    report(2, 0);
    assert_eq!(told(), [(2, "0".to_owned())]);
    // It fails. What was told first is there, in its order, and what came too late is lost.
    drop(along);
    report(2, 1);
    let mut told = told();
    assert_eq!(told.pop(), Some((2, "1".to_owned())), "there is room");
    assert!((1_000..10_000).contains(&told.len()), "{}", told.len());
    for (number, told) in told.into_iter().enumerate() {
        assert_eq!(told, (1, number.to_string()));
    }
}

#[test]
fn of_progress_that_is_told_at_once_the_newest_is_passed_on() {
    let reported = |n: u128, report: &str, is_progress| Reported {
        job: JobId(Uuid::from_u128(n)),
        account: "acme".parse().expect("a valid name"),
        report: Passed {
            text: report.to_owned(),
            is_progress,
        },
    };
    let mut reports = vec![
        reported(1, "a third", true),
        reported(1, "a node", false),
        reported(2, "a half", true),
        reported(1, "two thirds", true),
        reported(1, "a line", false),
        reported(1, "all", true),
    ];
    reports::newest_progress(&mut reports);
    let told: Vec<&str> = reports.iter().map(|one| &*one.report.text).collect();
    assert_eq!(told, ["a node", "a half", "a line", "all"]);
}

/// A change whose transaction commits after one with a larger number.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_committed_late_comes_all_the_same() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let [one, other] = [testing::open(&url).await, testing::open(&url).await];
    let (changes, elsewhere) = (PgChanges::start(other), PgChanges::start(one.clone()));
    let mut after = match changes.since(None).await.expect("an answer") {
        ChangesSince::Missed(position) => position,
        told @ ChangesSince::Changes(..) => panic!("{told:?}"),
    };
    let saved = |n: u128| {
        let account = "acme".parse().expect("a valid name");
        contract::new_job(n, &account)
    };
    let (mut early, mut late) = (one.connection().await, one.connection().await);
    let early = early.as_mut().expect("it answers").transaction().await;
    let late = late.as_mut().expect("it answers").transaction().await;
    let (early, late) = (early.expect("it begins"), late.expect("it begins"));
    let abandoned = async {
        let mut connection = one.connection().await.expect("it answers");
        let transaction = connection.transaction().await.expect("it begins");
        let noted = note(&transaction, &elsewhere, &[(&saved(3), &[])]).await;
        noted.expect("it is written");
    };
    note(&early, &elsewhere, &[(&saved(1), &[])])
        .await
        .expect("written");
    abandoned.await;
    note(&late, &elsewhere, &[(&saved(2), &[])])
        .await
        .expect("written");
    let mut heard = Vec::new();
    for transaction in [late, early] {
        transaction.commit().await.expect("it commits");
        match changes.since(Some(after)).await.expect("an answer") {
            ChangesSince::Changes(new, next) => {
                heard.extend(new.iter().map(|change| change.job.0.as_u128()));
                after = next;
            }
            told @ ChangesSince::Missed(_) => panic!("{told:?}"),
        }
    }
    assert_eq!(heard, [2, 1]);
}

/// What breaks the connection that listens costs a quarter of a second at most.
#[tokio::test(flavor = "multi_thread")]
async fn changes_come_after_every_connection_was_cut() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let [one, other] = [testing::open(&url).await, testing::open(&url).await];
    let (changes, elsewhere) = (PgChanges::start(other), PgChanges::start(one.clone()));
    let Ok(ChangesSince::Missed(after)) = changes.since(None).await else {
        panic!("a replica begins with the rows");
    };
    let mut connection = one.connection().await.expect("it answers");
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    connection.batch_execute(cut).await.expect("it may");
    let transaction = connection.transaction().await.expect("it begins");
    let account = "acme".parse().expect("a valid name");
    let job = contract::new_job(1, &account);
    let noted = note(&transaction, &elsewhere, &[(&job, &[])]).await;
    noted.expect("it is written");
    transaction.commit().await.expect("it commits");
    let since = changes.since(Some(after)).await;
    assert!(matches!(since, Ok(ChangesSince::Changes(new, _)) if new.len() == 1));
}
