//! Rules of saving jobs and committing what they make.

use super::*;
use crate::JobOutput;
use asset_store::{InsertOutcome, Removal};

pub(super) const RULES: [Rule; 12] = [
    |stores| Box::pin(of_two_saves_of_one_revision_one_conflicts(stores)),
    |stores| Box::pin(a_committed_output_is_a_record_with_its_counted_name(stores)),
    |stores| Box::pin(an_output_committed_again_is_the_same_one(stores)),
    |stores| Box::pin(outputs_are_kept_until_the_bytes_are_used_up(stores)),
    |stores| Box::pin(outputs_saved_with_the_next_are_there_with_it(stores)),
    |stores| Box::pin(a_save_that_meets_one_put_off_conflicts_and_finds_it(stores)),
    |stores| Box::pin(no_two_outputs_of_an_account_share_a_name(stores)),
    |stores| Box::pin(outputs_are_held_and_expire_with_their_job(stores)),
    |stores| {
        Box::pin(an_output_is_kept_as_long_as_was_asked_for_during_its_run(
            stores,
        ))
    },
    |stores| Box::pin(a_list_ends_one_job_after_it_has_outputs_enough(stores)),
    |stores| Box::pin(a_job_past_its_time_is_absent_and_then_swept(stores)),
    |stores| Box::pin(every_field_of_a_finished_job_reads_back(stores)),
];

async fn running(stores: &Stores, n: u128) -> Arc<Job> {
    submit(stores, insert_of(n, "a")).await;
    claim(stores, 1, at(10)).await.expect("the job is next").job
}

async fn of_two_saves_of_one_revision_one_conflicts(stores: Stores) {
    let job = running(&stores, 1).await;
    let later = apply(&stores, &job, advanced(&job), Vec::new(), at(11)).await;
    assert!(later.revision > job.revision);
    let mut stale = Job::clone(&job);
    stale
        .apply(JobEvent::CancelRequested, at(12))
        .expect("a running job can be canceled");
    let save = SaveJob {
        job: stale,
        outputs: vec![picture("9", 0, 1)],
        log: None,
        durability: Durability::Now,
        reports: Vec::new(),
    };
    assert_eq!(
        stores.jobs.save(save).await.expect("the store answers"),
        SaveOutcome::Conflict
    );
    assert_eq!(load(&stores, &job, at(12)).await, Some(later));
}

fn paths(outputs: &[JobOutput]) -> Vec<&str> {
    outputs.iter().map(|output| output.path.as_str()).collect()
}

async fn a_committed_output_is_a_record_with_its_counted_name(stores: Stores) {
    let job = running(&stores, 1).await;
    let outputs = vec![picture("9", 0, 1), picture("9", 1, 2)];
    let saved = apply(&stores, &job, advanced(&job), outputs, at(11)).await;
    assert_eq!(
        paths(&saved.outputs),
        ["art/pic_00001_.png", "art/pic_00002_.png"]
    );
    assert_eq!(load(&stores, &job, at(12)).await.as_deref(), Some(&*saved));
    for output in &saved.outputs {
        let record = stores
            .records
            .get(&job.account, output.asset, at(12))
            .await
            .expect("an answer");
        let record = record.expect("an output has a record");
        assert_eq!(
            (record.hash, record.size_bytes),
            (output.hash, output.size_bytes)
        );
        assert_eq!(
            (record.file_path, record.job_id),
            (Some(output.path.clone()), Some(job.id.0))
        );
    }
}

async fn an_output_committed_again_is_the_same_one(stores: Stores) {
    let job = running(&stores, 1).await;
    let first = apply(
        &stores,
        &job,
        advanced(&job),
        vec![picture("9", 0, 1)],
        at(11),
    )
    .await;
    let again = apply(
        &stores,
        &first,
        advanced(&first),
        vec![picture("9", 0, 1)],
        at(12),
    )
    .await;
    assert_eq!(again.outputs, first.outputs);
    let next = apply(
        &stores,
        &again,
        advanced(&again),
        vec![picture("9", 1, 2)],
        at(13),
    )
    .await;
    assert_eq!(
        paths(&next.outputs),
        ["art/pic_00001_.png", "art/pic_00002_.png"]
    );
}

