//! Requests that are refused whatever they are for.

use super::*;

#[tokio::test]
async fn unknown_routes_methods_and_ids_answer_in_the_envelope() {
    let data = tempfile::tempdir().unwrap();
    let process = Server::start(data.path()).await.unwrap();
    let server = process.address;
    let id = "7f3d2c1b-9a8e-4d6f-b012-3c4d5e6f7a8b";
    let unknown = [
        "/api/v2/nothing".to_owned(),
        "/api/v2".to_owned(),
        format!("/api/v2/jobs/{id}"),
        "/api/v2/jobs/no-uuid".to_owned(),
        "/api/v2/jobs/%2e%2e".to_owned(),
        "/api/v2/jobs/a%2Fb".to_owned(),
        format!("/api/v2/jobs/{id}/events"),
        format!("/api/v2/jobs/{id}/workflow"),
        format!("/api/v2/jobs/{id}/logs"),
        format!("/api/v2/assets/{id}"),
        format!("/api/v2/assets/{id}/content"),
        format!("/api/v2/jobs/{id}/nothing"),
    ];
    for target in unknown {
        check(server, &target, Request::get(&target), 404, "not_found").await;
    }
    check(
        server,
        "cancel unknown",
        Request::new("POST", &format!("/api/v2/jobs/{id}/cancel")),
        404,
        "not_found",
    )
    .await;
    check(
        server,
        "delete unknown",
        Request::new("DELETE", &format!("/api/v2/assets/{id}")),
        404,
        "not_found",
    )
    .await;
    for (method, target) in [
        ("PUT", "/api/v2/jobs"),
        ("DELETE", "/api/v2/jobs"),
        ("PATCH", "/api/v2/assets"),
        ("GET", "/api/v2/assets/from-hash"),
    ] {
        let answer = Request::new(method, target).send(server).await.unwrap();
        check_envelope(target, &answer);
        // A path that is also an id of another route is simply not found.
        assert!(
            answer.status == 405 && answer.header("allow").is_some() || answer.status == 404,
            "{method} {target}: {}",
            answer.text()
        );
    }
    check(
        server,
        "forged link",
        Request::get("/signed/AAAA/a.png"),
        403,
        "forbidden",
    )
    .await;
    for query in ["limit=x", "limit=", "limit=1.5"] {
        let answer = Request::get(&format!("/api/v2/jobs?{query}"))
            .send(server)
            .await
            .unwrap();
        check_envelope(query, &answer);
        assert!(
            matches!(answer.status, 400 | 422),
            "{query}: {}",
            answer.text()
        );
    }
    for query in [
        "cursor=x",
        "cursor=",
        "cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ] {
        check(
            server,
            query,
            Request::get(&format!("/api/v2/jobs?{query}")),
            400,
            "invalid_cursor",
        )
        .await;
    }
    for query in [
        "metadata[a]=1&metadata[b]=1&metadata[c]=1&metadata[d]=1",
        "metadata[=1",
        "metadata[]=1",
        "metadata[a%20b]=1",
    ] {
        check(
            server,
            query,
            Request::get(&format!("/api/v2/jobs?{query}")),
            400,
            "invalid_metadata_filter",
        )
        .await;
    }
    for (limit, used) in [("0", 1), ("-5", 1), ("1000000000000000000000", 100)] {
        let answer = Request::get(&format!("/api/v2/jobs?limit={limit}"))
            .send(server)
            .await
            .unwrap();
        assert_eq!(
            answer.status,
            200,
            "limit {limit} is clamped to {used}: {}",
            answer.text()
        );
    }
    assert!(process.terminate().await.unwrap().success());
}

#[tokio::test]
async fn requests_that_two_servers_could_read_differently_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let process = Server::start(data.path()).await.unwrap();
    let server = process.address;
    let heads = [
        ("no host", "GET /api/v2/jobs HTTP/1.1\r\n\r\n", 400),
        (
            "two hosts",
            "GET /api/v2/jobs HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            400,
        ),
        (
            "both lengths",
            "POST /api/v2/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (
            "two lengths",
            "POST /api/v2/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
            400,
        ),
        (
            "other encoding",
            "POST /api/v2/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            501,
        ),
    ];
    for (name, head, status) in heads {
        let mut connection = Connection::open(server).await.unwrap();
        connection.write(head.as_bytes()).await.unwrap();
        let answer = connection
            .answer(false)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        check_envelope(name, &answer);
        assert_eq!(answer.status, status, "{name}: {}", answer.text());
        assert_eq!(
            connection.until_closed().await.unwrap(),
            b"",
            "{name}: the connection goes on"
        );
    }
    let hostile = Request::get("/api/v2/jobs").header("Host", "evil.example\"><script>");
    let answer = hostile.send(server).await.unwrap();
    check_envelope("hostile host", &answer);
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(process.terminate().await.unwrap().success());
}
