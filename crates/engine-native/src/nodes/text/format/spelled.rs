//! `str` and `repr` of Python.

use serde_json::{Value as Json, json};

use crate::nodes::text::check_length;
use crate::python_json::python_json;
use crate::{NodeError, Value};

/// `str(value)`.
pub(super) fn text(value: &Value) -> Result<String, NodeError> {
    match value {
        Value::String(text) => Ok(text.to_string()),
        Value::File(file) => Ok(file.name().to_owned()),
        Value::Image(_)
        | Value::Mask(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Json(_)
        | Value::Opaque(_)
        | Value::Blocker(_) => repr(value, false),
    }
}

/// `repr(value)`, or `ascii(value)`.
pub(super) fn repr(value: &Value, ascii: bool) -> Result<String, NodeError> {
    let mut text = String::new();
    match value {
        Value::String(string) => quote(&mut text, string, ascii),
        Value::File(file) => quote(&mut text, file.name(), ascii),
        Value::Int(number) => text = number.to_string(),
        Value::Float(number) => text = float(*number),
        Value::Boolean(truth) => text.push_str(if *truth { "True" } else { "False" }),
        Value::Json(json) => write(&mut text, json, ascii)?,
        Value::Image(_) | Value::Mask(_) | Value::Opaque(_) | Value::Blocker(_) => {
            return Err(NodeError::new(
                "TypeError",
                format!(
                    "{} has no text; link a text, a number or a list of them",
                    value.io_type()
                ),
            ));
        }
    }
    Ok(text)
}

/// `repr` of a float.
pub(super) fn float(number: f64) -> String {
    match number {
        _ if number.is_nan() => "nan".to_owned(),
        f64::INFINITY => "inf".to_owned(),
        f64::NEG_INFINITY => "-inf".to_owned(),
        _ => python_json(&json!(number)),
    }
}

/// What Python calls the type of a value.
pub(super) fn type_name(value: &Value) -> &str {
    match value {
        Value::String(_) | Value::File(_) => "str",
        Value::Int(_) => "int",
        Value::Float(_) => "float",
        Value::Boolean(_) => "bool",
        Value::Json(json) => match &**json {
            Json::Array(_) => "list",
            Json::Object(_) => "dict",
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => "NoneType",
        },
        Value::Image(_) | Value::Mask(_) | Value::Opaque(_) | Value::Blocker(_) => value.io_type(),
    }
}

/// Recursion goes as deep as the parser lets values nest.
fn write(text: &mut String, json: &Json, ascii: bool) -> Result<(), NodeError> {
    match json {
        Json::Null => text.push_str("None"),
        Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            text.push_str(&repr(&Value::from_json(json), ascii)?);
        }
        Json::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                text.push_str(if at > 0 { ", " } else { "" });
                write(text, item, ascii)?;
            }
            text.push(']');
        }
        Json::Object(fields) => {
            text.push('{');
            for (at, (key, item)) in fields.iter().enumerate() {
                text.push_str(if at > 0 { ", " } else { "" });
                quote(text, key, ascii);
                text.push_str(": ");
                write(text, item, ascii)?;
            }
            text.push('}');
        }
    }
    check_length(text.len())
}

/// In single quotes, unless the text has those and no double ones.
fn quote(text: &mut String, string: &str, ascii: bool) {
    use std::fmt::Write as _;
    let quote = match string.contains('\'') && !string.contains('"') {
        true => '"',
        false => '\'',
    };
    text.push(quote);
    for character in string.chars() {
        let code = u32::from(character);
        let _ = match character {
            '\\' => write!(text, "\\\\"),
            '\n' => write!(text, "\\n"),
            '\r' => write!(text, "\\r"),
            '\t' => write!(text, "\\t"),
            _ if character == quote => write!(text, "\\{quote}"),
            ' '..='~' => write!(text, "{character}"),
            _ if !ascii && is_printable(character) => write!(text, "{character}"),
            ..='\u{ff}' => write!(text, "\\x{code:02x}"),
            ..='\u{ffff}' => write!(text, "\\u{code:04x}"),
            _ => write!(text, "\\U{code:08x}"),
        };
    }
    text.push(quote);
}

/// `str.isprintable` of one character: Rust escapes by the same categories, if it is not the first of a text.
fn is_printable(character: char) -> bool {
    let after = format!("a{character}");
    after.escape_debug().count() == 2
}