async fn outputs_are_kept_until_the_bytes_are_used_up(stores: Stores) {
    let mut insert = insert_of(1, "a");
    // That of its body, and of an output and a half.
    let body = insert.body.stored_bytes();
    insert.body.placement.stored_bytes = Some(body + 24);
    submit(&stores, insert).await;
    let claimed = claim(&stores, 1, at(10)).await.expect("the job is next");
    let mut job = claimed.job;
    for index in 0..2 {
        let output = vec![picture("9", index, 1 + u128::from(index))];
        job = apply(&stores, &job, advanced(&job), output, at(11)).await;
    }
    let account = job.account.clone();
    let stored = stores.records.stored_bytes(&account).await;
    assert_eq!(stored.expect("the store answers"), body + 32);

    for durability in [Durability::Now, Durability::WithNext] {
        let mut next = Job::clone(&job);
        next.apply(advanced(&job), at(12)).expect("it runs");
        let save = SaveJob {
            job: next,
            // One that is there already is no new one.
            outputs: vec![picture("9", 0, 1), picture("9", 2, 3)],
            log: None,
            durability,
            reports: Vec::new(),
        };
        let refused = stores.jobs.save(save).await.expect("the store answers");
        assert_eq!(refused, SaveOutcome::QuotaExceeded);
    }
    let again = vec![picture("9", 0, 1)];
    let job = apply(&stores, &job, advanced(&job), again, at(13)).await;
    let failed = JobEvent::Finished { epoch: job.epoch };
    apply(&stores, &job, failed, Vec::new(), at(14)).await;
}

/// Saves outputs that may wait for the next save of their job.
async fn deferred(stores: &Stores, job: &Job, outputs: Vec<NewOutput>) -> Arc<Job> {
    let mut next = job.clone();
    next.apply(advanced(job), at(11)).expect("the job runs");
    let save = SaveJob {
        job: next,
        outputs,
        log: None,
        durability: Durability::WithNext,
        reports: Vec::new(),
    };
    match stores.jobs.save(save).await.expect("the store takes it") {
        SaveOutcome::Saved(job) => job,
        SaveOutcome::QuotaExceeded => panic!("no bound is set"),
        SaveOutcome::Conflict => panic!("nobody else saved this job"),
    }
}

async fn outputs_saved_with_the_next_are_there_with_it(stores: Stores) {
    let job = running(&stores, 1).await;
    let first = deferred(&stores, &job, vec![picture("9", 0, 1)]).await;
    let again = vec![picture("9", 0, 1), picture("9", 1, 2)];
    let second = deferred(&stores, &first, again).await;
    let names = ["art/pic_00001_.png", "art/pic_00002_.png"];
    assert_eq!(paths(&second.outputs), names);
    assert!(second.revision > first.revision && first.revision > job.revision);

    let epoch = job.epoch;
    let end = JobEvent::Finished { epoch };
    let last = vec![picture("9", 2, 3)];
    let ended = apply(&stores, &second, end, last, at(12)).await;
    assert_eq!(paths(&ended.outputs)[..2], names);
    assert_eq!(load(&stores, &job, at(13)).await.as_deref(), Some(&*ended));
    for output in &ended.outputs {
        let record = stores.records.get(&job.account, output.asset, at(13)).await;
        let record = record.expect("an answer").expect("a record");
        assert_eq!(record.file_path.as_ref(), Some(&output.path));
        assert_eq!(record.expires_at, Some(ended.expires_at));
    }
}

async fn a_save_that_meets_one_put_off_conflicts_and_finds_it(stores: Stores) {
    let job = running(&stores, 1).await;
    let newest = deferred(&stores, &job, vec![picture("9", 0, 1)]).await;
    let mut canceled = Job::clone(&job);
    canceled
        .apply(JobEvent::CancelRequested, at(12))
        .expect("a running job can be canceled");
    let save = SaveJob {
        job: canceled,
        outputs: Vec::new(),
        log: None,
        durability: Durability::Now,
        reports: Vec::new(),
    };
    let met = stores.jobs.save(save).await.expect("the store answers");
    assert_eq!(met, SaveOutcome::Conflict);
    assert_eq!(load(&stores, &job, at(12)).await, Some(newest.clone()));
    let wish = JobEvent::CancelRequested;
    let canceling = apply(&stores, &newest, wish, Vec::new(), at(12)).await;
    assert_eq!(canceling.outputs, newest.outputs);
}

