//! Uploads, records over shared bytes, ranged reads, links, deletion.

use asset_store::BlobHash;
use it::{Answer, Form, Request, Server};
use serde_json::{Value, json};

struct Fixture {
    _data: tempfile::TempDir,
    server: Server,
}

impl Fixture {
    async fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = Server::start(data.path()).await.unwrap();
        Self {
            _data: data,
            server,
        }
    }

    async fn send(&self, request: Request) -> Answer {
        self.server.send(&request).await.unwrap()
    }

    async fn upload(&self, name: &str, content: &[u8]) -> Answer {
        let form = Form::new()
            .field("content_type", "text/plain")
            .field("file_path", name)
            .file("file", name, content);
        self.send(upload(form)).await
    }

    async fn content(&self, id: &Value, range: &str) -> Answer {
        let request = Request::get(&format!("/api/v2/assets/{}/content", id.as_str().unwrap()));
        self.send(if range.is_empty() {
            request
        } else {
            request.header("Range", range)
        })
        .await
    }
}

fn upload(form: Form) -> Request {
    Request::new("POST", "/api/v2/assets")
        .header("Content-Type", &Form::content_type())
        .body(form.body())
}

#[tokio::test]
async fn an_upload_is_a_record_over_bytes_that_are_kept_once() {
    let it = Fixture::new().await;
    let first = it.upload("a.txt", b"hello").await;
    assert_eq!(first.status, 201, "{}", first.text());
    let asset = first.json();
    assert_eq!(asset["hash"], BlobHash::of(b"hello").to_string());
    assert_eq!(
        (&asset["size_bytes"], &asset["content_type"]),
        (&json!(5), &json!("text/plain"))
    );
    assert_eq!(
        (&asset["file_path"], &asset["created_new"], &asset["job_id"]),
        (&json!("a.txt"), &json!(true), &Value::Null)
    );

    let second = it.upload("b.txt", b"hello").await;
    assert_eq!(
        (second.status, &second.json()["created_new"]),
        (200, &json!(false))
    );
    assert_ne!(second.json()["id"], asset["id"]);
    let same = json!({"hash": asset["hash"], "file_path": "a.txt"});
    let minted = it
        .send(Request::post_json("/api/v2/assets/from-hash", &same))
        .await;
    assert_eq!((minted.status, &minted.json()["id"]), (200, &asset["id"]));
    let other = json!({"hash": asset["hash"], "file_path": "c.txt"});
    assert_eq!(
        it.send(Request::post_json("/api/v2/assets/from-hash", &other))
            .await
            .status,
        201
    );

    let hash = asset["hash"].as_str().unwrap().to_owned();
    for spelled in [
        hash.clone(),
        hash.replace(':', "%3A"),
        format!("blake3:{}", hash[7..].to_uppercase()),
    ] {
        let probe = it
            .send(Request::new(
                "HEAD",
                &format!("/api/v2/assets/by-hash/{spelled}"),
            ))
            .await;
        assert_eq!(probe.status, 200, "{spelled}");
    }
    let unknown = BlobHash::of(b"never uploaded").to_string();
    assert_eq!(
        it.send(Request::new(
            "HEAD",
            &format!("/api/v2/assets/by-hash/{unknown}")
        ))
        .await
        .status,
        404
    );
}

#[tokio::test]
async fn parts_come_in_any_order_and_names_as_they_are() {
    let it = Fixture::new().await;
    let form = Form::new()
        .file("file", "写真 ä \".png", b"x")
        .field("tags", "one")
        .field("file_path", "写真/ä.png")
        .field("tags", "two")
        .field("expires_in", "60")
        .field("content_type", "image/png");
    let answer = it.send(upload(form)).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(
        (&answer.json()["file_path"], &answer.json()["tags"]),
        (&json!("写真/ä.png"), &json!(["one", "two"]))
    );
}

#[tokio::test]
async fn a_repeated_upload_with_a_key_is_the_same_asset() {
    let it = Fixture::new().await;
    let send = async |name: &str, content: &[u8]| {
        let form = Form::new()
            .field("content_type", "text/plain")
            .field("file_path", name)
            .file("file", name, content);
        it.send(upload(form).header("Idempotency-Key", "k-1")).await
    };
    let first = send("a.txt", b"hello").await;
    let again = send("a.txt", b"hello").await;
    assert_eq!(
        (
            again.json()["id"].clone(),
            again.header("idempotent-replayed")
        ),
        (first.json()["id"].clone(), Some("true"))
    );
    let other = send("a.txt", b"other").await;
    assert_eq!(
        (other.status, other.error_code().as_str()),
        (422, "idempotency_key_reuse")
    );
}

