//! What the clients of an installation were told, in a form that outlives it: whether a server still knows it.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{Request, Server};

/// Everything that clients of an installation were told.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged {
    /// What can be asked for again.
    pub facts: Vec<Fact>,
    /// How many calls of models ended and were billed.
    pub calls: u64,
}

/// Something that a client was told.
#[derive(Clone, Debug)]
pub struct Fact {
    /// What it is, for messages.
    pub name: String,
    /// Where it lies besides the rows.
    pub holder: Holder,
    request: Request,
    expected: Expected,
    is_replay: bool,
}

/// Where something lies besides the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nowhere else.
    Rows,
    /// In the blob of this hash, in hexadecimal digits.
    Blob(String),
    /// In the file of small results.
    SmallResults,
    /// In the file of a result.
    LargeResult,
}

#[derive(Clone, Debug)]
enum Expected {
    /// A body with this hash.
    Body(String),
    /// An object with at least these fields.
    Fields(Value),
}

impl Fact {
    /// That a request is answered with this body.
    #[must_use]
    pub fn of_body(name: &str, holder: Holder, request: Request, body: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            holder,
            request,
            expected: Expected::Body(hash(body)),
            is_replay: false,
        }
    }

    /// That a request is answered with an object that has at least these fields.
    #[must_use]
    pub fn of_fields(name: &str, holder: Holder, request: Request, fields: Value) -> Self {
        Self {
            name: name.to_owned(),
            holder,
            request,
            expected: Expected::Fields(fields),
            is_replay: false,
        }
    }

    /// That the answer is one that was told before.
    #[must_use]
    pub fn replayed(mut self) -> Self {
        self.is_replay = true;
        self
    }

    /// Asks a server; what comes instead, if it is something else.
    ///
    /// # Errors
    /// That.
    pub async fn ask(&self, server: &Server) -> Result<(), String> {
        let answer = match server.send(&self.request).await {
            Ok(answer) => answer,
            Err(error) => return Err(format!("{}: {error}", self.name)),
        };
        let is_right = answer.status == 200
            && match &self.expected {
                Expected::Body(expected) => hash(&answer.body) == *expected,
                Expected::Fields(fields) => has(&answer.json(), fields),
            }
            && (!self.is_replay || answer.header("idempotent-replayed") == Some("true"));
        let told = || format!("{}: {} {:.300}", self.name, answer.status, answer.text());
        is_right.then_some(()).ok_or_else(told)
    }

    fn to_json(&self) -> Value {
        let holder = match &self.holder {
            Holder::Rows => json!("rows"),
            Holder::Blob(hash) => json!({"blob": hash}),
            Holder::SmallResults => json!("small results"),
            Holder::LargeResult => json!("large result"),
        };
        let expected = match &self.expected {
            Expected::Body(hash) => json!({"sha256": hash}),
            Expected::Fields(fields) => json!({"fields": fields}),
        };
        json!({
            "name": self.name,
            "holder": holder,
            "method": self.request.method,
            "target": self.request.target,
            "headers": self.request.headers,
            "body": String::from_utf8_lossy(&self.request.body),
            "expected": expected,
            "is_replay": self.is_replay,
        })
    }

    fn of_json(value: &Value) -> Option<Self> {
        let text = |field: &str| value[field].as_str();
        let mut request = Request::new(text("method")?, text("target")?).body(text("body")?);
        for header in value["headers"].as_array()? {
            request = request.header(header[0].as_str()?, header[1].as_str()?);
        }
        let holder = match (text("holder"), value["holder"]["blob"].as_str()) {
            (Some("rows"), _) => Holder::Rows,
            (Some("small results"), _) => Holder::SmallResults,
            (Some("large result"), _) => Holder::LargeResult,
            (_, hash) => Holder::Blob(hash?.to_owned()),
        };
        let expected = &value["expected"];
        Some(Self {
            name: text("name")?.to_owned(),
            holder,
            request,
            expected: match expected["sha256"].as_str() {
                Some(hash) => Expected::Body(hash.to_owned()),
                None => Expected::Fields(expected["fields"].clone()),
            },
            is_replay: value["is_replay"].as_bool()?,
        })
    }
}

impl Acknowledged {
    /// As JSON, to be kept beside the directory.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let facts: Vec<Value> = self.facts.iter().map(Fact::to_json).collect();
        json!({"facts": facts, "calls": self.calls})
    }

    /// What [`Acknowledged::to_json`] made; `None` if it is something else.
    #[must_use]
    pub fn of_json(value: &Value) -> Option<Self> {
        let facts = value["facts"].as_array()?.iter().map(Fact::of_json);
        Some(Self {
            facts: facts.collect::<Option<_>>()?,
            calls: value["calls"].as_u64()?,
        })
    }
}

/// Whether `value` has everything that `wanted` has: an object more fields, perhaps, a list the same length.
fn has(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| value.get(name).is_some_and(|value| has(value, wanted))),
        (Value::Array(value), Value::Array(wanted)) => {
            value.len() == wanted.len()
                && value
                    .iter()
                    .zip(wanted)
                    .all(|(value, wanted)| has(value, wanted))
        }
        _ => value == wanted,
    }
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
