//! The rules of [`BlobStore`].

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt};
use jiff::SignedDuration;

use super::{TestClock, start};
use crate::{Blob, BlobError, BlobHash, BlobStore, BlobWriter, SpaceClass, read_all};

/// Runs every rule on a fresh store, which must tell the time by the clock it is given.
///
/// # Panics
/// If the store breaks a rule.
pub async fn blob_store(fresh: impl Fn(TestClock) -> Arc<dyn BlobStore>) {
    let clock = TestClock::at(start());
    let fresh = || fresh(clock.clone());
    a_committed_blob_reads_back(&*fresh()).await;
    empty_chunks_are_nothing(&*fresh()).await;
    a_blob_that_goes_with_rows_reads_back(&*fresh()).await;
    put_twice_is_one_blob(&*fresh()).await;
    puts_of_the_same_bytes_at_once_are_one_blob(&*fresh()).await;
    nothing_is_visible_before_the_commit(&*fresh()).await;
    a_dropped_writer_leaves_nothing(&*fresh()).await;
    a_range_gives_exactly_its_bytes(&*fresh()).await;
    a_range_past_the_end_is_absent(&*fresh()).await;
    an_unknown_blob_is_absent(&*fresh()).await;
    a_reader_outlives_the_blob(&*fresh(), &clock).await;
    a_fresh_blob_is_not_deleted(&*fresh(), &clock).await;
    put_again_protects_from_delete(&*fresh(), &clock).await;
    touch_protects_from_delete(&*fresh(), &clock).await;
    a_deleted_blob_may_be_put_again(&*fresh(), &clock).await;
    blobs_are_listed_in_the_order_of_their_hashes(&*fresh()).await;
}

/// Bytes that no chunk size divides and no two offsets of which look alike.
pub(super) fn pattern(length: u32) -> Vec<u8> {
    let words = (0..length.div_ceil(4)).map(|word| word.wrapping_mul(2_654_435_761));
    let mut bytes: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
    bytes.truncate(length as usize);
    bytes
}

pub(super) async fn put(blobs: &dyn BlobStore, bytes: &[u8]) -> Blob {
    let (writer, finished) = finished(blobs, bytes).await;
    let committed = writer.commit().await.expect("a commit");
    assert_eq!(finished, committed);
    let expected = Blob {
        hash: BlobHash::of(bytes),
        size_bytes: bytes.len() as u64,
    };
    assert_eq!(committed, expected);
    committed
}

pub(super) async fn finished(blobs: &dyn BlobStore, bytes: &[u8]) -> (Box<dyn BlobWriter>, Blob) {
    let mut writer = blobs.begin(SpaceClass::Spare).await.expect("a writer");
    for chunk in bytes.chunks(100_003) {
        let chunk = Bytes::copy_from_slice(chunk);
        writer.write(chunk).await.expect("room for a chunk");
    }
    let finished = writer.finish().await.expect("an end");
    (writer, finished)
}

pub(super) async fn listed(blobs: &dyn BlobStore) -> Vec<Blob> {
    blobs.list(None, 100).await.expect("a list")
}

async fn a_committed_blob_reads_back(blobs: &dyn BlobStore) {
    // Empty, tiny, around the sizes at which stores change their ways, and several chunks long.
    for length in [
        0, 1, 16_384, 16_385, 262_143, 262_144, 262_145, 524_288, 3_000_001,
    ] {
        let bytes = pattern(length);
        let blob = put(blobs, &bytes).await;
        assert_eq!(read_all(blobs, &blob).await.expect("the bytes"), bytes);
        let size = blobs.touch(&blob.hash).await.expect("an answer");
        assert_eq!(size, Some(u64::from(length)));
    }
}

async fn a_blob_that_goes_with_rows_reads_back(blobs: &dyn BlobStore) {
    for length in [0, 1, 16_384, 16_385, 65_535, 65_536, 65_537, 3_000_001] {
        let bytes = pattern(length);
        for _ in 0..2 {
            let (writer, finished) = finished(blobs, &bytes).await;
            let committed = writer.commit_with_rows().await.expect("a commit");
            assert_eq!(finished, committed);
        }
        // Those who put it for good find it there, too.
        let blob = put(blobs, &bytes).await;
        assert_eq!(read_all(blobs, &blob).await.expect("the bytes"), bytes);
        let same = listed(blobs).await;
        assert_eq!(same.iter().filter(|listed| **listed == blob).count(), 1);
    }
}

