//! Which tokens are taken, and above all which are not.

mod forged;
mod keys;

use accounts::Scope;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::SignedDuration;
use ring::hmac;
use serde_json::{Value, json};

use super::*;

pub(super) const SECRET: &str = "a secret of more than 32 bytes, for tests alone";
const NOW: i64 = 1_800_000_000;

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW + seconds).expect("a time")
}

pub(super) fn plain(key: JwtKey) -> JwtConfig {
    JwtConfig {
        key,
        issuer: None,
        audience: None,
    }
}

pub(super) fn with_secret() -> Jwt {
    Jwt::new(plain(JwtKey::Secret(SECRET.into()))).expect("a verifier")
}

pub(super) fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token of this header and payload, signed by `sign`.
pub(super) fn signed(
    header: &Value,
    claims: &Value,
    sign: impl FnOnce(&[u8]) -> Vec<u8>,
) -> String {
    let message = format!(
        "{}.{}",
        base64(header.to_string()),
        base64(claims.to_string())
    );
    let signature = base64(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

pub(super) fn hs256_with(secret: &[u8]) -> impl FnOnce(&[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    move |message| hmac::sign(&key, message).as_ref().to_vec()
}

pub(super) fn hs256(header: &Value, claims: &Value) -> String {
    signed(header, claims, hs256_with(SECRET.as_bytes()))
}

pub(super) fn header() -> Value {
    json!({"alg": "HS256", "typ": "JWT"})
}

pub(super) fn claims() -> Value {
    json!({"workspace": "acme", "scopes": ["router:run"], "exp": NOW + 60})
}

/// The usual claims with one of them changed, or left out where the value is `null`.
fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    let fields = claims.as_object_mut().expect("an object");
    if value.is_null() {
        fields.remove(name);
    } else {
        fields.insert(name.to_owned(), value);
    }
    claims
}

fn takes(jwt: &Jwt, claims: &Value) -> bool {
    jwt.verify(&hs256(&header(), claims), at(0)).is_some()
}

#[test]
fn a_token_names_its_workspace_and_scopes() {
    let jwt = with_secret();
    for scopes in [
        json!(["router:run", "jobs:read", "theirs:own"]),
        json!("router:run jobs:read theirs:own"),
    ] {
        let token = hs256(&header(), &with("scopes", scopes));
        let claimed = jwt.verify(&token, at(0)).expect("taken");
        assert_eq!(claimed.account.as_str(), "acme");
        let expected = [Scope::RouterRun, Scope::JobsRead].into_iter().collect();
        assert_eq!(claimed.scopes, expected);
    }
    let token = hs256(&header(), &with("scopes", Value::Null));
    let claimed = jwt.verify(&token, at(0)).expect("taken");
    assert_eq!(claimed.scopes, Scopes::NONE);
}

#[test]
fn a_token_needs_a_workspace_that_can_be_one() {
    let jwt = with_secret();
    for workspace in [json!(null), json!(7), json!(""), json!("A b"), json!(["a"])] {
        assert!(
            !takes(&jwt, &with("workspace", workspace.clone())),
            "{workspace}"
        );
    }
}

#[test]
fn a_token_counts_until_it_expires_and_half_a_minute_more() {
    let jwt = with_secret();
    let token = hs256(&header(), &claims());
    assert!(jwt.verify(&token, at(89)).is_some());
    // The second time it is remembered, and expires all the same.
    assert!(jwt.verify(&token, at(90)).is_none());
    assert!(with_secret().verify(&token, at(90)).is_none());
    assert!(jwt.verify(&token, at(0)).is_some());
}

#[test]
fn a_token_counts_from_its_nbf_and_half_a_minute_before() {
    let jwt = with_secret();
    let token = hs256(&header(), &with("nbf", json!(NOW + 40)));
    assert!(jwt.verify(&token, at(9)).is_none());
    assert!(jwt.verify(&token, at(10)).is_some());
    assert!(jwt.verify(&token, at(9)).is_none(), "also once remembered");
}

#[test]
fn times_are_numbers_of_this_era() {
    let jwt = with_secret();
    for good in [json!(NOW + 60), json!(NOW as f64 + 60.5)] {
        assert!(takes(&jwt, &with("exp", good.clone())), "{good}");
    }
    for bad in [
        json!(null),
        json!((NOW + 60).to_string()),
        json!(-1),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e300),
        json!(253_402_300_800_i64),
        json!([NOW + 60]),
        json!({}),
        json!(true),
    ] {
        assert!(!takes(&jwt, &with("exp", bad.clone())), "exp {bad}");
        if !bad.is_null() {
            assert!(!takes(&jwt, &with("nbf", bad.clone())), "nbf {bad}");
        }
    }
    // Longer than any number type.
    let claims = format!(r#"{{"workspace":"acme","exp":{}}}"#, "9".repeat(400));
    let message = format!("{}.{}", base64(header().to_string()), base64(claims));
    let signature = base64(hs256_with(SECRET.as_bytes())(message.as_bytes()));
    assert!(
        jwt.verify(&format!("{message}.{signature}"), at(0))
            .is_none()
    );
}

#[test]
fn a_claim_that_stands_twice_is_refused() {
    let twice = format!(r#"{{"workspace":"acme","exp":{0},"exp":{0}}}"#, NOW + 60);
    let message = format!("{}.{}", base64(header().to_string()), base64(twice));
    let signature = base64(hs256_with(SECRET.as_bytes())(message.as_bytes()));
    let token = format!("{message}.{signature}");
    assert!(with_secret().verify(&token, at(0)).is_none());
}

#[test]
fn issuer_and_audience_are_the_configured_ones() {
    let config = JwtConfig {
        issuer: Some("us".to_owned()),
        audience: Some("easel".to_owned()),
        ..plain(JwtKey::Secret(SECRET.into()))
    };
    let jwt = Jwt::new(config).expect("a verifier");
    let of = |iss: Value, aud: Value| {
        let mut claims = claims();
        claims["iss"] = iss;
        claims["aud"] = aud;
        takes(&jwt, &claims)
    };
    assert!(of(json!("us"), json!("easel")));
    assert!(of(json!("us"), json!(["other", "easel"])));
    for (iss, aud) in [
        (json!("them"), json!("easel")),
        (json!(null), json!("easel")),
        (json!(["us"]), json!("easel")),
        (json!("us"), json!("other")),
        (json!("us"), json!(["other"])),
        (json!("us"), json!([])),
        (json!("us"), json!(null)),
        (json!("us"), json!({"easel": 1})),
    ] {
        assert!(!of(iss.clone(), aud.clone()), "iss {iss}, aud {aud}");
    }
}

#[test]
fn a_token_for_an_audience_is_for_nobody_where_none_is_configured() {
    assert!(!takes(&with_secret(), &with("aud", json!("easel"))));
    assert!(takes(&with_secret(), &with("iss", json!("anyone"))));
}

#[test]
fn an_issued_token_is_taken() {
    let config = JwtConfig {
        issuer: Some("us".to_owned()),
        audience: Some("easel".to_owned()),
        ..plain(JwtKey::Secret(SECRET.into()))
    };
    let account: AccountId = "acme".parse().expect("a name");
    let scopes = [Scope::RouterRun].into_iter().collect();
    let token = issue(
        &config,
        &account,
        scopes,
        at(0),
        SignedDuration::from_hours(1),
    );
    let token = token.expect("a token");
    let jwt = Jwt::new(config).expect("a verifier");
    let claimed = jwt.verify(token.expose_secret(), at(3_600)).expect("taken");
    assert_eq!((claimed.account, claimed.scopes), (account, scopes));
    assert!(jwt.verify(token.expose_secret(), at(3_630)).is_none());
}

#[test]
fn a_secret_has_at_least_32_bytes() {
    let short = Jwt::new(plain(JwtKey::Secret("x".repeat(31).into())));
    assert!(matches!(short, Err(JwtSetupError::ShortSecret)));
    assert!(Jwt::new(plain(JwtKey::Secret("x".repeat(32).into()))).is_ok());
}
