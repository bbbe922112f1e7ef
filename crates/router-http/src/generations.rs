//! `GET /v1/generations/{request}`: one call, the generation that it began, picked up or replayed, and what is kept of its result.
//!
//! The files behind kept results are read with signed links, which this API answers too.

use std::sync::Arc;

use asset_http::{ContentError, SignedLinks, serve_link};
use asset_store::{AssetId, Assets, AssetsError, BlobHash, LinkKeys};
use http::Response;
use http::StatusCode;
use http::request::Parts;
use hyper_kit::{Body, ConnectionInfo, Params};
use jiff::{SignedDuration, Timestamp};
use router_core::{
    CallsError, GenerationId, KeptFile, KeptResult, KeptResults, KeptState, RequestId, RouterError,
    UsageRow,
};
use serde::Serialize;
use uuid::Uuid;

use crate::api::Asked;
use crate::errors::ApiError;
use crate::requests::RecordedRequest;
use crate::usage::{CallBody, account};
use crate::{RouterService, reply};

/// How far the time in the id of a request may be from when it came: both are read within a moment, and clocks are set.
const CAME_WITHIN: SignedDuration = SignedDuration::from_secs(5);

/// Where kept results are: what a program has that keeps any.
#[derive(Clone)]
pub struct ResultFiles {
    /// Which results are kept.
    pub kept: Arc<dyn KeptResults>,
    /// Their files.
    pub assets: Assets,
    /// What signs links to them.
    pub link_keys: Arc<LinkKeys>,
}

/// A call with what is kept of its result.
#[derive(Debug, Serialize)]
struct CallWithResults {
    #[serde(flatten)]
    call: CallBody,
    /// How far the request is, of a submission to the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    queued: Option<RecordedRequest>,
    results: Vec<ResultBody>,
}

/// One result: a file whose address the answer named.
#[derive(Debug, Serialize)]
struct ResultBody {
    /// Where in the answer the address is.
    pointer: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(flatten)]
    file: Option<FileBody>,
}

#[derive(Debug, Serialize)]
struct FileBody {
    asset_id: String,
    hash: String,
    size_bytes: u64,
    content_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url_expires_at: Option<String>,
}

/// GET /v1/generations/{request}.
pub(crate) async fn detail(
    service: &RouterService,
    asked: &Asked,
    head: &Parts,
    connection: &ConnectionInfo,
    now: Timestamp,
) -> Result<Response<Body>, RouterError> {
    let whose = account(asked, head.uri.query().unwrap_or_default())?;
    let request = asked.request.parse::<Uuid>();
    let request = request.map_err(|_| RouterError::CallNotFound)?;
    let found = service.usage.find(RequestId(request), came(request)).await;
    let found = found.map_err(unavailable)?;
    let is_visible = |row: &UsageRow| {
        whose
            .as_ref()
            .is_none_or(|whose| *whose == row.call.account)
    };
    let row = found.filter(is_visible).ok_or(RouterError::CallNotFound)?;
    let results = match (&service.results, row.call.generation) {
        (Some(files), Some(generation)) => {
            let address = &service.config.address;
            let base = address.of_request(&head.uri, &head.headers, connection);
            let keys = Arc::clone(&files.link_keys);
            let lifetime = service.config.link_lifetime;
            let links = SignedLinks::new(base.to_string(), keys, lifetime);
            results(files, generation, &links, now).await?
        }
        (None, _) | (_, None) => Vec::new(),
    };
    let queued = match row.call.generation {
        Some(generation) => {
            let state = service.router.queue_state(&row.call.account, generation);
            let state = state.await?;
            state.map(|state| RecordedRequest::of(&state, asked.dialect))
        }
        None => None,
    };
    let body = CallWithResults {
        call: CallBody::of(&row),
        queued,
        results,
    };
    Ok(reply::json(StatusCode::OK, &body))
}

