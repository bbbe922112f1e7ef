//! The file of the keys that tokens are signed with changes while the router runs.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use it::Log;
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::*;

/// The pair of keys that grows from a number.
fn pair(number: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[number; 32]).unwrap()
}

/// A set of its public half alone, under a name of its own.
fn set_of(number: u8) -> String {
    let x = URL_SAFE_NO_PAD.encode(pair(number).public_key());
    let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": format!("key-{number}"), "x": x});
    json!({"keys": [key]}).to_string()
}

/// A token of `acme`, signed with it.
fn token(number: u8) -> String {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let expires = Timestamp::now().as_second() + 3600;
    let head = part(json!({"alg": "EdDSA", "kid": format!("key-{number}")}));
    let claims = json!({"workspace": "acme", "scopes": ["router:run"], "exp": expires});
    let signed = format!("{head}.{}", part(claims));
    let signature = URL_SAFE_NO_PAD.encode(pair(number).sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

#[tokio::test]
async fn a_changed_file_of_keys_counts_for_the_running_program() {
    let keys = tempfile::tempdir().unwrap();
    let (file, new) = (keys.path().join("keys.json"), keys.path().join("new"));
    fs::write(&file, set_of(1)).unwrap();
    let flags = [
        "--jwt-keys",
        file.to_str().unwrap(),
        "--jwt-algorithm",
        "EdDSA",
    ];
    let rig = Rig::with(&flags, &[]).await;
    let mut log = Log::of(&rig.folder.path().join("log"));
    let seen = async |number| {
        let bearer = format!("Bearer {}", token(number));
        let list = Request::get("/v1/models").header("Authorization", &bearer);
        rig.send(list).await.status
    };
    assert_eq!((seen(1).await, seen(2).await), (200, 401));

    // Replaced whole, as an operator would.
    fs::write(&new, set_of(2)).unwrap();
    fs::rename(&new, &file).unwrap();
    log.next("the keys for tokens were read again").await;
    assert_eq!((seen(1).await, seen(2).await), (401, 200));

    // What cannot be read changes nothing.
    fs::write(&new, "{").unwrap();
    fs::rename(&new, &file).unwrap();
    log.next("the changed file of keys cannot be used").await;
    assert_eq!((seen(1).await, seen(2).await), (401, 200));
}
