//! The document says what the API does: its routes, its buckets, and the headers of every answer.

use std::collections::BTreeSet;

use http::{Request, Response};
use hyper_kit::{Body, ConnectionInfo};
use router_core::Bucket;
use serde_json::Value;

use crate::RouterApi;
use crate::routes::{ALIASES, ROUTES};

fn document() -> Value {
    serde_json::from_str(crate::OPENAPI).expect("the document is JSON")
}

fn routes() -> impl Iterator<Item = String> {
    let own = ROUTES.iter().filter(|(_, path, _)| !path.contains("{*"));
    own.map(|(method, path, _)| format!("{method} {path}"))
}

#[test]
fn every_route_is_documented_and_nothing_else() {
    let document = document();
    let paths = document["paths"].as_object().expect("paths");
    let documented: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, item)| {
            let methods = item.as_object().expect("operations").keys();
            methods.map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    assert_eq!(documented, routes().collect());
}

#[test]
fn every_route_of_a_model_has_an_alias() {
    let of_models = ROUTES
        .iter()
        .filter(|(_, path, _)| path.contains("/models"))
        .map(|(method, path, operation)| (method, path.replacen("/v1/", "/v2/", 1), operation));
    let aliases = ALIASES
        .iter()
        .map(|(method, path, operation)| (method, (*path).to_owned(), operation));
    assert!(of_models.eq(aliases));
}

#[test]
fn every_answer_is_documented_with_the_headers_that_it_has() {
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
                let mut headers = vec!["X-Service-Request-Id", "X-Comfy-Request-Id"];
                // A cancellation that comes too late names no bucket.
                let is_late = status == "409" && path.ends_with("/cancel");
                if !["200", "201", "202", "206", "304"].contains(&status.as_str()) && !is_late {
                    headers.extend(["X-Service-Error-Type", "X-Comfy-Error-Type"]);
                }
                for header in headers {
                    let told = answer["headers"][header].is_object();
                    assert!(told, "{method} {path} {status} {header}");
                }
            }
        }
    }
}

#[test]
fn references_lead_somewhere_and_every_component_is_used() {
    let document = document();
    let text = document.to_string();
    let mut used = BTreeSet::new();
    for piece in text.split("\"$ref\":\"#").skip(1) {
        let pointer = piece.split('"').next().expect("a reference ends");
        assert!(document.pointer(pointer).is_some(), "{pointer}");
        used.insert(pointer.to_owned());
    }
    for kind in ["parameters", "headers", "responses", "schemas"] {
        for name in document["components"][kind].as_object().expect(kind).keys() {
            let pointer = format!("/components/{kind}/{name}");
            assert!(used.contains(&pointer), "{pointer} is not used");
        }
    }
}

#[test]
fn the_buckets_stand_in_the_specifications_order() {
    let document = document();
    let schema = &document["components"]["schemas"]["RouterErrorType"];
    let names: Vec<&str> = Bucket::ALL.iter().map(|bucket| bucket.name()).collect();
    assert_eq!(schema["enum"], serde_json::json!(names));
    let told = schema["x-service-error-types"].as_array().expect("a list");
    let values: Vec<&Value> = told.iter().map(|entry| &entry["value"]).collect();
    assert!(names.iter().eq(values));
}

#[test]
fn path_parameters_and_catalog_fields_share_their_definitions() {
    let document = document();
    let components = &document["components"];
    for (parameter, field) in [("Provider", "provider"), ("Model", "model")] {
        assert_eq!(
            components["parameters"][parameter]["schema"],
            components["schemas"]["RouterModelListEntry"]["properties"][field],
        );
    }
}

/// A call has this room for as long as it waits for its partner.
#[test]
fn a_request_takes_little_room() {
    fn bytes_of<F: Future<Output = Response<Body>>>(
        _: impl Fn(&'static RouterApi, Request<Body>, ConnectionInfo) -> F,
    ) -> usize {
        size_of::<F>()
    }
    let bytes = bytes_of(|api, request, connection| api.handle(request, connection));
    assert!(bytes <= 768, "it has {bytes} bytes");
}
