//! The log of an account: what became of its newest jobs, a line each.
//!
//! The log of a server of one's own tells of everything; here it would tell of others.

use http::Response;
use hyper_kit::Body;
use serde_json::json;
use v1_compat::{JobWord, failure, prompt_id};
use workflow_core::{Job, JobQuery};

use super::errors::ApiError;
use super::reply;
use super::request::Call;

/// Lines of a log, and most outputs of the jobs that are read for them.
const LINES: usize = 100;
const OUTPUTS: usize = 8_192;

/// Most characters of an error in a line.
const MOST_ERROR: usize = 300;

/// GET /internal/logs: the lines as one text.
pub(super) async fn text(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let lines = lines(call).await?;
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    Ok(reply::ok(&text.into()))
}

/// GET /internal/logs/raw: the lines with their times, as the terminal of the page shows them.
pub(super) async fn raw(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let lines = lines(call).await?.into_iter();
    let entries = lines.map(|(at, line)| json!({"t": at, "m": line}));
    Ok(reply::ok(&json!({
        "entries": entries.collect::<Vec<_>>(),
        "size": {"cols": 160, "rows": LINES},
    })))
}

/// Time and text of each line, the oldest first.
async fn lines(call: &Call<'_>) -> Result<Vec<(String, String)>, ApiError> {
    let query = JobQuery {
        account: call.account().clone(),
        labels: Vec::new(),
        over: None,
        statuses: Vec::new(),
        after: None,
        limit: LINES,
        outputs: OUTPUTS,
    };
    let page = call.service.jobs.list(&query, call.now).await?;
    let jobs = page.jobs.iter().rev().filter(|view| !view.job.is_part());
    Ok(jobs.map(|view| line(&view.job)).collect())
}

fn line(job: &Job) -> (String, String) {
    let at = job.completed_at.unwrap_or(job.updated_at).to_string();
    let word = JobWord::of(job.status).name();
    let mut line = format!("[{at}] {} {word}", prompt_id(job));
    if let Some(ms) = job.execution_ms() {
        line += &format!(" in {ms} ms");
    }
    if let Some(error) = failure(job) {
        let message = error.message.trim().replace(['\r', '\n'], " ");
        let message: String = message.chars().take(MOST_ERROR).collect();
        line += &format!(": {message}");
    }
    line += "\r\n";
    (at, line)
}
