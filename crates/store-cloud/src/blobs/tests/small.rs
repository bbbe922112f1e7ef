//! Small blobs: their bytes are in their rows, once every replica looks there, and nowhere else.

use super::*;
use crate::form;

/// How many objects there are, and how many rows that have bytes.
async fn places(blobs: &BucketBlobs) -> (usize, i64) {
    let objects = blobs.shared.bucket.page(None, 100, None).await;
    let (objects, _) = objects.expect("a page");
    let connection = blobs.shared.database.connection().await;
    let connection = connection.expect("it answers");
    let rows = connection
        .query_one("SELECT count(bytes) FROM blob_ages", &[])
        .await;
    (objects.len(), rows.expect("a count").get(0))
}

async fn in_rows(blobs: &BucketBlobs, in_rows: bool) {
    let connection = blobs.shared.database.connection().await;
    let connection = connection.expect("it answers");
    let changed = connection
        .execute("UPDATE blob_form SET in_rows = $1", &[&in_rows])
        .await;
    assert_eq!(changed.expect("it is changed"), 1);
}

#[tokio::test]
async fn a_small_blob_is_in_its_row_and_asks_nothing_of_the_bucket() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some((clock, proxy, blobs, whole)) = in_trouble(Duration::from_millis(100)).await else {
        return;
    };
    // Whatever is asked of the bucket is not answered.
    for method in [Method::PUT, Method::GET, Method::HEAD, Method::DELETE] {
        proxy.plan(&method, [Fault::Silence; 100]);
    }
    let bytes = bytes(16_384);
    let blob = put(&blobs, &bytes).await.expect("a commit");
    assert_eq!(read_all(&blobs, &blob).await.expect("the bytes"), bytes);
    let part = blobs.open(&blob.hash, 5..9).await.expect("it");
    let part: Vec<Bytes> = part.bytes.try_collect().await.expect("the bytes");
    assert_eq!(part.concat(), bytes[5..9]);
    let verified = blobs.verify(&blob.hash).await.expect("it is there");
    let verified: Vec<u64> = verified.try_collect().await.expect("it is whole");
    assert_eq!(verified, [16_384]);
    let touched = blobs.touch(&blob.hash).await.expect("an answer");
    assert_eq!(touched, Some(16_384));
    let presented = Presented {
        content_type: "image/png",
        disposition: "inline",
    };
    let address = blobs.address(&blob, presented, PATIENT).await;
    assert_eq!(address.expect("an answer"), None, "it is read here");
    let later = clock.advance(SignedDuration::from_secs(1));
    assert_eq!(places(&whole).await, (0, 1));
    assert!(blobs.delete(&blob.hash, later).await.expect("an answer"));
    assert_eq!(places(&whole).await, (0, 0));
    assert_eq!(proxy.left(), 400, "nothing was asked");
}

#[tokio::test]
async fn small_blobs_are_put_into_the_bucket_as_long_as_the_version_before_may_read_them() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some((clock, _, _, blobs)) = in_trouble(PATIENT).await else {
        return;
    };
    in_rows(&blobs, false).await;
    let before = put(&blobs, b"before").await.expect("a commit");
    assert_eq!(places(&blobs).await, (1, 0));
    in_rows(&blobs, true).await;
    let after = put(&blobs, b"after").await.expect("a commit");
    // What is in the bucket stays there.
    put(&blobs, b"before").await.expect("a commit");
    assert_eq!(places(&blobs).await, (1, 1));
    for (blob, bytes) in [(before, b"before".as_slice()), (after, b"after")] {
        assert_eq!(read_all(&blobs, &blob).await.expect("the bytes"), bytes);
        let touched = blobs.touch(&blob.hash).await.expect("an answer");
        assert_eq!(touched, Some(blob.size_bytes));
    }
    let mut both = [before, after];
    both.sort_by_key(|blob| blob.hash);
    assert_eq!(blobs.list(None, 10).await.expect("a list"), both);
    let later = clock.advance(SignedDuration::from_secs(1));
    for blob in both {
        assert!(blobs.delete(&blob.hash, later).await.expect("an answer"));
    }
    assert_eq!(blobs.list(None, 10).await.expect("a list"), []);
    assert_eq!(places(&blobs).await, (0, 0));
}

