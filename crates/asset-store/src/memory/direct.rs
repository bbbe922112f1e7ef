//! Addresses of blobs in a map, and the one who reads there in place of a server.
//!
//! An address says all about itself and carries a sum under a secret of the store: nothing is remembered for it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};

use super::MemoryBlobs;
use crate::{Blob, BlobError, BlobHash, BlobStore, DirectAnswer, DirectReads, Presented};

/// What addresses begin with.
const SCHEME: &str = "memory:";

/// A secret that addresses are signed with: other ones in each store.
#[derive(Debug)]
pub(super) struct AddressKey([u8; 32]);

impl AddressKey {
    pub(super) fn random() -> Self {
        let mut hasher = blake3::Hasher::new();
        for _ in 0..4 {
            // Each has keys of its own, from the randomness of the system.
            let random = RandomState::new().build_hasher().finish();
            hasher.update(&random.to_be_bytes());
        }
        Self(hasher.finalize().into())
    }

    fn sign(&self, text: &str) -> String {
        blake3::keyed_hash(&self.0, text.as_bytes())
            .to_hex()
            .to_string()
    }
}

impl MemoryBlobs {
    /// What a reader gets at an address, who asks for all bytes or for a range of them; `None` if the address does not work.
    #[must_use]
    pub fn read_at(&self, address: &str, range: Option<Range<u64>>) -> Option<DirectAnswer> {
        let (said, signature) = address.rsplit_once('/')?;
        if self.inner.address_key.sign(said) != signature {
            return None;
        }
        let mut parts = said.strip_prefix(SCHEME)?.split('/');
        let hash = BlobHash::from_hex(parts.next()?).ok()?;
        let until: i64 = parts.next()?.parse().ok()?;
        let mut text = || {
            let bytes = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
            String::from_utf8(bytes).ok()
        };
        let (content_type, disposition) = (text()?, text()?);
        if (self.inner.clock)().as_microsecond() >= until {
            return None;
        }
        // As a bucket does, it gives out what lies there.
        let bytes = self.inner.blobs().get(&hash)?.bytes.clone();
        let range = range.unwrap_or(0..bytes.len() as u64);
        let start = usize::try_from(range.start).ok()?;
        let end = usize::try_from(range.end).ok()?;
        let is_there = start <= end && end <= bytes.len();
        is_there.then(|| DirectAnswer {
            content_type,
            disposition,
            bytes: bytes.slice(start..end),
        })
    }
}

#[async_trait]
impl DirectReads for MemoryBlobs {
    async fn address(
        &self,
        blob: &Blob,
        presented: Presented<'_>,
        lasts: Duration,
    ) -> Result<Option<String>, BlobError> {
        let end = blob.size_bytes;
        self.open(&blob.hash, end..end).await?;
        let lasts = SignedDuration::try_from(lasts).unwrap_or(SignedDuration::MAX);
        let until = (self.inner.clock)().saturating_add(lasts);
        let until = until.unwrap_or(Timestamp::MAX).as_microsecond();
        let [content_type, disposition] = [presented.content_type, presented.disposition]
            .map(|text| URL_SAFE_NO_PAD.encode(text));
        let said = format!(
            "{SCHEME}{}/{until}/{content_type}/{disposition}",
            blob.hash.to_hex()
        );
        let signature = self.inner.address_key.sign(&said);
        Ok(Some(format!("{said}/{signature}")))
    }
}
