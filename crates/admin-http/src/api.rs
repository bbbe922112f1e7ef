//! One request from its head to the head of its answer: identified, routed, judged, carried out.
//!
//! What every family does with a request is in [`hyper_kit::api`].

use std::sync::Arc;

use accounts::{AccountId, Principal, Scope};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use hyper_kit::media::expect_json;
use hyper_kit::{
    Api, ApiMount, Application, Asked, Body, BoxError, ConnectionInfo, Fault, Incoming, Mountable,
    Observed, Observer, Params, ReadPace, Refusal, RequestContext, RouteError, api, read_limited,
};
use identity::Identity;
use jiff::Timestamp;
use secrecy::ExposeSecret;
use uuid::Uuid;

use crate::body::{self, AddedKey, Fields, NewKey};
use crate::deployments;
use crate::errors::ApiError;
use crate::models;
use crate::query::{Page, parameter};
use crate::routes::{BASE, OWN_WEBHOOKS, Operation, Operation as O, ROUTES};
use crate::service::{Actor, AdminService};
use crate::webhooks;
use crate::wire::{Answer, Problem, ProblemKind, Reply, Request as Wish, WorkerChange};

/// The document of this API (OpenAPI 3.1), as it is served.
pub const OPENAPI: &str = include_str!("../../../docs/openapi/admin.json");

/// Most bytes of a body: an account with every limit and as many patterns as there may be.
const MOST_BODY_BYTES: usize = 128 * 1024;

/// How often another key is tried where one of its id is there already.
const TRIES: usize = 4;

/// The id of a request, made here and never taken from the caller.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-service-request-id");

/// The same id under the name that today's clients show in their errors.
const REQUEST_ID_MIRROR: HeaderName = HeaderName::from_static("x-comfy-request-id");

/// Admin over HTTP, mounted. Clones are the same.
#[derive(Clone)]
pub struct AdminApi {
    inner: Arc<Inner>,
}

struct Inner {
    /// The paths below which everything is.
    bases: [String; 2],
    mount: ApiMount<Operation>,
    service: Arc<dyn AdminService>,
    identity: Identity,
    observer: Observer,
}

/// A request whose credential was checked.
pub(crate) struct Call {
    service: Arc<dyn AdminService>,
    actor: Actor,
    pub(crate) account: AccountId,
    now: Timestamp,
}