#[tokio::test]
async fn content_is_read_whole_in_part_or_not_at_all() {
    let it = Fixture::new().await;
    let id = it.upload("a.txt", b"0123456789").await.json()["id"].clone();
    let whole = it.content(&id, "").await;
    assert_eq!(
        (
            whole.status,
            whole.text().as_str(),
            whole.header("accept-ranges")
        ),
        (200, "0123456789", Some("bytes"))
    );
    let etag = whole.header("etag").unwrap().to_owned();
    for (range, part, content_range) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-3", "789", "bytes 7-9/10"),
        ("bytes=0-99", "0123456789", "bytes 0-9/10"),
    ] {
        let answer = it.content(&id, range).await;
        assert_eq!(
            (
                answer.status,
                answer.text().as_str(),
                answer.header("content-range")
            ),
            (206, part, Some(content_range)),
            "{range}"
        );
    }
    for range in ["bytes=1-2,4-5", "bytes=x", "lines=1-2", "bytes=5-2"] {
        assert_eq!(it.content(&id, range).await.status, 200, "{range}");
    }
    let past = it.content(&id, "bytes=10-").await;
    assert_eq!(
        (past.status, past.header("content-range")),
        (416, Some("bytes */10"))
    );

    let target = format!("/api/v2/assets/{}/content", id.as_str().unwrap());
    let stale = Request::get(&target)
        .header("Range", "bytes=2-4")
        .header("If-Range", "\"other\"");
    assert_eq!(it.send(stale).await.status, 200);
    let fresh = Request::get(&target)
        .header("Range", "bytes=2-4")
        .header("If-Range", &etag);
    assert_eq!(it.send(fresh).await.status, 206);
    let known = it
        .send(Request::get(&target).header("If-None-Match", &etag))
        .await;
    assert_eq!((known.status, known.body.len()), (304, 0));
    let head = it.send(Request::new("HEAD", &target)).await;
    assert_eq!(
        (head.status, head.header("content-length"), head.body.len()),
        (200, Some("10"), 0)
    );
}

#[tokio::test]
async fn a_signed_link_needs_no_credentials_and_cannot_be_forged() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), ["--token", "hush-hush-hush-token"])
        .await
        .unwrap();
    let form = Form::new()
        .field("content_type", "text/html")
        .field("file_path", "x/a.html")
        .file("file", "a", b"<b>hi</b>");
    let refused = server.send(&upload(form.clone())).await.unwrap();
    assert_eq!(
        (refused.status, refused.error_code().as_str()),
        (401, "unauthorized")
    );
    let asset = server
        .send(&upload(form).header("Authorization", "bearer hush-hush-hush-token"))
        .await
        .unwrap()
        .json();
    let url = asset["url"].as_str().unwrap();
    let path = url
        .strip_prefix(&format!("http://{}", server.address))
        .unwrap_or_else(|| panic!("{url} is not absolute"));
    let linked = server.send(&Request::get(path)).await.unwrap();
    assert_eq!((linked.status, linked.text().as_str()), (200, "<b>hi</b>"));
    assert!(
        linked
            .header("content-disposition")
            .unwrap()
            .starts_with("attachment"),
        "{:?}",
        linked.headers
    );
    assert_eq!(linked.header("x-content-type-options"), Some("nosniff"));
    assert!(
        linked
            .header("content-security-policy")
            .unwrap()
            .contains("sandbox")
    );

    let (token, name) = path
        .strip_prefix("/signed/")
        .unwrap()
        .split_once('/')
        .unwrap();
    let mut forged: Vec<String> = (0..token.len())
        .map(|n| {
            let other = if token.as_bytes()[n] == b'A' {
                "B"
            } else {
                "A"
            };
            format!("/signed/{}{other}{}/{name}", &token[..n], &token[n + 1..])
        })
        .collect();
    forged.push(format!("/signed/{token}/other.html"));
    for forged in forged {
        let answer = server.send(&Request::get(&forged)).await.unwrap();
        assert_eq!(
            (answer.status, answer.error_code().as_str()),
            (403, "forbidden"),
            "{forged}"
        );
    }
    assert!(server.terminate().await.unwrap().success());
}

#[tokio::test]
async fn deleting_twice_or_by_another_name_is_not_found() {
    let it = Fixture::new().await;
    let asset = it.upload("a.txt", b"hello").await.json();
    let twin = it.upload("b.txt", b"hello").await.json();
    let target = format!("/api/v2/assets/{}", asset["id"].as_str().unwrap());
    let deleted = it.send(Request::new("DELETE", &target)).await;
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    let again = it.send(Request::new("DELETE", &target)).await;
    let unknown = it
        .send(Request::new(
            "DELETE",
            "/api/v2/assets/7f3d2c1b-9a8e-4d6f-b012-3c4d5e6f7a8b",
        ))
        .await;
    assert_eq!((again.status, &again.body), (404, &unknown.body));
    assert_eq!(it.send(Request::get(&target)).await.status, 404);
    assert_eq!(
        it.content(&twin["id"], "").await.text(),
        "hello",
        "the other record keeps the bytes"
    );
}
