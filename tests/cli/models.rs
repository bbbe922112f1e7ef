//! Partner models before a real router and simulated partners.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use it::Launch;
use it::file_host::FileHost;
use it::partners::{Fault, Partner, Partners, Step};
use serde_json::json;
use tokio::io::AsyncReadExt;

use super::*;
use crate::router::{streams, write_catalog};

/// A server with a router before simulated partners, and a user who may call them.
struct Desk {
    partners: Partners,
    server: Server,
    user: User,
    folder: TempDir,
}

impl Desk {
    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    async fn new() -> Self {
        Self::with(&[]).await
    }

    async fn with(variables: &[(&str, &str)]) -> Self {
        let partners = Partners::start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let catalog = folder.path().join("catalog");
        write_catalog(&catalog);
        let relocations = partners.relocations().into_iter();
        let relocations: Vec<String> = relocations
            .map(|(host, url)| format!("{host}={url}"))
            .collect();
        let relocations = relocations.join(",");
        let bfl = Partner::Bfl.secret();
        let anthropic = streams::partner().secret();
        let usual = [
            ("EASEL_CATALOG", catalog.to_str().unwrap()),
            ("EASEL_RELOCATE_PARTNERS", relocations.as_str()),
            ("BFL_API_KEY", bfl.as_str()),
            ("ANTHROPIC_API_KEY", anthropic.as_str()),
        ];
        let variables = usual.iter().chain(variables);
        let launch = Launch {
            variables: variables
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..Launch::of("all-in-one")
        };
        let server = Server::launch(&folder.path().join("data"), &launch)
            .await
            .unwrap();
        let user = User::of(&server).with("EASEL_API_KEY", &token(&server));
        Self {
            partners,
            server,
            user,
            folder,
        }
    }

    /// What the partner was sent last.
    fn sent(&self) -> Value {
        let requests = self.partners.requests_of(Partner::Bfl, Step::Submit);
        serde_json::from_slice(&requests.last().unwrap().body).unwrap()
    }
}

