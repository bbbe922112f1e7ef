//! The body of `POST /prompt`, taken apart without touching the graph.
//!
//! The graph travels as the very text that came. Secrets leave the text at once: what is remembered of `extra_data` has none.

use std::collections::HashMap;

use bytes::Bytes;
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;
use workflow_core::JobId;

use crate::{Origin, PromptProblem};

/// Keys of `extra_data` that hold secrets; the first that is there is the one used.
const SECRETS: [&str; 3] = [
    "api_key_service_org",
    "api_key_comfy_org",
    "auth_token_comfy_org",
];

/// The key of `extra_data` whose own keys go into pictures.
const PNGINFO: &str = "extra_pnginfo";

/// Most bytes of a secret: more than any token has.
const MOST_SECRET_BYTES: usize = 16 * 1024;

/// Most bytes of the id of a client or of a saved workflow.
const MOST_ID_BYTES: usize = 256;

/// Most output nodes that may be named.
const MOST_TARGETS: usize = 10_000;

/// A submission, as v1 clients make it.
#[derive(Debug)]
pub struct PromptRequest {
    /// The graph, as it came.
    pub workflow: Bytes,
    /// The id that the client chose.
    pub prompt_id: Option<JobId>,
    /// The output nodes to run.
    pub targets: Option<Vec<String>>,
    /// What goes into pictures besides the graph.
    pub extra_pnginfo: Map<String, Value>,
    /// The secret for partner nodes.
    pub secret: Option<SecretString>,
    /// The place in the queue that the client asked for; told back, and of no effect.
    pub number: Option<f64>,
    /// What else is remembered.
    pub origin: Origin,
}

/// Why a body is no submission: what the client is told.
#[derive(Debug, PartialEq)]
pub struct PromptRefusal(pub Box<PromptProblem>);

type Fields<'a> = HashMap<String, &'a RawValue>;

impl PromptRequest {
    /// Takes a body apart.
    ///
    /// # Errors
    /// With what the client is told, if there is no graph in it or a field is not as it must be.
    pub fn read(body: &[u8], now: Timestamp) -> Result<Self, PromptRefusal> {
        let whole: &RawValue = serde_json::from_slice(body).map_err(|error| {
            let details = format!("the body is not valid JSON: {error}");
            refused(
                "invalid_json",
                "The request body is not valid JSON",
                details,
            )
        })?;
        let fields = object(whole)
            .ok_or_else(|| invalid("the body must be a JSON object with the graph in `prompt`"))?;
        let no_prompt = || {
            let text = "No prompt provided";
            refused("no_prompt", text, text.to_owned())
        };
        let prompt = fields.get("prompt").ok_or_else(no_prompt)?;
        if !prompt.get().starts_with('{') {
            let what = "`prompt` must be an object that maps node ids to nodes";
            return Err(invalid(what));
        }
        let extra = fields.get("extra_data").map(|raw| extra_data(raw));
        let (secret, mut extra_data) = extra.transpose()?.unwrap_or_default();
        let extra_pnginfo = extra_data.get(PNGINFO).map(|raw| pnginfo(raw));
        let extra_pnginfo = extra_pnginfo.transpose()?.unwrap_or_default();
        let workflow_id = text(&fields, "workflow_id")?;
        let workflow_id = workflow_id.or_else(|| id_in(&extra_pnginfo));
        // These are told by the server, whatever stands there.
        extra_data.remove("create_time");
        let client = text(&fields, "client_id")?;
        if client.is_some() {
            extra_data.remove("client_id");
        }
        let mut spelled = spelled(&extra_data);
        if let Some(client) = client {
            add_field(&mut spelled, "client_id", &Value::from(client).to_string());
        }
        add_field(
            &mut spelled,
            "create_time",
            &now.as_millisecond().to_string(),
        );
        Ok(Self {
            workflow: Bytes::copy_from_slice(prompt.get().as_bytes()),
            prompt_id: prompt_id(&fields)?,
            targets: targets(&fields)?,
            extra_pnginfo,
            secret,
            number: number(&fields)?,
            origin: Origin {
                number: 0.0,
                extra_data: spelled,
                workflow_id,
            },
        })
    }
}

