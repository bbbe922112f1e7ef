//! Family B: the v2 workflow API.
//!
//! The route table is here; each operation is a function that takes a [`Call`] and answers a response or an [`ApiError`].
//! The body comes as an argument of those that read one: what is refused before reads none of it.

pub(crate) mod errors;
pub(crate) mod reply;

mod account_events;
mod assets;
mod call;
mod events;
mod idempotency;
mod jobs;
mod labels;
mod outputs;
mod problems;
mod query;
mod stream_cursor;
mod submission;
mod upload;
mod wire;

use accounts::Scope;
use futures_util::FutureExt;
use http::{Method, Response, StatusCode};
use hyper_kit::Body;

use errors::ApiError;

pub(crate) use call::Call;

/// The document of this API (OpenAPI 3.1), as it is served.
pub const OPENAPI: &str = include_str!("../../../../docs/openapi/v2.json");

/// Everything a client can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    UploadAsset,
    CreateAssetFromHash,
    HasAssetByHash,
    GetAsset,
    DeleteAsset,
    GetAssetContent,
    SubmitJob,
    ListJobs,
    GetJob,
    GetJobWorkflow,
    GetJobLogs,
    CancelJob,
    FollowJob,
    FollowAccount,
    GetDocument,
}

/// Method and path of every operation.
pub(crate) const ROUTES: &[(Method, &str, Operation)] = &[
    (Method::POST, "/api/v2/assets", Operation::UploadAsset),
    (
        Method::POST,
        "/api/v2/assets/from-hash",
        Operation::CreateAssetFromHash,
    ),
    (
        Method::HEAD,
        "/api/v2/assets/by-hash/{hash}",
        Operation::HasAssetByHash,
    ),
    (Method::GET, "/api/v2/assets/{id}", Operation::GetAsset),
    (
        Method::DELETE,
        "/api/v2/assets/{id}",
        Operation::DeleteAsset,
    ),
    (
        Method::GET,
        "/api/v2/assets/{id}/content",
        Operation::GetAssetContent,
    ),
    (Method::POST, "/api/v2/jobs", Operation::SubmitJob),
    (Method::GET, "/api/v2/jobs", Operation::ListJobs),
    (Method::GET, "/api/v2/jobs/{id}", Operation::GetJob),
    (
        Method::GET,
        "/api/v2/jobs/{id}/workflow",
        Operation::GetJobWorkflow,
    ),
    (Method::GET, "/api/v2/jobs/{id}/logs", Operation::GetJobLogs),
    (
        Method::POST,
        "/api/v2/jobs/{id}/cancel",
        Operation::CancelJob,
    ),
    (
        Method::GET,
        "/api/v2/jobs/{id}/events",
        Operation::FollowJob,
    ),
    (Method::GET, "/api/v2/events", Operation::FollowAccount),
    (Method::GET, "/api/v2/openapi.json", Operation::GetDocument),
];

impl Operation {
    /// What a credential must allow; `None` needs no credential.
    pub(crate) fn scope(self) -> Option<Scope> {
        match self {
            Self::UploadAsset | Self::CreateAssetFromHash | Self::DeleteAsset => {
                Some(Scope::AssetsWrite)
            }
            Self::HasAssetByHash | Self::GetAsset | Self::GetAssetContent => {
                Some(Scope::AssetsRead)
            }
            Self::SubmitJob | Self::CancelJob => Some(Scope::JobsWrite),
            Self::ListJobs
            | Self::GetJob
            | Self::GetJobWorkflow
            | Self::GetJobLogs
            | Self::FollowJob
            | Self::FollowAccount => Some(Scope::JobsRead),
            Self::GetDocument => None,
        }
    }
}

/// Runs an operation of a caller who may.
///
/// The largest lie on the heap by themselves: a look at a job would make room for a submission, which is six times as large.
pub(crate) async fn dispatch(
    operation: Operation,
    call: &Call<'_>,
    body: Body,
) -> Result<Response<Body>, ApiError> {
    match operation {
        Operation::UploadAsset => upload::upload(call, body).boxed().await,
        Operation::CreateAssetFromHash => assets::create_from_hash(call, body).boxed().await,
        Operation::HasAssetByHash => assets::has_by_hash(call).await,
        Operation::GetAsset => assets::get(call).await,
        Operation::DeleteAsset => assets::delete(call).await,
        Operation::GetAssetContent => assets::content(call).await,
        Operation::SubmitJob => jobs::submit(call, body).boxed().await,
        Operation::ListJobs => jobs::list(call).await,
        Operation::GetJob => jobs::get(call).await,
        Operation::GetJobWorkflow => jobs::workflow(call).await,
        Operation::GetJobLogs => jobs::logs(call).await,
        Operation::CancelJob => jobs::cancel(call).await,
        Operation::FollowJob => events::follow(call).boxed().await,
        Operation::FollowAccount => account_events::follow(call),
        Operation::GetDocument => Ok(document()),
    }
}

/// The document of this API.
pub(crate) fn document() -> Response<Body> {
    reply::json_bytes(StatusCode::OK, OPENAPI)
}
