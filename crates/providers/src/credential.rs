//! Credentials of partners, in memory only, and the showing of them.
//!
//! A credential is put on a request in one place, behind the check of where the request goes. It is never printed, and
//! what may hold it by accident is masked before anybody sees it.

mod tc3;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::AUTHORIZATION;
use http::uri::InvalidUri;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use sha2::Sha256;

use crate::definition::{Auth, SecretRef};

/// What is shown in place of a secret.
pub(crate) const MASK: &str = "***";

/// How far the clock of a partner may be behind ours, in seconds.
const SKEW_S: i64 = 5;

/// Where secrets come from: variables by name, and what they say of keys beyond the first (`NAME_2`, `NAME_WEIGHT`). Files are read
/// as they are.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A credential, ready to be shown.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    Header {
        name: HeaderName,
        prefix: String,
        secret: SecretString,
    },
    Query {
        name: String,
        secret: SecretString,
    },
    Basic {
        user: SecretString,
        secret: SecretString,
    },
    Jwt {
        issuer: SecretString,
        secret: SecretString,
        lifetime_s: u32,
    },
    Tc3 {
        id: SecretString,
        secret: SecretString,
        service: String,
    },
    None,
}

/// A request as far as a signature covers it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signed<'a> {
    /// The method.
    pub(crate) method: &'a Method,
    /// The body.
    pub(crate) body: &'a [u8],
    /// The time of the signature.
    pub(crate) now: Timestamp,
}

/// Why a credential cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialError {
    /// It is not set: the partner is not in use.
    #[error("{0} is not set")]
    Missing(SecretRef),
    /// It is set and cannot be sent.
    #[error("{0} holds characters that cannot be sent")]
    Unusable(SecretRef),
}

impl Credential {
    /// Reads the secrets of a partner.
    pub(crate) fn read(auth: &Auth, environment: Environment<'_>) -> Result<Self, CredentialError> {
        let read = |secret| read(secret, environment);
        Ok(match auth {
            Auth::Bearer { secret } => Self::Header {
                name: AUTHORIZATION,
                prefix: "Bearer ".to_owned(),
                secret: read(secret)?,
            },
            Auth::Header {
                name,
                prefix,
                secret,
            } => Self::Header {
                name: name.0.clone(),
                prefix: prefix.clone(),
                secret: read(secret)?,
            },
            Auth::Query { name, secret } => Self::Query {
                name: name.clone(),
                secret: read(secret)?,
            },
            Auth::Basic { user, secret } => Self::Basic {
                user: read(user)?,
                secret: read(secret)?,
            },
            Auth::Hs256Jwt {
                issuer,
                secret,
                lifetime_s,
            } => Self::Jwt {
                issuer: read(issuer)?,
                secret: read(secret)?,
                lifetime_s: *lifetime_s,
            },
            Auth::Tc3HmacSha256 {
                id,
                secret,
                service,
            } => Self::Tc3 {
                id: read(id)?,
                secret: read(secret)?,
                service: service.clone(),
            },
            Auth::None {} => Self::None,
        })
    }

