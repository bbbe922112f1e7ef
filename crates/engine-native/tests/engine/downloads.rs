//! Pictures behind web addresses, from servers on loopback that the client's policy exempts, or does not.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use engine_native::{Downloads, EngineConfig};
use hyper_kit::Host;
use hyper_kit::client::{AddressPolicy, Client, ClientConfig};
use images::Frame;
use images::codec::encode_png;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use workflow_core::{JobErrorCode, RunError};

use crate::bench::{Bench, CONFIG};
use crate::failures::failure;

/// A server that answers each path with what `answer` says, and remembers what it was asked for.
struct Site {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    async fn new(answer: impl Fn(&str) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (answer, seen) = (Arc::new(answer), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                tokio::spawn(async move {
                    let path = asked_for(&mut stream).await;
                    seen.lock().unwrap().push(path.clone());
                    match answer(&path) {
                        // A client that gave up hears nothing.
                        Some(answer) => drop(stream.write_all(&answer).await),
                        None => std::future::pending().await,
                    }
                });
            }
        });
        Self { address, asked }
    }

    /// An engine that may ask this site, and its bench.
    fn bench(&self, config: &EngineConfig) -> Bench {
        let host = Host::parse(&self.address.to_string()).unwrap();
        let client = Client::new(ClientConfig {
            policy: AddressPolicy {
                https_only: false,
                allow_private: vec![host],
            },
            ..ClientConfig::default()
        });
        let mut downloads = Downloads::new(client.unwrap());
        downloads.limits.max_bytes = 4096;
        let config = EngineConfig {
            downloads: Some(downloads),
            ..config.clone()
        };
        let mut bench = Bench::with(config, Vec::new());
        bench.site = format!("http://{}", self.address);
        bench
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn asked_for(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    let head = String::from_utf8(head).unwrap();
    head.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn answer(status: &str, headers: &str, body: &[u8]) -> Option<Vec<u8>> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    Some([head.as_bytes(), body].concat())
}

/// A picture of one colour, whose number is in all its samples.
fn picture(color: u8) -> Vec<u8> {
    let frame = Frame::filled(2, 3, 3, f32::from(color) / 255.0);
    encode_png(&frame, &[]).unwrap()
}

fn load(address: &str) -> Json {
    json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": address}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "a"}},
    })
}

const ADDRESS: &str = "https://pictures.example/cat.png?token=secret#top";

#[tokio::test]
async fn a_picture_behind_an_address_loads_as_an_upload_does_and_anew_each_time() {
    let site = Site::new(|_| answer("200 OK", "", &picture(40))).await;
    let mut bench = site.bench(&CONFIG);
    bench.upload("cat.png", &picture(40)).await;
    let uploaded = bench.run(&load("cat.png")).await.expect_success();
    for _ in 0..2 {
        let told = bench.run(&load(ADDRESS)).await.expect_success();
        let pixels = |bytes| images::codec::decode(bytes, &Default::default()).unwrap();
        assert_eq!(pixels(&told.outputs[0].1), pixels(&uploaded.outputs[0].1));
    }
    assert_eq!(site.asked(), ["/cat.png?token=secret"; 2]);
}

