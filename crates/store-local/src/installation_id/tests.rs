//! Lost, exchanged and readable files of a directory, and what a start makes of them.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use asset_store::{BlobHash, BlobStore, SpaceClass};
use bytes::Bytes;
use tempfile::TempDir;

use super::*;
use crate::{OpenError, Store, StoreOptions};

/// A directory with one blob, closed.
async fn used() -> (TempDir, BlobHash) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(root.path()).expect("a fresh store");
    let mut writer = store
        .blobs()
        .begin(SpaceClass::Spare)
        .await
        .expect("a writer");
    writer
        .write(Bytes::from_static(b"picture"))
        .await
        .expect("bytes");
    writer.finish().await.expect("the end");
    let blob = writer.commit().await.expect("a blob");
    (root, blob.hash)
}

fn refusal(path: &Path) -> WrongRows {
    match Store::open(path) {
        Err(OpenError::Rows(wrong)) => wrong,
        Err(other) => panic!("refused for another reason: {other}"),
        Ok(_) => panic!("opened"),
    }
}

fn blob_path(root: &Path, hash: BlobHash) -> PathBuf {
    let hex = hash.to_hex();
    root.join("blobs").join(&hex[..2]).join(&hex)
}

#[tokio::test]
async fn lost_rows_are_refused_and_nothing_is_deleted() {
    let (root, hash) = used().await;
    for lose in [
        (|file| File::create(file).map(drop)) as fn(PathBuf) -> io::Result<()>,
        |file| fs::remove_file(file),
    ] {
        lose(root.path().join("main.db")).expect("the rows are lost");
        let refused = refusal(root.path());
        assert!(matches!(refused, WrongRows::Missing(_)), "{refused}");
        assert!(refused.to_string().contains("--fresh"), "{refused}");
        assert!(blob_path(root.path(), hash).exists());
        assert!(root.path().join("installation").exists());
    }
    // Without the file too, for a directory of an earlier version has none.
    fs::remove_file(root.path().join("installation")).expect("the id");
    assert!(matches!(refusal(root.path()), WrongRows::Missing(_)));
}

#[tokio::test]
async fn a_fresh_installation_begins_where_it_is_insisted_on() {
    let (root, hash) = used().await;
    fs::remove_file(root.path().join("main.db")).expect("the rows are lost");
    let options = StoreOptions {
        fresh: true,
        ..StoreOptions::default()
    };
    drop(Store::open_with(root.path(), options).expect("a fresh installation"));
    assert!(blob_path(root.path(), hash).exists());
    assert!(root.path().join("installation.before").exists());
    drop(Store::open(root.path()).expect("it is one like any other from then on"));
}

#[tokio::test]
async fn rows_of_another_installation_are_refused_unchanged() {
    let (root, _) = used().await;
    let (other, _) = used().await;
    let (ours, theirs) = (root.path().join("main.db"), other.path().join("main.db"));
    fs::copy(&theirs, &ours).expect("the wrong rows");
    let before = fs::read(&ours).expect("the rows");
    let refused = refusal(root.path());
    assert!(matches!(refused, WrongRows::Exchanged(_)), "{refused}");
    assert_eq!(fs::read(&ours).expect("the rows"), before);
    // What the sentence says works.
    fs::remove_file(root.path().join("installation")).expect("the id");
    drop(Store::open(root.path()).expect("they are the right ones now"));
}

#[tokio::test]
async fn a_directory_without_the_file_or_with_a_damaged_one_gets_it() {
    let (root, _) = used().await;
    let file = root.path().join("installation");
    let id = fs::read_to_string(&file).expect("the id");
    fs::remove_file(&file).expect("as an earlier version leaves it");
    drop(Store::open(root.path()).expect("a store"));
    assert_eq!(fs::read_to_string(&file).expect("the id"), id);
    fs::write(&file, "\u{0}\u{0}").expect("damage");
    drop(Store::open(root.path()).expect("a store"));
    assert_eq!(fs::read_to_string(&file).expect("the id"), id);
}

#[test]
fn a_first_start_that_was_cut_off_is_no_lost_installation() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let directory = Directory::take(root.path()).expect("a fresh directory");
    directory.create_database().expect("an empty file");
    fs::write(root.path().join("calls-0.log"), [0; 16]).expect("a log");
    expect_rows(&directory, false).expect("nothing was there before");
}

#[tokio::test]
async fn other_users_can_read_nothing_even_where_they_could() {
    let (root, _) = used().await;
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let rows = root.path().join("main.db");
    fs::set_permissions(&rows, fs::Permissions::from_mode(0o644)).expect("a mode");
    let store = Store::open(root.path()).expect("a store");
    let mut seen = 0;
    let mut folders = vec![root.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let metadata = entry.metadata().expect("its mode");
            let others = metadata.permissions().mode() & 0o077;
            // The folders of blobs lie in one that others cannot enter.
            let is_inner = metadata.is_dir() && folder != root.path();
            assert!(others == 0 || is_inner, "{}", entry.path().display());
            seen += 1;
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    let mode = fs::metadata(root.path()).expect("its mode").permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    assert!(seen > 8, "only {seen} files were there");
    drop(store);
}