async fn no_two_outputs_of_an_account_share_a_name(stores: Stores) {
    let job = running(&stores, 1).await;
    // Another prefix that comes out as the same name.
    let mut other = picture("8", 0, 3);
    other.name = OutputName::Counted {
        counter: "art/%kind%".to_owned(),
        stem: "art/pic".to_owned(),
        extension: "png".to_owned(),
    };
    let saved = apply(
        &stores,
        &job,
        advanced(&job),
        vec![picture("9", 0, 1), other],
        at(11),
    )
    .await;
    assert_eq!(
        paths(&saved.outputs),
        ["art/pic_00001_.png", "art/pic_00002_.png"]
    );
    let later = running(&stores, 2).await;
    let saved = apply(
        &stores,
        &later,
        advanced(&later),
        vec![picture("9", 0, 4)],
        at(12),
    )
    .await;
    assert_eq!(paths(&saved.outputs), ["art/pic_00003_.png"]);
    // Another account counts for itself.
    submit(&stores, insert_of(3, "b")).await;
    let foreign = claim(&stores, 1, at(13))
        .await
        .expect("the job is next")
        .job;
    let saved = apply(
        &stores,
        &foreign,
        advanced(&foreign),
        vec![picture("9", 0, 5)],
        at(13),
    )
    .await;
    assert_eq!(paths(&saved.outputs), ["art/pic_00001_.png"]);
}

async fn outputs_are_held_and_expire_with_their_job(stores: Stores) {
    let job = running(&stores, 1).await;
    let saved = apply(
        &stores,
        &job,
        advanced(&job),
        vec![picture("9", 0, 1)],
        at(11),
    )
    .await;
    let output = saved.outputs[0].asset;
    let record = async |now| {
        stores
            .records
            .get(&job.account, output, now)
            .await
            .expect("an answer")
    };
    assert_eq!(
        record(at(12)).await.map(|record| record.expires_at),
        Some(None)
    );
    let done = apply(
        &stores,
        &saved,
        JobEvent::Finished { epoch: saved.epoch },
        Vec::new(),
        at(20),
    )
    .await;
    assert_eq!(
        record(at(21)).await.map(|record| record.expires_at),
        Some(Some(done.expires_at))
    );
    let removal = stores.records.remove(&job.account, output, at(21)).await;
    assert_eq!(removal.expect("an answer"), Removal::Held);
    assert_eq!(record(done.expires_at).await, None);
    // Its hold goes with the job, and only then the record can be swept.
    assert_eq!(
        stores
            .records
            .expire(done.expires_at, 10)
            .await
            .expect("an answer"),
        0
    );
    assert_eq!(
        stores
            .jobs
            .expire(done.expires_at, 10)
            .await
            .expect("an answer"),
        1
    );
    assert_eq!(
        stores
            .records
            .expire(done.expires_at, 10)
            .await
            .expect("an answer"),
        1
    );
}

async fn an_output_is_kept_as_long_as_was_asked_for_during_its_run(stores: Stores) {
    let job = running(&stores, 1).await;
    let advanced = JobEvent::Advanced {
        epoch: job.epoch,
        progress: Progress::start(4),
    };
    let outputs = vec![picture("9", 0, 1), picture("9", 1, 2)];
    let saved = apply(&stores, &job, advanced, outputs, at(11)).await;
    let asked_until = async |place: usize, until: Timestamp| {
        let output = &saved.outputs[place];
        let asset = Asset {
            id: AssetId(Uuid::from_u128(77)),
            created_at: at(12),
            expires_at: Some(until),
            job_id: None,
            ..job.record_of(output)
        };
        let insert = InsertAsset {
            asset,
            rule: InsertRule::FromHash,
            claim: None,
            most_bytes: None,
        };
        match stores.records.insert(insert, at(12)).await {
            Ok(InsertOutcome::Existing(asset)) => (asset.id == output.asset, asset.expires_at),
            other => panic!("{other:?}"),
        }
    };
    let week = at(12 + 604_800);
    assert_eq!(asked_until(0, week).await, (true, Some(week)));
    // That may be over before the run is.
    assert_eq!(asked_until(1, at(72)).await, (true, None));

    let end = JobEvent::Finished { epoch: saved.epoch };
    let done = apply(&stores, &saved, end, Vec::new(), at(100)).await;
    assert!(done.expires_at < week);
    for (output, expected) in done.outputs.iter().zip([week, done.expires_at]) {
        let record = stores
            .records
            .get(&job.account, output.asset, at(101))
            .await;
        let record = record.expect("an answer").expect("a record");
        assert_eq!(record.expires_at, Some(expected));
    }
}

