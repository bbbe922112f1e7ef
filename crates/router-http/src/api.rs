//! One request from its head to the head of its answer: identified, routed, answered, told.
//!
//! Whatever happens in between, every answer goes through [`RouterApi::finish`]: an id of its own, the mirrored headers, one
//! log line.

use std::sync::Arc;
use std::time::{Duration, Instant};

use accounts::{AccountId, Principal};
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use hyper_kit::origin::is_preflight;
use hyper_kit::{
    Application, Body, BodyRoom, BoxError, ConnectionInfo, Incoming, Lookup, Mountable,
    OriginPolicy, Params, Refusal, RouteError, Routes,
};
use router_core::{Bucket, ModelId, RequestId};
use uuid::Uuid;

use crate::access::{self, Observed};
use crate::dialect::Dialect;
use crate::errors::{ApiError, client_closed_request};
use crate::routes::{ALIASES, Operation, ROUTES};
use crate::{RouterService, call, catalog, estimate, headers, origins, reply, requests, usage};

/// The document of this API (OpenAPI 3.1), as it is served.
pub const OPENAPI: &str = include_str!("../../../docs/openapi/router.json");

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The model router's API, mounted. Cheap to clone.
#[derive(Clone)]
pub struct RouterApi {
    inner: Arc<Inner>,
}

struct Inner {
    service: RouterService,
    routes: Routes<Route>,
    origins: OriginPolicy,
    room: BodyRoom<AccountId>,
}

/// What a path and a method lead to.
#[derive(Clone, Copy, Debug)]
struct Route {
    pattern: &'static str,
    operation: Operation,
}

/// A question of a known caller about a model; the segments are empty where the path has none.
pub(crate) struct Asked {
    pub(crate) caller: Principal,
    pub(crate) provider: String,
    pub(crate) model: String,
    /// The queued request, where the path names one.
    pub(crate) request: String,
    pub(crate) dialect: Dialect,
}

/// How far a request is without waiting for a partner.
enum Begun {
    Answered(Response<Body>),
    Waits(call::Begun),
}

/// What is told of a request when it ends; dropped before that, it tells that the client left.
#[derive(Debug)]
struct Watched<'a> {
    service: &'a RouterService,
    request: RequestId,
    account: Option<AccountId>,
    started: Instant,
    /// All of it but the time.
    observed: Option<Observed>,
}

/// Mounts the service below the prefix that its configuration names.
///
/// # Errors
/// If that prefix is no prefix.
pub fn routes(service: RouterService) -> Result<RouterApi, RouteError> {
    let aliases = if service.config.aliases { ALIASES } else { &[] };
    let table = ROUTES.iter().chain(aliases);
    let table = table.map(|(method, pattern, operation)| {
        let (pattern, operation) = (*pattern, *operation);
        (method.clone(), pattern, Route { pattern, operation })
    });
    let inner = Inner {
        routes: Routes::new(&service.config.address.mount_prefix, table)?,
        origins: origins::policy(&service.config.allowed_origins),
        room: BodyRoom::new(service.config.body_bytes),
        service,
    };
    Ok(RouterApi {
        inner: Arc::new(inner),
    })
}

impl RouterApi {
    /// Whether a path is of this family, also one that it has no route for.
    #[must_use]
    pub fn owns(&self, path: &str) -> bool {
        let Some(below) = path.strip_prefix(self.inner.routes.prefix()) else {
            return false;
        };
        let under = |root: &str| {
            let rest = below.strip_prefix(root);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        under("/v1") || (self.inner.service.config.aliases && under("/v2/models"))
    }

    /// Tells how many bytes the bodies of calls take in memory, also to code that outlives the API.
    pub fn memory_counter(&self) -> impl Fn() -> usize + Send + Sync + use<> {
        let room = self.inner.room.clone();
        move || room.used()
    }

    /// Answers one request; unknown paths too, so that whatever a server does not serve itself may come here.
    pub fn handle<B>(
        &self,
        request: Request<B>,
        connection: ConnectionInfo,
    ) -> impl Future<Output = Response<Body>> + Send + use<'_, B>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (head, body) = request.into_parts();
        self.answer(Box::new(head), Body::new(body), connection)
    }

    async fn answer(
        &self,
        head: Box<Parts>,
        body: Body,
        connection: ConnectionInfo,
    ) -> Response<Body> {
        let service = &self.inner.service;
        let mut watched = Watched::new(service, &head.method);
        // The head goes before a call waits, so what the answer depends on is set aside.
        let is_preflight = is_preflight(&head.method, &head.headers);
        let is_head = head.method == Method::HEAD;
        let page = page_of(&head.headers);
        let dialect = self.dialect(head.uri.path());

        // On the heap, and gone before a call waits: what it takes to begin one is many times what it takes to wait.
        let begun = Box::pin(self.begin(head, body, &connection, &mut watched)).await;
        let mut response = match begun {
            Ok(Begun::Answered(response)) => response,
            Ok(Begun::Waits(call)) => {
                let (response, bucket) = call.answer(service, watched.request, dialect).await;
                if let Some(bucket) = bucket {
                    watched.failed(bucket);
                }
                response
            }
            Err(error) => {
                watched.failed(error.bucket());
                error.into_response(watched.request, dialect)
            }
        };
        let fields = response.headers_mut();
        finish(fields, watched.request, service.config.mirror_headers);
        if !is_preflight {
            self.inner.origins.decorate(&page, fields);
        }
        if is_head {
            behead(&mut response);
        }
        watched.answered(response.status());
        response
    }

