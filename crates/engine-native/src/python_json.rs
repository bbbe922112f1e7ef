//! JSON as Python's `json.dumps` writes it by default, because that is what tools expect to find in a picture.

pub(crate) mod read;

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Writes a value with `", "` and `": "` between things, everything beyond ASCII escaped, floats as Python's `repr`, and keys in
/// the order they have.
#[must_use]
pub(crate) fn python_json(value: &Value) -> String {
    spelled(value, true, None, usize::MAX)
}

/// Writes a value as `json.dumps(value, ensure_ascii=ascii, indent=indent)` does. A text that gets longer than `most` bytes
/// is not finished.
#[must_use]
pub(crate) fn spelled(value: &Value, ascii: bool, indent: Option<usize>, most: usize) -> String {
    let mut writer = Writer {
        text: String::new(),
        ascii,
        indent,
        most,
    };
    writer.value(value, 0);
    writer.text
}

struct Writer {
    text: String,
    ascii: bool,
    indent: Option<usize>,
    most: usize,
}

impl Writer {
    /// Recursion goes as deep as the parser lets values nest.
    fn value(&mut self, value: &Value, depth: usize) {
        if self.text.len() > self.most {
            return;
        }
        match value {
            Value::Null => self.text.push_str("null"),
            Value::Bool(true) => self.text.push_str("true"),
            Value::Bool(false) => self.text.push_str("false"),
            Value::Number(number) => write_number(&mut self.text, number),
            Value::String(string) => write_string(&mut self.text, string, self.ascii),
            Value::Array(items) if items.is_empty() => self.text.push_str("[]"),
            Value::Object(entries) if entries.is_empty() => self.text.push_str("{}"),
            Value::Array(items) => {
                self.text.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.separate(at, depth + 1);
                    self.value(item, depth + 1);
                }
                self.close(depth, ']');
            }
            Value::Object(entries) => {
                self.text.push('{');
                for (at, (key, item)) in entries.iter().enumerate() {
                    self.separate(at, depth + 1);
                    write_string(&mut self.text, key, self.ascii);
                    self.text.push_str(": ");
                    self.value(item, depth + 1);
                }
                self.close(depth, '}');
            }
        }
    }

    fn separate(&mut self, at: usize, depth: usize) {
        let separator = match (at, self.indent) {
            (0, _) => "",
            (_, Some(_)) => ",",
            (_, None) => ", ",
        };
        self.text.push_str(separator);
        self.line(depth);
    }

    fn close(&mut self, depth: usize, bracket: char) {
        self.line(depth);
        self.text.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = self.indent
            && self.text.len() <= self.most
        {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n(' ', indent * depth));
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

fn write_string(text: &mut String, string: &str, ascii: bool) {
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
            // Without `ensure_ascii` only the control characters of JSON itself are escaped.
            '\u{7f}'.. if !ascii => text.push(character),
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
    fn indented_json_has_a_line_for_each_item() {
        let value = json!({"ä": [1, {"b": []}], "c": {}, "d": "\u{1}\u{7f}\u{2028}"});
        let python = "{\n  \"ä\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {},\n  \"d\": \"\\u0001\u{7f}\u{2028}\"\n}";
        assert_eq!(spelled(&value, false, Some(2), usize::MAX), python);
        // What is beyond the bound is not indented.
        let many = json!([vec![[1]; 100]]);
        assert!(spelled(&many, false, Some(8), usize::MAX).len() > 5000);
        assert!(spelled(&many, false, Some(8), 20).len() < 400);
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
