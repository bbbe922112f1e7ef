//! Bytes that changed on the disk: never given out as a whole, found by themselves, and healed by any right upload.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use asset_store::{Blob, BlobHash, BlobStore, ScrubStates, SpaceClass};
use it::{Answer, Connection, Form, Launch, Log, Request, Server};
use serde_json::{Value, json};
use store_local::Store;
use tempfile::TempDir;

use super::ready;

/// What the log tells of each damaged blob.
const DAMAGED: &str = "a blob is damaged and read no more";

/// More than goes out at once.
const LARGE: usize = 3_000_000;

struct Fixture {
    _root: TempDir,
    data: PathBuf,
    server: Server,
    log: Log,
}

impl Fixture {
    async fn new(arguments: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        let (server, log) = serve(&data, arguments).await;
        // The first pass finds nothing, and is over before anything is damaged.
        let passed = async || server.metric("easel_scrub_completed_seconds").await;
        while passed().await.unwrap() == 0.0 {
            tokio::task::yield_now().await;
        }
        Self {
            _root: root,
            data,
            server,
            log,
        }
    }

    /// The same installation, after `between` while no server has it.
    async fn again(self, arguments: &[&str], between: impl FnOnce(&Path)) -> Self {
        assert!(self.server.terminate().await.unwrap().success());
        between(&self.data);
        fs::remove_file(self.data.with_extension("log")).unwrap();
        let (server, log) = serve(&self.data, arguments).await;
        Self {
            server,
            log,
            ..self
        }
    }

    async fn send(&self, request: Request) -> Answer {
        self.server.send(&request).await.unwrap()
    }

    async fn upload(&self, name: &str, content: &[u8]) -> Value {
        let form = Form::new()
            .field("content_type", "image/png")
            .field("file_path", name)
            .file("file", name, content);
        let request = Request::new("POST", "/api/v2/assets")
            .header("Content-Type", &Form::content_type())
            .body(form.body());
        let answer = self.send(request).await;
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
        answer.json()
    }

    async fn finished(&self, graph: &Value) -> Value {
        let submitted = json!({"workflow": graph});
        let job = self
            .send(Request::post_json("/api/v2/jobs", &submitted))
            .await;
        assert_eq!(job.status, 201, "{}", job.text());
        let target = format!("/api/v2/jobs/{}", job.json()["id"].as_str().unwrap());
        self.send(Request::get(&format!("{target}/events"))).await;
        self.send(Request::get(&target)).await.json()
    }

    async fn damaged(&self) -> f64 {
        self.server.metric("easel_damaged_blobs").await.unwrap()
    }
}

async fn serve(data: &Path, arguments: &[&str]) -> (Server, Log) {
    let file = data.with_extension("log");
    let mut launch = Launch::of("all-in-one");
    launch.arguments.extend(arguments.iter().map(Into::into));
    launch.log = Some(file.clone());
    let server = Server::launch(data, &launch).await.unwrap();
    (server, Log::of(&file))
}

fn content(asset: &Value) -> Request {
    let id = asset["id"].as_str().unwrap();
    Request::get(&format!("/api/v2/assets/{id}/content"))
}

fn part(asset: &Value) -> Request {
    content(asset).header("Range", "bytes=10-19")
}

/// Changes one bit of a blob where it lies.
fn flip(data: &Path, asset: &Value) {
    let hash: BlobHash = asset["hash"].as_str().unwrap().parse().unwrap();
    let hex = hash.to_hex();
    let path = data.join("blobs").join(&hex[..2]);
    let file = File::options()
        .read(true)
        .write(true)
        .open(path.join(hex))
        .unwrap();
    let middle = file.metadata().unwrap().len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle).unwrap();
    file.write_all_at(&[byte[0] ^ 1], middle).unwrap();
}

