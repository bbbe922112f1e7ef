//! Jobs: submit, look, list, cancel.

use bytes::Bytes;
use http::{Method, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::{Map, Value};
use std::time::Duration;

use crate::error::ClientError;
use crate::transport::{Asked, Client, json};
use crate::wire::{Job, JobLog, JobPage};

/// What stands for itself in a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// What stands for itself in one segment of a path.
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A graph to run.
#[derive(Clone, Debug, Serialize)]
pub struct Submission {
    /// The graph in API format.
    pub workflow: Value,
    /// Labels.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Secrets for partner nodes; the server keeps none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_data: Option<Value>,
}

/// Which jobs to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Statuses of which a job must have one; empty for any.
    pub statuses: Vec<String>,
    /// Labels that a job must have.
    pub labels: Vec<(String, String)>,
    /// Jobs of a page, 1 to 100.
    pub limit: usize,
    /// Where the page begins.
    pub cursor: Option<String>,
}

impl Client {
    /// Submits a graph once: the same key gives the same job, however often it is sent. `waiting` hears of every pause
    /// while the server is overloaded.
    ///
    /// # Errors
    /// If the server refuses it or cannot be reached.
    pub async fn submit(
        &self,
        submission: &Submission,
        key: &str,
        waiting: &mut (dyn FnMut(Duration) + Send),
    ) -> Result<Job, ClientError> {
        let body = serde_json::to_vec(submission).map_err(|error| {
            ClientError::Setting(format!("the workflow cannot be written as JSON: {error}"))
        })?;
        let url = self.server().join("/api/v2/jobs");
        let mut asked = Asked::post_json(url, Bytes::from(body)).once(key)?;
        asked.waiting = Some(waiting);
        json(self.ask(asked).await?).await
    }

    /// The authoritative view of a job.
    ///
    /// # Errors
    /// If there is no such job, or no answer.
    pub async fn job(&self, id: &str) -> Result<Job, ClientError> {
        self.get_json(self.server().join(&job_path(id, ""))).await
    }

    /// One page of jobs, newest first.
    ///
    /// # Errors
    /// If the server refuses the filter, or there is no answer.
    pub async fn jobs(&self, filter: &JobFilter) -> Result<JobPage, ClientError> {
        let mut query = format!("?limit={}", filter.limit);
        let mut add = |name: &str, value: &str| {
            let value = utf8_percent_encode(value, QUERY);
            query.push_str(&format!("&{name}={value}"));
        };
        for status in &filter.statuses {
            add("status", status);
        }
        for (name, value) in &filter.labels {
            let name = utf8_percent_encode(name, QUERY);
            add(&format!("metadata[{name}]"), value);
        }
        if let Some(cursor) = &filter.cursor {
            add("cursor", cursor);
        }
        let url = self.server().join("/api/v2/jobs");
        self.get_json(url + &query).await
    }

    /// Asks for a job to be canceled and returns it as it is then.
    ///
    /// # Errors
    /// If there is no such job, or no answer.
    pub async fn cancel(&self, id: &str) -> Result<Job, ClientError> {
        let url = self.server().join(&job_path(id, "/cancel"));
        json(self.ask(Asked::of(Method::POST, url)).await?).await
    }

    /// What a job wrote so far; nothing if it wrote nothing.
    ///
    /// # Errors
    /// If there is no such job, or no answer.
    pub async fn logs(&self, id: &str) -> Result<Option<JobLog>, ClientError> {
        let url = self.server().join(&job_path(id, "/logs"));
        let answer = self.ask(Asked::get(url)).await?;
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        json(answer).await.map(Some)
    }

    /// The graph of a job, as it was submitted.
    ///
    /// # Errors
    /// If there is no such job, or no answer.
    pub async fn workflow(&self, id: &str) -> Result<Value, ClientError> {
        let url = self.server().join(&job_path(id, "/workflow"));
        let mut answer: Value = self.get_json(url).await?;
        Ok(answer["workflow"].take())
    }
}

/// A path below a job.
pub(crate) fn job_path(id: &str, rest: &str) -> String {
    format!("/api/v2/jobs/{}{rest}", segment(id))
}

/// A text as one segment of a path.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}
