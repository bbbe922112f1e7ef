//! Looking at files: a redirect to a signed link, or a picture made of one.

use asset_store::{Asset, AssetQuery, Blob};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, VARY};
use http::{HeaderValue, Response, StatusCode};
use hyper_kit::Body;
use v1_compat::{FileKind, Shown, ViewRequest, ViewTarget};
use workflow_core::{JobId, JobsError, MadePicture};

use super::errors::ApiError;
use super::request::Call;
use super::{reply, upload};

/// A link works for a while only, and only its account may be given one.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-store");

/// GET /view.
pub(super) async fn view(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let request = ViewRequest::read(&call.query())?;
    let asset = find(call, &request.target)
        .await?
        .ok_or(ApiError::NotFound)?;
    let blob = blob(&asset);
    let tools = &call.v1.image_tools;
    let made = match request.shown {
        Shown::AsItIs => return redirect(call, &asset),
        Shown::Channel(channel) => tools.channel(blob, channel).await?,
        Shown::Preview(options) => tools.preview(blob, options).await?,
        Shown::Thumbnail(side) => tools.thumbnail(blob, side).await?,
    };
    Ok(picture(made))
}

/// The record of a file that the account knows by this name.
pub(super) async fn find(call: &Call<'_>, target: &ViewTarget) -> Result<Option<Asset>, ApiError> {
    let (assets, account) = (&call.service.assets, call.account());
    let query = match target {
        ViewTarget::Hashed(hash) => AssetQuery::Hash(*hash),
        ViewTarget::Named { kind, path } => match kind {
            FileKind::Input => AssetQuery::Upload(path.clone()),
            FileKind::Output | FileKind::Temp => AssetQuery::Output(path.clone()),
        },
    };
    if let Some(found) = assets.find(account, &query, call.now).await?
        && is_of(call, &found, target).await?
    {
        return Ok(Some(found));
    }
    let ViewTarget::Named { kind, path } = target else {
        return Ok(None);
    };
    match kind {
        // Uploads go by their hash, too; and one that was sent as `temp` is no output.
        FileKind::Input | FileKind::Temp => {
            if let Some(hash) = upload::hash_in(path) {
                let query = AssetQuery::Hash(hash);
                return Ok(assets.find(account, &query, call.now).await?);
            }
            // Storage is flat: a subfolder that an upload named is no part of its name.
            let name = path.name().parse().map_err(|_| ApiError::NotFound)?;
            let query = AssetQuery::Upload(name);
            Ok(assets.find(account, &query, call.now).await?)
        }
        FileKind::Output => {
            let name = path.name().parse().map_err(|_| ApiError::NotFound)?;
            let query = AssetQuery::Upload(name);
            let found = assets.find(account, &query, call.now).await?;
            Ok(found.filter(|found| upload::kinds(found).contains(&FileKind::Output)))
        }
    }
}

/// Whether a record is of the folder that a client named: jobs keep what they made and what they only showed apart.
async fn is_of(call: &Call<'_>, asset: &Asset, target: &ViewTarget) -> Result<bool, ApiError> {
    let (ViewTarget::Named { kind, .. }, Some(job)) = (target, asset.job_id) else {
        return Ok(true);
    };
    let jobs = &call.service.jobs;
    let outputs = match jobs.get(call.account(), JobId(job), call.now).await {
        Ok(view) => view.job.outputs.clone(),
        // Its record outlives the job by a moment at most.
        Err(JobsError::NotFound) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let is_temp = outputs
        .iter()
        .any(|output| output.asset == asset.id && output.temp);
    Ok(match kind {
        FileKind::Input => false,
        FileKind::Output => !is_temp,
        FileKind::Temp => is_temp,
    })
}

/// The bytes of a record.
pub(super) fn blob(asset: &Asset) -> Blob {
    Blob {
        hash: asset.hash,
        size_bytes: asset.size_bytes,
    }
}

fn redirect(call: &Call<'_>, asset: &Asset) -> Result<Response<Body>, ApiError> {
    let link = call.links.asset(asset, call.now);
    let mut response = reply::empty(StatusCode::FOUND);
    let headers = response.headers_mut();
    let location = HeaderValue::from_str(&link.url).map_err(|_| ApiError::NotFound)?;
    headers.insert(LOCATION, location);
    headers.insert(CACHE_CONTROL, PRIVATE);
    let vary = HeaderValue::from_static("authorization, cookie, x-api-key");
    headers.insert(VARY, vary);
    Ok(response)
}

fn picture(made: MadePicture) -> Response<Body> {
    let mut response = Response::new(Body::full(made.bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(made.media_type));
    headers.insert(CACHE_CONTROL, PRIVATE);
    response
}
