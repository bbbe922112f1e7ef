//! One request from its head to the head of its answer: identified, routed, answered, told.
//!
//! What every family does with a request is in [`hyper_kit::api`]; here are the operations of this one, the mirrored headers,
//! and what the log and the metrics have of a request: its model and its bucket.

use std::sync::Arc;

use accounts::{AccountId, Principal};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use hyper_kit::{
    Api, ApiMount, Application, Body, BodyRoom, BoxError, ConnectionInfo, Fault, Incoming,
    Mountable, Observed, Params, Refusal, RequestContext, RouteError, api,
};
use router_core::{Bucket, ModelId, RequestId};
use uuid::Uuid;

use crate::access::{self, Note};
use crate::dialect::Dialect;
use crate::errors::ApiError;
use crate::routes::{ALIASES, Operation, ROUTES};
use crate::{
    RouterService, call, catalog, estimate, generations, headers, origins, reply, requests, usage,
};

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
    mount: ApiMount<Operation>,
    room: BodyRoom<AccountId>,
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

/// Mounts the service below the prefix that its configuration names.
///
/// # Errors
/// If that prefix is no prefix.
pub fn routes(service: RouterService) -> Result<RouterApi, RouteError> {
    let aliases = if service.config.aliases { ALIASES } else { &[] };
    let table = ROUTES.iter().chain(aliases);
    let table = table.map(|(method, pattern, operation)| (method.clone(), *pattern, *operation));
    let prefix = &service.config.address.mount_prefix;
    let origins = origins::policy(&service.config.allowed_origins);
    let inner = Inner {
        mount: ApiMount::new(prefix, table, Some(origins), api::UNKNOWN)?,
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
        let Some(below) = path.strip_prefix(self.inner.mount.prefix()) else {
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
        api::handle(&*self.inner, request, connection)
    }
}

impl Inner {
    /// A path without the mount prefix.
    fn below<'p>(&self, path: &'p str) -> &'p str {
        path.strip_prefix(self.mount.prefix()).unwrap_or(path)
    }

    /// Everything up to the answer, or up to where a call waits for its own.
    async fn begin(
        &self,
        asked: Box<hyper_kit::Asked<Operation>>,
        note: &mut Note,
    ) -> Result<Begun, ApiError> {
        let service = &self.service;
        let hyper_kit::Asked {
            mut head,
            body,
            connection,
            context,
            target,
            params,
        } = *asked;
        let operation = target.ok_or(ApiError::NoRoute)?;
        if operation == Operation::Document {
            return Ok(Begun::Answered(reply::json_bytes(StatusCode::OK, OPENAPI)));
        }

        let (request, now) = (RequestId(context.request_id), context.now);
        if operation == Operation::Signed {
            let signed = generations::signed(service, &head, params.as_ref(), now).await?;
            return Ok(Begun::Answered(signed));
        }
        if !service.config.api_key_header {
            head.headers.remove(X_API_KEY);
        }
        let caller = service.identity.verify_named(&head.headers, now).await?;
        note.account = Some(caller.account.clone());
        let dialect = self.dialect(head.uri.path());
        let asked = Asked::new(caller, params, head.uri.path(), dialect);
        let answer = match operation {
            Operation::List => {
                let query = head.uri.query().unwrap_or_default();
                catalog::list(service, &asked, query, now).await
            }
            Operation::Detail => {
                let answer = catalog::detail(service, &asked, &head, &connection, now).await;
                note.model = answer.is_ok().then(|| asked.id()).flatten();
                answer
            }
            Operation::Schema => {
                let answer = catalog::schema(service, &asked, &head.headers, now).await;
                note.model = answer.is_ok().then(|| asked.id()).flatten();
                answer
            }
            Operation::Run => {
                let running = call::open(service, &asked, &head, request, now).await;
                drop((asked, head));
                let opened = running?;
                note.model = Some(opened.model());
                return Ok(Begun::Waits(opened.run(body, &self.room).await?));
            }
            Operation::Calls => {
                service.router.open_record(&asked.caller, now).await?;
                let query = head.uri.query().unwrap_or_default();
                usage::calls(service, &asked, query).await
            }
            Operation::Usage => {
                service.router.open_record(&asked.caller, now).await?;
                let query = head.uri.query().unwrap_or_default();
                usage::totals(service, &asked, query, now).await
            }
            Operation::Generation => {
                service.router.open_record(&asked.caller, now).await?;
                generations::detail(service, &asked, &head, &connection, now).await
            }
            Operation::Estimate => {
                let body = (body, &self.room);
                let answer = estimate::estimate(service, &asked, &head, body, now).await?;
                note.model = asked.id();
                return Ok(Begun::Answered(answer));
            }
            Operation::Submit => {
                let links = requests::Links::new(service, &asked, &head, &connection);
                let opened = call::open(service, &asked, &head, request, now).await;
                drop((asked, head));
                let opened = opened?;
                note.model = Some(opened.model());
                let submitted = opened.submit(body, &self.room).await?;
                let (response, bucket) = requests::submitted(submitted, &links, request);
                note.bucket = bucket;
                return Ok(Begun::Answered(response));
            }
            Operation::Requests => {
                let links = requests::Links::new(service, &asked, &head, &connection);
                let query = head.uri.query().unwrap_or_default();
                let answer = requests::list(service, &asked, &links, query, now).await;
                note.model = answer.is_ok().then(|| asked.id()).flatten();
                answer
            }
            Operation::RequestStatus => {
                let links = requests::Links::new(service, &asked, &head, &connection);
                requests::status(service, &asked, &links, now).await
            }
            Operation::RequestResult => {
                let links = requests::Links::new(service, &asked, &head, &connection);
                requests::result(service, &asked, &links, now).await
            }
            Operation::CancelRequest => {
                // One that comes too late is an error to whoever counts, and has no bucket of its own.
                note.bucket = Some(Bucket::InvalidInput);
                requests::cancel(service, &asked, now).await
            }
            Operation::Document | Operation::Signed => {
                Ok(reply::json_bytes(StatusCode::OK, OPENAPI))
            }
        };
        Ok(Begun::Answered(answer?))
    }
}