/// What goes into pictures besides the graph; null is nothing.
fn pnginfo(raw: &RawValue) -> Result<Map<String, Value>, PromptRefusal> {
    let info = match json_text::read_str(raw.get()) {
        Ok(Value::Null) => Map::new(),
        Ok(Value::Object(info)) => info,
        Ok(_) | Err(_) => {
            let must = "`extra_data.extra_pnginfo` must be an object; its keys go into pictures";
            return Err(invalid(must));
        }
    };
    let mut unfit = info
        .keys()
        .filter(|key| key.chars().any(|letter| letter > '\u{ff}'));
    match unfit.next() {
        None => Ok(info),
        Some(key) => {
            let key: String = key.chars().take(40).collect();
            Err(invalid(&format!(
                "the key {key:?} of `extra_data.extra_pnginfo` cannot name a text in a picture; use letters of Latin-1"
            )))
        }
    }
}

fn refused(kind: &'static str, message: &str, details: String) -> PromptRefusal {
    let problem = PromptProblem::new(kind, message, details);
    PromptRefusal(Box::new(problem))
}

fn invalid(details: &str) -> PromptRefusal {
    refused(
        "invalid_prompt",
        "The prompt is invalid",
        details.to_owned(),
    )
}

/// The fields of an object; of two with one name the later stands. `None` for anything else.
fn object(raw: &RawValue) -> Option<Fields<'_>> {
    serde_json::from_str(raw.get()).ok()
}

fn value(fields: &Fields<'_>, name: &str) -> Result<Option<Value>, PromptRefusal> {
    let Some(raw) = fields.get(name).filter(|raw| raw.get() != "null") else {
        return Ok(None);
    };
    let value = json_text::read_str(raw.get());
    value.map(Some).map_err(|error| {
        let details = format!("`{name}` cannot be read: {error}");
        refused(
            "invalid_json",
            "The request body is not valid JSON",
            details,
        )
    })
}

fn text(fields: &Fields<'_>, name: &str) -> Result<Option<String>, PromptRefusal> {
    match value(fields, name)? {
        None => Ok(None),
        Some(Value::String(text)) if text.len() <= MOST_ID_BYTES => Ok(Some(text)),
        Some(_) => Err(invalid(&format!(
            "`{name}` must be a text of at most 256 bytes"
        ))),
    }
}

/// The id that a saved workflow bears: ComfyUI's page says it nowhere else. What is no id is none, for other programs write what
/// they like there.
fn id_in(extra_pnginfo: &Map<String, Value>) -> Option<String> {
    let id = extra_pnginfo.get("workflow")?.get("id")?.as_str()?;
    (1..=MOST_ID_BYTES)
        .contains(&id.len())
        .then(|| id.to_owned())
}

/// A canonical UUID, in lower case and with hyphens: nothing else names a job.
fn prompt_id(fields: &Fields<'_>) -> Result<Option<JobId>, PromptRefusal> {
    let Some(value) = value(fields, "prompt_id")? else {
        return Ok(None);
    };
    let id = value.as_str().and_then(|text| {
        let id: Uuid = text.parse().ok()?;
        (id.to_string() == text).then_some(JobId(id))
    });
    let problem = || {
        let details = "`prompt_id` must be a UUID in lower case with hyphens".to_owned();
        refused("invalid_prompt_id", "The prompt id is invalid", details)
    };
    id.map(Some).ok_or_else(problem)
}

fn targets(fields: &Fields<'_>) -> Result<Option<Vec<String>>, PromptRefusal> {
    let refused = || invalid("`partial_execution_targets` must be a list of node ids");
    match value(fields, "partial_execution_targets")? {
        None => Ok(None),
        Some(Value::Array(ids)) if ids.len() <= MOST_TARGETS => {
            let ids = ids.into_iter().map(|id| match id {
                Value::String(id) => Ok(id),
                Value::Number(id) => Ok(id.to_string()),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(refused()),
            });
            ids.collect::<Result<_, _>>().map(Some)
        }
        Some(_) => Err(refused()),
    }
}

