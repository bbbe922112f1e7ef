//! Public keys and sets of them, and files that change.

use std::fs;
use std::path::Path;

use ring::rand::SystemRandom;
use ring::rsa;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair};

use super::*;

const RSA_PRIVATE: &[u8] = include_bytes!("../../../testdata/rsa.pk8");
const RSA_PUBLIC: &str = include_str!("../../../testdata/rsa.pub.pem");

fn rsa_key() -> RsaKeyPair {
    RsaKeyPair::from_pkcs8(RSA_PRIVATE).expect("a key")
}

fn rs256(header: &Value, claims: &Value) -> String {
    let key = rsa_key();
    signed(header, claims, |message| {
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(
            &signature::RSA_PKCS1_SHA256,
            &SystemRandom::new(),
            message,
            &mut signature,
        )
        .expect("a signature");
        signature
    })
}

fn rsa_jwk(kid: &str) -> Value {
    let components = rsa::PublicKeyComponents::<Vec<u8>>::from(rsa_key().public());
    json!({"kty": "RSA", "kid": kid, "n": base64(components.n), "e": base64(components.e)})
}

fn ed_key() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a key")
}

fn ed_jwk(kid: &str) -> Value {
    let x = base64(ed_key().public_key());
    json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "use": "sig", "alg": "EdDSA", "x": x})
}

fn eddsa(header: &Value, claims: &Value) -> String {
    signed(header, claims, |message| {
        ed_key().sign(message).as_ref().to_vec()
    })
}

fn verifier(path: &Path, algorithm: PublicKeyAlgorithm) -> Result<Jwt, JwtSetupError> {
    let path = path.to_owned();
    Jwt::new(plain(JwtKey::File { algorithm, path }))
}

/// A file in a folder of its own, replaced whole as an operator would.
struct File(tempfile::TempDir);

impl File {
    fn of(content: &str) -> Self {
        let file = Self(tempfile::tempdir().expect("a folder"));
        file.replace(content);
        file
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("keys")
    }

    fn replace(&self, content: &str) {
        let new = self.0.path().join("new");
        fs::write(&new, content).expect("a file");
        fs::rename(new, self.path()).expect("a file");
    }
}

