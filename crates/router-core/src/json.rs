//! Reading JSON whose values `serde_json` cannot hold: half a surrogate pair, a number past all bounds, deep nesting.
//!
//! Such a document is JSON by its grammar, and partners and callers send it. What is forwarded are its bytes; what is read
//! here serves pointers, prices and schemas, and is used only where the usual parser gave up. It does not recurse, so that
//! the depth of a document costs memory and never the stack.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Levels of nesting that are read: as many as the usual parser has, and more than any pointer of a catalog names.
pub(crate) const MAX_DEPTH: usize = 128;

/// What becomes of values that cannot be held as they are. Half a surrogate pair is U+FFFD for all.
#[derive(Clone, Copy)]
enum Beyond {
    /// A number past all bounds is the largest there is, so that it breaks every maximum; deeper nesting is refused.
    Bounded,
    /// A number past all bounds is its text, and what is nested deeper is null.
    Shown,
}

/// What has begun and not ended.
enum Open {
    Array(Vec<Value>),
    /// With the name of the member that is read now.
    Object(Map<String, Value>, String),
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    beyond: Beyond,
}

/// Reads a document of a partner as far as it can be held: a number past all bounds as its text, what is nested deeper than
/// 128 levels as null, half a surrogate pair and what is no UTF-8 as U+FFFD. `None` if it is no JSON by its grammar.
///
/// What can be held as it is takes no longer than usual.
#[must_use]
pub fn read_leniently(body: &[u8]) -> Option<Value> {
    if let Ok(value) = json_text::read_to_look(body) {
        return Some(value);
    }
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace())?;
    // A picture is no text with mistakes, and large.
    if !first.is_ascii_graphic() {
        return None;
    }
    read(&String::from_utf8_lossy(body), Beyond::Shown)
}

/// Reads a body of a caller. `None` if it is no JSON by its grammar, or nested deeper than [`MAX_DEPTH`].
pub(crate) fn read_bounded(body: &str) -> Option<Value> {
    read(body, Beyond::Bounded)
}

/// Why a text is no JSON by its grammar, if it is none.
pub(crate) fn grammar_error(text: &str) -> Option<serde_json::Error> {
    serde_json::from_str::<&RawValue>(text).err()
}

fn read(text: &str, beyond: Beyond) -> Option<Value> {
    if grammar_error(text).is_some() {
        return None;
    }
    let mut reader = Reader {
        text,
        at: 0,
        beyond,
    };
    reader.document()
}

