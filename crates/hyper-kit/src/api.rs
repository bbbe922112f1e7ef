//! One request of an API family, from its head to the head of its answer: what is the same in every family.
//!
//! A family implements [`Api`]: its routes, its answers, its words for errors and what it tells of a request that ended.
//! [`handle`] and [`refuse`] make of it what an [`Application`](crate::Application) needs. Around its answers, this module
//!
//! - makes the id and the time of the request ([`RequestContext`]);
//! - finds the route, and answers HEAD by the answer to GET without its body;
//! - answers OPTIONS, preflights among them, and refuses other methods that a path does not have;
//! - notices a client that leaves before the answer is made;
//! - tells [`Api::observe`] once of each request, however it ended.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use jiff::Timestamp;
use trace_context::{TARGET, TraceContext};
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span, trace_span};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::body::{Body, BoxError};
use crate::origin::{OriginPolicy, is_preflight};
use crate::routes::{Lookup, Params, RouteError, Routes};
use crate::serve::{ConnectionInfo, Refusal};

/// The route of requests that none matched, where a family has no better name for them.
pub const UNKNOWN: &str = "unknown";

/// An API family.
pub trait Api: Send + Sync + 'static {
    /// What a route leads to.
    type Target: Copy + Send + Sync;
    /// What a path says about the words of errors, where the paths of a family differ in them.
    type Dialect: Copy + Send;
    /// What a request of the family can be refused for, or fail of.
    type Error: Send;
    /// What the family notes about a request while it is answered, for [`Api::observe`].
    type Note: Default + Send;

    /// The routes, and what pages of other origins may do.
    fn mount(&self) -> &ApiMount<Self::Target>;

    /// The id and the time of a request that begins now.
    fn context(&self) -> RequestContext;

    /// The dialect of a path.
    fn dialect(&self, path: &str) -> Self::Dialect;

    /// Answers a request. The future is dropped if the client leaves.
    fn answer(
        &self,
        asked: Box<Asked<Self::Target>>,
        note: &mut Self::Note,
    ) -> impl Future<Output = Result<Response<Body>, Self::Error>> + Send;

    /// Words an error for the client.
    fn word(
        &self,
        fault: Fault<Self::Error>,
        dialect: Self::Dialect,
        request_id: Uuid,
        note: &mut Self::Note,
    ) -> Response<Body>;

    /// Adds to the headers of an answer, errors among them, what every answer of the family has: the id under its names.
    fn mark(&self, request_id: HeaderValue, headers: &mut HeaderMap);

    /// Hears of every request that ended, on the task of its connection: it must be short and must not block.
    fn observe(&self, seen: &Observed, note: &Self::Note);
}

/// The id and the time of one request. Both are made here and never taken from the client.
#[derive(Clone, Copy, Debug)]
pub struct RequestContext {
    /// The id, as answers, logs and records have it.
    pub request_id: Uuid,
    /// When the request began.
    pub now: Timestamp,
}

/// A request on its way to its answer.
#[derive(Debug)]
pub struct Asked<T> {
    /// Method, address and headers.
    pub head: Parts,
    /// The body, of which nothing is read yet.
    pub body: Body,
    /// Where it came from.
    pub connection: ConnectionInfo,
    /// Its id and time.
    pub context: RequestContext,
    /// What its route leads to; `None` if no route has its path.
    pub target: Option<T>,
    /// What the path names; `None` if a part of it is such that no resource can have it, and without a route.
    pub params: Option<Params>,
}

/// Why a request has no answer.
#[derive(Debug)]
pub enum Fault<E> {
    /// The server refused it before the family saw it, or met a panic.
    Refused(Refusal),
    /// The path has other methods: the value of `Allow`.
    MethodNotAllowed(HeaderValue),
    /// An error of the family.
    Own(E),
}

/// A request that ended. The body of its answer may still be on its way.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Its id.
    pub request_id: Uuid,
    /// The method.
    pub method: Method,
    /// The pattern of the route, such as `/api/v2/jobs/{id}`, and never the path: the path of a signed link is a credential.
    pub route: &'static str,
    /// The status of the answer; 499 if the client left before it.
    pub status: StatusCode,
    /// Whether the client left before the answer was made.
    pub client_left: bool,
    /// From the head of the request to the head of the answer, or until the client left.
    pub elapsed: Duration,
}

