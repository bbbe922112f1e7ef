//! Whether a token is signed as Kling wants it: HS256, the access key as issuer, with a beginning and an end.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;

pub(super) fn is_signed(token: &str, issuer: &str, secret: &str) -> bool {
    let Some((signed, signature)) = token.rsplit_once('.') else {
        return false;
    };
    let Some((header, claims)) = signed.split_once('.') else {
        return false;
    };
    let Ok(signature) = BASE64_URL_SAFE_NO_PAD.decode(signature) else {
        return false;
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length will do");
    mac.update(signed.as_bytes());
    let claims = json(claims);
    let span = (claims["nbf"].as_i64(), claims["exp"].as_i64());
    mac.verify_slice(&signature).is_ok()
        && json(header)["alg"] == "HS256"
        && claims["iss"] == issuer
        && matches!(span, (Some(from), Some(to)) if from < to)
}

fn json(part: &str) -> Value {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}
