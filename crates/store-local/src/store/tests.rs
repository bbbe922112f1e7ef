//! Opening, locking and reopening an installation.

use asset_store::{BlobHash, Link};
use jiff::Timestamp;

use super::*;

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
    let found = store.quick_check().await.expect("an answer");
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

    let store = Store::open(root.path()).expect("opening looks at other pages");
    let found = store.quick_check().await.expect("an answer");
    assert!(!found.is_empty());
}
