//! Measures the store on the disk of a directory: `cargo run --release -p store-local --example throughput -- DIR`.
//!
//! Each figure stands beside its floor on the same disk in the same run: copying and hashing the bytes for uploads, one fsync
//! for records.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use asset_store::{
    Asset, AssetId, AssetRecords, BlobHash, BlobStore, InsertAsset, InsertRule, read_all,
};
use bytes::Bytes;
use futures_util::future::join_all;
use jiff::Timestamp;
use store_local::Store;
use uuid::Uuid;

/// Size of the upload of `targets.md`.
const UPLOAD: usize = 100 << 20;

/// What a connection hands over at a time.
const CHUNK: usize = 64 << 10;

const ROUNDS: u8 = 7;

#[tokio::main]
async fn main() {
    let root = std::env::args_os().nth(1).map(PathBuf::from);
    let root = root.expect("usage: throughput DIR, where DIR is a new directory");
    fs::create_dir(&root).expect("DIR can be made and is not there yet");
    let store = Store::open(&root.join("store")).expect("a fresh store");
    uploads(&store, &root).await;
    small_blobs(&store).await;
    records(&store, &root).await;
    drop(store);
    fs::remove_dir_all(&root).expect("DIR can be removed");
}

async fn uploads(store: &Store, root: &Path) {
    let (mut floor, mut upload, mut again, mut read) = (vec![], vec![], vec![], vec![]);
    let source = root.join("source");
    for round in 0..ROUNDS {
        let bytes = Bytes::from(noise(UPLOAD, round));
        File::create(&source)
            .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
            .expect("room");
        floor.push(timed(|| {
            fs::copy(&source, root.join("copy")).expect("room");
            let hash = blake3::hash(&fs::read(&source).expect("the file"));
            std::hint::black_box(hash);
        }));
        fs::remove_file(root.join("copy")).expect("the copy");
        for times in [&mut upload, &mut again] {
            let begun = Instant::now();
            put(store, &bytes).await;
            times.push(begun.elapsed());
        }
        let hash = BlobHash::of(&bytes);
        let size_bytes = bytes.len() as u64;
        let blob = asset_store::Blob { hash, size_bytes };
        let begun = Instant::now();
        read_all(&store.blobs(), &blob).await.expect("the bytes");
        read.push(begun.elapsed());
        let removed = store.blobs().delete(&hash, Timestamp::MAX).await;
        assert!(removed.expect("an answer"));
    }
    let rate = |time: Duration| UPLOAD as f64 / 1e6 / time.as_secs_f64();
    let (floor, upload) = (median(floor), median(upload));
    say("copy and hash 100 MiB, MB/s", rate(floor));
    say("upload 100 MiB, MB/s", rate(upload));
    say("  of the floor", floor.as_secs_f64() / upload.as_secs_f64());
    say("upload of bytes that are there, MB/s", rate(median(again)));
    say("read 100 MiB, MB/s", rate(median(read)));
}

async fn small_blobs(store: &Store) {
    let mut alone = Vec::new();
    for round in 0..100 {
        let bytes = Bytes::from(noise(64 << 10, round));
        let begun = Instant::now();
        put(store, &bytes).await;
        alone.push(begun.elapsed());
    }
    say("put of 64 KiB alone, ms", millis(median(alone)));
    let begun = Instant::now();
    let puts = (100..228).map(|round| {
        let store = store.clone();
        tokio::spawn(async move { put(&store, &Bytes::from(noise(64 << 10, round))).await })
    });
    join_all(puts).await;
    say(
        "put of 64 KiB, 128 at once, per second",
        128.0 / begun.elapsed().as_secs_f64(),
    );
}

async fn records(store: &Store, root: &Path) {
    let mut syncs = Vec::new();
    for number in 0..200 {
        let mut file = File::create(root.join(format!("sync{number}"))).expect("room");
        file.write_all(&[0; 4096]).expect("room");
        syncs.push(timed(|| file.sync_all().expect("the disk")));
    }
    say("fsync of the disk, ms", millis(median(syncs)));
    let mut alone = Vec::new();
    for _ in 0..300 {
        let begun = Instant::now();
        insert(store).await;
        alone.push(begun.elapsed());
    }
    say("insert of a record alone, ms", millis(median(alone)));
    for clients in [64, 512] {
        let each = 20_000 / clients;
        let begun = Instant::now();
        let running = (0..clients).map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..each {
                    insert(&store).await;
                }
            })
        });
        join_all(running).await;
        let rate = f64::from(clients * each) / begun.elapsed().as_secs_f64();
        say(&format!("inserts by {clients} clients, per second"), rate);
    }
    let id = insert(store).await;
    let account = Arc::new("acme".parse().expect("a valid name"));
    let begun = Instant::now();
    let running = (0..64).map(|_| {
        let (store, account) = (store.clone(), Arc::clone(&account));
        tokio::spawn(async move {
            let records = store.records();
            for _ in 0..500 {
                let found = records.get(&account, id, Timestamp::UNIX_EPOCH).await;
                assert!(found.expect("an answer").is_some());
            }
        })
    });
    join_all(running).await;
    let rate = 32_000.0 / begun.elapsed().as_secs_f64();
    say("reads of a record by 64 clients, per second", rate);
}

async fn put(store: &Store, bytes: &Bytes) {
    let mut writer = store.blobs().begin().await.expect("a writer");
    for start in (0..bytes.len()).step_by(CHUNK) {
        let chunk = bytes.slice(start..bytes.len().min(start + CHUNK));
        writer.write(chunk).await.expect("room");
    }
    writer.commit().await.expect("a commit");
}

async fn insert(store: &Store) -> AssetId {
    let now = Timestamp::now();
    let id = AssetId(Uuid::new_v4());
    let asset = Asset {
        id,
        account: "acme".parse().expect("a valid name"),
        hash: BlobHash::of(id.0.as_bytes()),
        size_bytes: 5,
        content_type: "image/png".to_owned(),
        file_path: Some("picture.png".parse().expect("a valid path")),
        tags: Vec::new(),
        created_at: now,
        expires_at: None,
        job_id: None,
    };
    let (rule, claim) = (InsertRule::Upload, None);
    let insert = InsertAsset { asset, rule, claim };
    store.records().insert(insert, now).await.expect("a record");
    id
}

/// Bytes that do not compress and differ from round to round.
fn noise(length: usize, round: u8) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new_derive_key("easel noise")
        .update(&[round])
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[expect(
    clippy::print_stdout,
    reason = "the figures are what this program is for"
)]
fn say(what: &str, figure: f64) {
    println!("{what:<48}{figure:>10.3}");
}
