//! Reading JSON into a tree of what is written.
//!
//! `serde_json` has a name of its own: into a `Value` it reads an object whose first member has it as the JSON in the text of
//! that member. To everybody else that is an object as any other, and here it is one, too. It also keeps the text from being
//! measured as a text and read as the tree that it would become.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::de::Read;
use serde_json::{Map, Number, Value};

/// Reads a text as `serde_json` would, in which no name means anything.
///
/// # Errors
/// If it is no JSON, or cannot be held: it nests too deeply, or has a number past all bounds or half a surrogate pair.
pub fn read(text: &[u8]) -> serde_json::Result<Value> {
    whole(serde_json::Deserializer::from_slice(text))
}

/// As [`read`], of a text that is known to be one.
///
/// # Errors
/// As [`read`].
pub fn read_str(text: &str) -> serde_json::Result<Value> {
    whole(serde_json::Deserializer::from_str(text))
}

/// For a field with a tree in it: `#[serde(deserialize_with = "json_text::value")]`.
///
/// # Errors
/// Those of the reader.
pub fn value<'de, D: Deserializer<'de>>(reader: D) -> Result<Value, D::Error> {
    reader.deserialize_any(Tree)
}

/// As [`value`], for a field with an object.
///
/// # Errors
/// Those of the reader, and if it is something else.
pub fn object<'de, D: Deserializer<'de>>(reader: D) -> Result<Map<String, Value>, D::Error> {
    reader.deserialize_map(Members)
}

fn whole<'de, R: Read<'de>>(mut reader: serde_json::Deserializer<R>) -> serde_json::Result<Value> {
    let value = value(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Any value.
struct Tree;

/// The members of an object.
struct Members;

impl<'de> DeserializeSeed<'de> for Tree {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        value(reader)
    }
}

impl<'de> Visitor<'de> for Tree {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        value(reader)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element_seed(Tree)? {
            read.push(item);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Value, A::Error> {
        Members.visit_map(members).map(Value::Object)
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut read = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            read.insert(name, members.next_value_seed(Tree)?);
        }
        Ok(read)
    }
}
