//! One request from its head to the head of its answer: identified, routed, judged, answered, told.
//!
//! What every family does with a request is in [`hyper_kit::api`]; here is which of the two APIs and which operation it is for,
//! and whether its caller may ask for that.

use std::sync::Arc;

use accounts::AccountId;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::Either;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use hyper_kit::{
    Api, ApiMount, Application, Asked, Body, BoxError, ConnectionInfo, Fault, Incoming, Mountable,
    Observed, OriginPolicy, Refusal, RequestContext, RouteError, api,
};
use uuid::Uuid;

use crate::access;
use crate::deployments::{self, Mounts};
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
    mount: Arc<ApiMount<Target>>,
    origins: OriginPolicy,
    streams: Streams,
    uploads: Uploads,
    memory: Memory,
    deployments: Mounts<ApiMount<Target>>,
}

/// What a path and a method lead to.
#[derive(Clone, Copy, Debug)]
enum Target {
    V2(v2::Operation),
    V1(v1::Operation),
    Signed,
}

/// The API whose words a path has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    V2,
    V1,
}

/// Mounts the service below the prefix that its configuration names.
///
/// # Errors
/// If that prefix is no prefix.
pub fn routes(service: WorkflowService) -> Result<WorkflowApi, RouteError> {
    let prefix = &service.config.address.mount_prefix;
    let inner = Inner {
        mount: Arc::new(mount(&service, prefix)?),
        origins: address::policy(&service.config),
        streams: Streams::default(),
        uploads: Uploads::default(),
        memory: Memory::new(&service.config),
        deployments: Mounts::default(),
        service,
    };
    Ok(WorkflowApi {
        inner: Arc::new(inner),
    })
}

/// Every route of a service, below a prefix.
fn mount(service: &WorkflowService, prefix: &str) -> Result<ApiMount<Target>, RouteError> {
    let v2 = v2::ROUTES.iter();
    let v2 =
        v2.map(|(method, pattern, operation)| (method.clone(), *pattern, Target::V2(*operation)));
    let signed = [(Method::GET, asset_http::PATTERN, Target::Signed)];
    let v1 = service.v1.iter().flat_map(|_| v1::routes());
    let v1 = v1.map(|(method, pattern, operation)| (method, pattern, Target::V1(operation)));
    let table = v2.chain(signed).chain(v1);
    let origins = address::policy(&service.config);
    ApiMount::new(prefix, table, Some(origins), api::UNKNOWN)
}

impl WorkflowApi {
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
        match self.inner.of(request.uri().path()) {
            // As it is, because a request is large and every copy of it is seen in what a look at a job costs.
            None => Either::Left(api::handle(&*self.inner, request, connection)),
            Some(below) => Either::Right(Box::pin(async move {
                api::handle(&below, request, connection).await
            })),
        }
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
}

impl Inner {
    /// The API of the deployment that a path is below, if it is below one. Limits of accounts count over all of them.
    fn of(&self, path: &str) -> Option<Self> {
        let prefix = &self.service.config.address.mount_prefix;
        let (name, jobs) = deployments::named(&self.service, path)?;
        let prefix = format!("{prefix}{}/{name}", deployments::BELOW);
        let made = self.deployments.get(name, || mount(&self.service, &prefix));
        let mut service = WorkflowService {
            jobs,
            deployments: None,
            ..self.service.clone()
        };
        service.config.address.mount_prefix = prefix;
        Some(Self {
            // A name of a deployment is always a part of a path.
            mount: made.ok()?,
            origins: self.origins.clone(),
            streams: self.streams.clone(),
            uploads: self.uploads.clone(),
            memory: self.memory.clone(),
            deployments: Mounts::default(),
            service,
        })
    }

    /// The older API, if a path is one of its own: all that belongs to nobody else.
    fn older(&self, path: &str) -> Option<&V1Service> {
        let service = &self.service;
        let below = path.strip_prefix(service.config.address.mount_prefix.as_str());
        // Who leaves the prefix out still means one of the APIs.
        let below = below
            .filter(|below| below.is_empty() || below.starts_with('/'))
            .unwrap_or(path);
        let is_other = ["/api/v2/", "/signed/"]
            .iter()
            .any(|other| below.starts_with(other));
        service
            .v1
            .as_ref()
            .filter(|_| !is_other && below != "/api/v2")
    }
}

