//! JSON Web Tokens: which are taken, and what they say.
//!
//! The algorithm is settled by the configuration and never by a token; what a token says of where its key is to be had
//! (`jku`, `x5u`, `jwk`) is not looked at, and its `kid` only picks among keys that are known. The time is an argument.

mod backend;
mod cache;
mod claims;
mod issue;
mod keys;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use accounts::{AccountId, KeyHash, Scopes};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, Validation, decode, decode_header};
use secrecy::{ExposeSecret, SecretString};

pub use backend::SelfTestFailed;
pub use issue::{IssueError, issue};
pub use keys::KeyFileError;

use cache::Cache;
use claims::Claims;
use keys::{Keys, Stamp};

/// Fewest bytes of a secret: those of the hash (RFC 7518, 3.2).
pub const FEWEST_SECRET_BYTES: usize = 32;

/// Longest token that is looked at.
const MOST_TOKEN_BYTES: usize = 8 * 1024;

/// Which tokens are taken.
#[derive(Clone, Debug)]
pub struct JwtConfig {
    /// What signatures are checked with; it settles the algorithm.
    pub key: JwtKey,
    /// The `iss` that tokens must have, if one is asked for.
    pub issuer: Option<String>,
    /// The `aud` that tokens must name, if one is asked for.
    pub audience: Option<String>,
}

/// What signatures are checked with.
#[derive(Clone, Debug)]
pub enum JwtKey {
    /// HS256, with this secret of at least 32 bytes.
    Secret(SecretString),
    /// Signatures of public keys, of which the file holds one in PEM form or a set (JWKS).
    File {
        /// Their algorithm.
        algorithm: PublicKeyAlgorithm,
        /// The file; it is read again when it changes.
        path: PathBuf,
    },
}

/// An algorithm of public keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicKeyAlgorithm {
    /// RSA with PKCS #1 padding and SHA-256.
    Rs256,
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

/// Why tokens cannot be verified at all.
#[derive(Debug, thiserror::Error)]
pub enum JwtSetupError {
    /// The secret is too short to be one.
    #[error("the secret for tokens has fewer than 32 bytes")]
    ShortSecret,
    /// The file of keys cannot be used.
    #[error("the file of keys {} cannot be used", path.display())]
    Keys {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: KeyFileError,
    },
    /// The backend is broken.
    #[error(transparent)]
    SelfTest(#[from] SelfTestFailed),
}

/// Verifies tokens.
pub struct Jwt {
    config: JwtConfig,
    /// The signature and the claims of the library's own that are judged; times, issuer and audience are judged here.
    validation: Validation,
    current: RwLock<Arc<Current>>,
    /// The file as it was last looked at.
    seen: Mutex<Stamp>,
}

/// Keys, and what was verified with them.
#[derive(Debug)]
struct Current {
    keys: Keys,
    cache: Cache,
}

/// What a verified token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Whose it is: the claim `workspace`.
    pub account: AccountId,
    /// What it allows: the known ones of the claim `scopes`.
    pub scopes: Scopes,
    /// It counts from here, leeway included,
    from: Timestamp,
    /// until here.
    pub(crate) until: Timestamp,
}