async fn a_list_ends_one_job_after_it_has_outputs_enough(stores: Stores) {
    for n in 1..=5 {
        let job = running(&stores, n).await;
        let outputs = (0..3).map(|index| picture("9", index, n * 10 + u128::from(index)));
        // Its account has room for the next one then.
        let finished = JobEvent::Finished { epoch: job.epoch };
        apply(&stores, &job, finished, outputs.collect(), at(11)).await;
    }
    for over in [None, Some(true)] {
        for (outputs, listed) in [(usize::MAX, 5), (13, 5), (10, 5), (9, 4), (3, 2), (1, 2)] {
            let query = crate::JobQuery {
                over,
                account: account("a"),
                labels: Vec::new(),
                statuses: Vec::new(),
                after: None,
                limit: 10,
                outputs,
            };
            let found = stores.jobs.list(&query, at(12)).await;
            let found = found.expect("the store answers");
            assert_eq!(found.len(), listed, "{outputs} outputs are enough");
        }
    }
}

async fn a_job_past_its_time_is_absent_and_then_swept(stores: Stores) {
    let keyed_job = submit(&stores, keyed(insert_of(1, "a"), 7, 1)).await;
    let kept = submit(&stores, insert_of(2, "a")).await;
    let done = apply(
        &stores,
        &keyed_job,
        JobEvent::CancelRequested,
        Vec::new(),
        at(20),
    )
    .await;
    let before = done.expires_at - SignedDuration::from_millis(1);
    assert!(load(&stores, &done, before).await.is_some());
    assert_eq!(load(&stores, &done, done.expires_at).await, None);
    let query = crate::JobQuery {
        over: None,
        statuses: Vec::new(),
        account: account("a"),
        labels: Vec::new(),
        after: None,
        limit: 10,
        outputs: usize::MAX,
    };
    let listed = stores
        .jobs
        .list(&query, done.expires_at)
        .await
        .expect("the store answers");
    assert_eq!(listed, std::slice::from_ref(&kept));
    assert_eq!(stores.jobs.expire(before, 10).await.expect("an answer"), 0);
    assert_eq!(
        stores
            .jobs
            .expire(done.expires_at, 10)
            .await
            .expect("an answer"),
        1
    );
    // A job that has not ended never goes.
    assert_eq!(
        stores
            .jobs
            .expire(at(10_000_000), 10)
            .await
            .expect("an answer"),
        0
    );
    assert!(load(&stores, &kept, at(10_000_000)).await.is_some());
}

async fn every_field_of_a_finished_job_reads_back(stores: Stores) {
    let job = running(&stores, 1).await;
    let mut error = crate::JobError::new(crate::JobErrorCode::NodeExecutionError, "it broke: ä");
    error.node_id = Some("9".into());
    error.class_type = Some("Known".to_owned());
    error.exception_type = Some("ValueError".to_owned());
    let progress = Progress {
        value: 0.25,
        nodes_done: 1,
        nodes_total: 4,
        current_node: Some("9".into()),
        current_node_class: Some("Known".to_owned()),
        step: Some(3),
        steps: Some(5),
        message: Some("Known 3/5".to_owned()),
    };
    let advanced = JobEvent::Advanced {
        epoch: job.epoch,
        progress,
    };
    let advanced = apply(&stores, &job, advanced, vec![picture("9", 0, 1)], at(11)).await;
    let failed = JobEvent::Failed {
        epoch: job.epoch,
        error,
    };
    let failed = apply(&stores, &advanced, failed, Vec::new(), at(12)).await;
    let read = load(&stores, &job, at(13)).await.expect("the job is there");
    assert_eq!(read, failed);
    let query = crate::JobQuery {
        over: None,
        statuses: Vec::new(),
        account: account("a"),
        labels: Vec::new(),
        after: None,
        limit: 10,
        outputs: usize::MAX,
    };
    assert_eq!(
        stores
            .jobs
            .list(&query, at(13))
            .await
            .expect("the store answers"),
        [failed]
    );
}
