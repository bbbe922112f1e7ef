//! The contract of changes on PostgreSQL, and what only several transactions show.

use std::sync::Arc;

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

#[test]
fn of_progress_that_is_told_at_once_the_newest_is_passed_on() {
    let reported = |n: u128, report: &str, is_progress| Reported {
        job: JobId(Uuid::from_u128(n)),
        account: "acme".parse().expect("a valid name"),
        report: report.to_owned(),
        is_progress,
    };
    let mut reports = vec![
        reported(1, "a third", true),
        reported(1, "a node", false),
        reported(2, "a half", true),
        reported(1, "two thirds", true),
        reported(1, "a line", false),
        reported(1, "all", true),
    ];
    newest_progress(&mut reports);
    let told: Vec<&str> = reports.iter().map(|one| &*one.report).collect();
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
    let changes = PgChanges::start(other);
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
        let noted = note(&transaction, Uuid::new_v4(), &[(&saved(3), &[])]).await;
        noted.expect("it is written");
    };
    let replica = Uuid::new_v4();
    note(&early, replica, &[(&saved(1), &[])])
        .await
        .expect("written");
    abandoned.await;
    note(&late, replica, &[(&saved(2), &[])])
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
    let changes = PgChanges::start(other);
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
    let noted = note(&transaction, Uuid::new_v4(), &[(&job, &[])]).await;
    noted.expect("it is written");
    transaction.commit().await.expect("it commits");
    let since = changes.since(Some(after)).await;
    assert!(matches!(since, Ok(ChangesSince::Changes(new, _)) if new.len() == 1));
}