#[tokio::test]
async fn a_stream_is_printed_while_it_comes() {
    let desk = Desk::new().await;
    let pieces = Fault::Pieces(streams::events(), false);
    desk.partners
        .fault(streams::partner(), Step::Submit, pieces);
    let mut command = desk.user.command([
        "call",
        streams::MODEL,
        "max_tokens=64",
        r#"messages=[{"role":"user","content":"Hi"}]"#,
        "stream=true",
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    for event in streams::events() {
        let mut came = vec![0; event.len()];
        out.read_exact(&mut came).await.unwrap();
        assert_eq!(came, event);
        desk.partners.release();
    }
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn models_are_listed_and_described() {
    let desk = Desk::new().await;
    let listed = desk.user.json("models", &["models"]).await;
    let ids: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    assert!(
        ids.contains(&"bfl/flux-2-pro") && ids.contains(&"easel/postcard"),
        "{ids:?}"
    );
    let found = desk.user.good(&["models", "--search", "postcard"]).await;
    assert_eq!(found, "easel/postcard\tno\n");
    let model = desk.user.json("model", &["models", "bfl/flux-2-pro"]).await;
    assert!(
        model["input_schema"]["properties"]["prompt"].is_object(),
        "{model:#}"
    );
    // The price is that of the estimate, by the defaults.
    let estimate = desk
        .user
        .json("estimate", &["estimate", "bfl/flux-2-pro", "prompt=x"])
        .await;
    assert_eq!(model["estimate"], estimate);
    let fields = desk.user.good(&["models", "bfl/flux-2-pro"]).await;
    assert!(
        fields.starts_with("Price: ") && fields.contains(" USD (estimated) with the defaults\n"),
        "{fields}"
    );
    let own = desk.user.good(&["models", "easel/postcard"]).await;
    assert!(own.starts_with("Price: "), "{own}");
    let prompt: Vec<&str> = fields
        .lines()
        .find(|line| line.starts_with("prompt"))
        .unwrap()
        .split('\t')
        .collect();
    assert_eq!(prompt[..3], ["prompt", "a text", "needed"]);
    let (code, error) = desk.user.error(&["models", "bfl/flux-9"]).await;
    assert_eq!((code, &error["code"]), (4, &json!("model_not_found")));
}

#[tokio::test]
async fn a_call_sends_what_the_schema_says_and_prints_the_answer() {
    let desk = Desk::new().await;
    let sample = format!("data:image/png;base64,{}", STANDARD.encode(b"\x89PNG"));
    let ready = json!({"id": "t", "status": "Ready", "result": {"sample": sample}}).to_string();
    desk.partners
        .answer_with(Partner::Bfl, "application/json", ready.clone());
    let call = ["call", "bfl/flux-2-pro", "prompt=12", "seed=7"];
    let printed = desk.user.good(&call).await;
    assert_eq!(printed, ready, "the bytes of the model, unchanged");
    assert_eq!(desk.sent(), json!({"prompt": "12", "seed": 7}));

    let with_key = [
        "call",
        "bfl/flux-2-pro",
        "prompt=x",
        "--idempotency-key",
        "k-1",
        "--save",
        "saved",
    ];
    let first = desk.user.json("call", &with_key).await;
    assert_eq!(first["files"], json!(["saved/result-1.png"]));
    assert_eq!(
        std::fs::read(desk.user.path("saved/result-1.png")).unwrap(),
        b"\x89PNG"
    );
    let submits = desk.partners.requests_of(Partner::Bfl, Step::Submit).len();
    let second = desk.user.json("call", &with_key).await;
    assert_eq!(
        (&first["replayed"], &second["replayed"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(second["output"], first["output"]);
    assert_eq!(
        desk.partners.requests_of(Partner::Bfl, Step::Submit).len(),
        submits
    );

    let body = json!({"prompt": "from a file"});
    desk.user.write("body.json", &body);
    let out = desk
        .user
        .good(&[
            "call",
            "bfl/flux-2-pro",
            "@body.json",
            "--out",
            "answer.json",
        ])
        .await;
    assert_eq!(out, "answer.json\n");
    assert_eq!(desk.sent(), body);
    assert_eq!(
        std::fs::read_to_string(desk.user.path("answer.json")).unwrap(),
        ready
    );
}

#[tokio::test]
async fn files_of_an_answer_that_cannot_be_saved_are_all_named_with_the_key() {
    let desk = Desk::with(&[("FAL_KEY", &Partner::FalSync.secret())]).await;
    // The command line asks no host of this machine but its server.
    let data = format!("data:image/png;base64,{}", STANDARD.encode(b"\x89PNG"));
    let images = [
        "http://127.0.0.1:1/a.png",
        "http://127.0.0.1:1/b.png",
        &data,
    ];
    let images = images.map(|url| json!({ "url": url }));
    let body = json!({ "images": images }).to_string();
    desk.partners
        .answer_with(Partner::FalSync, "application/json", body);
    let call = [
        "call",
        "fal-sync/flux-schnell",
        "prompt=x",
        "--idempotency-key",
        "k-1",
        "--save",
        "saved",
        "--out",
        "photo.png/answer.json",
    ];
    let ran = desk.user.run(&call).await;
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (6, "saved/result-3.png\n"),
        "its place in the answer: {}",
        ran.err
    );
    let lines: Vec<&str> = ran.err.lines().collect();
    let [a, b, out, hint] = lines[..] else {
        panic!("three files and a way out: {}", ran.err)
    };
    assert!(a.starts_with("easel: saved/a.png: "), "{a}");
    assert!(b.starts_with("  saved/b.png: "), "{b}");
    assert!(
        out.starts_with("  photo.png/answer.json cannot be"),
        "{out}"
    );
    assert!(hint.contains("--idempotency-key k-1"), "{hint}");
}

#[tokio::test]
async fn what_a_model_refuses_is_told_before_it_is_called() {
    let desk = Desk::new().await;
    for (fields, words) in [
        (
            &["seed=7"][..],
            "bfl/flux-2-pro needs prompt; write prompt=...",
        ),
        (&["prompt=x", "seed=many"], "`seed` takes a whole number"),
    ] {
        let arguments: Vec<&str> = ["call", "bfl/flux-2-pro"]
            .iter()
            .chain(fields)
            .copied()
            .collect();
        let (code, error) = desk.user.error(&arguments).await;
        assert_eq!((code, &error["kind"]), (2, &json!("usage")));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
    }
    assert!(desk.partners.requests().is_empty(), "nothing was called");
    // What only the server can judge has a line for each field.
    let refused = desk
        .user
        .run(&["call", "easel/postcard", "image=nothing"])
        .await;
    assert!(refused.code == 2 || refused.code == 1, "{refused:?}");
}

#[tokio::test]
async fn a_model_of_the_server_gets_a_file_and_its_picture_is_saved() {
    let desk = Desk::new().await;
    let call = [
        "call",
        "easel/resize",
        "image=@photo.png",
        "width=32",
        "--save",
        "small",
    ];
    let answer = desk.user.json("call", &call).await;
    let file = answer["files"][0].as_str().unwrap();
    assert!(is_png(&desk.user.path(file)), "{answer:#}");
}

#[tokio::test]
async fn an_estimate_is_told_or_said_to_be_missing() {
    let desk = Desk::new().await;
    let estimate = desk
        .user
        .run(&["estimate", "bfl/flux-2-pro", "prompt=x"])
        .await;
    let path = "/v1/models/bfl/flux-2-pro/estimate";
    let key = format!("Bearer {}", token(&desk.server));
    let asked = it::Request::post_json(path, &json!({"prompt": "x"})).header("Authorization", &key);
    let answer = desk.server.send(&asked);
    if answer.await.unwrap().status == 200 {
        assert_eq!(estimate.code, 0, "{}", estimate.err);
        desk.user
            .json("estimate", &["estimate", "bfl/flux-2-pro", "prompt=x"])
            .await;
    } else {
        assert_eq!(estimate.code, 8, "{}", estimate.err);
        assert!(
            estimate.err.contains("gives no estimates"),
            "{}",
            estimate.err
        );
    }
    let (code, _) = desk
        .user
        .error(&["estimate", "bfl/flux-9", "prompt=x"])
        .await;
    assert_eq!(code, 4);
}

#[tokio::test]
async fn kept_files_of_a_call_are_listed_and_saved() {
    let files = FileHost::start().await.unwrap();
    let desk = Desk::with(&[
        ("EASEL_KEEP_RESULTS", "true"),
        ("EASEL_PLAIN_PARTNERS", &files.host()),
    ])
    .await;
    let user = &desk.user;
    let call = async |url: String| {
        let ready = json!({"id": "t", "status": "Ready", "result": {"sample": url}});
        desk.partners
            .answer_with(Partner::Bfl, "application/json", ready.to_string());
        let call = ["call", "bfl/flux-2-pro", "prompt=x"];
        user.json("call", &call).await["request_id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let state = async |id: &str| {
        let listed = user.json("results", &["results", id]).await;
        assert_eq!(listed["files"], json!([]), "nothing is saved: {listed}");
        let [result] = &listed["results"].as_array().unwrap()[..] else {
            panic!("one file: {listed}")
        };
        assert_eq!(result["pointer"], "/result/sample", "{listed}");
        result.clone()
    };
    let ended = async |id: &str| {
        loop {
            let result = state(id).await;
            if result["state"] != "waiting" {
                break result;
            }
        }
    };

    // A file that is still on its way, and there once its host sent it.
    let id = call(files.url("/held/a")).await;
    assert_eq!(state(&id).await["state"], "waiting");
    files.release();
    assert_eq!(ended(&id).await["state"], "kept");
    let save = ["results", &id, "--save", "kept"];
    let saved = user.json("results", &save).await;
    let [file] = &saved["files"].as_array().unwrap()[..] else {
        panic!("one file: {saved}")
    };
    let bytes = std::fs::read(user.path(file.as_str().unwrap())).unwrap();
    assert!(bytes == FileHost::file("a"), "the bytes of {file}");

    let id = call(files.url("/missing/b")).await;
    let lost = ended(&id).await;
    assert_eq!(lost["state"], "failed");
    assert!(lost["reason"].as_str().unwrap().contains("404"), "{lost}");

    let (code, error) = user.error(&["results", "no-call"]).await;
    assert_eq!(code, 4, "{error}");
}

#[tokio::test]
async fn kept_files_that_cannot_be_saved_are_named_and_the_others_saved() {
    let files = FileHost::start().await.unwrap();
    let desk = Desk::with(&[
        ("EASEL_KEEP_RESULTS", "true"),
        ("EASEL_PLAIN_PARTNERS", &files.host()),
        ("FAL_KEY", &Partner::FalSync.secret()),
    ])
    .await;
    let user = &desk.user;
    let images = ["a", "b", "c"].map(|name| json!({"url": files.url(&format!("/file/{name}"))}));
    let body = json!({ "images": images }).to_string();
    desk.partners
        .answer_with(Partner::FalSync, "application/json", body);
    let called = user
        .json("call", &["call", "fal-sync/flux-schnell", "prompt=x"])
        .await;
    let id = called["request_id"].as_str().unwrap();
    let results = loop {
        let listed = user.json("results", &["results", id]).await;
        let results = listed["results"].as_array().unwrap().clone();
        if results.iter().all(|result| result["state"] != "waiting") {
            break results;
        }
    };
    assert!(
        results.iter().all(|result| result["state"] == "kept"),
        "{results:?}"
    );
    let [a, b, c] = &results[..] else {
        panic!("three files: {results:?}")
    };
    // The server does not give out bytes that are not what they were.
    for damaged in [a, c] {
        let hash = damaged["hash"].as_str().unwrap();
        let hex = hash.rsplit(':').next().unwrap();
        let blob = desk.data().join("blobs").join(&hex[..2]).join(hex);
        let mut bytes = std::fs::read(&blob).unwrap();
        bytes[7] ^= 1;
        std::fs::write(&blob, bytes).unwrap();
    }

    let ran = user.run(&["results", id, "--save", "kept"]).await;
    let file = |result: &serde_json::Value| {
        let url = result["url"].as_str().unwrap();
        format!("kept/{}", url.rsplit('/').next().unwrap())
    };
    assert_eq!(ran.out, format!("{}\n", file(b)), "{}", ran.err);
    let saved = std::fs::read(user.path(&file(b))).unwrap();
    assert!(saved == FileHost::file("b"), "the bytes of b");
    assert_ne!(ran.code, 0);
    let lines: Vec<&str> = ran.err.trim_end().lines().collect();
    let [first, second] = lines[..] else {
        panic!("two files are named: {}", ran.err)
    };
    assert!(
        first.starts_with(&format!("easel: {}: ", file(a))),
        "{first}"
    );
    assert!(second.starts_with(&format!("  {}: ", file(c))), "{second}");
}