fn assert_refused(answer: &Answer) {
    assert_eq!(answer.status, 500, "{}", answer.text());
    assert_eq!(answer.error_code(), "upstream_error");
    assert!(answer.text().contains("upload the file again"));
    assert_eq!(answer.header("etag"), None);
}

#[tokio::test]
async fn a_flipped_bit_is_never_served_whole_and_an_upload_of_the_right_bytes_heals_it() {
    let mut it = Fixture::new(&[]).await;
    let (small, large) = (vec![7; 1_000], vec![8; LARGE]);
    let assets = [
        (it.upload("small.png", &small).await, small),
        (it.upload("large.png", &large).await, large),
    ];
    for (asset, bytes) in &assets {
        flip(&it.data, asset);
        let mut connection = Connection::open(it.server.address).await.unwrap();
        let request = content(asset).bytes(it.server.address);
        connection.write(&request).await.unwrap();
        if bytes.len() < LARGE {
            // It is looked at before the head is sent.
            assert_refused(&connection.answer(false).await.unwrap());
        } else {
            let (status, _) = connection.head().await.unwrap();
            assert_eq!(status, 200);
            let body = connection.until_closed().await.unwrap();
            assert!(body.len() < bytes.len(), "it is cut");
        }
        let entry = it.log.next(DAMAGED).await.to_string();
        assert!(entry.contains(asset["hash"].as_str().unwrap()), "{entry}");
    }
    assert_eq!(it.damaged().await, 2.0);
    assert!(ready(&it.server).await.contains("2, each named in the log"));

    for (asset, bytes) in &assets {
        assert_refused(&it.send(content(asset)).await);
        assert_refused(&it.send(part(asset)).await);
        let id = asset["id"].as_str().unwrap();
        let head = Request::new("HEAD", &format!("/api/v2/assets/{id}/content"));
        assert_eq!(it.send(head).await.status, 500);
        // Who asks whether the bytes are here is to send them.
        let hash = asset["hash"].as_str().unwrap();
        let by_hash = || Request::new("HEAD", &format!("/api/v2/assets/by-hash/{hash}"));
        assert_eq!(it.send(by_hash()).await.status, 404);
        let minted = json!({"hash": hash, "file_path": "other.png"});
        let minted = Request::post_json("/api/v2/assets/from-hash", &minted);
        assert_eq!(it.send(minted).await.error_code(), "blob_not_found");

        let healed = it.upload("healed.png", bytes).await;
        assert_eq!(healed["hash"], asset["hash"]);
        it.log.next("a damaged blob is whole again").await;
        assert_eq!(it.send(by_hash()).await.status, 200);
        for asset in [asset, &healed] {
            assert!(it.send(content(asset)).await.body == *bytes);
            assert!(it.send(part(asset)).await.body == bytes[10..20]);
        }
    }
    assert_eq!(it.damaged().await, 0.0);
    assert!(!ready(&it.server).await.contains("notes"));
}

#[tokio::test]
async fn an_upload_heals_what_nobody_knows_to_be_damaged() {
    let it = Fixture::new(&[]).await;
    for length in [1_000, LARGE] {
        let bytes = vec![7; length];
        let asset = it.upload("a.png", &bytes).await;
        flip(&it.data, &asset);
        it.upload("b.png", &bytes).await;
        assert!(it.send(content(&asset)).await.body == bytes, "{length}");
    }
}

#[tokio::test]
async fn a_part_is_refused_when_the_blob_was_damaged_while_no_server_looked() {
    let it = Fixture::new(&[]).await;
    let asset = it.upload("a.png", &vec![7; LARGE]).await;
    let right = it.upload("b.png", &vec![8; LARGE]).await;
    let it = it.again(&[], |data| flip(data, &asset)).await;
    assert_refused(&it.send(part(&asset)).await);
    assert_refused(&it.send(content(&asset)).await);
    let served = it.send(part(&right)).await;
    assert_eq!((served.status, served.body), (206, vec![8; 10]));
}

