//! A backup is a data directory, whatever happens to the original meanwhile and afterwards.

use asset_store::{
    Asset, AssetId, AssetRecords, BlobStore, InsertAsset, InsertRule, SpaceClass, read_all,
};
use bytes::Bytes;
use installation::transfer::{Direction, Note, arriving};
use jiff::Timestamp;
use uuid::Uuid;

use super::*;
use crate::Store;

async fn add(store: &Store, number: u128, content: &str) -> Asset {
    let blobs = store.blobs();
    let mut writer = blobs.begin(SpaceClass::Spare).await.expect("a writer");
    let bytes = Bytes::copy_from_slice(content.as_bytes());
    writer.write(bytes).await.expect("room");
    let blob = writer.commit().await.expect("a blob");
    let asset = Asset {
        id: AssetId(Uuid::from_u128(number)),
        account: "acme".parse().expect("an id"),
        hash: blob.hash,
        size_bytes: blob.size_bytes,
        content_type: "text/plain".to_owned(),
        file_path: None,
        tags: Vec::new(),
        created_at: Timestamp::UNIX_EPOCH,
        expires_at: None,
        job_id: None,
    };
    let insert = InsertAsset {
        asset: asset.clone(),
        rule: InsertRule::Upload,
        claim: None,
        most_bytes: None,
    };
    let inserted = store.records().insert(insert, Timestamp::UNIX_EPOCH).await;
    inserted.expect("a record");
    asset
}

async fn reads(store: &Store, asset: &Asset) -> Option<Bytes> {
    let records = store.records();
    let found = records.get(&asset.account, asset.id, Timestamp::UNIX_EPOCH);
    let found = found.await.expect("an answer")?;
    let blob = asset_store::Blob {
        hash: found.hash,
        size_bytes: found.size_bytes,
    };
    Some(read_all(&store.blobs(), &blob).await.expect("the bytes"))
}

#[tokio::test]
async fn a_backup_of_a_store_in_use_is_a_store() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let (data, copy) = (root.path().join("data"), root.path().join("copy"));
    let store = Store::open(&data).expect("a fresh store");
    let first = add(&store, 1, "first").await;
    let made = back_up(&data, &copy).expect("a backup");
    assert_eq!((made.blobs, made.bytes, made.kept), (1, 5, 0));
    let second = add(&store, 2, "second one").await;
    let replay = data.join("replays/ab/result");
    fs::create_dir_all(replay.parent().expect("a folder")).expect("a folder");
    fs::write(&replay, "answered once").expect("a result");
    let made = back_up(&data, &copy).expect("a later backup");
    assert_eq!((made.blobs, made.bytes, made.kept), (2, 15, 1));
    let third = add(&store, 3, "came too late").await;
    drop(store);

    let copied = fs::read_to_string(copy.join("replays/ab/result"));
    assert_eq!(copied.ok().as_deref(), Some("answered once"));
    // The original goes, and what it shared stays.
    fs::remove_dir_all(&data).expect("the original goes");
    let restored = Store::open(&copy).expect("a backup is a data directory");
    assert_eq!(
        reads(&restored, &first).await.as_deref(),
        Some(&b"first"[..])
    );
    assert_eq!(
        reads(&restored, &second).await.as_deref(),
        Some(&b"second one"[..])
    );
    assert_eq!(reads(&restored, &third).await, None);
    add(&restored, 4, "and life goes on").await;
}