impl Reader<'_> {
    fn document(&mut self) -> Option<Value> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            let mut value = match self.next()? {
                b'[' | b'{' if open.len() == MAX_DEPTH => match self.beyond {
                    Beyond::Bounded => return None,
                    Beyond::Shown => {
                        self.skip()?;
                        Value::Null
                    }
                },
                b'[' => {
                    self.at += 1;
                    if self.next()? != b']' {
                        open.push(Open::Array(Vec::new()));
                        continue;
                    }
                    self.at += 1;
                    Value::Array(Vec::new())
                }
                b'{' => {
                    self.at += 1;
                    if self.next()? != b'}' {
                        open.push(Open::Object(Map::new(), self.name()?));
                        continue;
                    }
                    self.at += 1;
                    Value::Object(Map::new())
                }
                b'"' => Value::String(self.string()?),
                _ => self.scalar()?,
            };
            // A value has ended, and with it perhaps what it is the last of.
            loop {
                let Some(innermost) = open.last_mut() else {
                    return Some(value);
                };
                match innermost {
                    Open::Array(items) => items.push(value),
                    Open::Object(members, name) => {
                        members.insert(std::mem::take(name), value);
                    }
                }
                let goes_on = self.next()? == b',';
                self.at += 1;
                if goes_on {
                    if let Open::Object(_, name) = innermost {
                        *name = self.name()?;
                    }
                    break;
                }
                value = match open.pop()? {
                    Open::Array(items) => Value::Array(items),
                    Open::Object(members, _) => Value::Object(members),
                };
            }
        }
    }

    /// The next byte that is no space.
    fn next(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let spaces = rest.iter().take_while(|byte| byte.is_ascii_whitespace());
        self.at += spaces.count();
        self.text.as_bytes().get(self.at).copied()
    }

    /// The name of a member, and the colon behind it.
    fn name(&mut self) -> Option<String> {
        self.next()?;
        let name = self.string()?;
        self.next()?;
        self.at += 1;
        Some(name)
    }

    fn string(&mut self) -> Option<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = self.text.get(self.at..)?;
            let plain = rest.find(['"', '\\'])?;
            text.push_str(&rest[..plain]);
            self.at += plain + 1;
            if rest.as_bytes()[plain] == b'"' {
                return Some(text);
            }
            let escape = *self.text.as_bytes().get(self.at)?;
            self.at += 1;
            text.push(match escape {
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => self.character()?,
                itself => char::from(itself),
            });
        }
    }

    /// The character behind `\u`. Half of a pair is none.
    fn character(&mut self) -> Option<char> {
        let first = self.unit()?;
        let behind = self.at;
        if (0xD800..0xDC00).contains(&first) && self.text[behind..].starts_with("\\u") {
            self.at += 2;
            let second = self.unit()?;
            if let Some(Ok(pair)) = char::decode_utf16([first, second]).next() {
                return Some(pair);
            }
            self.at = behind;
        }
        let alone = char::from_u32(u32::from(first));
        Some(alone.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        u16::from_str_radix(digits, 16).ok()
    }

    /// A number or a word.
    fn scalar(&mut self) -> Option<Value> {
        let rest = &self.text[self.at..];
        let is_behind = |byte: u8| byte.is_ascii_whitespace() || b",]}".contains(&byte);
        let length = rest.bytes().position(is_behind).unwrap_or(rest.len());
        let written = &rest[..length];
        self.at += length;
        let past_bounds = || match self.beyond {
            Beyond::Shown => Value::from(written),
            Beyond::Bounded if written.starts_with('-') => Value::from(f64::MIN),
            Beyond::Bounded => Value::from(f64::MAX),
        };
        // By the grammar it is a word or a number, and a number that is not held is past all bounds.
        Some(serde_json::from_str(written).unwrap_or_else(|_| past_bounds()))
    }

    /// Goes behind an array or an object.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            let rest = self.text.get(self.at..)?;
            self.at += rest.find(['"', '[', ']', '{', '}'])?;
            match self.text.as_bytes()[self.at] {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'[' | b'{' => depth += 1,
                _ => depth -= 1,
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> String {
        format!("{}1{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn half_a_surrogate_pair_is_one_replacement_character() {
        let body =
            r#" {"a": "x\ud83d", "\udc00": ["\ud83d\ude00", "\ud83dy", "\ud83d\ud83d\ude00"]} "#;
        let expected = json!({"a": "x\u{fffd}", "\u{fffd}": ["😀", "\u{fffd}y", "\u{fffd}😀"]});
        assert_eq!(read_leniently(body.as_bytes()), Some(expected.clone()));
        assert_eq!(read_bounded(body), Some(expected));
    }

    #[test]
    fn a_number_past_all_bounds_is_its_text_or_the_largest() {
        let body = "[1e400,-1e400,1e-400,12]";
        let shown = json!(["1e400", "-1e400", 0.0, 12]);
        assert_eq!(read_leniently(body.as_bytes()), Some(shown));
        let bounded = json!([f64::MAX, f64::MIN, 0.0, 12]);
        assert_eq!(read_bounded(body), Some(bounded));
    }

    #[test]
    fn a_name_of_the_parser_is_a_name() {
        let mark = "$serde_json::private::RawValue";
        for body in [
            r#"{"$serde_json::private::RawValue":"1"}"#,
            r#"{"\u0024serde_json::private::RawValue":"1"}"#,
        ] {
            let seen = Some(json!({ mark: "1" }));
            assert_eq!(read_leniently(body.as_bytes()), seen);
            assert_eq!(read_bounded(body), seen);
        }
    }

    #[test]
    fn what_is_too_deep_is_not_seen_and_hides_nothing_beside_it() {
        let deep = nested(1_000_000).replace('1', r#"{"]": "\"}"}"#);
        let body = format!(r#"{{"a": {deep}, "state": "done"}}"#);
        let seen = read_leniently(body.as_bytes()).expect("it is JSON");
        assert_eq!(seen["state"], "done");
        assert!(read_bounded(&nested(128)).is_some());
        assert_eq!(read_bounded(&nested(129)), None);
    }

    #[test]
    fn what_is_no_utf_8_is_replaced() {
        let seen = read_leniently(b"{\"a\":\"\xff\xfe\",\"b\":1}").expect("it is JSON");
        assert_eq!(seen, json!({"a": "\u{fffd}\u{fffd}", "b": 1}));
    }

    #[test]
    fn what_is_no_json_is_none() {
        for body in [
            "",
            "{",
            "[1,]",
            "{\"a\":}",
            "nul",
            "{}{}",
            "\"\u{1}\"",
            "01",
            "\"\\x\"",
            "+1",
        ] {
            assert_eq!(read_leniently(body.as_bytes()), None, "{body:?}");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((".*", inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_the_usual_parser_holds_reads_the_same(value in values(), pretty: bool) {
            let text = match pretty {
                true => serde_json::to_string_pretty(&value).expect("it is a value"),
                false => value.to_string(),
            };
            // What is written is not always read as the same float.
            let usual: Value = serde_json::from_str(&text).expect("it is JSON");
            prop_assert_eq!(read_leniently(text.as_bytes()), Some(usual.clone()));
            prop_assert_eq!(read_bounded(&text), Some(usual));
        }

        #[test]
        fn any_text_is_read_or_refused(text in r#"[\[\]{}",:\\ud83d0-9eE.+ \-ntrue]{0,40}"#) {
            let is_json = grammar_error(&text).is_none();
            prop_assert_eq!(read_leniently(text.as_bytes()).is_some(), is_json);
        }
    }
}
