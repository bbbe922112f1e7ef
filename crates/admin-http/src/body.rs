//! Bodies: what a client may send, read strictly, and what it is sent.

use accounts::{KeyHash, KeyId, MintedKey, Scopes};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use hyper_kit::Body;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::errors::ApiError;
use crate::wire::{DefinitionBody, GraphBody, KeyBody, Request, WebhookRequest, WorkerChange};

/// What the field `events` of a webhook is.
const EVENTS: &str = "kinds of events such as job.ended, as a list or separated by commas";

/// A JSON object as a client sent it. Every field is taken once; what is left over is refused.
pub(crate) struct Fields(Map<String, Value>);

/// A key that is to be added.
pub(crate) struct NewKey {
    pub(crate) name: Option<String>,
    pub(crate) scopes: String,
    pub(crate) expires_in_s: Option<u32>,
    /// The id and the hash of a key that the client made itself.
    pub(crate) made: Option<(KeyId, KeyHash)>,
}

/// The answer to a new key.
#[derive(Serialize)]
pub(crate) struct AddedKey<'a> {
    #[serde(flatten)]
    pub(crate) body: KeyBody,
    /// Its text, if it was made here: shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<&'a str>,
}

impl Fields {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ApiError> {
        match json_text::read(bytes).map_err(ApiError::Syntax)? {
            Value::Object(fields) => Ok(Self(fields)),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Err(field("body", "a JSON object")),
        }
    }

    /// No field at all.
    pub(crate) fn none() -> Self {
        Self(Map::new())
    }

    /// A text that must be there.
    pub(crate) fn text(&mut self, name: &str, must: &str) -> Result<String, ApiError> {
        let found = self.optional_text(name, must)?;
        found.ok_or_else(|| field(name, must))
    }

    fn optional_text(&mut self, name: &str, must: &str) -> Result<Option<String>, ApiError> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(field(name, must)),
        }
    }

    /// A whole number of 32 bits that must be there.
    pub(crate) fn number(&mut self, name: &str, must: &str) -> Result<i32, ApiError> {
        let number = self.0.remove(name).and_then(|value| value.as_i64());
        let number = number.and_then(|number| i32::try_from(number).ok());
        number.ok_or_else(|| field(name, must))
    }

    /// Everything that is left, as the changes of an account: `true` and `false` are on and off, `null` is the default.
    pub(crate) fn changes(self) -> Result<Vec<(String, String)>, ApiError> {
        let read = self.0.into_iter().map(|(name, value)| {
            let text = match value {
                Value::String(text) => text,
                Value::Bool(true) => "on".to_owned(),
                Value::Bool(false) => "off".to_owned(),
                Value::Null => "default".to_owned(),
                Value::Number(number) => number.to_string(),
                Value::Array(_) | Value::Object(_) => {
                    return Err(field(&name, "a text, a number, true, false or null"));
                }
            };
            Ok((name, text))
        });
        read.collect()
    }

    pub(crate) fn key(mut self) -> Result<NewKey, ApiError> {
        const SCOPES: &str = "names of scopes, as a list or separated by spaces";
        let name = self.optional_text("name", "a text")?;
        let scopes = match self.0.remove("scopes") {
            None | Some(Value::Null) => Scopes::standard().to_string(),
            Some(Value::String(text)) => text,
            Some(Value::Array(names)) => {
                let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
                names.ok_or_else(|| field("scopes", SCOPES))?.join(" ")
            }
            Some(_) => return Err(field("scopes", SCOPES)),
        };
        let expires_in_s = match self.0.remove("expires_in_s") {
            None | Some(Value::Null) => None,
            Some(value) => {
                let seconds = value.as_u64().and_then(|s| u32::try_from(s).ok());
                let seconds = seconds.filter(|seconds| *seconds > 0);
                Some(seconds.ok_or_else(|| {
                    field("expires_in_s", "a whole number of seconds, at least 1")
                })?)
            }
        };
        const ID: &str = "the 8 characters behind `easel_` in the key, beside its `hash`";
        const HASH: &str = "the hash of the key in 64 hex digits, beside its `id`";
        let id = self.optional_text("id", ID)?;
        let hash = self.optional_text("hash", HASH)?;
        let made = match (id, hash) {
            (None, None) => None,
            (Some(id), Some(hash)) => {
                let id = id.parse().map_err(|_| field("id", ID))?;
                Some((id, read_hash(&hash).ok_or_else(|| field("hash", HASH))?))
            }
            (Some(_), None) => return Err(field("hash", HASH)),
            (None, Some(_)) => return Err(field("id", ID)),
        };
        self.end()?;
        Ok(NewKey {
            name,
            scopes,
            expires_in_s,
            made,
        })
    }

    pub(crate) fn worker(mut self) -> Result<WorkerChange, ApiError> {
        let url = self.text(
            "url",
            "the address of a worker, such as http://gpu-box:8188",
        )?;
        let name = self.optional_text("name", "a text")?;
        self.end()?;
        Ok(WorkerChange::Add { name, url })
    }

    pub(crate) fn worker_name(mut self) -> Result<String, ApiError> {
        let name = self.text("name", "the name of a worker, as the list has it")?;
        self.end()?;
        Ok(name)
    }

    /// Everything that is left, as a definition of a deployment.
    pub(crate) fn definition(self) -> Result<DefinitionBody, ApiError> {
        let read = serde_json::from_value(Value::Object(self.0));
        read.map_err(|error| field("body", &format!("a definition of a deployment: {error}")))
    }

    /// Everything that is left, as a graph to be published.
    pub(crate) fn graph(self) -> Result<GraphBody, ApiError> {
        let read = serde_json::from_value(Value::Object(self.0));
        read.map_err(|error| field("body", &format!("a graph to be published: {error}")))
    }

    /// A whole number from 0 on, if it is there.
    pub(crate) fn optional_count(&mut self, name: &str) -> Result<Option<u32>, ApiError> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
                Ok(Some(
                    count.ok_or_else(|| field(name, "a whole number from 0 on"))?,
                ))
            }
        }
    }

    pub(crate) fn webhook(mut self, account: String) -> Result<Request, ApiError> {
        let url = self.text("url", "the address that events are sent to")?;
        let events = self.events()?.ok_or_else(|| field("events", EVENTS))?;
        self.end()?;
        Ok(Request::Webhook(WebhookRequest::Add {
            account,
            url,
            events,
        }))
    }

    pub(crate) fn webhook_changes(mut self, id: String) -> Result<Request, ApiError> {
        let url = self.optional_text("url", "the address that events are sent to")?;
        let events = self.events()?;
        let enabled = match self.0.remove("enabled") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(enabled)) => Some(enabled),
            Some(_) => return Err(field("enabled", "true or false")),
        };
        self.end()?;
        Ok(Request::Webhook(WebhookRequest::Change {
            id,
            url,
            events,
            enabled,
        }))
    }

    pub(crate) fn rotation(mut self, id: String) -> Result<Request, ApiError> {
        const OVERLAP: &str = "a whole number of seconds up to 604800 (7 days)";
        let overlap_s = match self.0.remove("overlap_s") {
            None | Some(Value::Null) => None,
            Some(value) => {
                let seconds = value.as_u64().and_then(|s| u32::try_from(s).ok());
                Some(seconds.ok_or_else(|| field("overlap_s", OVERLAP))?)
            }
        };
        self.end()?;
        Ok(Request::Webhook(WebhookRequest::Rotate { id, overlap_s }))
    }

    /// The kinds of events, as one text.
    fn events(&mut self) -> Result<Option<String>, ApiError> {
        match self.0.remove("events") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Array(names)) => {
                let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
                let names = names.ok_or_else(|| field("events", EVENTS))?;
                Ok(Some(names.join(",")))
            }
            Some(_) => Err(field("events", EVENTS)),
        }
    }

    /// Refuses what was not asked for: a misspelled field must not be passed over.
    pub(crate) fn end(self) -> Result<(), ApiError> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(field(name, "left out: this request has no such field")),
        }
    }
}

