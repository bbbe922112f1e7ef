//! A bucket in trouble: what is stored is stored whole or refused, whatever becomes of single requests.

use futures_util::future::join_all;
use it::{BucketProxy, Trouble};

use super::*;

/// A blob of this size is an object; the bytes of smaller ones are in the database.
const LEAST: usize = 20_000;
const UNWELL: Trouble = Trouble::Refused(503, "<Error><Code>SlowDown</Code></Error>");

/// A replica `a` behind a proxy to the bucket, and a replica `b` that reaches it directly.
async fn behind(
    proxy: &mut Option<BucketProxy>,
    test: &str,
    flags: &[&str],
) -> Option<(Fleet, [Server; 2])> {
    let mut fleet = Fleet::start(test).await?;
    let direct = fleet.replica("b").await;
    let endpoint = testing::bucket()?.endpoint.unwrap();
    let between = BucketProxy::start(&endpoint).await.unwrap();
    let blobs = fleet.place[3].replace(&endpoint, &between.endpoint());
    let before = std::mem::replace(&mut fleet.place[3], blobs);
    let troubled = fleet.replica_with("a", flags).await;
    fleet.place[3] = before;
    *proxy = Some(between);
    Some((fleet, [troubled, direct]))
}

/// Bytes that are alike nowhere, and differ from one `seed` to the next.
fn bytes(seed: u8, length: usize) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let words = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()
    });
    words.flatten().take(length).collect()
}

/// A job whose output is an object.
fn large_graph(color: usize) -> Value {
    let mut graph = tiny_graph(color);
    for side in ["width", "height"] {
        graph["1"]["inputs"][side] = json!(4096);
    }
    graph
}

async fn try_upload(fleet: &Fleet, server: &Server, name: &str, content: &[u8]) -> Answer {
    let form = Form::new()
        .field("content_type", "application/octet-stream")
        .field("file_path", name)
        .file("file", name, content);
    let request =
        Request::new("POST", "/api/v2/assets").header("Content-Type", &Form::content_type());
    let sent = in_time(server.send(&fleet.own(request.body(form.body())))).await;
    sent.unwrap_or_else(|error| panic!("{name}: {error}: {}", fleet.log("a")))
}

/// The record of an upload that is taken.
async fn upload(fleet: &Fleet, server: &Server, name: &str, content: &[u8]) -> Value {
    let taken = try_upload(fleet, server, name, content).await;
    assert_eq!(taken.status, 201, "{}: {}", taken.text(), fleet.log("a"));
    taken.json()
}

