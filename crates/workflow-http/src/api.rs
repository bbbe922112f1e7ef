//! One request from its head to the head of its answer: identified, routed, judged, answered, told.
//!
//! Whatever happens in between, every answer goes through [`WorkflowApi::finish`]: an id of its own, the rules for pages of
//! other origins, one log line.

use std::sync::Arc;
use std::time::Instant;

use accounts::AccountId;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use hyper_kit::disconnect::or_gone;
use hyper_kit::origin::is_preflight;
use hyper_kit::{
    Application, Body, BoxError, ConnectionInfo, Incoming, Lookup, Mountable, OriginPolicy,
    Refusal, RouteError, Routes,
};
use jiff::Timestamp;
use uuid::Uuid;

use crate::access::{self, Observed};
use crate::links::Links;
use crate::memory::Memory;
use crate::streams::Streams;
use crate::uploads::Uploads;
use crate::v1::V1Service;
use crate::v2::errors::ApiError;
use crate::{WorkflowService, address, v1, v2};

/// The id of a request, made here and never taken from the caller.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-service-request-id");

/// The same id under the name that the Python client shows in its errors.
const REQUEST_ID_MIRROR: HeaderName = HeaderName::from_static("x-comfy-request-id");

/// The workflow API, mounted. Cheap to clone.
#[derive(Clone)]
pub struct WorkflowApi {
    inner: Arc<Inner>,
}

struct Inner {
    service: WorkflowService,
    routes: Routes<Route>,
    origins: OriginPolicy,
    streams: Streams,
    uploads: Uploads,
    memory: Memory,
}

/// What a path and a method lead to.
#[derive(Clone, Copy, Debug)]
struct Route {
    pattern: &'static str,
    target: Target,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    V2(v2::Operation),
    V1(v1::Operation),
    Signed,
}

/// One request while it is answered.
#[derive(Clone, Copy, Debug)]
struct RequestContext {
    request_id: Uuid,
    now: Timestamp,
}

/// Mounts the service below the prefix that its configuration names.
///
/// # Errors
/// If that prefix is no prefix.
pub fn routes(service: WorkflowService) -> Result<WorkflowApi, RouteError> {
    let table = v2::ROUTES.iter().map(|(method, pattern, operation)| {
        let target = Target::V2(*operation);
        (method.clone(), *pattern, Route { pattern, target })
    });
    let signed = Route {
        pattern: asset_http::PATTERN,
        target: Target::Signed,
    };
    let table = table.chain([(Method::GET, asset_http::PATTERN, signed)]);
    let older = service.v1.iter().flat_map(|_| v1::routes());
    let table = table.chain(older.map(|(method, pattern, operation)| {
        let target = Target::V1(operation);
        (method, pattern, Route { pattern, target })
    }));
    let inner = Inner {
        routes: Routes::new(&service.config.address.mount_prefix, table)?,
        origins: address::policy(&service.config),
        streams: Streams::default(),
        uploads: Uploads::default(),
        memory: Memory::new(&service.config),
        service,
    };
    Ok(WorkflowApi {
        inner: Arc::new(inner),
    })
}

impl WorkflowApi {
    /// Answers one request; unknown paths too, so that whatever a server does not serve itself may come here.
    pub async fn handle<B>(&self, request: Request<B>, connection: ConnectionInfo) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let started = Instant::now();
        let context = self.context();
        let (head, body) = request.into_parts();
        let lookup = self.inner.routes.find(&head.method, head.uri.path());
        let route = match &lookup {
            Lookup::Found { handler, .. } | Lookup::Malformed { handler } => handler.pattern,
            Lookup::MethodNotAllowed { .. } | Lookup::NotFound => access::UNKNOWN,
        };

        let mut account = None;
        let answer = self.answer(
            lookup,
            &head,
            Body::new(body),
            &connection,
            context,
            &mut account,
        );
        let gone = || access::tell_gone(&head.method, route, started.elapsed(), context.request_id);
        let answer = or_gone(answer, gone).await;
        let response = answer.unwrap_or_else(|error| error.into_response(context.request_id));
        let response = self.finish(response, &head, context);

