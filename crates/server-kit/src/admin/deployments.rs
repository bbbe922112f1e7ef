//! Deployments: what is asked of them, and the commands that ask. They belong to a running server, which starts their workers.

mod commands;

use admin_http::wire::{
    DefinitionBody, DeploymentAnswer, DeploymentBody, DeploymentRequest, DeploymentsPage,
    EventBody, EventsPage, LogsBody, Problem, WorkerLogBody,
};
use async_trait::async_trait;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::service::{page, rows};

pub(super) use commands::{command, run};

/// The deployments of a server.
#[async_trait]
pub trait DeploymentAdmin: Send + Sync + 'static {
    /// All of them, in the order of their names.
    ///
    /// # Errors
    /// As every method: with a sentence that says what to do.
    async fn list(&self) -> Result<Vec<DeploymentBody>, Problem>;

    /// Makes one, or a new revision of it.
    async fn apply(
        &self,
        name: &str,
        definition: DefinitionBody,
        now: Timestamp,
    ) -> Result<DeploymentBody, Problem>;

    /// Starts, stops, scales, rolls back: what else changes one.
    async fn change(
        &self,
        request: DeploymentRequest,
        now: Timestamp,
    ) -> Result<DeploymentBody, Problem>;

    /// Removes one.
    async fn remove(&self, name: &str, now: Timestamp) -> Result<(), Problem>;

    /// What happened to one, newest first; only before this number, where one is given.
    async fn events(
        &self,
        name: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<EventBody>, Problem>;

    /// What the workers of one wrote lately.
    async fn logs(&self, name: &str) -> Result<Vec<WorkerLogBody>, Problem>;
}

/// Carries out what is asked.
pub(super) async fn perform(
    deployments: &dyn DeploymentAdmin,
    request: DeploymentRequest,
    now: Timestamp,
) -> Result<DeploymentAnswer, Problem> {
    match request {
        DeploymentRequest::List { after, limit } => {
            let all = deployments.list().await?;
            let name = |deployment: &DeploymentBody| deployment.name.clone();
            let (page, next_cursor) =
                page(&all, name, after.as_deref(), rows(limit), "deployment")?;
            Ok(DeploymentAnswer::List(DeploymentsPage {
                deployments: page.to_vec(),
                next_cursor,
            }))
        }
        DeploymentRequest::Show { name } => {
            let all = deployments.list().await?.into_iter();
            let mut found = all.filter(|deployment| deployment.name == name);
            found.next().map(one).ok_or_else(|| absent(&name))
        }
        DeploymentRequest::Apply { name, definition } => {
            deployments.apply(&name, definition, now).await.map(one)
        }
        DeploymentRequest::Remove { name } => {
            deployments.remove(&name, now).await?;
            Ok(DeploymentAnswer::Removed)
        }
        DeploymentRequest::Events {
            name,
            before,
            limit,
        } => {
            let limit = rows(limit);
            let events = deployments.events(&name, before, limit).await?;
            let last = events.last().map(|event| event.number.to_string());
            Ok(DeploymentAnswer::Events(EventsPage {
                next_cursor: last.filter(|_| events.len() >= limit),
                events,
            }))
        }
        DeploymentRequest::Logs { name } => {
            let logs = deployments.logs(&name).await?;
            Ok(DeploymentAnswer::Logs(LogsBody { logs }))
        }
        DeploymentRequest::Start { .. }
        | DeploymentRequest::Stop { .. }
        | DeploymentRequest::Scale { .. }
        | DeploymentRequest::RollBack { .. } => deployments.change(request, now).await.map(one),
    }
}

fn one(deployment: DeploymentBody) -> DeploymentAnswer {
    DeploymentAnswer::One(Box::new(deployment))
}

fn absent(name: &str) -> Problem {
    let message = format!("there is no deployment {name}; `deployment list` shows those there are");
    Problem::new(admin_http::wire::ProblemKind::Absent, message)
}

