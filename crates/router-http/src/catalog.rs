//! The reads: a page of the catalog, one entry, and the schema document of a model.

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper_kit::etag::{ETag, not_modified};
use hyper_kit::{Body, ConnectionInfo};
use jiff::Timestamp;
use router_core::{ListQuery, Model, RouterError};

use crate::api::Asked;
use crate::query::Query;
use crate::wire::{Detail, List, ListEntry};
use crate::{RouterService, reply};

/// Most characters of an `input_schema_url`.
const LONGEST_URL: usize = 2048;

/// `GET /v1/models`.
pub(crate) async fn list(
    service: &RouterService,
    asked: &Asked,
    query: &str,
    now: Timestamp,
) -> Result<Response<Body>, RouterError> {
    let query = Query::read(query);
    let limit: Vec<&str> = query.limit.iter().map(String::as_str).collect();
    let cursor: Vec<&str> = query.cursor.iter().map(String::as_str).collect();
    let query = ListQuery {
        limit: &limit,
        cursor: &cursor,
    };
    let page = service.router.list(&asked.caller, query, now).await?;
    let list = List {
        data: page
            .models
            .iter()
            .map(|model| ListEntry::of(model))
            .collect(),
        has_more: page.has_more,
        next_cursor: page.next_cursor,
        limit: page.limit,
    };
    Ok(reply::json(StatusCode::OK, &list))
}

/// `GET /v1/models/{provider}/{model}`.
pub(crate) async fn detail(
    service: &RouterService,
    asked: &Asked,
    head: &Parts,
    connection: &ConnectionInfo,
    now: Timestamp,
) -> Result<Response<Body>, RouterError> {
    let model = find(service, asked, now).await?;
    let url = input_schema_url(service, &model, head, connection);
    let serving = service.router.serving_providers(&asked.caller, &model);
    Ok(reply::json(
        StatusCode::OK,
        &Detail::of(&model, url, serving),
    ))
}

/// `GET /v1/models/{provider}/{model}/openapi.json`.
pub(crate) async fn schema(
    service: &RouterService,
    asked: &Asked,
    headers: &HeaderMap,
    now: Timestamp,
) -> Result<Response<Body>, RouterError> {
    let model = find(service, asked, now).await?;
    let document = model.document();
    let value = HeaderValue::from_str(document.etag()).expect("a tag is a header value");
    let tag = ETag::parse(&value).expect("the router makes tags in quotes");
    let is_known = not_modified(headers, &tag);
    Ok(reply::schema(value, document.bytes().clone(), is_known))
}

/// The model that a path names.
pub(crate) async fn find(
    service: &RouterService,
    asked: &Asked,
    now: Timestamp,
) -> Result<std::sync::Arc<Model>, RouterError> {
    service
        .router
        .detail(&asked.caller, &asked.provider, &asked.model, now)
        .await
}

/// Where the schema of a model is served: only over https, and only where there is one.
fn input_schema_url(
    service: &RouterService,
    model: &Model,
    head: &Parts,
    connection: &ConnectionInfo,
) -> Option<String> {
    let address = &service.config.address;
    let base = address.of_request(&head.uri, &head.headers, connection);
    let url = format!("{base}/v1/models/{}/openapi.json", model.id().as_str());
    let is_told =
        model.document().is_authored() && url.starts_with("https://") && url.len() <= LONGEST_URL;
    is_told.then_some(url)
}
