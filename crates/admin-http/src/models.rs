//! Published models over HTTP: what a call asks for, and its answer.

use http::request::Parts;
use http::{Response, StatusCode};
use hyper_kit::media::expect_json;
use hyper_kit::{Body, Params, ReadPace, read_limited};

use crate::body::{self, Fields};
use crate::errors::ApiError;
use crate::query::Page;
use crate::routes::OfModel;
use crate::wire::{ModelAnswer, ModelRequest, Request};

/// Most bytes of a body: a graph of 1 MiB, written with white space.
pub(crate) const MOST_GRAPH_BODY_BYTES: usize = 2 << 20;

/// What a call asks for.
pub(crate) async fn wish(
    operation: OfModel,
    params: &Params,
    head: &Parts,
    body: Body,
) -> Result<Request, ApiError> {
    let segment = |name: &str| params.get(name).unwrap_or_default();
    let model = || format!("{}/{}", segment("provider"), segment("model"));
    let query = head.uri.query().unwrap_or_default();
    let wish = match operation {
        OfModel::List => {
            let Page { cursor, limit } = Page::read(query)?;
            ModelRequest::List {
                after: cursor,
                limit,
            }
        }
        OfModel::Show => ModelRequest::Show { model: model() },
        OfModel::Publish => {
            expect_json(&head.headers)?;
            let bytes = read_limited(body, MOST_GRAPH_BODY_BYTES, ReadPace::default()).await?;
            ModelRequest::Publish {
                model: model(),
                graph: Fields::read(&bytes)?.graph()?,
            }
        }
        OfModel::Withdraw => ModelRequest::Withdraw {
            model: model(),
            version: version(query)?,
        },
    };
    Ok(Request::Model(wish))
}

/// The version that a query names, if it names one.
fn version(query: &str) -> Result<Option<u32>, ApiError> {
    if query.is_empty() {
        return Ok(None);
    }
    // Anything else must not pass for a wish to withdraw them all.
    let number = query
        .strip_prefix("version=")
        .and_then(|text| text.parse().ok());
    number.map(Some).ok_or(ApiError::Parameter {
        name: "version",
        must: "the number of a version, and the only parameter; leave it out to withdraw all of them",
    })
}

/// The answer to a call.
pub(crate) fn shown(status: StatusCode, answer: ModelAnswer) -> Response<Body> {
    match answer {
        ModelAnswer::List(page) => body::json(status, &page),
        ModelAnswer::One(model) => body::json(status, &model),
    }
}