/// GET /signed/{token}/{name}: the link is the whole authority.
pub(crate) async fn signed(
    service: &RouterService,
    head: &Parts,
    params: Option<&Params>,
    now: Timestamp,
) -> Result<Response<Body>, ApiError> {
    let (Some(files), Some(params)) = (&service.results, params) else {
        return Err(ApiError::Content(ContentError::BadLink));
    };
    let served = serve_link(&files.assets, &files.link_keys, head, params, now).await;
    served.map_err(ApiError::Content)
}

async fn results(
    files: &ResultFiles,
    generation: GenerationId,
    links: &SignedLinks,
    now: Timestamp,
) -> Result<Vec<ResultBody>, RouterError> {
    let kept = files.kept.of(generation).await.map_err(unavailable)?;
    let mut bodies = Vec::with_capacity(kept.len());
    for result in kept {
        let file = match &result.state {
            KeptState::Kept(file) => Some(file_of(files, &result, file, links, now).await?),
            KeptState::Waiting { .. } | KeptState::Failed { .. } => None,
        };
        bodies.push(ResultBody::of(result, file));
    }
    Ok(bodies)
}

/// The file of a kept result, with a link while its record is there: it may have been deleted, or be past its time.
async fn file_of(
    files: &ResultFiles,
    result: &KeptResult,
    file: &KeptFile,
    links: &SignedLinks,
    now: Timestamp,
) -> Result<FileBody, RouterError> {
    let asset = files.assets.get(&result.account, AssetId(file.file), now);
    let link = match asset.await {
        Ok(asset) => Some(links.asset(&asset, now)),
        Err(AssetsError::NotFound) => None,
        Err(error) => return Err(RouterError::Unavailable(Box::new(error))),
    };
    Ok(FileBody {
        asset_id: file.file.to_string(),
        hash: BlobHash::from_bytes(file.hash).to_string(),
        size_bytes: file.size_bytes,
        content_type: file.content_type.clone(),
        url_expires_at: link.as_ref().map(|link| link.expires_at.to_string()),
        url: link.map(|link| link.url),
    })
}

impl ResultBody {
    fn of(result: KeptResult, file: Option<FileBody>) -> Self {
        let is_there = file.as_ref().is_some_and(|file| file.url.is_some());
        let (state, attempts, reason) = match result.state {
            KeptState::Waiting { attempts, reason } => ("waiting", Some(attempts), reason),
            KeptState::Kept(_) if is_there => ("kept", None, None),
            KeptState::Kept(_) => {
                let reason = "the file was deleted, or was kept for as long as it is".to_owned();
                ("gone", None, Some(reason))
            }
            KeptState::Failed { reason } => ("failed", None, Some(reason)),
        };
        Self {
            pointer: result.pointer,
            state,
            attempts,
            reason,
            file,
        }
    }
}

/// When a request came, by the time in its id; nothing of an id that tells none.
pub(crate) fn came(request: Uuid) -> (Timestamp, Timestamp) {
    let nothing = (Timestamp::MIN, Timestamp::MIN);
    let Some(time) = request.get_timestamp() else {
        return nothing;
    };
    let (seconds, nanos) = time.to_unix();
    let at = i64::try_from(seconds).ok().and_then(|seconds| {
        let nanos = i32::try_from(nanos).ok()?;
        Timestamp::new(seconds, nanos).ok()
    });
    let Some(at) = at else {
        return nothing;
    };
    let from = at.checked_sub(CAME_WITHIN).unwrap_or(Timestamp::MIN);
    let until = at.checked_add(CAME_WITHIN).unwrap_or(Timestamp::MAX);
    (from, until)
}

fn unavailable(error: CallsError) -> RouterError {
    RouterError::Unavailable(Box::new(error))
}

impl std::fmt::Debug for ResultFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResultFiles")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_request_tells_about_when_it_came() {
        let now = Timestamp::now();
        let (from, until) = came(Uuid::now_v7());
        assert!(from < now && now < until);
        assert!(until.duration_since(from) == CAME_WITHIN * 2);
        let nothing = (Timestamp::MIN, Timestamp::MIN);
        assert_eq!(came(Uuid::new_v4()), nothing);
        assert_eq!(came(Uuid::max()), nothing);
    }
}