/// `number` as Python would read it with `float()`, or the sign of `front`.
fn number(fields: &Fields<'_>) -> Result<Option<f64>, PromptRefusal> {
    let read = match value(fields, "number")? {
        None => None,
        Some(Value::Number(number)) => Some(number.as_f64()),
        Some(Value::String(text)) => Some(text.trim().parse().ok()),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => Some(None),
    };
    match read {
        None => Ok(None),
        Some(Some(number)) if number.is_finite() => Ok(Some(number)),
        Some(_) => Err(invalid("`number` must be a number")),
    }
}

/// The secret in `extra_data`, and the rest of it.
fn extra_data(raw: &RawValue) -> Result<(Option<SecretString>, Fields<'_>), PromptRefusal> {
    if raw.get() == "null" {
        return Ok((None, Fields::new()));
    }
    let mut extra = object(raw).ok_or_else(|| invalid("`extra_data` must be an object"))?;
    let mut secret = None;
    for name in SECRETS {
        let given = extra.remove(name);
        match given.map(|raw| json_text::read_str(raw.get()).unwrap_or(Value::Bool(true))) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(Value::String(text)) if text.len() <= MOST_SECRET_BYTES => {
                secret.get_or_insert(SecretString::from(text));
            }
            Some(_) => {
                let must = format!("`extra_data.{name}` must be a text of at most 16384 bytes");
                return Err(invalid(&must));
            }
        }
    }
    Ok((secret, extra))
}

/// An object of these fields, each spelled as it came: a tree cannot hold every number.
fn spelled(fields: &Fields<'_>) -> String {
    let mut fields: Vec<_> = fields.iter().collect();
    // In the order in which they stand in the text.
    fields.sort_unstable_by_key(|(_, raw)| raw.get().as_ptr());
    let mut object = "{}".to_owned();
    for (name, raw) in fields {
        add_field(&mut object, name, raw.get());
    }
    object
}

