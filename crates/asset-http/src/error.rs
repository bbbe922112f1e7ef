//! Why bytes are not sent.

use asset_store::AssetsError;
use http::HeaderValue;

/// Why bytes are not sent.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// A signed link is forged, changed or over.
    #[error("the link is invalid or has expired")]
    BadLink,
    /// The range begins behind the end; the value of `Content-Range` that says so.
    #[error("the range begins behind the end")]
    Unsatisfiable(HeaderValue),
    /// The bytes are gone or damaged, or the store failed.
    #[error(transparent)]
    Assets(#[from] AssetsError),
}
