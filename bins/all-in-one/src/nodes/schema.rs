//! From the JSON Schema of a body to the inputs of a node.
//!
//! What a widget can hold becomes one; objects become their members, by names with dots; what is neither is a text of JSON.
//! The router judges bodies by the schema itself, so nothing here has to be exact about what is allowed.

use router_core::{Model, PictureEncoding};
use serde_json::{Map, Value};

/// How deep objects are taken apart.
const DEPTH: usize = 3;

/// An input of a node, and the member of the body that it fills in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    /// What the input is called.
    pub(super) name: String,
    /// The member's place, from the outside in, `0` for an array of one; none for the whole body.
    pub(super) path: Vec<String>,
    pub(super) required: bool,
    pub(super) description: String,
    pub(super) kind: Kind,
}

/// What a member holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A picture, or several.
    Picture(PictureEncoding, Several),
    /// Text.
    Text { default: Option<String> },
    /// One of these; texts stand for themselves.
    Choice {
        values: Vec<Value>,
        default: Option<Value>,
    },
    /// A whole number.
    Whole {
        min: Option<i64>,
        max: Option<i64>,
        step: Option<i64>,
        default: Option<i64>,
    },
    /// A number.
    Number {
        min: Option<f64>,
        max: Option<f64>,
        step: Option<f64>,
        default: Option<f64>,
    },
    /// A truth value.
    Truth { default: Option<bool> },
    /// Anything, as JSON.
    Json,
}

/// How many pictures a member takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Several {
    /// One.
    Never,
    /// One as it is, more as an array.
    Maybe,
    /// An array.
    Always,
}

/// What a body is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Form {
    /// What is asked for.
    pub(super) fields: Vec<Field>,
    /// What is always the same: the only value that the schema allows where it demands one.
    pub(super) fixed: Vec<(Vec<String>, Value)>,
}

impl Form {
    /// What the body of a model is made of.
    pub(super) fn of(model: &Model) -> Self {
        let mut form = Self::default();
        let constant = model.form().fixed.iter();
        form.fixed = constant
            .map(|(name, value)| (vec![name.clone()], value.clone()))
            .collect();
        match model.input_schema() {
            Some(schema) if schema.get("properties").is_some_and(Value::is_object) => {
                form.members(model, schema, &[], true);
            }
            Some(_) | None => form.fields.push(Field {
                name: "body".to_owned(),
                path: Vec::new(),
                required: true,
                description: "The body of the call, as a JSON object.".to_owned(),
                kind: Kind::Json,
            }),
        }
        form
    }

    fn members(&mut self, model: &Model, schema: &Value, above: &[String], demanded: bool) {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| {
            demanded && required.is_some_and(|names| names.iter().any(|known| known == name))
        };
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return;
        };
        for (name, property) in properties {
            let mut path = above.to_vec();
            path.push(name.clone());
            self.member(model, property, path, is_required(name));
        }
    }

    fn member(&mut self, model: &Model, schema: &Value, path: Vec<String>, required: bool) {
        let forbidden = *schema == Value::Bool(false);
        if forbidden || self.fixed.iter().any(|(fixed, _)| *fixed == path) {
            return;
        }
        if let Some(only) = only_value(schema) {
            if required {
                self.fixed.push((path, only));
            }
            return;
        }
        let picture = match path.as_slice() {
            [name] => model.form().pictures.get(name),
            _ => None,
        };
        let members = schema.get("properties").is_some_and(Value::is_object);
        if picture.is_none() && members && path.len() < DEPTH {
            self.members(model, schema, &path, required);
            return;
        }
        let kind = match picture {
            Some(encoding) => Kind::Picture(*encoding, several(schema)),
            None => kind(schema),
        };
        let description = schema.get("description").and_then(Value::as_str);
        self.fields.push(Field {
            name: path.join("."),
            path,
            required,
            description: description.unwrap_or_default().to_owned(),
            kind,
        });
    }
}

/// The only value that a schema allows.
fn only_value(schema: &Value) -> Option<Value> {
    let only = || match words(schema).as_deref() {
        Some([only]) => Some(only.clone()),
        Some(_) | None => None,
    };
    schema.get("const").cloned().or_else(only)
}

