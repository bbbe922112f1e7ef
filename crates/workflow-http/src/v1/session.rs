//! Signing in on the web page: a key is shown once, and a cookie stands for it from then on.

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, SET_COOKIE};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use hyper_kit::{Body, ConnectionInfo};
use identity::{CookieScope, Credential, IdentityError};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use uuid::Uuid;

use super::errors::{ApiError, field};
use super::request::object;
use super::{V1Service, reply};
use crate::WorkflowService;
use crate::memory::Memory;

/// The page that asks for a key.
const PAGE: &str = include_str!("signin.html");

/// GET /signin.
pub(super) fn page() -> Response<Body> {
    let mut response = Response::new(Body::full(PAGE));
    let headers = response.headers_mut();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(CONTENT_TYPE, html);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                  frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

/// POST /session: 204 with a cookie for a key that counts.
pub(super) async fn sign_in(
    service: &WorkflowService,
    v1: &V1Service,
    memory: &Memory,
    head: &Parts,
    body: Body,
    connection: &ConnectionInfo,
    now: Timestamp,
) -> Result<Response<Body>, ApiError> {
    let address = &service.config.address;
    let client = address.client_of(&head.headers, connection);
    let key = {
        let bytes = memory
            .read_sign_in(client, body, service.config.read_pace)
            .await?;
        let body = json_text::read(&bytes).map_err(ApiError::Syntax)?;
        let key = object(body)?
            .get("key")
            .and_then(Value::as_str)
            .map(str::to_owned);
        SecretString::from(key.ok_or_else(|| field("key", "the text of an API key"))?)
    };
    let key = key.expose_secret();
    let credential = Credential::new(key.trim());
    let base = address.of_request(&head.uri, &head.headers, connection);
    let scope = CookieScope {
        path: &address.mount_prefix,
        secure: base.to_string().starts_with("https://"),
    };
    let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    let begun = match credential {
        Some(credential) => {
            let identity = &service.identity;
            let begun = v1.sessions.begin(identity, &token, credential, scope, now);
            begun.await
        }
        None => Err(IdentityError::Unauthorized),
    };
    if matches!(begun, Err(IdentityError::Unauthorized)) && !v1.sessions.failed(client, now) {
        return Err(ApiError::TooManyAttempts);
    }
    let mut response = reply::empty(StatusCode::NO_CONTENT);
    // An open installation takes strangers for anonymous, and needs no session.
    if let Some(cookie) = begun? {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}

/// DELETE /session.
pub(super) async fn sign_out(
    service: &WorkflowService,
    v1: &V1Service,
    head: &Parts,
) -> Result<Response<Body>, ApiError> {
    let path = &service.config.address.mount_prefix;
    let cookie = v1.sessions.end(&head.headers, path).await?;
    let mut response = reply::empty(StatusCode::NO_CONTENT);
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}
