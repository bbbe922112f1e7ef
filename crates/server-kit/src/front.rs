//! What stands in front of every API: whether the process lives, whether it can serve, and what it counted.
//!
//! Health and readiness need no credential and tell nothing of accounts, jobs or files. Metrics tell models, routes and how
//! much they are used: they need a credential for operators, unless they are asked for on this machine or on a listener of
//! their own. All are at the root, where orchestrators look, and below the mount path as well. The root itself says where
//! everything is, unless a web page is served there. Everything else is the API's, its words for unknown paths included.

mod home;

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use accounts::Scope;
use admin_http::AdminApi;
use bytes::Bytes;
use futures_util::future::Either;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use hyper_kit::api::drop_body;
use hyper_kit::{
    Application, Body, ConnectionInfo, Host, HostNames, Incoming, Refusal, RequestContext,
};
use identity::{Identity, IdentityError};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::timeout;
use uuid::Uuid;

use crate::metrics::{self, HttpMetrics, Metrics};
use crate::sweeps::Notes;

/// Looks at the server: brings up to date what metrics only show, and answers why it cannot serve; nothing when it can.
pub type Probe = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Vec<String>> + Send>> + Send + Sync>;

pub(crate) use home::{CONSOLE, REFERENCE};
pub use home::{Home, HomeEntry};

use home::Form;

/// An API with health, readiness and metrics in front of it.
#[derive(Debug)]
pub struct Front<A> {
    /// The API.
    pub api: A,
    /// Health, readiness and metrics.
    pub endpoints: Endpoints,
    /// Tells who may read metrics over a network.
    pub identity: Identity,
    /// Admin over HTTP.
    pub admin: AdminApi,
    /// Why nothing but health, readiness and metrics is answered; nothing where the API is.
    pub refuses: Option<&'static str>,
}

/// Health, readiness and metrics alone, for a listener of their own.
#[derive(Debug)]
pub(crate) struct EndpointsOnly(pub(crate) Endpoints);

/// Health, readiness and metrics of a server.
#[derive(Clone)]
pub struct Endpoints {
    /// The path below which the API is served.
    pub mount_path: String,
    /// The host names that these requests may be for on this machine, also where the API asks for credentials: they need
    /// none.
    pub host_names: HostNames,
    /// Looks at the server.
    pub probe: Probe,
    /// What is at the root; nothing where a web page is.
    pub home: Option<Home>,
    /// What is shown.
    pub metrics: Arc<Metrics>,
    /// What is told beside readiness, and is no reason against it.
    pub notes: Notes,
    /// Counts the requests that are answered here.
    pub requests: HttpMetrics,
}

/// How long a look may take: the probe has given up by then.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Why metrics are refused.
const NEEDS_ADMIN: &str = "metrics need a credential with the scope admin on a network address and on a Unix socket: send `Authorization: \
                           Bearer <key>`, or ask the operator to serve them elsewhere with `metrics_listen`";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-service-request-id");

#[derive(Clone, Copy, Debug)]
enum Question {
    Home(Form),
    Health,
    Ready,
    Metrics,
}

impl Endpoints {
    /// What a request asks of this server itself, if it does.
    fn question<B>(&self, request: &Request<B>) -> Option<Question> {
        let (method, path) = (request.method(), request.uri().path());
        if method != Method::GET && method != Method::HEAD {
            return None;
        }
        let below = path.strip_prefix(self.mount_path.as_str()).unwrap_or(path);
        match below {
            "" | "/" if self.home.is_some() => {
                Some(Question::Home(Form::wanted(request.headers())))
            }
            "/health" => Some(Question::Health),
            "/ready" => Some(Question::Ready),
            "/metrics" => Some(Question::Metrics),
            _ => None,
        }
    }

    /// Answers a question, or with what refuses it.
    async fn tell(
        &self,
        question: Question,
        head: Parts,
        checked: impl Future<Output = Result<(), Response<Body>>>,
    ) -> Response<Body> {
        let started = Instant::now();
        let mut response = match checked.await {
            Ok(()) => self.answer(question).await,
            Err(refused) => refused,
        };
        self.requests.observe(
            head.method.as_str(),
            question.route(),
            response.status().as_u16(),
            started.elapsed(),
        );
        if head.method == Method::HEAD {
            drop_body(&mut response);
        }
        response
    }

    /// Whether a request is for a name of this server. Those that come over a network may name what they like.
    fn knows_host(&self, head: &Parts, connection: &ConnectionInfo) -> bool {
        let host = Host::of_request(&head.uri, &head.headers);
        !is_local(connection) || host.is_none_or(|host| self.host_names.admit(&host))
    }

