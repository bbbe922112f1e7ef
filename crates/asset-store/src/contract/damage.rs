//! The rules of [`BlobStore`] about bytes that changed in the store, and those of [`ScrubStates`].

use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use jiff::SignedDuration;

use super::blobs::{listed, pattern, put};
use super::{TestClock, start};
use crate::{
    Assets, AssetsError, Blob, BlobError, BlobHash, BlobStore, MemoryRecords, Retention,
    ScrubState, ScrubStates, Upload, VERIFIED_FOR, read_all,
};

/// Puts other bytes in the place of those of a blob, behind the back of its store.
pub type Damage = Box<dyn Fn(&BlobHash, &[u8]) + Send + Sync>;

/// One on each side of every size at which stores change their ways.
const LENGTHS: [u32; 7] = [1, 16_384, 16_385, 60_000, 262_144, 262_145, 3_000_001];

/// Runs every rule on a fresh store, which must tell the time by the clock it is given, and what damages its blobs.
///
/// # Panics
/// If the store breaks a rule.
pub async fn damaged_blobs(fresh: impl Fn(TestClock) -> (Arc<dyn BlobStore>, Damage)) {
    let clock = TestClock::at(start());
    let fresh = || fresh(clock.clone());
    let (blobs, damage) = fresh();
    a_damaged_blob_is_never_read_to_its_end(&*blobs, &damage).await;
    let (blobs, damage) = fresh();
    a_part_of_a_damaged_blob_is_refused_after_a_day(&*blobs, &damage, &clock).await;
    let (blobs, damage) = fresh();
    a_part_is_refused_once_the_damage_is_known(&*blobs, &damage).await;
    let (blobs, damage) = fresh();
    verify_tells_what_is_damaged_and_what_is_whole(&*blobs, &damage).await;
    let (blobs, damage) = fresh();
    right_bytes_heal_a_blob(&*blobs, &damage).await;
    let (blobs, damage) = fresh();
    a_deleted_blob_is_damaged_no_more(&*blobs, &damage, &clock).await;
    let (blobs, damage) = fresh();
    no_record_is_made_over_a_damaged_blob(blobs, &damage).await;
}

/// The same number of bytes, one bit of which is another.
pub(super) fn flipped(bytes: &[u8]) -> Vec<u8> {
    let mut flipped = bytes.to_vec();
    flipped[bytes.len() / 2] ^= 1;
    flipped
}

/// What may become of some bytes: a bit, some of them, or more of them.
fn damages(bytes: &[u8]) -> [Vec<u8>; 3] {
    let longer = [bytes, b"more"].concat();
    [flipped(bytes), bytes[1..].to_vec(), longer]
}

/// Everything that a reader gives, and how it ends.
async fn read(
    blobs: &dyn BlobStore,
    hash: &BlobHash,
    range: std::ops::Range<u64>,
) -> (Vec<u8>, Result<(), BlobError>) {
    let mut reader = match blobs.open(hash, range).await {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Err(error)),
    };
    let mut given = Vec::new();
    loop {
        match reader.bytes.try_next().await {
            Ok(Some(chunk)) => given.extend_from_slice(&chunk),
            Ok(None) => return (given, Ok(())),
            Err(error) => return (given, Err(error)),
        }
    }
}

pub(super) async fn verify(blobs: &dyn BlobStore, hash: &BlobHash) -> Result<u64, BlobError> {
    let pieces = blobs.verify(hash).await?;
    pieces.try_fold(0, async |sum, bytes| Ok(sum + bytes)).await
}

pub(super) fn is_damaged<T>(found: &Result<T, BlobError>, hash: BlobHash) -> bool {
    matches!(found, Err(BlobError::Damaged(damaged)) if *damaged == hash)
}

