//! Members that a partner wants in every body and that the address of the model already says, such as its name.
//!
//! A member that the caller leaves out is put before the first member of the body. Every other byte stays as it is.

use std::collections::BTreeMap;

use bytes::Bytes;
use router_core::{Violation, ViolationStep};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::body_member::{self, Member};

/// Stands for the name of the generation.
const GENERATION: &str = "{generation}";

/// Most violations in the answer to one body, so that it stays readable.
const MOST_VIOLATIONS: usize = 100;

/// The members, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fill(Vec<(String, Value)>);

impl Fill {
    /// Members with plain values. A list or an object is refused with its name.
    pub(crate) fn new(members: &BTreeMap<String, toml::Value>) -> Result<Self, String> {
        let members = members.iter().map(|(name, value)| {
            let value = match value {
                toml::Value::String(text) => Value::from(text.as_str()),
                toml::Value::Integer(number) => Value::from(*number),
                toml::Value::Float(number) => Value::from(*number),
                toml::Value::Boolean(flag) => Value::from(*flag),
                toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
                    return Err(format!("`{name}` of `fill` is a text, a number or a flag"));
                }
            };
            Ok((name.clone(), value))
        });
        members.collect::<Result<_, _>>().map(Self)
    }

    /// What in a body keeps it from being sent: a member with another value, which may be another model at another price. The
    /// same goes for each of several, since partners differ in which one counts, and for a name in other letters, which some
    /// partners take for the same name.
    pub(crate) fn violations(&self, body: &[u8]) -> Vec<Violation> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let members = body_member::all(body).unwrap_or_default();
        self.refused(&members).take(MOST_VIOLATIONS).collect()
    }

    fn refused<'m>(&'m self, members: &'m [Member<'m>]) -> impl Iterator<Item = Violation> + 'm {
        members.iter().flat_map(|(name, given)| {
            let same = self.0.iter().filter(|(known, _)| is_same(known, name));
            same.filter_map(move |(known, value)| refusal((name, given), (known, value)))
        })
    }

    /// The body with the members that it lacks. A body that is no object stays as it is. In place of the value
    /// `{generation}` stands the name of the generation, unless the caller gives a value of its own.
    ///
    /// # Errors
    /// With the first of [`Fill::violations`].
    pub(crate) fn applied(&self, body: Bytes, generation: &str) -> Result<Bytes, String> {
        if self.0.is_empty() {
            return Ok(body);
        }
        let Some(members) = body_member::all(&body) else {
            return Ok(body);
        };
        if let Some(refused) = self.refused(&members).next() {
            return Err(refused.message);
        }
        let lacks = |name: &str| !members.iter().any(|(given, _)| given == name);
        let lacking = self.0.iter().filter(|(name, _)| lacks(name));
        let lacking = lacking.map(|(name, value)| {
            let value = match value == GENERATION {
                true => &Value::from(generation),
                false => value,
            };
            format!("{}:{value}", Value::from(name.as_str()))
        });
        let lacking: Vec<String> = lacking.collect();
        // An object begins with a brace, behind white space at most.
        let brace = body.iter().position(|byte| *byte == b'{');
        let Some(brace) = brace.filter(|_| !lacking.is_empty()) else {
            return Ok(body);
        };
        let lacking = lacking.join(",");
        let separator: &[u8] = if members.is_empty() { b"" } else { b"," };
        let (before, after) = body.split_at(brace + 1);
        let parts = [before, lacking.as_bytes(), separator, after];
        Ok(parts.concat().into())
    }
}

/// Why a member with the name of one that is filled in cannot be sent.
fn refusal((name, given): (&str, &RawValue), (known, value): (&str, &Value)) -> Option<Violation> {
    if value == GENERATION {
        return None;
    }
    let message = match name == known {
        true if is(given, value) => return None,
        true => format!("`{known}` is {value} for this model; send this or nothing"),
        false => format!("`{known}` is written so, and is {value} for this model; leave it out"),
    };
    Some(Violation {
        location: vec![ViolationStep::Field(name.to_owned())],
        message,
        kind: "literal_error",
        context: Some(("expected", value.clone())),
    })
}

/// Whether two names differ in capital letters at most, also in those two that are such letters beyond ASCII.
fn is_same(known: &str, name: &str) -> bool {
    let folded = |text: &str| text.to_uppercase().to_lowercase();
    // No letter of this kind is longer than three bytes.
    known == name || (name.len() <= 3 * known.len() && folded(known) == folded(name))
}

