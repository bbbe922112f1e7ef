//! Published models: what is asked of them, and the commands that ask. They belong to a running server that runs workflows and
//! calls models.

mod commands;

use admin_http::wire::{
    Answer, GraphBody, ModelAnswer, ModelRequest, Problem, ProblemKind, PublishedModelBody,
    PublishedModelsPage,
};
use async_trait::async_trait;
use http::Method;
use jiff::Timestamp;
use serde_json::Value;

use super::AdminPorts;
use super::service::{page, rows};

pub use commands::command as model_command;
pub(super) use commands::{NAME, run};

/// The published models of a server.
#[async_trait]
pub trait ModelAdmin: Send + Sync + 'static {
    /// All of them, in the order of their ids, without schemas.
    ///
    /// # Errors
    /// As every method: with a sentence that says what to do.
    async fn list(&self) -> Result<Vec<PublishedModelBody>, Problem>;

    /// One of them.
    async fn show(&self, model: &str) -> Result<PublishedModelBody, Problem>;

    /// Makes one of a graph, or a new version of it. Where the offered version says the same, nothing happens.
    async fn publish(
        &self,
        model: &str,
        graph: GraphBody,
        now: Timestamp,
    ) -> Result<PublishedModelBody, Problem>;

    /// Withdraws a version, or all of them.
    async fn withdraw(
        &self,
        model: &str,
        version: Option<u32>,
        now: Timestamp,
    ) -> Result<PublishedModelBody, Problem>;
}

/// Carries out what is asked.
pub(super) async fn perform(
    ports: &AdminPorts,
    request: ModelRequest,
    now: Timestamp,
) -> Result<Answer, Problem> {
    let models = ports.models.as_deref().ok_or_else(|| {
        Problem::new(
            ProblemKind::Absent,
            "no server that publishes models runs here; start `all-in-one`, or ask one with --server",
        )
    })?;
    let one = |model| ModelAnswer::One(Box::new(model));
    let answer = match request {
        ModelRequest::List { after, limit } => {
            let all = models.list().await?;
            let id = |model: &PublishedModelBody| model.id.clone();
            let (page, next_cursor) = page(&all, id, after.as_deref(), rows(limit), "model")?;
            ModelAnswer::List(PublishedModelsPage {
                models: page.to_vec(),
                next_cursor,
            })
        }
        ModelRequest::Show { model } => one(models.show(&model).await?),
        ModelRequest::Publish { model, graph } => one(models.publish(&model, graph, now).await?),
        ModelRequest::Withdraw { model, version } => {
            one(models.withdraw(&model, version, now).await?)
        }
    };
    Ok(Answer::Model(answer))
}

/// How the log names a change; nothing for requests that only look.
pub(super) fn audited(request: &ModelRequest) -> Option<(&'static str, String, String)> {
    match request {
        ModelRequest::List { .. } | ModelRequest::Show { .. } => None,
        ModelRequest::Publish { model, graph } => {
            let detail = format!("{} nodes, {} cents", graph.graph.len(), graph.price_cents);
            Some(("model.publish", model.clone(), detail))
        }
        ModelRequest::Withdraw { model, version } => {
            let detail = version.map_or("all versions".to_owned(), |it| format!("version {it}"));
            Some(("model.withdraw", model.clone(), detail))
        }
    }
}

/// The call over HTTP that asks this. `id` spells a part of a path, and `list` the parameters of a page.
pub(super) fn call(
    request: &ModelRequest,
    id: impl Fn(&str) -> String,
    list: impl Fn(Option<String>, Option<u32>) -> String,
) -> (Method, String, Option<Value>) {
    let of = |model: &str| {
        let (provider, name) = model.split_once('/').unwrap_or((model, ""));
        format!("/models/{}/{}", id(provider), id(name))
    };
    match request {
        ModelRequest::List { after, limit } => {
            let page = list(after.clone(), *limit);
            (Method::GET, format!("/models{page}"), None)
        }
        ModelRequest::Show { model } => (Method::GET, of(model), None),
        ModelRequest::Publish { model, graph } => {
            let body = serde_json::to_value(graph).expect("a graph has keys of text");
            (Method::PUT, of(model), Some(body))
        }
        ModelRequest::Withdraw { model, version } => {
            let query = version.map(|version| format!("?version={version}"));
            (Method::DELETE, of(model) + &query.unwrap_or_default(), None)
        }
    }
}

/// What such a call was answered.
pub(super) fn answer(
    request: &ModelRequest,
    bytes: &[u8],
) -> Result<ModelAnswer, serde_json::Error> {
    match request {
        ModelRequest::List { .. } => serde_json::from_slice(bytes).map(ModelAnswer::List),
        ModelRequest::Show { .. }
        | ModelRequest::Publish { .. }
        | ModelRequest::Withdraw { .. } => serde_json::from_slice(bytes).map(ModelAnswer::One),
    }
}
