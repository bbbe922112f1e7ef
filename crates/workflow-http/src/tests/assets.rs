//! Assets over HTTP: what is kept, what is answered, and what is refused.

use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::harness::{Rig, Server, form, graph, limited, principal, server};

mod forms;
mod from_hash;

const HASH_OF_OTHER: &str =
    "blake3:0000000000000000000000000000000000000000000000000000000000000000";

async fn upload(
    server: &Server,
    parts: &[(&str, &str)],
    file: Option<&str>,
) -> super::harness::Answer {
    let (kind, body) = form(parts, file);
    let headers = [("content-type", kind.as_str())];
    server
        .send(Method::POST, "/api/v2/assets", &headers, body)
        .await
}

const PHOTO: [(&str, &str); 2] = [
    ("content_type", "image/png"),
    ("file_path", "a/photo é.png"),
];

fn path_of(url: &Value) -> &str {
    let url = url.as_str().expect("a URL");
    url.strip_prefix("http://127.0.0.1:8189").expect("the base")
}

#[tokio::test]
async fn new_bytes_are_201_and_known_bytes_200() {
    let server = server();
    let first = upload(&server, &PHOTO, Some("bytes")).await;
    assert_eq!(first.status, 201);
    let asset = first.json();
    let keys: Vec<&str> = asset
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        [
            "id",
            "hash",
            "size_bytes",
            "content_type",
            "file_path",
            "created_new",
            "created_at",
            "url",
            "url_expires_at",
            "expires_at",
            "job_id",
            "tags"
        ]
    );
    assert_eq!(
        asset["hash"],
        asset_store::BlobHash::of(b"bytes").to_string()
    );
    assert_eq!(
        (&asset["size_bytes"], &asset["created_new"]),
        (&json!(5), &json!(true))
    );
    assert_eq!(asset["file_path"], "a/photo é.png");
    assert_eq!(asset["created_at"], "2026-01-01T00:00:00.000Z");
    assert_eq!(asset["expires_at"], "2026-01-02T00:00:00.000Z");
    assert_eq!(asset["url_expires_at"], "2026-01-01T00:15:00.000Z");

    let again = [
        ("content_type", "image/x-other"),
        ("file_path", "b.png"),
        ("tags", "x"),
        ("tags", "y"),
    ];
    let second = upload(&server, &again, Some("bytes")).await;
    assert_eq!(second.status, 200);
    let other = second.json();
    assert_ne!(other["id"], asset["id"]);
    assert_eq!(
        (&other["created_new"], &other["content_type"]),
        (&json!(false), &json!("image/x-other"))
    );
    assert_eq!(other["tags"], json!(["x", "y"]));
}

#[tokio::test]
async fn another_accounts_bytes_never_tell() {
    let rig = Rig::new();
    let (a, b) = (
        rig.server(principal("a"), |_| {}),
        rig.server(principal("b"), |_| {}),
    );
    let asset = a.upload("x.png", "bytes").await;
    let id = asset["id"].as_str().expect("an id");
    let hash = asset["hash"].as_str().expect("a hash");
    let path = format!("/api/v2/assets/{id}");
    let foreign = b.get(&path).await;
    let unknown = b
        .get("/api/v2/assets/00000000-0000-7000-8000-000000000000")
        .await;
    assert_eq!(foreign.body, unknown.body);
    b.send(Method::DELETE, &path, &[], "")
        .await
        .is_error(404, "not_found");
    let head = b
        .send(
            Method::HEAD,
            &format!("/api/v2/assets/by-hash/{hash}"),
            &[],
            "",
        )
        .await;
    assert_eq!((head.status.as_u16(), head.body.len()), (404, 0));
    let minted = b
        .post_json("/api/v2/assets/from-hash", &json!({ "hash": hash }))
        .await;
    minted.is_error(404, "blob_not_found");
    assert_eq!(b.upload("x.png", "bytes").await["created_new"], true);
}

#[tokio::test]
async fn unexpected_bytes_mint_nothing() {
    let server = server();
    let parts = [PHOTO[0], PHOTO[1], ("expected_hash", HASH_OF_OTHER)];
    let error = upload(&server, &parts, Some("bytes"))
        .await
        .is_error(409, "hash_mismatch");
    assert_eq!(error["details"]["expected"], HASH_OF_OTHER);
    assert!(!server.rig.has_blob("bytes").await);
}

