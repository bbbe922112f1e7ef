//! The table of routes against the document, and every error against the two shapes.

use std::collections::BTreeSet;

use http_body_util::BodyExt;
use serde_json::Value;
use uuid::Uuid;
use workflow_core::{GraphError, JobsError};

use super::errors::ApiError;
use super::{OPENAPI, TABLE};

#[test]
fn the_document_has_every_route_and_no_other() {
    let document: Value = serde_json::from_str(OPENAPI).expect("the document is JSON");
    let described = document["paths"].as_object().expect("it has paths");
    let described = described.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods");
        methods.keys().map(move |method| format!("{method} {path}"))
    });
    let described: BTreeSet<String> = described.collect();
    let served = TABLE.iter().map(|(method, path, _, _)| {
        let method = method.as_str().to_ascii_lowercase();
        format!("{method} /api{path}")
    });
    assert_eq!(served.collect::<BTreeSet<String>>(), described);
}

async fn body(error: ApiError, submits: bool) -> (u16, Value) {
    let response = error.into_response(submits, Uuid::nil());
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body");
    (
        status,
        serde_json::from_slice(&bytes.to_bytes()).expect("JSON"),
    )
}

#[tokio::test]
async fn a_submission_is_refused_in_one_shape_and_everything_else_in_another() {
    let (status, refused) = body(ApiError::SubscriptionInactive, true).await;
    assert_eq!(status, 429);
    assert_eq!(refused["error"]["type"], "SUBSCRIPTION_INACTIVE");
    assert!(refused["node_errors"].is_object());
    let (status, refused) = body(ApiError::SubscriptionInactive, false).await;
    assert_eq!(
        (status, &refused["code"]),
        (429, &"SUBSCRIPTION_INACTIVE".into())
    );
    let outside = || ApiError::Identity(identity::IdentityError::Unauthorized);
    assert_eq!(body(outside(), true).await, body(outside(), false).await);
    let (status, full) = body(JobsError::QueueFull { retry_after_s: 3 }.into(), true).await;
    assert_eq!(
        (status, &full["error"]["type"]),
        (429, &"QUEUE_LIMIT".into())
    );
    let (status, large) = body(JobsError::Graph(GraphError::TooManyNodes).into(), true).await;
    assert_eq!(
        (status, &large["error"]["type"]),
        (413, &"WORKFLOW_TOO_LARGE".into())
    );
    let (status, gone) = body(JobsError::NotFound.into(), false).await;
    assert_eq!((status, &gone["code"]), (404, &"NOT_FOUND".into()));
}
