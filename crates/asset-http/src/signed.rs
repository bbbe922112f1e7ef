//! Signed links: bytes for the bearer of a link, without any other credential.
//!
//! The link is the whole authority. It is checked before anything is looked up, and the refusal says no more than that it does
//! not count.

use asset_store::{Assets, LinkKeys};
use http::Response;
use http::request::Parts;
use hyper_kit::{Body, Params};
use jiff::Timestamp;

use crate::content::{self, Representation};
use crate::error::ContentError;

/// The route, outside every API: links survive a change of the API that made them.
pub const PATTERN: &str = "/signed/{token}/{name}";

/// Answers a GET or HEAD of a signed link.
///
/// # Errors
/// [`ContentError::BadLink`] for whatever was not signed here or is over; [`ContentError::Assets`] if the bytes are gone.
pub async fn serve_link(
    assets: &Assets,
    keys: &LinkKeys,
    request: &Parts,
    params: &Params,
    now: Timestamp,
) -> Result<Response<Body>, ContentError> {
    let link = keys
        .verify(&params["token"], &params["name"], now)
        .map_err(|_| ContentError::BadLink)?;
    let shown = Representation {
        hash: link.hash,
        size_bytes: link.size_bytes,
        content_type: &link.content_type,
        file_name: &link.file_name,
    };
    content::serve(assets, request, &shown).await
}