#[tokio::test]
async fn an_upload_beyond_the_bound_is_413() {
    let small = limited(|tier| tier.upload_bytes = 4);
    let server = Rig::new().server(small, |_| {});
    let error = upload(&server, &PHOTO, Some("bytes"))
        .await
        .is_error(413, "payload_too_large");
    assert_eq!(error["details"]["limit_bytes"], 4);
    assert_eq!(upload(&server, &PHOTO, Some("byte")).await.status, 201);
    // By its announced length, before a byte of it is read.
    let huge = "x".repeat(1 << 20);
    upload(&server, &PHOTO, Some(&huge))
        .await
        .is_error(413, "payload_too_large");
}

#[tokio::test]
async fn an_empty_file_is_a_file() {
    let server = server();
    let asset = server.upload("x.png", "").await;
    assert_eq!(asset["size_bytes"], 0);
    let path = format!(
        "/api/v2/assets/{}/content",
        asset["id"].as_str().expect("an id")
    );
    for range in ["", "bytes=-1"] {
        let answer = server
            .send(Method::GET, &path, &[("range", range)], "")
            .await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0));
        assert_eq!(answer.header("content-length"), Some("0"));
    }
    let beyond = server.send(Method::GET, &path, &[("range", "bytes=0-")], "");
    beyond.await.is_error(416, "invalid_request");
}

#[tokio::test]
async fn an_upload_under_one_key_is_made_once() {
    let server = server();
    let send = |file: &'static str| {
        let (kind, body) = form(&PHOTO, Some(file));
        let server = &server;
        async move {
            let headers = [("content-type", kind.as_str()), ("idempotency-key", "k")];
            server
                .send(Method::POST, "/api/v2/assets", &headers, body)
                .await
        }
    };
    let first = send("bytes").await;
    assert_eq!(
        (first.status.as_u16(), first.header("idempotent-replayed")),
        (201, None)
    );
    let again = send("bytes").await;
    assert_eq!(
        (again.status.as_u16(), again.header("idempotent-replayed")),
        (200, Some("true"))
    );
    assert_eq!(again.json()["id"], first.json()["id"]);
    let error = send("other").await.is_error(422, "idempotency_key_reuse");
    assert_eq!(error["details"]["asset_id"], first.json()["id"]);
}

#[tokio::test]
async fn content_is_served_whole_in_part_or_not_at_all() {
    let server = server();
    let asset = server.upload("x.png", "0123456789").await;
    let path = format!(
        "/api/v2/assets/{}/content",
        asset["id"].as_str().expect("an id")
    );
    let whole = server.get(&path).await;
    assert_eq!(
        (whole.status.as_u16(), &whole.body[..]),
        (200, &b"0123456789"[..])
    );
    assert_eq!(whole.header("content-type"), Some("image/png"));
    assert_eq!(whole.header("content-length"), Some("10"));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    assert_eq!(whole.header("cache-control"), Some("private"));
    assert_eq!(whole.header("content-security-policy"), Some("sandbox"));
    assert_eq!(whole.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(
        whole.header("content-disposition"),
        Some("inline; filename=\"x.png\"")
    );
    let tag = whole.header("etag").expect("a tag").to_owned();

    let head = server.send(Method::HEAD, &path, &[], "").await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some("10"));

    for (range, status, body, content_range) in [
        ("bytes=2-4", 206, "234", Some("bytes 2-4/10")),
        ("bytes=7-", 206, "789", Some("bytes 7-9/10")),
        ("bytes=-3", 206, "789", Some("bytes 7-9/10")),
        ("bytes=0-99", 206, "0123456789", Some("bytes 0-9/10")),
        ("bytes=1-2,4-5", 200, "0123456789", None),
        ("bytes=x", 200, "0123456789", None),
    ] {
        let answer = server
            .send(Method::GET, &path, &[("range", range)], "")
            .await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body[..]),
            (status, body.as_bytes()),
            "{range}"
        );
        assert_eq!(answer.header("content-range"), content_range, "{range}");
        assert_eq!(
            answer.header("content-length"),
            Some(&*body.len().to_string()),
            "{range}"
        );
    }
    let beyond = server
        .send(Method::GET, &path, &[("range", "bytes=10-")], "")
        .await;
    beyond.is_error(416, "invalid_request");
    assert_eq!(beyond.header("content-range"), Some("bytes */10"));

    let unchanged = server
        .send(Method::GET, &path, &[("if-none-match", &tag)], "")
        .await;
    assert_eq!((unchanged.status.as_u16(), unchanged.body.len()), (304, 0));
    assert_eq!(unchanged.header("etag"), Some(&*tag));
    assert!(unchanged.header("x-service-request-id").is_some());
    for (condition, status) in [(tag.as_str(), 206), ("\"other\"", 200)] {
        let headers = [("range", "bytes=0-1"), ("if-range", condition)];
        let answer = server.send(Method::GET, &path, &headers, "").await;
        assert_eq!(answer.status, status, "{condition}");
    }
}

