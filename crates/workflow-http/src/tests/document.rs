//! The documents say what the API does: its routes, and every error that it answers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::harness::server;
use crate::v2::ROUTES;

fn document() -> Value {
    serde_json::from_str(crate::OPENAPI).expect("the document is JSON")
}

/// Method and path of every operation, as text.
fn documented() -> BTreeSet<String> {
    let document = document();
    let paths = document["paths"].as_object().expect("paths");
    let operations = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().expect("operations").keys();
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    operations.collect()
}

#[test]
fn the_addresses_of_the_document_begin_where_it_was_fetched() {
    // Relative to the document, as OpenAPI reads it: this many folders up is what the paths are appended to.
    let up = "/api/v2/openapi.json".matches('/').count() - 1;
    let servers = document()["servers"].clone();
    assert_eq!(servers.as_array().map(Vec::len), Some(1));
    assert_eq!(servers[0]["url"], vec![".."; up].join("/"));
}

#[test]
fn every_route_is_documented_and_nothing_else() {
    let mut routes: BTreeSet<String> = ROUTES
        .iter()
        .map(|(method, path, _)| format!("{method} {path}"))
        .collect();
    routes.insert(format!("GET {}", asset_http::PATTERN));
    let heads: Vec<String> = routes
        .iter()
        .filter_map(|route| route.strip_prefix("GET "))
        .map(|path| format!("HEAD {path}"))
        .collect();
    routes.extend(heads);
    assert_eq!(documented(), routes);
}

#[test]
fn every_answer_is_documented_with_the_request_id() {
    let document = document();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            for (status, answer) in operation["responses"].as_object().expect("answers") {
                let answer = match answer["$ref"].as_str() {
                    Some(name) => document
                        .pointer(&name[1..])
                        .expect("a reference leads somewhere"),
                    None => answer,
                };
                for header in ["X-Service-Request-Id", "X-Comfy-Request-Id"] {
                    assert!(
                        answer["headers"][header].is_object(),
                        "{method} {path} {status}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn the_document_is_served() {
    let answer = server().get("/api/v2/openapi.json").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json(), document());
}
