//! Deployments over HTTP: what a call asks for, and its answer.

use http::request::Parts;
use http::{Response, StatusCode};
use hyper_kit::{Body, ReadPace, read_limited};

use crate::api::read;
use crate::body;
use crate::errors::ApiError;
use crate::query::Page;
use crate::routes::OfDeployment;
use crate::wire::{DeploymentAnswer, DeploymentRequest, Request};

/// What a call asks for.
pub(crate) async fn wish(
    operation: OfDeployment,
    name: &str,
    head: &Parts,
    body: Body,
) -> Result<Request, ApiError> {
    let name = name.to_owned();
    let page = || Page::read(head.uri.query().unwrap_or_default());
    let wish = match operation {
        OfDeployment::List => {
            let Page { cursor, limit } = page()?;
            DeploymentRequest::List {
                after: cursor,
                limit,
            }
        }
        OfDeployment::Show => DeploymentRequest::Show { name },
        OfDeployment::Apply => DeploymentRequest::Apply {
            name,
            definition: read(head, body).await?.definition()?,
        },
        OfDeployment::Remove => DeploymentRequest::Remove { name },
        OfDeployment::Start => DeploymentRequest::Start { name },
        OfDeployment::Stop => DeploymentRequest::Stop { name },
        OfDeployment::Scale => {
            let mut fields = read(head, body).await?;
            let (min, max) = (fields.optional_count("min")?, fields.optional_count("max")?);
            fields.end()?;
            if min.is_none() && max.is_none() {
                return Err(body::field("min", "there, or `max`, or both"));
            }
            DeploymentRequest::Scale { name, min, max }
        }
        OfDeployment::RollBack => DeploymentRequest::RollBack {
            name,
            revision: revision(head, body).await?,
        },
        OfDeployment::Events => {
            let Page { cursor, limit } = page()?;
            let before = cursor.map(|cursor| cursor.parse()).transpose();
            let before = before.map_err(|_| ApiError::Parameter {
                name: "cursor",
                must: "the `next_cursor` of the page before; start without one",
            })?;
            DeploymentRequest::Events {
                name,
                before,
                limit,
            }
        }
        OfDeployment::Logs => DeploymentRequest::Logs { name },
    };
    Ok(Request::Deployment(wish))
}

/// The revision to go back to, if a body names one.
async fn revision(head: &Parts, body: Body) -> Result<Option<u32>, ApiError> {
    // Without a body it is the one before.
    if head.headers.get(http::header::CONTENT_TYPE).is_none() {
        read_limited(body, 0, ReadPace::default()).await?;
        return Ok(None);
    }
    let mut fields = read(head, body).await?;
    let revision = fields.optional_count("revision")?;
    fields.end()?;
    Ok(revision)
}

/// The answer to a call.
pub(crate) fn shown(status: StatusCode, answer: DeploymentAnswer) -> Response<Body> {
    match answer {
        DeploymentAnswer::List(page) => body::json(status, &page),
        DeploymentAnswer::One(deployment) => body::json(status, &deployment),
        DeploymentAnswer::Removed => body::empty(),
        DeploymentAnswer::Events(page) => body::json(status, &page),
        DeploymentAnswer::Logs(logs) => body::json(status, &logs),
    }
}