/// Why a token is not taken; for the log, never for its bearer.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("the token is longer than 8 KiB")]
    Long,
    #[error("no known key has the `kid` of the token")]
    Kid,
    #[error("the token asks for an extension (`crit`)")]
    Critical,
    #[error(transparent)]
    Token(#[from] jsonwebtoken::errors::Error),
    #[error(transparent)]
    Claims(#[from] claims::ClaimFault),
}

impl Jwt {
    /// Reads the keys and tests the backend.
    ///
    /// # Errors
    /// If there is no key to verify with.
    pub fn new(config: JwtConfig) -> Result<Self, JwtSetupError> {
        backend::install()?;
        let (algorithm, keys, seen) = match &config.key {
            JwtKey::Secret(secret) => {
                let secret = secret.expose_secret().as_bytes();
                if secret.len() < FEWEST_SECRET_BYTES {
                    return Err(JwtSetupError::ShortSecret);
                }
                let keys = Keys::One(DecodingKey::from_secret(secret));
                (Algorithm::HS256, keys, Stamp::none())
            }
            JwtKey::File { algorithm, path } => {
                let seen = Stamp::of(path);
                let keys = Keys::read(path, *algorithm).map_err(|source| JwtSetupError::Keys {
                    path: path.clone(),
                    source,
                })?;
                (algorithm.as_library(), keys, seen)
            }
        };
        let mut validation = Validation::new(algorithm);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        Ok(Self {
            config,
            validation,
            current: RwLock::new(Arc::new(Current::of(keys))),
            seen: Mutex::new(seen),
        })
    }

    /// What a token says, if it counts at `now`.
    #[must_use]
    pub fn verify(&self, token: &str, now: Timestamp) -> Option<Claimed> {
        match self.judge(token, now) {
            Ok(claimed) => Some(claimed),
            Err(fault) => {
                tracing::debug!(reason = %fault, "a token is refused");
                None
            }
        }
    }

    /// As [`Jwt::verify`], with the fingerprint of the key that verified the token.
    pub(crate) fn verify_with_key(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Option<(Claimed, KeyHash)> {
        let current = self.current();
        let claimed = self.judge_with(&current, token, now).ok()?;
        let header = decode_header(token).ok()?;
        let key = current.keys.find(header.kid.as_deref())?;
        Some((claimed, self.fingerprint(key)))
    }

    /// Whether tokens of the key with this fingerprint are accepted now.
    pub(crate) fn accepts_key(&self, fingerprint: &KeyHash) -> bool {
        let current = self.current();
        let mut keys = current.keys.all();
        keys.any(|key| self.fingerprint(key) == *fingerprint)
    }

    /// What tells a key from every other. Another issuer or audience makes another fingerprint: what an operator no longer
    /// accepts as a token must not live on as a session.
    fn fingerprint(&self, key: &DecodingKey) -> KeyHash {
        let key = match key.kind() {
            DecodingKeyKind::SecretOrDer(bytes) => (bytes.as_slice(), [].as_slice()),
            DecodingKeyKind::RsaModulusExponent { n, e } => (n.as_slice(), e.as_slice()),
        };
        let (issuer, audience) = (&self.config.issuer, &self.config.audience);
        KeyHash::of(&format!("{key:?} {issuer:?} {audience:?}"))
    }

    /// Reads the file of keys again if it changed. A file that cannot be used changes nothing and is logged once.
    ///
    /// It touches the disk; the keys of a secret never change.
    pub fn refresh(&self) {
        let JwtKey::File { algorithm, path } = &self.config.key else {
            return;
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(path);
        if *seen == stamp {
            return;
        }
        *seen = stamp;
        match Keys::read(path, *algorithm) {
            Ok(keys) => {
                // The cache goes with the keys: what a withdrawn key signed must not live on in it.
                *self.current.write().unwrap_or_else(PoisonError::into_inner) =
                    Arc::new(Current::of(keys));
                tracing::info!(path = %path.display(), "the keys for tokens were read again");
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(path = %path.display(), error, "the changed file of keys cannot be used; the keys before it stay in force");
            }
        }
    }

    fn judge(&self, token: &str, now: Timestamp) -> Result<Claimed, Fault> {
        self.judge_with(&self.current(), token, now)
    }

    fn judge_with(&self, current: &Current, token: &str, now: Timestamp) -> Result<Claimed, Fault> {
        if token.len() > MOST_TOKEN_BYTES {
            return Err(Fault::Long);
        }
        if let Some(claimed) = current.cache.get(token) {
            claimed.at(now)?;
            return Ok(claimed);
        }
        let header = decode_header(token)?;
        if header.crit.is_some() {
            return Err(Fault::Critical);
        }
        let key = current.keys.find(header.kid.as_deref()).ok_or(Fault::Kid)?;
        let claims = decode::<Claims>(token, key, &self.validation)?.claims;
        let claimed = claims.read(
            self.config.issuer.as_deref(),
            self.config.audience.as_deref(),
        )?;
        claimed.at(now)?;
        current.cache.put(token, claimed.clone());
        Ok(claimed)
    }

    fn current(&self) -> Arc<Current> {
        let current = self.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }
}

impl Current {
    fn of(keys: Keys) -> Self {
        let cache = Cache::default();
        Self { keys, cache }
    }
}

impl PublicKeyAlgorithm {
    fn as_library(self) -> Algorithm {
        match self {
            Self::Rs256 => Algorithm::RS256,
            Self::Es256 => Algorithm::ES256,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }
}

impl fmt::Display for PublicKeyAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        })
    }
}

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwt")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
