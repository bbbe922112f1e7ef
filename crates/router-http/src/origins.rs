//! Which web pages may call, and what they may read.

use http::HeaderValue;
use hyper_kit::{Origin, OriginPolicy};

/// Headers of a request that pages of allowed origins may set.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, if-none-match, user-agent, x-api-key, x-service-label",
);

/// Headers of an answer that pages of allowed origins may read.
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept-ranges, content-disposition, content-length, content-range, etag, idempotent-replayed, retry-after, \
     x-comfy-credits-used, x-comfy-error-type, x-comfy-request-id, x-comfy-router-dropped-params, \
     x-comfy-router-fallback-provider, x-comfy-upstream-status, x-committed-spend-current, x-committed-spend-limit, \
     x-committed-spend-remaining, x-service-credits-used, x-service-error-type, x-service-request-id, \
     x-service-router-dropped-params, x-service-router-fallback-provider, x-service-upstream-status",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers;

    #[test]
    fn a_page_may_read_every_header_of_ours() {
        let told = RESPONSE_HEADERS;
        let told = told.to_str().expect("text");
        let told: Vec<&str> = told.split(", ").collect();
        for name in headers::all() {
            assert!(told.contains(&name.as_str()), "{name}");
        }
        assert!(told.is_sorted(), "{told:?}");
    }
}
