//! What holds for every request, whatever it is for.

use accounts::{AccountId, MemoryAccounts, Principal, Scope};
use http::Method;
use hyper_kit::{Application as _, BaseUrl, Origin, Refusal};
use identity::Identity;
use std::sync::Arc;

use super::harness::{Rig, principal, server};

#[tokio::test]
async fn unknown_routes_and_methods_answer_the_envelope() {
    let server = server();
    for path in [
        "/",
        "/api/v2",
        "/api/v2/nothing",
        "/api/v2/jobs/",
        "//api/v2/jobs",
        "/signed",
    ] {
        server.get(path).await.is_error(404, "not_found");
    }
    let answer = server.send(Method::PUT, "/api/v2/jobs", &[], "").await;
    answer.is_error(405, "invalid_request");
    assert_eq!(answer.header("allow"), Some("GET, HEAD, POST"));
    let options = server.send(Method::OPTIONS, "/api/v2/jobs", &[], "").await;
    assert_eq!(
        (options.status.as_u16(), options.header("allow")),
        (204, Some("GET, HEAD, POST"))
    );
    server
        .send(Method::OPTIONS, "/nothing", &[], "")
        .await
        .is_error(404, "not_found");
}

#[tokio::test]
async fn ids_that_name_nothing_are_not_found() {
    let server = server();
    let nothing = uuid::Uuid::nil();
    for id in [
        "x",
        "%2e%2e",
        "a%2Fb",
        "%00",
        "%ff",
        &nothing.to_string(),
        &nothing.simple().to_string(),
        &nothing.urn().to_string(),
    ] {
        for below in ["", "/workflow", "/logs", "/events"] {
            let answer = server.get(&format!("/api/v2/jobs/{id}{below}")).await;
            answer.is_error(404, "not_found");
        }
        for below in ["", "/content"] {
            let answer = server.get(&format!("/api/v2/assets/{id}{below}")).await;
            answer.is_error(404, "not_found");
        }
    }
}