impl Api for Inner {
    type Target = Target;
    type Dialect = Dialect;
    type Error = ApiError;
    type Note = Option<AccountId>;

    fn mount(&self) -> &ApiMount<Target> {
        &self.mount
    }

    fn context(&self) -> RequestContext {
        RequestContext {
            request_id: Uuid::new_v4(),
            now: self.service.clock.now(),
        }
    }

    fn dialect(&self, path: &str) -> Dialect {
        match self.older(path) {
            Some(_) => Dialect::V1,
            None => Dialect::V2,
        }
    }

    async fn answer(
        &self,
        asked: Box<Asked<Target>>,
        account: &mut Option<AccountId>,
    ) -> Result<Response<Body>, ApiError> {
        let Asked {
            head,
            body,
            connection,
            context,
            target,
            params,
        } = *asked;
        let (head, connection) = (&head, &connection);
        let service = &self.service;
        let Some(target) = target else {
            let older = self.older(head.uri.path()).ok_or(ApiError::NoRoute)?;
            let page = v1::fallback(service, older, head, context.now)
                .boxed()
                .await;
            let failed =
                |error: v1::errors::ApiError| error.into_response(false, context.request_id);
            return Ok(page.unwrap_or_else(failed));
        };
        if let (Target::V1(operation), Some(older)) = (target, &service.v1) {
            let asked = v1::Asked {
                service,
                v1: older,
                streams: &self.streams,
                uploads: &self.uploads,
                memory: &self.memory,
                origins: &self.origins,
                head,
                params,
                connection,
                now: context.now,
                request_id: context.request_id,
            };
            // On the heap by itself, since it is larger than all else here.
            return Ok(v1::answer(operation, asked, body, account).boxed().await);
        }
        let config = &service.config;
        let open = service.identity.is_open();
        let origins = &self.origins;
        if !address::permits(origins, &config.address, head, connection, open) {
            return Err(ApiError::ForeignOrigin);
        }

        let operation = match target {
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
        let base = config
            .address
            .of_request(&head.uri, &head.headers, connection);
        let keys = Arc::clone(&service.link_keys);
        let call = v2::Call {
            service,
            streams: &self.streams,
            uploads: &self.uploads,
            memory: &self.memory,
            head,
            params: params.ok_or(ApiError::NotFound)?,
            principal,
            links: Links::new(base.to_string(), keys, config.link_lifetime),
            now: context.now,
        };
        v2::dispatch(operation, &call, body).await
    }

    fn word(
        &self,
        fault: Fault<ApiError>,
        dialect: Dialect,
        request_id: Uuid,
        _: &mut Option<AccountId>,
    ) -> Response<Body> {
        use v1::errors::ApiError as OlderError;
        let v1 = |error: OlderError| error.into_response(false, request_id);
        let v2 = |error: ApiError| error.into_response(request_id);
        match (fault, dialect) {
            (Fault::Refused(refusal), Dialect::V1) => v1(OlderError::Refused(refusal)),
            (Fault::Refused(refusal), Dialect::V2) => v2(ApiError::Refused(refusal)),
            (Fault::MethodNotAllowed(allow), Dialect::V1) => {
                v1(OlderError::MethodNotAllowed(allow))
            }
            (Fault::MethodNotAllowed(allow), Dialect::V2) => v2(ApiError::MethodNotAllowed(allow)),
            (Fault::Own(error), _) => v2(error),
        }
    }

    fn mark(&self, request_id: HeaderValue, headers: &mut HeaderMap) {
        headers.insert(REQUEST_ID, request_id.clone());
        headers.insert(REQUEST_ID_MIRROR, request_id);
    }

    fn observe(&self, seen: &Observed, account: &Option<AccountId>) {
        access::tell(&self.service.observer, seen, account.as_ref());
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
        api::refuse(&*self.inner, refusal, path)
    }
}

impl std::fmt::Debug for WorkflowApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkflowApi")
            .field("service", &self.inner.service)
            .finish_non_exhaustive()
    }
}
