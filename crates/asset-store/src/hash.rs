//! The hash that names a blob.

use std::fmt;
use std::str::FromStr;

/// Names the algorithm on the wire: `blake3:<64 hex>`.
const PREFIX: &str = "blake3:";

/// The blake3 hash of a blob's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobHash([u8; 32]);

/// The text is no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hash is written `blake3:` followed by 64 hexadecimal digits")]
pub struct InvalidHash;

impl BlobHash {
    /// Hashes bytes at hand.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).into())
    }

    /// Takes a digest for what it is.
    #[must_use]
    pub fn from_bytes(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 lower-case hexadecimal digits, without prefix.
    #[must_use]
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// Reads 64 hexadecimal digits of either case, without prefix.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn from_hex(hex: &str) -> Result<Self, InvalidHash> {
        let lower = hex.to_ascii_lowercase();
        blake3::Hash::from_hex(lower)
            .map(|hash| Self(hash.into()))
            .map_err(|_| InvalidHash)
    }
}

impl From<blake3::Hash> for BlobHash {
    fn from(hash: blake3::Hash) -> Self {
        Self(hash.into())
    }
}

impl FromStr for BlobHash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        Self::from_hex(text.strip_prefix(PREFIX).ok_or(InvalidHash)?)
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.to_hex())
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_read_in_either_case_and_written_in_lower() {
        let hash = BlobHash::of(b"easel");
        let upper = format!("blake3:{}", hash.to_hex().to_ascii_uppercase());
        assert_eq!(upper.parse(), Ok(hash));
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!(hash.to_string(), hash.to_string().to_ascii_lowercase());
    }

    #[test]
    fn anything_else_is_no_hash() {
        let hex = BlobHash::of(b"").to_hex();
        let long = format!("blake3:{hex}0");
        let foreign = format!("sha256:{hex}");
        for bad in [
            "",
            "blake3:",
            &hex,
            &long,
            &foreign,
            "blake3:zz",
            "blake3:ä",
        ] {
            assert_eq!(bad.parse::<BlobHash>(), Err(InvalidHash), "{bad}");
        }
    }
}