fn content_of(asset: &Value) -> String {
    format!("/api/v2/assets/{}/content", asset["id"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn single_requests_that_a_bucket_fails_are_not_noticed() {
    let mut proxy = None;
    let Some((fleet, [a, b])) = behind(&mut proxy, "a bucket that fails requests", &[]).await
    else {
        return;
    };
    let proxy = proxy.unwrap();
    // At once, from a file, and in parts.
    for (seed, length) in [(1, LEAST), (2, 3_000_000), (3, 17_000_000)] {
        let content = bytes(seed, length);
        if length > 8 << 20 {
            // The beginning of the parts; their end works, and its answer is lost.
            proxy.next("POST", [UNWELL, Trouble::Cut(0), Trouble::LostAnswer]);
        }
        proxy.next(
            "PUT",
            [UNWELL, Trouble::LostAnswer, Trouble::Refused(500, "")],
        );
        let asset = upload(&fleet, &a, &format!("{length}.bin"), &content).await;
        let target = content_of(&asset);
        assert_eq!(fleet.get(&b, &target).await.body, content, "{length}");
        proxy.next(
            "GET",
            [
                UNWELL,
                Trouble::LostAnswer,
                Trouble::Cut(700),
                Trouble::Cut(0),
            ],
        );
        assert_eq!(fleet.get(&a, &target).await.body, content, "{length}");
        let part = Request::get(&target).header("Range", "bytes=100-899");
        proxy.next("GET", [Trouble::Cut(300), UNWELL]);
        assert_eq!(fleet.send(&a, part).await.body, content[100..900]);
    }
    // What a job makes.
    assert!(b.terminate().await.unwrap().success());
    proxy.next("PUT", [UNWELL, Trouble::LostAnswer]);
    let job = fleet.submit(&a, &large_graph(5)).await;
    let ended = fleet.ended(&a, &job).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let target = content_of(&ended["outputs"][0]);
    proxy.next("GET", [UNWELL, Trouble::Cut(20)]);
    let picture = fleet.get(&a, &target).await;
    let size = ended["outputs"][0]["size_bytes"].as_u64().unwrap();
    assert!(size >= LEAST as u64, "{size}");
    assert_eq!(picture.body.len() as u64, size);
    assert_eq!(proxy.left(), 0, "every trouble was met");
    assert!(a.terminate().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_bucket_does_not_take_is_refused_and_leaves_nothing() {
    let mut proxy = None;
    let Some((fleet, [a, b])) = behind(&mut proxy, "a bucket that is away", &[]).await else {
        return;
    };
    let proxy = proxy.unwrap();
    proxy.always(Some(UNWELL));
    for (seed, length) in [(1, LEAST), (2, 9_000_000)] {
        let refused = try_upload(&fleet, &a, "refused.bin", &bytes(seed, length)).await;
        let said = refused.text();
        assert_eq!(refused.status, 500, "{said}");
        assert!(
            !said.contains("127.0.0.1") && !said.contains("SlowDown"),
            "{said}"
        );
    }
    // Nothing of them can be had, and a job whose result is not taken says so.
    assert!(b.terminate().await.unwrap().success());
    let job = fleet.submit(&a, &large_graph(1)).await;
    let ended = fleet.ended(&a, &job).await;
    assert_eq!(ended["status"], "failed", "{ended:#}");
    assert_eq!(ended["error"]["code"], "engine_error", "{ended:#}");
    assert_eq!(ended["outputs"], json!([]));
    // It is back.
    proxy.always(None);
    let b = fleet.replica("b").await;
    for (seed, length) in [(1, LEAST), (2, 9_000_000)] {
        let content = bytes(seed, length);
        let asset = upload(&fleet, &a, "taken.bin", &content).await;
        assert_eq!(fleet.get(&b, &content_of(&asset)).await.body, content);
    }
    let job = fleet.submit(&a, &large_graph(2)).await;
    assert_eq!(fleet.ended(&a, &job).await["status"], "succeeded");
    for server in [a, b] {
        assert!(server.terminate().await.unwrap().success());
    }
}

/// Uploads wait in files, not in memory, for a bucket that is slow.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_bucket_takes_time_and_no_memory() {
    const UPLOADS: u8 = 10;
    const EACH: usize = 24 << 20;
    // Eight parts of 8 MiB are on their way at once, and as much again for what is around them.
    const MOST: u64 = 2 * 8 * (8 << 20);
    let mut proxy = None;
    let Some((fleet, [a, b])) = behind(&mut proxy, "a slow bucket", &[]).await else {
        return;
    };
    let proxy = proxy.unwrap();
    upload(&fleet, &a, "first.bin", &bytes(99, 9_000_000)).await;
    proxy.always(Some(Trouble::Slow(Duration::from_millis(2))));
    // Made before: a server does not wait long for an upload that has begun.
    let contents: Vec<_> = (0..UPLOADS).map(|seed| (seed, bytes(seed, EACH))).collect();
    a.forget_peak().unwrap();
    let before = a.resident_bytes();
    let uploads = contents.iter().map(async |(seed, content)| {
        let asset = upload(&fleet, &a, &format!("{seed}.bin"), content).await;
        (asset, content)
    });
    let assets = join_all(uploads).await;
    let grown = a.peak_bytes().saturating_sub(before);
    assert!(grown < MOST, "{} MiB", grown >> 20);
    for (asset, content) in assets {
        let read = fleet.get(&b, &content_of(&asset)).await;
        assert!(read.body == *content, "{asset}");
    }
    for server in [a, b] {
        assert!(server.terminate().await.unwrap().success());
    }
}
