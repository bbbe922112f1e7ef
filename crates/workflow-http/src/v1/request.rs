//! One request of this family: whose it is, and what it asks.
//!
//! A credential comes as `X-API-Key`, as a bearer token, else as the cookie of the web page, or, for the socket alone, in the
//! query, where it wins. Whichever it is, it goes no further than here.

use accounts::{AccountId, Principal, Scope};
use bytes::Bytes;
use http::Response;
use http::request::Parts;
use hyper_kit::{Body, ConnectionInfo, OriginPolicy, Params};
use identity::IdentityError;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use uuid::Uuid;
use v1_compat::job_of;
use workflow_core::{JobId, JobView, JobsError, NodeCatalog};

use super::errors::ApiError;
use super::models::{self, Spelling};
use super::{Operation, V1Service, about, dispatch, page, reply, session};
use crate::links::Links;
use crate::memory::{Memory, Parsed};
use crate::streams::Streams;
use crate::uploads::Uploads;
use crate::{WorkflowService, address, credential};

/// A request of a known caller, on its way to a handler.
pub(super) struct Call<'a> {
    pub(super) service: &'a WorkflowService,
    pub(super) v1: &'a V1Service,
    pub(super) streams: &'a Streams,
    pub(super) uploads: &'a Uploads,
    pub(super) memory: &'a Memory,
    pub(super) head: &'a Parts,
    /// What the path names; `None` where a part of it cannot be read as a whole.
    pub(super) params: Option<Params>,
    pub(super) principal: Principal,
    pub(super) links: Links,
    pub(super) now: Timestamp,
}

/// A request before it is known whose it is.
pub(crate) struct Asked<'a> {
    pub(crate) service: &'a WorkflowService,
    pub(crate) v1: &'a V1Service,
    pub(crate) streams: &'a Streams,
    pub(crate) uploads: &'a Uploads,
    pub(crate) memory: &'a Memory,
    pub(crate) origins: &'a OriginPolicy,
    pub(crate) head: &'a Parts,
    pub(crate) params: Option<Params>,
    pub(crate) connection: &'a ConnectionInfo,
    pub(crate) now: Timestamp,
    pub(crate) request_id: Uuid,
}

/// Answers a request of this family, whatever becomes of it.
pub(crate) async fn answer(
    operation: Operation,
    asked: Asked<'_>,
    body: Body,
    account: &mut Option<AccountId>,
) -> Response<Body> {
    let (request_id, submits) = (asked.request_id, operation == Operation::Submit);
    let answered = try_answer(operation, asked, body, account).await;
    answered.unwrap_or_else(|error| error.into_response(submits, request_id))
}

async fn try_answer(
    operation: Operation,
    asked: Asked<'_>,
    body: Body,
    account: &mut Option<AccountId>,
) -> Result<Response<Body>, ApiError> {
    let Asked {
        service,
        v1,
        streams,
        uploads,
        memory,
        origins,
        head,
        params,
        connection,
        now,
        ..
    } = asked;
    let address = &service.config.address;
    let open = service.identity.is_open();
    // A socket changes nothing but hears everything, and browsers open sockets to anybody for any page.
    let permits = if operation == Operation::OpenSocket {
        address::admits
    } else {
        address::permits
    };
    if !permits(origins, address, head, connection, open) {
        return Err(ApiError::ForeignOrigin);
    }
    let Some(scope) = operation.scope() else {
        return if operation == Operation::SignIn {
            session::sign_in(service, v1, memory, head, body, connection, now).await
        } else if operation == Operation::SignOut {
            session::sign_out(service, v1, head).await
        } else if operation == Operation::ListSubgraphs {
            page::subgraphs(v1).await
        } else if operation == Operation::GetSubgraph {
            page::subgraph(v1, &params.ok_or(ApiError::NotFound)?["id"]).await
        } else if operation == Operation::ShowModelFolders || operation == Operation::ShowModels {
            // Anybody may ask. Names of models are for those who may see the nodes that choose them.
            let caller = verify(operation, service, v1, head, now).await;
            let nodes = match caller.is_ok_and(|caller| caller.scopes.allow(Scope::JobsRead)) {
                true => service.jobs.nodes(),
                false => NodeCatalog::default(),
            };
            Ok(
                match params.as_ref().and_then(|params| params.get("folder")) {
                    Some(folder) => models::files(&nodes, folder, Spelling::Objects),
                    None => models::folders(&nodes, Spelling::Objects),
                },
            )
        } else {
            Ok(about::public(operation, service, v1))
        };
    };
    let principal = verify(operation, service, v1, head, now).await?;
    *account = Some(principal.account.clone());
    if !principal.scopes.allow(scope) {
        return Err(ApiError::MissingScope(scope));
    }
    if operation == Operation::Submit && !principal.subscribed {
        return Err(ApiError::SubscriptionInactive);
    }
    let base = address.of_request(&head.uri, &head.headers, connection);
    let keys = std::sync::Arc::clone(&service.link_keys);
    let call = Call {
        service,
        v1,
        streams,
        uploads,
        memory,
        head,
        params,
        principal,
        links: Links::new(base.to_string(), keys, service.config.link_lifetime),
        now,
    };
    dispatch(operation, &call, body).await
}