impl AdminApi {
    /// Mounts the service below `mount_path` for those whom `identity` knows. `observer` hears of every answered request.
    ///
    /// # Errors
    /// If the mount path is none.
    pub fn new(
        mount_path: &str,
        service: Arc<dyn AdminService>,
        identity: Identity,
        observer: Observer,
    ) -> Result<Self, RouteError> {
        let table = ROUTES.iter();
        let table =
            table.map(|(method, pattern, operation)| (method.clone(), *pattern, *operation));
        let inner = Inner {
            bases: [BASE, OWN_WEBHOOKS].map(|base| format!("{mount_path}{base}")),
            mount: ApiMount::new(mount_path, table, None, BASE)?,
            service,
            identity,
            observer,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Whether a path is one of this API, known or not.
    #[must_use]
    pub fn owns(&self, path: &str) -> bool {
        self.inner.bases.iter().any(|base| {
            let below = path.strip_prefix(base.as_str());
            below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        })
    }

    /// Answers one request.
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

impl Api for Inner {
    type Target = Operation;
    type Dialect = ();
    type Error = ApiError;
    type Note = ();

    fn mount(&self) -> &ApiMount<Operation> {
        &self.mount
    }

    fn context(&self) -> RequestContext {
        RequestContext {
            request_id: Uuid::new_v4(),
            now: Timestamp::now(),
        }
    }

    fn dialect(&self, _: &str) {}

    async fn answer(
        &self,
        asked: Box<Asked<Operation>>,
        (): &mut (),
    ) -> Result<Response<Body>, ApiError> {
        let Asked {
            head,
            body,
            context,
            target,
            params,
            ..
        } = *asked;
        let operation = target.ok_or(ApiError::NoRoute)?;
        if operation == O::GetDocument {
            return Ok(document());
        }
        // Before a byte of the body is read. Never anonymous, and never by a cookie: no page of another site sends these.
        let principal = self.allowed(operation, &head.headers, context.now).await?;
        let params = params.ok_or(ApiError::NotFound)?;
        let call = Call {
            service: Arc::clone(&self.service),
            actor: Actor::of(&principal),
            account: principal.account,
            now: context.now,
        };
        call.dispatch(operation, &head, params, body).await
    }

    fn word(
        &self,
        fault: Fault<ApiError>,
        (): (),
        request_id: Uuid,
        (): &mut (),
    ) -> Response<Body> {
        let error = match fault {
            Fault::Refused(refusal) => ApiError::Refused(refusal),
            Fault::MethodNotAllowed(allow) => ApiError::MethodNotAllowed(allow),
            Fault::Own(error) => error,
        };
        error.into_response(request_id)
    }

    fn mark(&self, request_id: HeaderValue, headers: &mut HeaderMap) {
        headers.insert(REQUEST_ID_MIRROR, request_id.clone());
        headers.insert(REQUEST_ID, request_id);
    }

    fn observe(&self, seen: &Observed, (): &()) {
        if seen.client_left {
            return;
        }
        tracing::debug!(
            method = %seen.method,
            route = seen.route,
            status = seen.status.as_u16(),
            elapsed = ?seen.elapsed,
            request.id = %seen.request_id,
            "answered"
        );
        (self.observer)(seen);
    }
}

impl Inner {
    /// The caller, if it may do this.
    async fn allowed(
        &self,
        operation: Operation,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Principal, ApiError> {
        if let O::OwnWebhook(operation) = operation {
            let principal = self.identity.verify(headers, now).await;
            let principal = principal.map_err(ApiError::Nobody)?;
            return match webhooks::may(&principal, operation) {
                true => Ok(principal),
                false => Err(ApiError::NotWebhooks),
            };
        }
        let principal = self.identity.verify_operator(headers, now).await?;
        match principal.scopes.allow(Scope::Admin) {
            true => Ok(principal),
            false => Err(ApiError::NotAdmin),
        }
    }
}

impl Call {
    async fn dispatch(
        self,
        operation: Operation,
        head: &Parts,
        params: Params,
        body: Body,
    ) -> Result<Response<Body>, ApiError> {
        let id = || params.get("id").unwrap_or_default().to_owned();
        let page = || Page::read(head.uri.query().unwrap_or_default());
        let wish = match operation {
            O::GetDocument => return Ok(document()),
            O::ListAccounts => {
                let Page { cursor, limit } = page()?;
                Wish::Accounts {
                    after: cursor,
                    limit,
                }
            }
            O::AddAccount => {
                let mut fields = read(head, body).await?;
                let id = fields.text("id", "the id of the new account")?;
                let changes = fields.changes()?;
                let answer = self.carry_out(Wish::AddAccount { id, changes }).await?;
                return Ok(shown(StatusCode::CREATED, answer));
            }
            O::GetAccount => Wish::Account { id: id() },
            O::ChangeAccount => Wish::ChangeAccount {
                id: id(),
                changes: read(head, body).await?.changes()?,
            },
            O::GetCredits => {
                let Page { cursor, limit } = page()?;
                let before = cursor.as_deref().map(read_number).transpose()?;
                Wish::Entries {
                    account: id(),
                    before,
                    limit,
                }
            }
            O::GrantCredits => {
                let mut fields = read(head, body).await?;
                let reference = fields.text(
                    "reference",
                    "a UUID of your choice; a repeat with it is the same grant",
                )?;
                let cents = fields.number(
                    "amount_cents",
                    "a whole number of US cents, below 0 to take some back",
                )?;
                fields.end()?;
                Wish::Grant {
                    account: id(),
                    reference,
                    cents,
                }
            }
            O::ListKeys => {
                let Page { cursor, limit } = page()?;
                Wish::Keys {
                    account: id(),
                    after: cursor,
                    limit,
                }
            }
            O::AddKey => return self.add_key(id(), read(head, body).await?.key()?).await,
            O::RevokeKey => Wish::RevokeKey { id: id() },
            O::GetAsset => Wish::Asset { id: id() },
            O::HoldAsset | O::ReleaseAsset => Wish::HoldAsset {
                id: id(),
                held: operation == O::HoldAsset,
            },
            O::ConfirmSweeps => Wish::ConfirmSweeps,
            O::GetCatalog => Wish::Catalog,
            O::ReloadCatalog => Wish::ReloadCatalog,
            O::ListWorkers => {
                let Page { cursor, limit } = page()?;
                Wish::Workers {
                    after: cursor,
                    limit,
                }
            }
            O::ExplainJob => Wish::ExplainJob {
                id: id(),
                account: parameter(head.uri.query().unwrap_or_default(), "account"),
            },
            O::Deployment(operation) => {
                let name = params.get("name").unwrap_or_default();
                deployments::wish(operation, name, head, body).await?
            }
            O::Model(operation) => models::wish(operation, &params, head, body).await?,
            O::AddWorker => Wish::ChangeWorker(read(head, body).await?.worker()?),
            O::GetSettings => Wish::Settings,
            O::Webhook(operation) => return self.webhook(operation, id(), head, body).await,
            O::OwnWebhook(operation) => {
                return self
                    .own_webhook(operation, params.get("id"), head, body)
                    .await;
            }
            O::RemoveWorker | O::DrainWorker | O::ResumeWorker => {
                let name = read(head, body).await?.worker_name()?;
                let draining = operation == O::DrainWorker;
                Wish::ChangeWorker(if operation == O::RemoveWorker {
                    WorkerChange::Remove { name }
                } else {
                    WorkerChange::Drain { name, draining }
                })
            }
        };
        Ok(shown(StatusCode::OK, self.carry_out(wish).await?))
    }

    /// Adds a key. Its text is made here unless the client made it, and is in this one answer and nowhere else.
    async fn add_key(self, account: String, new: NewKey) -> Result<Response<Body>, ApiError> {
        let NewKey {
            name,
            scopes,
            expires_in_s,
            made,
        } = new;
        let wish = |id: String, hash| Wish::AddKey {
            account: account.clone(),
            id,
            hash,
            name: name.clone(),
            scopes: scopes.clone(),
            expires_in_s,
        };
        if let Some((id, hash)) = made {
            let answer = self.carry_out(wish(id.to_string(), *hash.as_bytes()));
            return Ok(shown(StatusCode::CREATED, answer.await?));
        }
        for _ in 0..TRIES {
            let minted = body::mint()?;
            let hash = *minted.hash().as_bytes();
            match self.carry_out(wish(minted.id.to_string(), hash)).await {
                Ok(Answer::Key(body)) => {
                    let key = Some(minted.text.expose_secret());
                    return Ok(body::json(StatusCode::CREATED, &AddedKey { body, key }));
                }
                Ok(other) => return Ok(shown(StatusCode::CREATED, other)),
                Err(ApiError::Problem(problem)) if problem.kind == ProblemKind::Taken => {}
                Err(error) => return Err(error),
            }
        }
        let message = "no free id for a key was found; send the request again";
        Err(ApiError::Problem(Problem::new(ProblemKind::Taken, message)))
    }

    /// Carries a request out in a task of its own: a client that leaves must not leave a change half logged.
    pub(crate) async fn carry_out(&self, wish: Wish) -> Result<Answer, ApiError> {
        let (service, actor, now) = (Arc::clone(&self.service), self.actor.clone(), self.now);
        let task = tokio::spawn(async move { service.answer(&actor, wish, now).await });
        match task.await {
            Ok(Reply::Done(answer)) => Ok(answer),
            Ok(Reply::Refused(problem)) => Err(ApiError::Problem(problem)),
            Err(_) => Err(ApiError::Abandoned),
        }
    }
}

/// A cursor that is the number of a row.
pub(crate) fn read_number(cursor: &str) -> Result<u64, ApiError> {
    cursor.parse().map_err(|_| ApiError::Parameter {
        name: "cursor",
        must: "the `next_cursor` of the page before; start without one",
    })
}

pub(crate) async fn read(head: &Parts, body: Body) -> Result<Fields, ApiError> {
    expect_json(&head.headers)?;
    let bytes = read_limited(body, MOST_BODY_BYTES, ReadPace::default()).await?;
    Fields::read(&bytes)
}

/// A body that may be left out, which is an object without fields.
pub(crate) async fn read_optional(head: &Parts, body: Body) -> Result<Fields, ApiError> {
    let bytes = read_limited(body, MOST_BODY_BYTES, ReadPace::default()).await?;
    if bytes.is_empty() {
        return Ok(Fields::none());
    }
    expect_json(&head.headers)?;
    Fields::read(&bytes)
}

pub(crate) fn shown(status: StatusCode, answer: Answer) -> Response<Body> {
    match answer {
        Answer::Done => body::empty(),
        Answer::Accounts(page) => body::json(status, &page),
        Answer::Account(account) => body::json(status, &account),
        Answer::Entries(page) => body::json(status, &page),
        Answer::Keys(page) => body::json(status, &page),
        Answer::Key(key) => body::json(status, &key),
        Answer::Credits(credits) => body::json(status, &credits),
        Answer::Asset(asset) => body::json(status, &asset),
        Answer::Catalog(catalog) => body::json(status, &catalog),
        Answer::Workers(workers) => body::json(status, &workers),
        Answer::Job(job) => body::json(status, &job),
        Answer::Deployment(answer) => deployments::shown(status, answer),
        Answer::Model(answer) => models::shown(status, answer),
        Answer::Webhooks(page) => body::json(status, &page),
        Answer::Webhook(webhook) => body::json(status, &webhook),
        Answer::WebhookSecret(webhook) => body::json(status, &webhook),
        Answer::Delivery(delivery) => body::json(status, &delivery),
        Answer::Deliveries(page) => body::json(status, &page),
        Answer::Settings(settings) => body::json(status, &settings),
    }
}

fn document() -> Response<Body> {
    let mut response = Response::new(Body::full(OPENAPI));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

impl Mountable for AdminApi {
    fn handle(
        &self,
        request: Request<Body>,
        connection: ConnectionInfo,
    ) -> impl Future<Output = Response<Body>> + Send {
        Self::handle(self, request, connection)
    }
}

impl Application for AdminApi {
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

impl std::fmt::Debug for AdminApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminApi")
            .field("bases", &self.inner.bases)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_document_has_every_route_and_no_other() {
        let document: serde_json::Value = serde_json::from_str(OPENAPI).expect("it is JSON");
        let paths = document["paths"].as_object().expect("it has paths");
        let documented = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("a path has methods");
            methods
                .keys()
                .map(move |method| format!("{} {path}", method.to_uppercase()))
        });
        let routes = ROUTES.iter();
        let routes = routes.map(|(method, path, _)| format!("{method} {path}"));
        assert_eq!(
            documented.collect::<BTreeSet<_>>(),
            routes.collect::<BTreeSet<_>>()
        );
    }
}