/// Over a copy of an installation that was moved, a server would serve it a second time.
#[tokio::test]
async fn a_backup_of_a_directory_that_was_moved_away_is_refused_as_the_directory_is() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let (data, copy) = (root.path().join("data"), root.path().join("copy"));
    let store = Store::open(&data).expect("a fresh store");
    let asset = add(&store, 1, "first").await;
    back_up(&data, &copy).expect("a backup");
    drop(store);
    let note = Note {
        direction: Direction::Out,
        ..arriving(Uuid::from_u128(1), "postgres://db")
    };
    transfer::write_note(&data, &note).expect("a note");
    back_up(&data, &copy).expect("what was moved can be backed up");
    for path in [&data, &copy] {
        let refused = Store::open(path).expect_err("it is elsewhere");
        let text = refused.to_string();
        assert!(text.contains("postgres://db"), "{text}");
        assert!(text.contains("delete the file `transfer`"), "{text}");
    }
    // The move was given up, and the next backup says nothing of it.
    transfer::remove_note(&data).expect("it was there");
    let store = Store::open(&data).expect("it is here again");
    back_up(&data, &copy).expect("a backup in use");
    let restored = Store::open(&copy).expect("a backup is a data directory");
    assert_eq!(
        reads(&restored, &asset).await.as_deref(),
        Some(&b"first"[..])
    );
    drop(store);
}

/// What others append to shares nothing with its copy, and is copied again when it has grown.
#[test]
fn small_results_are_copied_as_they_grow() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let (data, copy) = (root.path().join("data"), root.path().join("copy"));
    drop(Store::open(&data).expect("a fresh store"));
    let [hour, copied] =
        ["data", "copy"].map(|side| root.path().join(side).join("replays/hours/3600"));
    fs::create_dir_all(hour.parent().expect("a folder")).expect("a folder");
    for text in ["one", "one and another"] {
        fs::write(&hour, text).expect("a result");
        for _ in 0..2 {
            back_up(&data, &copy).expect("a backup");
            assert_eq!(fs::read_to_string(&copied).ok().as_deref(), Some(text));
        }
    }
    let inode = |path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).expect("a file"));
    assert_ne!(inode(&hour), inode(&copied));
    let before = inode(&copied);
    back_up(&data, &copy).expect("a backup");
    assert_eq!(inode(&copied), before, "it has not changed");
}

#[tokio::test]
async fn a_look_over_finds_what_is_missing_or_damaged() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(root.path()).expect("a fresh store");
    let (one, other) = (
        add(&store, 1, "one").await,
        add(&store, 2, "the other").await,
    );
    inspect(root.path()).expect_err("it is in use");
    drop(store);
    let (met, faults) = inspect(root.path()).expect("it can be read");
    assert_eq!(
        (met.blobs, met.bytes, faults.len()),
        (2, 12, 0),
        "{faults:?}"
    );

    fs::write(root.path().join(place(root.path(), one.hash)), "ONE").expect("damage");
    fs::remove_file(root.path().join(place(root.path(), other.hash))).expect("a loss");
    let (_, faults) = inspect(root.path()).expect("it can be read");
    assert_eq!(faults.len(), 2, "{faults:?}");
}

#[test]
fn what_is_no_installation_is_not_backed_up() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let refused = back_up(root.path(), &root.path().join("copy"));
    assert!(matches!(refused, Err(BackupError::NoStore(_))));
}

#[tokio::test]
async fn a_file_of_an_earlier_version_is_copied_to_where_it_lies() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let (data, copy) = (root.path().join("data"), root.path().join("copy"));
    let store = Store::open(&data).expect("a fresh store");
    let asset = add(&store, 1, "old").await;
    let hex = asset.hash.to_hex();
    let nested = format!("blobs/{}/{}/{hex}", &hex[..2], &hex[2..4]);
    let (flat, old) = (data.join(place(&data, asset.hash)), data.join(&nested));
    fs::create_dir(old.parent().expect("a folder")).expect("a folder");
    fs::rename(flat, &old).expect("its earlier place");
    let made = back_up(&data, &copy).expect("a backup");
    assert_eq!((made.blobs, made.kept), (1, 0));
    let made = back_up(&data, &copy).expect("a later backup");
    assert_eq!((made.blobs, made.kept), (1, 1));
    assert!(copy.join(&nested).exists());
    drop(store);
    let (met, faults) = inspect(&copy).expect("it can be read");
    assert_eq!((met.blobs, faults.len()), (1, 0), "{faults:?}");
    let restored = Store::open(&copy).expect("a backup is a data directory");
    assert_eq!(reads(&restored, &asset).await.expect("it is there"), "old");
}
