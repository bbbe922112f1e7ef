//! Records over bytes that the account has already.

use super::*;

#[tokio::test]
async fn the_body_of_from_hash_is_an_object() {
    let server = server();
    let asset = server.upload("x.png", "bytes").await;
    for body in [
        json!([asset["hash"], "y.png", null, null]),
        json!([]),
        json!(null),
        json!("x"),
    ] {
        let answer = server.post_json("/api/v2/assets/from-hash", &body).await;
        let error = answer.is_error(422, "invalid_request");
        assert_eq!(error["details"]["field"], "body", "{body}");
    }
}

#[tokio::test]
async fn a_key_of_from_hash_outlives_uploads_of_the_same_bytes() {
    let server = server();
    let asset = server.upload("x.png", "bytes").await;
    let body = json!({ "hash": asset["hash"], "file_path": "again.png" }).to_string();
    let send = async || {
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", "k"),
        ];
        let path = "/api/v2/assets/from-hash";
        server
            .send(Method::POST, path, &headers, body.clone())
            .await
    };
    let first = send().await;
    assert_eq!(first.status, 201);
    let other = [("content_type", "text/plain"), ("file_path", "x.txt")];
    let (kind, other) = form(&other, Some("bytes"));
    let headers = [("content-type", kind.as_str())];
    let upload = server.send(Method::POST, "/api/v2/assets", &headers, other);
    assert_eq!(upload.await.json()["content_type"], "text/plain");
    let again = send().await;
    assert_eq!(
        (again.status.as_u16(), again.header("idempotent-replayed")),
        (200, Some("true")),
        "{}",
        again.json()
    );
    assert_eq!(again.json()["id"], first.json()["id"]);
}

#[tokio::test]
async fn from_hash_gives_what_the_account_has() {
    let server = server();
    let asset = server.upload("x.png", "bytes").await;
    let hash = asset["hash"].as_str().expect("a hash");
    for spelled in [
        hash.to_owned(),
        hash.replace(':', "%3A"),
        hash.replace(":", "%3a")
            .to_uppercase()
            .replace("BLAKE3", "blake3"),
    ] {
        let head = server
            .send(
                Method::HEAD,
                &format!("/api/v2/assets/by-hash/{spelled}"),
                &[],
                "",
            )
            .await;
        assert_eq!(
            (head.status.as_u16(), head.body.len()),
            (200, 0),
            "{spelled}"
        );
    }
    let body = json!({ "hash": hash, "file_path": "x.png" });
    let known = server.post_json("/api/v2/assets/from-hash", &body).await;
    assert_eq!(
        (known.status.as_u16(), &known.json()["id"]),
        (200, &asset["id"])
    );
    let body = json!({ "hash": hash, "file_path": "y.png", "tags": ["t"], "expires_in": 60.0 });
    let minted = server.post_json("/api/v2/assets/from-hash", &body).await;
    assert_eq!(minted.status, 201);
    assert_eq!(minted.json()["content_type"], "image/png");
    assert_eq!(minted.json()["expires_at"], "2026-01-01T00:01:00.000Z");
}

#[tokio::test]
async fn from_hash_refuses_by_field() {
    let server = server();
    let hash = server.upload("x.png", "bytes").await["hash"].clone();
    for (body, field) in [
        (json!({}), "hash"),
        (json!({"hash": 7}), "hash"),
        (json!({"hash": "blake3:7"}), "hash"),
        (json!({"hash": hash, "file_path": 7}), "file_path"),
        (json!({"hash": hash, "file_path": "../x"}), "file_path"),
        (json!({"hash": hash, "tags": "x"}), "tags"),
        (json!({"hash": hash, "expires_in": "60"}), "expires_in"),
        (json!({"hash": hash, "expires_in": 59}), "expires_in"),
        (json!({"hash": hash, "expires_in": 60.5}), "expires_in"),
        (json!({"hash": hash, "expires_in": 1e300}), "expires_in"),
        (json!([]), "body"),
        (json!(null), "body"),
    ] {
        let answer = server.post_json("/api/v2/assets/from-hash", &body).await;
        let error = answer.is_error(422, "invalid_request");
        assert_eq!(error["details"]["field"], field, "{body}");
    }
    let json = [("content-type", "application/json")];
    let answer = server
        .send(Method::POST, "/api/v2/assets/from-hash", &json, "{")
        .await;
    answer.is_error(400, "invalid_request");
}
