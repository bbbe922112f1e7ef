//! The log of an account: what became of its newest jobs, a line each.
//!
//! The log of a server of one's own tells of everything; here it would tell of others. A socket that subscribed hears the line of
//! each job that ends.

mod readers;

use http::Response;
use hyper_kit::Body;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use v1_compat::{JobWord, failure, prompt_id};
use workflow_core::{Job, JobQuery};

use super::errors::ApiError;
use super::reply;
use super::request::{Call, done};

use readers::LogReader;
pub use readers::LogReaders;

/// Lines of a log, and most outputs of the jobs that are read for them.
const LINES: usize = 100;
const OUTPUTS: usize = 8_192;

/// Most characters of an error in a line.
const MOST_ERROR: usize = 300;

/// Most lines that a socket hears in a second: nobody reads more. How many were left out is said with the next one.
const LINES_A_SECOND: u32 = 20;

/// Most bytes of a subscription: an id of a client and a word.
const SUBSCRIPTION_BYTES: usize = 4 * 1024;

/// Who subscribes, or does so no longer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subscription {
    enabled: bool,
    client_id: String,
}

/// What one socket hears of the log.
pub(super) struct Feed {
    reader: LogReader,
    /// The second of the last line, and how many lines it has.
    second: i64,
    lines: u32,
    left_out: u64,
}

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

/// PATCH /internal/logs/subscribe: lets the open sockets of a client hear of the log, or no longer. What names no socket, as the
/// page does before it has one, changes nothing.
pub(super) async fn subscribe(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    let bytes = call.read_up_to(SUBSCRIPTION_BYTES, body).await?;
    if let Ok(asked) = serde_json::from_slice::<Subscription>(&bytes) {
        let (readers, account) = (&call.v1.log_readers, call.account());
        readers.set(account, &asked.client_id, asked.enabled);
    }
    Ok(done())
}

impl Feed {
    /// The feed of a socket that is about to open; it is silent until the client subscribes.
    pub(super) fn new(readers: &LogReaders, call: &Call<'_>, client: &str) -> Self {
        Self {
            reader: readers.open(call.account(), client),
            second: i64::MIN,
            lines: 0,
            left_out: 0,
        }
    }

    /// Notes that the client is a page.
    pub(super) fn is_of_a_page(&self) {
        self.reader.is_of_a_page();
    }

    /// The message of a job that ended now, in ComfyUI's form; `None` if the client did not subscribe, or heard enough in this second.
    pub(super) fn ended(&mut self, job: &Job, now: Timestamp) -> Option<String> {
        if !self.reader.hears() {
            return None;
        }
        if self.second != now.as_second() {
            (self.second, self.lines) = (now.as_second(), 0);
        }
        if self.lines == LINES_A_SECOND {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        let (at, mut text) = line(job);
        match std::mem::take(&mut self.left_out) {
            0 => {}
            left_out => text = format!("[{at}] {left_out} lines were left out\r\n{text}"),
        }
        let data = json!({"entries": [{"t": at, "m": text}], "size": null});
        Some(json!({"type": "logs", "data": data}).to_string())
    }
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
        // A terminal shows it, which would obey what controls one.
        let message = error.message.trim().replace(char::is_control, " ");
        let message: String = message.chars().take(MOST_ERROR).collect();
        line += &format!(": {message}");
    }
    line += "\r\n";
    (at, line)
}
