//! The keys that signatures are checked with: a secret, one public key, or a set of them, from a file.
//!
//! A file is judged whole before any of it counts. Keys are of the one configured algorithm; those of others are passed
//! over, and a secret among public keys never counts: a reader of the file could sign with it.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse,
};
use jsonwebtoken::{DecodingKey, DecodingKeyKind};

use super::PublicKeyAlgorithm;

/// Largest file of keys: hundreds of them.
const MOST_BYTES: u64 = 256 * 1024;

/// The smallest modulus of RSA that counts, in bytes: 2,048 bits.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// Keys of one algorithm.
#[derive(Debug)]
pub(super) enum Keys {
    /// One, whatever a token calls its key.
    One(DecodingKey),
    /// Several, by the `kid` that a token must name.
    Set(HashMap<String, DecodingKey>),
}

/// Why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read.
    #[error("it cannot be read")]
    Unreadable(#[from] std::io::Error),
    /// It is too large to be one.
    #[error("it is larger than 256 KiB")]
    TooLarge,
    /// It is neither a public key in PEM nor a JSON Web Key Set.
    #[error("it is neither a public key in PEM form nor a JSON Web Key Set")]
    Format,
    /// It holds no key of the configured algorithm.
    #[error("it holds no key for {0}, of at least 2048 bits for RSA")]
    NoKey(PublicKeyAlgorithm),
    /// Two keys have one name, or one has none.
    #[error("every key of a set has a `kid` of its own, and {0:?} is missing or there twice")]
    Kid(String),
}

/// What tells a changed file from an unchanged one without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Option<(SystemTime, u64, u64)>);

impl Stamp {
    /// The stamp of no file.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// The stamp of the file as it is now; that of a file that cannot be seen equals that of another such one.
    pub(super) fn of(path: &Path) -> Self {
        use std::os::unix::fs::MetadataExt;
        let seen = fs::metadata(path).ok();
        Self(seen.and_then(|seen| Some((seen.modified().ok()?, seen.len(), seen.ino()))))
    }
}

impl Keys {
    /// The key that a token with this `kid` is to be checked with.
    pub(super) fn find(&self, kid: Option<&str>) -> Option<&DecodingKey> {
        match self {
            Self::One(key) => Some(key),
            Self::Set(keys) => keys.get(kid?),
        }
    }

    /// Every key.
    pub(super) fn all(&self) -> Box<dyn Iterator<Item = &DecodingKey> + '_> {
        match self {
            Self::One(key) => Box::new(std::iter::once(key)),
            Self::Set(keys) => Box::new(keys.values()),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If any of it cannot be used.
    pub(super) fn read(path: &Path, algorithm: PublicKeyAlgorithm) -> Result<Self, KeyFileError> {
        let mut bytes = Vec::new();
        fs::File::open(path)?
            .take(MOST_BYTES + 1)
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(KeyFileError::TooLarge);
        }
        if bytes.trim_ascii_start().starts_with(b"{") {
            return set(&bytes, algorithm).map(Self::Set);
        }
        let key = match algorithm {
            PublicKeyAlgorithm::Rs256 => DecodingKey::from_rsa_pem(&bytes),
            PublicKeyAlgorithm::Es256 => DecodingKey::from_ec_pem(&bytes),
            PublicKeyAlgorithm::EdDsa => DecodingKey::from_ed_pem(&bytes),
        };
        let key = key.map_err(|_| KeyFileError::Format)?;
        // A private key reads as well, and its holder can sign.
        let private = bytes.windows(11).any(|window| window == b"PRIVATE KEY");
        if private {
            return Err(KeyFileError::Format);
        }
        if !fits(&key, algorithm) {
            return Err(KeyFileError::NoKey(algorithm));
        }
        Ok(Self::One(key))
    }
}

fn set(
    bytes: &[u8],
    algorithm: PublicKeyAlgorithm,
) -> Result<HashMap<String, DecodingKey>, KeyFileError> {
    let set: JwkSet = serde_json::from_slice(bytes).map_err(|_| KeyFileError::Format)?;
    let mut keys = HashMap::new();
    for jwk in set.keys.iter().filter(|jwk| is_for(jwk, algorithm)) {
        let key = DecodingKey::from_jwk(jwk).map_err(|_| KeyFileError::Format)?;
        if !fits(&key, algorithm) {
            return Err(KeyFileError::NoKey(algorithm));
        }
        let kid = jwk.common.key_id.clone().unwrap_or_default();
        if kid.is_empty() || keys.contains_key(&kid) {
            return Err(KeyFileError::Kid(kid));
        }
        keys.insert(kid, key);
    }
    if keys.is_empty() {
        return Err(KeyFileError::NoKey(algorithm));
    }
    Ok(keys)
}

/// Whether a key says of itself that it checks signatures of this algorithm.
fn is_for(jwk: &Jwk, algorithm: PublicKeyAlgorithm) -> bool {
    let (named, kind) = match (algorithm, &jwk.algorithm) {
        (PublicKeyAlgorithm::Rs256, AlgorithmParameters::RSA(_)) => (KeyAlgorithm::RS256, true),
        (PublicKeyAlgorithm::Es256, AlgorithmParameters::EllipticCurve(key)) => {
            (KeyAlgorithm::ES256, key.curve == EllipticCurve::P256)
        }
        (PublicKeyAlgorithm::EdDsa, AlgorithmParameters::OctetKeyPair(key)) => {
            (KeyAlgorithm::EdDSA, key.curve == EllipticCurve::Ed25519)
        }
        (PublicKeyAlgorithm::Rs256 | PublicKeyAlgorithm::Es256 | PublicKeyAlgorithm::EdDsa, _) => {
            return false;
        }
    };
    let signs = match &jwk.common.public_key_use {
        None | Some(PublicKeyUse::Signature) => true,
        Some(PublicKeyUse::Encryption | PublicKeyUse::Other(_)) => false,
    };
    let other = jwk
        .common
        .key_algorithm
        .is_some_and(|algorithm| algorithm != named);
    kind && signs && !other
}

/// Whether a key has the size that its algorithm asks for; ring would refuse every signature of another one.
fn fits(key: &DecodingKey, algorithm: PublicKeyAlgorithm) -> bool {
    match (algorithm, key.kind()) {
        // The key in DER form is a little longer than its modulus.
        (PublicKeyAlgorithm::Rs256, DecodingKeyKind::SecretOrDer(der)) => {
            der.len() >= *RSA_BYTES.start()
        }
        (PublicKeyAlgorithm::Rs256, DecodingKeyKind::RsaModulusExponent { n, .. }) => {
            let zeros = n.iter().take_while(|byte| **byte == 0).count();
            RSA_BYTES.contains(&(n.len() - zeros))
        }
        (PublicKeyAlgorithm::Es256, DecodingKeyKind::SecretOrDer(point)) => {
            point.len() == 65 && point[0] == 4
        }
        (PublicKeyAlgorithm::EdDsa, DecodingKeyKind::SecretOrDer(point)) => point.len() == 32,
        (
            PublicKeyAlgorithm::Es256 | PublicKeyAlgorithm::EdDsa,
            DecodingKeyKind::RsaModulusExponent { .. },
        ) => false,
    }
}
