//! `str.format` of Python: a text with fields in braces, filled in with values by name.
//!
//! Fields have parts of values (`{a[0]}`), conversions (`{a!r}`) and formats (`{a:>8}`, `{a:{b}}`). Attributes are those of
//! numbers; the others of Python's objects are not there, and would lead out of the values that a graph linked.

mod number;
mod spec;
mod spelled;

use serde_json::Value as Json;

use self::spec::Spec;
use super::check_length;
use crate::{NodeError, Value};

/// Formats within formats: `{a:{b}}`, and no deeper.
const DEPTH: usize = 2;

/// Fills in `template`; `value` finds what a name stands for.
///
/// # Errors
/// As Python's: if the template is malformed, has a name that `value` does not know, or a format does not fit its value. Also
/// if the result is longer than a text may be.
pub(in crate::nodes) fn formatted(
    template: &str,
    value: &dyn Fn(&str) -> Option<Value>,
) -> Result<String, NodeError> {
    let template: Vec<char> = template.chars().collect();
    filled(&template, value, DEPTH)
}

/// A field: what it names, how it is converted, and its format.
struct Field<'a> {
    name: &'a [char],
    conversion: Option<char>,
    format: &'a [char],
}

fn filled(
    template: &[char],
    value: &dyn Fn(&str) -> Option<Value>,
    depth: usize,
) -> Result<String, NodeError> {
    if depth == 0 {
        return Err(NodeError::value("Max string recursion exceeded"));
    }
    let mut text = String::new();
    let mut rest = template;
    while let Some((&character, after)) = rest.split_first() {
        rest = after;
        let is_brace = matches!(character, '{' | '}');
        if !is_brace {
            text.push(character);
        } else if after.first() == Some(&character) {
            text.push(character);
            rest = &after[1..];
        } else if character == '}' || after.is_empty() {
            return Err(NodeError::value(format!(
                "Single '{character}' encountered in format string"
            )));
        } else {
            let field;
            (field, rest) = Field::read(after)?;
            text.push_str(&field.filled(value, depth)?);
        }
        check_length(text.len())?;
    }
    Ok(text)
}

impl<'a> Field<'a> {
    /// Reads a field after its opening brace, and gives what follows it.
    fn read(text: &'a [char]) -> Result<(Self, &'a [char]), NodeError> {
        let mut at = 0;
        let end = loop {
            match text.get(at) {
                None => return Err(NodeError::value("expected '}' before end of string")),
                Some('{') => return Err(NodeError::value("unexpected '{' in field name")),
                Some(':' | '!' | '}') => break at,
                // Everything up to the closing bracket is a key.
                Some('[') => {
                    while text.get(at).is_some_and(|character| *character != ']') {
                        at += 1;
                    }
                }
                Some(_) => at += 1,
            }
        };
        let (name, mut rest) = (&text[..end], &text[end..]);
        let mut conversion = None;
        if let ['!', after @ ..] = rest {
            let [character, after @ ..] = after else {
                return Err(NodeError::value(
                    "end of string while looking for conversion specifier",
                ));
            };
            conversion = Some(*character);
            rest = after;
            if !matches!(rest.first(), None | Some(':' | '}')) {
                return Err(NodeError::value("expected ':' after conversion specifier"));
            }
        }
        let field = |format| Self {
            name,
            conversion,
            format,
        };
        match rest {
            ['}', after @ ..] => Ok((field(&[]), after)),
            [':', after @ ..] => {
                let mut open = 1;
                for (at, character) in after.iter().enumerate() {
                    match character {
                        '{' => open += 1,
                        '}' => open -= 1,
                        _ => {}
                    }
                    if open == 0 {
                        return Ok((field(&after[..at]), &after[at + 1..]));
                    }
                }
                Err(NodeError::value("unmatched '{' in format spec"))
            }
            _ => Err(NodeError::value("unmatched '{' in format spec")),
        }
    }

    fn filled(
        &self,
        value: &dyn Fn(&str) -> Option<Value>,
        depth: usize,
    ) -> Result<String, NodeError> {
        let mut named = found(self.name, value)?;
        match self.conversion {
            None => {}
            Some('s') => named = Value::string(spelled::text(&named)?),
            Some('r') => named = Value::string(spelled::repr(&named, false)?),
            Some('a') => named = Value::string(spelled::repr(&named, true)?),
            Some(other) => {
                return Err(NodeError::value(format!(
                    "Unknown conversion specifier {other:?}; use r, s or a"
                )));
            }
        }
        let format = match self.format.contains(&'{') || self.format.contains(&'}') {
            true => filled(self.format, value, depth - 1)?,
            false => self.format.iter().collect(),
        };
        if format.is_empty() {
            return spelled::text(&named);
        }
        let spec = Spec::read(&format, &named)?;
        match &named {
            Value::String(text) => spec.of_text(text),
            Value::Int(number) => number::of_int(&spec, *number, "int"),
            Value::Boolean(truth) => number::of_int(&spec, i128::from(*truth), "bool"),
            Value::Float(number) => number::of_float(&spec, *number, "float"),
            Value::Json(_)
            | Value::File(_)
            | Value::Image(_)
            | Value::Mask(_)
            | Value::Opaque(_)
            | Value::Blocker(_) => Err(NodeError::new(
                "TypeError",
                format!(
                    "unsupported format string passed to {}.__format__; write {{{}}} without a format",
                    spelled::type_name(&named),
                    self.name.iter().collect::<String>()
                ),
            )),
        }
    }
}

