//! A JSON object as a form, for partners that take nothing else.
//!
//! Every member becomes a part: a text as it is, a number or a flag as it was written, an object as its JSON; an array
//! becomes one part for each item. Members that are named as files become files.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use router_core::{Violation, ViolationStep, read_leniently};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::body_member;
use crate::definition::Form;

/// Why a body cannot become a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormError {
    /// It is no object.
    #[error("the body must be a JSON object")]
    NoObject,
    /// A file is not written as one.
    #[error("`{0}` must be a file as base64 or as a data: address")]
    NoFile(String),
}

/// The form of a body, with its media type. `boundary` must not occur in the body by chance.
pub(crate) fn of_json(
    body: &[u8],
    form: &Form,
    boundary: &str,
) -> Result<(Bytes, HeaderValue), FormError> {
    // Of a key that comes twice the last one counts, as for the schema.
    let members = body_member::all(body).ok_or(FormError::NoObject)?;
    let members: BTreeMap<Cow<'_, str>, &RawValue> = members.into_iter().collect();
    let mut parts = Parts {
        boundary,
        bytes: Vec::with_capacity(body.len() + 1024),
    };
    for (name, value) in members {
        let is_file = form.files.iter().any(|file| *file == name);
        parts.member(&name, value.get(), is_file)?;
    }
    let media_type = format!("multipart/form-data; boundary={boundary}");
    let media_type = HeaderValue::try_from(media_type).expect("a boundary is printable");
    Ok((parts.finish(), media_type))
}

/// What in a body keeps it from becoming a form. What is no object is the schema's matter.
pub(crate) fn violations(body: &[u8], form: &Form) -> Vec<Violation> {
    let members = body_member::all(body).unwrap_or_default();
    let members: BTreeMap<Cow<'_, str>, &RawValue> = members.into_iter().collect();
    let files = form.files.iter().filter_map(|name| {
        let value = members.get(name.as_str())?;
        let refused = file_member(name, value.get()).err()?;
        Some(Violation {
            location: vec![ViolationStep::Field(name.clone())],
            message: refused.to_string(),
            kind: "value_error",
            context: None,
        })
    });
    files.collect()
}

/// Looks whether a member is a file, or a list of them.
fn file_member(name: &str, json: &str) -> Result<(), FormError> {
    let mut parts = Parts {
        boundary: "",
        bytes: Vec::new(),
    };
    parts.member(name, json, true)
}

struct Parts<'a> {
    boundary: &'a str,
    bytes: Vec<u8>,
}

impl Parts<'_> {
    fn member(&mut self, name: &str, json: &str, is_file: bool) -> Result<(), FormError> {
        match json.as_bytes().first() {
            Some(b'[') => {
                let items: Vec<&RawValue> =
                    serde_json::from_str(json).map_err(|_| FormError::NoObject)?;
                for item in items {
                    self.one(name, item.get(), is_file)?;
                }
                Ok(())
            }
            _ => self.one(name, json, is_file),
        }
    }

    fn one(&mut self, name: &str, json: &str, is_file: bool) -> Result<(), FormError> {
        match text_of(json) {
            // What is null is not there.
            None if json == "null" => {}
            Some(text) if is_file => {
                let (media_type, content) =
                    file(&text).ok_or_else(|| FormError::NoFile(name.to_owned()))?;
                self.head(name, Some((name, media_type)));
                self.bytes.extend_from_slice(&content);
                self.bytes.extend_from_slice(b"\r\n");
            }
            None if is_file => return Err(FormError::NoFile(name.to_owned())),
            Some(text) => self.text(name, &text),
            None => self.text(name, json),
        }
        Ok(())
    }

    fn text(&mut self, name: &str, text: &str) {
        self.head(name, None);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn head(&mut self, name: &str, file: Option<(&str, &str)>) {
        let name = escaped(name);
        let mut head = format!(
            "--{}\r\nContent-Disposition: form-data; name=\"{name}\"",
            self.boundary
        );
        if let Some((file_name, media_type)) = file {
            let file_name = escaped(file_name);
            head.push_str(&format!(
                "; filename=\"{file_name}\"\r\nContent-Type: {media_type}"
            ));
        }
        head.push_str("\r\n\r\n");
        self.bytes.extend_from_slice(head.as_bytes());
    }

    fn finish(mut self) -> Bytes {
        let end = format!("--{}--\r\n", self.boundary);
        self.bytes.extend_from_slice(end.as_bytes());
        self.bytes.into()
    }
}

