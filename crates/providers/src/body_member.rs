//! The members of a body as they are written: reading all of them, and taking one out while every other byte stays.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer as _, MapAccess, Visitor};
use serde_json::Deserializer;
use serde_json::value::RawValue;

/// A member, by its name without escapes, in which half a surrogate pair is U+FFFD.
pub(crate) type Member<'a> = (Cow<'a, str>, &'a RawValue);

/// Every member of an object in its order, those that come twice as well. `None` of what is no object.
pub(crate) fn all(body: &[u8]) -> Option<Vec<Member<'_>>> {
    let mut reader = Deserializer::from_slice(body);
    let members = reader.deserialize_map(Members).ok()?;
    reader.end().ok().map(|()| members)
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<Member<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((Name(name), value)) = map.next_entry()? {
            members.push((name, value));
        }
        Ok(members)
    }
}

/// A name. As a text it could not have half a surrogate pair, which JSON may.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_bytes(NameVisitor)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(Name(lenient(bytes)))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Name(Cow::Owned(lenient(bytes).into_owned())))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Name(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Name(Cow::Owned(text.to_owned())))
    }
}

/// A text with U+FFFD for each half of a surrogate pair, which stands here in three bytes of which the first is always the same.
fn lenient(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if chunk.invalid().first() == Some(&0xED) {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    Cow::Owned(text)
}

/// An object without its members of this name. Anything else stays as it is.
pub(crate) fn without(body: &Bytes, name: &str) -> Bytes {
    let Some((before, members, after)) = taken_apart(body) else {
        return body.clone();
    };
    let kept = members.iter().filter(|member| !is_named(member, name));
    let kept: Vec<&[u8]> = kept.copied().collect();
    if kept.len() == members.len() {
        return body.clone();
    }
    [before, &kept.join(&b","[..]), after].concat().into()
}

/// An object, taken apart: what stands before its members, they themselves, and what stands behind them.
type Parts<'a> = (&'a [u8], Vec<&'a [u8]>, &'a [u8]);

fn taken_apart(body: &[u8]) -> Option<Parts<'_>> {
    let start = body.iter().position(|byte| !byte.is_ascii_whitespace())?;
    if body[start] != b'{' {
        return None;
    }
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    let mut members = Vec::new();
    let mut from = start + 1;
    for (at, byte) in body.iter().enumerate().skip(start) {
        if is_text {
            is_text = is_escaped || *byte != b'"';
            is_escaped = !is_escaped && *byte == b'\\';
            continue;
        }
        match byte {
            b'"' => is_text = true,
            b'{' | b'[' => depth += 1,
            b',' if depth == 1 => {
                members.push(&body[from..at]);
                from = at + 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    members.push(&body[from..at]);
                    return Some((&body[..=start], members, &body[at..]));
                }
            }
            _ => {}
        }
    }
    None
}

fn is_named(member: &[u8], name: &str) -> bool {
    let mut reader = Deserializer::from_slice(member);
    Cow::<'_, str>::deserialize(&mut reader).is_ok_and(|key| key == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_read_however_its_name_is_spelled() {
        let body =
            r#" {"a": 1e400, "mod\u0065l": "x", "\ud800b": [[1]], "a": {}, "\ud83d\ude00": null} "#;
        let members = all(body.as_bytes()).expect("an object");
        let members: Vec<(&str, &str)> = members
            .iter()
            .map(|(name, value)| (&**name, value.get()))
            .collect();
        let expected = [
            ("a", "1e400"),
            ("model", "\"x\""),
            ("\u{fffd}b", "[[1]]"),
            ("a", "{}"),
            ("😀", "null"),
        ];
        assert_eq!(members, expected);
        for no_object in ["[]", "7", "{", "{}{}", ""] {
            assert!(all(no_object.as_bytes()).is_none(), "{no_object:?}");
        }
    }

    #[test]
    fn a_member_goes_and_every_other_byte_stays() {
        for (body, left) in [
            (r#"{"stream":true}"#, "{}"),
            (
                r#" { "a" : 1.0 ,"stream": true, "b":{"stream":true,"c":[1,{"d":"},\"{"}]} } "#,
                r#" { "a" : 1.0 , "b":{"stream":true,"c":[1,{"d":"},\"{"}]} } "#,
            ),
            (
                r#"{"str\u0065am":true,"a":"\\","stream":false}"#,
                r#"{"a":"\\"}"#,
            ),
            (r#"{"a":1e400,"a":"stream"}"#, r#"{"a":1e400,"a":"stream"}"#),
            ("{}", "{}"),
            (r#"["stream"]"#, r#"["stream"]"#),
            (r#"{"stream":"#, r#"{"stream":"#),
        ] {
            let without = without(&Bytes::from_static(body.as_bytes()), "stream");
            assert_eq!(without, left, "{body}");
        }
    }
}
