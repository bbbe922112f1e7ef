//! Opening, locking and reopening an installation.

use asset_store::{
    Asset, AssetId, AssetRecords, BlobHash, BlobStore, InsertAsset, InsertRule, Link, SpaceClass,
};
use jiff::Timestamp;

use super::*;

mod damage;

#[test]
fn an_open_directory_is_refused_until_every_handle_is_gone() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(root.path()).expect("a fresh store");
    let refused = Store::open(root.path()).expect_err("it is taken");
    assert!(
        refused.to_string().contains("in use by another process"),
        "{refused}"
    );
    let blobs = store.blobs();
    drop(store);
    Store::open(root.path()).expect_err("its blobs may still be written");
    drop(blobs);
    Store::open(root.path()).expect("it is free again");
}

#[tokio::test]
async fn link_keys_outlive_the_process_and_rotate() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let now = Timestamp::from_second(0).expect("in range");
    let link = Link {
        hash: BlobHash::of(b"picture"),
        size_bytes: 7,
        content_type: "image/png".to_owned(),
        file_name: "a.png".to_owned(),
        expires_at: Timestamp::from_second(1_000).expect("in range"),
    };
    let store = Store::open(root.path()).expect("a fresh store");
    let old = store.link_keys().await.expect("keys").sign(&link);
    drop(store);

    let store = Store::open(root.path()).expect("the store again");
    let keys = store.link_keys().await.expect("keys");
    assert_eq!(keys.verify(&old, "a.png", now), Ok(link.clone()));
    store.rotate_link_keys().await.expect("a second key");
    let rotated = store.link_keys().await.expect("keys");
    assert_eq!(rotated.verify(&old, "a.png", now), Ok(link.clone()));
    assert_ne!(rotated.sign(&link), old);
    store.rotate_link_keys().await.expect("a third key");
    let twice = store.link_keys().await.expect("keys");
    twice
        .verify(&old, "a.png", now)
        .expect_err("its key is forgotten");
}

#[test]
fn two_directories_have_different_link_keys() {
    let secret = || {
        let root = tempfile::tempdir().expect("a temporary directory");
        drop(Store::open(root.path()).expect("a fresh store"));
        let raw = rusqlite::Connection::open(root.path().join("main.db")).expect("the file");
        let secret = raw.query_row("SELECT secret FROM link_keys", [], |row| row.get(0));
        secret.expect("one key")
    };
    let (one, other): ([u8; 32], [u8; 32]) = (secret(), secret());
    assert_ne!(one, other);
}

#[tokio::test]
async fn a_sound_database_shows_no_damage_and_a_damaged_one_does() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(root.path()).expect("a fresh store");
    store.healthy().expect("nothing failed");
    let found = store.look_through().await.expect("an answer");
    assert_eq!(found, Vec::<String>::new());
    drop(store);

    let file = root.path().join("main.db");
    let raw = rusqlite::Connection::open(&file).expect("the file");
    let page = "SELECT rootpage FROM sqlite_schema WHERE name = 'assets_by_path'";
    let page: u64 = raw
        .query_row(page, [], |row| row.get::<_, i64>(0))
        .expect("an index")
        .unsigned_abs();
    drop(raw);
    let mut bytes = std::fs::read(&file).expect("the file");
    let start = usize::try_from((page - 1) * 4096).expect("a small file");
    bytes[start..start + 4096].fill(0xff);
    std::fs::write(&file, bytes).expect("the file");

    let store = Store::open(root.path()).expect("what is readable stays readable");
    let refused = store.healthy().expect_err("it looked at the start");
    assert!(refused.to_string().contains("backup"), "{refused}");
    let found = store.look_through().await.expect("an answer");
    assert!(!found.is_empty());
}

/// A directory as a power cut leaves it: what the database brought to the disk, and of this file nothing.
fn after_a_power_cut(of: &Path, blob: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a temporary directory");
    for file in ["main.db", "main.db-wal"] {
        std::fs::copy(of.join(file), copy.path().join(file)).expect("the rows");
    }
    let lost = copy.path().join(blob);
    std::fs::create_dir_all(lost.parent().expect("a folder")).expect("a folder");
    std::fs::write(lost, "").expect("an empty file");
    copy
}

async fn put_with_rows(store: &Store, bytes: &'static [u8]) -> asset_store::Blob {
    let blobs = store.blobs();
    let mut writer = blobs.begin(SpaceClass::Kept).await.expect("a writer");
    writer.write(bytes.into()).await.expect("room");
    writer.commit_with_rows().await.expect("a commit")
}

fn found_by_inspection(path: &Path) -> Vec<String> {
    let (_, faults) = crate::inspect(path).expect("it can be looked over");
    faults
}

fn journaled(path: &Path) -> i64 {
    let rows = rusqlite::Connection::open(path.join("main.db")).expect("the file");
    let count = rows.query_row("SELECT count(*) FROM blob_journal", [], |row| row.get(0));
    count.expect("a number")
}

