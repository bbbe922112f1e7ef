//! One attempt to send a message: signed, sent once, and what came of it in words that hold no secret.

use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use hyper_kit::{Body, Client, ReadPace, read_limited};
use jiff::Timestamp;
use tokio::time::timeout;
use webhooks::{AttemptOutcome, Delivery, Webhook, body, sign};

use super::PATIENCE;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Most bytes of an answer that are read, and for how long, so that its connection can be used again. They mean nothing.
const MOST_ANSWER_BYTES: usize = 16 * 1024;
const ANSWER_PATIENCE: Duration = Duration::from_millis(200);

/// Sends a message to its webhook.
pub(super) async fn attempt(
    client: &Client,
    installation: &[u8; 32],
    webhook: &Webhook,
    delivery: &Delivery,
    now: Timestamp,
) -> AttemptOutcome {
    let Some(request) = request(installation, webhook, delivery, now) else {
        return failed("the address cannot be used; give the webhook another one".to_owned());
    };
    match timeout(PATIENCE, client.send(request)).await {
        Err(_) => failed(format!("it did not answer within {} s", PATIENCE.as_secs())),
        Ok(Err(error)) => failed(error.to_string()),
        Ok(Ok(response)) => {
            let outcome = outcome(&response);
            let read = read_limited(response.into_body(), MOST_ANSWER_BYTES, ReadPace::default());
            // An answer that is long or slow costs its connection, and nothing else.
            drop(timeout(ANSWER_PATIENCE, read).await);
            outcome
        }
    }
}

fn request(
    installation: &[u8; 32],
    webhook: &Webhook,
    delivery: &Delivery,
    now: Timestamp,
) -> Option<Request<Body>> {
    let body = body(&delivery.event);
    let secrets = webhook.secrets.signing(installation, webhook.id, now);
    let signature = sign(delivery.message, now, &body, &secrets);
    let request = Request::post(webhook.url.as_str())
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .header(ID, delivery.message.to_string())
        .header(TIMESTAMP, now.as_second())
        .header(SIGNATURE, signature);
    request.body(Body::full(body)).ok()
}

fn outcome(response: &Response<Body>) -> AttemptOutcome {
    let status = response.status();
    if status.is_success() {
        return AttemptOutcome::Delivered {
            status: status.as_u16(),
        };
    }
    let why = match status {
        StatusCode::GONE => "it answered 410: the address is permanently gone".to_owned(),
        _ if status.is_redirection() => format!(
            "it answered {}: redirects are not followed; give the webhook the address that it leads to",
            status.as_u16()
        ),
        _ => format!("it answered {}", status.as_u16()),
    };
    let retry_after = response.headers().get(RETRY_AFTER);
    let seconds = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
    AttemptOutcome::Failed {
        status: Some(status.as_u16()),
        why,
        retry_after: seconds.map(Duration::from_secs),
    }
}

pub(super) fn failed(why: String) -> AttemptOutcome {
    AttemptOutcome::Failed {
        status: None,
        why,
        retry_after: None,
    }
}
