//! What a save that goes with the next one costs: nothing on the disk, and nothing of what must be there with it is left out.

use asset_store::{Blob, BlobStore, SpaceClass};

use super::*;

/// A small blob whose bytes go into the database with the rows that name it.
async fn put(store: &Store, bytes: &'static [u8]) -> Blob {
    let blobs = store.blobs();
    let mut writer = blobs.begin(SpaceClass::Kept).await.expect("a writer");
    writer.write(bytes.into()).await.expect("room");
    writer.commit_with_rows().await.expect("a commit")
}

/// How many blobs wait in rows for their files to be on the disk.
async fn journaled(jobs: &SqliteJobs) -> i64 {
    let count =
        jobs.read(|rows| rows.query_row("SELECT count(*) FROM blob_journal", [], |row| row.get(0)));
    count.await.expect("an answer")
}

#[tokio::test]
async fn an_output_that_needs_no_name_is_written_with_the_next_save_alone() {
    let root = root();
    let store = store(&root, 0);
    let jobs = store.jobs();
    submit(&jobs, 1).await;
    let claimed = claim(&jobs, at(1)).await.job;
    let blob = put(&store, b"picture").await;
    let log_bytes = || {
        let log = std::fs::metadata(root.path().join("main.db-wal"));
        log.expect("the log").len()
    };
    let before = log_bytes();
    let output = NewOutput {
        name: OutputName::Fixed("picture.png".parse().expect("a path")),
        size_bytes: blob.size_bytes,
        hash: blob.hash,
        ..output(1)
    };
    let SaveOutcome::Saved(newest) = deferred(&jobs, &claimed, output).await else {
        panic!("nobody else saved it");
    };
    assert_eq!((log_bytes(), journaled(&jobs).await), (before, 0));

    let epoch = newest.epoch;
    let ended = apply(&jobs, &newest, JobEvent::Finished { epoch }).await;
    assert_eq!(ended.outputs, newest.outputs);
    assert!(log_bytes() > before);
    assert_eq!(journaled(&jobs).await, 1);
    let (records, asset) = (store.records(), ended.outputs[0].asset);
    let record = records.get(&acme(), asset, at(1)).await;
    assert!(record.expect("an answer").is_some());
}
