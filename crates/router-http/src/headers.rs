//! The headers of Family A, under both of their names.
//!
//! Today's public clients read `X-Comfy-*`; the mirror repeats a value under that name and never adds one.

use http::{HeaderMap, HeaderName, HeaderValue};
use router_core::Serving;

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

/// The provider that served the call after others had failed.
const FALLBACK_PROVIDER: HeaderName = HeaderName::from_static("x-service-router-fallback-provider");

/// A JSON array of texts: what of the body is not said at the provider that served the call.
const DROPPED_PARAMS: HeaderName = HeaderName::from_static("x-service-router-dropped-params");

/// The partner's own status, of a failure that it told.
pub(crate) const UPSTREAM_STATUS: HeaderName = HeaderName::from_static("x-service-upstream-status");

/// Says that the answer is a stored one.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What [`REPLAYED`] says; otherwise it is absent.
pub(crate) const YES: HeaderValue = HeaderValue::from_static("true");

/// The key under which a call runs once.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A label of the call, `KEY=VALUE`; repeatable. It is on record and is not forwarded.
pub(crate) const LABEL: HeaderName = HeaderName::from_static("x-service-label");

/// The mirror of [`REQUEST_ID`].
const MIRRORED_REQUEST_ID: HeaderName = HeaderName::from_static("x-comfy-request-id");

/// Other headers of ours and their mirrors.
static MIRRORS: [(HeaderName, HeaderName); 5] = [
    (ERROR_TYPE, HeaderName::from_static("x-comfy-error-type")),
    (
        CREDITS_USED,
        HeaderName::from_static("x-comfy-credits-used"),
    ),
    (
        FALLBACK_PROVIDER,
        HeaderName::from_static("x-comfy-router-fallback-provider"),
    ),
    (
        DROPPED_PARAMS,
        HeaderName::from_static("x-comfy-router-dropped-params"),
    ),
    (
        UPSTREAM_STATUS,
        HeaderName::from_static("x-comfy-upstream-status"),
    ),
];

/// Every header of ours that an answer may have.
#[cfg(test)]
pub(crate) fn all() -> impl Iterator<Item = HeaderName> {
    let spend = [SPEND_LIMIT, SPEND_CURRENT, SPEND_REMAINING];
    let mirrored = MIRRORS
        .iter()
        .flat_map(|(ours, theirs)| [ours.clone(), theirs.clone()]);
    let ids = [REQUEST_ID, MIRRORED_REQUEST_ID, REPLAYED];
    spend.into_iter().chain(ids).chain(mirrored)
}

/// Tells an answer how much of a cap is committed.
pub(crate) fn commit(headers: &mut HeaderMap, limit_cents: u64, current_cents: u64) {
    let remaining = limit_cents.saturating_sub(current_cents);
    headers.insert(SPEND_LIMIT, HeaderValue::from(limit_cents));
    headers.insert(SPEND_CURRENT, HeaderValue::from(current_cents));
    headers.insert(SPEND_REMAINING, HeaderValue::from(remaining));
}

/// Tells of a result who served it in the first one's place, and what it was served without.
pub(crate) fn served_by(headers: &mut HeaderMap, serving: Option<&Serving>) {
    let Some(serving) = serving else {
        return;
    };
    if let Some(Ok(provider)) = serving.fallback().map(HeaderValue::from_str) {
        headers.insert(FALLBACK_PROVIDER, provider);
    }
    if !serving.dropped.is_empty()
        && let Ok(dropped) = HeaderValue::from_str(&ascii(&serving.dropped))
    {
        headers.insert(DROPPED_PARAMS, dropped);
    }
}

/// JSON in ASCII alone, which every client reads in a header.
fn ascii(texts: &[String]) -> String {
    let written = serde_json::to_string(texts).expect("texts are JSON");
    let mut ascii = String::with_capacity(written.len());
    for character in written.chars() {
        if matches!(character, ' '..='~') {
            ascii.push(character);
            continue;
        }
        let mut units = [0; 2];
        for unit in character.encode_utf16(&mut units) {
            ascii.push_str(&format!("\\u{unit:04x}"));
        }
    }
    ascii
}

/// Names the bucket of an error, in the word of its dialect.
pub(crate) fn classify(headers: &mut HeaderMap, word: &'static str) {
    headers.insert(ERROR_TYPE, HeaderValue::from_static(word));
}

/// Names the request in its answer, and mirrors what is to be mirrored.
pub(crate) fn identify(headers: &mut HeaderMap, request_id: HeaderValue, mirror: bool) {
    if mirror {
        // The few headers of an answer are looked through sooner than each of ours is looked up.
        let mirrored = headers.iter().filter_map(|(name, value)| {
            let (_, theirs) = MIRRORS.iter().find(|(ours, _)| ours == name)?;
            Some((theirs.clone(), value.clone()))
        });
        let mirrored: Vec<_> = mirrored.collect();
        headers.extend(mirrored);
        headers.insert(MIRRORED_REQUEST_ID, request_id.clone());
    }
    headers.insert(REQUEST_ID, request_id);
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
    fn what_is_dropped_is_json_in_ascii() {
        let mut headers = HeaderMap::new();
        let serving = Serving {
            model: "fal/flux-2".parse().expect("an id"),
            began_at: jiff::Timestamp::UNIX_EPOCH,
            hold_cents: 1,
            dropped: vec![
                "größe (fal, it \"has\" none)".to_owned(),
                "😀\u{7f}".to_owned(),
            ],
            failed: Vec::new(),
        };
        served_by(&mut headers, Some(&serving));
        let told = headers.get(DROPPED_PARAMS).expect("it is told");
        let told = told.to_str().expect("it is ASCII");
        let read: Vec<String> = serde_json::from_str(told).expect("it is JSON");
        assert_eq!(read, serving.dropped);
        assert_eq!(headers.get(FALLBACK_PROVIDER), None);
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
