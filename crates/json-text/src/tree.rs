//! Reading JSON into a tree of what is written.
//!
//! `serde_json` has a name of its own: into a `Value` it reads an object whose first member has it as the JSON in the text of
//! that member. Here it is never that. A tree that is kept is read again by others, so an object with that name is refused; in
//! a tree that is only looked at it is an object as any other.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::de::Read;
use serde_json::{Map, Number, Value};

/// What `serde_json` calls the member that stands for the JSON in its text.
const RESERVED: &str = "$serde_json::private::RawValue";

/// Reads a text as `serde_json` would, without its own name.
///
/// # Errors
/// If it is no JSON, or cannot be held: it nests too deeply, has a number past all bounds, half a surrogate pair or an object
/// with the reserved name.
pub fn read(text: &[u8]) -> serde_json::Result<Value> {
    whole(serde_json::Deserializer::from_slice(text), Tree::<true>)
}

/// As [`read`], of a text that is known to be one.
///
/// # Errors
/// As [`read`].
pub fn read_str(text: &str) -> serde_json::Result<Value> {
    whole(serde_json::Deserializer::from_str(text), Tree::<true>)
}

/// As [`read`], of what is looked at and never written as a tree: the reserved name is one as any other.
///
/// # Errors
/// As [`read`], the reserved name aside.
pub fn read_to_look(text: &[u8]) -> serde_json::Result<Value> {
    whole(serde_json::Deserializer::from_slice(text), Tree::<false>)
}

/// As [`read_to_look`], of a text that is known to be one.
///
/// # Errors
/// As [`read_to_look`].
pub fn read_str_to_look(text: &str) -> serde_json::Result<Value> {
    whole(serde_json::Deserializer::from_str(text), Tree::<false>)
}

/// For a field with a tree in it: `#[serde(deserialize_with = "json_text::value")]`.
///
/// # Errors
/// Those of the reader, and the reserved name.
pub fn value<'de, D: Deserializer<'de>>(reader: D) -> Result<Value, D::Error> {
    reader.deserialize_any(Tree::<true>)
}

/// As [`value`], for a field with an object.
///
/// # Errors
/// As [`value`], and if it is something else.
pub fn object<'de, D: Deserializer<'de>>(reader: D) -> Result<Map<String, Value>, D::Error> {
    reader.deserialize_map(Members::<true>)
}

fn whole<'de, R: Read<'de>, const KEPT: bool>(
    mut reader: serde_json::Deserializer<R>,
    tree: Tree<KEPT>,
) -> serde_json::Result<Value> {
    let value = reader.deserialize_any(tree)?;
    reader.end()?;
    Ok(value)
}

/// Any value, which is kept or looked at.
struct Tree<const KEPT: bool>;

/// The members of an object.
struct Members<const KEPT: bool>;

impl<'de, const KEPT: bool> DeserializeSeed<'de> for Tree<KEPT> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de, const KEPT: bool> Visitor<'de> for Tree<KEPT> {
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

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element_seed(Self)? {
            read.push(item);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Value, A::Error> {
        Members::<KEPT>.visit_map(members).map(Value::Object)
    }
}

impl<'de, const KEPT: bool> Visitor<'de> for Members<KEPT> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut read = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if KEPT && name == RESERVED {
                return Err(A::Error::custom(format_args!(
                    "no member can be called `{RESERVED}`; give it another name"
                )));
            }
            read.insert(name, members.next_value_seed(Tree::<KEPT>)?);
        }
        Ok(read)
    }
}