#[tokio::test]
async fn a_signed_link_needs_no_credential_and_ends() {
    let server = server();
    let asset = server.upload("a/x y.png", "0123456789").await;
    let path = path_of(&asset["url"]);
    assert!(path.ends_with("/x%20y.png"), "{path}");
    let answer = server
        .send(Method::GET, path, &[("range", "bytes=0-1")], "")
        .await;
    assert_eq!(
        (answer.status.as_u16(), &answer.body[..]),
        (206, &b"01"[..])
    );
    assert_eq!(answer.header("cache-control"), Some("private"));
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));

    for forged in [
        path.replace("x%20y.png", "z.png"),
        path.replacen("/signed/", "/signed/A", 1),
        "/signed/x/x".to_owned(),
        "/signed/%00/x".to_owned(),
    ] {
        server.get(&forged).await.is_error(403, "forbidden");
    }
    server.rig.clock.advance(SignedDuration::from_mins(15));
    server.get(path).await.is_error(403, "forbidden");
    let fresh = server
        .get(&format!(
            "/api/v2/assets/{}",
            asset["id"].as_str().expect("an id")
        ))
        .await;
    assert_eq!(server.get(path_of(&fresh.json()["url"])).await.status, 200);
}

#[tokio::test]
async fn a_deleted_asset_is_as_if_it_had_never_been() {
    let server = server();
    let asset = server.upload("x.png", "bytes").await;
    let path = format!("/api/v2/assets/{}", asset["id"].as_str().expect("an id"));
    let deleted = server.send(Method::DELETE, &path, &[], "").await;
    assert_eq!((deleted.status.as_u16(), deleted.body.len()), (204, 0));
    let again = server.send(Method::DELETE, &path, &[], "").await;
    again.is_error(404, "not_found");
    let unknown = server
        .send(
            Method::DELETE,
            "/api/v2/assets/00000000-0000-7000-8000-000000000000",
            &[],
            "",
        )
        .await;
    assert_eq!(again.body, unknown.body);
    server.get(&path).await.is_error(404, "not_found");
}

#[tokio::test]
async fn what_a_job_reads_is_held_and_the_hold_never_named() {
    let server = server();
    let asset = server.upload("x.png", "bytes").await;
    let mut graph = graph();
    graph["1"] = json!({"class_type": "LoadImage", "inputs": {"image": "x.png"}});
    let answer = server
        .post_json("/api/v2/jobs", &json!({ "workflow": graph }))
        .await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let path = format!("/api/v2/assets/{}", asset["id"].as_str().expect("an id"));
    let held = server.send(Method::DELETE, &path, &[], "").await;
    let error = held.is_error(409, "asset_in_use");
    assert_eq!(error["details"], Value::Null);
    assert!(!error["message"].to_string().contains("job"));
}

#[tokio::test]
async fn what_the_operator_holds_is_not_deleted_until_it_is_let_go() {
    let server = server();
    let asset = server.upload("x.png", "bytes").await;
    let id = asset["id"].as_str().expect("an id");
    let assets = &server.service.assets;
    let parsed: asset_store::AssetId = id.parse().expect("a UUID");
    assets.hold(parsed, true).await.expect("it is there");
    let path = format!("/api/v2/assets/{id}");
    let held = server.send(Method::DELETE, &path, &[], "").await;
    let error = held.is_error(409, "asset_in_use");
    assert_eq!(error["details"], Value::Null);
    assets.hold(parsed, false).await.expect("it is there");
    let deleted = server.send(Method::DELETE, &path, &[], "").await;
    assert_eq!(deleted.status, 204);
    let gone = assets.hold(parsed, true).await;
    assert!(matches!(gone, Err(asset_store::AssetsError::NotFound)));
}

#[tokio::test]
async fn an_expired_asset_is_absent() {
    let server = server();
    let parts = [PHOTO[0], PHOTO[1], ("expires_in", "60")];
    let asset = upload(&server, &parts, Some("bytes")).await.json();
    let path = format!("/api/v2/assets/{}", asset["id"].as_str().expect("an id"));
    assert_eq!(server.get(&path).await.status, 200);
    server.rig.clock.advance(SignedDuration::from_secs(60));
    server.get(&path).await.is_error(404, "not_found");
}