async fn a_damaged_blob_is_never_read_to_its_end(blobs: &dyn BlobStore, damage: &Damage) {
    for length in LENGTHS {
        let bytes = pattern(length);
        for damaged in damages(&bytes) {
            let blob = put(blobs, &bytes).await;
            damage(&blob.hash, &damaged);
            let (given, end) = read(blobs, &blob.hash, 0..blob.size_bytes).await;
            assert!(is_damaged(&end, blob.hash), "{length}: {end:?}");
            assert!(given.len() < bytes.len(), "{length}");
            assert_eq!(blobs.damaged(), [blob.hash], "{length}");
            // From now on not even the first bytes.
            let again = blobs.open(&blob.hash, 0..blob.size_bytes).await;
            assert!(is_damaged(&again, blob.hash), "{length}");
            let whole = read_all(blobs, &blob).await;
            assert!(is_damaged(&whole, blob.hash), "{length}");
            let touched = blobs.touch(&blob.hash).await.expect("an answer");
            assert_eq!(touched, None, "nothing may be made over it");
            put(blobs, &bytes).await;
        }
    }
}

async fn a_part_of_a_damaged_blob_is_refused_after_a_day(
    blobs: &dyn BlobStore,
    damage: &Damage,
    clock: &TestClock,
) {
    for length in [1_000, 60_000, 3_000_001] {
        let bytes = pattern(length);
        let blob = put(blobs, &bytes).await;
        clock.advance(VERIFIED_FOR + SignedDuration::from_secs(1));
        // Whole, it is served still.
        let (given, end) = read(blobs, &blob.hash, 10..20).await;
        assert!(end.is_ok() && given == bytes[10..20], "{end:?}");
        clock.advance(VERIFIED_FOR + SignedDuration::from_secs(1));
        damage(&blob.hash, &flipped(&bytes));
        let (given, end) = read(blobs, &blob.hash, 10..20).await;
        assert!(is_damaged(&end, blob.hash), "{end:?}");
        assert_eq!(given, b"");
    }
}

async fn a_part_is_refused_once_the_damage_is_known(blobs: &dyn BlobStore, damage: &Damage) {
    for length in [1_000, 60_000, 3_000_001] {
        let bytes = pattern(length);
        let blob = put(blobs, &bytes).await;
        damage(&blob.hash, &flipped(&bytes));
        assert!(is_damaged(&verify(blobs, &blob.hash).await, blob.hash));
        let part = blobs.open(&blob.hash, 10..20).await;
        assert!(is_damaged(&part, blob.hash), "{part:?}");
        // A store that lost the end of a blob does not say that it never had it.
        let cut = put(blobs, &pattern(length + 1)).await;
        damage(&cut.hash, &bytes);
        let part = blobs
            .open(&cut.hash, cut.size_bytes - 1..cut.size_bytes)
            .await;
        assert!(is_damaged(&part, cut.hash), "{part:?}");
    }
}

async fn verify_tells_what_is_damaged_and_what_is_whole(blobs: &dyn BlobStore, damage: &Damage) {
    let absent = verify(blobs, &BlobHash::of(b"never put")).await;
    assert!(matches!(absent, Err(BlobError::Absent)), "{absent:?}");
    for length in LENGTHS {
        let bytes = pattern(length);
        let blob = put(blobs, &bytes).await;
        let whole = verify(blobs, &blob.hash).await.expect("it is whole");
        assert_eq!(whole, blob.size_bytes);
        for damaged in damages(&bytes) {
            damage(&blob.hash, &damaged);
            assert!(is_damaged(&verify(blobs, &blob.hash).await, blob.hash));
            assert_eq!(blobs.damaged(), [blob.hash]);
        }
        // Restored behind the back of the store.
        damage(&blob.hash, &bytes);
        verify(blobs, &blob.hash).await.expect("it is whole again");
        assert_eq!(blobs.damaged(), []);
        assert_eq!(read_all(blobs, &blob).await.expect("the bytes"), bytes);
    }
    let empty = put(blobs, b"").await;
    assert_eq!(verify(blobs, &empty.hash).await.expect("it is whole"), 0);
}

