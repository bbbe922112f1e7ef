//! The body of a call, from `FIELD=VALUE` and the model's schema.
//!
//! The schema decides what a text means: `seed=7` is a number where the model takes one, and a text where it takes that. What
//! can be told before the call is told here, with the choices; the server judges the rest.

use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::InputSchema;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::media;
use crate::text::plain;

/// The longest file that goes into a body.
const LONGEST: u64 = 256 << 20;

/// How a file goes into a text field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As the schema and the file have it.
    Auto,
    Base64,
    Text,
    DataUrl,
}

/// Prefixes that choose the form of a file.
const FORMS: [(&str, Form); 3] = [
    ("base64:", Form::Base64),
    ("data:", Form::DataUrl),
    ("text:", Form::Text),
];

/// Builds the body.
pub(crate) fn body(
    model: &str,
    fields: &[String],
    schema: &InputSchema,
) -> Result<Map<String, Value>, Failure> {
    let mut body = Map::new();
    let mut is_whole = false;
    for text in fields {
        if let Some(name) = text.strip_prefix('@') {
            body.extend(whole(name)?);
            is_whole = true;
            continue;
        }
        let (field, value) = match (text.split_once(":="), text.split_once('=')) {
            // `a=b:=c` is a field `a`; `a:=b` is JSON.
            (Some((field, value)), Some((short, _))) if field.len() < short.len() => {
                (field, json_of(field, value)?)
            }
            (_, Some((field, value))) => {
                let known = known(model, field, schema)?;
                (field, value_of(field, value, known, schema)?)
            }
            (_, None) => {
                return Err(Failure::usage(format!(
                    "{text:?} is no field; write FIELD=VALUE, FIELD=@FILE, FIELD:=JSON or @FILE"
                )));
            }
        };
        if field.is_empty() {
            return Err(Failure::usage(format!(
                "{text:?} names no field; write FIELD=VALUE"
            )));
        }
        known(model, field, schema)?;
        body.insert(field.to_owned(), value);
    }
    if !is_whole {
        required(model, &body, schema)?;
    }
    Ok(body)
}

/// The schema of a field; an error for a field that the model certainly refuses.
fn known<'a>(
    model: &str,
    field: &str,
    schema: &'a InputSchema,
) -> Result<Option<&'a Value>, Failure> {
    let found = schema.field(field);
    if found.is_some() || schema.is_open() {
        return Ok(found);
    }
    Err(Failure::usage(format!(
        "{model} has no field `{field}`; it has {}",
        names(schema)
    ))
    .hint(format!("`easel models {model}` describes them")))
}

fn required(model: &str, body: &Map<String, Value>, schema: &InputSchema) -> Result<(), Failure> {
    let missing: Vec<&str> = schema
        .fields()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| schema.is_required(name) && !body.contains_key(*name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{model} needs {}; write {}=...",
        missing.join(", "),
        missing[0]
    ))
    .hint(format!("`easel models {model}` describes its fields")))
}

/// What a text means in a field.
fn value_of(
    field: &str,
    text: &str,
    known: Option<&Value>,
    schema: &InputSchema,
) -> Result<Value, Failure> {
    let types = known.map(|known| schema.types(known)).unwrap_or_default();
    if let Some(literal) = text.strip_prefix("@@") {
        return Ok(Value::String(format!("@{literal}")));
    }
    if let Some(name) = text.strip_prefix('@') {
        return file_value(field, name, known, &types);
    }
    let takes = |kind: &str| types.contains(&kind);
    let json = json_text::read_str(text).ok();
    let fits = |value: &Value| match value {
        Value::Null => takes("null"),
        Value::Bool(_) => takes("boolean"),
        Value::Number(number) => takes("number") || (takes("integer") && !number.is_f64()),
        Value::Array(_) => takes("array"),
        Value::Object(_) => takes("object"),
        Value::String(_) => false,
    };
    let value = match json {
        // Nobody described the field: what is JSON is meant as such.
        Some(json) if types.is_empty() => json,
        // A text that happens to look like a number stays a text where the model takes texts.
        Some(json) if fits(&json) && (json.is_null() || !takes("string")) => json,
        Some(_) | None if types.is_empty() || takes("string") => Value::String(text.to_owned()),
        Some(_) | None => {
            return Err(Failure::usage(format!(
                "`{field}` takes {}, and {text:?} is none",
                listed(&types)
            )));
        }
    };
    choices(field, &value, known)?;
    Ok(value)
}