fn set_of(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

#[test]
fn rs256_is_verified_with_a_key_in_pem_form() {
    let file = File::of(RSA_PUBLIC);
    let jwt = verifier(&file.path(), PublicKeyAlgorithm::Rs256).expect("a verifier");
    let header = json!({"alg": "RS256", "kid": "whatever"});
    assert!(jwt.verify(&rs256(&header, &claims()), at(0)).is_some());
}

#[test]
fn hs256_signed_with_the_public_key_is_refused() {
    let file = File::of(RSA_PUBLIC);
    let jwt = verifier(&file.path(), PublicKeyAlgorithm::Rs256).expect("a verifier");
    let components = rsa::PublicKeyComponents::<Vec<u8>>::from(rsa_key().public());
    for secret in [
        RSA_PUBLIC.as_bytes(),
        RSA_PUBLIC.trim().as_bytes(),
        rsa_key().public_key().as_ref(),
        &components.n,
    ] {
        for alg in ["HS256", "RS256"] {
            let forged = signed(&json!({"alg": alg}), &claims(), hs256_with(secret));
            assert!(jwt.verify(&forged, at(0)).is_none(), "{alg}");
        }
    }
}

#[test]
fn es256_is_verified_with_a_key_of_a_set() {
    let random = SystemRandom::new();
    let scheme = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(scheme, &random).expect("a key");
    let key = EcdsaKeyPair::from_pkcs8(scheme, document.as_ref(), &random).expect("a key");
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let jwk = json!({"kty": "EC", "crv": "P-256", "kid": "e", "x": base64(x), "y": base64(y)});
    let file = File::of(&set_of(&[jwk]));
    let jwt = verifier(&file.path(), PublicKeyAlgorithm::Es256).expect("a verifier");
    let sign = |message: &[u8]| {
        let signature = key.sign(&random, message).expect("a signature");
        signature.as_ref().to_vec()
    };
    let token = signed(&json!({"alg": "ES256", "kid": "e"}), &claims(), sign);
    assert!(jwt.verify(&token, at(0)).is_some());
}

#[test]
fn with_a_set_the_token_names_a_key_that_is_known() {
    let file = File::of(&set_of(&[ed_jwk("a"), rsa_jwk("r")]));
    let jwt = verifier(&file.path(), PublicKeyAlgorithm::EdDsa).expect("a verifier");
    let known = eddsa(&json!({"alg": "EdDSA", "kid": "a"}), &claims());
    assert!(jwt.verify(&known, at(0)).is_some());
    for header in [
        json!({"alg": "EdDSA"}),
        json!({"alg": "EdDSA", "kid": ""}),
        json!({"alg": "EdDSA", "kid": "b"}),
        json!({"alg": "EdDSA", "kid": "A"}),
        // A key of another algorithm is not among those that count.
        json!({"alg": "EdDSA", "kid": "r"}),
        json!({"alg": "EdDSA", "kid": "../a"}),
        json!({"alg": "EdDSA", "kid": ["a"]}),
    ] {
        let token = eddsa(&header, &claims());
        assert!(jwt.verify(&token, at(0)).is_none(), "{header}");
    }
    let other = rs256(&json!({"alg": "RS256", "kid": "r"}), &claims());
    assert!(jwt.verify(&other, at(0)).is_none());
}

#[test]
fn a_changed_file_counts_and_what_a_withdrawn_key_signed_does_not() {
    let file = File::of(&set_of(&[ed_jwk("a")]));
    let jwt = verifier(&file.path(), PublicKeyAlgorithm::EdDsa).expect("a verifier");
    let a = eddsa(&json!({"alg": "EdDSA", "kid": "a"}), &claims());
    let b = eddsa(&json!({"alg": "EdDSA", "kid": "b"}), &claims());
    assert!(jwt.verify(&a, at(0)).is_some() && jwt.verify(&b, at(0)).is_none());
    file.replace(&set_of(&[ed_jwk("b")]));
    jwt.refresh();
    assert!(jwt.verify(&a, at(0)).is_none(), "though it was remembered");
    assert!(jwt.verify(&b, at(0)).is_some());
}

#[test]
fn a_changed_file_that_cannot_be_used_changes_nothing() {
    let good = set_of(&[ed_jwk("a")]);
    let file = File::of(&good);
    let jwt = verifier(&file.path(), PublicKeyAlgorithm::EdDsa).expect("a verifier");
    let token = eddsa(&json!({"alg": "EdDSA", "kid": "a"}), &claims());
    let too_large = format!("{}{}", good, " ".repeat(256 * 1024));
    for bad in [
        "",
        "{",
        "{}",
        "no keys",
        &set_of(&[]),
        &set_of(&[rsa_jwk("a")]),
        &set_of(&[json!({"kty": "oct", "kid": "a", "k": base64("x".repeat(32))})]),
        &set_of(&[ed_jwk("a"), ed_jwk("a")]),
        &set_of(&[ed_jwk("")]),
        &set_of(&[json!({"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": base64("short")})]),
        &too_large,
    ] {
        file.replace(bad);
        jwt.refresh();
        assert!(jwt.verify(&token, at(0)).is_some(), "{bad:.40}");
        assert!(
            verifier(&file.path(), PublicKeyAlgorithm::EdDsa).is_err(),
            "{bad:.40}"
        );
    }
    fs::remove_file(file.path()).expect("it is there");
    jwt.refresh();
    assert!(jwt.verify(&token, at(0)).is_some());
    file.replace(&set_of(&[ed_jwk("b")]));
    jwt.refresh();
    assert!(
        jwt.verify(&token, at(0)).is_none(),
        "a good file counts again"
    );
}

#[test]
fn a_private_key_and_a_small_one_are_refused() {
    let pem = |label: &str, der: &[u8]| {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let file = File::of(&pem("PRIVATE KEY", RSA_PRIVATE));
    assert!(verifier(&file.path(), PublicKeyAlgorithm::Rs256).is_err());
    let mut small = rsa_jwk("s");
    small["n"] = json!(base64([0xd5; 128]));
    file.replace(&set_of(&[small]));
    let refused = verifier(&file.path(), PublicKeyAlgorithm::Rs256);
    assert!(matches!(
        refused,
        Err(JwtSetupError::Keys {
            source: KeyFileError::NoKey(_),
            ..
        })
    ));
}

#[test]
fn tokens_of_public_keys_are_not_issued_here() {
    let file = File::of(RSA_PUBLIC);
    let key = JwtKey::File {
        algorithm: PublicKeyAlgorithm::Rs256,
        path: file.path(),
    };
    let issued = issue(
        &plain(key),
        &AccountId::local(),
        Scopes::all(),
        at(0),
        SignedDuration::from_hours(1),
    );
    assert!(matches!(issued, Err(IssueError::NoSecret)));
}