    /// Puts it on a request: on its headers, or behind its address, which comes back.
    ///
    /// # Errors
    /// If the address is too long with it.
    pub(crate) fn show(
        &self,
        headers: &mut HeaderMap,
        address: Uri,
        signed: Signed<'_>,
    ) -> Result<Uri, InvalidUri> {
        match self {
            Self::Header {
                name,
                prefix,
                secret,
            } => {
                let value = format!("{prefix}{}", secret.expose_secret());
                headers.insert(name.clone(), sensitive(&value));
            }
            Self::Query { name, secret } => {
                let separator = if address.query().is_some() { '&' } else { '?' };
                let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
                let (name, secret) = (encoded(name), encoded(secret.expose_secret()));
                return format!("{address}{separator}{name}={secret}").parse();
            }
            Self::Basic { user, secret } => {
                let pair = format!("{}:{}", user.expose_secret(), secret.expose_secret());
                let value = format!("Basic {}", BASE64_STANDARD.encode(pair));
                headers.insert(AUTHORIZATION, sensitive(&value));
            }
            Self::Jwt {
                issuer,
                secret,
                lifetime_s,
            } => {
                let token = token(
                    issuer.expose_secret(),
                    secret.expose_secret(),
                    signed.now.as_second(),
                    *lifetime_s,
                );
                headers.insert(AUTHORIZATION, sensitive(&format!("Bearer {token}")));
            }
            Self::Tc3 {
                id,
                secret,
                service,
            } => {
                let key = tc3::Key {
                    id: id.expose_secret(),
                    secret: secret.expose_secret(),
                    service,
                };
                let value = tc3::authorization(&key, headers, &address, signed);
                headers.insert(AUTHORIZATION, sensitive(&value));
                let time = HeaderValue::from(signed.now.as_second());
                headers.insert(tc3::TIMESTAMP, time);
            }
            Self::None => {}
        }
        Ok(address)
    }

    /// Whether bytes hold a secret.
    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        self.secrets().iter().any(|secret| {
            let secret = secret.expose_secret().as_bytes();
            bytes.windows(secret.len()).any(|window| window == secret)
        })
    }

    /// The secrets of it.
    pub(crate) fn secrets(&self) -> Vec<&SecretString> {
        match self {
            Self::Header { secret, .. } | Self::Query { secret, .. } => vec![secret],
            Self::Basic { user, secret } => vec![user, secret],
            Self::Jwt { issuer, secret, .. } => vec![issuer, secret],
            Self::Tc3 { id, secret, .. } => vec![id, secret],
            Self::None => Vec::new(),
        }
    }
}

/// Replaces secrets in a text, the longest first: one may be the beginning of another.
pub(crate) fn mask(text: &str, mut secrets: Vec<&SecretString>) -> String {
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
    let mut masked = text.to_owned();
    for secret in secrets {
        let plain = secret.expose_secret();
        let encoded = utf8_percent_encode(plain, NON_ALPHANUMERIC).to_string();
        masked = masked.replace(plain, MASK).replace(&encoded, MASK);
    }
    masked
}

/// Whether a secret is set, and can be sent or not.
pub(crate) fn is_set(secret: &SecretRef, environment: Environment<'_>) -> bool {
    !matches!(read(secret, environment), Err(CredentialError::Missing(_)))
}

/// Reads one secret. What is empty is not set.
fn read(secret: &SecretRef, environment: Environment<'_>) -> Result<SecretString, CredentialError> {
    let text = match secret {
        SecretRef::Env(name) => environment(name),
        SecretRef::File(path) => std::fs::read_to_string(path).ok(),
    };
    let text = text.unwrap_or_default();
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(CredentialError::Missing(secret.clone()));
    }
    if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err(CredentialError::Unusable(secret.clone()));
    }
    Ok(SecretString::from(text))
}

fn sensitive(value: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(value).expect("secrets and prefixes are printable");
    value.set_sensitive(true);
    value
}

