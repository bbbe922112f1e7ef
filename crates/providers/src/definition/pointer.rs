//! JSON Pointers, with one liberty: `*` stands for every item of an array.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

/// Names values inside a document (RFC 6901). The segment `*` names every item of an array.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Pointer(Vec<String>);

impl Pointer {
    /// Its segments, without escapes.
    pub(crate) fn segments(&self) -> &[String] {
        &self.0
    }

    /// The first value that it names, in document order.
    #[must_use]
    pub(crate) fn first<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.all(document).into_iter().next()
    }

    /// Every value that it names, in document order.
    #[must_use]
    pub fn all<'a>(&self, document: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![document];
        for segment in &self.0 {
            found = found
                .into_iter()
                .flat_map(|value| below(value, segment))
                .collect();
        }
        found
    }

    /// The first value as text: a string as it is, a number or a boolean as it is written.
    #[must_use]
    pub(crate) fn text(&self, document: &Value) -> Option<String> {
        match self.first(document)? {
            Value::String(text) => Some(text.clone()),
            value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

fn below<'a>(value: &'a Value, segment: &str) -> Vec<&'a Value> {
    match value {
        Value::Array(items) if segment == "*" => items.iter().collect(),
        Value::Array(items) => {
            let index = segment.parse::<usize>().ok();
            index
                .and_then(|index| items.get(index))
                .into_iter()
                .collect()
        }
        Value::Object(members) => members.get(segment).into_iter().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.0 {
            write!(f, "/{}", segment.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

impl TryFrom<String> for Pointer {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let Some(segments) = text.strip_prefix('/') else {
            return Err(format!(
                "`{text}` is no JSON Pointer: it begins with no `/`"
            ));
        };
        let unescaped = segments.split('/').map(|segment| {
            let mut rest = segment;
            while let Some(at) = rest.find('~') {
                rest = &rest[at + 1..];
                if !rest.starts_with(['0', '1']) {
                    return Err(format!("`{text}` is no JSON Pointer: write `~` as `~0`"));
                }
            }
            Ok(segment.replace("~1", "/").replace("~0", "~"))
        });
        unescaped.collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointer(text: &str) -> Pointer {
        text.to_owned().try_into().expect(text)
    }

    #[test]
    fn it_names_what_rfc_6901_says_and_every_item_by_a_star() {
        let document = json!({"a": [{"b": 1}, {"b": 2}, {"c": 3}], "": 4, "x/y": {"~": 5}, "*": 6});
        let all = |text: &str| {
            let pointer = pointer(text);
            let found = pointer.all(&document).into_iter().cloned();
            found.collect::<Vec<_>>()
        };
        assert_eq!(all(""), std::slice::from_ref(&document));
        assert_eq!(all("/a/1/b"), [json!(2)]);
        assert_eq!(all("/a/*/b"), [json!(1), json!(2)]);
        assert_eq!(all("/"), [json!(4)]);
        assert_eq!(all("/x~1y/~0"), [json!(5)]);
        assert_eq!(all("/*"), [json!(6)]);
        assert!(all("/a/9").is_empty());
        assert!(all("/a/b").is_empty());
        assert!(all("/x~1y/~0/deeper").is_empty());
        for text in ["", "/", "/a/*/b", "/x~1y/~0"] {
            assert_eq!(pointer(text).to_string(), text);
        }
    }

    #[test]
    fn numbers_are_text_too() {
        let document = json!({"id": 17, "name": "n", "none": null});
        assert_eq!(pointer("/id").text(&document).as_deref(), Some("17"));
        assert_eq!(pointer("/name").text(&document).as_deref(), Some("n"));
        assert_eq!(pointer("/none").text(&document), None);
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        for text in ["a", "a/b", "/a~", "/a~2b", "#/a"] {
            assert!(Pointer::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
