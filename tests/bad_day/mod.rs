//! An operator's bad day: rows that are gone, a clock that is wrong, bytes that changed. Nothing is deleted for it, and nothing
//! wrong is given out.

mod blobs;
mod files;
mod fixtures;
mod run;
mod surroundings;

use std::fs;
use std::path::{Path, PathBuf};

use accounts::AccountId;
use asset_store::{
    Asset, AssetId, AssetRecords, Blob, BlobStore, InsertAsset, InsertRule, SpaceClass, SweepName,
    SweepStates,
};
use it::{Launch, Log, Request, Server, operate};
use jiff::{SignedDuration, Timestamp};
use store_local::Store;
use tempfile::TempDir;
use uuid::Uuid;

/// More than the blobs without rows that are taken for what crashes leave.
const MANY: u32 = 12;

/// A blob with a record that expired an hour ago.
async fn put_expired(store: &Store, number: u32) -> Blob {
    let mut writer = store.blobs().begin(SpaceClass::Spare).await.unwrap();
    writer
        .write(number.to_be_bytes().to_vec().into())
        .await
        .unwrap();
    writer.finish().await.unwrap();
    let blob = writer.commit().await.unwrap();
    let long_ago = Timestamp::now() - SignedDuration::from_hours(2);
    let asset = Asset {
        id: AssetId(Uuid::from_u128(number.into())),
        account: AccountId::local(),
        hash: blob.hash,
        size_bytes: blob.size_bytes,
        content_type: "image/png".to_owned(),
        file_path: None,
        tags: Vec::new(),
        created_at: long_ago,
        expires_at: Some(long_ago + SignedDuration::from_hours(1)),
        job_id: None,
    };
    let insert = InsertAsset {
        asset,
        rule: InsertRule::Upload,
        claim: None,
        most_bytes: None,
    };
    store.records().insert(insert, long_ago).await.unwrap();
    blob
}

/// A closed installation with [`MANY`] expired assets, last swept this long before now.
async fn installation(swept: SignedDuration) -> (TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let store = Store::open(&data).unwrap();
    for number in 0..MANY {
        put_expired(&store, number).await;
    }
    let records = store.records();
    for sweep in SweepName::ALL {
        let at = Timestamp::now() - swept;
        records
            .admit(sweep, at, SignedDuration::ZERO)
            .await
            .unwrap();
    }
    (root, data)
}

/// A server that sweeps every second whatever nobody touched for a second, and its log.
async fn serve(data: &Path, more: &[&str]) -> (Server, Log) {
    let file = data.with_extension("log");
    let mut launch = Launch::of("all-in-one");
    let arguments = ["--sweep-interval", "1s", "--sweep-grace", "1s"];
    let arguments = arguments.iter().chain(more).map(Into::into);
    launch.arguments.extend(arguments);
    launch.log = Some(file.clone());
    let server = Server::launch(data, &launch).await.unwrap();
    (server, Log::of(&file))
}

fn blobs(folder: &Path) -> u32 {
    let mut found = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        found += if path.is_dir() { blobs(&path) } else { 1 };
    }
    found
}

/// Waits until sweeps have deleted every blob: those whose grace is over at first, the others later.
async fn all_go(data: &Path, log: &mut Log) {
    while blobs(&data.join("blobs")) > 0 {
        log.next("deleted expired records and unused bytes").await;
    }
}

async fn ready(server: &Server) -> String {
    let answer = server.send(&Request::get("/ready")).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

#[tokio::test]
async fn one_start_with_a_wrong_clock_deletes_nothing_until_it_is_confirmed() {
    for days in [400, -400] {
        let (_root, data) = installation(SignedDuration::from_hours(24 * days)).await;
        let (server, mut log) = serve(&data, &[]).await;
        log.next("the clock is more than a day from where the last sweep of assets left it")
            .await;
        assert!(ready(&server).await.contains("sweep confirm"));
        assert_eq!(blobs(&data.join("blobs")), MANY, "{days} days");

        let confirmed = operate(&data, ["sweep", "confirm"]).await;
        assert_eq!(confirmed.code, 0, "{}", confirmed.stderr);
        all_go(&data, &mut log).await;
        server.terminate().await.unwrap();
    }
}

#[tokio::test]
async fn a_night_without_the_server_holds_no_sweep() {
    let (_root, data) = installation(SignedDuration::from_hours(12)).await;
    let (_server, mut log) = serve(&data, &[]).await;
    all_go(&data, &mut log).await;
}

#[tokio::test]
async fn lost_rows_are_refused_and_a_new_installation_deletes_no_blob_unconfirmed() {
    let (_root, data) = installation(SignedDuration::ZERO).await;
    let rows = data.join("main.db");
    for lose in [
        |file: &Path| fs::write(file, ""),
        |file: &Path| fs::remove_file(file),
    ] {
        lose(&rows).unwrap();
        let refused = operate(&data, ["serve", "--listen", "127.0.0.1:0"]).await;
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(refused.stderr.contains("restore main.db from a backup"));
        assert!(refused.stderr.contains("--fresh"), "{}", refused.stderr);
        assert_eq!(blobs(&data.join("blobs")), MANY);
    }

    let (server, mut log) = serve(&data, &["--fresh"]).await;
    log.next("more than half of all, are named by no row").await;
    assert!(ready(&server).await.contains("sweep confirm"));
    assert_eq!(blobs(&data.join("blobs")), MANY);
    let confirmed = operate(&data, ["sweep", "confirm"]).await;
    assert_eq!(confirmed.code, 0, "{}", confirmed.stderr);
    all_go(&data, &mut log).await;
    server.terminate().await.unwrap();
}