async fn put_twice_is_one_blob(blobs: &dyn BlobStore) {
    for bytes in [pattern(100), pattern(3_000_001)] {
        let first = put(blobs, &bytes).await;
        assert_eq!(put(blobs, &bytes).await, first);
        let same = listed(blobs).await;
        assert_eq!(same.iter().filter(|blob| **blob == first).count(), 1);
        assert_eq!(read_all(blobs, &first).await.expect("the bytes"), bytes);
    }
    assert_eq!(listed(blobs).await.len(), 2);
}

async fn puts_of_the_same_bytes_at_once_are_one_blob(blobs: &dyn BlobStore) {
    let mut all = Vec::new();
    for length in [1_000, 700_000] {
        let bytes = pattern(length);
        let put = join_all((0..8).map(|_| put(blobs, &bytes))).await;
        assert_eq!(read_all(blobs, &put[0]).await.expect("the bytes"), bytes);
        all.push(put[0]);
        all.sort_by_key(|blob| blob.hash);
        assert_eq!(listed(blobs).await, all);
    }
}

async fn empty_chunks_are_nothing(blobs: &dyn BlobStore) {
    for bytes in [pattern(0), pattern(10), pattern(3_000_001)] {
        let mut writer = blobs.begin(SpaceClass::Spare).await.expect("a writer");
        for chunk in [Vec::new(), bytes.clone(), Vec::new()] {
            writer.write(chunk.into()).await.expect("room for nothing");
        }
        writer.finish().await.expect("an end");
        let blob = writer.commit().await.expect("a commit");
        assert_eq!(blob.hash, BlobHash::of(&bytes));
        assert_eq!(read_all(blobs, &blob).await.expect("the bytes"), bytes);
    }
}

async fn nothing_is_visible_before_the_commit(blobs: &dyn BlobStore) {
    for bytes in [pattern(10), pattern(3_000_001)] {
        let mut writer = blobs.begin(SpaceClass::Spare).await.expect("a writer");
        writer.write(bytes.clone().into()).await.expect("room");
        let blob = writer.finish().await.expect("an end");
        let size = blobs.touch(&blob.hash).await.expect("an answer");
        assert_eq!((size, listed(blobs).await.len()), (None, 0));
    }
}

async fn a_dropped_writer_leaves_nothing(blobs: &dyn BlobStore) {
    for bytes in [pattern(10), pattern(3_000_001)] {
        let mut unfinished = blobs.begin(SpaceClass::Spare).await.expect("a writer");
        unfinished.write(bytes.clone().into()).await.expect("room");
        drop(unfinished);
        let mut finished = blobs.begin(SpaceClass::Spare).await.expect("a writer");
        finished.write(bytes.into()).await.expect("room");
        let blob = finished.finish().await.expect("an end");
        drop(finished);
        let opened = blobs.open(&blob.hash, 0..blob.size_bytes).await;
        assert!(matches!(opened, Err(BlobError::Absent)));
    }
    assert_eq!(listed(blobs).await, []);
}

async fn a_range_gives_exactly_its_bytes(blobs: &dyn BlobStore) {
    let bytes = pattern(1_000_003);
    let size = bytes.len();
    let ranges = [
        (0, 0),
        (0, 1),
        (7, 8),
        (1, 262_146),
        (262_143, 700_001),
        (size - 1, size),
        (size, size),
        (0, size),
    ];
    each_range_gives_exactly_its_bytes(blobs, &bytes, &ranges).await;
    let small = pattern(1_003);
    let ranges = [
        (0, 0),
        (0, 1),
        (7, 8),
        (1_002, 1_003),
        (1_003, 1_003),
        (0, 1_003),
    ];
    each_range_gives_exactly_its_bytes(blobs, &small, &ranges).await;
}

async fn each_range_gives_exactly_its_bytes(
    blobs: &dyn BlobStore,
    bytes: &[u8],
    ranges: &[(usize, usize)],
) {
    let blob = put(blobs, bytes).await;
    let size = bytes.len();
    for &(start, end) in ranges {
        let reader = blobs
            .open(&blob.hash, start as u64..end as u64)
            .await
            .expect("the range lies within the blob");
        assert_eq!(reader.size_bytes, size as u64);
        let chunks: Vec<Bytes> = reader.bytes.try_collect().await.expect("the bytes");
        assert_eq!(chunks.concat(), bytes[start..end], "{start}..{end}");
    }
}