/// How the log names a change; nothing for requests that only look.
pub(super) fn audited(request: &DeploymentRequest) -> Option<(&'static str, String, String)> {
    let (action, name, detail) = match request {
        DeploymentRequest::List { .. }
        | DeploymentRequest::Show { .. }
        | DeploymentRequest::Events { .. }
        | DeploymentRequest::Logs { .. } => return None,
        // Values of variables stay out of it.
        DeploymentRequest::Apply { name, definition } => {
            let program = definition
                .command
                .as_ref()
                .and_then(|command| command.first());
            let detail = match (program, &definition.urls) {
                (Some(program), _) => format!("workers are started as {program}"),
                (None, Some(urls)) => format!("{} workers with addresses", urls.len()),
                (None, None) => String::new(),
            };
            ("deployment.apply", name, detail)
        }
        DeploymentRequest::Start { name } => ("deployment.start", name, String::new()),
        DeploymentRequest::Stop { name } => ("deployment.stop", name, String::new()),
        DeploymentRequest::Scale { name, min, max } => {
            let shown =
                |bound: &Option<u32>| bound.map_or("as it is".to_owned(), |it| it.to_string());
            let detail = format!("min {}, max {}", shown(min), shown(max));
            ("deployment.scale", name, detail)
        }
        DeploymentRequest::RollBack { name, revision } => {
            let detail =
                revision.map_or(String::new(), |revision| format!("to revision {revision}"));
            ("deployment.rollback", name, detail)
        }
        DeploymentRequest::Remove { name } => ("deployment.remove", name, String::new()),
    };
    Some((action, name.clone(), detail))
}

/// The call over HTTP that asks this. `id` spells a name in a path, and `list` the parameters of a page.
pub(super) fn call(
    request: &DeploymentRequest,
    id: impl Fn(&str) -> String,
    list: impl Fn(Option<String>, Option<u32>) -> String,
) -> (Method, String, Option<Value>) {
    let of = |name: &str, below: &str| format!("/deployments/{}{below}", id(name));
    match request {
        DeploymentRequest::List { after, limit } => {
            let page = list(after.clone(), *limit);
            (Method::GET, format!("/deployments{page}"), None)
        }
        DeploymentRequest::Show { name } => (Method::GET, of(name, ""), None),
        DeploymentRequest::Apply { name, definition } => {
            let body = serde_json::to_value(definition).expect("a definition has keys of text");
            (Method::PUT, of(name, ""), Some(body))
        }
        DeploymentRequest::Start { name } => (Method::POST, of(name, "/start"), None),
        DeploymentRequest::Stop { name } => (Method::POST, of(name, "/stop"), None),
        DeploymentRequest::Scale { name, min, max } => {
            let body = json!({ "min": min, "max": max });
            (Method::POST, of(name, "/scale"), Some(body))
        }
        DeploymentRequest::RollBack { name, revision } => {
            let body = json!({ "revision": revision });
            (Method::POST, of(name, "/rollback"), Some(body))
        }
        DeploymentRequest::Remove { name } => (Method::DELETE, of(name, ""), None),
        DeploymentRequest::Events {
            name,
            before,
            limit,
        } => {
            let page = list(before.map(|before| before.to_string()), *limit);
            (Method::GET, of(name, "/events") + &page, None)
        }
        DeploymentRequest::Logs { name } => (Method::GET, of(name, "/logs"), None),
    }
}

/// What such a call was answered.
pub(super) fn answer(
    request: &DeploymentRequest,
    bytes: &[u8],
) -> Result<DeploymentAnswer, serde_json::Error> {
    match request {
        DeploymentRequest::List { .. } => serde_json::from_slice(bytes).map(DeploymentAnswer::List),
        DeploymentRequest::Remove { .. } => Ok(DeploymentAnswer::Removed),
        DeploymentRequest::Events { .. } => {
            serde_json::from_slice(bytes).map(DeploymentAnswer::Events)
        }
        DeploymentRequest::Logs { .. } => serde_json::from_slice(bytes).map(DeploymentAnswer::Logs),
        DeploymentRequest::Show { .. }
        | DeploymentRequest::Apply { .. }
        | DeploymentRequest::Start { .. }
        | DeploymentRequest::Stop { .. }
        | DeploymentRequest::Scale { .. }
        | DeploymentRequest::RollBack { .. } => serde_json::from_slice(bytes).map(one),
    }
}
