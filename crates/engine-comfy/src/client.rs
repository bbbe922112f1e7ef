//! The HTTP of one worker: each call with its own time limit and its own bound on what is read.

pub(crate) mod upload;

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use hyper_kit::{AddressPolicy, Body, Client, ClientConfig, FetchError, ReadPace, read_limited};
use serde_json::{Value, json};
use tokio::time::timeout;
use trace_context::TraceContext;

use crate::address::WorkerUrl;
use crate::history::{self, FileRef, Queue};

/// Names the run that a request is part of.
const TRACEPARENT: HeaderName = HeaderName::from_static(trace_context::HEADER);

/// How long a worker may take to say that it is there.
const HEALTH_TIME: Duration = Duration::from_secs(2);

/// How long a short question may take.
const SHORT_TIME: Duration = Duration::from_secs(10);

/// How long a worker may take to list its classes, or to validate a graph: extensions make both slow.
const LONG_TIME: Duration = Duration::from_secs(60);

/// Most bytes of a short answer.
const SHORT_BYTES: usize = 1 << 20;

/// Most bytes of definitions, or of a history entry with its graph.
const LONG_BYTES: usize = 64 << 20;

/// Why a worker did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    /// Nothing was sent: it cannot be reached.
    #[error("{0}")]
    Unsent(FetchError),
    /// It may have done it: the connection broke, or the time was over.
    #[error("{0}")]
    Unanswered(String),
    /// It answered with a status that is none of its refusals.
    #[error("it answered {path} with status {status}")]
    Status {
        /// What was asked.
        path: &'static str,
        /// The status.
        status: u16,
    },
    /// It answered with something that cannot be read.
    #[error("its answer to {0} is not of the expected form")]
    Garbage(&'static str),
}

/// Whether an answer is a page or an object where a file was asked for. ComfyUI names the type of a file by its name, and names
/// none `text/html`; a proxy in front of it that fails may answer with either.
fn is_page(answer: &Response<Body>, filename: &str) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE);
    let kind = kind.map_or(&b""[..], HeaderValue::as_bytes);
    let is_json = kind.starts_with(b"application/json") && !filename.ends_with(".json");
    is_json || kind.starts_with(b"text/html")
}

/// What came of a submission.
#[derive(Debug)]
pub(crate) enum SubmitAnswer {
    /// It is in the worker's queue, under this number and this id.
    Accepted(f64, String),
    /// The worker refuses it, in its own words; or it refuses some of its outputs, and runs the others under this id.
    Refused(Value, Option<String>),
}

/// The client of one worker.
#[derive(Clone)]
pub(crate) struct WorkerClient {
    url: WorkerUrl,
    headers: HeaderMap,
    client: Client,
}

impl WorkerClient {
    /// A client that reaches this worker and nothing else.
    pub(crate) fn new(
        url: WorkerUrl,
        headers: HeaderMap,
        extra_ca_pem: Option<Vec<u8>>,
    ) -> Result<Self, hyper_kit::client::ExtraCaError> {
        let policy = AddressPolicy {
            https_only: false,
            allow_private: vec![url.host().clone()],
        };
        let client = Client::new(ClientConfig {
            policy,
            extra_ca_pem,
            connect_timeout: HEALTH_TIME,
            idle_per_host: 4,
            // aiohttp keeps unused connections for 75 s (ComfyUI's own default), some proxies for 5 s.
            idle_timeout: Duration::from_secs(4),
            user_agent: concat!("easel/", env!("CARGO_PKG_VERSION")).parse().ok(),
            ..ClientConfig::default()
        })?;
        Ok(Self {
            url,
            headers,
            client,
        })
    }

    /// Whether it answers at all within `time`.
    pub(crate) async fn health(&self, time: Duration) -> Result<(), WorkerError> {
        let answer = self.get("/prompt", String::new(), time, SHORT_BYTES);
        let answer = answer.await?;
        match answer.get("exec_info").is_some_and(Value::is_object) {
            true => Ok(()),
            false => Err(WorkerError::Garbage("/prompt")),
        }
    }

    /// The version of ComfyUI, where it says so.
    pub(crate) async fn version(&self) -> Result<String, WorkerError> {
        let stats = self.get("/system_stats", String::new(), SHORT_TIME, SHORT_BYTES);
        match stats.await {
            Ok(stats) => {
                let version = stats
                    .get("system")
                    .and_then(|system| system.get("comfyui_version"));
                let version = version.and_then(Value::as_str).unwrap_or_default();
                Ok(version.chars().take(64).collect())
            }
            // Such a route is not everywhere.
            Err(WorkerError::Status {
                status: 404 | 405, ..
            }) => Ok(String::new()),
            Err(error) => Err(error),
        }
    }

