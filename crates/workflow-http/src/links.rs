//! The links of answers: follow-up addresses of jobs, and short-lived signed addresses of bytes.
//!
//! A signed link is made anew for every answer and needs no credential, so it is never logged.

use std::sync::Arc;

use asset_store::{Asset, BlobHash, Link, LinkKeys};
use jiff::{SignedDuration, Timestamp};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use workflow_core::{JobId, JobOutput};

/// All but the unreserved characters: no name of a file may mean anything to whoever reads the link.
const NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Makes the links of one answer.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    base: String,
    keys: Arc<LinkKeys>,
    lifetime: SignedDuration,
}

/// A signed link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignedUrl {
    pub(crate) url: String,
    pub(crate) expires_at: Timestamp,
}

impl Links {
    /// Links below `base`, an absolute address without a slash at its end.
    pub(crate) fn new(base: String, keys: Arc<LinkKeys>, lifetime: SignedDuration) -> Self {
        Self {
            base,
            keys,
            lifetime,
        }
    }

    /// The address of a job, or of what stands below it, such as `/events`.
    pub(crate) fn job(&self, id: JobId, below: &str) -> String {
        format!("{}/api/v2/jobs/{id}{below}", self.base)
    }

    pub(crate) fn asset(&self, asset: &Asset, now: Timestamp) -> SignedUrl {
        let name = asset.file_path.as_ref().map(|path| path.name());
        self.signed(
            asset.hash,
            asset.size_bytes,
            &asset.content_type,
            name.map_or_else(|| asset.hash.to_hex(), str::to_owned),
            now,
        )
    }

    pub(crate) fn output(&self, output: &JobOutput, now: Timestamp) -> SignedUrl {
        let name = output.path.name().to_owned();
        self.signed(
            output.hash,
            output.size_bytes,
            &output.content_type,
            name,
            now,
        )
    }

    fn signed(
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
            url: url(&self.base, &self.keys, &link),
            expires_at,
        }
    }
}

/// The signed address of an output's bytes below `base`, an absolute address without a slash at its end, until
/// `expires_at`. It needs no credential, so it is not to be logged.
#[must_use]
pub fn output_url(
    base: &str,
    keys: &LinkKeys,
    output: &JobOutput,
    expires_at: Timestamp,
) -> String {
    let link = Link {
        hash: output.hash,
        size_bytes: output.size_bytes,
        content_type: output.content_type.clone(),
        file_name: output.path.name().to_owned(),
        expires_at,
    };
    url(base, keys, &link)
}

fn url(base: &str, keys: &LinkKeys, link: &Link) -> String {
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
        let links = Links::new(
            "http://h:1/p".to_owned(),
            Arc::clone(&keys),
            SignedDuration::from_mins(15),
        );
        let now: Timestamp = "2026-01-01T00:00:00.9Z".parse().expect("a time");
        let signed = links.signed(
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
