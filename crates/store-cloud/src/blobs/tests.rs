//! The contract on a real object store, and what a store in trouble may not break.

mod direct;
mod proxy;
mod small;

use std::sync::Arc;
use std::time::Duration;

use asset_store::contract::{self, TestClock};
use asset_store::{MemoryRecords, read_all};
use bytes::Bytes;
use http::{Method, StatusCode};
use jiff::SignedDuration;
use proxy::{Fault, Proxy};

use super::*;
use crate::{BucketOptions, testing};

fn blobs_at(options: &BucketOptions, database: Database, clock: TestClock) -> BucketBlobs {
    let bucket = Bucket::new(options).expect("the options are right");
    let spool = BlobOptions::default();
    BucketBlobs::new(bucket, database, &spool, move || clock.now())
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_in_a_bucket_keep_the_contract() {
    if !crate::testing::has_postgres() {
        return;
    }
    if testing::bucket().is_none() {
        return;
    }
    contract::blob_store(|clock| {
        let options = testing::bucket().expect("it was there before");
        let database = testing::now(testing::database());
        Arc::new(blobs_at(&options, database, clock))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_blobs_in_a_bucket_keep_the_contract() {
    if !crate::testing::has_postgres() {
        return;
    }
    if testing::bucket().is_none() {
        return;
    }
    contract::damaged_blobs(|clock| {
        let options = testing::bucket().expect("it was there before");
        let database = testing::now(testing::database());
        let blobs = blobs_at(&options, database, clock);
        let damaged = blobs.clone();
        let damage = move |hash: &BlobHash, bytes: &[u8]| testing::now(damaged.damage(hash, bytes));
        (Arc::new(blobs), Box::new(damage))
    })
    .await;
}

impl BucketBlobs {
    /// Replaces the bytes of a blob where they lie.
    async fn damage(&self, hash: &BlobHash, bytes: &[u8]) {
        let damage = "UPDATE blob_ages SET bytes = $2 WHERE hash = $1 AND bytes IS NOT NULL";
        let connection = self.shared.database.connection().await;
        let connection = connection.expect("it answers");
        let name = hash.as_bytes().as_slice();
        let replaced = connection.execute(damage, &[&name, &bytes]).await;
        if replaced.expect("it is changed") == 0 {
            let bytes = Bytes::copy_from_slice(bytes);
            let put = self.shared.bucket.put(hash, bytes).await;
            put.expect("the object is replaced");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_of_two_replicas_keep_the_contract() {
    if !crate::testing::has_postgres() {
        return;
    }
    if testing::bucket().is_none() {
        return;
    }
    contract::replicas(|clock| {
        let options = testing::bucket().expect("it was there before");
        let url = testing::now(testing::fresh_database());
        let records = Arc::new(MemoryRecords::new());
        [(); 2].map(|()| contract::Replica {
            blobs: Arc::new(blobs_at(
                &options,
                testing::now(testing::open(&url)),
                clock.clone(),
            )),
            records: records.clone(),
            released: records.clone(),
            sweeps: records.clone(),
        })
    })
    .await;
}

/// A clock, blobs behind a proxy and the same blobs without it; `None` where no object store is installed.
async fn in_trouble(patience: Duration) -> Option<(TestClock, Proxy, BucketBlobs, BucketBlobs)> {
    let mut options = testing::bucket()?;
    options.patience = patience;
    let proxy = Proxy::start(&options).await;
    let clock = TestClock::at(Timestamp::from_second(1_800_000_000).expect("in range"));
    let database = testing::database().await;
    let broken = blobs_at(&proxy.options, database.clone(), clock.clone());
    let whole = blobs_at(&options, database, clock.clone());
    Some((clock, proxy, broken, whole))
}

const PATIENT: Duration = Duration::from_secs(30);

async fn put(blobs: &BucketBlobs, bytes: &[u8]) -> Result<Blob, BlobError> {
    let mut writer = blobs.begin(SpaceClass::Spare).await?;
    for chunk in bytes.chunks(100_003) {
        writer.write(Bytes::copy_from_slice(chunk)).await?;
    }
    writer.commit().await
}

fn bytes(length: u32) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

const ERRS: Fault = Fault::Status(StatusCode::SERVICE_UNAVAILABLE);

#[tokio::test]
async fn requests_that_a_store_fails_are_made_again() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some((clock, proxy, blobs, _)) = in_trouble(PATIENT).await else {
        return;
    };
    // At once, and in two parts.
    for length in [20_000, 9_000_000] {
        let bytes = bytes(length);
        if length > 20_000 {
            // Of the beginning of the parts and of their end.
            let begin = [ERRS, Fault::LostAnswer, Fault::Cut(10)];
            proxy.plan(&Method::POST, begin);
        }
        proxy.plan(&Method::PUT, [ERRS, Fault::LostAnswer]);
        let blob = put(&blobs, &bytes).await.expect("a commit");
        proxy.plan(&Method::GET, [ERRS, Fault::LostAnswer, Fault::Cut(500)]);
        let read = read_all(&blobs, &blob).await.expect("the bytes");
        assert_eq!(read, bytes);
        proxy.plan(&Method::GET, [ERRS, Fault::LostAnswer]);
        assert_eq!(blobs.list(None, 10).await.expect("a list"), [blob]);
        proxy.plan(&Method::HEAD, [ERRS, Fault::LostAnswer]);
        let touched = blobs.touch(&blob.hash).await.expect("an answer");
        assert_eq!(touched, Some(blob.size_bytes));
        proxy.plan(&Method::DELETE, [ERRS, Fault::LostAnswer]);
        let later = clock.advance(SignedDuration::from_secs(1));
        assert!(blobs.delete(&blob.hash, later).await.expect("an answer"));
        assert_eq!(blobs.list(None, 10).await.expect("a list"), []);
    }
    assert_eq!(proxy.left(), 0);
}

#[tokio::test]
async fn the_answer_to_the_end_of_an_upload_may_be_lost() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some((_, proxy, blobs, whole)) = in_trouble(PATIENT).await else {
        return;
    };
    let bytes = bytes(9_000_000);
    let mut writer = blobs.begin(SpaceClass::Spare).await.expect("a writer");
    writer
        .write(Bytes::from(bytes.clone()))
        .await
        .expect("room");
    writer.finish().await.expect("an end");
    // The first request of this method begins the upload, and the second one ends it.
    proxy.plan(&Method::POST, [Fault::Pass, Fault::LostAnswer]);
    let blob = writer.commit().await.expect("a commit");
    assert_eq!(proxy.left(), 0);
    assert_eq!(read_all(&whole, &blob).await.expect("the bytes"), bytes);
}

#[tokio::test]
async fn bodies_that_break_off_again_and_again_are_read_to_their_end() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some((_, proxy, blobs, whole)) = in_trouble(PATIENT).await else {
        return;
    };
    let bytes = bytes(3_000_001);
    let blob = put(&whole, &bytes).await.expect("a commit");
    let cuts = [700_000, 1, 0, 1_000_000, 5, 300_000].map(Fault::Cut);
    proxy.plan(&Method::GET, cuts);
    assert_eq!(read_all(&blobs, &blob).await.expect("the bytes"), bytes);
    proxy.plan(&Method::GET, cuts);
    let part = blobs.open(&blob.hash, 7..2_900_000).await.expect("it");
    let part: Vec<Bytes> = part.bytes.try_collect().await.expect("the bytes");
    assert_eq!(part.concat(), bytes[7..2_900_000]);
    assert_eq!(proxy.left(), 0);
}

#[tokio::test]
async fn a_store_that_never_answers_a_request_is_asked_again() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some((_, proxy, blobs, _)) = in_trouble(Duration::from_millis(300)).await else {
        return;
    };
    let bytes = bytes(20_000);
    proxy.plan(&Method::PUT, [Fault::Silence]);
    let blob = put(&blobs, &bytes).await.expect("a commit");
    proxy.plan(
        &Method::GET,
        [Fault::Silence, Fault::Cut(10), Fault::Silence],
    );
    assert_eq!(read_all(&blobs, &blob).await.expect("the bytes"), bytes);
    assert_eq!(proxy.left(), 0);
}

#[tokio::test]
async fn what_a_store_never_takes_is_an_error_and_leaves_nothing() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some((clock, proxy, blobs, whole)) = in_trouble(PATIENT).await else {
        return;
    };
    for length in [20_000, 9_000_000] {
        let bytes = bytes(length);
        proxy.plan(&Method::PUT, [ERRS; 100]);
        let refused = put(&blobs, &bytes).await;
        assert!(matches!(refused, Err(BlobError::Io(_))), "{refused:?}");
        assert!(proxy.left() > 0, "it is not asked for ever");
        assert_eq!(whole.list(None, 10).await.expect("a list"), []);
        let hash = BlobHash::of(&bytes);
        assert_eq!(blobs.touch(&hash).await.expect("an answer"), None);
        // With room for no more, it says so at once.
        proxy.forget();
        proxy.plan(
            &Method::PUT,
            [Fault::Status(StatusCode::INSUFFICIENT_STORAGE)],
        );
        let refused = put(&blobs, &bytes).await;
        assert!(matches!(refused, Err(BlobError::Full(_))), "{refused:?}");
        assert_eq!(proxy.left(), 0);
    }
    let rows = async || {
        let connection = blobs
            .shared
            .database
            .connection()
            .await
            .expect("it answers");
        let counted = connection
            .query_one("SELECT count(*) FROM blob_ages", &[])
            .await;
        counted.expect("a count").get::<_, i64>(0)
    };
    assert_eq!(rows().await, 2);
    clock.advance(SignedDuration::from_hours(1_000));
    whole.list(None, 10).await.expect("a list");
    assert_eq!(rows().await, 0, "rows of puts that failed go with time");
}

#[tokio::test]
async fn the_row_of_a_blob_that_is_held_is_written_once() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some((_, _, _, blobs)) = in_trouble(PATIENT).await else {
        return;
    };
    put(&blobs, &bytes(20_000)).await.expect("a commit");
    let connection = blobs.shared.database.connection().await;
    let connection = connection.expect("it answers");
    let row = "SELECT placed, ctid = '(0,1)' FROM blob_ages";
    let row = connection.query_one(row, &[]).await.expect("a row");
    assert!(row.get::<_, bool>(0), "it is whole");
    assert!(row.get::<_, bool>(1), "and its row is the first one");
}

#[tokio::test]
async fn a_blob_without_a_row_is_as_old_as_its_object() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some((_, _, _, blobs)) = in_trouble(PATIENT).await else {
        return;
    };
    let blob = put(&blobs, &bytes(20_000)).await.expect("a commit");
    let connection = blobs
        .shared
        .database
        .connection()
        .await
        .expect("it answers");
    let lost = connection.execute("DELETE FROM blob_ages", &[]).await;
    assert_eq!(lost.expect("it is deleted"), 1);
    assert_eq!(blobs.list(None, 10).await.expect("a list"), [blob]);
    let before = Timestamp::from_second(1_000).expect("in range");
    assert!(!blobs.delete(&blob.hash, before).await.expect("an answer"));
    let touched = blobs.touch(&blob.hash).await.expect("an answer");
    assert_eq!(touched, Some(blob.size_bytes));
    connection
        .execute("DELETE FROM blob_ages", &[])
        .await
        .expect("it is deleted");
    let after = Timestamp::MAX;
    assert!(blobs.delete(&blob.hash, after).await.expect("an answer"));
    assert_eq!(blobs.list(None, 10).await.expect("a list"), []);
}