    /// The dialect of a request.
    fn dialect(&self, path: &str) -> Dialect {
        Dialect::of(
            path.strip_prefix(self.inner.routes.prefix())
                .unwrap_or(path),
        )
    }

    /// Words what the server refused before this API saw it, or a panic.
    #[must_use]
    pub fn refuse(&self, refusal: Refusal, path: &str) -> Response<Body> {
        let (request, dialect) = (new_request(), self.dialect(path));
        let mut response = ApiError::Refused(refusal).into_response(request, dialect);
        let mirror = self.inner.service.config.mirror_headers;
        finish(response.headers_mut(), request, mirror);
        response
    }

    /// Everything up to the answer, or up to where a call waits for its own.
    async fn begin(
        &self,
        mut head: Box<Parts>,
        body: Body,
        connection: &ConnectionInfo,
        watched: &mut Watched<'_>,
    ) -> Result<Begun, ApiError> {
        let service = &self.inner.service;
        let (route, params) = match self.inner.routes.find(&head.method, head.uri.path()) {
            Lookup::Found { handler, params } => (*handler, Some(params)),
            Lookup::Malformed { handler } => (*handler, None),
            Lookup::MethodNotAllowed { allow } => {
                return self.other_method(&head, allow).map(Begun::Answered);
            }
            Lookup::NotFound => return Err(ApiError::NoRoute),
        };
        watched.routed(route.pattern);
        if route.operation == Operation::Document {
            return Ok(Begun::Answered(reply::json_bytes(StatusCode::OK, OPENAPI)));
        }

        let now = service.clock.now();
        if !service.config.api_key_header {
            head.headers.remove(X_API_KEY);
        }
        let caller = service.identity.verify_named(&head.headers, now).await?;
        watched.account = Some(caller.account.clone());
        let dialect = self.dialect(head.uri.path());
        let asked = Asked::new(caller, params.as_ref(), head.uri.path(), dialect);
        let answer = match route.operation {
            Operation::List => {
                let query = head.uri.query().unwrap_or_default();
                catalog::list(service, &asked, query, now).await
            }
            Operation::Detail => {
                let answer = catalog::detail(service, &asked, &head, connection, now).await;
                watched.found(answer.is_ok().then(|| asked.id()).flatten());
                answer
            }
            Operation::Schema => {
                let answer = catalog::schema(service, &asked, &head.headers, now).await;
                watched.found(answer.is_ok().then(|| asked.id()).flatten());
                answer
            }
            Operation::Run => {
                let request = watched.request;
                let running = call::open(service, &asked, &head, request, now).await;
                drop((asked, head));
                let opened = running?;
                watched.found(Some(opened.model()));
                return Ok(Begun::Waits(opened.run(body, &self.inner.room).await?));
            }
            Operation::Calls => {
                let query = head.uri.query().unwrap_or_default();
                usage::calls(service, &asked, query).await
            }
            Operation::Usage => {
                let query = head.uri.query().unwrap_or_default();
                usage::totals(service, &asked, query, now).await
            }
            Operation::Estimate => {
                let body = (body, &self.inner.room);
                let answer = estimate::estimate(service, &asked, &head, body, now).await?;
                watched.found(asked.id());
                return Ok(Begun::Answered(answer));
            }
            Operation::Submit => {
                let request = watched.request;
                let links = requests::Links::new(service, &asked, &head, connection);
                let opened = call::open(service, &asked, &head, request, now).await;
                drop((asked, head));
                let opened = opened?;
                watched.found(Some(opened.model()));
                let submitted = opened.submit(body, &self.inner.room).await?;
                let (response, bucket) = requests::submitted(submitted, &links, request);
                if let Some(bucket) = bucket {
                    watched.failed(bucket);
                }
                return Ok(Begun::Answered(response));
            }
            Operation::Requests => {
                let links = requests::Links::new(service, &asked, &head, connection);
                let query = head.uri.query().unwrap_or_default();
                let answer = requests::list(service, &asked, &links, query, now).await;
                watched.found(answer.is_ok().then(|| asked.id()).flatten());
                answer
            }
            Operation::RequestStatus => {
                let links = requests::Links::new(service, &asked, &head, connection);
                requests::status(service, &asked, &links, now).await
            }
            Operation::RequestResult => {
                let links = requests::Links::new(service, &asked, &head, connection);
                requests::result(service, &asked, &links, now).await
            }
            Operation::CancelRequest => {
                // One that comes too late is an error to whoever counts, and has no bucket of its own.
                watched.failed(Bucket::InvalidInput);
                requests::cancel(service, &asked, now).await
            }
            Operation::Document => Ok(reply::json_bytes(StatusCode::OK, OPENAPI)),
        };
        Ok(Begun::Answered(answer?))
    }