#[tokio::test]
async fn a_small_blob_outlives_a_power_cut_with_the_rows_after_it() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(root.path()).expect("a fresh store");
    let blob = put_with_rows(&store, b"a small picture").await;
    let asset = Asset {
        id: AssetId(uuid::Uuid::from_u128(1)),
        account: "acme".parse().expect("a valid name"),
        hash: blob.hash,
        size_bytes: blob.size_bytes,
        content_type: "image/png".to_owned(),
        file_path: None,
        tags: Vec::new(),
        created_at: Timestamp::UNIX_EPOCH,
        expires_at: None,
        job_id: None,
    };
    let insert = InsertAsset {
        asset,
        rule: InsertRule::Upload,
        claim: None,
        most_bytes: None,
    };
    let inserted = store.records().insert(insert, Timestamp::UNIX_EPOCH).await;
    inserted.expect("a row that names it");
    let hex = blob.hash.to_hex();
    let place = format!("blobs/{}/{hex}", &hex[..2]);
    let cut = after_a_power_cut(root.path(), &place);

    // Neither a look over it nor a copy of it takes the file for damage.
    assert_eq!(found_by_inspection(cut.path()), [""; 0]);
    let copy = tempfile::tempdir().expect("a temporary directory");
    std::fs::remove_file(cut.path().join(&place)).expect("an empty file");
    crate::back_up(cut.path(), copy.path()).expect("a copy");
    let again = Store::open(copy.path()).expect("it recovers, too");
    let bytes = asset_store::read_all(&again.blobs(), &blob).await;
    assert_eq!(bytes.expect("the bytes"), "a small picture");

    let again = Store::open(cut.path()).expect("it recovers");
    let bytes = asset_store::read_all(&again.blobs(), &blob).await;
    assert_eq!(bytes.expect("the bytes"), "a small picture");
    drop(again);
    // The clean end brought the file to the disk, so that the next start has nothing to look through.
    assert_eq!(journaled(cut.path()), 0);
    let bytes = std::fs::read(cut.path().join(&place)).expect("the file");
    assert_eq!(bytes, b"a small picture");
}

#[tokio::test]
async fn what_is_journaled_goes_with_the_next_rows_even_after_some_that_failed() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(root.path()).expect("a fresh store");
    put_with_rows(&store, b"one").await;
    let refused = store.database.write(Durability::Now, |rows| {
        // As a full disk does.
        rows.execute_batch("ROLLBACK")?;
        Err::<(), _>(rusqlite::Error::QueryReturnedNoRows)
    });
    refused.await.expect_err("it fails");
    assert_eq!(journaled(root.path()), 0);
    put_with_rows(&store, b"another").await;
    store.rotate_link_keys().await.expect("rows");
    assert_eq!(journaled(root.path()), 2);
}

#[tokio::test]
async fn the_bytes_of_an_older_database_are_counted_when_it_is_opened() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let account: accounts::AccountId = "acme".parse().expect("a name");
    let now = Timestamp::from_second(0).expect("in range");
    let store = Store::open(root.path()).expect("a fresh store");
    for n in 1..=3_u8 {
        let asset = Asset {
            id: AssetId(uuid::Uuid::from_u128(n.into())),
            account: account.clone(),
            hash: BlobHash::of(&[n]),
            size_bytes: 100,
            content_type: "text/plain".to_owned(),
            file_path: None,
            tags: Vec::new(),
            created_at: now,
            expires_at: None,
            job_id: None,
        };
        let insert = InsertAsset {
            asset,
            rule: InsertRule::Upload,
            claim: None,
            most_bytes: None,
        };
        store.records().insert(insert, now).await.expect("a record");
    }
    drop(store);
    let raw = rusqlite::Connection::open(root.path().join("main.db")).expect("the file");
    // As it was before anything was counted, with a job of 5 bytes.
    raw.execute_batch(
        "DROP TRIGGER stored_bytes_go_with_a_record; DROP TRIGGER stored_bytes_go_with_a_job;
         DROP TABLE stored_bytes; ALTER TABLE jobs DROP COLUMN body_bytes;
         DELETE FROM migrations WHERE aggregate = 'stored';
         INSERT INTO jobs (seq, id, account, revision, status, epoch, lost_claims, created_at, updated_at, completed_at,
             expires_at, retention, progress_value, nodes_done, nodes_total, metadata)
         VALUES (1, x'00000000000000000000000000000001', 'acme', 0, 'succeeded', 0, 0, 0, 0, 0, 1, 1, 1.0, 0, 0, '{}');
         INSERT INTO job_bodies (seq, workflow, files, origin, placement, extra_pnginfo)
         VALUES (1, x'0102', '{}', x'03', '{\"classes\":[],\"needs_secret\":false,\"account_room\":1}', 'é');",
    )
    .expect("an older database");
    drop(raw);

    let store = Store::open(root.path()).expect("the store again");
    let records = store.records();
    let stored = || async { records.stored_bytes(&account).await.expect("an answer") };
    assert_eq!(stored().await, 305);
    let jobs = store.jobs();
    let later = Timestamp::from_second(10).expect("in range");
    let expired = workflow_core::JobStore::expire(&jobs, later, 10).await;
    assert_eq!(expired.expect("an answer"), 1);
    assert_eq!(stored().await, 300);
}
