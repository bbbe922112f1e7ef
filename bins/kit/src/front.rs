//! What stands in front of every API: whether the process lives, whether it can serve, and what it counted.
//!
//! These answers need no credential, so they tell nothing of accounts, jobs or files. They are given at the root, where
//! orchestrators look, and below the mount path as well. Everything else is the API's, its words for unknown paths included.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::Either;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use hyper_kit::{Application, Body, ConnectionInfo, Host, HostNames, Incoming, Refusal};
use serde_json::json;
use tokio::time::timeout;
use uuid::Uuid;

use crate::metrics::{self, HttpMetrics, Metrics};

/// Looks at the server: brings up to date what metrics only show, and answers why it cannot serve; nothing when it can.
pub type Probe = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Vec<String>> + Send>> + Send + Sync>;

/// An API with health, readiness and metrics in front of it.
pub struct Front<A> {
    /// The API.
    pub api: A,
    /// The path below which the API is served.
    pub mount_path: String,
    /// The host names that these requests may be for on this machine, also where the API asks for credentials: they need
    /// none.
    pub host_names: HostNames,
    /// Looks at the server.
    pub probe: Probe,
    /// What is shown.
    pub metrics: Arc<Metrics>,
    /// Counts the requests that are answered here.
    pub requests: HttpMetrics,
}

/// How long a look may take: whoever asks for readiness has given up by then.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-service-request-id");

#[derive(Clone, Copy, Debug)]
enum Question {
    Health,
    Ready,
    Metrics,
}

impl<A: Application> Front<A> {
    /// What a request asks of this server itself, if it does.
    fn question(&self, method: &Method, path: &str) -> Option<Question> {
        if method != Method::GET && method != Method::HEAD {
            return None;
        }
        let below = path.strip_prefix(self.mount_path.as_str()).unwrap_or(path);
        match below {
            "/health" => Some(Question::Health),
            "/ready" => Some(Question::Ready),
            "/metrics" => Some(Question::Metrics),
            _ => None,
        }
    }

    async fn tell(
        &self,
        question: Question,
        head: Parts,
        connection: ConnectionInfo,
    ) -> Response<Body> {
        let started = Instant::now();
        let mut response = match self.knows_host(&head, &connection) {
            true => self.answer(question).await,
            false => self.api.refuse(Refusal::UnknownHost, head.uri.path()),
        };
        self.requests.observe(
            head.method.as_str(),
            question.route(),
            response.status().as_u16(),
            started.elapsed(),
        );
        if head.method == Method::HEAD {
            *response.body_mut() = Body::empty();
        }
        response
    }

    /// Whether a request is for a name of this server. Those that come over a network may name what they like.
    fn knows_host(&self, head: &Parts, connection: &ConnectionInfo) -> bool {
        let host = Host::of_request(&head.uri, &head.headers);
        let is_local = connection.local.ip().to_canonical().is_loopback();
        !is_local || host.is_none_or(|host| self.host_names.admit(&host))
    }

    async fn answer(&self, question: Question) -> Response<Body> {
        match question {
            Question::Health => reply(
                StatusCode::OK,
                "application/json",
                json!({"status": "ok"}).to_string(),
            ),
            Question::Ready => {
                let reasons = self.look().await;
                let (status, word) = match reasons.is_empty() {
                    true => (StatusCode::OK, "ready"),
                    false => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
                };
                let body = json!({"status": word, "reasons": reasons});
                reply(status, "application/json", body.to_string())
            }
            Question::Metrics => {
                self.look().await;
                reply(StatusCode::OK, metrics::CONTENT_TYPE, self.metrics.write())
            }
        }
    }

    async fn look(&self) -> Vec<String> {
        let late = || vec!["the server is too busy to look at itself".to_owned()];
        timeout(PROBE_LIMIT, (self.probe)())
            .await
            .unwrap_or_else(|_| late())
    }
}

impl<A: Application> Application for Front<A> {
    fn call(
        &self,
        request: Request<Incoming>,
        connection: ConnectionInfo,
    ) -> impl Future<Output = Response<Body>> + Send {
        match self.question(request.method(), request.uri().path()) {
            None => Either::Left(self.api.call(request, connection)),
            Some(question) => {
                let (head, _) = request.into_parts();
                Either::Right(self.tell(question, head, connection))
            }
        }
    }

    fn refuse(&self, refusal: Refusal, path: &str) -> Response<Body> {
        self.api.refuse(refusal, path)
    }
}

impl Question {
    fn route(self) -> &'static str {
        match self {
            Self::Health => "/health",
            Self::Ready => "/ready",
            Self::Metrics => "/metrics",
        }
    }
}

fn reply(status: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    let id = HeaderValue::from_str(&Uuid::new_v4().to_string()).expect("a UUID is a header value");
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REQUEST_ID, id);
    response
}

impl<A> fmt::Debug for Front<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front")
            .field("mount_path", &self.mount_path)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