    /// A path that has other methods: what a browser asks beforehand is answered, and so is the question itself.
    fn other_method(&self, head: &Parts, allow: &HeaderValue) -> Result<Response<Body>, ApiError> {
        if is_preflight(&head.method, &head.headers) {
            return Ok(self.inner.origins.preflight(&head.headers, allow));
        }
        if head.method != Method::OPTIONS {
            return Err(ApiError::MethodNotAllowed(allow.clone()));
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().insert(ALLOW, allow.clone());
        Ok(response)
    }
}

impl Asked {
    /// The segments of a path as far as it has any. What cannot be decoded stays as it was sent: a percent sign is in no id,
    /// so it names nothing.
    fn new(caller: Principal, params: Option<&Params>, path: &str, dialect: Dialect) -> Self {
        let segment = |params: &Params, name| params.get(name).unwrap_or_default().to_owned();
        let (provider, model) = match params {
            Some(params) => {
                let rest = params.get("rest").map(|rest| format!("/{rest}"));
                let model = segment(params, "model") + &rest.unwrap_or_default();
                (segment(params, "provider"), model)
            }
            None => {
                let raw = path.split_once("/models/").map_or("", |(_, rest)| rest);
                let (provider, model) = raw.split_once('/').unwrap_or((raw, ""));
                (provider.to_owned(), model.to_owned())
            }
        };
        Self {
            request: params.map_or_else(String::new, |params| segment(params, "request")),
            caller,
            provider,
            model,
            dialect,
        }
    }

    /// The two segments of the model.
    pub(crate) fn segments(&self) -> (&str, &str) {
        (&self.provider, &self.model)
    }

    fn id(&self) -> Option<ModelId> {
        ModelId::new(&self.provider, &self.model).ok()
    }
}

impl Mountable for RouterApi {
    fn handle(
        &self,
        request: Request<Body>,
        connection: ConnectionInfo,
    ) -> impl Future<Output = Response<Body>> + Send {
        Self::handle(self, request, connection)
    }
}

impl Application for RouterApi {
    fn call(
        &self,
        request: Request<Incoming>,
        connection: ConnectionInfo,
    ) -> impl Future<Output = Response<Body>> + Send {
        self.handle(request, connection)
    }

    fn refuse(&self, refusal: Refusal, path: &str) -> Response<Body> {
        Self::refuse(self, refusal, path)
    }
}

impl std::fmt::Debug for RouterApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterApi")
            .field("service", &self.inner.service)
            .finish_non_exhaustive()
    }
}

impl<'a> Watched<'a> {
    fn new(service: &'a RouterService, method: &Method) -> Self {
        let observed = Observed {
            method: method.clone(),
            route: access::UNKNOWN,
            status: client_closed_request(),
            model: None,
            bucket: Some(Bucket::ClientDisconnected),
            elapsed: Duration::ZERO,
        };
        Self {
            service,
            request: new_request(),
            account: None,
            started: Instant::now(),
            observed: Some(observed),
        }
    }

    fn routed(&mut self, route: &'static str) {
        self.change(|observed| observed.route = route);
    }

    fn found(&mut self, model: Option<ModelId>) {
        self.change(|observed| observed.model = model);
    }

    fn failed(&mut self, bucket: Bucket) {
        self.change(|observed| observed.bucket = Some(bucket));
    }

    fn answered(mut self, status: StatusCode) {
        let is_error = status.is_client_error() || status.is_server_error();
        self.change(|observed| {
            observed.status = status;
            observed.bucket = observed.bucket.filter(|_| is_error);
        });
        self.tell();
    }

    fn change(&mut self, change: impl FnOnce(&mut Observed)) {
        self.observed.as_mut().map(change);
    }

    fn tell(&mut self) {
        if let Some(mut observed) = self.observed.take() {
            observed.elapsed = self.started.elapsed();
            let observer = &self.service.observer;
            access::tell(observer, &observed, self.request, self.account.as_ref());
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        // A panic drops it too, and is answered with a 500 of its own.
        if !std::thread::panicking() {
            self.tell();
        }
    }
}

/// A fresh id. Those that are made one after the other are neighbours in every index, so that what calls write down lies
/// together.
fn new_request() -> RequestId {
    RequestId(Uuid::now_v7())
}

/// What every answer has.
fn finish(headers: &mut HeaderMap, request: RequestId, mirror: bool) {
    headers::identify(headers, request, mirror);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// The page that a request comes from, if it names one.
fn page_of(headers: &HeaderMap) -> HeaderMap {
    let origins = headers.get_all(ORIGIN).iter();
    origins.map(|origin| (ORIGIN, origin.clone())).collect()
}

/// Leaves the head of an answer, and in it the length that the body would have had.
fn behead(response: &mut Response<Body>) {
    let length = response.body().size_hint().exact();
    if let Some(length) = length.filter(|length| *length > 0) {
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    *response.body_mut() = Body::empty();
}
