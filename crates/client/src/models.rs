//! Partner models: the catalog, schemas, estimates and calls.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use hyper_kit::{Body, BodyError};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use crate::document::InputSchema;
use crate::error::ClientError;
use crate::jobs::segment;
use crate::transport::{Asked, Client, broken, json, whole};
use crate::wire::{Model, ModelPage};

/// The longest answer of a model that is held.
const LONGEST_ANSWER: usize = 512 << 20;

/// The longest id of a model.
const LONGEST_ID: usize = 193;

/// The pause before a call is picked up again when the server names none.
const PICK_UP_PAUSE: Duration = Duration::from_secs(2);

/// What a model answered.
#[derive(Clone, Debug)]
pub struct CallAnswer {
    /// The body as it came.
    pub body: Bytes,
    /// Its media type.
    pub content_type: String,
    /// The server's id of the request.
    pub request_id: Option<String>,
    /// Whether it is the stored answer of an earlier call under the same key.
    pub replayed: bool,
}

/// What a call tells before it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallNews<'a> {
    /// The server has stopped holding the connection; it is asked again after this pause.
    Waiting(Duration),
    /// The next bytes of an answer that comes as server-sent events. They are in the answer, too.
    Piece(&'a Bytes),
}

impl Client {
    /// Every model that the caller may use, in the order of the catalog.
    ///
    /// # Errors
    /// If the server refuses, has no router, or cannot be reached.
    pub async fn models(&self) -> Result<Vec<Model>, ClientError> {
        let mut models = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut url = self.server().join("/v1/models?limit=100");
            if let Some(cursor) = &cursor {
                let cursor = utf8_percent_encode(cursor, NON_ALPHANUMERIC);
                url.push_str(&format!("&cursor={cursor}"));
            }
            let page = self.get_json::<ModelPage>(url).await;
            let page = page.map_err(|error| self.without_router(error))?;
            models.extend(page.data);
            match page.next_cursor.filter(|_| page.has_more) {
                // A page that leads to itself would never end.
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                Some(_) | None => return Ok(models),
            }
        }
    }

    /// One model of the catalog, whichever, if there is any: whether the router accepts the credential.
    ///
    /// # Errors
    /// If the server refuses, has no router, or cannot be reached.
    pub async fn first_model(&self) -> Result<Option<Model>, ClientError> {
        let url = self.server().join("/v1/models?limit=1");
        let page = self.get_json::<ModelPage>(url).await;
        let page = page.map_err(|error| self.without_router(error))?;
        Ok(page.data.into_iter().next())
    }

    /// One entry of the catalog.
    ///
    /// # Errors
    /// If there is no such model, or no answer.
    pub async fn model(&self, id: &str) -> Result<Model, ClientError> {
        let url = self.server().join(&model_path(id, "")?);
        let found = self.get_json(url).await;
        found.map_err(|error| self.without_router(error))
    }

    /// What a model takes.
    ///
    /// # Errors
    /// If there is no such model, or no answer.
    pub async fn input_schema(&self, id: &str) -> Result<InputSchema, ClientError> {
        let url = self.server().join(&model_path(id, "/openapi.json")?);
        let document = self.get_json(url).await;
        let document: Value = document.map_err(|error| self.without_router(error))?;
        Ok(InputSchema::of(document))
    }

    /// A call by the id of its request, with the files of its result that the server keeps.
    ///
    /// # Errors
    /// If there is no such call, or no answer.
    pub async fn generation(&self, request: &str) -> Result<Value, ClientError> {
        let path = format!("/v1/generations/{}", segment(request));
        let found = self.get_json(self.server().join(&path)).await;
        found.map_err(|error| self.without_router(error))
    }

    /// What a call would cost.
    ///
    /// # Errors
    /// [`ClientError::NotOffered`] if the server gives no estimates; otherwise as [`Client::call`].
    pub async fn estimate(&self, id: &str, body: Bytes) -> Result<Value, ClientError> {
        let url = self.server().join(&model_path(id, "/estimate")?);
        let error = match self.ask(Asked::post_json(url, body)).await {
            Ok(answer) => return json(answer).await,
            Err(error) => error,
        };
        if !error.is_status(404) && !error.is_status(405) {
            return Err(error);
        }
        // A model that is there and has no estimate says that estimates are missing, not the model.
        self.model(id).await?;
        Err(ClientError::NotOffered(format!(
            "{} gives no estimates; a call is priced when it runs",
            self.server()
        )))
    }

    /// Calls a model once under `key`, with labels for the record of the call, and waits for its answer. While the call runs at the partner and the server stops
    /// holding the connection, the same key picks it up again, until `patience` is over. `news` hears of that, and of the bytes of
    /// a stream as they come.
    ///
    /// # Errors
    /// As the server says; [`ClientError::Interrupted`] if the outcome is unknown, or a stream broke off: the same key gets the
    /// outcome later.
    pub async fn call(
        &self,
        id: &str,
        body: &Bytes,
        key: &str,
        labels: &[(String, String)],
        patience: Duration,
        news: &mut (dyn FnMut(CallNews<'_>) + Send),
    ) -> Result<CallAnswer, ClientError> {
        let url = self.server().join(&model_path(id, "")?);
        let until = Instant::now() + patience;
        loop {
            let mut asked = Asked::post_json(url.clone(), body.clone())
                .once(key)?
                .labelled(labels)?;
            asked.time = until.saturating_duration_since(Instant::now());
            asked.repeatable = false;
            let called = match self.ask(asked).await {
                // What was told of a stream is not told again.
                Ok(answer) if is_stream(&answer) => return read_stream(answer, until, news).await,
                Ok(answer) => read(answer).await,
                Err(error) => Err(error),
            };
            let error = match called {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause = error.refusal().and_then(|refusal| refusal.retry_after);
            // The contract sends `Retry-After` exactly where the same key helps. A connection that broke may have been
            // accepted, and the key makes the repetition safe.
            let helps = matches!(error, ClientError::Interrupted(_)) || pause.is_some();
            let pause = pause.unwrap_or(PICK_UP_PAUSE);
            if !helps || Instant::now() + pause >= until {
                return Err(self.without_router(error));
            }
            news(CallNews::Waiting(pause));
            sleep(pause).await;
        }
    }

    /// Tells a server without a router from one that refuses.
    fn without_router(&self, error: ClientError) -> ClientError {
        let is_foreign = |bucket: &str| !bucket.starts_with(|c: char| c.is_ascii_lowercase());
        match error.refusal() {
            Some(refusal)
                if refusal.status == 404
                    && (!refusal.is_of_contract
                        || refusal.code == "not_found"
                        || is_foreign(&refusal.code)) =>
            {
                ClientError::NotOffered(format!(
                    "{} has no model router; name a server that has one with --server",
                    self.server()
                ))
            }
            Some(_) | None => error,
        }
    }
}

async fn read(answer: Response<Body>) -> Result<CallAnswer, ClientError> {
    let head = head(&answer);
    let body = whole(answer, LONGEST_ANSWER).await?;
    Ok(CallAnswer { body, ..head })
}

/// Whether an answer comes as server-sent events.
fn is_stream(answer: &Response<Body>) -> bool {
    let content_type = text(answer.headers(), CONTENT_TYPE.as_str());
    content_type.is_some_and(|it| it.starts_with("text/event-stream"))
}

/// Reads a stream, telling every piece of it.
async fn read_stream(
    answer: Response<Body>,
    until: Instant,
    news: &mut (dyn FnMut(CallNews<'_>) + Send),
) -> Result<CallAnswer, ClientError> {
    let head = head(&answer);
    let mut body = answer.into_body();
    let mut whole = BytesMut::new();
    loop {
        let frame = timeout_at(until, body.frame()).await;
        let Some(frame) = frame.map_err(|_| broken(&BodyError::Idle))? else {
            break;
        };
        let frame = frame.map_err(|cause| broken(&BodyError::Broken(cause)))?;
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        if whole.len() + piece.len() > LONGEST_ANSWER {
            let limit = LONGEST_ANSWER as u64;
            return Err(broken(&BodyError::TooLarge { limit }));
        }
        whole.extend_from_slice(&piece);
        news(CallNews::Piece(&piece));
    }
    let body = whole.freeze();
    Ok(CallAnswer { body, ..head })
}

/// What the head of an answer says.
fn head(answer: &Response<Body>) -> CallAnswer {
    let text = |name: &str| text(answer.headers(), name);
    CallAnswer {
        content_type: text(CONTENT_TYPE.as_str()).unwrap_or_default(),
        request_id: text("x-service-request-id").or_else(|| text("x-comfy-request-id")),
        replayed: text("idempotent-replayed").is_some(),
        body: Bytes::new(),
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The path of a model. An id has two segments; more are sent as they are, and the server says what it knows instead.
fn model_path(id: &str, rest: &str) -> Result<String, ClientError> {
    let parts: Vec<&str> = id.split('/').collect();
    if parts.len() < 2 || parts.iter().any(|part| part.is_empty()) || id.len() > LONGEST_ID {
        return Err(ClientError::Setting(format!(
            "{id:?} is no id of a model; write it as PROVIDER/MODEL, such as bfl/flux-2-pro"
        )));
    }
    let parts: Vec<String> = parts.into_iter().map(segment).collect();
    Ok(format!("/v1/models/{}{rest}", parts.join("/")))
}
