//! The document of the API is what the API answers.

use std::collections::BTreeSet;

use it::partners::{Outcome, Partner, Plan};

use super::*;

fn resolve<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    match value["$ref"].as_str() {
        Some(pointer) => document.pointer(&pointer[1..]).unwrap(),
        None => value,
    }
}

/// Asserts that an answer is one that the document tells of: its status, its headers, and the members of its body.
#[track_caller]
fn assert_documented(document: &Value, method: &str, path: &str, answer: &Answer) {
    let operation = &document["paths"][path][method];
    let told = resolve(document, &operation["responses"][answer.status.to_string()]);
    assert!(told.is_object(), "{method} {path} {}", answer.status);
    let headers: BTreeSet<String> = told["headers"]
        .as_object()
        .unwrap()
        .keys()
        .map(|name| name.to_ascii_lowercase())
        .collect();
    let usual = [
        "content-type",
        "content-length",
        "date",
        "connection",
        "x-content-type-options",
        "allow",
    ];
    for (name, _) in answer.headers.iter() {
        let known = headers.contains(name) || usual.contains(&name);
        assert!(known, "{method} {path} {} {name}", answer.status);
    }
    for (name, header) in told["headers"].as_object().unwrap() {
        let required = resolve(document, header)["required"] == true;
        assert!(
            !required || answer.header(name).is_some(),
            "{method} {path} {} {name}",
            answer.status
        );
    }
    let Some(content) = told.get("content") else {
        assert!(answer.body.is_empty());
        return;
    };
    let schema = resolve(document, &content["application/json"]["schema"]);
    let body = answer.json();
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(body.get(name.as_str().unwrap()).is_some(), "{name}");
    }
    if let Some(properties) = schema["properties"].as_object() {
        for name in body.as_object().unwrap().keys() {
            assert!(properties.contains_key(name), "{name} is not told of");
        }
    }
}

#[tokio::test]
async fn live_answers_are_those_of_the_document() {
    let rig = Rig::start().await;
    let served = rig.send(Request::get("/v1/openapi.json")).await;
    assert_eq!(served.status, 200);
    let file = std::fs::read(root().join("docs/openapi/router.json")).unwrap();
    assert_eq!(served.body, file);
    let document = served.json();
    assert_documented(&document, "get", "/v1/openapi.json", &served);

    let list = "/v1/models";
    let one = "/v1/models/{provider}/{model}";
    let schema = "/v1/models/{provider}/{model}/openapi.json";
    for query in ["", "?limit=1", "?limit=x"] {
        let answer = rig.get(&format!("{list}{query}")).await;
        assert_documented(&document, "get", list, &answer);
    }
    let nobody = rig.send(Request::get(list)).await;
    assert_documented(&document, "get", list, &nobody);
    for model in [POLLED, "no/such"] {
        let answer = rig.get(&path_of(model)).await;
        assert_documented(&document, "get", one, &answer);
        let path = format!("{}/openapi.json", path_of(model));
        let answer = rig.get(&path).await;
        assert_documented(&document, "get", schema, &answer);
        let any = of("acme", Request::get(&path)).header("If-None-Match", "*");
        assert_documented(&document, "get", schema, &rig.send(any).await);
        for body in [prompt("a"), json!({}), json!([])] {
            let answer = rig.call(model, &body).await;
            assert_documented(&document, "post", one, &answer);
        }
    }
    let forbidden = rig.send(call_of("reader", POLLED, &prompt("a"))).await;
    assert_documented(&document, "post", one, &forbidden);
    for _ in 0..2 {
        let answer = rig.keyed("k", AT_ONCE, &prompt("a")).await;
        assert_documented(&document, "post", one, &answer);
    }
    // Below /v2 answers have headers of their own.
    for body in [prompt("a"), json!({})] {
        let path = path_of(POLLED).replacen("/v1/", "/v2/", 1);
        let answer = of("acme", Request::post_json(&path, &body));
        assert_documented(&document, "post", one, &rig.send(answer).await);
    }
    rig.partners.plan(Partner::Bfl, Plan::of(Outcome::Fail));
    let path = path_of(POLLED).replacen("/v1/", "/v2/", 1);
    let failed = of("acme", Request::post_json(&path, &prompt("a")));
    let failed = rig.send(failed).await;
    assert_eq!(failed.status, 502, "{}", failed.text());
    assert_documented(&document, "post", one, &failed);
    let calls = "/v1/calls";
    for query in ["", "?limit=-1", "?limit=x"] {
        let answer = rig.get(&format!("{calls}{query}")).await;
        assert_documented(&document, "get", calls, &answer);
    }
    let conflict = rig.keyed("k", AT_ONCE, &prompt("b")).await;
    assert_eq!(conflict.status, 409);
    assert_documented(&document, "post", one, &conflict);
}
