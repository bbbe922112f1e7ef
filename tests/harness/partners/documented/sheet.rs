//! A sheet as its file spells it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// What a partner's documentation shows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// The name of the file.
    #[serde(skip)]
    pub name: String,
    /// The host of the API.
    pub host: String,
    /// The page that the sheet follows.
    pub documentation: String,
    /// The partner with a dialect of its own that these calls are added to.
    pub dialect: Option<String>,
    /// How the key is sent.
    #[serde(default)]
    pub credential: Credential,
    /// The variables that the catalog reads the key from, and the access key where there are two.
    #[serde(default)]
    pub variables: Vec<String>,
    /// The calls.
    pub calls: Vec<Call>,
}

/// How a key is sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Credential {
    /// The header.
    pub header: String,
    /// What stands before the key. A signature has a prefix alone.
    pub prefix: String,
    /// Whether the value is a signature that names the access key behind the prefix.
    pub signature: bool,
}

/// One call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Which models take it, with a body that the documentation shows.
    #[serde(rename = "models")]
    pub examples: Vec<Example>,
    /// The submission; without it the partner's own dialect answers.
    pub submit: Option<Route>,
    /// The answer to a submission that makes a task.
    pub accepted: Option<Answer>,
    /// The question for the state.
    pub poll: Option<Route>,
    /// What the states look like.
    #[serde(default)]
    pub states: States,
    /// The steps to the result.
    #[serde(default)]
    pub results: Vec<ResultStep>,
    /// The request that stops a task.
    pub cancel: Option<Route>,
    /// What streams look like, if the models give any.
    pub stream: Option<Stream>,
    /// What is said to submissions that are not taken.
    #[serde(default)]
    pub refusals: Refusals,
    /// What the caller is to get.
    #[serde(default)]
    pub means: Means,
}

/// A model with a body.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The id of the model.
    pub id: String,
    /// A body that the model takes, as text.
    #[serde(deserialize_with = "text")]
    pub body: String,
    /// What is sent, if it is not the body; `*` if it is the body with more in front.
    #[serde(default, deserialize_with = "maybe_text")]
    pub sent: Option<String>,
}

/// A request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The method.
    #[serde(default = "post")]
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Headers that it has besides.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Where in the body the task is named.
    pub task_in: Option<String>,
    /// Whether the body is a form.
    #[serde(default)]
    pub form: bool,
}

/// An answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The status.
    #[serde(default = "ok")]
    pub status: u16,
    /// The media type.
    #[serde(default = "json")]
    pub media_type: String,
    /// The body: JSON, or a text as it is.
    #[serde(deserialize_with = "text")]
    pub body: String,
}

/// What states look like.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct States {
    /// Before the work begins.
    pub queued: Option<Answer>,
    /// While it runs.
    pub running: Option<Answer>,
    /// Done.
    pub succeeded: Answer,
    /// Failed.
    pub failed: Answer,
    /// Fallen to moderation after it was taken; without it such a task looks failed.
    pub moderated: Option<Answer>,
    /// Stopped.
    pub cancelled: Option<Answer>,
}

/// What streams of server-sent events look like. The body asks for one by its member `stream`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Where bodies go that ask for one, if that is another address. The member that asks is not sent there.
    pub route: Option<Route>,
    /// The answer without a stream that took as much, if it is not the one of the states.
    #[serde(default, deserialize_with = "maybe_text")]
    pub whole: Option<String>,
    /// Done.
    pub succeeded: String,
    /// Failed within.
    pub failed: String,
    /// Fallen to moderation within.
    pub moderated: String,
    /// How many cents a stream costs that is cut before its last event, by model; none costs nothing.
    #[serde(default)]
    pub cut_cents: BTreeMap<String, u64>,
}

/// A step to the result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultStep {
    /// The request.
    pub route: Route,
    /// The answer.
    pub answer: Answer,
}

/// What is said to submissions that are not taken.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusals {
    /// On grounds of policy.
    pub policy: Answer,
    /// The content is not what the model takes.
    pub input: Answer,
    /// The account has nothing left.
    pub funds: Answer,
}

/// What the caller gets for what the partner says: `policy`, `refused`, `failed`, `account`, `transient`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Means {
    /// Of a refusal on grounds of policy.
    pub policy: String,
    /// Of a task that fell to moderation.
    pub moderated: String,
    /// Of content that the model does not take.
    pub input: String,
    /// Of an account that has nothing left.
    pub funds: String,
}

/// JSON as its text, and a text as it is.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned))
}

fn maybe_text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text(from).map(Some)
}

fn post() -> String {
    "POST".to_owned()
}

fn ok() -> u16 {
    200
}

fn json() -> String {
    "application/json".to_owned()
}

impl Default for Credential {
    fn default() -> Self {
        Self {
            header: "authorization".to_owned(),
            prefix: "Bearer ".to_owned(),
            signature: false,
        }
    }
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            status: ok(),
            media_type: json(),
            body: "{}".to_owned(),
        }
    }
}

impl Default for Means {
    fn default() -> Self {
        Self {
            policy: "policy".to_owned(),
            moderated: "policy".to_owned(),
            input: "refused".to_owned(),
            funds: "account".to_owned(),
        }
    }
}

/// Every sheet, in the order of their names.
pub(super) fn read_all() -> Vec<Sheet> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/partners");
    let entries = fs::read_dir(&folder).expect("the folder of the sheets is there");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("readable").path())
        .collect();
    paths.sort();
    let sheets = paths.iter().map(|path| {
        let text = fs::read_to_string(path).expect("a sheet can be read");
        let mut sheet: Sheet = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        sheet.name = stem.expect("names are plain").to_owned();
        sheet
    });
    sheets.collect()
}