/// The text that a value is, if it is one; a form has no way to say half of a surrogate pair.
fn text_of(json: &str) -> Option<String> {
    let is_text = json.starts_with('"');
    match is_text.then(|| read_leniently(json.as_bytes())).flatten() {
        Some(Value::String(text)) => Some(text),
        Some(_) | None => None,
    }
}

/// A file that was written as base64, perhaps as a `data:` address with a media type.
fn file(text: &str) -> Option<(&str, Vec<u8>)> {
    let (media_type, encoded) = match text.strip_prefix("data:") {
        None => ("application/octet-stream", text),
        Some(rest) => {
            let (head, encoded) = rest.split_once(',')?;
            (head.strip_suffix(";base64")?, encoded)
        }
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/+-.".contains(&byte);
    if !media_type.bytes().all(is_plain) {
        return None;
    }
    let content = BASE64_STANDARD.decode(encoded).ok()?;
    Some((media_type, content))
}

/// A name inside quotes, as browsers write it.
fn escaped(name: &str) -> String {
    name.replace('"', "%22")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(body: &str) -> Result<String, FormError> {
        let form = Form {
            files: vec!["image".to_owned()],
        };
        let (bytes, media_type) = of_json(body.as_bytes(), &form, "b")?;
        assert_eq!(media_type, "multipart/form-data; boundary=b");
        Ok(String::from_utf8(bytes.to_vec()).expect("text"))
    }

    fn field(name: &str, text: &str) -> String {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
    }

    #[test]
    fn members_become_parts_as_they_were_written() {
        let body = r#"{"a": "x\u00e9", "b": 1.0, "c": 123456789012345678901234567890,
            "d": true, "e": null, "f": ["p", 2], "g": {"h": [1.50]}, "a2": "", "b": 2.50}"#;
        let expected = [
            field("a", "xé"),
            field("a2", ""),
            field("b", "2.50"),
            field("c", "123456789012345678901234567890"),
            field("d", "true"),
            field("f", "p"),
            field("f", "2"),
            field("g", r#"{"h": [1.50]}"#),
            "--b--\r\n".to_owned(),
        ];
        assert_eq!(form(body), Ok(expected.concat()));
    }

    #[test]
    fn files_are_decoded() {
        let head = "--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"image\"\r\n";
        let plain = format!("{head}Content-Type: application/octet-stream\r\n\r\nhi\r\n--b--\r\n");
        assert_eq!(form(r#"{"image": "aGk="}"#), Ok(plain));
        let typed = format!("{head}Content-Type: image/png\r\n\r\nhi\r\n--b--\r\n");
        assert_eq!(
            form(r#"{"image": "data:image/png;base64,aGk="}"#),
            Ok(typed)
        );
        for body in [
            r#"{"image": "no base64!"}"#,
            r#"{"image": 5}"#,
            r#"{"image": "data:image/png,plain"}"#,
            r#"{"image": "data:a\r\nX: y;base64,aGk="}"#,
        ] {
            assert_eq!(form(body), Err(FormError::NoFile("image".to_owned())));
        }
    }

    #[test]
    fn what_cannot_become_a_form_is_told_before() {
        let form = Form {
            files: vec!["image".to_owned(), "masks".to_owned()],
        };
        let told = violations(
            br#"{"image": "***", "text": 1, "masks": ["aGk=", 5]}"#,
            &form,
        );
        let told: Vec<(&ViolationStep, &str)> = told
            .iter()
            .map(|one| (&one.location[0], &*one.message))
            .collect();
        let field = |name: &str| ViolationStep::Field(name.to_owned());
        assert_eq!(
            told,
            [
                (
                    &field("image"),
                    "`image` must be a file as base64 or as a data: address"
                ),
                (
                    &field("masks"),
                    "`masks` must be a file as base64 or as a data: address"
                ),
            ]
        );
        for taken in [
            r#"{"image": "aGk=", "\ud800": 1}"#,
            r#"{"image": null}"#,
            "[]",
            "{}",
        ] {
            assert_eq!(violations(taken.as_bytes(), &form), [], "{taken}");
        }
    }

    #[test]
    fn a_name_with_half_a_surrogate_pair_is_a_name() {
        let expected = [field("\u{fffd}", "x"), "--b--\r\n".to_owned()];
        assert_eq!(form(r#"{"\ud800": "x"}"#), Ok(expected.concat()));
    }

    #[test]
    fn no_name_leaves_its_quotes() {
        let body = r#"{"a\"; filename=\"b\r\nX: y": "v"}"#;
        let expected = field("a%22; filename=%22b%0D%0AX: y", "v");
        assert_eq!(form(body), Ok(format!("{expected}--b--\r\n")));
        assert_eq!(form("[1]"), Err(FormError::NoObject));
    }
}
