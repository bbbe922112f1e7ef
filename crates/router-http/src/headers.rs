//! The headers of Family A, under both of their names.
//!
//! Today's public clients read `X-Comfy-*`; the mirror repeats a value under that name and never adds one.

use http::{HeaderMap, HeaderName, HeaderValue};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-service-request-id");
const ERROR_TYPE: HeaderName = HeaderName::from_static("x-service-error-type");

/// US cents that the caller's calls in flight may commit.
pub(crate) const SPEND_LIMIT: HeaderName = HeaderName::from_static("x-committed-spend-limit");

/// US cents that they have committed, without the rejected call.
pub(crate) const SPEND_CURRENT: HeaderName = HeaderName::from_static("x-committed-spend-current");

/// US cents left under the cap.
pub(crate) const SPEND_REMAINING: HeaderName =
    HeaderName::from_static("x-committed-spend-remaining");

/// US cents that the call was billed, where that is settled before the answer; below `/v2` alone.
pub(crate) const CREDITS_USED: HeaderName = HeaderName::from_static("x-service-credits-used");

/// Says that the answer is a stored one.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What [`REPLAYED`] says; otherwise it is absent.
pub(crate) const YES: HeaderValue = HeaderValue::from_static("true");

/// The key under which a call runs once.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Headers of ours and their mirrors.
const MIRRORS: [(HeaderName, HeaderName); 3] = [
    (REQUEST_ID, HeaderName::from_static("x-comfy-request-id")),
    (ERROR_TYPE, HeaderName::from_static("x-comfy-error-type")),
    (
        CREDITS_USED,
        HeaderName::from_static("x-comfy-credits-used"),
    ),
];

/// Tells an answer how much of a cap is committed.
pub(crate) fn commit(headers: &mut HeaderMap, limit_cents: u64, current_cents: u64) {
    let remaining = limit_cents.saturating_sub(current_cents);
    headers.insert(SPEND_LIMIT, HeaderValue::from(limit_cents));
    headers.insert(SPEND_CURRENT, HeaderValue::from(current_cents));
    headers.insert(SPEND_REMAINING, HeaderValue::from(remaining));
}

/// Names the bucket of an error, in the word of its dialect.
pub(crate) fn classify(headers: &mut HeaderMap, word: &'static str) {
    headers.insert(ERROR_TYPE, HeaderValue::from_static(word));
}

/// Names the request in its answer, and mirrors what is to be mirrored.
pub(crate) fn identify(headers: &mut HeaderMap, request_id: HeaderValue, mirror: bool) {
    headers.insert(REQUEST_ID, request_id);
    if !mirror {
        return;
    }
    for (ours, theirs) in MIRRORS {
        if let Some(value) = headers.get(&ours).cloned() {
            headers.insert(theirs, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use router_core::Bucket;

    use super::*;

    fn names(mirror: bool, bucket: Option<Bucket>) -> Vec<String> {
        let mut headers = HeaderMap::new();
        if let Some(bucket) = bucket {
            classify(&mut headers, bucket.name());
        }
        identify(&mut headers, HeaderValue::from_static("an-id"), mirror);
        let mut names: Vec<String> = headers.keys().map(ToString::to_string).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn the_mirror_repeats_and_never_adds() {
        assert_eq!(names(false, None), ["x-service-request-id"]);
        assert_eq!(
            names(true, None),
            ["x-comfy-request-id", "x-service-request-id"]
        );
        assert_eq!(
            names(true, Some(Bucket::RateLimited)),
            [
                "x-comfy-error-type",
                "x-comfy-request-id",
                "x-service-error-type",
                "x-service-request-id",
            ]
        );
    }
}
