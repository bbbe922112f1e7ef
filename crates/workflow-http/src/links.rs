//! The links of answers: follow-up addresses of jobs, and short-lived signed addresses of bytes.

use std::sync::Arc;

use asset_http::{SignedLinks, SignedUrl, signed_url};
use asset_store::{Asset, Link, LinkKeys};
use jiff::{SignedDuration, Timestamp};
use workflow_core::{JobId, JobOutput};

/// Makes the links of one answer.
#[derive(Clone, Debug)]
pub(crate) struct Links(SignedLinks);

impl Links {
    /// Links below `base`, an absolute address without a slash at its end.
    pub(crate) fn new(base: String, keys: Arc<LinkKeys>, lifetime: SignedDuration) -> Self {
        Self(SignedLinks::new(base, keys, lifetime))
    }

    /// The address of a job, or of what stands below it, such as `/events`.
    pub(crate) fn job(&self, id: JobId, below: &str) -> String {
        format!("{}/api/v2/jobs/{id}{below}", self.0.base())
    }

    pub(crate) fn asset(&self, asset: &Asset, now: Timestamp) -> SignedUrl {
        self.0.asset(asset, now)
    }

    pub(crate) fn output(&self, output: &JobOutput, now: Timestamp) -> SignedUrl {
        let name = output.path.name().to_owned();
        self.0.blob(
            output.hash,
            output.size_bytes,
            &output.content_type,
            name,
            now,
        )
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
    signed_url(base, keys, &link)
}