    async fn answer(&self, question: Question) -> Response<Body> {
        match question {
            Question::Home(form) => self.home(form),
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
                let mut body = json!({"status": word, "reasons": reasons});
                let notes = self.notes.list();
                if !notes.is_empty() {
                    body["notes"] = notes.into();
                }
                reply(status, "application/json", body.to_string())
            }
            Question::Metrics => {
                self.look().await;
                reply(StatusCode::OK, metrics::CONTENT_TYPE, self.metrics.write())
            }
        }
    }

    fn home(&self, form: Form) -> Response<Body> {
        let home = self.home.as_ref().expect("it is asked only where it is");
        let mut response = reply(StatusCode::OK, form.content_type(), home.body(form));
        home::guard(response.headers_mut());
        response
    }

    async fn look(&self) -> Vec<String> {
        let late = || vec!["the server is too busy to look at itself".to_owned()];
        timeout(PROBE_LIMIT, (self.probe)())
            .await
            .unwrap_or_else(|_| late())
    }
}

impl<A: Application> Front<A> {
    async fn tell(
        &self,
        question: Question,
        head: Parts,
        connection: ConnectionInfo,
    ) -> Response<Body> {
        let asked = head.clone();
        let checked = self.check(question, &asked, &connection);
        self.endpoints.tell(question, head, checked).await
    }

    /// Whether a request may have its answer.
    async fn check(
        &self,
        question: Question,
        head: &Parts,
        connection: &ConnectionInfo,
    ) -> Result<(), Response<Body>> {
        // A web page whose name resolves to this machine asks under its own name.
        if !self.endpoints.knows_host(head, connection) {
            return Err(self.api.refuse(Refusal::UnknownHost, head.uri.path()));
        }
        match question {
            Question::Home(_) | Question::Health | Question::Ready => Ok(()),
            Question::Metrics if is_local(connection) => Ok(()),
            Question::Metrics => {
                let caller = self.identity.verify_named(&head.headers, Timestamp::now());
                match caller.await {
                    Ok(caller) if caller.scopes.allow(Scope::Admin) => Ok(()),
                    Ok(_) => Err(refused(StatusCode::FORBIDDEN, NEEDS_ADMIN)),
                    Err(IdentityError::Unauthorized) => {
                        Err(refused(StatusCode::UNAUTHORIZED, NEEDS_ADMIN))
                    }
                    Err(IdentityError::Accounts(_)) => {
                        let reason = "credentials cannot be checked now; try again in a moment";
                        Err(refused(StatusCode::SERVICE_UNAVAILABLE, reason))
                    }
                }
            }
        }
    }
}

impl<A: Application> Application for Front<A> {
    fn call(
        &self,
        request: Request<Incoming>,
        connection: ConnectionInfo,
    ) -> impl Future<Output = Response<Body>> + Send {
        match self.endpoints.question(&request) {
            None if let Some(reason) = self.refuses => {
                let refused = refused(StatusCode::MISDIRECTED_REQUEST, reason);
                Either::Right(Either::Right(Either::Left(ready(refused))))
            }
            // Whatever host name it is asked under: it is done for a credential in a header alone.
            None if self.admin.owns(request.uri().path()) => {
                Either::Right(Either::Left(self.admin.handle(request, connection)))
            }
            None => Either::Left(self.api.call(request, connection)),
            Some(question) => {
                let asked = self.tell(question, request.into_parts().0, connection);
                Either::Right(Either::Right(Either::Right(asked)))
            }
        }
    }

    fn refuse(&self, refusal: Refusal, path: &str) -> Response<Body> {
        match self.admin.owns(path) {
            true => self.admin.refuse(refusal, path),
            false => self.api.refuse(refusal, path),
        }
    }
}

impl Application for EndpointsOnly {
    async fn call(&self, request: Request<Incoming>, connection: ConnectionInfo) -> Response<Body> {
        let Self(endpoints) = self;
        let question = endpoints.question(&request);
        let (head, _) = request.into_parts();
        let Some(question) = question else {
            let reason = "only GET /metrics, /health and /ready are served here";
            return refused(StatusCode::NOT_FOUND, reason);
        };
        let known = endpoints.knows_host(&head, &connection);
        let checked = async move {
            match known {
                true => Ok(()),
                false => Err(self.refuse(Refusal::UnknownHost, "")),
            }
        };
        endpoints.tell(question, head, checked).await
    }

    fn refuse(&self, refusal: Refusal, _path: &str) -> Response<Body> {
        refused(refusal.status(), refusal.message())
    }
}

impl Question {
    fn route(self) -> &'static str {
        match self {
            Self::Home(_) => "/",
            Self::Health => "/health",
            Self::Ready => "/ready",
            Self::Metrics => "/metrics",
        }
    }
}

/// Whether a request came to an address that only this machine reaches.
fn is_local(connection: &ConnectionInfo) -> bool {
    connection.local.ip().to_canonical().is_loopback()
}

/// An answer in the form of that of readiness, with why there is no other one.
fn refused(status: StatusCode, reason: &str) -> Response<Body> {
    let body = json!({"status": "refused", "reasons": [reason]});
    let mut response = reply(status, "application/json", body.to_string());
    if status == StatusCode::UNAUTHORIZED {
        let bearer = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
    }
    response
}

fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    let id = RequestContext::header(Uuid::new_v4());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REQUEST_ID, id);
    response
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints")
            .field("mount_path", &self.mount_path)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
