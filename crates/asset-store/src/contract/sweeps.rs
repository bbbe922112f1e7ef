//! The rules of [`SweepStates`] and [`ReleasedBlobs`], and what [`Assets::sweep`] makes of them.

use std::sync::Arc;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};

use super::records::{account, asset, at, upload};
use crate::{
    Admission, AssetRecords, Assets, BlobHash, BlobStore, HOLD, MemoryBlobs, ReleasedBlobs,
    Retention, SpaceClass, SweepName, SweepReport, SweepStates,
};

/// Runs every rule on a fresh store, given as each of its ports.
///
/// # Panics
/// If the store breaks a rule.
pub async fn sweeps<S>(fresh: impl Fn() -> Arc<S>)
where
    S: AssetRecords + SweepStates + ReleasedBlobs,
{
    a_jump_of_the_clock_holds_each_sweep_until_it_is_confirmed(&*fresh()).await;
    a_deleted_record_releases_its_blob_until_it_is_forgotten(&*fresh()).await;
    what_expired_always_goes(fresh()).await;
    blobs_without_rows_stay_when_they_are_most(fresh()).await;
    a_few_blobs_without_rows_go(fresh()).await;
}

const ADMITTED: Admission = Admission::Admitted { confirmed: false };
const CONFIRMED: Admission = Admission::Admitted { confirmed: true };

async fn a_jump_of_the_clock_holds_each_sweep_until_it_is_confirmed(states: &dyn SweepStates) {
    let admit = async |sweep, now| {
        let admission = states.admit(sweep, now, SignedDuration::ZERO).await;
        admission.expect("the store answers")
    };
    let later = at(400 * 24 * 3600);
    for sweep in SweepName::ALL {
        assert_eq!(admit(sweep, at(0)).await, ADMITTED);
        let held = admit(sweep, later).await;
        assert_eq!(held, Admission::Held { left: HOLD }, "{sweep:?}");
    }
    states.confirm().await.expect("the store answers");
    for sweep in SweepName::ALL {
        assert_eq!(admit(sweep, later).await, CONFIRMED, "{sweep:?}");
        assert_eq!(admit(sweep, later).await, ADMITTED, "{sweep:?}");
    }
}

async fn a_deleted_record_releases_its_blob_until_it_is_forgotten<S>(store: &S)
where
    S: AssetRecords + ReleasedBlobs,
{
    let (removed, expired, kept) = (b"removed", b"expired", b"kept");
    upload(store, &asset(1, removed, None)).await;
    upload(store, &asset(2, expired, None)).await;
    let mut lasting = asset(3, kept, None);
    lasting.expires_at = Some(at(1_000));
    upload(store, &lasting).await;
    let hashes = [removed.as_slice(), expired, kept, b"unknown"].map(BlobHash::of);
    let among = async || store.among(&hashes).await.expect("the store answers");
    assert_eq!(among().await, []);

    let owner = account("acme");
    let gone = store
        .remove(&owner, asset(1, removed, None).id, at(1))
        .await;
    gone.expect("the store answers");
    assert_eq!(among().await, hashes[..1]);
    let expired = store.expire(at(500), 10).await.expect("the store answers");
    assert_eq!((expired, among().await), (1, hashes[..2].to_vec()));

    store.forget(&hashes[..1]).await.expect("the store answers");
    assert_eq!(among().await, hashes[1..2]);
}

/// Blobs in memory, with `named` records over the first of them.
async fn stored(records: &dyn AssetRecords, blobs: u128, named: u128) -> Arc<MemoryBlobs> {
    let store = Arc::new(MemoryBlobs::new(|| at(0)));
    for number in 0..blobs {
        let bytes = number.to_be_bytes();
        let mut writer = store.begin(SpaceClass::Spare).await.expect("a writer");
        let written = writer.write(Bytes::copy_from_slice(&bytes)).await;
        written.expect("room");
        writer.finish().await.expect("the end");
        writer.commit().await.expect("a blob");
        if number < named {
            upload(records, &asset(number, &bytes, None)).await;
        }
    }
    store
}

async fn sweep<S>(
    store: &Arc<S>,
    blobs: &Arc<MemoryBlobs>,
    now: Timestamp,
    confirmed: bool,
) -> SweepReport
where
    S: AssetRecords + ReleasedBlobs,
{
    let retention = Retention {
        uploads: SignedDuration::from_secs(100),
        grace: SignedDuration::from_secs(10),
    };
    let assets = Assets::new(blobs.clone(), store.clone(), retention);
    let swept = assets.sweep(&**store, now, confirmed).await;
    swept.expect("the store answers")
}

async fn count(blobs: &MemoryBlobs) -> usize {
    blobs.list(None, 1_000).await.expect("a list").len()
}

async fn what_expired_always_goes<S: AssetRecords + ReleasedBlobs>(store: Arc<S>) {
    let blobs = stored(&*store, 40, 40).await;
    let report = sweep(&store, &blobs, at(500), false).await;
    assert_eq!(
        (report.records, report.blobs, report.held_back),
        (40, 40, 0)
    );
    assert_eq!(count(&blobs).await, 0);
}

async fn blobs_without_rows_stay_when_they_are_most<S: AssetRecords + ReleasedBlobs>(
    store: Arc<S>,
) {
    let blobs = stored(&*store, 40, 19).await;
    let report = sweep(&store, &blobs, at(50), false).await;
    assert_eq!((report.blobs, report.held_back), (0, 21));
    assert_eq!(count(&blobs).await, 40);
    // What is past its time goes all the same.
    let report = sweep(&store, &blobs, at(500), false).await;
    assert_eq!((report.blobs, report.held_back), (19, 21));
    let report = sweep(&store, &blobs, at(500), true).await;
    assert_eq!((report.blobs, report.held_back), (21, 0));
    assert_eq!(count(&blobs).await, 0);
}

async fn a_few_blobs_without_rows_go<S: AssetRecords + ReleasedBlobs>(store: Arc<S>) {
    let blobs = stored(&*store, 10, 0).await;
    let report = sweep(&store, &blobs, at(500), false).await;
    assert_eq!((report.blobs, report.held_back), (10, 0));
    let blobs = stored(&*store, 40, 20).await;
    let report = sweep(&store, &blobs, at(50), false).await;
    assert_eq!((report.blobs, report.held_back), (20, 0));
}
