//! Page cursors: a position in the catalog that only this installation can have written.
//!
//! A cursor names the id that a page ended with, so that it is good after a rebuild and never repeats a model. A keyed hash
//! covers it together with the account that it was given to.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;

use accounts::AccountId;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};

use crate::ModelId;

/// Most characters of a cursor (RouterPageCursor).
const LONGEST: usize = 512;

/// How long a cursor can be used.
const LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// Bytes of the keyed hash at the end.
const TAG: usize = 32;

/// Bytes of the expiry, before the id.
const EXPIRY: usize = 8;

/// The key that cursors are made and checked with: the same on every replica and after a restart.
#[derive(Clone)]
pub struct CursorKey([u8; 32]);

/// The text is no cursor of this installation and account, or it has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is invalid or has expired; start again without it")]
pub struct InvalidCursor;

impl CursorKey {
    /// The key that follows from a secret of the installation; the secret may serve other purposes.
    #[must_use]
    pub fn derived_from(secret: &[u8]) -> Self {
        Self(blake3::derive_key("easel router page cursor v1", secret))
    }

    /// The cursor of the page behind `position`.
    pub(crate) fn seal(&self, position: &ModelId, account: &AccountId, now: Timestamp) -> String {
        let expiry = (now + LIFETIME).as_second();
        let mut sealed = expiry.to_be_bytes().to_vec();
        sealed.extend_from_slice(position.as_str().as_bytes());
        let tag = self.tag(&sealed, account);
        sealed.extend_from_slice(tag.as_bytes());
        URL_SAFE_NO_PAD.encode(sealed)
    }

    /// The position in a cursor.
    pub(crate) fn open(
        &self,
        cursor: &str,
        account: &AccountId,
        now: Timestamp,
    ) -> Result<ModelId, InvalidCursor> {
        if cursor.len() > LONGEST {
            return Err(InvalidCursor);
        }
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| InvalidCursor)?;
        let (sealed, tag) = bytes.split_last_chunk::<TAG>().ok_or(InvalidCursor)?;
        // Two hashes are compared in constant time.
        if self.tag(sealed, account) != blake3::Hash::from_bytes(*tag) {
            return Err(InvalidCursor);
        }
        let (expiry, position) = sealed.split_first_chunk::<EXPIRY>().ok_or(InvalidCursor)?;
        if now.as_second() >= i64::from_be_bytes(*expiry) {
            return Err(InvalidCursor);
        }
        let position = std::str::from_utf8(position).map_err(|_| InvalidCursor)?;
        position.parse().map_err(|_| InvalidCursor)
    }

    fn tag(&self, sealed: &[u8], account: &AccountId) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        // An account id has no zero byte, so nothing moves between the two.
        hasher
            .update(account.as_str().as_bytes())
            .update(&[0])
            .update(sealed);
        hasher.finalize()
    }
}

impl std::fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CursorKey(..)")
    }
}

#[cfg(test)]
mod tests;
