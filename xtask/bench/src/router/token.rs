//! A token as a caller of the router brings one.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;

/// What the tokens of a run are signed with. It guards nothing.
pub(super) const SECRET: &str = "a secret of a bench, which guards nothing at all";

/// How long a token is good: longer than any run.
const LIFETIME_S: u64 = 24 * 3600;

/// A token (HS256) of `workspace` with these scopes.
pub(super) fn token(workspace: &str, scopes: &[&str]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    let claims = json!({
        "workspace": workspace,
        "scopes": scopes,
        "iat": now,
        "exp": now + LIFETIME_S,
    });
    let header = json!({"alg": "HS256", "typ": "JWT"});
    let encode = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let mut mac =
        Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("a key may have any length");
    mac.update(signed.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    format!("{signed}.{signature}")
}