    /// Its definitions.
    pub(crate) async fn object_info(&self) -> Result<Value, WorkerError> {
        self.get("/object_info", String::new(), LONG_TIME, LONG_BYTES)
            .await
    }

    /// Its queue.
    pub(crate) async fn queue(&self) -> Result<Queue, WorkerError> {
        let answer = self
            .get("/queue", String::new(), SHORT_TIME, LONG_BYTES)
            .await?;
        history::read_queue(&answer).ok_or(WorkerError::Garbage("/queue"))
    }

    /// What its history has of a prompt.
    pub(crate) async fn history(
        &self,
        prompt: &str,
    ) -> Result<Option<history::Entry>, WorkerError> {
        let rest = format!("/{prompt}");
        let answer = self.get("/history", rest, SHORT_TIME, LONG_BYTES).await?;
        if !answer.is_object() {
            return Err(WorkerError::Garbage("/history"));
        }
        Ok(history::read_entry(&answer, prompt))
    }

    /// Submits a prompt.
    pub(crate) async fn submit(&self, body: &Value) -> Result<SubmitAnswer, WorkerError> {
        let path = "/prompt";
        let request = self.request(
            "POST",
            path,
            "",
            Body::full(body.to_string()),
            Some("application/json"),
        );
        let (status, answer) = timeout(LONG_TIME, self.answer(path, request, LONG_BYTES))
            .await
            .unwrap_or_else(|_| Err(unanswered("it took too long to answer a submission")))?;
        let answer: Option<Value> = serde_json::from_slice(&answer).ok();
        match (status, answer) {
            (StatusCode::OK, Some(answer)) if answer.get("prompt_id").is_some() => {
                let number = answer.get("number").and_then(Value::as_f64);
                let id = answer.get("prompt_id").and_then(Value::as_str);
                let id = id.unwrap_or_default().to_owned();
                let errors = answer.get("node_errors").and_then(Value::as_object);
                Ok(match errors.is_some_and(|errors| !errors.is_empty()) {
                    true => SubmitAnswer::Refused(answer, Some(id)),
                    false => SubmitAnswer::Accepted(number.unwrap_or_default(), id),
                })
            }
            (StatusCode::BAD_REQUEST, Some(answer)) if answer.get("error").is_some() => {
                Ok(SubmitAnswer::Refused(answer, None))
            }
            // It may be in the queue all the same.
            (StatusCode::OK, _) => Err(unanswered(
                "its answer to a submission is not of the expected form",
            )),
            (status, _) if status.is_server_error() => {
                Err(unanswered("it failed while it took a submission"))
            }
            (status, _) => Err(WorkerError::Status {
                path,
                status: status.as_u16(),
            }),
        }
    }

    /// Takes a prompt out of its queue, if it waits there.
    pub(crate) async fn delete(&self, prompt: &str) -> Result<(), WorkerError> {
        self.post("/queue", "", &json!({"delete": [prompt]})).await
    }

    /// Interrupts a prompt. A version that does not read the id interrupts whatever runs.
    pub(crate) async fn interrupt(&self, prompt: &str) -> Result<(), WorkerError> {
        self.post("/interrupt", "", &json!({"prompt_id": prompt}))
            .await
    }

    /// Deletes or interrupts a prompt, whichever it takes, in one step at the worker.
    pub(crate) async fn cancel(&self, prompt: &str) -> Result<(), WorkerError> {
        let rest = format!("/{prompt}/cancel");
        self.post("/api/jobs", &rest, &json!({})).await
    }

    /// A file that a node made, to be read.
    pub(crate) async fn view(&self, file: &FileRef) -> Result<Response<Body>, WorkerError> {
        let query = format!(
            "?filename={}&subfolder={}&type={}",
            escaped(&file.filename),
            escaped(&file.subfolder),
            escaped(&file.folder)
        );
        let path = "/view";
        let request = self.request("GET", path, &query, Body::empty(), None);
        let answer = self.client.send(request?);
        let answer = timeout(SHORT_TIME, answer)
            .await
            .map_err(|_| unanswered("it took too long to give a file"))?;
        let answer = answer.map_err(failed)?;
        match answer.status() {
            StatusCode::OK if is_page(&answer, &file.filename) => Err(WorkerError::Garbage(path)),
            StatusCode::OK => Ok(answer),
            status => Err(WorkerError::Status {
                path,
                status: status.as_u16(),
            }),
        }
    }