#[tokio::test]
async fn the_scrub_finds_what_nobody_reads_and_a_restart_does_not_forget_it() {
    let mut it = Fixture::new(&["--scrub-interval", "1s"]).await;
    let bytes = vec![7; LARGE];
    let asset = it.upload("a.png", &bytes).await;
    it.upload("b.png", b"whole").await;
    flip(&it.data, &asset);
    let entry = it.log.next(DAMAGED).await.to_string();
    assert!(entry.contains(asset["hash"].as_str().unwrap()), "{entry}");
    it.log.next("compared all blobs with their hashes").await;
    assert_eq!(it.damaged().await, 1.0);
    assert!(ready(&it.server).await.contains("1, each named in the log"));
    let metric = async |name| it.server.metric(name).await.unwrap();
    assert!(metric("easel_scrub_blobs_total").await >= 2.0);
    // The last piece of a damaged blob is not counted.
    assert!(metric("easel_scrub_bytes_total").await >= LARGE as f64 / 2.0);
    assert!(metric("easel_scrub_completed_seconds").await > 0.0);
    assert_refused(&it.send(content(&asset)).await);

    // No pass is due for hours; what is known to be damaged is looked at all the same.
    let mut it = it.again(&[], |_| {}).await;
    it.log.next(DAMAGED).await;
    assert_eq!(it.damaged().await, 1.0);
    it.upload("c.png", &bytes).await;
    assert!(it.send(content(&asset)).await.body == bytes);
    assert!(!ready(&it.server).await.contains("notes"));
    let it = it.again(&[], |_| {}).await;
    assert_eq!(it.damaged().await, 0.0);
}

#[tokio::test]
async fn a_scrub_stops_with_its_server_and_goes_on_where_it_was() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let store = Store::open(&data).unwrap();
    for number in 0..40 {
        put(&store, &vec![number; 1 << 20]).await;
    }
    drop(store);
    // A pass of 40 MiB takes 40 s when it has hours for it.
    let (server, _log) = serve(&data, &[]).await;
    while server.metric("easel_scrub_blobs_total").await.unwrap() == 0.0 {
        tokio::task::yield_now().await;
    }
    assert!(server.terminate().await.unwrap().success());

    let store = Store::open(&data).unwrap();
    let state = store.records().load_scrub().await.unwrap();
    drop(store);
    assert!(state.position.is_some(), "{state:?}");
    assert_eq!(state.completed_at, None);
    // Late, it hurries.
    let (server, mut log) = serve(&data, &["--scrub-interval", "1s"]).await;
    let entry = log.next("compared all blobs with their hashes").await;
    let met = entry["blobs"].as_u64().unwrap();
    assert!((1..40).contains(&met), "{entry}");
    server.terminate().await.unwrap();
}

async fn put(store: &Store, bytes: &[u8]) -> Blob {
    let mut writer = store.blobs().begin(SpaceClass::Spare).await.unwrap();
    writer.write(bytes.to_vec().into()).await.unwrap();
    writer.commit().await.unwrap()
}

#[tokio::test]
async fn a_node_that_loads_a_damaged_picture_fails_with_a_sentence() {
    let it = Fixture::new(&[]).await;
    // No output of a job: those are put right from the journal at a start.
    let picture = fs::read(it::root().join("examples/photo.png")).unwrap();
    let asset = it.upload("photo.png", &picture).await;
    // What the engine remembers would do without the file.
    let it = it.again(&[], |data| flip(data, &asset)).await;
    let graph = json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": "photo.png"}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "y"}},
    });
    let failed = it.finished(&graph).await;
    assert_eq!(failed["status"], "failed", "{failed:#}");
    let error = failed["error"].to_string();
    assert!(
        error.contains("photo.png") && error.contains("is damaged in the store; upload it again"),
        "{error}"
    );
    it.upload("photo.png", &picture).await;
    let done = it.finished(&graph).await;
    assert_eq!(done["status"], "succeeded", "{done:#}");
}