/// A token good from now on for a while (RFC 7519, HS256).
fn token(issuer: &str, secret: &str, now_s: i64, lifetime_s: u32) -> String {
    let part = |value: &serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let header = part(&json!({"alg": "HS256", "typ": "JWT"}));
    let claims = part(&json!({
        "iss": issuer,
        "exp": now_s + i64::from(lifetime_s),
        "nbf": now_s - SKEW_S,
    }));
    let signed = format!("{header}.{claims}");
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length will do");
    mac.update(signed.as_bytes());
    let signature = BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    format!("{signed}.{signature}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(auth: &str) -> Result<Credential, CredentialError> {
        let auth: Auth = toml::from_str(auth).expect("it is well written");
        Credential::read(&auth, &|name| match name {
            "KEY" => Some("s3cr&t\n".to_owned()),
            "USER" => Some("me".to_owned()),
            "EMPTY" => Some("\n".to_owned()),
            "ODD" => Some("a\nb".to_owned()),
            _ => None,
        })
    }

    fn shown(auth: &str) -> (HeaderMap, String) {
        let mut headers = HeaderMap::new();
        let address = Uri::from_static("https://a.b/c");
        let credential = credential(auth).expect("it is set");
        let signed = Signed {
            method: &Method::POST,
            body: b"{}",
            now: Timestamp::UNIX_EPOCH,
        };
        let shown = credential.show(&mut headers, address, signed);
        (headers, shown.expect("it is short").to_string())
    }

    #[test]
    fn each_kind_is_shown_in_its_way() {
        let (headers, _) = shown("kind = \"bearer\"\nsecret = { env = \"KEY\" }");
        assert_eq!(headers["authorization"], "Bearer s3cr&t");
        assert!(headers["authorization"].is_sensitive());
        let (headers, _) = shown(
            "kind = \"header\"\nname = \"X-Key\"\nprefix = \"Key \"\nsecret = { env = \"KEY\" }",
        );
        assert_eq!(headers["x-key"], "Key s3cr&t");
        let (headers, url) = shown("kind = \"query\"\nname = \"key\"\nsecret = { env = \"KEY\" }");
        assert!(headers.is_empty());
        assert_eq!(url, "https://a.b/c?key=s3cr%26t");
        let (headers, _) =
            shown("kind = \"basic\"\nuser = { env = \"USER\" }\nsecret = { env = \"KEY\" }");
        assert_eq!(headers["authorization"], "Basic bWU6czNjciZ0");
        let (headers, url) = shown("kind = \"none\"");
        assert!(headers.is_empty());
        assert_eq!(url, "https://a.b/c");
    }

    #[test]
    fn a_token_is_signed_over_its_issuer_and_its_time() {
        // Worked out with an implementation of HMAC that is not this one.
        let token = token("issuer", "secret", 1_700_000_000, 1800);
        let parts: Vec<&str> = token.split('.').collect();
        let decoded = |part: &str| {
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).expect("base64");
            String::from_utf8(bytes).expect("JSON")
        };
        assert_eq!(decoded(parts[0]), r#"{"alg":"HS256","typ":"JWT"}"#);
        assert_eq!(
            decoded(parts[1]),
            r#"{"iss":"issuer","exp":1700001800,"nbf":1699999995}"#
        );
        assert_eq!(parts[2], "LFJkNSIBxSLIKGV9517gohZnRIUcetrtI1_UIAFYIRQ");
    }

    #[test]
    fn a_secret_that_is_not_set_is_missing() {
        for name in ["NONE", "EMPTY"] {
            let auth = format!("kind = \"bearer\"\nsecret = {{ env = \"{name}\" }}");
            let error = credential(&auth).expect_err("it is not set");
            assert_eq!(error.to_string(), format!("{name} is not set"));
        }
        let auth = "kind = \"bearer\"\nsecret = { env = \"ODD\" }";
        assert!(matches!(
            credential(auth),
            Err(CredentialError::Unusable(_))
        ));
        let auth = "kind = \"bearer\"\nsecret = { file = \"/nowhere/at/all\" }";
        assert!(matches!(credential(auth), Err(CredentialError::Missing(_))));
    }

    #[test]
    fn no_secret_is_printed() {
        let credential = credential("kind = \"bearer\"\nsecret = { env = \"KEY\" }").expect("set");
        assert!(!format!("{credential:?}").contains("s3cr"));
        let shown = mask("a s3cr&t, b s3cr%26t", credential.secrets());
        assert_eq!(shown, "a ***, b ***");
        assert!(credential.is_in(b"xs3cr&tx"));
        assert!(!credential.is_in(b"s3cr"));
    }
}