#[tokio::test]
async fn every_answer_has_an_id_of_its_own_that_no_caller_chooses() {
    let server = server();
    let mut ids = Vec::new();
    for (method, path) in [
        (Method::GET, "/api/v2/jobs"),
        (Method::GET, "/nothing"),
        (Method::PUT, "/api/v2/jobs"),
        (Method::OPTIONS, "/api/v2/jobs"),
        (Method::HEAD, "/api/v2/assets/by-hash/x"),
    ] {
        let mine = [
            ("x-service-request-id", "mine"),
            ("x-comfy-request-id", "mine"),
        ];
        let answer = server.send(method, path, &mine, "").await;
        let id = answer
            .header("x-service-request-id")
            .expect("an id")
            .to_owned();
        assert_eq!(answer.header("x-comfy-request-id"), Some(&*id));
        let uuid: uuid::Uuid = id.parse().expect("a UUID");
        assert_eq!(uuid.get_version_num(), 4);
        ids.push(id);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

#[tokio::test]
async fn what_the_server_refuses_itself_has_the_envelope_too() {
    let server = server();
    let path = "/api/v2/jobs";
    for (refusal, status) in [(Refusal::MissingHost, 400), (Refusal::Panicked, 500)] {
        let response = server.api.refuse(refusal, path);
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["content-type"], "application/json");
        assert!(response.headers().contains_key("x-comfy-request-id"));
    }
}

#[tokio::test]
async fn a_token_is_wanted_where_one_is_set() {
    let rig = Rig::new();
    let server = rig.server(principal("local"), |service| {
        let accounts = MemoryAccounts::new();
        accounts.put(principal("local"));
        service.identity = Identity::token(Arc::new(accounts), AccountId::local(), &"t0ken".into());
    });
    let answer = server.get("/api/v2/jobs").await;
    answer.is_error(401, "unauthorized");
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    let wrong = [("authorization", "Bearer wrong")];
    server
        .send(Method::GET, "/api/v2/jobs", &wrong, "")
        .await
        .is_error(401, "unauthorized");
    for right in [("authorization", "bearer t0ken"), ("x-api-key", "t0ken")] {
        let answer = server.send(Method::GET, "/api/v2/jobs", &[right], "").await;
        assert_eq!(answer.status, 200);
    }
    // The document is for everyone.
    assert_eq!(server.get("/api/v2/openapi.json").await.status, 200);
}

#[tokio::test]
async fn a_scope_that_is_missing_is_forbidden() {
    let paths = [
        (Method::GET, "/api/v2/jobs", Scope::JobsRead),
        (Method::POST, "/api/v2/jobs", Scope::JobsWrite),
        (Method::GET, "/api/v2/assets/x", Scope::AssetsRead),
        (Method::POST, "/api/v2/assets", Scope::AssetsWrite),
        (Method::DELETE, "/api/v2/assets/x", Scope::AssetsWrite),
    ];
    for (method, path, missing) in paths {
        let scopes = Scope::ALL.into_iter().filter(|scope| *scope != missing);
        let principal = Principal {
            scopes: scopes.collect(),
            ..principal("local")
        };
        let server = Rig::new().server(principal, |_| {});
        let answer = server.send(method, path, &[], "").await;
        let error = answer.is_error(403, "forbidden");
        assert!(error["message"].to_string().contains(missing.name()));
    }
}

#[tokio::test]
async fn running_needs_a_subscription() {
    let lapsed = Principal {
        subscribed: false,
        ..principal("local")
    };
    let server = Rig::new().server(lapsed, |_| {});
    let answer = server
        .post_json("/api/v2/jobs", &serde_json::json!({}))
        .await;
    let error = answer.is_error(403, "forbidden");
    let told = "the subscription of this account is not active; nothing new runs until it is";
    assert_eq!(error["message"], told);
    assert_eq!(server.get("/api/v2/jobs").await.status, 200);
    // A file runs nothing.
    server.upload("a.png", "bytes").await;
}

#[tokio::test]
async fn pages_of_other_origins_change_nothing() {
    let server = server();
    let foreign = [("origin", "http://evil.example")];
    let answer = server
        .send(Method::POST, "/api/v2/jobs", &foreign, "{}")
        .await;
    answer.is_error(403, "forbidden");
    let own = [("origin", "http://127.0.0.1:8189")];
    let answer = server.send(Method::POST, "/api/v2/jobs", &own, "{}").await;
    answer.is_error(415, "invalid_request");
}

#[tokio::test]
async fn allowed_origins_may_call_and_no_others_read() {
    let allowed = "https://app.example";
    let server = Rig::new().server(principal("local"), |service| {
        let origin = Origin::parse(allowed).expect("an origin");
        service.config.allowed_origins.push(origin);
    });
    let ask = [
        ("origin", allowed),
        ("access-control-request-method", "POST"),
    ];
    let answer = server.send(Method::OPTIONS, "/api/v2/jobs", &ask, "").await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some(allowed));
    assert_eq!(
        answer.header("access-control-allow-methods"),
        Some("GET, HEAD, POST")
    );
    let headers = answer
        .header("access-control-allow-headers")
        .unwrap_or_default();
    // The client for TypeScript names itself, in browsers too.
    for name in ["idempotency-key", "authorization", "user-agent"] {
        assert!(headers.contains(name), "{name}");
    }

    let answer = server
        .send(Method::GET, "/api/v2/jobs", &[("origin", allowed)], "")
        .await;
    assert_eq!(answer.header("access-control-allow-origin"), Some(allowed));
    let exposed = answer
        .header("access-control-expose-headers")
        .unwrap_or_default();
    assert!(exposed.contains("x-service-request-id"));
    let other = [("origin", "https://other.example")];
    let answer = server.send(Method::GET, "/api/v2/jobs", &other, "").await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn links_follow_the_host_the_public_address_and_the_mount() {
    let rig = Rig::new();
    let server = rig.server(principal("local"), |_| {});
    let id = server.submit().await;
    let own = |base: &str| format!("{base}/api/v2/jobs/{id}");
    let path = format!("/api/v2/jobs/{id}");
    let answer = server
        .send(Method::GET, &path, &[("host", "easel.lan:81")], "")
        .await;
    assert_eq!(answer.json()["urls"]["self"], own("http://easel.lan:81"));
    let forwarded = [
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil.example"),
    ];
    let answer = server.send(Method::GET, &path, &forwarded, "").await;
    assert_eq!(answer.json()["urls"]["self"], own("http://127.0.0.1:8189"));

    let mounted = rig.server(principal("local"), |service| {
        let address = &mut service.config.address;
        address.mount_prefix = "/deployment/x".to_owned();
        address.trusted_proxies = "127.0.0.1".parse().expect("an address");
    });
    mounted.get(&path).await.is_error(404, "not_found");
    let beside_v1 = rig.server(principal("local"), |service| {
        service.config.address.mount_prefix = "/deployment/x".to_owned();
        service.v1 = Some(rig.older());
    });
    for outside in [&*path, "/api/v2", "/signed/x/y"] {
        let error = beside_v1.get(outside).await.is_error(404, "not_found");
        assert!(
            error["message"].to_string().contains("below api/v2"),
            "{error}"
        );
    }
    for of_v1 in ["/api/queue", "/deployment/xy/api/v2/jobs"] {
        let body = beside_v1.get(of_v1).await.body;
        let body = String::from_utf8_lossy(&body);
        assert!(!body.contains("below api/v2"), "{of_v1}: {body}");
    }
    let path = format!("/deployment/x{path}");
    let forwarded = [
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "easel.example"),
    ];
    let answer = mounted.send(Method::GET, &path, &forwarded, "").await;
    let job = answer.json();
    assert_eq!(
        job["urls"]["events"],
        own("https://easel.example/deployment/x") + "/events"
    );

    let public = rig.server(principal("local"), |service| {
        let url = BaseUrl::parse("https://public.example/base").expect("a URL");
        service.config.address.configured = Some(url);
    });
    let answer = public.get(&format!("/api/v2/jobs/{id}")).await;
    assert_eq!(
        answer.json()["urls"]["cancel"],
        own("https://public.example/base") + "/cancel"
    );
}

