//! Lists, entries and schema documents.

use it::Request;

use super::*;

async fn page(rig: &Rig, query: &str) -> Value {
    let answer = rig.get(&format!("/v1/models{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn a_walk_lists_every_model_once_and_each_can_be_called() {
    let rig = Rig::start().await;
    let (mut query, mut seen) = ("?limit=2".to_owned(), Vec::new());
    loop {
        let page = page(&rig, &query).await;
        assert_eq!(page["limit"], 2);
        for entry in page["data"].as_array().unwrap() {
            let id = format!(
                "{}/{}",
                entry["provider"].as_str().unwrap(),
                entry["model"].as_str().unwrap()
            );
            assert_eq!(entry["id"], id);
            let charges = entry["billing"]["charges_on_policy_rejection"]
                .as_str()
                .unwrap();
            assert!(["yes", "no", "unknown"].contains(&charges));
            let detail = rig.get(&path_of(&id)).await;
            assert_eq!(detail.status, 200);
            // The address is not https, so no link is told.
            assert_eq!(detail.json(), *entry);
            let empty = Request::new("POST", &path_of(&id)).body("{");
            assert_eq!(rig.send(of("acme", empty)).await.status, 400, "{id}");
            seen.push(id);
        }
        if page["has_more"] == false {
            assert!(page.get("next_cursor").is_none());
            break;
        }
        query = format!("?limit=2&cursor={}", page["next_cursor"].as_str().unwrap());
    }
    let sorted: std::collections::BTreeSet<_> = seen.iter().cloned().collect();
    assert!(seen.iter().eq(&sorted), "{seen:?}");
    assert!(seen.contains(&POLLED.to_owned()) && seen.contains(&AT_ONCE.to_owned()));
    // A partner without its credentials is not listed, and cannot be called.
    assert!(!seen.iter().any(|id| id.starts_with("openai/")));
    let hidden = rig.call("openai/gpt-image-1", &prompt("a")).await;
    assert_eq!(hidden.status, 404);
}

#[tokio::test]
async fn limit_zero_selects_the_default_and_too_many_are_clamped() {
    let rig = Rig::start().await;
    for (query, limit) in [
        ("", 20),
        ("?limit=0", 20),
        ("?limit=-7", 20),
        ("?limit=1", 1),
        ("?limit=101", 100),
        ("?limit=99999999999999999999999999", 100),
    ] {
        assert_eq!(page(&rig, query).await["limit"], limit, "{query}");
    }
    for query in ["?limit=", "?limit=ten", "?limit=1.5", "?limit=1&limit=1"] {
        let answer = rig.get(&format!("/v1/models{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        assert_eq!(answer.header("x-service-error-type"), Some("invalid_input"));
    }
}

#[tokio::test]
async fn a_cursor_that_is_not_right_is_never_a_first_page() {
    let mut rig = Rig::with(&[], &[("other", Vec::new())]).await;
    let cursor = page(&rig, "?limit=1").await["next_cursor"]
        .as_str()
        .unwrap()
        .to_owned();
    // It outlives a restart, and is its account's alone.
    rig.end().await;
    rig.begin().await;
    let next = page(&rig, &format!("?limit=1&cursor={cursor}")).await;
    assert_ne!(next, page(&rig, "?limit=1").await);
    let foreign = Request::get(&format!("/v1/models?cursor={cursor}"));
    assert_eq!(rig.send(of("other", foreign)).await.status, 400);
    let half = &cursor[..cursor.len() / 2];
    let changed = format!("{}A", &cursor[1..]);
    let long = "A".repeat(513);
    for bad in ["", "x", half, &changed, &long, "%00"] {
        let answer = rig.get(&format!("/v1/models?cursor={bad}")).await;
        assert_error(
            &answer,
            400,
            "invalid_input",
            "the cursor is invalid or has expired; start again without it",
            &[],
        );
    }
}

#[tokio::test]
async fn a_schema_document_is_asked_after_by_its_tag() {
    let mut rig = Rig::start().await;
    let path = format!("{}/openapi.json", path_of(POLLED));
    let first = rig.get(&path).await;
    assert_eq!(first.status, 200);
    let etag = first.header("etag").unwrap().to_owned();
    assert!(etag.starts_with('"') && etag.ends_with('"'));
    let caching = "private, max-age=300, must-revalidate";
    assert_eq!(first.header("cache-control"), Some(caching));
    let document = first.json();
    assert_eq!(document["x-service-router-model-id"], POLLED);
    assert!(document["paths"].get(path_of(POLLED)).is_some());
    rig.end().await;
    rig.begin().await;
    let weak = format!("W/{etag}");
    let list = format!("\"x\", {etag}");
    for condition in [etag.as_str(), &weak, &list, "*"] {
        let request = of("acme", Request::get(&path)).header("If-None-Match", condition);
        let answer = rig.send(request).await;
        let headers = format!("cache-control: {caching}; etag: {etag}");
        assert_eq!(whole(&answer), format!("304 {headers}\n"), "{condition}");
    }
    let lines = of("acme", Request::get(&path))
        .header("If-None-Match", "\"x\"")
        .header("If-None-Match", &etag);
    assert_eq!(rig.send(lines).await.status, 304);
    let other = of("acme", Request::get(&path)).header("If-None-Match", "\"x\"");
    let answer = rig.send(other).await;
    assert_eq!((answer.status, &answer.body), (200, &first.body));
    let unknown = of("acme", Request::get("/v1/models/no/such/openapi.json"));
    let unknown = rig.send(unknown.header("If-None-Match", "*")).await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn a_path_that_is_no_id_is_model_not_found() {
    let rig = Rig::start().await;
    let (long_provider, long_model) = ("p".repeat(65), "m".repeat(129));
    for path in [
        "/v1/models/BFL/flux-2-pro",
        "/v1/models/bfl/flux%2F2",
        "/v1/models/bfl/..",
        "/v1/models/../x",
        "/v1/models/bfl/%ff",
        "/v1/models/bfl/flux-2-pro/variant",
        &format!("/v1/models/{long_provider}/x"),
        &format!("/v1/models/x/{long_model}"),
    ] {
        let answer = rig.get(path).await;
        let bucket = answer.header("x-service-error-type");
        assert_eq!(
            (answer.status, bucket),
            (404, Some("model_not_found")),
            "{path}"
        );
        let called = rig.send(of("acme", Request::post_json(path, &prompt("a"))));
        let called = called.await;
        let bucket = called.header("x-service-error-type");
        assert_eq!(
            (called.status, bucket),
            (404, Some("model_not_found")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn over_https_a_model_with_an_authored_schema_links_to_it() {
    let rig = Rig::with(&["--trusted-proxies", "127.0.0.1"], &[]).await;
    let shipped = root().join("crates/providers/catalog/bfl/flux-2-pro.toml");
    let model = std::fs::read_to_string(shipped).unwrap();
    // A node needs the schema, so that goes with it.
    let (model, _node) = model.split_once("\n[node]\n").unwrap();
    let open = model.replace("schema = \"flux-2-pro.schema.json\"\n", "");
    let mut log = it::Log::of(&rig.folder.path().join("log"));
    let file = rig.folder.path().join("catalog/bfl/open.toml");
    std::fs::write(file, open).unwrap();
    log.next("the catalog changed and was read again").await;

    let over_https = async |path: &str| {
        let request = of("acme", Request::get(path))
            .header("X-Forwarded-Proto", "https")
            .header("X-Forwarded-Host", "models.example.com");
        rig.send(request).await
    };
    let authored = over_https(&path_of(POLLED)).await.json();
    let document = format!("{}/openapi.json", path_of(POLLED));
    let expected = format!("https://models.example.com{document}");
    assert_eq!(authored["input_schema_url"], expected);
    assert_eq!(rig.get(&document).await.status, 200);
    let open = over_https(&path_of("bfl/open")).await;
    assert_eq!(open.status, 200, "{}", open.text());
    assert!(open.json().get("input_schema_url").is_none());
}
