//! JSON as Python's `json.dumps` writes it by default, because that is what tools expect to find in a picture.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Writes a value with `", "` and `": "` between things, everything beyond ASCII escaped, floats as Python's `repr`, and keys in
/// the order they have.
#[must_use]
pub(crate) fn python_json(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(text, number),
        Value::String(string) => write_string(text, string),
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { ", " });
                write_value(text, item);
            }
            text.push(']');
        }
        Value::Object(entries) => {
            text.push('{');
            for (at, (key, item)) in entries.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { ", " });
                write_string(text, key);
                text.push_str(": ");
                write_value(text, item);
            }
            text.push('}');
        }
    }
}

fn write_number(text: &mut String, number: &Number) {
    match number.as_f64() {
        Some(float) if number.is_f64() => write_float(text, float),
        _ => text.push_str(&number.to_string()),
    }
}

/// The shortest digits that read back as the same float; with an exponent below 1e-4 and from 1e16 on.
fn write_float(text: &mut String, float: f64) {
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let digits = float.to_string();
        text.push_str(&digits);
        text.push_str(if digits.contains('.') { "" } else { ".0" });
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(text, "{mantissa}e{sign}{:02}", exponent.abs());
    }
}

fn write_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            ' '..='~' => text.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(value: &Value, python: &str) {
        assert_eq!(python_json(value), python);
    }

    #[test]
    fn separators_and_key_order_are_python_s() {
        let graph = json!({"3": {"inputs": {"z": 1, "a": [true, null, "x"]}, "class_type": "K"}, "1": [], "2": {}});
        check(
            &graph,
            r#"{"3": {"inputs": {"z": 1, "a": [true, null, "x"]}, "class_type": "K"}, "1": [], "2": {}}"#,
        );
    }

    #[test]
    fn text_is_ascii_with_surrogate_pairs() {
        check(
            &json!("aé\u{7f}\u{1f600}/"),
            r#""a\u00e9\u007f\ud83d\ude00/""#,
        );
        check(
            &json!("\"\\\n\r\t\u{8}\u{c}\u{0}"),
            r#""\"\\\n\r\t\b\f\u0000""#,
        );
    }

    #[test]
    fn floats_are_written_like_repr() {
        let cases = [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (7.5, "7.5"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1e-7, "1e-07"),
            (1.5e-10, "1.5e-10"),
            (1e15, "1000000000000000.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (1.234_567_890_123_456_8e17, "1.2345678901234568e+17"),
            (5e-324, "5e-324"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
        ];
        for (float, python) in cases {
            check(&json!(float), python);
        }
    }

    #[test]
    fn integers_keep_every_digit() {
        check(
            &json!([0, -1, u64::MAX, i64::MIN]),
            "[0, -1, 18446744073709551615, -9223372036854775808]",
        );
    }
}
