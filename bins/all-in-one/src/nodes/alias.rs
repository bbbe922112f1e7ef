//! ComfyUI's own classes of partner nodes, where their inputs are members of a body that a model here takes: a graph that was made
//! for the hosted service runs.
//!
//! What such a class is called, and where its inputs go, is data: `alias/classes.json`. Places are JSON Pointers into the body.

use std::sync::LazyLock;

use engine_native::define::{input, modern_combo, optional};
use router_core::{ModelId, PictureEncoding};
use serde::Deserialize;
use serde_json::{Map, Value};
use workflow_core::{InputDefinition, Socket};

use super::fields::label;
use super::schema::{Field, Form, Kind, Several};

const CLASSES: &str = include_str!("alias/classes.json");

/// A class of ComfyUI's own, and the model that runs it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Alias {
    pub(super) class: String,
    pub(super) display_name: String,
    pub(super) module: String,
    pub(super) category: String,
    model: String,
    inputs: Vec<AliasInput>,
}

/// An input, and the member of the body that it fills in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AliasInput {
    name: String,
    #[serde(rename = "type")]
    kind: AliasKind,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    options: Map<String, Value>,
    /// What a choice chooses from.
    #[serde(default)]
    choices: Vec<Value>,
    /// Nothing where the model has no such member any more.
    to: Option<String>,
    /// How the body holds a picture.
    #[serde(rename = "as", default)]
    encoding: AliasEncoding,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum AliasKind {
    String,
    Int,
    Float,
    Boolean,
    Combo,
    Image,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AliasEncoding {
    #[default]
    Base64,
    DataUrl,
}

/// Every class that ComfyUI itself has.
pub(super) fn all() -> &'static [Alias] {
    static ALL: LazyLock<Vec<Alias>> =
        LazyLock::new(|| serde_json::from_str(CLASSES).expect("tests read it"));
    &ALL
}

/// The class of this name, if ComfyUI itself has it.
pub(super) fn named(class: &str) -> Option<&'static Alias> {
    all().iter().find(|alias| alias.class == class)
}

impl Alias {
    /// The model that runs it.
    pub(super) fn model(&self) -> Option<ModelId> {
        let (provider, model) = self.model.split_once('/')?;
        ModelId::new(provider, model).ok()
    }

    /// The inputs as clients see them, required ones first.
    pub(super) fn definitions(&self) -> Vec<InputDefinition> {
        let mut inputs: Vec<InputDefinition> =
            self.inputs.iter().map(AliasInput::definition).collect();
        inputs.sort_by_key(|input| !input.required);
        inputs
    }

    /// What its inputs put into a body.
    pub(super) fn form(&self) -> Form {
        Form {
            fields: self.inputs.iter().filter_map(AliasInput::field).collect(),
            fixed: Vec::new(),
        }
    }
}

impl AliasInput {
    fn definition(&self) -> InputDefinition {
        let options = Value::Object(self.options.clone());
        let defined = match self.kind {
            AliasKind::String => input(&self.name, Socket::String, options),
            AliasKind::Int => input(&self.name, Socket::Int, options),
            AliasKind::Float => input(&self.name, Socket::Float, options),
            AliasKind::Boolean => input(&self.name, Socket::Boolean, options),
            AliasKind::Image => input(&self.name, Socket::Link("IMAGE".to_owned()), options),
            AliasKind::Combo => {
                let choices: Vec<String> = self.choices.iter().map(label).collect();
                let choices: Vec<&str> = choices.iter().map(String::as_str).collect();
                modern_combo(&self.name, &choices, options)
            }
        };
        match self.optional {
            true => optional(defined),
            false => defined,
        }
    }

    fn field(&self) -> Option<Field> {
        let to = self.to.as_deref()?;
        let option = |key: &str| self.options.get(key);
        let whole = |key| option(key).and_then(Value::as_i64);
        let number = |key| option(key).and_then(Value::as_f64);
        let kind = match self.kind {
            AliasKind::String => Kind::Text {
                default: option("default").and_then(Value::as_str).map(str::to_owned),
            },
            AliasKind::Int => Kind::Whole {
                min: whole("min"),
                max: whole("max"),
                step: whole("step"),
                default: whole("default"),
            },
            AliasKind::Float => Kind::Number {
                min: number("min"),
                max: number("max"),
                step: number("step"),
                default: number("default"),
            },
            AliasKind::Boolean => Kind::Truth {
                default: option("default").and_then(Value::as_bool),
            },
            AliasKind::Combo => Kind::Choice {
                values: self.choices.clone(),
                default: option("default").cloned(),
            },
            AliasKind::Image => {
                let encoding = match self.encoding {
                    AliasEncoding::Base64 => PictureEncoding::Base64,
                    AliasEncoding::DataUrl => PictureEncoding::DataUrl,
                };
                Kind::Picture(encoding, Several::Never)
            }
        };
        Some(Field {
            name: self.name.clone(),
            path: to.split('/').skip(1).map(str::to_owned).collect(),
            required: !self.optional,
            description: String::new(),
            kind,
        })
    }
}

#[cfg(test)]
mod tests;