/// Whose request it is.
pub(super) async fn verify(
    operation: Operation,
    service: &WorkflowService,
    v1: &V1Service,
    head: &Parts,
    now: Timestamp,
) -> Result<Principal, IdentityError> {
    let (identity, sessions) = (&service.identity, Some(&v1.sessions));
    let token = (operation == Operation::OpenSocket)
        .then(|| token(head))
        .flatten();
    credential::verify(identity, sessions, token.as_deref(), &head.headers, now).await
}

/// The credential in the query of a request for a socket: browsers can set no header for one.
pub(super) fn token(head: &Parts) -> Option<String> {
    let query = pairs(head.uri.query().unwrap_or_default());
    let token = query.into_iter().find(|(name, _)| name == "token");
    token
        .map(|(_, token)| token)
        .filter(|token| !token.is_empty())
}

/// The parameters of a query, decoded.
pub(super) fn pairs(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
    };
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(name), decode(value))
        })
        .collect()
}

impl Call<'_> {
    /// The parameters of the query.
    pub(super) fn query(&self) -> Vec<(String, String)> {
        pairs(self.head.uri.query().unwrap_or_default())
    }

    /// One part of the path.
    pub(super) fn param(&self, name: &str) -> Result<&str, ApiError> {
        let params = self.params.as_ref().ok_or(ApiError::NotFound)?;
        Ok(&params[name])
    }

    /// The job that the path names.
    pub(super) async fn job(&self) -> Result<JobView, ApiError> {
        self.job_called(self.param("id")?).await
    }

    /// The job that the client calls so: by the job's own id, or by the one that was chosen for it. What is no id is a job
    /// that nobody has.
    pub(super) async fn job_called(&self, text: &str) -> Result<JobView, ApiError> {
        let id = job_id(text).ok_or(ApiError::NotFound)?;
        let (jobs, account) = (&self.service.jobs, self.account());
        match jobs.get(account, id, self.now).await {
            Err(JobsError::NotFound) => {}
            found => return Ok(found?),
        }
        let chosen = job_of(account, id);
        Ok(jobs.get(account, chosen, self.now).await?)
    }

    /// A whole body within the bound of JSON.
    pub(super) async fn read(&self, body: Body) -> Result<Bytes, ApiError> {
        self.read_up_to(self.service.config.json_bytes, body).await
    }

    /// A whole body of at most so many bytes.
    pub(super) async fn read_up_to(&self, limit: usize, body: Body) -> Result<Bytes, ApiError> {
        let pace = self.service.config.read_pace;
        let read = self.memory.read(self.account(), body, limit, pace);
        Ok(read.await?)
    }

    /// What `work` makes of a body, with the room that it takes.
    pub(super) async fn parse<T: Send + 'static>(
        &self,
        bytes: &Bytes,
        work: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> Result<Parsed<T>, ApiError> {
        let (account, jobs) = (self.account(), &self.service.jobs);
        Ok(self.memory.parse(account, jobs, bytes, work).await?)
    }

    /// A body that is JSON, with the room that it takes.
    pub(super) async fn json(&self, body: Body) -> Result<Parsed<Value>, ApiError> {
        let bytes = self.read(body).await?;
        let parsed = self.parse(&bytes, json_text::read);
        let Parsed { value, room } = parsed.await?;
        let value = value.map_err(ApiError::Syntax)?;
        Ok(Parsed { value, room })
    }

    pub(super) fn account(&self) -> &AccountId {
        &self.principal.account
    }
}

/// A job's id in a text.
pub(super) fn job_id(text: &str) -> Option<JobId> {
    let text = Some(text).filter(|text| text.len() == uuid::fmt::Hyphenated::LENGTH);
    text.and_then(|text| text.parse().ok())
}

/// A plain 200.
pub(super) fn done() -> Response<Body> {
    reply::empty(http::StatusCode::OK)
}

/// An object, or the error of a body that is none.
pub(super) fn object(value: Value) -> Result<Map<String, Value>, ApiError> {
    if let Value::Object(fields) = value {
        return Ok(fields);
    }
    Err(ApiError::Invalid("the body must be a JSON object".into()))
}
