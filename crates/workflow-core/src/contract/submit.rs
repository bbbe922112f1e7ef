//! Rules of taking jobs in, reading and listing them.

use super::*;
use crate::{JobLog, NodeEvent, RunReport};
use asset_store::Removal;

pub(super) const RULES: [Rule; 12] = [
    |stores| Box::pin(a_job_reads_back_whole_and_only_in_its_account(stores)),
    |stores| {
        Box::pin(a_key_tells_its_request_and_its_job_while_the_job_is_kept(
            stores,
        ))
    },
    |stores| Box::pin(the_same_key_and_request_give_the_job_back(stores)),
    |stores| Box::pin(submissions_at_once_with_one_key_make_one_job(stores)),
    |stores| Box::pin(what_a_key_stands_for_is_told_without_any_room(stores)),
    |stores| Box::pin(a_full_queue_keeps_nothing_and_leaves_the_key_free(stores)),
    |stores| Box::pin(a_body_that_does_not_fit_keeps_nothing(stores)),
    |stores| Box::pin(submissions_at_once_never_exceed_the_bytes(stores)),
    |stores| Box::pin(inputs_are_held_until_the_job_ends(stores)),
    |stores| Box::pin(a_job_over_a_record_that_is_gone_is_refused(stores)),
    |stores| Box::pin(an_id_is_taken_once(stores)),
    |stores| Box::pin(a_log_is_kept_with_its_job(stores)),
];

async fn a_job_reads_back_whole_and_only_in_its_account(stores: Stores) {
    let mut insert = insert_of(1, "a");
    insert.job.metadata = Metadata::from([("k".to_owned(), "ä\u{1f600}".to_owned())]);
    insert.body.extra_pnginfo = r#"{"workflow":{"nodes":[],"é":1.5}}"#.to_owned();
    insert.body.files.insert(
        "photo.png".to_owned(),
        crate::ResolvedFile {
            asset: upload(&stores, 1, "a").await,
            hash: BlobHash::of(b"x"),
            size_bytes: 1,
            name: "photo.png".to_owned(),
        },
    );
    let body = insert.body.clone();
    let job = submit(&stores, insert.clone()).await;
    assert_eq!(*job, insert.job);
    assert_eq!(load(&stores, &job, at(2)).await.as_deref(), Some(&*job));
    let read = stores
        .jobs
        .body(&job.account, job.id, at(2))
        .await
        .expect("the store answers");
    assert_eq!(read.as_deref(), Some(&body));

    let other = account("b");
    assert_eq!(
        stores
            .jobs
            .load(&other, job.id, at(2))
            .await
            .expect("the store answers"),
        None
    );
    assert_eq!(
        stores
            .jobs
            .body(&other, job.id, at(2))
            .await
            .expect("the store answers"),
        None
    );
    assert_eq!(
        stores
            .jobs
            .log(&other, job.id, at(2))
            .await
            .expect("the store answers"),
        None
    );
    assert_eq!(
        stores
            .queue
            .position(&other, job.id)
            .await
            .expect("the queue answers"),
        None
    );
}

async fn a_key_tells_its_request_and_its_job_while_the_job_is_kept(stores: Stores) {
    let claimed = async |name: &str, key: u8, now: Timestamp| {
        let found = stores.jobs.claimed(&account(name), &[key; 32], now).await;
        found.expect("the store answers")
    };
    let input = upload(&stores, 1, "a").await;
    let insert = InsertJob {
        inputs: vec![input],
        ..keyed(insert_of(1, "a"), 7, 1)
    };
    assert_eq!(claimed("a", 7, at(2)).await, None);
    let job = submit(&stores, insert).await;
    let told = |job: &Arc<Job>| Some((Fingerprint([1; 32]), Arc::clone(job)));
    assert_eq!(claimed("a", 7, at(2)).await, told(&job));
    assert_eq!(claimed("a", 8, at(2)).await, None);
    assert_eq!(claimed("b", 7, at(2)).await, None);

    // The job is over and what it read is gone: the key stands for it all the same.
    let over = apply(&stores, &job, JobEvent::CancelRequested, Vec::new(), at(3)).await;
    let removed = stores.records.remove(&account("a"), input, at(4)).await;
    assert!(matches!(removed, Ok(Removal::Removed)), "{removed:?}");
    assert_eq!(claimed("a", 7, at(5)).await, told(&over));
    assert_eq!(claimed("a", 7, over.expires_at).await, None);
}

async fn the_same_key_and_request_give_the_job_back(stores: Stores) {
    let job = submit(&stores, keyed(insert_of(1, "a"), 7, 1)).await;
    let again = stores
        .jobs
        .insert(keyed(insert_of(2, "a"), 7, 1), at(2))
        .await
        .expect("the store answers");
    assert_eq!(again, InsertJobOutcome::Replayed(job.clone()));
    let other = stores
        .jobs
        .insert(keyed(insert_of(3, "a"), 7, 2), at(2))
        .await
        .expect("the store answers");
    assert_eq!(other, InsertJobOutcome::KeyReused(job.id));
    // The key of one account says nothing in another.
    submit(&stores, keyed(insert_of(4, "b"), 7, 2)).await;
    assert_eq!(
        stores
            .queue
            .depth()
            .await
            .expect("the queue answers")
            .queued,
        2
    );
}

