//! What a request presents: `Authorization: Bearer`, or `X-API-Key` for older clients.
//!
//! A request that presents two of one header presents nothing: two servers in a row might each believe another one.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

/// The header of Family C, read for every family.
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// A credential as it came. Neither printed nor kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Credential<'a>(&'a str);

/// The credential of a request: that of `Authorization` where there is one, else that of `X-API-Key`. `None` when there is
/// none that can be read.
#[must_use]
pub fn presented(headers: &HeaderMap) -> Option<Credential<'_>> {
    if headers.contains_key(AUTHORIZATION) {
        let (scheme, token) = sole(headers, &AUTHORIZATION)?.split_once(' ')?;
        return Credential::new(token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer"));
    }
    Credential::new(sole(headers, &X_API_KEY)?.trim())
}

impl<'a> Credential<'a> {
    fn new(text: &'a str) -> Option<Self> {
        let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then_some(Self(text))
    }

    /// The text, for hashing.
    #[must_use]
    pub fn expose(self) -> &'a str {
        self.0
    }
}

impl std::fmt::Debug for Credential<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(..)")
    }
}

fn sole<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(only), None) => only.to_str().ok(),
        (Some(_) | None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(lines: &[(&'static str, &'static str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        presented(&headers).map(|credential| credential.expose().to_owned())
    }

    #[test]
    fn the_scheme_is_read_in_either_case() {
        for scheme in ["Bearer t", "bearer t", "BEARER  t "] {
            assert_eq!(
                read(&[("authorization", scheme)]).as_deref(),
                Some("t"),
                "{scheme}"
            );
        }
    }

    #[test]
    fn what_is_no_single_bearer_token_is_nothing() {
        for value in ["", "Bearer", "Bearer ", "t", "Basic t", "Bearer a b"] {
            assert_eq!(read(&[("authorization", value)]), None, "{value}");
        }
        let twice = [("authorization", "Bearer t"), ("authorization", "Bearer t")];
        assert_eq!(read(&twice), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn an_api_key_counts_where_no_authorization_is() {
        assert_eq!(read(&[("x-api-key", "k")]).as_deref(), Some("k"));
        assert_eq!(read(&[("x-api-key", "k"), ("x-api-key", "k")]), None);
        let both = [("authorization", "Bearer t"), ("x-api-key", "k")];
        assert_eq!(read(&both).as_deref(), Some("t"));
        let refused = [("authorization", "Basic t"), ("x-api-key", "k")];
        assert_eq!(read(&refused), None);
    }

    #[test]
    fn a_credential_is_not_printed() {
        assert_eq!(format!("{:?}", Credential("secret")), "Credential(..)");
    }
}