/// The error for a value outside of a short list names the list.
fn choices(field: &str, value: &Value, known: Option<&Value>) -> Result<(), Failure> {
    let choices = known.and_then(|known| known["enum"].as_array());
    let Some(choices) = choices.filter(|choices| !choices.contains(value)) else {
        return Ok(());
    };
    let shown = choices.iter().filter(|choice| !choice.is_null()).map(plain);
    Err(Failure::usage(format!(
        "`{field}` is one of {}",
        shown.collect::<Vec<_>>().join(", ")
    )))
}

fn file_value(
    field: &str,
    name: &str,
    known: Option<&Value>,
    types: &[&str],
) -> Result<Value, Failure> {
    let chosen = FORMS
        .iter()
        .find_map(|(prefix, form)| Some((name.strip_prefix(prefix)?, *form)));
    let (name, form) = chosen.unwrap_or((name, Form::Auto));
    let path = PathBuf::from(name);
    let bytes = read(&path).map_err(|error| {
        Failure::usage(format!("{field}=@{name}: the file cannot be read: {error}"))
            .hint("correct the path; a text that begins with @ is written @@")
    })?;
    let takes_text = types.is_empty() || types.contains(&"string");
    if form == Form::Auto && !takes_text {
        return json_of(field, &String::from_utf8_lossy(&bytes));
    }
    let is_encoded = known
        .is_some_and(|known| known["contentEncoding"] == "base64" || known["format"] == "byte");
    let media_type = media::of(&path);
    let text = match form {
        Form::Auto if is_encoded => STANDARD.encode(&bytes),
        Form::Auto if media_type.is_none() => match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(binary) => data_url(media_type, binary.as_bytes()),
        },
        Form::Auto | Form::DataUrl => data_url(media_type, &bytes),
        Form::Base64 => STANDARD.encode(&bytes),
        Form::Text => String::from_utf8(bytes).map_err(|_| {
            Failure::usage(format!(
                "{field}=@text:{name}: the file is no text in UTF-8"
            ))
        })?,
    };
    Ok(Value::String(text))
}

fn data_url(media_type: Option<&str>, bytes: &[u8]) -> String {
    let media_type = media_type.unwrap_or("application/octet-stream");
    format!("data:{media_type};base64,{}", STANDARD.encode(bytes))
}

