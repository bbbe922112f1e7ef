//! Routes, methods, media types, sizes and depths, and the headers that every answer has.

use it::Request;
use it::partners::Partner;

use super::*;

#[tokio::test]
async fn unknown_routes_methods_and_types_are_invalid_input() {
    let rig = Rig::start().await;
    let answer = rig.get("/v1/nothing").await;
    let detail = "no such route; GET /v1/openapi.json lists them";
    assert_error(&answer, 404, "invalid_input", detail, &[]);

    let answer = rig
        .send(of("acme", Request::new("DELETE", "/v1/models")))
        .await;
    let detail = "the method is not allowed here; use one of GET, HEAD";
    assert_error(&answer, 405, "invalid_input", detail, &["allow: GET, HEAD"]);

    let text = Request::new("POST", &path_of(AT_ONCE))
        .header("Content-Type", "text/plain")
        .body("{}");
    let answer = rig.send(of("acme", text)).await;
    let detail = "send the body as application/json";
    assert_error(&answer, 415, "invalid_input", detail, &[]);
}

#[tokio::test]
async fn a_body_is_bounded_while_it_is_read() {
    let rig = Rig::with(&["--body-limit", "1KiB"], &[]).await;
    let large = rig.call(AT_ONCE, &prompt(&"x".repeat(1_024))).await;
    let detail = "the body is larger than 1024 bytes";
    assert_error(&large, 413, "invalid_input", detail, &[]);
    let fits = rig.call(AT_ONCE, &prompt(&"x".repeat(1_000))).await;
    assert_eq!(fits.status, 200);
    assert_eq!(rig.submits(Partner::FalSync), 1);

    // Before its key is looked up: neither a used nor a fresh one has heard of it.
    assert_eq!(rig.keyed("used", AT_ONCE, &prompt("a")).await.status, 200);
    for key in ["used", "fresh"] {
        let large = rig.keyed(key, AT_ONCE, &prompt(&"x".repeat(1_024))).await;
        assert_error(&large, 413, "invalid_input", detail, &[]);
    }
    let fresh = rig.keyed("fresh", AT_ONCE, &prompt("a")).await;
    let replayed = fresh.header("idempotent-replayed");
    assert_eq!((fresh.status, replayed), (200, None));
}