impl Asked {
    /// The segments of a path as far as it has any. What cannot be decoded stays as it was sent: a percent sign is in no id,
    /// so it names nothing.
    fn new(caller: Principal, params: Option<Params>, path: &str, dialect: Dialect) -> Self {
        let (provider, model, request) = match params {
            Some(mut params) => {
                let rest = params.get("rest").map(|rest| format!("/{rest}"));
                let model = params.take("model") + &rest.unwrap_or_default();
                (params.take("provider"), model, params.take("request"))
            }
            None => {
                let raw = path.split_once("/models/").map_or("", |(_, rest)| rest);
                let (provider, model) = raw.split_once('/').unwrap_or((raw, ""));
                (provider.to_owned(), model.to_owned(), String::new())
            }
        };
        Self {
            caller,
            provider,
            model,
            request,
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

impl Api for Inner {
    type Target = Operation;
    type Dialect = Dialect;
    type Error = ApiError;
    type Note = Note;

    fn mount(&self) -> &ApiMount<Operation> {
        &self.mount
    }

    fn context(&self) -> RequestContext {
        RequestContext {
            // Ids that are made one after the other are neighbours in every index, so that what calls write down lies together.
            request_id: Uuid::now_v7(),
            now: self.service.clock.now(),
        }
    }

    fn dialect(&self, path: &str) -> Dialect {
        Dialect::of(self.below(path))
    }

    async fn answer(
        &self,
        asked: Box<hyper_kit::Asked<Operation>>,
        note: &mut Note,
    ) -> Result<Response<Body>, ApiError> {
        let request = RequestId(asked.context.request_id);
        let dialect = self.dialect(asked.head.uri.path());
        // On the heap, and gone before a call waits: what it takes to begin one is many times what it takes to wait.
        match Box::pin(self.begin(asked, note)).await {
            Err(error) => Err(error),
            Ok(Begun::Answered(response)) => Ok(response),
            Ok(Begun::Waits(call)) => {
                // Boxed: otherwise this future has room for it beside what began it.
                let waiting = Box::pin(call.answer(&self.service, request, dialect));
                let (response, bucket) = waiting.await;
                note.bucket = bucket;
                Ok(response)
            }
        }
    }

    fn word(
        &self,
        fault: Fault<ApiError>,
        dialect: Dialect,
        request_id: Uuid,
        note: &mut Note,
    ) -> Response<Body> {
        let error = match fault {
            Fault::Refused(refusal) => ApiError::Refused(refusal),
            Fault::MethodNotAllowed(allow) => ApiError::MethodNotAllowed(allow),
            Fault::Own(error) => error,
        };
        note.bucket = Some(error.bucket());
        error.into_response(RequestId(request_id), dialect)
    }

    fn mark(&self, request_id: HeaderValue, headers: &mut HeaderMap) {
        let mirror = self.service.config.mirror_headers;
        headers::identify(headers, request_id, mirror);
    }

    fn observe(&self, seen: &Observed, note: &Note) {
        access::tell(&self.service.observer, seen, note);
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
        api::refuse(&*self.inner, refusal, path)
    }
}

impl std::fmt::Debug for RouterApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterApi")
            .field("service", &self.inner.service)
            .finish_non_exhaustive()
    }
}
