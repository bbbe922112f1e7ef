//! Short-lived signed addresses of bytes.
//!
//! A signed link is made anew for every answer and needs no credential, so it is never logged.

use std::sync::Arc;

use asset_store::{Asset, BlobHash, Link, LinkKeys};
use jiff::{SignedDuration, Timestamp};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but the unreserved characters: no name of a file may mean anything to a reader of the link.
const NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Makes the signed links of one answer.
#[derive(Clone, Debug)]
pub struct SignedLinks {
    base: String,
    keys: Arc<LinkKeys>,
    lifetime: SignedDuration,
}

/// A signed link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedUrl {
    /// The absolute address.
    pub url: String,
    /// When it stops working.
    pub expires_at: Timestamp,
}

impl SignedLinks {
    /// Links below `base`, an absolute address without a slash at its end.
    #[must_use]
    pub fn new(base: String, keys: Arc<LinkKeys>, lifetime: SignedDuration) -> Self {
        Self {
            base,
            keys,
            lifetime,
        }
    }

    /// What every link begins with.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// A link to the bytes of a record, under the name of its file.
    #[must_use]
    pub fn asset(&self, asset: &Asset, now: Timestamp) -> SignedUrl {
        let name = asset.file_path.as_ref().map(|path| path.name());
        self.blob(
            asset.hash,
            asset.size_bytes,
            &asset.content_type,
            name.map_or_else(|| asset.hash.to_hex(), str::to_owned),
            now,
        )
    }

    /// A link to bytes, under a name.
    #[must_use]
    pub fn blob(
        &self,
        hash: BlobHash,
        size_bytes: u64,
        content_type: &str,
        file_name: String,
        now: Timestamp,
    ) -> SignedUrl {
        // To the second, as the token keeps it.
        let end = now.saturating_add(self.lifetime).unwrap_or(Timestamp::MAX);
        let expires_at = Timestamp::from_second(end.as_second()).unwrap_or(end);
        let link = Link {
            hash,
            size_bytes,
            content_type: content_type.to_owned(),
            file_name,
            expires_at,
        };
        SignedUrl {
            url: signed_url(&self.base, &self.keys, &link),
            expires_at,
        }
    }
}

/// The address of a link below `base`, an absolute address without a slash at its end. It needs no credential, so it is not to
/// be logged.
#[must_use]
pub fn signed_url(base: &str, keys: &LinkKeys, link: &Link) -> String {
    let token = keys.sign(link);
    let name = utf8_percent_encode(&link.file_name, NAME);
    format!("{base}/signed/{token}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_link_verifies_under_the_name_at_its_end() {
        let keys = Arc::new(LinkKeys::new(vec![(1, [7; 32])]));
        let links = SignedLinks::new(
            "http://h:1/p".to_owned(),
            Arc::clone(&keys),
            SignedDuration::from_mins(15),
        );
        let now: Timestamp = "2026-01-01T00:00:00.9Z".parse().expect("a time");
        let signed = links.blob(
            BlobHash::of(b"x"),
            1,
            "image/png",
            "a b/é?#.png".to_owned(),
            now,
        );
        let path = signed
            .url
            .strip_prefix("http://h:1/p/signed/")
            .expect("the base");
        let (token, name) = path.split_once('/').expect("two segments");
        assert_eq!(name, "a%20b%2F%C3%A9%3F%23.png");
        let link = keys
            .verify(token, "a b/é?#.png", now)
            .expect("the link is ours");
        assert_eq!(link.expires_at, signed.expires_at);
        assert_eq!(signed.expires_at.to_string(), "2026-01-01T00:15:00Z");
    }
}
