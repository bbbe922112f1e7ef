//! The `Idempotency-Key` of a request and what it stands for.

use std::str::FromStr;

/// Most characters a key may have.
const MAX_LENGTH: usize = 255;

/// A caller's `Idempotency-Key`: 1 to 255 printable ASCII characters. Its scope is the account and the operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

/// The text is no idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an Idempotency-Key has 1 to 255 printable ASCII characters")]
pub struct InvalidIdempotencyKey;

/// What a request asked for, as a blake3 digest: the same key with another fingerprint is another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl IdempotencyKey {
    /// The digest under which a store keeps the key, so that no key is ever at rest in the clear.
    ///
    /// `operation` separates the operations of one account: the same text may be used once in each.
    #[must_use]
    pub fn digest(&self, operation: &str) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("easel idempotency key v1");
        hasher
            .update(operation.as_bytes())
            .update(&[0])
            .update(self.0.as_bytes());
        hasher.finalize().into()
    }
}

impl FromStr for IdempotencyKey {
    type Err = InvalidIdempotencyKey;

    fn from_str(text: &str) -> Result<Self, InvalidIdempotencyKey> {
        let printable = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if printable && !text.is_empty() && text.len() <= MAX_LENGTH {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidIdempotencyKey)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_printable_ascii_of_1_to_255_characters() {
        for good in ["k", "7f3d 2c1b", &"x".repeat(255)] {
            assert!(good.parse::<IdempotencyKey>().is_ok(), "{good:?}");
        }
        for bad in ["", "a\nb", "a\u{7f}", "ä", &"x".repeat(256)] {
            assert!(bad.parse::<IdempotencyKey>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_key_is_another_one_in_another_operation() {
        let key: IdempotencyKey = "k".parse().expect("a valid key");
        assert_ne!(key.digest("jobs"), key.digest("assets"));
    }
}
