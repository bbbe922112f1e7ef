//! Taking a member out of a body whose other bytes stay as they are.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Deserializer;

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
