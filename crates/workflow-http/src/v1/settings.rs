//! Settings of the web page, kept with the account.

use http::Response;
use hyper_kit::Body;
use serde_json::{Map, Value};

use super::errors::{ApiError, field};
use super::request::{Call, done, object};
use super::{page, reply};

/// Most bytes of a setting's name.
const MOST_NAME: usize = 256;

/// GET /settings.
pub(super) async fn all(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let set = call.v1.user_files.settings(call.account()).await?;
    let mut settings = page::defaults(call.v1);
    settings.extend(set);
    Ok(reply::ok(&settings.into()))
}

/// GET /settings/{id}: null for what was never set.
pub(super) async fn get(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let id = call.param("id")?;
    let mut settings = call.v1.user_files.settings(call.account()).await?;
    Ok(reply::ok(&settings.remove(id).unwrap_or_default()))
}

/// POST /settings: sets those that are named.
pub(super) async fn set_many(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    let body = call.json(body).await?;
    set_all(call, object(body.value)?).await
}

/// POST /settings/{id}: sets one.
pub(super) async fn set(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    let id = call.param("id")?.to_owned();
    let body = call.json(body).await?;
    set_all(call, [(id, body.value)].into_iter().collect()).await
}

async fn set_all(call: &Call<'_>, changes: Map<String, Value>) -> Result<Response<Body>, ApiError> {
    if changes
        .keys()
        .any(|name| name.is_empty() || name.len() > MOST_NAME)
    {
        return Err(field("id", "a name of 1 to 256 bytes"));
    }
    call.v1.user_files.set(call.account(), changes).await?;
    Ok(done())
}