async fn submissions_at_once_with_one_key_make_one_job(stores: Stores) {
    let attempts = (1..=16).map(|n| stores.jobs.insert(keyed(insert_of(n, "a"), 7, 1), at(20)));
    let outcomes = futures_util::future::join_all(attempts).await;
    let mut inserted = 0;
    let mut ids = std::collections::HashSet::new();
    for outcome in outcomes {
        match outcome.expect("the store answers") {
            InsertJobOutcome::Inserted(job) => {
                inserted += 1;
                ids.insert(job.id);
            }
            InsertJobOutcome::Replayed(job) => {
                ids.insert(job.id);
            }
            refused @ (InsertJobOutcome::KeyReused(_)
            | InsertJobOutcome::QueueFull
            | InsertJobOutcome::QuotaExceeded
            | InsertJobOutcome::IdTaken
            | InsertJobOutcome::InputGone(_)) => {
                panic!("one request was answered {refused:?}")
            }
        }
    }
    assert_eq!((inserted, ids.len()), (1, 1));
}

async fn what_a_key_stands_for_is_told_without_any_room(stores: Stores) {
    let first = submit(&stores, keyed(insert_of(1, "a"), 7, 1)).await;
    let bounds = QueueBounds {
        account: 0,
        total: 9,
    };
    let again = InsertJob {
        bounds,
        ..keyed(insert_of(2, "a"), 7, 1)
    };
    let again = stores.jobs.insert(again, at(2)).await;
    let again = again.expect("the store answers");
    assert!(
        matches!(&again, InsertJobOutcome::Replayed(job) if job.id == first.id),
        "{again:?}"
    );
}

/// A submission of an account that may store so many bytes, and how many its body has.
fn within(n: u128, name: &str, most: u64) -> (InsertJob, u64) {
    let mut insert = insert_of(n, name);
    insert.body.extra_pnginfo = serde_json::json!({"é": "\"1\""}).to_string();
    insert.body.placement.stored_bytes = Some(most);
    let bytes = insert.body.stored_bytes();
    (insert, bytes)
}

async fn stored(stores: &Stores, name: &str) -> u64 {
    let stored = stores.records.stored_bytes(&account(name)).await;
    stored.expect("the store answers")
}

async fn a_body_that_does_not_fit_keeps_nothing(stores: Stores) {
    upload(&stores, 1, "a").await;
    let bytes = within(2, "a", 0).1;
    let (short, _) = within(2, "a", 16 + bytes - 1);
    let refused = stores.jobs.insert(keyed(short, 7, 1), at(2)).await;
    let refused = refused.expect("the store answers");
    assert_eq!(refused, InsertJobOutcome::QuotaExceeded);
    assert_eq!(stored(&stores, "a").await, 16);
    let (fits, _) = within(2, "a", 16 + bytes);
    let job = submit(&stores, keyed(fits, 7, 1)).await;
    assert_eq!(stored(&stores, "a").await, 16 + bytes);
    // What a key stands for costs nothing, and nobody else is touched.
    let again = stores.jobs.insert(keyed(within(3, "a", 0).0, 7, 1), at(2));
    let again = again.await.expect("the store answers");
    assert!(matches!(again, InsertJobOutcome::Replayed(_)), "{again:?}");
    submit(&stores, within(4, "b", bytes).0).await;

    let canceled = JobEvent::CancelRequested;
    let over = apply(&stores, &job, canceled, Vec::new(), at(3)).await;
    assert_eq!(stored(&stores, "a").await, 16 + bytes, "it is kept");
    let expired = stores.jobs.expire(over.expires_at, 10).await;
    assert_eq!(expired.expect("the store answers"), 1);
    assert_eq!(stored(&stores, "a").await, 16);
}

async fn submissions_at_once_never_exceed_the_bytes(stores: Stores) {
    let bytes = within(10, "a", 0).1;
    let attempts = (10..42).map(|n| {
        let (insert, _) = within(n, "a", 5 * bytes + bytes / 2);
        stores.jobs.insert(insert, at(20))
    });
    let outcomes = futures_util::future::join_all(attempts).await;
    let inserted = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Ok(InsertJobOutcome::Inserted(_))));
    assert_eq!(inserted.count(), 5);
    assert_eq!(stored(&stores, "a").await, 5 * bytes);
}

