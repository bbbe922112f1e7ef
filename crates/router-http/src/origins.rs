//! Which web pages may call, and what they may read.

use http::HeaderValue;
use hyper_kit::{Origin, OriginPolicy};

/// Headers of a request that pages of allowed origins may set.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, if-none-match, x-api-key, x-service-label",
);

/// Headers of an answer that pages of allowed origins may read.
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "content-length, etag, idempotent-replayed, retry-after, x-comfy-error-type, x-comfy-request-id, \
     x-committed-spend-current, x-committed-spend-limit, x-committed-spend-remaining, x-comfy-credits-used, \
     x-service-credits-used, x-service-error-type, x-service-request-id",
);

/// What pages may do. Every request bears a credential of its own, so a page of another origin can do nothing in a user's
/// name; the policy says which pages may read the answers.
pub(crate) fn policy(allowed: &[Origin]) -> OriginPolicy {
    OriginPolicy {
        allowed: allowed.to_vec(),
        credentials: false,
        request_headers: REQUEST_HEADERS,
        response_headers: RESPONSE_HEADERS,
    }
}
