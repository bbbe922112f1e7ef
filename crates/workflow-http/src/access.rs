//! What is told of every answered request: one log line, and a call for the metrics.
//!
//! Both name the pattern of the route and never the path: the path of a signed link is a credential.

use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use http::{Method, StatusCode};
use uuid::Uuid;

/// An answered request. The body of a stream may still be on its way.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The method.
    pub method: Method,
    /// The pattern of the route, such as `/api/v2/jobs/{id}`; `unknown` where none matched.
    pub route: &'static str,
    /// The status of the answer.
    pub status: StatusCode,
    /// From the head of the request to the head of the answer.
    pub elapsed: Duration,
}

/// Hears of every answered request, on the task of its connection: it must be short.
pub type Observer = Arc<dyn Fn(&Observed) + Send + Sync>;

/// The route of requests that none matched.
pub(crate) const UNKNOWN: &str = "unknown";

/// Writes the log line of a request, and tells the observer.
pub(crate) fn tell(
    observer: &Observer,
    observed: &Observed,
    request_id: Uuid,
    account: Option<&AccountId>,
) {
    // Not at the default level: a poll must cost no line.
    tracing::debug!(
        target: "workflow_http::request",
        method = %observed.method,
        route = observed.route,
        status = observed.status.as_u16(),
        duration_ms = milliseconds(observed.elapsed),
        request.id = %request_id,
        account = account.map(AccountId::as_str),
        "request answered"
    );
    observer(observed);
}

/// Writes the log line of a request whose client left before its answer was made.
pub(crate) fn tell_gone(method: &Method, route: &'static str, elapsed: Duration, request_id: Uuid) {
    tracing::debug!(
        target: "workflow_http::request",
        method = %method,
        route,
        duration_ms = milliseconds(elapsed),
        request.id = %request_id,
        "client left before the answer"
    );
}

/// To the microsecond: what is beyond is noise.
fn milliseconds(elapsed: Duration) -> f64 {
    elapsed.as_micros() as f64 / 1e3
}