#[tokio::test]
async fn many_addresses_are_fetched_a_few_at_once() {
    let site = Site::new(|path| {
        let number = path.trim_start_matches('/').parse().unwrap();
        answer("200 OK", "", &picture(number))
    })
    .await;
    let mut graph = serde_json::Map::new();
    for at in 0..9 {
        let address = format!("https://pictures.example/{at}");
        graph.insert(
            at.to_string(),
            json!({"class_type": "LoadImage", "inputs": {"image": address}}),
        );
        let mask = json!({"class_type": "ImageToMask", "inputs": {"image": [at.to_string(), 0], "channel": "red"}});
        graph.insert(format!("mask {at}"), mask);
        let preview =
            json!({"class_type": "MaskPreview", "inputs": {"mask": [format!("mask {at}"), 0]}});
        graph.insert(format!("show {at}"), preview);
    }
    let told = site
        .bench(&CONFIG)
        .run(&graph.into())
        .await
        .expect_success();
    let mut colors = Vec::new();
    for (_, png) in &told.outputs {
        let decoded = images::codec::decode(png, &Default::default()).unwrap();
        colors.push((decoded.image.first().data()[0] * 255.0).round() as u8);
    }
    colors.sort_unstable();
    assert_eq!(colors, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let mut asked = site.asked();
    asked.sort();
    assert_eq!(asked, (0..9).map(|at| format!("/{at}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_cannot_be_fetched_fails_the_node_in_words_without_the_address() {
    let site = Site::new(|path| match path.split('?').next().unwrap_or_default() {
        "/cat.png" => answer("404 Not Found", "", b"gone"),
        "/away" => answer("302 Found", "location: http://127.0.0.2:9/cat.png\r\n", b""),
        "/large" => answer("200 OK", "", &[0; 5000]),
        "/text" => answer("200 OK", "content-type: image/png\r\n", b"<html>"),
        _ => answer("200 OK", "", &bomb()),
    })
    .await;
    let bench = site.bench(&CONFIG);
    for (path, wanted, words) in [
        ("/cat.png?secret", "ImageDownloadError", "status 404"),
        (
            "/away?secret",
            "ImageDownloadError",
            "not on the public internet",
        ),
        (
            "/large?secret",
            "ImageDownloadError",
            "larger than 4096 bytes",
        ),
        (
            "/text?secret",
            "PIL.UnidentifiedImageError",
            "not a picture",
        ),
        (
            "/bomb?secret",
            "PIL.Image.DecompressionBombError",
            "pixels in width",
        ),
    ] {
        let told = bench
            .run(&load(&format!("https://pictures.example{path}")))
            .await;
        let (code, place, exception, message) = failure(&told);
        assert_eq!(code, JobErrorCode::NodeExecutionError);
        assert_eq!(
            (place.as_str(), exception.as_str()),
            ("1 LoadImage", wanted)
        );
        assert!(message.contains(words), "{message}");
        assert!(!message.contains("secret"), "{message}");
        assert_eq!(told.lines(&["started"]), ["started 1 LoadImage"]);
    }
}

/// A header that promises more pixels than anybody decodes.
fn bomb() -> Vec<u8> {
    let mut png = picture(1);
    png[16..20].copy_from_slice(&100_000_u32.to_be_bytes());
    png
}

#[tokio::test]
async fn an_address_inside_the_network_is_refused_unasked() {
    let site = Site::new(|_| answer("200 OK", "", &picture(1))).await;
    let client = Client::new(ClientConfig::default()).unwrap();
    let config = EngineConfig {
        downloads: Some(Downloads::new(client)),
        ..CONFIG
    };
    let bench = Bench::with(config, Vec::new());
    for host in [
        "127.0.0.1",
        "localhost",
        "169.254.169.254",
        "[::1]",
        "0x7f.1",
    ] {
        let address = format!("https://{host}:{}/cat.png", site.address.port());
        let told = bench.run(&load(&address)).await;
        let (_, _, exception, message) = failure(&told);
        assert_eq!(exception, "ImageDownloadError");
        assert!(message.contains("not on the public internet"), "{message}");
    }
    assert!(site.asked().is_empty());
}

/// `host` in an answer stands for the host that the caller named.
async fn answer_without_host(bench: &Bench, host: &str) -> (JobErrorCode, String, String) {
    let told = bench.run(&load(&format!("https://{host}/cat.png"))).await;
    let (code, _, exception, message) = failure(&told);
    (code, exception, message.replace(host, "host"))
}

#[tokio::test]
async fn inside_names_missing_names_and_closed_ports_answer_alike() {
    // The port of a listener that is gone: nothing else listens there for the time of the test.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = gone.local_addr().unwrap().to_string();
    drop(gone);
    let bench = |allow_private: Vec<Host>| {
        let policy = AddressPolicy {
            allow_private,
            ..AddressPolicy::default()
        };
        let client = Client::new(ClientConfig {
            policy,
            ..ClientConfig::default()
        });
        let config = EngineConfig {
            downloads: Some(Downloads::new(client.unwrap())),
            ..CONFIG
        };
        Bench::with(config, Vec::new())
    };
    let outside = bench(Vec::new());
    let refused = answer_without_host(&outside, "localhost:9").await;
    assert_eq!(answer_without_host(&outside, "192.168.1.1").await, refused);
    assert_eq!(
        answer_without_host(&outside, "no-such-name.invalid").await,
        refused
    );
    let exempted = bench(vec![Host::parse(&closed).unwrap()]);
    assert_eq!(answer_without_host(&exempted, &closed).await, refused);
}

#[tokio::test]
async fn an_engine_without_downloads_says_what_to_do_instead() {
    let (_, place, exception, message) = failure(&Bench::new().run(&load(ADDRESS)).await);
    assert_eq!(
        (place.as_str(), exception.as_str()),
        ("1 LoadImage", "ImageDownloadError")
    );
    assert!(message.contains("upload the picture"), "{message}");
}

#[tokio::test]
async fn a_file_that_does_not_fit_into_the_job_s_memory_is_out_of_memory() {
    let site = Site::new(|_| answer("200 OK", "", &[0; 3000])).await;
    let config = EngineConfig {
        job_memory_bytes: 4000,
        ..CONFIG
    };
    let told = site.bench(&config).run(&load(ADDRESS)).await;
    assert_eq!(failure(&told).0, JobErrorCode::OutOfMemory);
}

#[tokio::test]
async fn a_run_that_is_stopped_waits_for_no_server() {
    let site = Site::new(|_| None).await;
    let bench = site.bench(&CONFIG);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let graph = load(ADDRESS);
    let hear = move |line: &str| {
        if line == "started 1 LoadImage" {
            stop.cancel();
        }
    };
    let told = bench.run_with(&graph, hear, cancel).await;
    assert_eq!(told.result, Err(RunError::Canceled(Some("1".into()))));
}
