//! The `Idempotency-Key` of a request.

use accounts::IdempotencyKey;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::errors::ApiError;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Says that the answer is that of an earlier request.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What [`REPLAYED`] says.
pub(crate) const YES: HeaderValue = HeaderValue::from_static("true");

/// The digest of the key that a request carries for an operation, if it carries one.
///
/// # Errors
/// If it carries an empty one, an over-long one, one that is not printable ASCII, or several.
pub(crate) fn read(headers: &HeaderMap, operation: &str) -> Result<Option<[u8; 32]>, ApiError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let text = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(only), None) => only.to_str().ok(),
        (Some(_), Some(_)) => None,
    };
    let key = text.and_then(|text| text.parse::<IdempotencyKey>().ok());
    let key = key.ok_or_else(|| ApiError::Field {
        name: "Idempotency-Key",
        must: "sent once, with 1 to 255 printable ASCII characters".to_owned(),
    })?;
    Ok(Some(key.digest(operation)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(values: &[&'static str]) -> Result<Option<[u8; 32]>, ApiError> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static(value));
        }
        read(&headers, "jobs")
    }

    #[test]
    fn a_key_is_read_once_and_only_whole() {
        assert!(matches!(read_all(&[]), Ok(None)));
        assert!(matches!(read_all(&["k"]), Ok(Some(_))));
        let long = Box::leak("x".repeat(256).into_boxed_str());
        for bad in [&[""][..], &["k", "k"], &[long]] {
            assert!(
                matches!(read_all(bad), Err(ApiError::Field { .. })),
                "{bad:?}"
            );
        }
    }
}