/// Hears of requests that ended, on the tasks of their connections: it must be short.
pub type Observer = Arc<dyn Fn(&Observed) + Send + Sync>;

/// The routes of a family below its mount prefix.
#[derive(Debug)]
pub struct ApiMount<T> {
    routes: Routes<(&'static str, T)>,
    origins: Option<OriginPolicy>,
    unmatched: &'static str,
}

/// Tells the family of its request when it ends. If it is dropped before, the client left.
struct Exchange<'a, A: Api> {
    api: &'a A,
    span: Span,
    request_id: Uuid,
    method: Method,
    route: &'static str,
    started: Instant,
    note: A::Note,
    told: bool,
}

// === impl ApiMount ===

impl<T> ApiMount<T> {
    /// Mounts a table below `prefix`. Requests that match none of it are observed as `unmatched`. Without `origins`, pages of
    /// other origins get no word about what they may do, and OPTIONS is a method as any other.
    ///
    /// # Errors
    /// As [`Routes::new`].
    pub fn new(
        prefix: &str,
        table: impl IntoIterator<Item = (Method, &'static str, T)>,
        origins: Option<OriginPolicy>,
        unmatched: &'static str,
    ) -> Result<Self, RouteError> {
        let table = table.into_iter();
        let table = table.map(|(method, pattern, target)| (method, pattern, (pattern, target)));
        Ok(Self {
            routes: Routes::new(prefix, table)?,
            origins,
            unmatched,
        })
    }

    /// The prefix that every path starts with.
    pub fn prefix(&self) -> &str {
        self.routes.prefix()
    }

    /// What pages of other origins may do, if the family says so.
    pub fn origins(&self) -> Option<&OriginPolicy> {
        self.origins.as_ref()
    }
}

// === impl RequestContext ===

impl RequestContext {
    /// The id as the value of a header.
    pub fn header(request_id: Uuid) -> HeaderValue {
        let mut text = [0; Hyphenated::LENGTH];
        let text = request_id.hyphenated().encode_lower(&mut text);
        HeaderValue::from_str(text).expect("a UUID is a header value")
    }
}

// === A request ===

/// Answers one request; unknown paths too, so that whatever a server does not serve itself may come here.
pub fn handle<A, B>(
    api: &A,
    request: Request<B>,
    connection: ConnectionInfo,
) -> impl Future<Output = Response<Body>> + Send + use<'_, A, B>
where
    A: Api,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (head, body) = request.into_parts();
    let span = span_of(&head);
    // On the heap and handed on as a whole: a family may drop it before a long wait, which then holds nothing of it.
    run(
        api,
        span.clone(),
        Box::new(Asked {
            head,
            body: Body::new(body),
            connection,
            context: api.context(),
            target: None,
            params: None,
        }),
    )
    .instrument(span)
}

/// The span of a request, which continues the trace that the client names. Its path is in no field: it may be a credential.
fn span_of(head: &Parts) -> Span {
    trace_span!(
        target: TARGET,
        parent: None,
        "request",
        otel.name = Empty,
        otel.kind = "server",
        trace.parent = parent_of(&head.headers).map(display),
        http.request.method = head.method.as_str(),
        http.route = Empty,
        http.response.status_code = Empty,
        easel.request.id = Empty,
        otel.status_code = Empty,
    )
}

/// The trace that a client names. Two of them are none.
fn parent_of(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(trace_context::HEADER).iter();
    match (values.next(), values.next()) {
        (Some(only), None) => TraceContext::parse(only.to_str().ok()?),
        _ => None,
    }
}

/// Words what the server refused before the family saw it, or a panic.
pub fn refuse<A: Api>(api: &A, refusal: Refusal, path: &str) -> Response<Body> {
    let request_id = api.context().request_id;
    let mut note = A::Note::default();
    let dialect = api.dialect(path);
    let mut response = api.word(Fault::Refused(refusal), dialect, request_id, &mut note);
    mark(api, request_id, response.headers_mut());
    response
}

