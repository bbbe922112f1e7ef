//! Signed links: bytes for whoever holds the link, without any other credential.
//!
//! The link is the whole authority. It is checked before anything is looked up, and says no more than that it is over.

use asset_store::{Assets, LinkKeys};
use http::Response;
use http::request::Parts;
use hyper_kit::{Body, Params};
use jiff::Timestamp;

use crate::content::{self, Representation};
use crate::v2::errors::ApiError;

/// The route, outside every API: links survive a change of the API that made them.
pub(crate) const PATTERN: &str = "/signed/{token}/{name}";

/// Answers a GET or HEAD of a signed link.
///
/// # Errors
/// [`ApiError::BadLink`] for whatever was not signed here or is over; [`ApiError::Assets`] if the bytes are gone.
pub(crate) async fn serve(
    assets: &Assets,
    keys: &LinkKeys,
    request: &Parts,
    params: &Params,
    now: Timestamp,
) -> Result<Response<Body>, ApiError> {
    let link = keys
        .verify(&params["token"], &params["name"], now)
        .map_err(|_| ApiError::BadLink)?;
    let shown = Representation {
        hash: link.hash,
        size_bytes: link.size_bytes,
        content_type: &link.content_type,
        file_name: &link.file_name,
    };
    content::serve(assets, request, &shown).await
}