#[tokio::test]
async fn uploads_take_no_more_of_the_disk_than_they_may() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some(options) = testing::bucket() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let spool = BlobOptions {
        spool: folder.path().to_owned(),
        spool_bytes: 1_000_000,
    };
    let bucket = Bucket::new(&options).expect("the options are right");
    let blobs = BucketBlobs::new(bucket, testing::database().await, &spool, Timestamp::now);
    let begin = async || blobs.begin(SpaceClass::Spare).await.expect("a writer");
    let (mut one, mut other) = (begin().await, begin().await);
    let chunk = Bytes::from(bytes(800_000));
    one.write(chunk.clone()).await.expect("room");
    let refused = other.write(chunk.clone()).await;
    assert!(matches!(refused, Err(BlobError::Full(_))), "{refused:?}");
    drop((one, other));
    begin().await.write(chunk).await.expect("room again");
    let names = std::fs::read_dir(folder.path()).expect("the folder");
    assert_eq!(names.count(), 0, "no file has a name");
}

#[tokio::test]
async fn a_blob_lies_under_the_first_bytes_of_its_hash() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some(options) = testing::bucket() else {
        return;
    };
    let bucket = Bucket::new(&options).expect("the options are right");
    let hash = BlobHash::of(b"easel");
    let hex = hash.to_hex();
    let key = format!("{}/b3/{}/{}/{hex}", options.prefix, &hex[..2], &hex[2..4]);
    assert_eq!(bucket.key(&hash).as_ref(), key);
}