    /// Asks for the socket.
    pub(crate) async fn upgrade(
        &self,
        client_id: &str,
        key: &str,
    ) -> Result<Response<Body>, WorkerError> {
        let query = format!("?clientId={client_id}");
        let mut request = self.request("GET", "/ws", &query, Body::empty(), None)?;
        let headers = request.headers_mut();
        headers.insert(
            http::header::CONNECTION,
            HeaderValue::from_static("Upgrade"),
        );
        headers.insert(http::header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(
            http::header::SEC_WEBSOCKET_VERSION,
            HeaderValue::from_static("13"),
        );
        let key = HeaderValue::from_str(key).map_err(|_| WorkerError::Garbage("/ws"))?;
        headers.insert(http::header::SEC_WEBSOCKET_KEY, key);
        let answer = timeout(HEALTH_TIME * 2, self.client.send(request)).await;
        answer
            .map_err(|_| unanswered("it took too long to open a socket"))?
            .map_err(failed)
    }

    async fn post(&self, path: &'static str, rest: &str, body: &Value) -> Result<(), WorkerError> {
        let body = Body::full(body.to_string());
        let request = self.request("POST", path, rest, body, Some("application/json"));
        let answered = timeout(SHORT_TIME, self.answer(path, request, SHORT_BYTES)).await;
        let (status, _) =
            answered.unwrap_or_else(|_| Err(unanswered("it took too long to answer")))?;
        match status.is_success() {
            true => Ok(()),
            false => Err(WorkerError::Status {
                path,
                status: status.as_u16(),
            }),
        }
    }

    async fn get(
        &self,
        path: &'static str,
        rest: String,
        time: Duration,
        limit: usize,
    ) -> Result<Value, WorkerError> {
        let request = self.request("GET", path, &rest, Body::empty(), None);
        let answered = timeout(time, self.answer(path, request, limit)).await;
        let (status, body) =
            answered.unwrap_or_else(|_| Err(unanswered("it took too long to answer")))?;
        if status != StatusCode::OK {
            return Err(WorkerError::Status {
                path,
                status: status.as_u16(),
            });
        }
        serde_json::from_slice(&body).map_err(|_| WorkerError::Garbage(path))
    }

    async fn answer(
        &self,
        path: &'static str,
        request: Result<Request<Body>, WorkerError>,
        limit: usize,
    ) -> Result<(StatusCode, Bytes), WorkerError> {
        let answer = self.client.send(request?).await.map_err(failed)?;
        let status = answer.status();
        let body = read_limited(answer.into_body(), limit, ReadPace::default()).await;
        match body {
            Ok(body) => Ok((status, body)),
            Err(hyper_kit::BodyError::TooLarge { .. }) => Err(WorkerError::Garbage(path)),
            Err(error) => Err(unanswered(&error.to_string())),
        }
    }

    fn request(
        &self,
        method: &str,
        path: &'static str,
        rest: &str,
        body: Body,
        content_type: Option<&str>,
    ) -> Result<Request<Body>, WorkerError> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}{rest}", self.url))
            .body(body);
        let mut request = request.map_err(|_| WorkerError::Garbage(path))?;
        let headers = request.headers_mut();
        *headers = self.headers.clone();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(context) = TraceContext::current() {
            let context = HeaderValue::try_from(context.to_string());
            headers.extend(context.ok().map(|context| (TRACEPARENT, context)));
        }
        if let Some(content_type) = content_type {
            let content_type = HeaderValue::from_str(content_type);
            headers.insert(
                CONTENT_TYPE,
                content_type.map_err(|_| WorkerError::Garbage(path))?,
            );
        }
        Ok(request)
    }
}

fn failed(error: FetchError) -> WorkerError {
    match error.is_unsent() {
        true => WorkerError::Unsent(error),
        false => WorkerError::Unanswered(error.to_string()),
    }
}

fn unanswered(why: &str) -> WorkerError {
    WorkerError::Unanswered(why.to_owned())
}

/// A text within a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => {
                let digits = b"0123456789ABCDEF";
                escaped.push('%');
                escaped.push(char::from(digits[usize::from(byte >> 4)]));
                escaped.push(char::from(digits[usize::from(byte & 15)]));
            }
        }
    }
    escaped
}

impl std::fmt::Debug for WorkerClient {
    /// Without its headers, which may be credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerClient")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_cannot_leave_their_place_in_a_query() {
        assert_eq!(
            escaped("a b&type=input#é.png"),
            "a%20b%26type%3Dinput%23%C3%A9.png"
        );
    }
}