/// The values that a schema lists, null apart.
fn words(schema: &Value) -> Option<Vec<Value>> {
    let listed = schema.get("enum")?.as_array()?;
    let plain = listed.iter().filter(|value| !value.is_null());
    Some(plain.cloned().collect())
}

fn kind(schema: &Value) -> Kind {
    let default = schema.get("default").filter(|value| !value.is_null());
    if let Some(values) = words(schema)
        && !values.is_empty()
        && values
            .iter()
            .all(|value| value.is_string() || value.is_number())
    {
        let default = default.filter(|value| values.contains(value)).cloned();
        return Kind::Choice { values, default };
    }
    for alternatives in ["anyOf", "oneOf"] {
        if let Some(schemas) = schema.get(alternatives).and_then(Value::as_array) {
            return alternative(schemas, default);
        }
    }
    match types(schema).as_slice() {
        ["string"] => Kind::Text {
            default: default.and_then(Value::as_str).map(str::to_owned),
        },
        ["boolean"] => Kind::Truth {
            default: default.and_then(Value::as_bool),
        },
        ["integer"] => {
            let whole = |key| schema.get(key).and_then(Value::as_i64);
            let above = whole("exclusiveMinimum").map(|bound| bound.saturating_add(1));
            let below = whole("exclusiveMaximum").map(|bound| bound.saturating_sub(1));
            Kind::Whole {
                min: whole("minimum").or(above),
                max: whole("maximum").or(below),
                step: whole("multipleOf").filter(|step| *step > 0),
                default: default.and_then(Value::as_i64),
            }
        }
        ["number"] | ["integer", "number"] | ["number", "integer"] => {
            let number = |key| schema.get(key).and_then(Value::as_f64);
            Kind::Number {
                min: number("minimum").or_else(|| number("exclusiveMinimum")),
                max: number("maximum").or_else(|| number("exclusiveMaximum")),
                step: number("multipleOf").filter(|step| *step > 0.0),
                default: default.and_then(Value::as_f64),
            }
        }
        _ => Kind::Json,
    }
}

/// Of several schemas the one that a widget can hold.
fn alternative(schemas: &[Value], default: Option<&Value>) -> Kind {
    let kinds = schemas.iter().filter(|schema| types(schema) != ["null"]);
    let found = kinds.map(kind).find(|kind| *kind != Kind::Json);
    match (found, default) {
        (Some(Kind::Choice { values, .. }), Some(word)) if values.contains(word) => Kind::Choice {
            values,
            default: Some(word.clone()),
        },
        (Some(Kind::Text { .. }), Some(Value::String(text))) => Kind::Text {
            default: Some(text.clone()),
        },
        (Some(kind), _) => kind,
        (None, _) => Kind::Json,
    }
}

/// The types that a schema names, null apart.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(only)) => vec![only],
        Some(Value::Array(several)) => {
            let names = several.iter().filter_map(Value::as_str);
            names.filter(|name| *name != "null").collect()
        }
        Some(_) | None => Vec::new(),
    }
}

fn several(schema: &Value) -> Several {
    let takes = |wanted: &str| {
        let alternatives = ["anyOf", "oneOf"].into_iter();
        let alternatives = alternatives.filter_map(|key| schema.get(key)?.as_array());
        let mut all = alternatives.flatten().chain([schema]);
        all.any(|schema| types(schema).contains(&wanted))
    };
    match (takes("string"), takes("array")) {
        (false, true) => Several::Always,
        (true, true) => Several::Maybe,
        (_, false) => Several::Never,
    }
}

/// Puts a value into a body.
pub(super) fn put(body: &mut Map<String, Value>, path: &[String], value: Value) {
    let Some((name, rest)) = path.split_first() else {
        if let Value::Object(members) = value {
            body.extend(members);
        }
        return;
    };
    place(body.entry(name.clone()).or_insert(Value::Null), rest, value);
}

/// Puts a value at a place below; a number is the place of the only item of an array.
fn place(at: &mut Value, path: &[String], value: Value) {
    let Some((name, rest)) = path.split_first() else {
        *at = value;
        return;
    };
    if name == "0" {
        let mut item = Value::Null;
        place(&mut item, rest, value);
        *at = Value::Array(vec![item]);
        return;
    }
    if at.is_null() {
        *at = Map::new().into();
    }
    if let Value::Object(below) = at {
        place(
            below.entry(name.clone()).or_insert(Value::Null),
            rest,
            value,
        );
    }
}
