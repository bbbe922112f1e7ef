//! What a store does when the disk fails. Faults are pretended at named points, which are the process' own: the scenario
//! lets one test at a time set them.

use accounts::{Account, AccountAdmin, AccountId, CreditLedger, Fingerprint};
use asset_store::{
    Asset, AssetId, AssetRecords, Blob, BlobError, BlobHash, BlobStore, InsertAsset, InsertOutcome,
    InsertRule, RecordsError, SpaceClass, read_all,
};
use bytes::Bytes;
use fail::FailScenario;
use jiff::{SignedDuration, Timestamp};
use router_core::{
    Answer, Bucket, CallRecord, Calls, CallsError, Claimed, Dispatched, Ending, Generation,
    GenerationId, Handle, KeyClaim, KeyDigest, Lease, Outcome, OwnerId, RequestId, SequentialCalls,
    Settled, Usage, UsageQuery,
};
use store_local::{FileBlobs, SqliteCalls, SqliteRecords, Store};
use tempfile::TempDir;
use uuid::Uuid;

mod calls;

use calls::{dispatched, lease};

fn store() -> (TempDir, Store) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(root.path()).expect("a fresh store");
    (root, store)
}

fn fault(point: &str, action: &str) {
    fail::cfg(point, action).expect("a valid action");
}

async fn put(blobs: &FileBlobs, bytes: &Bytes) -> Result<Blob, BlobError> {
    let mut writer = blobs.begin(SpaceClass::Spare).await?;
    for start in (0..bytes.len()).step_by(100_000) {
        let end = bytes.len().min(start + 100_000);
        writer.write(bytes.slice(start..end)).await?;
    }
    writer.commit().await
}

async fn insert(records: &SqliteRecords, id: u128) -> Result<InsertOutcome, RecordsError> {
    let now = Timestamp::from_second(1_790_000_000).expect("in range");
    let asset = Asset {
        id: AssetId(Uuid::from_u128(id)),
        account: "acme".parse().expect("a valid name"),
        hash: BlobHash::of(b"bytes"),
        size_bytes: 5,
        content_type: "image/png".to_owned(),
        file_path: None,
        tags: Vec::new(),
        created_at: now,
        expires_at: None,
        job_id: None,
    };
    let rule = InsertRule::Upload;
    let claim = None;
    records
        .insert(
            InsertAsset {
                asset,
                rule,
                claim,
                most_bytes: None,
            },
            now,
        )
        .await
}

async fn is_there(records: &SqliteRecords, id: u128) -> bool {
    let account = "acme".parse().expect("a valid name");
    let id = AssetId(Uuid::from_u128(id));
    let found = records.get(&account, id, Timestamp::UNIX_EPOCH).await;
    found.expect("reading goes on").is_some()
}

fn left_in(root: &TempDir, folder: &str) -> usize {
    let entries = std::fs::read_dir(root.path().join(folder)).expect("a folder");
    entries.count()
}