#[tokio::test]
async fn the_observer_hears_the_pattern_and_never_the_path() {
    let server = server();
    server.get("/api/v2/jobs/secret").await;
    server.get("/signed/secret/a.png").await;
    server.get("/secret").await;
    let observed = server.observed.lock().expect("no test panics here");
    let routes: Vec<_> = observed
        .iter()
        .map(|seen| (seen.route, seen.status.as_u16()))
        .collect();
    let expected = [
        ("/api/v2/jobs/{id}", 404),
        ("/signed/{token}/{name}", 403),
        ("unknown", 404),
    ];
    assert_eq!(routes, expected);
}

#[tokio::test]
async fn a_compressed_body_is_415() {
    let server = server();
    let paths = ["/api/v2/jobs", "/api/v2/assets/from-hash", "/api/v2/assets"];
    for path in paths {
        let kind = match path {
            "/api/v2/assets" => "multipart/form-data; boundary=b",
            _ => "application/json",
        };
        let headers = [("content-type", kind), ("content-encoding", "gzip")];
        let answer = server.send(Method::POST, path, &headers, "\u{1f}").await;
        let error = answer.is_error(415, "invalid_request");
        let told = "a body with `Content-Encoding` is not read; send it without";
        assert_eq!(error["message"], told);
    }
    let plain = [
        ("content-type", "application/json"),
        ("content-encoding", "identity"),
    ];
    let answer = server
        .send(Method::POST, "/api/v2/jobs", &plain, "{}")
        .await;
    answer.is_error(422, "invalid_workflow");
}