#[tokio::test]
async fn a_depth_of_128_passes_and_129_does_not() {
    let rig = Rig::start().await;
    for (depth, status) in [(128, 200), (129, 400)] {
        let deep = format!("{}{}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        let body = format!(r#"{{"prompt":"a","deep":{deep}}}"#);
        let request = Request::new("POST", &path_of(AT_ONCE))
            .header("Content-Type", "application/json")
            .body(body);
        assert_eq!(
            rig.send(of("acme", request)).await.status,
            status,
            "{depth}"
        );
    }
}

#[tokio::test]
async fn json_that_is_no_object_is_422_and_malformed_json_400() {
    let rig = Rig::start().await;
    for body in ["[]", "null", "7", "\"x\""] {
        let request = Request::new("POST", &path_of(AT_ONCE))
            .header("Content-Type", "application/json")
            .body(body);
        let answer = rig.send(of("acme", request)).await;
        assert_eq!(answer.status, 422, "{body}");
        let entry = &answer.json()["detail"][0];
        assert_eq!(entry["type"], "dict_type");
        assert_eq!(entry["loc"], json!(["body"]));
    }
}

#[tokio::test]
async fn the_order_of_checks_is_the_contracts() {
    let windows = accounts::RateWindow::read_list("1/366d").unwrap();
    let changes = vec![
        accounts::AccountChange::RateWindows(Some(windows)),
        accounts::AccountChange::Router(false),
    ];
    let off = ("off", vec![accounts::AccountChange::Router(false)]);
    let lapsed = ("lapsed", vec![accounts::AccountChange::Subscribed(false)]);
    let rig = Rig::with(&[], &[("slow", changes), off, lapsed]).await;
    // Everything is wrong with this request; what is told is the first of it.
    let wrong = |account: &str, model: &str, content_type: &str, key: &str| {
        let request = Request::new("POST", &path_of(model))
            .header("Content-Type", content_type)
            .header("Idempotency-Key", key)
            .body("{");
        of(account, request)
    };
    let text = "text/plain";
    let steps = [
        (wrong("nobody", "no/such", text, ""), 401),
        (wrong("slow", "no/such", text, ""), 403),
        (wrong("slow", "no/such", text, ""), 429),
        (wrong("off", "no/such", text, ""), 403),
        (wrong("lapsed", "no/such", text, ""), 403),
        (wrong("acme", "no/such", text, ""), 404),
        (wrong("acme", AT_ONCE, text, ""), 415),
        (wrong("acme", AT_ONCE, "application/json", ""), 400),
        (wrong("acme", AT_ONCE, "application/json", "k"), 400),
    ];
    for (n, (request, status)) in steps.into_iter().enumerate() {
        assert_eq!(rig.send(request).await.status, status, "step {n}");
    }
}

#[tokio::test]
async fn an_id_that_the_caller_sends_is_ignored_and_head_has_no_body() {
    let rig = Rig::start().await;
    let request = of("acme", Request::get("/v1/models")).header("X-Service-Request-Id", "mine");
    let answer = rig.send(request).await;
    assert_ne!(answer.header("x-service-request-id"), Some("mine"));
    let head = rig
        .send(of("acme", Request::new("HEAD", "/v1/models")))
        .await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(
        head.header("content-length"),
        answer.header("content-length")
    );
    whole(&head);
}

#[tokio::test]
async fn every_alias_has_its_switch() {
    let flags = [
        "--model-aliases=false",
        "--comfy-headers=false",
        "--api-key-header=false",
    ];
    let rig = Rig::with(&flags, &[]).await;
    let answer = rig.get("/v1/models").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-comfy-request-id"), None);
    assert_eq!(rig.get("/v2/models").await.status, 404);
    let key = key_named("acme");
    let only = Request::get("/v1/models").header("X-API-Key", key.text.expose_secret());
    assert_eq!(rig.send(only).await.status, 401);
    let rig = Rig::start().await;
    assert_eq!(rig.get("/v2/models").await.status, 200);
}

#[tokio::test]
async fn a_binary_result_passes_as_it_is() {
    let rig = Rig::start().await;
    let sound: Vec<u8> = (0..=255).collect();
    rig.partners
        .answer_with(Partner::Elevenlabs, "audio/mpeg", sound.clone());
    let body = json!({"text": "rain"});
    let answer = rig.call("elevenlabs/sound-generation", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("audio/mpeg"));
    assert_eq!(answer.body, sound);
}

#[tokio::test]
async fn what_is_refused_before_the_api_has_an_id_and_a_bucket_too() {
    let rig = Rig::start().await;
    let address = rig.server().address;
    let twice = "Content-Length: 2\r\n".repeat(2);
    for (head, detail) in [
        (
            String::new(),
            "the request has no Host header; send exactly one",
        ),
        (
            "Host: a\r\nHost: b\r\n".to_owned(),
            "the request has several Host headers; send exactly one",
        ),
        (
            format!("Host: {address}\r\n{twice}"),
            "the request has several Content-Length headers; send one",
        ),
    ] {
        let mut connection = it::Connection::open(address).await.unwrap();
        let request = format!("POST {} HTTP/1.1\r\n{head}\r\n{{}}", path_of(AT_ONCE));
        connection.write(request.as_bytes()).await.unwrap();
        let answer = connection.answer(false).await.unwrap();
        assert_error(&answer, 400, "invalid_input", detail, &[]);
        assert_eq!(answer.header("connection"), Some("close"));
    }
    assert_eq!(rig.submits(Partner::FalSync), 0);
}

#[tokio::test]
async fn a_body_that_no_value_can_hold_is_json_all_the_same() {
    let rig = Rig::start().await;
    rig.partners.echo(Partner::FalSync);
    let send = async |body: &str| {
        let request = Request::new("POST", &path_of(AT_ONCE))
            .header("Content-Type", "application/json")
            .body(body.to_owned());
        rig.send(of("acme", request)).await
    };
    let commas = ",".repeat(1_000_001);
    for body in [
        r#"{"prompt":"a","other":1e400}"#,
        r#"{"prompt":"\ud83d"}"#,
        &format!(r#"{{"prompt":"{commas}"}}"#),
    ] {
        let answer = send(body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.text(), body, "byte for byte");
    }
    let huge = send(r#"{"prompt":"a","num_inference_steps":1e400}"#).await;
    assert_eq!(huge.status, 422, "{}", huge.text());
    assert_eq!(huge.json()["detail"][0]["type"], "less_than_equal");
    let many = send(&format!(
        r#"{{"prompt":"a","other":[0{}]}}"#,
        ",0".repeat(1_000_000)
    ))
    .await;
    assert_eq!(many.status, 400, "{}", many.text());
}

#[tokio::test]
async fn a_finished_task_is_seen_behind_what_no_value_can_hold() {
    let rig = Rig::start().await;
    for odd in [r#""\ud83d""#, "1e400"] {
        let body = format!(r#"{{"status":"Ready","prompt":{odd}}}"#);
        let json = "application/json";
        rig.partners.answer_with(Partner::Bfl, json, body.clone());
        let answer = rig.call(POLLED, &prompt("a")).await;
        assert_eq!((answer.status, answer.text()), (200, body));
    }
}
