//! What checks and makes signatures: ring, plugged into `jsonwebtoken` as its backend.
//!
//! ring is linked anyway for TLS, and the ready-made backends bring either a second C library or an RSA with a known
//! timing flaw. The library looks its backend up in the process, and without one it compiles and panics on the first
//! token: so [`install`] proves at start that whatever is installed passes and refuses the examples of the RFCs.

use std::sync::OnceLock;

use jsonwebtoken::crypto::{self, CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result, new_error};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{UnparsedPublicKey, VerificationAlgorithm};
use ring::{hmac, signature as ring_signature};
use signature::{Error as Refused, Signer, Verifier};

/// The backend fails an example of the RFCs: nothing that it says of a token can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the backend for signatures fails the example for {0:?}; another one is installed in this process"
)]
pub struct SelfTestFailed(pub &'static str);

static RING: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Installs the backend once per process and tests it.
///
/// # Errors
/// If it fails a test, which only another backend that was installed before could.
pub(crate) fn install() -> std::result::Result<(), SelfTestFailed> {
    static TESTED: OnceLock<std::result::Result<(), SelfTestFailed>> = OnceLock::new();
    *TESTED.get_or_init(|| {
        // An embedder may have installed its own before; the examples judge that one then.
        let _kept_another = RING.install_default();
        self_test()
    })
}

struct Hs256(hmac::Key);

struct Public {
    algorithm: Algorithm,
    scheme: &'static dyn VerificationAlgorithm,
    key: DecodingKey,
}

/// The algorithms of public keys.
static SCHEMES: [(Algorithm, &dyn VerificationAlgorithm); 3] = [
    (
        Algorithm::RS256,
        &ring_signature::RSA_PKCS1_2048_8192_SHA256,
    ),
    (Algorithm::ES256, &ring_signature::ECDSA_P256_SHA256_FIXED),
    (Algorithm::EdDSA, &ring_signature::ED25519),
];

fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    if *algorithm != Algorithm::HS256 || key.family() != algorithm.family() {
        return Err(new_error(ErrorKind::UnsupportedAlgorithm));
    }
    Ok(Box::new(Hs256::new(key.as_bytes())))
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if key.family() != algorithm.family() {
        return Err(new_error(ErrorKind::InvalidKeyFormat));
    }
    if *algorithm == Algorithm::HS256 {
        return Ok(Box::new(Hs256::new(key.try_get_as_bytes()?)));
    }
    let known = SCHEMES.iter().find(|(known, _)| known == algorithm);
    let (algorithm, scheme) = known.ok_or_else(|| new_error(ErrorKind::UnsupportedAlgorithm))?;
    Ok(Box::new(Public {
        algorithm: *algorithm,
        scheme: *scheme,
        key: key.clone(),
    }))
}

// === impl Hs256 ===

impl Hs256 {
    fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }
}

impl Signer<Vec<u8>> for Hs256 {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Refused> {
        Ok(hmac::sign(&self.0, message).as_ref().to_vec())
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl Verifier<Vec<u8>> for Hs256 {
    /// Takes the same time wherever the signature differs.
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Refused> {
        hmac::verify(&self.0, message, signature).map_err(|_| Refused::new())
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

// === impl Public ===

impl Verifier<Vec<u8>> for Public {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Refused> {
        let verified = match self.key.kind() {
            DecodingKeyKind::SecretOrDer(key) => {
                UnparsedPublicKey::new(self.scheme, key).verify(message, signature)
            }
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                let scheme = &ring_signature::RSA_PKCS1_2048_8192_SHA256;
                ring_signature::RsaPublicKeyComponents { n, e }.verify(scheme, message, signature)
            }
        };
        verified.map_err(|_| Refused::new())
    }
}

impl JwtVerifier for Public {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

// === the examples of RFC 7515 (A.1 to A.3) and RFC 8037 (A.4) ===

const HS256_SECRET: &str =
    "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ+EstJQLr/T+1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow==";
const RS256_MODULUS: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
const ES256_X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
const ES256_Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
const EDDSA_X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

type KeyOf = fn() -> Result<DecodingKey>;

/// Name, algorithm, key, header and payload, and signature of each example.
const EXAMPLES: [(&str, Algorithm, KeyOf, &str, &str); 4] = [
    (
        "HS256",
        Algorithm::HS256,
        || DecodingKey::from_base64_secret(HS256_SECRET),
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    ),
    (
        "RS256",
        Algorithm::RS256,
        || DecodingKey::from_rsa_components(RS256_MODULUS, "AQAB"),
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
        "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
    ),
    (
        "ES256",
        Algorithm::ES256,
        || DecodingKey::from_ec_components(ES256_X, ES256_Y),
        "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
    ),
    (
        "EdDSA",
        Algorithm::EdDSA,
        || DecodingKey::from_ed_components(EDDSA_X),
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
        "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
    ),
];

fn self_test() -> std::result::Result<(), SelfTestFailed> {
    for (name, algorithm, key, message, signature) in EXAMPLES {
        let failed = SelfTestFailed(name);
        let key = key().map_err(|_| failed)?;
        let judge = |message: &str| crypto::verify(signature, message.as_bytes(), &key, algorithm);
        let takes = judge(message).map_err(|_| failed)?;
        let takes_another = judge(&format!("{message}A")).map_err(|_| failed)?;
        if !takes || takes_another {
            return Err(failed);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backend_passes_the_examples_of_the_rfcs() {
        assert_eq!(install(), Ok(()));
        assert_eq!(self_test(), Ok(()));
    }
}