async fn run<A: Api>(api: &A, span: Span, mut asked: Box<Asked<A::Target>>) -> Response<Body> {
    let mut exchange = Exchange::new(api, span, &asked);
    let mount = api.mount();
    let head = &asked.head;
    let is_head = head.method == Method::HEAD;
    let page = (!is_preflight(&head.method, &head.headers)).then(|| page_of(&head.headers));
    let dialect = api.dialect(head.uri.path());

    let mut other_methods = None;
    match mount.routes.find(&head.method, head.uri.path()) {
        Lookup::Found { handler, params } => {
            (exchange.route, asked.target) = (handler.0, Some(handler.1));
            asked.params = Some(params);
        }
        Lookup::Malformed { handler } => {
            (exchange.route, asked.target) = (handler.0, Some(handler.1));
        }
        Lookup::MethodNotAllowed { allow } => other_methods = Some(allow),
        Lookup::NotFound => {}
    }
    let answered = match other_methods {
        Some(allow) => other_method(mount, &asked.head, allow),
        None => {
            let answer = api.answer(asked, &mut exchange.note);
            answer.await.map_err(Fault::Own)
        }
    };

    let (request_id, note) = (exchange.request_id, &mut exchange.note);
    let mut response = answered.unwrap_or_else(|fault| api.word(fault, dialect, request_id, note));
    let headers = response.headers_mut();
    mark(api, request_id, headers);
    if let (Some(origins), Some(page)) = (&mount.origins, page) {
        origins.decorate(&page, headers);
    }
    if is_head {
        drop_body(&mut response);
    }
    exchange.answered(response.status());
    response
}

/// A path that has other methods: what a browser asks beforehand is answered, and so is the question itself.
fn other_method<T, E>(
    mount: &ApiMount<T>,
    head: &Parts,
    allow: &HeaderValue,
) -> Result<Response<Body>, Fault<E>> {
    match &mount.origins {
        Some(origins) if is_preflight(&head.method, &head.headers) => {
            Ok(origins.preflight(&head.headers, allow))
        }
        Some(_) if head.method == Method::OPTIONS => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response.headers_mut().insert(ALLOW, allow.clone());
            Ok(response)
        }
        _ => Err(Fault::MethodNotAllowed(allow.clone())),
    }
}

fn mark<A: Api>(api: &A, request_id: Uuid, headers: &mut HeaderMap) {
    api.mark(RequestContext::header(request_id), headers);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// The page that a request comes from, if it names one.
fn page_of(headers: &HeaderMap) -> HeaderMap {
    let origins = headers.get_all(ORIGIN).iter();
    origins.map(|origin| (ORIGIN, origin.clone())).collect()
}

/// Makes the answer to HEAD of the one to GET: leaves the head, and in it the length that the body would have had.
pub fn drop_body(response: &mut Response<Body>) {
    let length = response.body().size_hint().exact();
    if let Some(length) = length.filter(|length| *length > 0) {
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    *response.body_mut() = Body::empty();
}

/// The status that is observed of a client that left.
pub fn client_closed_request() -> StatusCode {
    StatusCode::from_u16(499).expect("499 is a status")
}

// === impl Exchange ===

impl<'a, A: Api> Exchange<'a, A> {
    fn new(api: &'a A, span: Span, asked: &Asked<A::Target>) -> Self {
        Self {
            api,
            span,
            request_id: asked.context.request_id,
            method: asked.head.method.clone(),
            route: api.mount().unmatched,
            started: Instant::now(),
            note: A::Note::default(),
            told: false,
        }
    }

    fn answered(mut self, status: StatusCode) {
        self.tell(status, false);
    }

    fn tell(&mut self, status: StatusCode, client_left: bool) {
        self.told = true;
        let seen = Observed {
            request_id: self.request_id,
            method: self.method.clone(),
            route: self.route,
            status,
            client_left,
            elapsed: self.started.elapsed(),
        };
        self.api.observe(&seen, &self.note);
        self.note_span(&seen);
    }

    fn note_span(&self, seen: &Observed) {
        if self.span.is_disabled() {
            return;
        }
        let name = format_args!("{} {}", seen.method, seen.route);
        self.span.record("otel.name", display(name));
        self.span.record("http.route", seen.route);
        let status = seen.status.as_u16();
        self.span.record("http.response.status_code", status);
        self.span
            .record("easel.request.id", display(seen.request_id));
        if seen.status.is_server_error() {
            self.span.record("otel.status_code", "ERROR");
        }
    }
}

impl<A: Api> Drop for Exchange<'_, A> {
    /// hyper drops the handler of a client that leaves, so the sign is a drop before the answer. A panic drops it too, and is
    /// answered with a 500 of its own.
    fn drop(&mut self) {
        if !self.told && !std::thread::panicking() {
            self.tell(client_closed_request(), true);
        }
    }
}

#[cfg(test)]
mod tests;
