//! Requests about webhooks as calls of the admin API.

use admin_http::wire::{Answer, WebhookRequest};
use http::Method;
use serde_json::{Value, json};

/// Method, path and body of a request. `id` spells an id in a path, `page` the query of a list.
pub(super) fn call(
    request: &WebhookRequest,
    id: impl Fn(&str) -> String,
    page: impl Fn(Option<String>, Option<u32>) -> String,
) -> (Method, String, Option<Value>) {
    let of = |webhook: &str, below: &str| format!("/webhooks/{}{below}", id(webhook));
    match request {
        WebhookRequest::List {
            account,
            after,
            limit,
        } => {
            let page = page(after.clone(), *limit);
            let path = match account {
                Some(account) => format!("/accounts/{}/webhooks{page}", id(account)),
                None => format!("/webhooks{page}"),
            };
            (Method::GET, path, None)
        }
        WebhookRequest::Get { id } => (Method::GET, of(id, ""), None),
        WebhookRequest::Add {
            account,
            url,
            events,
        } => {
            let path = format!("/accounts/{}/webhooks", id(account));
            let body = json!({ "url": url, "events": events });
            (Method::POST, path, Some(body))
        }
        WebhookRequest::Change {
            id,
            url,
            events,
            enabled,
        } => {
            let body = json!({ "url": url, "events": events, "enabled": enabled });
            (Method::PATCH, of(id, ""), Some(body))
        }
        WebhookRequest::Remove { id } => (Method::DELETE, of(id, ""), None),
        WebhookRequest::Rotate { id, overlap_s } => {
            let body = json!({ "overlap_s": overlap_s });
            (Method::POST, of(id, "/rotate"), Some(body))
        }
        WebhookRequest::Test { id } => (Method::POST, of(id, "/test"), None),
        WebhookRequest::Deliveries { id, before, limit } => {
            let page = page(before.map(|before| before.to_string()), *limit);
            (Method::GET, of(id, "/deliveries") + &page, None)
        }
    }
}

/// What a request was answered.
pub(super) fn read(request: &WebhookRequest, bytes: &[u8]) -> Result<Answer, serde_json::Error> {
    match request {
        WebhookRequest::List { .. } => serde_json::from_slice(bytes).map(Answer::Webhooks),
        WebhookRequest::Get { .. } | WebhookRequest::Change { .. } => {
            serde_json::from_slice(bytes).map(Answer::Webhook)
        }
        WebhookRequest::Add { .. } | WebhookRequest::Rotate { .. } => {
            serde_json::from_slice(bytes).map(Answer::WebhookSecret)
        }
        WebhookRequest::Remove { .. } => Ok(Answer::Done),
        WebhookRequest::Test { .. } => serde_json::from_slice(bytes).map(Answer::Delivery),
        WebhookRequest::Deliveries { .. } => serde_json::from_slice(bytes).map(Answer::Deliveries),
    }
}