async fn a_range_past_the_end_is_absent(blobs: &dyn BlobStore) {
    let blob = put(blobs, b"picture").await;
    for range in [0..8, 7..8, 8..8, 0..20_000, 20_000..20_000, 0..u64::MAX] {
        let opened = blobs.open(&blob.hash, range.clone()).await;
        assert!(matches!(opened, Err(BlobError::Absent)), "{range:?}");
    }
}

async fn an_unknown_blob_is_absent(blobs: &dyn BlobStore) {
    let hash = BlobHash::of(b"never put");
    let opened = blobs.open(&hash, 0..0).await;
    assert!(matches!(opened, Err(BlobError::Absent)));
    assert_eq!(blobs.touch(&hash).await.expect("an answer"), None);
    assert!(blobs.delete(&hash, start()).await.expect("an answer"));
}

async fn a_reader_outlives_the_blob(blobs: &dyn BlobStore, clock: &TestClock) {
    for length in [1_000, 3_000_001] {
        let bytes = pattern(length);
        let blob = put(blobs, &bytes).await;
        let mut reader = blobs
            .open(&blob.hash, 0..blob.size_bytes)
            .await
            .expect("it");
        let first = reader.bytes.next().await.expect("a chunk").expect("bytes");
        let later = clock.advance(SignedDuration::from_secs(1));
        assert!(blobs.delete(&blob.hash, later).await.expect("an answer"));
        let rest: Vec<Bytes> = reader.bytes.try_collect().await.expect("the rest");
        assert_eq!([first, rest.concat().into()].concat(), bytes);
    }
}

async fn a_fresh_blob_is_not_deleted(blobs: &dyn BlobStore, clock: &TestClock) {
    let blob = put(blobs, b"fresh").await;
    let put_at = clock.now();
    assert!(!blobs.delete(&blob.hash, put_at).await.expect("an answer"));
    assert_eq!(listed(blobs).await, [blob]);
    let later = clock.advance(SignedDuration::from_secs(1));
    assert!(blobs.delete(&blob.hash, later).await.expect("an answer"));
    assert_eq!(listed(blobs).await, []);
}

async fn put_again_protects_from_delete(blobs: &dyn BlobStore, clock: &TestClock) {
    for bytes in [pattern(10), pattern(3_000_001)] {
        let blob = put(blobs, &bytes).await;
        let again = clock.advance(SignedDuration::from_hours(1));
        put(blobs, &bytes).await;
        assert!(!blobs.delete(&blob.hash, again).await.expect("an answer"));
    }
}

async fn touch_protects_from_delete(blobs: &dyn BlobStore, clock: &TestClock) {
    let blob = put(blobs, b"touched").await;
    let touched_at = clock.advance(SignedDuration::from_hours(1));
    let size = blobs.touch(&blob.hash).await.expect("an answer");
    assert_eq!(size, Some(7));
    assert!(
        !blobs
            .delete(&blob.hash, touched_at)
            .await
            .expect("an answer")
    );
    let later = clock.advance(SignedDuration::from_secs(1));
    assert!(blobs.delete(&blob.hash, later).await.expect("an answer"));
    assert_eq!(blobs.touch(&blob.hash).await.expect("an answer"), None);
}

async fn a_deleted_blob_may_be_put_again(blobs: &dyn BlobStore, clock: &TestClock) {
    let blob = put(blobs, b"again").await;
    let later = clock.advance(SignedDuration::from_secs(1));
    assert!(blobs.delete(&blob.hash, later).await.expect("an answer"));
    assert_eq!(put(blobs, b"again").await, blob);
    assert_eq!(
        &read_all(blobs, &blob).await.expect("the bytes")[..],
        b"again"
    );
}

async fn blobs_are_listed_in_the_order_of_their_hashes(blobs: &dyn BlobStore) {
    let mut all = Vec::new();
    for length in (0..25).chain(20_000..20_015) {
        all.push(put(blobs, &pattern(length)).await);
    }
    all.sort_by_key(|blob| blob.hash);
    assert_eq!(listed(blobs).await, all);
    let mut paged = Vec::new();
    loop {
        let after = paged.last().map(|blob: &Blob| blob.hash);
        let page = blobs.list(after, 7).await.expect("a page");
        assert!(page.len() <= 7);
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, all);
    // From behind a hash that is not there, too.
    let gap = BlobHash::from_bytes([0x80; 32]);
    let behind: Vec<Blob> = all.into_iter().filter(|blob| blob.hash > gap).collect();
    assert_eq!(blobs.list(Some(gap), 100).await.expect("a page"), behind);
}