async fn a_full_queue_keeps_nothing_and_leaves_the_key_free(stores: Stores) {
    let input = upload(&stores, 1, "a").await;
    let bounded = |n: u128, account, total| InsertJob {
        bounds: QueueBounds { account, total },
        ..insert_of(n, "a")
    };
    let first = submit(&stores, bounded(1, 1, 9)).await;
    for (account, total) in [(1, 9), (9, 1)] {
        let refused = InsertJob {
            inputs: vec![input],
            ..keyed(bounded(2, account, total), 7, 1)
        };
        let outcome = stores
            .jobs
            .insert(refused, at(2))
            .await
            .expect("the store answers");
        assert_eq!(outcome, InsertJobOutcome::QueueFull);
    }
    assert_eq!(
        stores
            .records
            .remove(&first.account, input, at(2))
            .await
            .expect("an answer"),
        Removal::Removed
    );
    // Another account has a queue of its own, as long as there is room in all.
    submit(
        &stores,
        InsertJob {
            bounds: QueueBounds {
                account: 1,
                total: 9,
            },
            ..insert_of(3, "b")
        },
    )
    .await;
    apply(
        &stores,
        &first,
        JobEvent::CancelRequested,
        Vec::new(),
        at(3),
    )
    .await;
    submit(&stores, keyed(bounded(2, 1, 9), 7, 2)).await;
}

async fn inputs_are_held_until_the_job_ends(stores: Stores) {
    let input = upload(&stores, 1, "a").await;
    let owner = account("a");
    let remove = || stores.records.remove(&owner, input, at(5));
    let one = submit(
        &stores,
        InsertJob {
            inputs: vec![input],
            ..insert_of(1, "a")
        },
    )
    .await;
    let two = submit(
        &stores,
        InsertJob {
            inputs: vec![input],
            ..insert_of(2, "a")
        },
    )
    .await;
    assert_eq!(remove().await.expect("an answer"), Removal::Held);
    apply(&stores, &one, JobEvent::CancelRequested, Vec::new(), at(3)).await;
    assert_eq!(remove().await.expect("an answer"), Removal::Held);
    apply(&stores, &two, JobEvent::CancelRequested, Vec::new(), at(3)).await;
    assert_eq!(remove().await.expect("an answer"), Removal::Removed);
}

async fn a_job_over_a_record_that_is_gone_is_refused(stores: Stores) {
    let foreign = upload(&stores, 1, "b").await;
    let refused = InsertJob {
        inputs: vec![foreign],
        ..keyed(insert_of(1, "a"), 7, 1)
    };
    let outcome = stores
        .jobs
        .insert(refused, at(1))
        .await
        .expect("the store answers");
    assert_eq!(outcome, InsertJobOutcome::InputGone(foreign));
    submit(&stores, keyed(insert_of(2, "a"), 7, 2)).await;
}

async fn an_id_is_taken_once(stores: Stores) {
    let first = submit(&stores, insert_of(1, "a")).await;
    for name in ["a", "b"] {
        let again = stores.jobs.insert(insert_of(1, name), at(1)).await;
        assert_eq!(again.expect("the store answers"), InsertJobOutcome::IdTaken);
    }
    assert_eq!(load(&stores, &first, at(2)).await.as_deref(), Some(&*first));
}

async fn a_log_is_kept_with_its_job(stores: Stores) {
    let job = submit(&stores, insert_of(1, "a")).await;
    assert_eq!(
        stores
            .jobs
            .log(&job.account, job.id, at(2))
            .await
            .expect("the store answers"),
        None
    );
    let mut report = RunReport::default();
    let started = |node: &str| NodeEvent::Started {
        node: node.into(),
        class: "Known".to_owned(),
    };
    let ui = serde_json::json!({"text": ["ä"], "n": [1, 2.5]});
    for event in [
        NodeEvent::Cached(vec!["7".into()]),
        started("z"),
        NodeEvent::Step {
            node: "z".into(),
            step: 1,
            steps: 2,
        },
        NodeEvent::Executed {
            node: "z".into(),
            ui,
        },
        NodeEvent::Finished { node: "z".into() },
        NodeEvent::Finished { node: "7".into() },
        started("a"),
        NodeEvent::Failed {
            node: "a".into(),
            inputs: serde_json::Map::from_iter([("x".to_owned(), serde_json::json!([1, "ä"]))]),
        },
    ] {
        report.record(&event);
    }
    report.stopped_at = Some("a".into());
    let log = JobLog {
        text: "node 1\n".to_owned(),
        truncated: true,
        captured_at: at(2),
        complete: true,
        report,
    };
    let mut ended = Job::clone(&job);
    ended
        .apply(JobEvent::CancelRequested, at(2))
        .expect("a queued job can be canceled");
    let save = SaveJob {
        job: ended,
        outputs: Vec::new(),
        log: Some(log.clone()),
        durability: Durability::Now,
        reports: Vec::new(),
    };
    stores.jobs.save(save).await.expect("the store takes it");
    assert_eq!(
        stores
            .jobs
            .log(&job.account, job.id, at(2))
            .await
            .expect("the store answers"),
        Some(log)
    );
}