#[tokio::test]
async fn a_blob_in_both_places_is_one_and_its_object_goes_after_its_row() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some((clock, _, _, blobs)) = in_trouble(PATIENT).await else {
        return;
    };
    in_rows(&blobs, false).await;
    let blob = put(&blobs, b"twice").await.expect("a commit");
    let connection = blobs.shared.database.connection().await;
    let connection = connection.expect("it answers");
    // As after a restore of older rows.
    let lost = connection.execute("DELETE FROM blob_ages", &[]).await;
    assert_eq!(lost.expect("it is deleted"), 1);
    in_rows(&blobs, true).await;
    put(&blobs, b"twice").await.expect("a commit");
    assert_eq!(places(&blobs).await, (1, 1));
    assert_eq!(blobs.list(None, 10).await.expect("a list"), [blob]);
    let later = clock.advance(SignedDuration::from_secs(1));
    assert!(blobs.delete(&blob.hash, later).await.expect("an answer"));
    assert_eq!(places(&blobs).await, (1, 0));
    assert_eq!(blobs.list(None, 10).await.expect("a list"), [blob]);
    let after = Timestamp::MAX;
    assert!(blobs.delete(&blob.hash, after).await.expect("an answer"));
    assert_eq!(places(&blobs).await, (0, 0));
}

#[tokio::test]
async fn the_bytes_of_a_row_are_on_the_disk_and_written_once() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some((_, _, _, blobs)) = in_trouble(PATIENT).await else {
        return;
    };
    let database = &blobs.shared.database;
    let connection = database.connection().await.expect("it answers");
    let number = async |sql: &str| {
        let row = connection.query_one(sql, &[]).await;
        row.expect("an answer").get::<_, i64>(0)
    };
    let written = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
    let flushed = "SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint";
    // What others write of this server goes to the disk in its own time: only a wait takes it there by then.
    for with_rows in [false, true] {
        let before = number(written).await;
        let bytes = bytes(if with_rows { 15_001 } else { 15_000 });
        let mut writer = blobs.begin(SpaceClass::Spare).await.expect("a writer");
        writer
            .write(Bytes::from(bytes.clone()))
            .await
            .expect("room");
        let committed = match with_rows {
            true => writer.commit_with_rows().await,
            false => writer.commit().await,
        };
        committed.expect("a commit");
        let flushed = number(flushed).await;
        assert!(flushed >= before + 15_000, "{flushed} {before}");
        put(&blobs, &bytes).await.expect("a commit");
    }
    let pages =
        "SELECT pg_relation_size(reltoastrelid) / 8192 FROM pg_class WHERE relname = 'blob_ages'";
    // Each has two, and no second version of them.
    assert_eq!(number(pages).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_go_to_rows_once_the_version_before_is_gone() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some(options) = testing::bucket() else {
        return;
    };
    let url = testing::fresh_database().await;
    let blobs = blobs_at(
        &options,
        testing::open(&url).await,
        TestClock::at(Timestamp::now()),
    );
    in_rows(&blobs, false).await;
    let database = &blobs.shared.database;
    let look = async |seen_none: &mut u32, looks| {
        let looked = form::look(database, form::BLOBS_IN_ROWS, seen_none, looks).await;
        looked.expect("an answer")
    };
    let before = crate::DatabaseOptions {
        connections: 2,
        application: crate::database::SERVING[1],
        ..crate::DatabaseOptions::default()
    };
    let before = Database::open(&url, before).await.expect("it opens");
    let connection = before.connection().await.expect("it answers");
    let mut seen_none = 1;
    assert!(!look(&mut seen_none, 1).await, "one is here");
    assert_eq!(seen_none, 0);
    put(&blobs, b"not yet").await.expect("a commit");
    let pid = connection.query_one("SELECT pg_backend_pid()", &[]).await;
    let pid: i32 = pid.expect("an answer").get(0);
    let end = database.connection().await.expect("it answers");
    let ended = end
        .query_one("SELECT pg_terminate_backend($1, 5000)", &[&pid])
        .await;
    assert!(ended.expect("an answer").get::<_, bool>(0));
    drop((connection, before));
    let mut looks = 0..10_000;
    while seen_none == 0 && looks.next().is_some() {
        assert!(!look(&mut seen_none, 3).await, "it may come back");
    }
    assert!(!look(&mut seen_none, 3).await, "it may come back");
    assert!(look(&mut seen_none, 3).await);
    put(&blobs, b"now").await.expect("a commit");
    assert_eq!(places(&blobs).await, (1, 1));
}

