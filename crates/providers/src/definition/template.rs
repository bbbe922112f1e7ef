//! Texts with gaps: `/v1/tasks/{task}`.
//!
//! What fills a gap came from a partner or from a catalog, and is escaped for the place where it goes. `{+name}` keeps
//! slashes, for names that are paths themselves.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

/// What stays as it is in a path or a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// What stays as it is for `{+name}`.
const PATH: &AsciiSet = &PLAIN.remove(b'/').remove(b':').remove(b'@');

/// A text with gaps.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Gap { name: String, keeps_slashes: bool },
}

/// How a text is escaped, by where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escaping {
    /// Path and query of an address: percent signs.
    Path,
    /// Inside a string of JSON: backslashes.
    Json,
    /// As it is: a header, or an address that a partner told whole.
    Verbatim,
}

impl Template {
    /// The names of its gaps.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Gap { name, .. } => Some(name.as_str()),
        })
    }

    /// Fills every gap; fails with the name of one that has no value, or whose value would lead out of its path.
    ///
    /// # Errors
    /// With the name of the gap.
    pub(crate) fn fill<'a>(
        &self,
        escaping: Escaping,
        value: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<String, String> {
        let mut filled = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Gap {
                    name,
                    keeps_slashes,
                } => {
                    let value = value(name).ok_or_else(|| name.clone())?;
                    match escaping {
                        Escaping::Verbatim => filled.push_str(value),
                        Escaping::Json => filled.push_str(&escaped(value)),
                        Escaping::Path => {
                            if value
                                .split('/')
                                .any(|segment| matches!(segment, "." | ".."))
                            {
                                return Err(name.clone());
                            }
                            let set = if *keeps_slashes { PATH } else { PLAIN };
                            filled.extend(utf8_percent_encode(value, set));
                        }
                    }
                }
            }
        }
        Ok(filled)
    }

    /// Whether it begins with this text.
    pub(crate) fn begins_with(&self, text: &str) -> bool {
        matches!(self.0.first(), Some(Part::Text(first)) if first.starts_with(text))
    }
}

/// The inside of a JSON string.
fn escaped(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text.as_str();
        while let Some(open) = rest.find('{') {
            let (before, from) = rest.split_at(open);
            plain.push_str(before);
            match gap(&from[1..]) {
                // A brace of JSON.
                None => {
                    plain.push('{');
                    rest = &from[1..];
                }
                Some((name, keeps_slashes, after)) => {
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(Part::Gap {
                        name: name.to_owned(),
                        keeps_slashes,
                    });
                    rest = after;
                }
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        if text.chars().any(char::is_control) {
            return Err("a template holds no control characters".to_owned());
        }
        Ok(Self(parts))
    }
}

/// Reads `name}` or `+name}`.
fn gap(text: &str) -> Option<(&str, bool, &str)> {
    let (name, after) = text.split_once('}')?;
    let (name, keeps_slashes) = match name.strip_prefix('+') {
        Some(name) => (name, true),
        None => (name, false),
    };
    is_name(name).then_some((name, keeps_slashes, after))
}

/// Whether it can name a gap: lower-case letters, digits and underscores.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, escaping: Escaping, value: &str) -> Result<String, String> {
        let template: Template = text.to_owned().try_into().expect(text);
        template.fill(escaping, |name| (name == "task").then_some(value))
    }

    #[test]
    fn what_fills_a_gap_is_escaped_for_its_place() {
        let hostile = "a/b?c=\"d\"&e#%";
        assert_eq!(
            filled("/v1/{task}/x", Escaping::Path, hostile).as_deref(),
            Ok("/v1/a%2Fb%3Fc%3D%22d%22%26e%23%25/x")
        );
        assert_eq!(
            filled("/v1/{+task}", Escaping::Path, "models/m/operations/o?x").as_deref(),
            Ok("/v1/models/m/operations/o%3Fx")
        );
        assert_eq!(
            filled(r#"{"key": "{task}"}"#, Escaping::Json, "a\"\\\n").as_deref(),
            Ok(r#"{"key": "a\"\\\n"}"#)
        );
        assert_eq!(
            filled("{task}", Escaping::Verbatim, "https://a/b?c").as_deref(),
            Ok("https://a/b?c")
        );
    }

    #[test]
    fn no_value_leads_out_of_its_path() {
        for hostile in ["..", ".", "../admin", "a/../../b", "a/."] {
            assert!(filled("/v1/{task}", Escaping::Path, hostile).is_err());
            assert!(filled("/v1/{+task}", Escaping::Path, hostile).is_err());
        }
    }

    #[test]
    fn a_gap_without_a_value_is_named() {
        assert_eq!(
            filled("/{other}", Escaping::Path, "x"),
            Err("other".to_owned())
        );
    }
}