        let observed = Observed {
            method: head.method,
            route,
            status: response.status(),
            elapsed: started.elapsed(),
        };
        let observer = &self.inner.service.observer;
        access::tell(observer, &observed, context.request_id, account.as_ref());
        response
    }

    /// Words what the server refused before this API saw it, or a panic. Every path of the API has the same envelope.
    #[must_use]
    pub fn refuse(&self, refusal: Refusal, path: &str) -> Response<Body> {
        let request_id = self.context().request_id;
        let mut response = match self.older(path) {
            Some(_) => v1::errors::ApiError::Refused(refusal).into_response(false, request_id),
            None => ApiError::Refused(refusal).into_response(request_id),
        };
        identify(&mut response, request_id);
        response
    }

    /// The older API, if a path is one of its own: all that belongs to nobody else.
    fn older(&self, path: &str) -> Option<&V1Service> {
        let service = &self.inner.service;
        let below = path.strip_prefix(service.config.address.mount_prefix.as_str());
        let below = below.unwrap_or_default();
        let is_other = ["/api/v2/", "/signed/"]
            .iter()
            .any(|other| below.starts_with(other));
        service
            .v1
            .as_ref()
            .filter(|_| !is_other && below != "/api/v2")
    }

    /// Tells how many event streams are open, also to code that outlives the API: it holds nothing of what is behind it.
    pub fn stream_counter(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let streams = self.inner.streams.clone();
        move || streams.count()
    }

    /// Tells how many bytes the bodies of requests take in memory, and how many the trees made of them; otherwise as
    /// [`WorkflowApi::stream_counter`].
    pub fn memory_counter(&self) -> impl Fn() -> (usize, usize) + Send + Sync + use<> {
        let memory = self.inner.memory.clone();
        move || memory.used()
    }

    fn context(&self) -> RequestContext {
        RequestContext {
            request_id: Uuid::new_v4(),
            now: self.inner.service.clock.now(),
        }
    }

    async fn answer(
        &self,
        lookup: Lookup<'_, Route>,
        head: &Parts,
        body: Body,
        connection: &ConnectionInfo,
        context: RequestContext,
        account: &mut Option<AccountId>,
    ) -> Result<Response<Body>, ApiError> {
        let service = &self.inner.service;
        let (route, params) = match lookup {
            Lookup::Found { handler, params } => (*handler, Some(params)),
            Lookup::Malformed { handler } => (*handler, None),
            Lookup::MethodNotAllowed { allow } => return self.other_method(head, allow, context),
            Lookup::NotFound => {
                let older = self.older(head.uri.path()).ok_or(ApiError::NoRoute)?;
                let page = v1::fallback(service, older, head, context.now).await;
                let failed =
                    |error: v1::errors::ApiError| error.into_response(false, context.request_id);
                return Ok(page.unwrap_or_else(failed));
            }
        };
        if let (Target::V1(operation), Some(older)) = (route.target, &service.v1) {
            let asked = v1::Asked {
                service,
                v1: older,
                streams: &self.inner.streams,
                uploads: &self.inner.uploads,
                memory: &self.inner.memory,
                origins: &self.inner.origins,
                head,
                params,
                connection,
                now: context.now,
                request_id: context.request_id,
            };
            return Ok(v1::answer(operation, asked, body, account).await);
        }
        let config = &service.config;
        let open = service.identity.is_open();
        let origins = &self.inner.origins;
        if !address::permits(origins, &config.address, head, connection, open) {
            return Err(ApiError::ForeignOrigin);
        }

        let operation = match route.target {
            Target::V2(operation) => operation,
            Target::V1(_) => return Err(ApiError::NoRoute),
            Target::Signed => {
                let params = params.ok_or(ApiError::BadLink)?;
                let (assets, keys) = (&service.assets, &service.link_keys);
                let answer = asset_http::serve_link(assets, keys, head, &params, context.now).await;
                return Ok(answer?);
            }
        };
        let Some(scope) = operation.scope() else {
            return Ok(v2::document());
        };
        let principal = service.identity.verify(&head.headers, context.now).await?;
        *account = Some(principal.account.clone());
        if !principal.scopes.allow(scope) {
            return Err(ApiError::MissingScope(scope));
        }
        if operation.runs() && !principal.subscribed {
            return Err(ApiError::SubscriptionInactive);
        }
        let base = config
            .address
            .of_request(&head.uri, &head.headers, connection);
        let keys = Arc::clone(&service.link_keys);
        let call = v2::Call {
            service,
            streams: &self.inner.streams,
            uploads: &self.inner.uploads,
            memory: &self.inner.memory,
            head,
            params: params.ok_or(ApiError::NotFound)?,
            principal,
            links: Links::new(base.to_string(), keys, config.link_lifetime),
            now: context.now,
        };
        v2::dispatch(operation, &call, body).await
    }

    /// A path that has other methods: what a browser asks beforehand is answered, and so is the question itself.
    fn other_method(
        &self,
        head: &Parts,
        allow: &HeaderValue,
        context: RequestContext,
    ) -> Result<Response<Body>, ApiError> {
        if is_preflight(&head.method, &head.headers) {
            return Ok(self.inner.origins.preflight(&head.headers, allow));
        }
        if head.method != Method::OPTIONS && self.older(head.uri.path()).is_some() {
            let error = v1::errors::ApiError::MethodNotAllowed(allow.clone());
            return Ok(error.into_response(false, context.request_id));
        }
        if head.method != Method::OPTIONS {
            return Err(ApiError::MethodNotAllowed(allow.clone()));
        }
        let mut response = v2::reply::empty(StatusCode::NO_CONTENT);
        response.headers_mut().insert(ALLOW, allow.clone());
        Ok(response)
    }

    /// What every answer has.
    fn finish(
        &self,
        mut response: Response<Body>,
        head: &Parts,
        context: RequestContext,
    ) -> Response<Body> {
        identify(&mut response, context.request_id);
        let is_preflight = is_preflight(&head.method, &head.headers);
        if !is_preflight {
            let headers = response.headers_mut();
            self.inner.origins.decorate(&head.headers, headers);
        }
        if head.method == Method::HEAD {
            behead(&mut response);
        }
        response
    }
}

impl Mountable for WorkflowApi {
    fn handle(
        &self,
        request: Request<Body>,
        connection: ConnectionInfo,
    ) -> impl Future<Output = Response<Body>> + Send {
        Self::handle(self, request, connection)
    }
}

impl Application for WorkflowApi {
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

impl std::fmt::Debug for WorkflowApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkflowApi")
            .field("service", &self.inner.service)
            .finish_non_exhaustive()
    }
}

fn identify(response: &mut Response<Body>, request_id: Uuid) {
    let id = HeaderValue::from_str(&request_id.to_string()).expect("a UUID is a header value");
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(REQUEST_ID_MIRROR, id);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
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
