//! Measures the store on the disk of a directory: `cargo run --release -p store-local --example throughput -- DIR`.
//!
//! Each figure stands beside its floor on the same disk in the same run: copying and hashing the bytes for uploads, one fsync
//! for records.

use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use accounts::AccountId;
use asset_store::{
    Asset, AssetId, AssetRecords, BlobHash, BlobStore, InsertAsset, InsertRule, read_all,
};
use bytes::Bytes;
use futures_util::future::join_all;
use jiff::Timestamp;
use store_local::{SqliteJobs, Store};
use uuid::Uuid;
use workflow_core::contract::new_job;
use workflow_core::{
    ClaimRequest, Durability, InsertJob, InsertJobOutcome, Job, JobBody, JobEvent, JobQuery,
    JobQueue, JobStore, NewOutput, OutputKind, OutputName, Placement, QueueBounds, RequirementSet,
    Requirements, ResolvedFiles, Rooms, SaveJob, SaveOutcome, WorkerId,
};

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
    jobs(&store).await;
    let begun = Instant::now();
    drop(store);
    say("close, ms", millis(begun.elapsed()));
    let begun = Instant::now();
    let store = Store::open(&root.join("store")).expect("the store again");
    say("open with 100,000 jobs stored, ms", millis(begun.elapsed()));
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
    let account = account();
    let begun = Instant::now();
    let running = (0..64).map(|_| {
        let (store, account) = (store.clone(), account.clone());
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

/// Submits, runs and polls jobs, until 100,000 are stored, of which 1,000 wait.
async fn jobs(store: &Store) {
    let mut alone = Vec::new();
    for n in 0..300 {
        let begun = Instant::now();
        submit(store, n).await;
        alone.push(begun.elapsed());
    }
    say("submit of a job alone, ms", millis(median(alone)));
    let begun = Instant::now();
    spread(store, 64, 300..20_300, |store, n| async move {
        submit(&store, n).await
    })
    .await;
    say(
        "submits by 64 clients, per second",
        20_000.0 / begun.elapsed().as_secs_f64(),
    );
    let begun = Instant::now();
    spread(
        store,
        4,
        0..20_300,
        |store, _| async move { run(&store).await },
    )
    .await;
    say(
        "jobs claimed, saved and ended by 4 slots, per second",
        20_300.0 / begun.elapsed().as_secs_f64(),
    );
    spread(store, 64, 20_300..99_000, |store, n| async move {
        submit(&store, n).await
    })
    .await;
    spread(
        store,
        64,
        0..78_700,
        |store, _| async move { run(&store).await },
    )
    .await;
    spread(store, 64, 99_000..100_000, |store, n| async move {
        submit(&store, n).await
    })
    .await;

    let (jobs, account) = (store.jobs(), account());
    for (what, n) in [
        ("queued", 99_500),
        ("finished lately", 98_999),
        ("finished long ago", 1),
    ] {
        let id = new_job(n, &account).id;
        let begun = Instant::now();
        for _ in 0..20_000 {
            let job = jobs.load(&account, id, Timestamp::UNIX_EPOCH).await;
            assert!(job.expect("an answer").is_some());
        }
        say(
            &format!("load of a job {what}, us"),
            begun.elapsed().as_secs_f64() * 1e6 / 20_000.0,
        );
    }
    let query = JobQuery {
        over: None,
        statuses: Vec::new(),
        account,
        labels: Vec::new(),
        after: None,
        limit: 50,
        outputs: usize::MAX,
    };
    let mut lists = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        let listed = jobs.list(&query, Timestamp::UNIX_EPOCH).await;
        assert_eq!(listed.expect("an answer").len(), 50);
        lists.push(begun.elapsed());
    }
    say("list of 50 jobs, ms", millis(median(lists)));
}

/// Does `work` for each number, by `clients` at once.
async fn spread<F: Future<Output = ()> + Send + 'static>(
    store: &Store,
    clients: usize,
    numbers: Range<u128>,
    work: impl Fn(Store, u128) -> F + Copy + Send + 'static,
) {
    let next = Arc::new(Mutex::new(numbers));
    let running = (0..clients).map(|_| {
        let (store, next) = (store.clone(), Arc::clone(&next));
        tokio::spawn(async move {
            loop {
                let number = next.lock().expect("no panic").next();
                let Some(number) = number else { break };
                work(store.clone(), number).await;
            }
        })
    });
    for ended in join_all(running).await {
        ended.expect("no panic");
    }
}

fn needs() -> RequirementSet {
    Requirements::of_engine("native").to_set()
}

async fn submit(store: &Store, n: u128) {
    let job = new_job(n, &account());
    let now = job.created_at;
    let insert = InsertJob {
        job,
        body: JobBody {
            workflow: Bytes::from_static(&[b' '; 1000]),
            files: ResolvedFiles::new(),
            targets: None,
            extra_pnginfo: String::new(),
            origin: Bytes::new(),
            placement: Placement {
                requirements: needs(),
                account_room: 100,
                stored_bytes: None,
            },
            trace: None,
        },
        claim: None,
        inputs: Vec::new(),
        bounds: QueueBounds {
            account: u32::MAX,
            total: u32::MAX,
        },
    };
    let outcome = store.jobs().insert(insert, now).await;
    assert!(matches!(outcome, Ok(InsertJobOutcome::Inserted(_))));
}

/// What a worker asks of the store for a job with one output.
async fn run(store: &Store) {
    let (jobs, now) = (store.jobs(), Timestamp::UNIX_EPOCH);
    let request = ClaimRequest {
        worker: WorkerId(Uuid::nil()),
        sets: [needs().id()].into(),
        rooms: Rooms::default(),
        lease: Duration::from_secs(30),
    };
    let claim = jobs.claim(&request, now).await.expect("an answer");
    let job = claim.expect("a job is next").job;
    let epoch = job.epoch;
    let output = NewOutput {
        node_id: "9".into(),
        index: 0,
        kind: OutputKind::Image,
        temp: false,
        name: OutputName::Counted {
            counter: "picture".to_owned(),
            stem: "picture".to_owned(),
            extension: "png".to_owned(),
        },
        content_type: "image/png".to_owned(),
        size_bytes: 1,
        asset: AssetId(Uuid::new_v4()),
        hash: BlobHash::of(job.id.0.as_bytes()),
    };
    let progress = job.progress.clone();
    let job = save(
        &jobs,
        &job,
        JobEvent::Advanced { epoch, progress },
        vec![output],
    )
    .await;
    save(&jobs, &job, JobEvent::Finished { epoch }, Vec::new()).await;
}

async fn save(jobs: &SqliteJobs, job: &Job, event: JobEvent, outputs: Vec<NewOutput>) -> Arc<Job> {
    let mut job = job.clone();
    job.apply(event, Timestamp::UNIX_EPOCH).expect("it fits");
    let save = SaveJob {
        job,
        outputs,
        log: None,
        durability: Durability::Now,
        reports: Vec::new(),
    };
    match jobs.save(save).await.expect("an answer") {
        SaveOutcome::Saved(job) => job,
        SaveOutcome::QuotaExceeded => panic!("no bound is set"),
        SaveOutcome::Conflict => panic!("nobody else saved it"),
    }
}

fn account() -> AccountId {
    "acme".parse().expect("a valid name")
}

async fn put(store: &Store, bytes: &Bytes) {
    let mut writer = store
        .blobs()
        .begin(asset_store::SpaceClass::Spare)
        .await
        .expect("a writer");
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
        account: account(),
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
    let insert = InsertAsset {
        asset,
        rule,
        claim,
        most_bytes: None,
    };
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
