//! API keys: how one is spelled, and what is remembered of it.
//!
//! A key is `easel_`, its id, `_` and its secret. The id is no secret: it says which key a leaked text is of. The prefix and
//! the missing dots tell a key from a JWT. The text is shown once and never kept; a store has its [`KeyHash`].

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};

use crate::{AccountId, DisplayName, KeyHash, Scopes};

/// What every key begins with.
const PREFIX: &str = "easel_";

/// Digits of ids and secrets: five bits each, none of them taken for another.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Bytes of randomness that make an id: 8 characters.
const ID_BYTES: usize = 5;

/// Bytes of randomness that make a secret: 52 characters.
const SECRET_BYTES: usize = 32;

/// Identifies an API key: 8 characters of its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(Arc<str>);

/// The text is no key id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key id is the 8 characters behind `easel_` in the key")]
pub struct InvalidKeyId;

/// What is remembered of an API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Its id.
    pub id: KeyId,
    /// Whose it is.
    pub account: AccountId,
    /// What people call it.
    pub name: DisplayName,
    /// What it allows.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it does not count any more.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A new key, for the eyes of its owner alone. Not printed by `Debug`.
#[derive(Debug)]
pub struct MintedKey {
    /// Its id.
    pub id: KeyId,
    /// Its text.
    pub text: SecretString,
}

impl MintedKey {
    /// Bytes that [`MintedKey::new`] wants.
    pub const RANDOM_BYTES: usize = ID_BYTES + SECRET_BYTES;

    /// Spells a key from bytes that nobody can guess.
    #[must_use]
    pub fn new(random: &[u8; Self::RANDOM_BYTES]) -> Self {
        let (id, secret) = random.split_at(ID_BYTES);
        let id = KeyId(spell(id).into());
        let text = format!("{PREFIX}{id}_{}", spell(secret)).into();
        Self { id, text }
    }

    /// What a store keeps of it.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        KeyHash::of(self.text.expose_secret())
    }
}

impl ApiKey {
    /// Whether a credential has the form of an API key; a JWT and a token of an operator's choice have not.
    #[must_use]
    pub fn is_spelled(credential: &str) -> bool {
        credential.starts_with(PREFIX)
    }

    /// Whether the key counts at a time.
    #[must_use]
    pub fn counts(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

impl KeyId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyId {
    type Err = InvalidKeyId;

    fn from_str(text: &str) -> Result<Self, InvalidKeyId> {
        let spelled = text.bytes().all(|byte| ALPHABET.contains(&byte));
        if spelled && text.len() == ID_BYTES * 8 / 5 {
            Ok(Self(text.into()))
        } else {
            Err(InvalidKeyId)
        }
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Five bits a digit, from the highest on; what is left at the end is filled up with zeros.
fn spell(bytes: &[u8]) -> String {
    let (mut text, mut pending, mut bits) = (String::new(), 0_u16, 0);
    for byte in bytes {
        pending = pending << 8 | u16::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(digit(pending >> bits));
            pending &= (1 << bits) - 1;
        }
    }
    if bits > 0 {
        text.push(digit(pending << (5 - bits)));
    }
    text
}

fn digit(value: u16) -> char {
    char::from(ALPHABET[usize::from(value & 31)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_what_it_is_and_which() {
        let mut random = [0; MintedKey::RANDOM_BYTES];
        random[0] = 0b0000_1000;
        random[MintedKey::RANDOM_BYTES - 1] = 1;
        let key = MintedKey::new(&random);
        let text = key.text.expose_secret();
        assert_eq!(
            text,
            "easel_baaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaas"
        );
        assert!(ApiKey::is_spelled(text) && !ApiKey::is_spelled("eyJhbGciOiJIUzI1NiJ9.e30.x"));
        assert_eq!(text[6..14].parse(), Ok(key.id.clone()));
        assert_eq!(key.hash(), KeyHash::of(text));
        assert!(!format!("{key:?}").contains("aas"), "{key:?}");
    }

    #[test]
    fn every_bit_of_randomness_counts() {
        let zero = [0; MintedKey::RANDOM_BYTES];
        let plain = MintedKey::new(&zero).hash();
        for bit in 0..MintedKey::RANDOM_BYTES * 8 {
            let mut random = zero;
            random[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(MintedKey::new(&random).hash(), plain, "bit {bit}");
        }
    }

    #[test]
    fn a_key_id_is_eight_digits() {
        for bad in [
            "",
            "abcdefg",
            "abcdefghi",
            "abcdefgl",
            "ABCDEFGH",
            "abcd efg",
        ] {
            assert_eq!(bad.parse::<KeyId>(), Err(InvalidKeyId), "{bad}");
        }
    }
}