/// The value of a field's name: a name, then attributes and keys.
fn found(name: &[char], value: &dyn Fn(&str) -> Option<Value>) -> Result<Value, NodeError> {
    let is_next = |character: &char| matches!(character, '.' | '[');
    let end = name.iter().position(is_next).unwrap_or(name.len());
    let first: String = name[..end].iter().collect();
    if first.chars().all(|character| character.is_ascii_digit()) {
        return Err(NodeError::new(
            "IndexError",
            format!("values have names here, not numbers: write {{a}} instead of {{{first}}}"),
        ));
    }
    let mut found = value(&first).ok_or_else(|| {
        NodeError::new(
            "KeyError",
            format!("there is no value {first:?}; link one, or write {{{{ for a brace"),
        )
    })?;
    let mut rest = &name[end..];
    while let [kind, after @ ..] = rest {
        let (part, next) = match kind {
            '.' => after.split_at(after.iter().position(is_next).unwrap_or(after.len())),
            '[' => {
                let close = after.iter().position(|character| *character == ']');
                let close =
                    close.ok_or_else(|| NodeError::value("Missing ']' in format string"))?;
                (&after[..close], &after[close + 1..])
            }
            _ => {
                return Err(NodeError::value(
                    "Only '.' or '[' may follow ']' in format field specifier",
                ));
            }
        };
        if part.is_empty() {
            return Err(NodeError::value("Empty attribute in format string"));
        }
        let part: String = part.iter().collect();
        found = match kind {
            '.' => attribute(&found, &part)?,
            _ => item(&found, &part)?,
        };
        rest = next;
    }
    Ok(found)
}

/// An attribute of a number.
fn attribute(value: &Value, name: &str) -> Result<Value, NodeError> {
    let whole = match value {
        Value::Int(number) => Some(*number),
        Value::Boolean(truth) => Some(i128::from(*truth)),
        Value::Float(_)
        | Value::String(_)
        | Value::Json(_)
        | Value::File(_)
        | Value::Image(_)
        | Value::Mask(_)
        | Value::Opaque(_)
        | Value::Blocker(_) => None,
    };
    match (name, whole, value) {
        ("real" | "numerator", Some(number), _) => Ok(Value::Int(number)),
        ("imag", Some(_), _) => Ok(Value::Int(0)),
        ("denominator", Some(_), _) => Ok(Value::Int(1)),
        ("real", None, Value::Float(number)) => Ok(Value::Float(*number)),
        ("imag", None, Value::Float(_)) => Ok(Value::Float(0.0)),
        _ => Err(NodeError::new(
            "AttributeError",
            format!(
                "'{}' object has no attribute '{name}' here",
                spelled::type_name(value)
            ),
        )),
    }
}

/// An item of a list, an object or a text. As in Python, a key of digits alone is a number.
fn item(value: &Value, key: &str) -> Result<Value, NodeError> {
    let is_number = key.chars().all(|character| character.is_ascii_digit());
    // A number that is too large for the machine is beyond every list.
    let index = is_number.then(|| key.parse().unwrap_or(usize::MAX));
    let missing = || NodeError::new("KeyError", format!("there is no item {key:?}"));
    let beyond = || NodeError::new("IndexError", format!("there is no item {key}"));
    let unkeyed = || {
        NodeError::new(
            "TypeError",
            format!("'{}' object has no item {key:?}", spelled::type_name(value)),
        )
    };
    match value {
        Value::String(text) => {
            let character = text.chars().nth(index.ok_or_else(unkeyed)?);
            Ok(Value::string(character.ok_or_else(beyond)?.to_string()))
        }
        Value::Json(json) => match &**json {
            Json::Array(items) => {
                let item = items.get(index.ok_or_else(unkeyed)?);
                Ok(Value::from_json(item.ok_or_else(beyond)?))
            }
            Json::Object(fields) => match index {
                Some(_) => Err(missing()),
                None => Ok(Value::from_json(fields.get(key).ok_or_else(missing)?)),
            },
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Err(unkeyed()),
        },
        Value::Int(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::File(_)
        | Value::Image(_)
        | Value::Mask(_)
        | Value::Opaque(_)
        | Value::Blocker(_) => Err(unkeyed()),
    }
}

#[cfg(test)]
mod tests;
