//! JSON as Python's `json.loads` reads it, and what `str()` makes of it: whole numbers of any length, `NaN` and `Infinity`,
//! numbers beyond every float, deep nesting, and the last of equal keys.

use indexmap::IndexMap;
use serde_json::{Value as Json, json};
use workflow_core::python_str;

/// Lists and objects around one value. Python stops somewhat below its own limit of 1000 calls.
const MOST_DEPTH: usize = 960;

/// Digits of a whole number, by the limit that Python has.
const MOST_DIGITS: usize = 4300;

/// A value that was read.
#[derive(Debug, PartialEq)]
pub(crate) enum Read {
    /// `null`.
    None,
    /// `true`, `false`, a whole number or a float, as Python writes it.
    Plain(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Read>),
    /// An object.
    Fields(IndexMap<String, Read>),
}

/// Why a text was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unread {
    /// It is no JSON.
    #[error("the text is no JSON")]
    NoJson,
    /// Python takes it for JSON, and it nests too deep.
    #[error("the JSON nests more than {MOST_DEPTH} lists and objects; use a flatter one")]
    TooDeep,
    /// Python takes it for JSON, and a whole number is too long.
    #[error("a whole number in the JSON has more than {MOST_DIGITS} digits; write it as a text")]
    TooLong,
    /// Python takes it for JSON, and a text has half of a character, which no text here can hold.
    #[error("a text in the JSON has half of a surrogate pair; write the character as it is")]
    HalfCharacter,
}

/// Reads a whole text.
pub(crate) fn loads(text: &str) -> Result<Read, Unread> {
    let mut reader = Reader {
        rest: text,
        has_half: false,
    };
    let value = reader.value(0)?;
    reader.space();
    match (reader.rest.is_empty(), reader.has_half) {
        (false, _) => Err(Unread::NoJson),
        (true, true) => Err(Unread::HalfCharacter),
        (true, false) => Ok(value),
    }
}

impl Read {
    /// `str()` of it.
    pub(crate) fn spelled(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::None | Self::Plain(_) | Self::List(_) | Self::Fields(_) => {
                let mut out = String::new();
                self.write(&mut out);
                out
            }
        }
    }

    fn write(&self, out: &mut String) {
        let quoted = |text: &str| workflow_core::python_repr(&Json::from(text));
        match self {
            Self::None => out.push_str("None"),
            Self::Plain(spelled) => out.push_str(spelled),
            Self::Text(text) => out.push_str(&quoted(text)),
            Self::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    item.write(out);
                }
                out.push(']');
            }
            Self::Fields(fields) => {
                out.push('{');
                for (at, (name, item)) in fields.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    out.push_str(&quoted(name));
                    out.push_str(": ");
                    item.write(out);
                }
                out.push('}');
            }
        }
    }
}

struct Reader<'t> {
    rest: &'t str,
    /// Whether there was half of a surrogate pair. This is an error only if the rest of the text is JSON.
    has_half: bool,
}

