//! What is told of every answered request: one log line, and a call for the metrics.
//!
//! Both name the pattern of the route and never the path, and a model only where the catalog has it.

use std::sync::Arc;
use std::time::Duration;

use accounts::AccountId;
use http::{Method, StatusCode};
use router_core::{Bucket, ModelId};

/// An answered request, or one whose client left before.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The method.
    pub method: Method,
    /// The pattern of the route, such as `/v1/models/{provider}/{model}`; `unknown` where none matched.
    pub route: &'static str,
    /// The status of the answer; 499 where the client left.
    pub status: StatusCode,
    /// The model that was asked for, where there is one of this id.
    pub model: Option<ModelId>,
    /// The bucket of an error.
    pub bucket: Option<Bucket>,
    /// From the head of the request to the head of the answer.
    pub elapsed: Duration,
}

/// Hears of every answered request, on the task of its connection: it must be short.
pub type Observer = Arc<dyn Fn(&Observed) + Send + Sync>;

/// What is noted of a request while it is answered.
#[derive(Debug, Default)]
pub(crate) struct Note {
    /// Whose it is, once that is known.
    pub(crate) account: Option<AccountId>,
    /// As in [`Observed`].
    pub(crate) model: Option<ModelId>,
    /// The bucket of the error that the request ends with, if it ends with one.
    pub(crate) bucket: Option<Bucket>,
}

/// Writes the log line of a request, and tells the observer.
pub(crate) fn tell(observer: &Observer, seen: &hyper_kit::Observed, note: &Note) {
    let is_error = seen.status.is_client_error() || seen.status.is_server_error();
    let bucket = match seen.client_left {
        true => Some(Bucket::ClientDisconnected),
        false => note.bucket.filter(|_| is_error),
    };
    let observed = Observed {
        method: seen.method.clone(),
        route: seen.route,
        status: seen.status,
        model: note.model.clone(),
        bucket,
        elapsed: seen.elapsed,
    };
    // Not at the default level: the record of calls has it all.
    tracing::debug!(
        target: "router_http::request",
        method = %observed.method,
        route = observed.route,
        status = observed.status.as_u16(),
        model = observed.model.as_ref().map(ModelId::as_str),
        bucket = observed.bucket.map(Bucket::name),
        duration_ms = observed.elapsed.as_micros() as f64 / 1e3,
        request.id = %seen.request_id,
        account = note.account.as_ref().map(AccountId::as_str),
        "request answered"
    );
    observer(&observed);
}
