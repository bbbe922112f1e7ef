//! What the server says of itself, and routes whose answer is always the same.

use http::{HeaderValue, Response, StatusCode};
use hyper_kit::Body;
use serde_json::{Value, json};

use super::{OPENAPI, Operation, V1Service, reply, session, upload};
use crate::WorkflowService;

/// The version of the older server whose clients are served.
const SPOKEN_VERSION: &str = "0.3.64";

/// What clients may count on. Only what is offered is advertised. `upload_bytes` is the largest upload.
pub(super) fn flags(upload_bytes: u64) -> Value {
    json!({
        "supports_preview_metadata": true,
        "max_upload_size": upload::UPLOAD_BYTES.min(upload_bytes),
        // Partner nodes are paid by the account that runs them, so the page asks for no account elsewhere.
        "partner_run_gate_enabled": false,
    })
}

/// Answers an operation that needs no credential and changes nothing.
pub(super) fn public(
    operation: Operation,
    service: &WorkflowService,
    v1: &V1Service,
) -> Response<Body> {
    let is = |other| operation == other;
    if is(Operation::GetFeatures) {
        features(service)
    } else if is(Operation::GetSystemStats) {
        system_stats(v1)
    } else if is(Operation::GetDocument) {
        document()
    } else if is(Operation::GetSignInPage) {
        session::page()
    } else {
        empty_object()
    }
}

fn features(service: &WorkflowService) -> Response<Body> {
    reply::ok(&flags(service.config.upload_bytes))
}

/// Of the machine only its memory is told, which is all that the page shows: it may serve strangers.
fn system_stats(v1: &V1Service) -> Response<Body> {
    let (total, free) = (v1.memory)();
    reply::ok(&json!({
        "system": {
            "os": "posix",
            "ram_total": total,
            "ram_free": free,
            "comfyui_version": SPOKEN_VERSION,
            "easel_version": v1.version,
            "required_frontend_version": "",
            "installed_templates_version": "",
            "required_templates_version": "",
            "python_version": "",
            "pytorch_version": "",
            "embedded_python": false,
            "argv": [],
        },
        "devices": [],
    }))
}

/// One user, whose account the credential names; the page then shows no choice of users.
pub(super) fn users() -> Response<Body> {
    reply::ok(&json!({"storage": "server", "migrated": true}))
}

pub(super) fn empty_list() -> Response<Body> {
    reply::ok(&json!([]))
}

pub(super) fn empty_object() -> Response<Body> {
    reply::ok(&json!({}))
}

pub(super) fn style() -> Response<Body> {
    let css = HeaderValue::from_static("text/css; charset=utf-8");
    reply::bytes(StatusCode::OK, css, "")
}

fn document() -> Response<Body> {
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    reply::bytes(StatusCode::OK, json, OPENAPI)
}
