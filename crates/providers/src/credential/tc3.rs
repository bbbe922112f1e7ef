//! Tencent Cloud's signature of a request, version 3 (`TC3-HMAC-SHA256`): media type, host and body are covered.

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Uri};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};

use super::Signed;

/// The header that holds the time of the signature, in seconds.
pub(super) const TIMESTAMP: HeaderName = HeaderName::from_static("x-tc-timestamp");

/// A key and the service that it is used for.
pub(super) struct Key<'a> {
    pub(super) id: &'a str,
    pub(super) secret: &'a str,
    pub(super) service: &'a str,
}

/// The value of the header `Authorization`.
pub(super) fn authorization(
    key: &Key<'_>,
    headers: &HeaderMap,
    address: &Uri,
    signed: Signed<'_>,
) -> String {
    let media_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let host = address
        .authority()
        .map_or("", |authority| authority.as_str());
    let request = format!(
        "{}\n{}\n{}\ncontent-type:{media_type}\nhost:{host}\n\ncontent-type;host\n{}",
        signed.method,
        address.path(),
        address.query().unwrap_or_default(),
        hex(&Sha256::digest(signed.body)),
    );
    let date = date(signed.now);
    let scope = format!("{date}/{}/tc3_request", key.service);
    let text = format!(
        "TC3-HMAC-SHA256\n{}\n{scope}\n{}",
        signed.now.as_second(),
        hex(&Sha256::digest(request)),
    );
    let first = format!("TC3{}", key.secret);
    let derived = [date.as_str(), key.service, "tc3_request", &text]
        .iter()
        .fold(first.into_bytes(), |key, message| {
            code(&key, message.as_bytes())
        });
    let (id, signature) = (key.id, hex(&derived));
    format!(
        "TC3-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders=content-type;host, Signature={signature}"
    )
}

/// The day, in UTC.
fn date(now: Timestamp) -> String {
    now.to_zoned(TimeZone::UTC).date().to_string()
}

fn code(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method};

    use super::*;

    #[test]
    fn a_signature_covers_media_type_host_and_body() {
        let key = Key {
            id: "id",
            secret: "secret",
            service: "hunyuan",
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let address = Uri::from_static("https://hunyuan.tencentcloudapi.com/");
        let value = |body: &[u8]| {
            let signed = Signed {
                method: &Method::POST,
                body,
                now: Timestamp::from_second(1_700_000_000).expect("a time"),
            };
            authorization(&key, &headers, &address, signed)
        };
        // The expected value comes from another implementation.
        let expected = "TC3-HMAC-SHA256 Credential=id/2023-11-14/hunyuan/tc3_request, \
                        SignedHeaders=content-type;host, \
                        Signature=905e0e254f067116ff079393f75d399b75a01e3f8cae487485e9bd9441d6848b";
        assert_eq!(value(br#"{"a":1}"#), expected);
        assert_ne!(value(br#"{"a":2}"#), value(br#"{"a":1}"#));
    }
}
