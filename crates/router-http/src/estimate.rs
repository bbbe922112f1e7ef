//! `POST .../estimate`: what a call would cost, before it is paid.

use accounts::AccountId;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use hyper_kit::{Body, BodyRoom};
use jiff::Timestamp;
use router_core::{Estimate, Price};

use crate::api::Asked;
use crate::call::content_type;
use crate::errors::ApiError;
use crate::wire::EstimateBody;
use crate::{RouterService, reply};

/// Prices a body. Nothing is dispatched, held or written down.
pub(crate) async fn estimate(
    service: &RouterService,
    asked: &Asked,
    head: &Parts,
    (body, room): (Body, &BodyRoom<AccountId>),
    now: Timestamp,
) -> Result<Response<Body>, ApiError> {
    let router = &service.router;
    let types = head.headers.get_all(CONTENT_TYPE);
    let asked_for = (head.uri.query().unwrap_or_default(), content_type(&types));
    let opened = router.open_estimate(&asked.caller, asked.segments(), asked_for, now);
    let opened = opened.await?;
    let config = &service.config;
    let account = &asked.caller.account;
    let body = room.read(account, body, config.body_bytes, config.read_pace);
    let Estimate {
        price,
        hold_cents,
        priced_as_of,
    } = router.estimate(&opened, body.await?).await?;
    let (source, amount_cents, bounds) = match price {
        Price::Exact { cents } => ("exact", Some(cents), None),
        Price::Estimated {
            min_cents,
            max_cents,
        } => ("estimated", None, Some((min_cents, max_cents))),
        Price::Unknown { .. } => ("unknown", None, None),
    };
    let body = EstimateBody {
        source,
        amount_cents,
        min_cents: bounds.map(|(min, _)| min),
        max_cents: bounds.map(|(_, max)| max),
        hold_cents,
        pricing_as_of: priced_as_of.map(|day| day.to_string()),
    };
    let mut response = reply::json(StatusCode::OK, &body);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
