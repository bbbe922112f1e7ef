//! Credentials at rest: only their hashes.

use std::fmt;

/// The blake3 hash of a bearer credential. Credentials are long random texts, so a fast hash is enough; comparing two hashes
/// takes constant time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(blake3::Hash);

impl KeyHash {
    /// Hashes a credential as it came with a request.
    #[must_use]
    pub fn of(credential: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("easel credential v1");
        hasher.update(credential.as_bytes());
        Self(hasher.finalize())
    }

    /// The hash of a digest that a store kept.
    #[must_use]
    pub fn from_bytes(digest: [u8; 32]) -> Self {
        Self(blake3::Hash::from_bytes(digest))
    }

    /// The digest, as a store keeps it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not even the hash belongs into a log line.
        f.write_str("KeyHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_credentials_have_equal_hashes_that_no_log_shows() {
        assert_eq!(KeyHash::of("secret"), KeyHash::of("secret"));
        assert_ne!(KeyHash::of("secret"), KeyHash::of("Secret"));
        let kept = *KeyHash::of("secret").as_bytes();
        assert_eq!(KeyHash::from_bytes(kept), KeyHash::of("secret"));
        assert_eq!(format!("{:?}", KeyHash::of("secret")), "KeyHash(..)");
    }
}
