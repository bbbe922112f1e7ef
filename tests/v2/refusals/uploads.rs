//! Uploads that are refused.

use super::*;

#[tokio::test]
async fn malformed_uploads_are_refused_and_nothing_is_kept() {
    let data = tempfile::tempdir().unwrap();
    let process = Server::start_with(data.path(), ["--upload-limit", "100KB"])
        .await
        .unwrap();
    let server = process.address;

    let missing = [
        ("file", good_form()),
        (
            "content_type",
            Form::new().field("file_path", "a").file("file", "a", b"x"),
        ),
        (
            "file_path",
            Form::new()
                .field("content_type", "text/plain")
                .file("file", "a", b"x"),
        ),
    ];
    for (part, form) in missing {
        let answer = check(
            server,
            &format!("no {part}"),
            upload(form),
            422,
            "invalid_request",
        )
        .await;
        assert!(
            answer.text().contains(part),
            "the message names {part}: {}",
            answer.text()
        );
    }
    for path in [
        "",
        "/etc/passwd",
        "../a",
        "a/../../b",
        "a\\..\\..\\b",
        "C:\\a",
        "a\u{0}b",
        &"x".repeat(5000),
    ] {
        let form = Form::new()
            .field("content_type", "text/plain")
            .field("file_path", path)
            .file("file", "a", b"x");
        check(
            server,
            &format!("path {path:.20}"),
            upload(form),
            422,
            "invalid_request",
        )
        .await;
    }
    for expires_in in ["59", "604801", "x", "-1", ""] {
        let form = good_form()
            .field("expires_in", expires_in)
            .file("file", "a", b"x");
        check(
            server,
            &format!("expires_in {expires_in}"),
            upload(form),
            422,
            "invalid_request",
        )
        .await;
    }
    let form = good_form()
        .field("expected_hash", "sha256:00")
        .file("file", "a", b"x");
    check(server, "bad hash", upload(form), 422, "invalid_request").await;
    let wrong = format!("blake3:{}", "0".repeat(64));
    let form = good_form()
        .file("file", "a", b"x")
        .field("expected_hash", &wrong);
    check(
        server,
        "other hash, sent last",
        upload(form),
        409,
        "hash_mismatch",
    )
    .await;
    let large = good_form().file("file", "a", &vec![7; 200_000]);
    check(server, "too large", upload(large), 413, "payload_too_large").await;

    let no_form = Request::new("POST", "/api/v2/assets")
        .header("Content-Type", "application/json")
        .body("{}");
    check(server, "no form", no_form, 415, "invalid_request").await;
    let no_boundary = Request::new("POST", "/api/v2/assets")
        .header("Content-Type", "multipart/form-data")
        .body("x");
    let answer = no_boundary.send(server).await.unwrap();
    check_envelope("no boundary", &answer);
    assert!(matches!(answer.status, 415 | 422), "{}", answer.text());
    let torn = Request::new("POST", "/api/v2/assets").header("Content-Type", &Form::content_type());
    let torn = torn.body(
        b"------form-of-a-test\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nabc"
            .to_vec(),
    );
    check(server, "torn form", torn, 422, "invalid_request").await;

    let unknown = json!({"hash": wrong});
    check(
        server,
        "from unknown hash",
        Request::post_json("/api/v2/assets/from-hash", &unknown),
        404,
        "blob_not_found",
    )
    .await;
    for body in [
        json!({}),
        json!({"hash": "x"}),
        json!({"hash": 1}),
        json!({"hash": wrong, "file_path": "../x"}),
        json!([]),
    ] {
        check(
            server,
            &format!("from-hash {body}"),
            Request::post_json("/api/v2/assets/from-hash", &body),
            422,
            "invalid_request",
        )
        .await;
    }
    for name in ["a.txt", "a"] {
        let probe = json!({"workflow": {"1": {"class_type": "LoadImage", "inputs": {"image": name}}, "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}}}});
        check(
            server,
            "nothing was kept",
            Request::post_json("/api/v2/jobs", &probe),
            422,
            "invalid_workflow",
        )
        .await;
    }
    assert!(process.terminate().await.unwrap().success());
    assert_eq!(
        files_below(&data.path().join("blobs")),
        0,
        "a refused upload left bytes behind"
    );
}

fn files_below(folder: &std::path::Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path| if path.is_dir() { files_below(&path) } else { 1 })
        .sum()
}
