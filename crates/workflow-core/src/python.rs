//! Python's conversions and spellings, as far as graphs depend on them.
//!
//! Graphs were first read by a Python program, and clients know its words: what `"7"` means in a number's place, how a float
//! is written into a message, what a failed conversion is called. The one thing that is not followed is size: a whole number
//! beyond 64 bits is kept as its digits ([`WholeNumber::Beyond`]), since JSON values end there.

mod convert;

use serde_json::{Number, Value};

pub(crate) use convert::{WholeNumber, python_bool, python_float, python_int};

/// What `repr()` says of a JSON value.
#[must_use]
pub fn python_repr(value: &Value) -> String {
    let mut text = String::new();
    write_repr(&mut text, value);
    text
}

/// What `str()` says of a JSON value: texts as they are, everything else as [`python_repr`] has it.
#[must_use]
pub fn python_str(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            python_repr(value)
        }
    }
}

/// What `repr()` says of a float: the shortest digits that read back as the same float.
pub(crate) fn float_repr(float: f64) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // Both languages print the shortest digits; they differ in when the exponent is shown.
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific
        .split_once('e')
        .expect("`{:e}` always writes an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a small number");
    if (-4..16).contains(&exponent) {
        let plain = float.to_string();
        return if plain.contains('.') {
            plain
        } else {
            plain + ".0"
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn write_repr(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Number(number) => out.push_str(&number_repr(number)),
        Value::String(text) => write_text_repr(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_repr(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (index, (key, item)) in fields.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_text_repr(out, key);
                out.push_str(": ");
                write_repr(out, item);
            }
            out.push('}');
        }
    }
}

fn number_repr(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => float_repr(float),
        _ => number.to_string(),
    }
}

/// Single quotes, unless that would mean escaping and double quotes would not.
fn write_text_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if c == quote => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            _ if is_printable(c) => out.push(c),
            _ => match u32::from(c) {
                code @ 0..=0xff => out.push_str(&format!("\\x{code:02x}")),
                code @ 0x100..=0xffff => out.push_str(&format!("\\u{code:04x}")),
                code => out.push_str(&format!("\\U{code:08x}")),
            },
        }
    }
    out.push(quote);
}

/// Both languages call the same Unicode categories printable. Rust tells it only by what it escapes; behind another
/// character, since it also escapes a combining mark that stands alone, which Python does not.
fn is_printable(c: char) -> bool {
    let mut buffer = [b'a', 0, 0, 0, 0];
    let length = 1 + c.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..length]).expect("an `a` and a character");
    text.escape_debug().nth(1) != Some('\\')
}

#[cfg(test)]
mod tests;
