//! Members that a partner wants in every body and that the address of the model already says, such as its name.
//!
//! A member that the caller leaves out is put before the first member of the body. Every other byte stays as it is.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

/// Stands for the name of the generation.
const GENERATION: &str = "{generation}";

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

    /// The body with the members that it lacks. A body that is no object stays as it is. In place of the value
    /// `{generation}` stands the name of the generation, unless the caller gives a value of its own.
    ///
    /// # Errors
    /// If the body has a member with another value, which may be another model at another price. The message says so.
    pub(crate) fn applied(&self, body: Bytes, generation: &str) -> Result<Bytes, String> {
        if self.0.is_empty() {
            return Ok(body);
        }
        let Ok(members) = serde_json::from_slice::<BTreeMap<Cow<'_, str>, &RawValue>>(&body) else {
            return Ok(body);
        };
        let mut lacking = Vec::new();
        for (name, value) in &self.0 {
            let is_open = value == GENERATION;
            match members.get(name.as_str()) {
                None => {
                    let value = if is_open {
                        &Value::from(generation)
                    } else {
                        value
                    };
                    lacking.push(format!("{}:{value}", Value::from(name.as_str())));
                }
                Some(_) if is_open => {}
                Some(given) if is(given, value) => {}
                Some(_) => {
                    return Err(format!(
                        "`{name}` is {value} for this model; send this or nothing"
                    ));
                }
            }
        }
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

/// Whether JSON is this value, however it is spelled.
fn is(given: &RawValue, value: &Value) -> bool {
    serde_json::from_str::<Value>(given.get()).is_ok_and(|given| given == *value)
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
    fn a_member_has_a_plain_value() {
        let refused = fill("a = [1]").expect_err("a list");
        assert_eq!(refused, "`a` of `fill` is a text, a number or a flag");
    }
}