#[tokio::test]
async fn a_version_before_that_comes_back_forgets_no_bytes() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some((_, _, _, blobs)) = in_trouble(PATIENT).await else {
        return;
    };
    let blob = put(&blobs, b"small").await.expect("a commit");
    let connection = blobs.shared.database.connection().await;
    let connection = connection.expect("it answers");
    // What it says of a put of the same bytes that failed, and what it forgets.
    let doubt = "UPDATE blob_ages SET placed = false";
    let doubted = connection.batch_execute(doubt).await;
    doubted.expect_err("the row has bytes");
    let forget = connection
        .execute("DELETE FROM blob_ages WHERE NOT placed", &[])
        .await;
    assert_eq!(forget.expect("an answer"), 0);
    assert_eq!(read_all(&blobs, &blob).await.expect("it"), b"small"[..]);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_damaged_until_its_bytes_are_put_again() {
    if !crate::testing::has_postgres() {
        return;
    }
    let Some((_, _, _, blobs)) = in_trouble(PATIENT).await else {
        return;
    };
    let bytes = bytes(15_000);
    let blob = put(&blobs, &bytes).await.expect("a commit");
    let connection = blobs.shared.database.connection().await;
    let connection = connection.expect("it answers");
    // The bytes are in a table that nobody may change as long as it is what it is.
    let lose = "DO $$
        DECLARE place regclass := (SELECT reltoastrelid FROM pg_class WHERE relname = 'blob_ages');
        BEGIN
            UPDATE pg_class SET relkind = 'r' WHERE oid = place;
            EXECUTE 'DELETE FROM ' || place;
            UPDATE pg_class SET relkind = 't' WHERE oid = place;
        END $$";
    connection.batch_execute(lose).await.expect("they go");
    // Bytes that are deleted are read as long as they are there.
    let vacuum =
        "SELECT 'VACUUM ' || reltoastrelid::regclass FROM pg_class WHERE relname = 'blob_ages'";
    let vacuum = connection.query_one(vacuum, &[]).await;
    let vacuum: String = vacuum.expect("an answer").get(0);
    connection
        .batch_execute(&vacuum)
        .await
        .expect("they are gone");
    let verified = blobs.verify(&blob.hash).await.expect("an answer");
    let verified: Result<Vec<u64>, BlobError> = verified.try_collect().await;
    assert!(matches!(verified, Err(BlobError::Damaged(_))));
    let opened = blobs.open(&blob.hash, 0..1).await;
    assert!(matches!(opened, Err(BlobError::Damaged(_))));
    assert_eq!(blobs.damaged(), [blob.hash]);

    // Whatever is written together with it.
    let all: Vec<&[u8]> = vec![b"1", b"2", &bytes, b"3", b"4"];
    let puts = all.iter().map(|bytes| put(&blobs, bytes));
    for (put, bytes) in futures_util::future::join_all(puts)
        .await
        .into_iter()
        .zip(all)
    {
        let blob = put.expect("a commit");
        assert_eq!(read_all(&blobs, &blob).await.expect("the bytes"), bytes);
    }
    assert_eq!(blobs.damaged(), []);
}
