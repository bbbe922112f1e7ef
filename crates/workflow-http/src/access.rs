//! What is told of every request that ended: one log line, and a call for the metrics if it was answered.
//!
//! Both name the pattern of the route and never the path: the path of a signed link is a credential.

use accounts::AccountId;
use hyper_kit::{Observed, Observer};

/// Writes the log line of a request, and tells the observer of an answered one.
pub(crate) fn tell(observer: &Observer, seen: &Observed, account: Option<&AccountId>) {
    // To the microsecond: what is beyond is noise. Not at the default level: a poll must cost no line.
    let duration_ms = seen.elapsed.as_micros() as f64 / 1e3;
    if seen.client_left {
        tracing::debug!(
            target: "workflow_http::request",
            method = %seen.method,
            route = seen.route,
            duration_ms,
            request.id = %seen.request_id,
            "client left before the answer"
        );
        return;
    }
    tracing::debug!(
        target: "workflow_http::request",
        method = %seen.method,
        route = seen.route,
        status = seen.status.as_u16(),
        duration_ms,
        request.id = %seen.request_id,
        account = account.map(AccountId::as_str),
        "request answered"
    );
    observer(seen);
}