/// A key that is made here.
pub(crate) fn mint() -> Result<MintedKey, ApiError> {
    let mut random = [0; MintedKey::RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(ApiError::Random)?;
    Ok(MintedKey::new(&random))
}

fn read_hash(text: &str) -> Option<KeyHash> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, digits) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(KeyHash::from_bytes(digest))
}

pub(crate) fn field(name: &str, must: &str) -> ApiError {
    ApiError::Field {
        name: name.to_owned(),
        must: must.to_owned(),
    }
}

/// A JSON answer, which no cache may keep.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response<Body> {
    let bytes = serde_json::to_vec(value).expect("wire structs have only text keys");
    let mut response = Response::new(Body::full(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An answer without a body.
pub(crate) fn empty() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> String {
        let read = Fields::read(body.as_bytes()).and_then(Fields::key);
        match read {
            Ok(_) => panic!("{body} is taken"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_key_is_read_strictly() {
        let hash = "0f".repeat(32);
        let body = format!(r#"{{"id": "aaaaaaaa", "hash": "{hash}", "scopes": ["admin"]}}"#);
        let key = Fields::read(body.as_bytes()).and_then(Fields::key);
        let key = key.expect("it is right");
        let (id, made) = key.made.expect("the client made it");
        assert_eq!((id.as_str(), made.as_bytes()[31]), ("aaaaaaaa", 0x0f));
        assert_eq!(key.scopes, "admin");
        for body in [
            "[]",
            r#"{"nam": "x"}"#,
            r#"{"name": 1}"#,
            r#"{"scopes": [1]}"#,
            r#"{"expires_in_s": 0}"#,
            r#"{"expires_in_s": "1"}"#,
            r#"{"id": "aaaaaaaa"}"#,
            r#"{"id": "aaaaaaaa", "hash": "zz"}"#,
        ] {
            refused(body);
        }
    }

    #[test]
    fn changes_are_texts_whatever_they_are_written_as() {
        let body = br#"{"router": true, "billing": false, "calls": 4, "spend": null, "name": "A"}"#;
        let changes = Fields::read(body).and_then(Fields::changes);
        let mut changes = changes.expect("they are right");
        changes.sort();
        let expected = [
            ("billing", "off"),
            ("calls", "4"),
            ("name", "A"),
            ("router", "on"),
            ("spend", "default"),
        ];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(changes, expected);
    }
}