/// Whether JSON is this plain value, however it is spelled. No object is one, whatever `serde_json` makes of its names.
fn is(given: &RawValue, value: &Value) -> bool {
    let given = given.get();
    !given.starts_with('{')
        && serde_json::from_str::<Value>(given).is_ok_and(|given| given == *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(members: &str) -> Result<Fill, String> {
        Fill::new(&toml::from_str(members).expect("TOML"))
    }

    #[test]
    fn members_that_lack_come_first_and_the_rest_keeps_its_bytes() {
        let fill = fill("model = \"m-1\"\nn = 2").expect("plain values");
        let applied = |body: &'static str| {
            let applied = fill
                .applied(Bytes::from_static(body.as_bytes()), "g-1")
                .expect(body);
            String::from_utf8(applied.to_vec()).expect("text")
        };
        assert_eq!(
            applied(" { \"a\" : 1.0, \"a\":1e400 } "),
            " {\"model\":\"m-1\",\"n\":2, \"a\" : 1.0, \"a\":1e400 } "
        );
        assert_eq!(applied("{}"), "{\"model\":\"m-1\",\"n\":2}");
        assert_eq!(
            applied("{\"mod\\u0065l\":\"m-1\"}"),
            "{\"n\":2,\"mod\\u0065l\":\"m-1\"}"
        );
        let whole = "{\"n\":2,\"model\":\"m-1\"}";
        assert_eq!(applied(whole), whole);
        for no_object in ["[]", "\"{\"", "7"] {
            assert_eq!(applied(no_object), no_object);
        }
    }

    #[test]
    fn the_name_of_the_generation_fills_a_member() {
        let fill = fill("id = \"{generation}\"").expect("plain values");
        let applied = |body: &'static str| fill.applied(Bytes::from_static(body.as_bytes()), "g-1");
        assert_eq!(applied("{}").as_deref(), Ok(&b"{\"id\":\"g-1\"}"[..]));
        let own = "{\"id\":\"mine\"}";
        assert_eq!(applied(own).as_deref(), Ok(own.as_bytes()));
    }

    #[test]
    fn another_value_is_refused() {
        let fill = fill("model = \"m-1\"").expect("plain values");
        for other in ["{\"model\":\"m-2\"}", "{\"model\":null}"] {
            let refused = fill.applied(Bytes::from_static(other.as_bytes()), "g-1");
            assert_eq!(
                refused.expect_err(other),
                "`model` is \"m-1\" for this model; send this or nothing"
            );
        }
    }

    #[test]
    fn no_spelling_hides_another_value() {
        let fill = fill("model = \"m-1\"\ntask_id = \"{generation}\"").expect("plain values");
        for (body, refused) in [
            (r#"{"\ud800":1,"model":"m-2"}"#, &["model"][..]),
            (r#"{"mod\u0065l":"m-2"}"#, &["model"]),
            (r#"{"model":"m-2","model":"m-1"}"#, &["model"]),
            (r#"{"model":"m-1","model":"m-2"}"#, &["model"]),
            (r#"{"Model":"m-2","MODEL":"m-1"}"#, &["Model", "MODEL"]),
            (r#"{"model":"m-1","model":"m-1","models":1}"#, &[]),
            (r#"{"\ud800model":"m-2"}"#, &[]),
            (
                r#"{"task_id":"mine","Task_id":"mine","tas\u212a_id":1}"#,
                &[],
            ),
            (r#"{"input":{"model":"m-2"}}"#, &[]),
            (
                r#"{"model":{"$serde_json::private::RawValue":"\"m-1\""}}"#,
                &["model"],
            ),
            (
                r#"{"model":{"\u0024serde_json::private::R\u0061wValue":"\"m-1\""}}"#,
                &["model"],
            ),
        ] {
            let told = fill.violations(body.as_bytes());
            let names: Vec<&ViolationStep> = told.iter().flat_map(|one| &one.location).collect();
            let expected: Vec<ViolationStep> = refused
                .iter()
                .map(|name| ViolationStep::Field((*name).to_owned()))
                .collect();
            assert_eq!(names, expected.iter().collect::<Vec<_>>(), "{body}");
            let applied = fill.applied(Bytes::from_static(body.as_bytes()), "g-1");
            assert_eq!(applied.is_err(), !refused.is_empty(), "{body}");
        }
        let kelvin = super::Fill::new(&toml::from_str("task = 1").expect("TOML"));
        let kelvin = kelvin.expect("a plain value");
        assert_eq!(kelvin.violations("{\"tas\u{212a}\":2}".as_bytes()).len(), 1);
        assert_eq!(kelvin.violations("{\"ta\u{17f}k\":2}".as_bytes()).len(), 1);
    }

    #[test]
    fn what_lacks_is_filled_in_before_names_with_half_a_pair() {
        let fill = fill("model = \"m-1\"").expect("plain values");
        let body = Bytes::from_static(br#"{"\ud800":1}"#);
        let applied = fill.applied(body, "g-1").expect("nothing else is said");
        assert_eq!(applied, r#"{"model":"m-1","\ud800":1}"#);
    }

    #[test]
    fn a_member_has_a_plain_value() {
        let refused = fill("a = [1]").expect_err("a list");
        assert_eq!(refused, "`a` of `fill` is a text, a number or a flag");
    }
}