/// One that is kept in memory until the commit, and one that is not.
fn small_and_large() -> [Bytes; 2] {
    [
        Bytes::from_static(b"small"),
        Bytes::from(vec![7; 2_000_000]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_blobs_leaves_nothing_and_heals() {
    let scenario = FailScenario::setup();
    let (root, store) = store();
    let blobs = store.blobs();
    for bytes in small_and_large() {
        for point in ["blob-create", "blob-write", "blob-sync", "blob-rename"] {
            fault(point, "return(full)");
            let refused = put(&blobs, &bytes).await;
            assert!(
                matches!(refused, Err(BlobError::Full(_))),
                "{point}: {refused:?}"
            );
            assert_eq!(left_in(&root, "tmp"), 0, "{point}");
            assert_eq!(blobs.list(None, 10).await.expect("a list"), []);
            store.healthy().expect("a full disk passes");
            fail::remove(point);
        }
        let blob = put(&blobs, &bytes).await.expect("room again");
        assert_eq!(read_all(&blobs, &blob).await.expect("the bytes"), bytes);
        assert!(
            blobs
                .delete(&blob.hash, Timestamp::MAX)
                .await
                .expect("gone")
        );
    }
    scenario.teardown();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_is_an_error_of_that_blob_alone() {
    let scenario = FailScenario::setup();
    let (root, store) = store();
    let blobs = store.blobs();
    for point in ["blob-create", "blob-write", "blob-rename"] {
        fault(point, "return");
        let refused = put(&blobs, &Bytes::from_static(b"bytes")).await;
        assert!(
            matches!(refused, Err(BlobError::Io(_))),
            "{point}: {refused:?}"
        );
        assert_eq!(left_in(&root, "tmp"), 0, "{point}");
        store.healthy().expect("nothing is in doubt");
        fail::remove(point);
    }
    put(&blobs, &Bytes::from_static(b"bytes"))
        .await
        .expect("a blob");
    scenario.teardown();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_fsync_stops_every_later_write_and_no_read() {
    for point in ["blob-sync", "blob-folder-sync", "database-commit"] {
        let scenario = FailScenario::setup();
        let (root, store) = store();
        let (blobs, records) = (store.blobs(), store.records());
        let kept = put(&blobs, &Bytes::from_static(b"kept"))
            .await
            .expect("a blob");
        insert(&records, 1).await.expect("a record");

        fault(point, "return");
        if point == "database-commit" {
            insert(&records, 2).await.expect_err("the commit failed");
        } else {
            let refused = put(&blobs, &Bytes::from_static(b"refused")).await;
            assert!(
                matches!(refused, Err(BlobError::Io(_))),
                "{point}: {refused:?}"
            );
        }
        // The disk answers again, but nobody knows what it lost.
        fail::remove(point);
        let reason = store.healthy().expect_err("it is not to be trusted");
        assert!(reason.to_string().contains("restart"), "{reason}");
        for bytes in small_and_large() {
            let refused = put(&blobs, &bytes).await;
            assert!(
                matches!(refused, Err(BlobError::Io(_))),
                "{point}: {refused:?}"
            );
        }
        insert(&records, 3)
            .await
            .expect_err("nothing is written any more");
        assert_eq!(left_in(&root, "tmp"), 0, "{point}");
        let bytes = read_all(&blobs, &kept).await.expect("reading goes on");
        assert_eq!(&bytes[..], b"kept");
        assert!(is_there(&records, 1).await);
        assert!(!is_there(&records, 2).await && !is_there(&records, 3).await);

        // A new process starts from what the disk has.
        drop((store, blobs, records));
        let store = Store::open(root.path()).expect("the store again");
        store.healthy().expect("a fresh verdict");
        insert(&store.records(), 4).await.expect("a record");
        scenario.teardown();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_records_and_heals() {
    let scenario = FailScenario::setup();
    let (_root, store) = store();
    let records = store.records();
    fault("database-commit", "return(full)");
    insert(&records, 1).await.expect_err("there is no room");
    fail::remove("database-commit");
    store.healthy().expect("a full disk passes");
    assert!(!is_there(&records, 1).await);
    insert(&records, 1).await.expect("room again");
    assert!(is_there(&records, 1).await);
    scenario.teardown();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_that_failed_is_made_again_for_whoever_waits_for_the_same_bytes() {
    let scenario = FailScenario::setup();
    let (_root, store) = store();
    let (calls, claim) = dispatched(&store).await;
    let generation = Generation {
        id: GenerationId(Uuid::from_u128(2)),
        account: claim.account.clone(),
        model: "bfl/flux-2".parse().expect("a valid id"),
        hold_cents: 5,
        received_at: claim.expires_at,
        dispatched_at: claim.expires_at,
        api_key: None,
        labels: accounts::Labels::NONE,
        serving: None,
    };
    fault("call-log-sync", "return(full)");
    for _ in 0..2 {
        let refused = calls.dispatch(generation.clone(), None, lease()).await;
        assert!(matches!(refused, Err(CallsError::Full(_))), "{refused:?}");
    }
    fail::remove("call-log-sync");
    let begun = calls.dispatch(generation, None, lease()).await;
    begun.expect("there is room again");
    scenario.teardown();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_be_opened_is_no_broken_disk_and_its_names_are_made_durable_later() {
    let scenario = FailScenario::setup();
    let (root, store) = store();
    let blobs = store.blobs();
    let bytes = Bytes::from_static(b"bytes");
    let folder = || {
        let hex = BlobHash::of(&bytes).to_hex();
        root.path().join("blobs").join(&hex[..2])
    };
    // Twice: the first of them leaves the name there, and the second meets it.
    for _ in 0..2 {
        fault("blob-folder-open", "return");
        let refused = put(&blobs, &bytes).await;
        assert!(matches!(refused, Err(BlobError::Io(_))), "{refused:?}");
        assert_eq!(left_in(&root, "tmp"), 0);
        store.healthy().expect("nothing is in doubt");
        assert!(folder().is_dir());
        fail::remove("blob-folder-open");
    }
    put(&blobs, &bytes).await.expect("a blob");
    // It is durable now, and meeting it opens no folder.
    fault("blob-folder-open", "return");
    put(&blobs, &bytes).await.expect("a blob");
    scenario.teardown();
}
