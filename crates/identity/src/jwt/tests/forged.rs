//! Forged tokens: none is taken.

use super::*;
use crate::forged::forgeries;

#[test]
fn a_token_without_a_signature_is_refused() {
    let jwt = with_secret();
    for alg in ["none", "None", "NONE", "nOnE", "", "HS1", "null"] {
        let header = json!({"alg": alg});
        let unsigned = signed(&header, &claims(), |_| Vec::new());
        assert!(jwt.verify(&unsigned, at(0)).is_none(), "{alg}");
        let signed = hs256(&header, &claims());
        assert!(jwt.verify(&signed, at(0)).is_none(), "{alg}");
    }
    let nothing = signed(&header(), &claims(), |_| Vec::new());
    assert!(jwt.verify(&nothing, at(0)).is_none());
}

#[test]
fn another_algorithm_than_the_configured_one_is_refused() {
    for alg in [
        "HS384", "HS512", "RS256", "ES256", "EdDSA", "PS256", "ES384",
    ] {
        let token = hs256(&json!({"alg": alg}), &claims());
        assert!(with_secret().verify(&token, at(0)).is_none(), "{alg}");
    }
}

#[test]
fn what_a_token_says_of_its_own_key_is_not_looked_at() {
    let own = b"a key that the forger chose for this";
    let k = base64(own);
    for header in [
        json!({"alg": "HS256", "jwk": {"kty": "oct", "k": k}}),
        json!({"alg": "HS256", "jku": "http://127.0.0.1:1/keys"}),
        json!({"alg": "HS256", "x5u": "http://127.0.0.1:1/chain"}),
        json!({"alg": "HS256", "kid": "../../../dev/null"}),
        json!({"alg": "HS256", "kid": "x' UNION SELECT 'key"}),
    ] {
        let forged = signed(&header, &claims(), hs256_with(own));
        assert!(with_secret().verify(&forged, at(0)).is_none(), "{header}");
        let empty = signed(&header, &claims(), hs256_with(b""));
        assert!(with_secret().verify(&empty, at(0)).is_none(), "{header}");
        // It does not hurt a good token either.
        let good = hs256(&header, &claims());
        assert!(with_secret().verify(&good, at(0)).is_some(), "{header}");
    }
}

#[test]
fn an_extension_that_must_be_understood_is_refused() {
    let header = json!({"alg": "HS256", "crit": ["b64"], "b64": false});
    assert!(
        with_secret()
            .verify(&hs256(&header, &claims()), at(0))
            .is_none()
    );
}

#[test]
fn what_is_no_token_is_refused() {
    let jwt = with_secret();
    let good = hs256(&header(), &claims());
    let long = hs256(&header(), &with("padding", json!("x".repeat(8_192))));
    for bad in [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        &good[1..],
        &good[..good.len() - 1],
        &format!("{good}="),
        &format!("{good}."),
        &format!(" {good}"),
        &good.replacen('.', "..", 1),
        &long,
    ] {
        assert!(jwt.verify(bad, at(0)).is_none(), "{bad}");
    }
}

#[test]
fn no_forged_token_is_taken() {
    let jwt = with_secret();
    let good = hs256(&header(), &claims());
    assert!(jwt.verify(&good, at(0)).is_some(), "and is remembered");
    for (n, forged) in forgeries(&good).enumerate() {
        assert!(jwt.verify(&forged, at(0)).is_none(), "{n}: {forged}");
    }
}