impl Reader<'_> {
    /// Recursion stops at [`MOST_DEPTH`].
    fn value(&mut self, depth: usize) -> Result<Read, Unread> {
        if depth > MOST_DEPTH {
            return Err(Unread::TooDeep);
        }
        self.space();
        for (word, spelled) in [
            ("true", "True"),
            ("false", "False"),
            ("NaN", "nan"),
            ("Infinity", "inf"),
            ("-Infinity", "-inf"),
        ] {
            if self.takes(word) {
                return Ok(Read::Plain(spelled.to_owned()));
            }
        }
        if self.takes("null") {
            return Ok(Read::None);
        }
        if self.takes("\"") {
            return self.text().map(Read::Text);
        }
        if self.takes("[") {
            return self.list(depth);
        }
        if self.takes("{") {
            return self.fields(depth);
        }
        self.number()
    }

    fn list(&mut self, depth: usize) -> Result<Read, Unread> {
        let mut items = Vec::new();
        self.space();
        if self.takes("]") {
            return Ok(Read::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.takes("]") {
                return Ok(Read::List(items));
            }
            self.needs(",")?;
        }
    }

    fn fields(&mut self, depth: usize) -> Result<Read, Unread> {
        let mut fields = IndexMap::new();
        self.space();
        if self.takes("}") {
            return Ok(Read::Fields(fields));
        }
        loop {
            self.space();
            self.needs("\"")?;
            let name = self.text()?;
            self.space();
            self.needs(":")?;
            let value = self.value(depth + 1)?;
            fields.insert(name, value);
            self.space();
            if self.takes("}") {
                return Ok(Read::Fields(fields));
            }
            self.needs(",")?;
        }
    }

    /// What follows an opening quote.
    fn text(&mut self) -> Result<String, Unread> {
        let mut text = String::new();
        loop {
            let plain = self
                .rest
                .find(|character| matches!(character, '"' | '\\' | '\0'..='\u{1f}'))
                .ok_or(Unread::NoJson)?;
            text.push_str(&self.rest[..plain]);
            self.rest = &self.rest[plain..];
            if self.takes("\"") {
                return Ok(text);
            }
            self.needs("\\")?;
            let escape = self.rest.chars().next().ok_or(Unread::NoJson)?;
            self.rest = &self.rest[escape.len_utf8()..];
            text.push(match escape {
                '"' | '\\' | '/' => escape,
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => self.code()?,
                _ => return Err(Unread::NoJson),
            });
        }
    }

    /// Four digits, and four more where they are the first half of a pair.
    fn code(&mut self) -> Result<char, Unread> {
        let high = self.four()?;
        let low = match self.rest.strip_prefix("\\u") {
            Some(rest) if (0xd800..0xdc00).contains(&high) => {
                let mut ahead = Reader {
                    rest,
                    has_half: false,
                };
                let low = ahead.four()?;
                let is_low = (0xdc00..0xe000).contains(&low);
                is_low.then_some((low, ahead.rest))
            }
            _ => None,
        };
        let code = match low {
            Some((low, rest)) => {
                self.rest = rest;
                0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)
            }
            None => high,
        };
        let character = char::from_u32(code);
        self.has_half |= character.is_none();
        Ok(character.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn four(&mut self) -> Result<u32, Unread> {
        let digits = self.rest.get(..4).ok_or(Unread::NoJson)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Unread::NoJson);
        }
        self.rest = &self.rest[4..];
        u32::from_str_radix(digits, 16).map_err(|_| Unread::NoJson)
    }

    fn number(&mut self) -> Result<Read, Unread> {
        let bytes = self.rest.as_bytes();
        let digits = |from: usize| {
            let rest = bytes.get(from..).unwrap_or_default();
            rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
        };
        let sign = usize::from(bytes.first() == Some(&b'-'));
        let whole = match bytes.get(sign) {
            // A number does not begin with a 0, unless that is all.
            Some(b'0') => 1,
            _ => digits(sign),
        };
        if whole == 0 {
            return Err(Unread::NoJson);
        }
        let mut end = sign + whole;
        if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
            end += 1 + digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + signed);
            end += if exponent > 0 {
                1 + signed + exponent
            } else {
                0
            };
        }
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        if end > sign + whole {
            let float: f64 = number.parse().map_err(|_| Unread::NoJson)?;
            let spelled = match (float.is_infinite(), float < 0.0) {
                (true, true) => "-inf".to_owned(),
                (true, false) => "inf".to_owned(),
                (false, _) => python_str(&json!(float)),
            };
            return Ok(Read::Plain(spelled));
        }
        if whole > MOST_DIGITS {
            return Err(Unread::TooLong);
        }
        let is_zero = &number[sign..] == "0";
        Ok(Read::Plain(if is_zero { "0" } else { number }.to_owned()))
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn takes(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn needs(&mut self, word: &str) -> Result<(), Unread> {
        match self.takes(word) {
            true => Ok(()),
            false => Err(Unread::NoJson),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, python: &str) {
        let read = loads(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(read.spelled(), python, "{text}");
    }

    #[test]
    fn values_are_spelled_as_python_s_str_spells_them() {
        for (text, python) in [
            (r#" "a\u00e9\ud83d\ude00\/" "#, "aé\u{1f600}/"),
            (
                "[1, -0, -0.0, 1e5, 1E400, -1e400]",
                "[1, 0, -0.0, 100000.0, inf, -inf]",
            ),
            ("[NaN, Infinity, -Infinity]", "[nan, inf, -inf]"),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
            (
                r#"{"b": true, "a": null, "b": "it's"}"#,
                r#"{'b': "it's", 'a': None}"#,
            ),
            ("[ ]", "[]"),
            ("{ }", "{}"),
            ("1.5e-7", "1.5e-07"),
        ] {
            check(text, python);
        }
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        check(&deep, &deep);
    }

    #[test]
    fn what_python_refuses_is_no_json() {
        for text in [
            "",
            "01",
            "1.",
            "-",
            "+1",
            ".5",
            "nan",
            "tru",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "'a'",
            "\"a",
            "\"\n\"",
            r#""\x""#,
            r#""\u12"#,
            r#""\u+123""#,
            "1 2",
            "\u{feff}1",
            "[1 2]",
            "{\"a\" 1}",
            "\u{a0}1",
        ] {
            assert_eq!(loads(text), Err(Unread::NoJson), "{text:?}");
        }
    }

    #[test]
    fn what_python_reads_and_no_text_here_can_hold_is_told() {
        let deep = "[".repeat(100_000);
        assert_eq!(loads(&deep), Err(Unread::TooDeep));
        assert_eq!(loads(&"1".repeat(4301)), Err(Unread::TooLong));
        assert_eq!(loads(r#""\ud800x""#), Err(Unread::HalfCharacter));
        assert_eq!(loads(r#"["\udc00", 1}"#), Err(Unread::NoJson));
    }
}
