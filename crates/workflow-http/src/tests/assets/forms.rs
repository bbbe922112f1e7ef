//! Forms of uploads: their parts, their length, and what is wrong with one.

use super::*;

#[tokio::test]
async fn the_parts_may_come_in_any_order() {
    let server = server();
    let (_, file_last) = form(&PHOTO, Some("bytes"));
    let (kind, rest) = form(&PHOTO, None);
    let (_, file) = form(&[], Some("bytes"));
    let end = b"--b--\r\n".len();
    let file_first = [&file[..file.len() - end], &rest[..]].concat();
    assert_ne!(file_first, file_last);
    let headers = [("content-type", kind.as_str())];
    let answer = server
        .send(Method::POST, "/api/v2/assets", &headers, file_first)
        .await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[tokio::test]
async fn a_part_that_is_missing_or_wrong_is_named() {
    let server = server();
    let whole = [
        PHOTO[0],
        PHOTO[1],
        ("expected_hash", HASH_OF_OTHER),
        ("expires_in", "60"),
    ];
    let parts = whole.map(|(name, value)| match name {
        "file_path" => ("another", value),
        _ => (name, value),
    });
    let error = upload(&server, &parts, Some("x"))
        .await
        .is_error(422, "invalid_request");
    assert_eq!(error["details"]["field"], "file_path");
    let error = upload(&server, &PHOTO, None)
        .await
        .is_error(422, "invalid_request");
    assert_eq!(error["details"]["field"], "file");
    for (name, value) in [
        ("content_type", "nonsense"),
        ("file_path", "../x"),
        ("file_path", "/etc/passwd"),
        ("file_path", ""),
        ("file_path", "a\\..\\b"),
        ("expected_hash", "sha256:00"),
        ("expires_in", "59"),
        ("expires_in", "604801"),
        ("expires_in", "soon"),
        ("tags", ""),
    ] {
        let mut parts: Vec<_> = PHOTO
            .into_iter()
            .filter(|(known, _)| *known != name)
            .collect();
        parts.push((name, value));
        let error = upload(&server, &parts, Some("x"))
            .await
            .is_error(422, "invalid_request");
        assert_eq!(error["details"]["field"], name, "{value}");
    }
    let twice = [PHOTO[0], PHOTO[1], PHOTO[1]];
    upload(&server, &twice, Some("x"))
        .await
        .is_error(422, "invalid_request");
    assert!(
        !server.rig.has_blob("x").await,
        "nothing of a refused form is kept"
    );
}

#[tokio::test]
async fn the_file_s_own_type_counts_where_the_field_is_missing() {
    let server = server();
    let headers = [("content-type", "multipart/form-data; boundary=b")];
    let send = async |own: &str, field: &str| {
        let body = format!(
            "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n{own}\r\nbytes\r\n{field}\
             --b\r\nContent-Disposition: form-data; name=\"file_path\"\r\n\r\na\r\n--b--\r\n"
        );
        server
            .send(Method::POST, "/api/v2/assets", &headers, body)
            .await
    };
    let (png, unknown) = (
        "Content-Type: image/png\r\n",
        "Content-Type: Application/Octet-Stream\r\n",
    );
    let field =
        "--b\r\nContent-Disposition: form-data; name=\"content_type\"\r\n\r\nimage/webp\r\n";
    for (own, field, kept) in [
        (png, "", "image/png"),
        (png, field, "image/webp"),
        (unknown, field, "image/webp"),
    ] {
        let asset = send(own, field).await.json();
        assert_eq!(asset["content_type"], kept, "{own} {field} {asset}");
    }
    for own in [unknown, "", "Content-Type: nonsense\r\n"] {
        let error = send(own, "").await.is_error(422, "invalid_request");
        assert_eq!(error["details"]["field"], "content_type", "{own}");
    }
}

#[tokio::test]
async fn a_body_that_is_no_form_is_refused() {
    let server = server();
    for (kind, status) in [("application/json", 415), ("multipart/form-data", 422)] {
        let answer = server
            .send(
                Method::POST,
                "/api/v2/assets",
                &[("content-type", kind)],
                "{}",
            )
            .await;
        answer.is_error(status, "invalid_request");
    }
    server
        .send(Method::POST, "/api/v2/assets", &[], "")
        .await
        .is_error(415, "invalid_request");
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    for body in [
        "",
        "no boundary",
        "--b\r\n\r\n\r\nx",
        "--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n",
    ] {
        let answer = server
            .send(Method::POST, "/api/v2/assets", &kind, body)
            .await;
        answer.is_error(422, "invalid_request");
    }
}

#[tokio::test]
async fn a_form_of_unknown_length_is_taken_byte_by_byte() {
    let server = server();
    let (kind, body) = form(&PHOTO, Some("bytes"));
    let bytes = (0..body.len()).map(|at| body.slice(at..=at)).collect();
    let (answer, _) = server.send_chunked(&kind, bytes).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let hash = asset_store::BlobHash::of(b"bytes").to_string();
    assert_eq!(answer.json()["hash"], hash);
}

#[tokio::test]
async fn a_form_of_unknown_length_is_refused_at_the_bound_and_not_at_its_end() {
    let small = limited(|tier| tier.upload_bytes = 1 << 20);
    let server = Rig::new().server(small, |_| {});
    let (kind, form) = form(&PHOTO, Some(""));
    let head = form.slice(..form.len() - "\r\n--b--\r\n".len());
    let chunk = bytes::Bytes::from(vec![7; 1 << 16]);
    let chunks = std::iter::once(head).chain(std::iter::repeat_n(chunk, 1000));
    let (answer, taken) = server.send_chunked(&kind, chunks.collect()).await;
    let error = answer.is_error(413, "payload_too_large");
    assert_eq!(error["details"]["limit_bytes"], 1 << 20);
    assert!(taken <= 20, "{taken} chunks were taken");
}

#[tokio::test]
async fn a_field_that_is_too_long_is_named_and_no_upload_too_large() {
    let small = limited(|tier| tier.upload_bytes = 1000);
    let server = Rig::new().server(small, |_| {});
    let long = "x".repeat(9000);
    for name in [
        "file_path",
        "content_type",
        "expected_hash",
        "expires_in",
        "tags",
    ] {
        let (kind, body) = form(&[(name, &long)], Some("bytes"));
        let headers = [("content-type", kind.as_str())];
        let answer = server.send(Method::POST, "/api/v2/assets", &headers, body);
        let error = answer.await.is_error(422, "invalid_request");
        assert_eq!(error["details"]["field"], name);
        assert!(
            error["message"].to_string().contains("at most 8192 bytes"),
            "{error}"
        );
    }
}
