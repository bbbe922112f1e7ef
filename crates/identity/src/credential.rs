//! What a request presents: `Authorization: Bearer`, or `X-API-Key`, which wins where both are sent.
//!
//! A request that presents two of one header presents nothing: two servers in a row might each believe another one.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

/// The header of older clients, read for every family.
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// A credential as it came. Neither printed nor kept.
#[derive(Clone, Copy)]
pub struct Credential<'a>(&'a str);

/// What the headers of a request come to.
#[derive(Clone, Copy, Debug)]
pub enum Presented<'a> {
    /// No header for credentials.
    Nothing,
    /// Such a header, and nothing in it that could count.
    Unreadable,
    /// This.
    Credential(Credential<'a>),
}

/// The credential of a request.
#[must_use]
pub fn presented(headers: &HeaderMap) -> Presented<'_> {
    let key = headers.contains_key(X_API_KEY);
    let bearer_text = sole(headers, &AUTHORIZATION);
    // One that is no text, or stands twice, is there all the same.
    let bearer = bearer_text.is_some() || headers.contains_key(AUTHORIZATION);
    let credential = match (key, bearer) {
        (false, false) => return Presented::Nothing,
        // Two `Authorization` are one too many, whatever stands beside them.
        (true, true) if bearer_text.is_none() => None,
        (true, _) => sole(headers, &X_API_KEY).and_then(|text| Credential::new(text.trim_ascii())),
        (false, true) => bearer_text.and_then(Credential::of_bearer),
    };
    credential.map_or(Presented::Unreadable, Presented::Credential)
}

impl<'a> Credential<'a> {
    /// Takes a text for a credential, such as that of a query; `None` where it cannot be one.
    #[must_use]
    pub fn new(text: &'a str) -> Option<Self> {
        // Every byte is looked at, which takes less time than to stop at one.
        let is_graphic = |graphic, byte: u8| graphic & byte.is_ascii_graphic();
        let is_token = !text.is_empty() && text.bytes().fold(true, is_graphic);
        is_token.then_some(Self(text))
    }

    fn of_bearer(value: &'a str) -> Option<Self> {
        let (scheme, token) = value.split_once(' ')?;
        Self::new(token.trim_ascii()).filter(|_| scheme.eq_ignore_ascii_case("bearer"))
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
        // What is no token is refused as one.
        (Some(only), None) => std::str::from_utf8(only.as_bytes()).ok(),
        (Some(_) | None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(lines: &[(&'static str, &'static str)]) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        match presented(&headers) {
            Presented::Nothing => "nothing".to_owned(),
            Presented::Unreadable => "unreadable".to_owned(),
            Presented::Credential(credential) => credential.expose().to_owned(),
        }
    }

    #[test]
    fn the_scheme_is_read_in_either_case() {
        for scheme in ["Bearer t", "bearer t", "BEARER  t "] {
            assert_eq!(read(&[("authorization", scheme)]), "t", "{scheme}");
        }
    }

    #[test]
    fn what_is_no_single_bearer_token_cannot_count() {
        for value in ["", "Bearer", "Bearer ", "t", "Basic t", "Bearer a b"] {
            assert_eq!(read(&[("authorization", value)]), "unreadable", "{value}");
        }
        assert_eq!(read(&[]), "nothing");
    }

    #[test]
    fn two_of_one_header_cannot_count() {
        let twice = [("authorization", "Bearer t"), ("authorization", "Bearer t")];
        assert_eq!(read(&twice), "unreadable");
        let beside_a_key = [twice[0], twice[1], ("x-api-key", "k")];
        assert_eq!(read(&beside_a_key), "unreadable");
        let keys = [("x-api-key", "k"), ("x-api-key", "k")];
        assert_eq!(read(&keys), "unreadable");
    }

    #[test]
    fn an_api_key_wins_over_a_bearer_token() {
        assert_eq!(read(&[("x-api-key", "k")]), "k");
        assert_eq!(
            read(&[("authorization", "Bearer t"), ("x-api-key", "k")]),
            "k"
        );
        assert_eq!(
            read(&[("authorization", "Basic t"), ("x-api-key", "k")]),
            "k"
        );
        assert_eq!(
            read(&[("authorization", "Bearer t"), ("x-api-key", "")]),
            "unreadable"
        );
    }

    #[test]
    fn a_credential_is_not_printed() {
        assert_eq!(format!("{:?}", Credential("secret")), "Credential(..)");
    }
}
