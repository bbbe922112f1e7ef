//! Files under faults: torn, full, swept and met again.

use std::fs;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use asset_store::contract::{self, TestClock};
use asset_store::read_all;
use bytes::Bytes;
use futures_util::FutureExt;
use installation::ReserveOptions;
use tempfile::TempDir;

use super::directory::Layout;
use super::*;
use crate::directory::DirectoryError;

/// Blobs in a directory of their own, taken like that of a store. Threads of those before may still close their files.
fn blobs_in(path: &Path, clock: Clock) -> FileBlobs {
    let begun = Instant::now();
    let directory = loop {
        match Directory::take(path) {
            Err(DirectoryError::InUse(_)) if begun.elapsed() < Duration::from_secs(30) => {
                thread::yield_now();
            }
            taken => break taken.expect("the directory is free"),
        }
    };
    let reserve = Reserve::open(&directory, ReserveOptions::NONE);
    let (directory, health) = (Arc::new(directory), Health::default());
    let journal = Journal::new(Arc::clone(&directory), health.clone());
    FileBlobs::open(directory, health, reserve, journal, clock).expect("it can be opened")
}

fn blobs(root: &TempDir) -> FileBlobs {
    blobs_in(root.path(), Clock::system())
}

fn root() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

async fn put(blobs: &FileBlobs, bytes: &Bytes) -> Blob {
    let mut writer = blobs.begin(SpaceClass::Spare).await.expect("a writer");
    writer.write(bytes.clone()).await.expect("room");
    writer.commit().await.expect("a commit")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Waits until every turn to write is free.
async fn all_turns_free(blobs: &FileBlobs) {
    let all = u32::try_from(WRITERS).expect("a small number");
    drop(blobs.turns.acquire_many(all).await.expect("never closed"));
}

/// Waits until nothing is left of what was being written.
async fn nothing_left(root: &TempDir) {
    while !files(&root.path().join("tmp")).is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn blobs_in_files_keep_the_contract() {
    let roots = Mutex::new(Vec::new());
    contract::blob_store(|clock: TestClock| {
        let root = root();
        let blobs = blobs_in(root.path(), Clock::new(move || clock.now()));
        roots.lock().expect("no panic").push(root);
        Arc::new(blobs)
    })
    .await;
}

#[tokio::test]
async fn damaged_blobs_in_files_keep_the_contract() {
    let roots = Mutex::new(Vec::new());
    contract::damaged_blobs(|clock: TestClock| {
        let root = root();
        let blobs = blobs_in(root.path(), Clock::new(move || clock.now()));
        roots.lock().expect("no panic").push(root);
        let prefixes = Arc::clone(&blobs.prefixes);
        let damage = move |hash: &BlobHash, bytes: &[u8]| {
            let path = prefixes.path(Layout::Flat, hash);
            let file = fs::metadata(&path).and_then(|there| there.modified());
            let modified = file.expect("the file");
            fs::write(&path, bytes).expect("the file");
            // A disk that fails renews no time.
            let file = fs::File::options().write(true).open(&path);
            let kept = file.and_then(|file| file.set_modified(modified));
            kept.expect("the file");
        };
        (Arc::new(blobs), Box::new(damage))
    })
    .await;
}

#[tokio::test]
async fn what_a_process_before_damaged_is_found_before_a_part_is_given_out() {
    let root = root();
    let bytes = Bytes::from(vec![7; 3_000_000]);
    let blob = put(&blobs(&root), &bytes).await;
    let path = blobs(&root).prefixes.path(Layout::Flat, &blob.hash);
    let part = async || blobs(&root).open(&blob.hash, 10..20).await;
    assert!(part().await.is_ok());
    let mut damaged = bytes.to_vec();
    damaged[2_000_000] = 8;
    fs::write(path, damaged).expect("the file");
    let refused = part().await;
    assert!(matches!(refused, Err(BlobError::Damaged(_))), "{refused:?}");
}

#[tokio::test]
async fn a_comparison_of_a_file_that_was_replaced_condemns_nothing() {
    let root = root();
    let blobs = blobs(&root);
    let bytes = Bytes::from(vec![7; 1_000]);
    let blob = put(&blobs, &bytes).await;
    fs::write(blobs.prefixes.path(Layout::Flat, &blob.hash), "damaged").expect("the file");
    let mut comparison = blobs.prefixes.compare(&blob.hash).expect("it is there");
    assert!(matches!(comparison.step(), Compared::End(7)));
    put(&blobs, &bytes).await;
    let concluded = blobs.prefixes.conclude(&comparison, None);
    assert!(concluded.is_ok(), "{concluded:?}");
    assert_eq!(blobs.damaged(), []);
    assert_eq!(read_all(&blobs, &blob).await.expect("the bytes"), bytes);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_damaged_and_replaced() {
    let root = root();
    let blobs = blobs(&root);
    let bytes = Bytes::from_static(b"unreadable");
    let blob = put(&blobs, &bytes).await;
    let path = blobs.prefixes.path(Layout::Flat, &blob.hash);
    let comparison = blobs.prefixes.compare(&blob.hash).expect("it is there");
    let error = io::Error::from_raw_os_error(5);
    let concluded = blobs.prefixes.conclude(&comparison, Some(&error));
    assert!(matches!(concluded, Err(BlobError::Damaged(_))));
    let refused = read_all(&blobs, &blob).await;
    assert!(matches!(refused, Err(BlobError::Damaged(_))), "{refused:?}");
    fs::write(path, "otherbytes").expect("the file");
    put(&blobs, &bytes).await;
    assert_eq!(read_all(&blobs, &blob).await.expect("the bytes"), bytes);
}

#[tokio::test]
async fn a_blob_lies_under_the_first_byte_of_its_hash() {
    let root = root();
    let blob = put(&blobs(&root), &Bytes::from_static(b"easel")).await;
    let hex = blob.hash.to_hex();
    let path = root.path().join(format!("blobs/{}/{hex}", &hex[..2]));
    assert_eq!(fs::read(path).expect("the file"), b"easel");
    assert_eq!(files(&root.path().join("tmp")), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_dropped_writer_leaves_no_file() {
    let root = root();
    let blobs = blobs(&root);
    let large = Bytes::from(vec![7; 3_000_000]);
    let mut unfinished = blobs.begin(SpaceClass::Spare).await.expect("a writer");
    unfinished.write(large.clone()).await.expect("room");
    // Still being written while it is dropped.
    drop(unfinished);
    all_turns_free(&blobs).await;
    nothing_left(&root).await;
    let mut finished = blobs.begin(SpaceClass::Spare).await.expect("a writer");
    finished.write(large).await.expect("room");
    finished.finish().await.expect("an end");
    assert_eq!(files(&root.path().join("tmp")).len(), 1);
    drop(finished);
    assert_eq!(files(&root.path().join("tmp")), Vec::<PathBuf>::new());
    assert_eq!(files(&root.path().join("blobs")), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn writers_whose_bytes_are_still_to_come_keep_nobody_waiting() {
    let root = root();
    let blobs = blobs(&root);
    let mut slow = Vec::new();
    for n in 0..4 * WRITERS {
        let begun = blobs.begin(SpaceClass::Spare).now_or_never();
        let mut writer = begun
            .expect("beginning waits for nothing")
            .expect("a writer");
        // Every second one has a batch on the disk and waits for more.
        let bytes = if n % 2 == 0 { 100 } else { 600_000 };
        writer
            .write(Bytes::from(vec![7; bytes]))
            .await
            .expect("room");
        slow.push(writer);
    }
    all_turns_free(&blobs).await;
    assert_eq!(files(&root.path().join("tmp")).len(), 2 * WRITERS);
    put(&blobs, &Bytes::from(vec![8; 3_000_000])).await;
    for mut writer in slow {
        writer
            .write(Bytes::from_static(b"end"))
            .await
            .expect("room");
        let blob = writer.commit().await.expect("a commit");
        assert!([103, 600_003].contains(&blob.size_bytes));
    }
    assert_eq!(files(&root.path().join("tmp")), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn chunks_of_every_size_keep_their_order() {
    let root = root();
    let blobs = blobs(&root);
    let mut writer = blobs.begin(SpaceClass::Spare).await.expect("a writer");
    let mut whole = Vec::new();
    for n in 0..3_000_usize {
        let chunk = vec![n as u8; [1, 4_096, 7, 900, 5_000][n % 5]];
        whole.extend_from_slice(&chunk);
        writer.write(chunk.into()).await.expect("room");
    }
    let blob = writer.commit().await.expect("a commit");
    assert_eq!(blob.hash, BlobHash::of(&whole));
    assert_eq!(read_all(&blobs, &blob).await.expect("the bytes"), whole);
}

#[tokio::test]
async fn what_a_process_before_left_is_kept_if_whole_and_removed_if_not() {
    let root = root();
    let bytes = Bytes::from_static(b"kept");
    let blob = put(&blobs(&root), &bytes).await;
    fs::write(root.path().join("tmp/left"), "half").expect("a file");

    let again = blobs(&root);
    assert_eq!(files(&root.path().join("tmp")), Vec::<PathBuf>::new());
    assert_eq!(read_all(&again, &blob).await.expect("the bytes"), bytes);
    assert_eq!(put(&again, &bytes).await, blob);
}

#[tokio::test]
async fn a_damaged_blob_is_replaced_when_it_is_put_again() {
    let root = root();
    let blobs = blobs(&root);
    for bytes in [
        Bytes::from_static(b"small"),
        Bytes::from(vec![7; 3_000_000]),
    ] {
        let blob = put(&blobs, &bytes).await;
        fs::write(blobs.prefixes.path(Layout::Flat, &blob.hash), "cut").expect("the file");
        assert_eq!(put(&blobs, &bytes).await, blob);
        assert_eq!(read_all(&blobs, &blob).await.expect("the bytes"), bytes);
    }
}

#[tokio::test]
async fn a_blob_that_is_cut_short_while_it_is_read_is_an_error() {
    let root = root();
    let blobs = blobs(&root);
    let blob = put(&blobs, &Bytes::from(vec![7; 3_000_000])).await;
    let path = blobs.prefixes.path(Layout::Flat, &blob.hash);
    let reader = blobs
        .open(&blob.hash, 0..blob.size_bytes)
        .await
        .expect("it");
    let file = fs::File::options()
        .write(true)
        .open(path)
        .expect("the file");
    file.set_len(1_000_000).expect("it shrinks");
    let chunks: Vec<Result<Bytes, BlobError>> =
        futures_util::StreamExt::collect(reader.bytes).await;
    let (last, before) = chunks.split_last().expect("chunks");
    assert!(matches!(last, Err(BlobError::Io(_))), "{last:?}");
    assert!(before.iter().all(Result::is_ok));
}

/// Descriptors of this process that lead below a folder.
fn descriptors(root: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").expect("the descriptors");
    let open = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    open.filter(|path| path.starts_with(root.join("blobs")))
        .count()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn readers_that_wait_for_their_clients_share_a_few_descriptors() {
    use std::task::Poll;

    use futures_util::{StreamExt, TryStreamExt};

    let root = root();
    let blobs = blobs(&root);
    let bytes: Vec<u8> = (0..400_000_u32).map(|n| (n % 251) as u8).collect();
    let blob = put(&blobs, &Bytes::from(bytes.clone())).await;
    let mut readers = Vec::new();
    for _ in 0..3 * reader::AHEAD {
        let opened = blobs.open(&blob.hash, 1..blob.size_bytes).await;
        let mut reader = opened.expect("the blob");
        let first = reader.bytes.next().await.expect("a chunk");
        readers.push((first.expect("bytes").to_vec(), reader));
        assert!(descriptors(root.path()) <= reader::AHEAD);
    }
    // Nor does a chunk that was read and nobody comes for keep a file open.
    for (read, reader) in &mut readers {
        // A budget of polls that has run out would end in a turn that nobody takes.
        tokio::task::yield_now().await;
        if let Poll::Ready(Some(chunk)) = futures_util::poll!(reader.bytes.next()) {
            read.extend_from_slice(&chunk.expect("bytes"));
        }
        let mut turns = Vec::new();
        for _ in 0..reader::READS {
            turns.push(blobs.read_ahead.turn().await);
        }
        assert!(descriptors(root.path()) <= reader::AHEAD);
    }
    // A reader that goes on gets everything, with a file of its own or without.
    for (mut read, reader) in readers {
        let rest: Vec<Bytes> = reader.bytes.try_collect().await.expect("bytes");
        rest.iter().for_each(|chunk| read.extend_from_slice(chunk));
        assert!(read == bytes[1..]);
    }
    assert_eq!(descriptors(root.path()), 0);
}

#[tokio::test]
async fn small_blobs_beyond_the_bytes_that_may_be_held_come_in_chunks() {
    use futures_util::TryStreamExt;

    let root = root();
    let blobs = blobs(&root);
    let bytes = Bytes::from(vec![7; 256 * 1024]);
    let blob = put(&blobs, &bytes).await;
    let mut held = Vec::new();
    for n in 0..reader::AT_ONCE / bytes.len() + 10 {
        let reader = blobs.open(&blob.hash, 0..blob.size_bytes).await;
        let reader = reader.expect("the blob");
        let chunks: Vec<Bytes> = reader.bytes.try_collect().await.expect("bytes");
        assert_eq!(chunks.concat(), bytes);
        assert_eq!(chunks.len() == 1, n < reader::AT_ONCE / bytes.len(), "{n}");
        held.push(chunks);
    }
    held.clear();
    let reader = blobs.open(&blob.hash, 0..blob.size_bytes).await;
    let chunks: Vec<Bytes> = reader
        .expect("the blob")
        .bytes
        .try_collect()
        .await
        .expect("bytes");
    assert_eq!(chunks.len(), 1);
}

#[tokio::test]
async fn strange_files_among_the_blobs_are_passed_over() {
    let root = root();
    let blobs = blobs(&root);
    let blob = put(&blobs, &Bytes::from_static(b"easel")).await;
    let folder = root.path().join("blobs");
    fs::write(folder.join("README"), "").expect("a file");
    fs::create_dir(folder.join("lost+found")).expect("a folder");
    let inner = blobs
        .prefixes
        .path(Layout::Flat, &blob.hash)
        .with_file_name("notes");
    fs::write(inner, "").expect("a file");
    assert_eq!(blobs.list(None, 10).await.expect("a list"), [blob]);
}

#[tokio::test]
async fn a_sweep_beside_uploads_of_the_same_bytes_never_takes_a_committed_blob() {
    let root = root();
    let blobs = blobs(&root);
    let bytes = Bytes::from_static(b"put and swept");
    let hash = BlobHash::of(&bytes);
    let sweep = async {
        for _ in 0..300 {
            // Everything put before this very moment may go.
            blobs
                .delete(&hash, Timestamp::now())
                .await
                .expect("an answer");
        }
    };
    let uploads = async {
        for _ in 0..300 {
            let before = Timestamp::now();
            let blob = put(&blobs, &bytes).await;
            let deleted = blobs.delete(&hash, before).await.expect("an answer");
            let size = blobs.touch(&hash).await.expect("an answer");
            // The other sweep may have come later than the put, and then it is gone altogether.
            assert!(size.is_none() || size == Some(blob.size_bytes));
            assert!(!deleted || size.is_none());
        }
    };
    tokio::join!(sweep, uploads);
}

/// Puts a file where an earlier version did.
fn put_nested(blobs: &FileBlobs, bytes: &Bytes) -> (Blob, PathBuf) {
    let (hash, size_bytes) = (BlobHash::of(bytes), bytes.len() as u64);
    let path = blobs.prefixes.path(Layout::Nested, &hash);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, bytes).expect("a file");
    (Blob { hash, size_bytes }, path)
}

#[tokio::test]
async fn a_blob_of_an_earlier_version_is_used_where_it_lies() {
    let root = root();
    let blobs = blobs(&root);
    let bytes = Bytes::from_static(b"of an earlier version");
    let (blob, path) = put_nested(&blobs, &bytes);
    let only_there = || assert_eq!(files(&root.path().join("blobs")), slice::from_ref(&path));
    assert_eq!(read_all(&blobs, &blob).await.expect("the bytes"), bytes);
    let touched = blobs.touch(&blob.hash).await.expect("an answer");
    assert_eq!(touched, Some(blob.size_bytes));
    assert_eq!(put(&blobs, &bytes).await, blob);
    only_there();
    fs::write(&path, "damaged").expect("the file");
    put(&blobs, &bytes).await;
    only_there();
    fs::write(&path, "damaged").expect("the file");
    let mut writer = blobs.begin(SpaceClass::Kept).await.expect("a writer");
    writer.write(bytes.clone()).await.expect("room");
    writer.commit_with_rows().await.expect("a commit");
    only_there();
    assert_eq!(read_all(&blobs, &blob).await.expect("the bytes"), bytes);
    assert_eq!(blobs.list(None, 10).await.expect("a list"), [blob]);
    let later = Timestamp::now() + jiff::SignedDuration::from_secs(1);
    assert!(blobs.delete(&blob.hash, later).await.expect("an answer"));
    assert_eq!(files(&root.path().join("blobs")), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn lists_have_blobs_of_both_places_in_order_and_none_twice() {
    let root = root();
    let blobs = blobs(&root);
    let mut all = Vec::new();
    for n in 0..600_u32 {
        let bytes = Bytes::from(n.to_string());
        all.push(match n % 2 {
            0 => put_nested(&blobs, &bytes).0,
            _ => put(&blobs, &bytes).await,
        });
    }
    all.sort_unstable_by_key(|blob| blob.hash);
    for limit in [1, 7, 1_000] {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = blobs.list(after, limit).await.expect("a page");
            let Some(last) = page.last() else { break };
            after = Some(last.hash);
            listed.extend(page);
        }
        assert_eq!(listed, all);
    }
    // What was put and deleted between two lists that are not a pass is seen.
    let page = blobs.list(None, 10).await.expect("a page");
    let later = Timestamp::now() + jiff::SignedDuration::from_secs(1);
    assert!(blobs.delete(&page[9].hash, later).await.expect("an answer"));
    assert!(blobs.delete(&page[3].hash, later).await.expect("an answer"));
    let again = blobs.list(None, 8).await.expect("a page");
    assert_eq!(again, [&all[..3], &all[4..9]].concat());
}

#[tokio::test]
async fn no_more_folders_are_made_than_there_are_first_bytes() {
    let root = root();
    let blobs = blobs(&root);
    for n in 0..100_u32 {
        put(&blobs, &Bytes::from(n.to_string())).await;
    }
    for folder in fs::read_dir(root.path().join("blobs")).expect("folders") {
        for file in fs::read_dir(folder.expect("a folder").path()).expect("files") {
            assert!(file.expect("a file").path().is_file());
        }
    }
}