/// Adds a field at the end of an object.
fn add_field(object: &mut String, name: &str, value: &str) {
    let end = object.pop();
    if object.len() > 1 {
        object.push(',');
    }
    object.push_str(&Value::from(name).to_string());
    object.push(':');
    object.push_str(value);
    object.extend(end);
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use serde_json::json;

    use super::*;

    fn read(body: &str) -> Result<PromptRequest, PromptRefusal> {
        PromptRequest::read(body.as_bytes(), Timestamp::UNIX_EPOCH)
    }

    fn refusal(body: &str) -> &'static str {
        read(body).expect_err(body).0.kind
    }

    #[test]
    fn what_is_no_submission_is_told_apart() {
        assert_eq!(refusal(""), "invalid_json");
        assert_eq!(refusal("{"), "invalid_json");
        assert_eq!(refusal("[]"), "invalid_prompt");
        assert_eq!(refusal("{}"), "no_prompt");
        for prompt in ["[]", "null", "\"x\"", "1"] {
            assert_eq!(
                refusal(&format!("{{\"prompt\": {prompt}}}")),
                "invalid_prompt"
            );
        }
        for id in ["7", "\"7\"", "\"9C0E6F4A-0000-4000-8000-000000000000\""] {
            let body = format!("{{\"prompt\": {{}}, \"prompt_id\": {id}}}");
            assert_eq!(refusal(&body), "invalid_prompt_id");
        }
        for field in [
            "\"number\": \"x\"",
            "\"number\": [1]",
            "\"number\": \"nan\"",
            "\"extra_data\": []",
            "\"client_id\": 5",
            "\"partial_execution_targets\": {}",
            "\"partial_execution_targets\": [null]",
        ] {
            assert_eq!(
                refusal(&format!("{{\"prompt\": {{}}, {field}}}")),
                "invalid_prompt"
            );
        }
    }

    #[test]
    fn what_cannot_go_into_pictures_is_refused() {
        for info in ["[]", "\"x\"", "5", r#"{"ключ": 1}"#] {
            let body = format!(r#"{{"prompt": {{}}, "extra_data": {{"extra_pnginfo": {info}}}}}"#);
            assert_eq!(refusal(&body), "invalid_prompt", "{info}");
        }
        let named =
            read(r#"{"prompt": {}, "extra_data": {"extra_pnginfo": {"é": 1, "ab\u0416": 1}}}"#);
        let details = named.expect_err("one key is unfit").0.details;
        assert!(details.contains("\"abЖ\""), "{details}");
        for info in ["null", "{}", r#"{"é": 1}"#] {
            let body = format!(r#"{{"prompt": {{}}, "extra_data": {{"extra_pnginfo": {info}}}}}"#);
            assert!(read(&body).is_ok(), "{info}");
        }
    }

    #[test]
    fn the_graph_goes_on_as_it_came() {
        let request = read(r#"{ "prompt" : {"1": {"b":1, "a" : 2.0}} , "number": "2.5"}"#);
        let request = request.expect("a submission");
        assert_eq!(&request.workflow[..], br#"{"1": {"b":1, "a" : 2.0}}"#);
        assert_eq!(request.number, Some(2.5));
        assert_eq!((request.prompt_id, request.targets), (None, None));
    }

    #[test]
    fn a_submission_is_of_the_workflow_that_it_names_or_else_of_the_one_it_shows() {
        let of = |fields: Value| {
            let body = json!({"prompt": {}}).as_object().cloned();
            let mut body = body.expect("an object");
            body.extend(fields.as_object().cloned().expect("an object"));
            let request = read(&Value::Object(body).to_string());
            request.expect("a submission").origin.workflow_id
        };
        let shows = |id: Value| json!({"extra_pnginfo": {"workflow": {"id": id}}});
        assert_eq!(
            of(json!({"extra_data": shows(json!("wf-1"))})).as_deref(),
            Some("wf-1")
        );
        let both = json!({"workflow_id": "named", "extra_data": shows(json!("wf-1"))});
        assert_eq!(of(both).as_deref(), Some("named"));
        for none in [json!(7), json!(null), json!(""), json!("x".repeat(257))] {
            assert_eq!(of(json!({"extra_data": shows(none)})), None);
        }
        assert_eq!(
            of(json!({"extra_data": {"extra_pnginfo": {"workflow": 1}}})),
            None
        );
    }

    #[test]
    fn secrets_are_in_nothing_that_is_kept() {
        for name in SECRETS {
            let body = json!({
                "prompt": {},
                "client_id": "c",
                "prompt_id": null,
                "extra_data": {name: "s3cret", "extra_pnginfo": {"workflow": {"id": 1}}, "x": 1},
            });
            let request = read(&body.to_string()).expect("a submission");
            let secret = request.secret.as_ref().expect("it came with a secret");
            assert_eq!(secret.expose_secret(), "s3cret");
            assert!(!format!("{request:?}").contains("s3cret"));
            let kept = request.origin.to_bytes();
            assert!(!String::from_utf8_lossy(&kept).contains("s3cret"));
            assert_eq!(request.extra_pnginfo["workflow"], json!({"id": 1}));
            let extra = serde_json::from_str::<Value>(&request.origin.extra_data);
            let expected = json!({
                "extra_pnginfo": {"workflow": {"id": 1}}, "x": 1, "client_id": "c", "create_time": 0,
            });
            assert_eq!(extra.expect("an object"), expected);
        }
    }

    #[test]
    fn numbers_of_extra_data_are_kept_however_large() {
        let extra = r#"{"seed":18446744073709551616,"deep":[-9223372036854775809,1e400]}"#;
        let request = read(&format!(r#"{{"prompt": {{}}, "extra_data": {extra}}}"#));
        let request = request.expect("a submission");
        let expected = extra.replace('}', r#","create_time":0}"#);
        assert_eq!(request.origin.extra_data, expected);
    }
}
