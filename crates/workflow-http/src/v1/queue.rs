//! The queue, and stopping what is in it.

use std::collections::HashMap;
use std::fmt;

use http::Response;
use hyper_kit::Body;
use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use v1_compat::queue_item;
use workflow_core::JobStatus;

use super::errors::{ApiError, field};
use super::listing::{Step, texts};
use super::reply;
use super::request::{Call, done, object};

/// Most ids that one request deletes.
const MOST_DELETED: usize = 1000;

/// Bytes of an interrupt's body that are looked at.
const INTERRUPT_BYTES: usize = 64 * 1024;

/// GET /prompt: how much waits and runs.
pub(super) async fn info(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let jobs = call.in_flight().await?;
    let body = json!({"exec_info": {"queue_remaining": jobs.len()}});
    Ok(reply::ok(&body))
}

/// GET /queue.
pub(super) async fn get(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let jobs = call.in_flight().await?;
    let placed = jobs.iter().zip(1..);
    let placed = placed.map(|(job, place)| (job.status, Step::Job(job.id, place)));
    let (pending, running): (Vec<_>, Vec<_>) =
        placed.partition(|(status, _)| *status == JobStatus::Queued);
    let mut steps = vec![Step::Text("{\"queue_running\":[".into())];
    steps.extend(running.into_iter().map(|(_, step)| step));
    steps.push(Step::Text("],\"queue_pending\":[".into()));
    steps.extend(pending.into_iter().map(|(_, step)| step));
    steps.push(Step::Text("]}".into()));
    drop(jobs);
    call.listing(steps, queue_item).await
}

/// POST /queue: cancels the jobs that are named, running ones too, and with `clear` all that wait.
pub(super) async fn change(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    let body = call.json(body).await?;
    let fields = object(body.value)?;
    if let Some(unknown) = fields
        .keys()
        .find(|name| !["delete", "clear"].contains(&name.as_str()))
    {
        return Err(ApiError::Invalid(format!(
            "`{unknown}` is not known here; send `delete` or `clear`"
        )));
    }
    let clear = match fields.get("clear") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(clear)) => *clear,
        Some(_) => return Err(field("clear", "true or false")),
    };
    let wrong = || field("delete", "a list of at most 1000 ids");
    let named = match fields.get("delete") {
        None | Some(Value::Null) => Vec::new(),
        Some(ids) => texts(ids).ok_or_else(wrong)?,
    };
    if named.len() > MOST_DELETED {
        return Err(wrong());
    }
    let mut wanted: Vec<String> = named.into_iter().map(str::to_owned).collect();
    if clear {
        let waiting = call.in_flight().await?;
        let waiting = waiting.iter().filter(|job| job.status == JobStatus::Queued);
        wanted.extend(waiting.map(|job| job.id.to_string()));
    }
    let deleted = call.stop_all(wanted.iter().map(String::as_str)).await?;
    Ok(reply::ok(&json!({"deleted": deleted, "cleared": clear})))
}

/// POST /interrupt: the job that is named; else the oldest that runs, if there is any. What waits is stopped by its name alone.
pub(super) async fn interrupt(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    // What came whole is no reason to refuse: clients send nothing, `{}`, or something that is no JSON. What did not may have
    // named a job, and another one must not be stopped in its place.
    let bytes = call.read_up_to(INTERRUPT_BYTES, body).await?;
    let named = call.parse(&bytes, named).await?.value;
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        call.stop(&named).await?;
        return Ok(done());
    }
    let jobs = call.in_flight().await?;
    if let Some(job) = jobs.iter().find(|job| job.status != JobStatus::Queued) {
        // One that ended meanwhile leaves nothing to be stopped.
        call.stop_all([job.id.to_string().as_str()]).await?;
    }
    Ok(done())
}

/// The job that the body of an interrupt names. What else is in it is passed over, however deep it is.
fn named(body: &[u8]) -> Option<String> {
    let fields: HashMap<Key, &RawValue> = serde_json::from_slice(body).ok()?;
    let named = fields.get(&Key(b"prompt_id".to_vec()))?;
    serde_json::from_str(named.get()).ok()
}

/// A key by its bytes: one that is no text of Unicode must not hide the name beside it.
#[derive(PartialEq, Eq, Hash)]
struct Key(Vec<u8>);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Key, E> {
                Ok(Key(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_beside_whatever_else_there_is() {
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        for body in [
            r#"{"prompt_id": "x"}"#.to_owned(),
            format!(r#"{{"a": {deep}, "prompt_id": "x"}}"#),
            r#"{"prompt_id": 1, "prompt_id": "x"}"#.to_owned(),
            r#"{"\ud800": 1, "prompt_id": "x"}"#.to_owned(),
        ] {
            assert_eq!(named(body.as_bytes()).as_deref(), Some("x"), "{body}");
        }
        for body in ["", "{", "[]", "null", "{}", r#"{"prompt_id": 1}"#] {
            assert_eq!(named(body.as_bytes()), None, "{body}");
        }
    }
}