async fn right_bytes_heal_a_blob(blobs: &dyn BlobStore, damage: &Damage) {
    for length in LENGTHS {
        let bytes = pattern(length);
        for (damaged, with_rows, is_known) in [
            (flipped(&bytes), false, false),
            (flipped(&bytes), false, true),
            (flipped(&bytes), true, false),
            (flipped(&bytes), true, true),
            (bytes[1..].to_vec(), false, true),
            (bytes[1..].to_vec(), true, true),
        ] {
            let blob = put(blobs, &bytes).await;
            damage(&blob.hash, &damaged);
            if is_known {
                assert!(is_damaged(&verify(blobs, &blob.hash).await, blob.hash));
            }
            let healed = if with_rows {
                let (writer, _) = super::blobs::finished(blobs, &bytes).await;
                writer.commit_with_rows().await.expect("a commit")
            } else {
                put(blobs, &bytes).await
            };
            assert_eq!(healed, blob);
            assert_eq!(blobs.damaged(), []);
            assert_eq!(read_all(blobs, &blob).await.expect("the bytes"), bytes);
            let size = blobs.touch(&blob.hash).await.expect("an answer");
            assert_eq!(size, Some(blob.size_bytes));
            let same: Vec<Blob> = listed(blobs).await;
            assert_eq!(same.iter().filter(|listed| **listed == blob).count(), 1);
        }
    }
}

async fn a_deleted_blob_is_damaged_no_more(
    blobs: &dyn BlobStore,
    damage: &Damage,
    clock: &TestClock,
) {
    let bytes = pattern(1_000);
    let blob = put(blobs, &bytes).await;
    damage(&blob.hash, &flipped(&bytes));
    assert!(is_damaged(&verify(blobs, &blob.hash).await, blob.hash));
    let later = clock.advance(SignedDuration::from_hours(1_000));
    assert!(blobs.delete(&blob.hash, later).await.expect("an answer"));
    assert_eq!(blobs.damaged(), []);
    let gone = blobs.open(&blob.hash, 0..blob.size_bytes).await;
    assert!(matches!(gone, Err(BlobError::Absent)), "{gone:?}");
}

async fn no_record_is_made_over_a_damaged_blob(blobs: Arc<dyn BlobStore>, damage: &Damage) {
    let bytes = pattern(1_000);
    let retention = Retention {
        uploads: SignedDuration::from_hours(1),
        grace: SignedDuration::from_hours(1),
    };
    let assets = Assets::new(blobs.clone(), Arc::new(MemoryRecords::new()), retention);
    let account = super::records::account("acme");
    let upload = |number| Upload {
        id: crate::AssetId(uuid::Uuid::from_u128(number)),
        account: account.clone(),
        content_type: "image/png".to_owned(),
        file_path: None,
        tags: Vec::new(),
        expires_in: None,
        key: None,
    };
    let put_asset = async |number| {
        let mut writer = assets.begin().await.expect("a writer");
        let written = writer.write(Bytes::copy_from_slice(&bytes)).await;
        written.expect("room");
        let made = assets.finish(writer, upload(number), None, start()).await;
        made.expect("an asset").asset.hash
    };
    let hash = put_asset(1).await;
    damage(&hash, &flipped(&bytes));
    assert!(is_damaged(&verify(&*blobs, &hash).await, hash));
    let has = async || assets.has(&account, hash, start()).await.expect("rows");
    assert!(!has().await, "its owner is to upload it again");
    let made = assets.from_hash(upload(2), hash, start()).await;
    assert!(matches!(made, Err(AssetsError::BlobNotFound)), "{made:?}");
    let read = assets.open(&hash, 0..10).await;
    assert!(matches!(read, Err(AssetsError::Damaged(_))), "{read:?}");
    put_asset(3).await;
    assert!(has().await);
    let made = assets.from_hash(upload(4), hash, start()).await;
    made.expect("an asset");
}

/// Runs every rule of [`ScrubStates`] on a fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn scrub_states(states: &dyn ScrubStates) {
    let load = async || states.load_scrub().await.expect("the store answers");
    assert_eq!(load().await, ScrubState::default());
    let mut damaged = [b"one", b"two"].map(|bytes| BlobHash::of(bytes)).to_vec();
    damaged.sort_unstable();
    let under_way = ScrubState {
        began_at: Some(start()),
        position: Some(BlobHash::of(b"met")),
        completed_at: None,
        damaged,
    };
    let mut ended = under_way.clone();
    ended.complete(start() + SignedDuration::from_secs(1));
    ended.damaged.remove(0);
    for state in [under_way, ended, ScrubState::default()] {
        for _ in 0..2 {
            states.save_scrub(&state).await.expect("the store answers");
            assert_eq!(load().await, state);
        }
    }
}
