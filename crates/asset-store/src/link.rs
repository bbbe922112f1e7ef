//! Short-lived links: a token that carries what may be read and a keyed hash that nobody else can make.
//!
//! A link names bytes, not an account or a record, and covers the file name behind it. Tokens are made and checked by pure
//! functions of a key; a store that presigns its own links takes their place when it comes.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;

use crate::BlobHash;

/// Format of the token; part of what is signed.
const VERSION: u8 = 1;

/// Bytes before the content type: version, key id, expiry, size, hash.
const HEAD: usize = 1 + 4 + 8 + 8 + 32;

/// Bytes of the keyed hash at the end.
const MAC: usize = 32;

/// What a link lets its bearer read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The bytes.
    pub hash: BlobHash,
    /// How many.
    pub size_bytes: u64,
    /// Their media type.
    pub content_type: String,
    /// The file name at the end of the link.
    pub file_name: String,
    /// When it stops working, to the second.
    pub expires_at: Timestamp,
}

/// The keys that sign links: the newest signs, every one of them verifies.
pub struct LinkKeys {
    keys: Vec<(u32, [u8; 32])>,
}

/// The link was not made here, was changed, or is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link is invalid or has expired")]
pub struct InvalidLink;

impl LinkKeys {
    /// Keys by id, the newest last.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn new(keys: Vec<(u32, [u8; 32])>) -> Self {
        assert!(!keys.is_empty(), "links need at least one key");
        Self { keys }
    }

    /// The token of a link, safe in a path.
    #[must_use]
    pub fn sign(&self, link: &Link) -> String {
        let (id, key) = self
            .keys
            .last()
            .expect("the constructor wants at least one key");
        let mut token = Vec::with_capacity(HEAD + link.content_type.len() + MAC);
        token.push(VERSION);
        token.extend_from_slice(&id.to_be_bytes());
        token.extend_from_slice(&link.expires_at.as_second().to_be_bytes());
        token.extend_from_slice(&link.size_bytes.to_be_bytes());
        token.extend_from_slice(link.hash.as_bytes());
        token.extend_from_slice(link.content_type.as_bytes());
        let mac = mac(key, &token, &link.file_name);
        token.extend_from_slice(mac.as_bytes());
        URL_SAFE_NO_PAD.encode(token)
    }

    /// What a token and the file name behind it allow.
    ///
    /// # Errors
    /// If a single bit of either is not as it was signed, the key is unknown, or the link is over.
    pub fn verify(
        &self,
        token: &str,
        file_name: &str,
        now: Timestamp,
    ) -> Result<Link, InvalidLink> {
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| InvalidLink)?;
        let signed_length = bytes
            .len()
            .checked_sub(MAC)
            .filter(|length| *length >= HEAD)
            .ok_or(InvalidLink)?;
        let (signed, given) = bytes.split_at(signed_length);
        let mut fields = Fields(signed);
        let [version] = fields.take()?;
        let id = u32::from_be_bytes(fields.take()?);
        let expires_at = i64::from_be_bytes(fields.take()?);
        let size_bytes = u64::from_be_bytes(fields.take()?);
        let hash = BlobHash::from_bytes(fields.take()?);
        let content_type = std::str::from_utf8(fields.0).map_err(|_| InvalidLink)?;

        let key = self
            .keys
            .iter()
            .find(|(known, _)| *known == id)
            .map(|(_, key)| key)
            .ok_or(InvalidLink)?;
        let given: [u8; MAC] = given.try_into().map_err(|_| InvalidLink)?;
        // Equality of two `blake3::Hash` takes constant time.
        let authentic = mac(key, signed, file_name) == blake3::Hash::from_bytes(given);
        let expires_at = Timestamp::from_second(expires_at).map_err(|_| InvalidLink)?;
        if version != VERSION || !authentic || expires_at <= now {
            return Err(InvalidLink);
        }
        let (content_type, file_name) = (content_type.to_owned(), file_name.to_owned());
        Ok(Link {
            hash,
            size_bytes,
            content_type,
            file_name,
            expires_at,
        })
    }
}

/// Keyed hash over the method that a link allows, its fields and its file name.
fn mac(key: &[u8; 32], signed: &[u8], file_name: &str) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(key);
    // The length keeps a byte from moving between the content type and the file name.
    hasher
        .update(b"easel link GET\n")
        .update(&(signed.len() as u64).to_be_bytes());
    hasher.update(signed).update(file_name.as_bytes());
    hasher.finalize()
}

/// Fixed-size fields, taken from the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], InvalidLink> {
        let (field, rest) = self.0.split_first_chunk().ok_or(InvalidLink)?;
        self.0 = rest;
        Ok(*field)
    }
}

impl std::fmt::Debug for LinkKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LinkKeys({} keys)", self.keys.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn link() -> Link {
        Link {
            hash: BlobHash::of(b"picture"),
            size_bytes: 7,
            content_type: "image/png".to_owned(),
            file_name: "a.png".to_owned(),
            expires_at: second(1_000),
        }
    }

    #[test]
    fn a_link_reads_back_until_it_is_over() {
        let keys = LinkKeys::new(vec![(1, [1; 32])]);
        let token = keys.sign(&link());
        assert_eq!(keys.verify(&token, "a.png", second(999)), Ok(link()));
        assert_eq!(
            keys.verify(&token, "a.png", second(1_000)),
            Err(InvalidLink)
        );
    }

    #[test]
    fn no_flipped_bit_and_no_other_name_is_accepted() {
        let keys = LinkKeys::new(vec![(1, [1; 32])]);
        let token = URL_SAFE_NO_PAD
            .decode(keys.sign(&link()))
            .expect("a token is base64url");
        for bit in 0..token.len() * 8 {
            let mut forged = token.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let forged = URL_SAFE_NO_PAD.encode(forged);
            assert_eq!(
                keys.verify(&forged, "a.png", second(0)),
                Err(InvalidLink),
                "bit {bit}"
            );
        }
        let token = URL_SAFE_NO_PAD.encode(token);
        for name in ["b.png", "", "a.png2", "a.pn"] {
            assert_eq!(
                keys.verify(&token, name, second(0)),
                Err(InvalidLink),
                "{name}"
            );
        }
        for cut in 0..token.len() {
            assert_eq!(
                keys.verify(&token[..cut], "a.png", second(0)),
                Err(InvalidLink)
            );
        }
    }

    #[test]
    fn an_older_key_still_verifies_and_a_withdrawn_one_does_not() {
        let token = LinkKeys::new(vec![(1, [1; 32])]).sign(&link());
        let rotated = LinkKeys::new(vec![(1, [1; 32]), (2, [2; 32])]);
        assert!(rotated.verify(&token, "a.png", second(0)).is_ok());
        let withdrawn = LinkKeys::new(vec![(2, [2; 32])]);
        assert_eq!(
            withdrawn.verify(&token, "a.png", second(0)),
            Err(InvalidLink)
        );
        let swapped = LinkKeys::new(vec![(1, [3; 32])]);
        assert_eq!(swapped.verify(&token, "a.png", second(0)), Err(InvalidLink));
    }
}
