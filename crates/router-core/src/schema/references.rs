//! Making a schema part of a document: its definitions become components, and its references lead to them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::SchemaError;

/// Where a schema may keep its definitions, as its references spell it.
const HOMES: [&str; 3] = ["#/$defs/", "#/definitions/", "#/components/schemas/"];

/// Where the document keeps them.
const COMPONENTS: &str = "#/components/schemas/";

/// Keywords whose value is a map of schemas by names of the author's choice.
const MAPS: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];

/// Keywords whose value is data, in which `$ref` is a word like others.
const DATA: [&str; 5] = ["const", "enum", "default", "example", "examples"];

/// A schema and the definitions that it reaches.
pub(super) struct Standalone {
    pub(super) schema: Value,
    /// In the order of their names, so that the document does not depend on how they were written.
    pub(super) components: Map<String, Value>,
}

/// Takes the definitions out of a schema and points every reference at the document's components.
pub(super) fn standalone(mut schema: Value) -> Result<Standalone, SchemaError> {
    let mut definitions = take_definitions(&mut schema)?;
    let mut wanted = BTreeSet::new();
    redirect(&mut schema, &mut wanted)?;
    let mut reached = BTreeSet::new();
    while let Some(name) = wanted.pop_first() {
        if reached.contains(&name) {
            continue;
        }
        let definition = definitions
            .get_mut(&name)
            .ok_or_else(|| SchemaError::Reference(format!("{COMPONENTS}{name}")))?;
        redirect(definition, &mut wanted)?;
        reached.insert(name);
    }
    let components = reached.into_iter().map(|name| {
        let definition = definitions.remove(&name).unwrap_or(Value::Null);
        (name, definition)
    });
    Ok(Standalone {
        schema,
        components: components.collect(),
    })
}

fn take_definitions(schema: &mut Value) -> Result<Map<String, Value>, SchemaError> {
    let mut all = Map::new();
    let Some(object) = schema.as_object_mut() else {
        return Ok(all);
    };
    // The schema becomes a part of the document: it has no address and no dialect of its own any more.
    object.shift_remove("$id");
    object.shift_remove("$schema");
    let components = object
        .shift_remove("components")
        .and_then(|mut components| components.get_mut("schemas").map(Value::take));
    let homes = [
        object.shift_remove("$defs"),
        object.shift_remove("definitions"),
        components,
    ];
    for home in homes.into_iter().flatten() {
        let Value::Object(home) = home else { continue };
        for (name, definition) in home {
            if all.insert(name.clone(), definition).is_some() {
                return Err(SchemaError::Ambiguous(name));
            }
        }
    }
    Ok(all)
}

/// Points the references of a schema at components, and notes whose.
fn redirect(schema: &mut Value, wanted: &mut BTreeSet<String>) -> Result<(), SchemaError> {
    match schema {
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match (keyword.as_str(), value) {
                    ("$ref", Value::String(reference)) => redirect_one(reference, wanted)?,
                    ("mapping", Value::Object(mapping)) => {
                        for reference in mapping.values_mut() {
                            if let Value::String(reference) = reference {
                                redirect_one(reference, wanted)?;
                            }
                        }
                    }
                    (keyword, Value::Object(schemas)) if MAPS.contains(&keyword) => {
                        for schema in schemas.values_mut() {
                            redirect(schema, wanted)?;
                        }
                    }
                    (keyword, _) if DATA.contains(&keyword) => {}
                    (_, value) => redirect(value, wanted)?,
                }
            }
        }
        Value::Array(schemas) => {
            for schema in schemas {
                redirect(schema, wanted)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn redirect_one(reference: &mut String, wanted: &mut BTreeSet<String>) -> Result<(), SchemaError> {
    let name = HOMES.iter().find_map(|home| reference.strip_prefix(home));
    let Some(name) = name.filter(|name| !name.is_empty() && !name.contains(['/', '~', '%'])) else {
        return Err(SchemaError::Reference(reference.clone()));
    };
    let name = name.to_owned();
    *reference = format!("{COMPONENTS}{name}");
    wanted.insert(name);
    Ok(())
}