/// A whole body from a file.
fn whole(name: &str) -> Result<Map<String, Value>, Failure> {
    let shown = if name == "-" { "standard input" } else { name };
    let bytes = read(Path::new(name))
        .map_err(|error| Failure::usage(format!("@{name}: the file cannot be read: {error}")))?;
    match json_text::read(&bytes) {
        Ok(Value::Object(body)) => Ok(body),
        Ok(_) => Err(Failure::usage(format!(
            "{shown}: the body is no JSON object"
        ))),
        Err(error) => Err(Failure::usage(format!(
            "{shown}: the body is no JSON: {error}"
        ))),
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(LONGEST)
            .read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(path)?
            .take(LONGEST)
            .read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn json_of(field: &str, text: &str) -> Result<Value, Failure> {
    json_text::read_str(text)
        .map_err(|error| Failure::usage(format!("`{field}`: this is no JSON ({error})")))
}

fn names(schema: &InputSchema) -> String {
    let names: Vec<&str> = schema.fields().into_iter().map(|(name, _)| name).collect();
    names.join(", ")
}

/// Types for people.
pub(crate) fn listed(types: &[&str]) -> String {
    let named = types
        .iter()
        .filter(|kind| **kind != "null")
        .map(|kind| match *kind {
            "integer" => "a whole number",
            "number" => "a number",
            "boolean" => "true or false",
            "array" => "a JSON array",
            "object" => "a JSON object",
            "string" => "a text",
            other => other,
        });
    let named: Vec<&str> = named.collect();
    if named.is_empty() {
        "any JSON".to_owned()
    } else {
        named.join(" or ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> InputSchema {
        InputSchema::of(
            json!({"paths": {"/v1/models/a/b": {"post": {"requestBody": {"content": {
            "application/json": {"schema": {
                "type": "object", "required": ["prompt"], "additionalProperties": false,
                "properties": {
                    "prompt": {"type": "string"},
                    "seed": {"type": ["integer", "null"]},
                    "scale": {"type": "number"},
                    "hd": {"type": "boolean"},
                    "format": {"type": ["string", "null"], "enum": ["png", "jpeg", null]},
                    "image": {"type": "string", "contentEncoding": "base64"},
                    "parts": {"type": "array"}}}}}}}}}}),
        )
    }

    fn built(fields: &[&str]) -> Result<Value, String> {
        let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        let body = body("a/b", &fields, &schema()).map_err(|failure| failure.message)?;
        Ok(Value::Object(body))
    }

    #[test]
    fn the_schema_decides_what_a_text_means() {
        let fields = [
            "prompt=12",
            "seed=7",
            "scale=0.5",
            "hd=true",
            "format=png",
            "parts=[1]",
        ];
        assert_eq!(
            built(&fields),
            Ok(
                json!({"prompt": "12", "seed": 7, "scale": 0.5, "hd": true, "format": "png", "parts": [1]})
            )
        );
        assert_eq!(built(&["prompt=a:=b"]), Ok(json!({"prompt": "a:=b"})));
        assert_eq!(
            built(&["prompt=@@home", "seed:=null"]),
            Ok(json!({"prompt": "@home", "seed": null}))
        );
        assert_eq!(built(&["prompt=null"]), Ok(json!({"prompt": "null"})));
    }

    #[test]
    fn what_the_model_refuses_is_told_before_the_call() {
        for (fields, words) in [
            (&["seed=7"][..], "a/b needs prompt"),
            (
                &["prompt=x", "sede=7"],
                "has no field `sede`; it has prompt, seed",
            ),
            (&["prompt=x", "seed=1.5"], "`seed` takes a whole number"),
            (&["prompt=x", "hd=yes"], "`hd` takes true or false"),
            (&["prompt=x", "format=gif"], "`format` is one of png, jpeg"),
            (&["prompt"], "write FIELD=VALUE"),
            (&["=x"], "no field"),
            (&["prompt:=x"], "no JSON"),
            (&["prompt=@gone.txt"], "cannot be read"),
        ] {
            let refused = built(fields).expect_err("refused");
            assert!(refused.contains(words), "{refused}");
        }
    }

    #[test]
    fn files_take_the_form_that_the_field_wants() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            path.display().to_string()
        };
        let (png, txt) = (path("a.png", b"\x89PNG"), path("a.txt", b"hello"));
        let one = |field: String| built(&["prompt=x", &field]).map(|body| body.to_string());
        assert!(
            one(format!("image=@{png}"))
                .expect("base64")
                .contains(r#""image":"iVBORw==""#)
        );
        let text = built(&[&format!("prompt=@{txt}")]);
        assert_eq!(text, Ok(json!({"prompt": "hello"})));
        let picture = built(&[&format!("prompt=@{png}")]);
        assert_eq!(
            picture,
            Ok(json!({"prompt": "data:image/png;base64,iVBORw=="}))
        );
        let plain = built(&[&format!("prompt=@base64:{png}")]);
        assert_eq!(plain, Ok(json!({"prompt": "iVBORw=="})));
        let whole = path("body.json", br#"{"prompt": "p", "seed": 1}"#);
        assert_eq!(
            built(&[&format!("@{whole}"), "seed=2"]),
            Ok(json!({"prompt": "p", "seed": 2}))
        );
    }
}
