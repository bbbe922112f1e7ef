//! What the files of such a partner say, and what is kept of a graph that was published.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `partner.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartnerFile {
    /// `workflow`: it was read before.
    #[serde(rename = "kind")]
    _kind: String,
    /// What people call it.
    pub(super) name: String,
}

/// A model's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelFile {
    /// The file of its graph in API format, beside this one. What fields do not fill in stays as it is written there.
    pub(super) graph: String,
    /// The file of its input schema, beside this one.
    pub(super) schema: String,
    /// What a call costs.
    #[serde(default)]
    pub(super) price_cents: u64,
    /// Where the fields of a body go, by name.
    pub(super) fields: BTreeMap<String, Field>,
    /// What a call is answered with.
    pub(super) output: Output,
}

/// What a version of a published model is made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedModel {
    /// How bodies become jobs, and jobs answers.
    pub(super) wiring: Wiring,
    /// The schema of bodies.
    #[serde(deserialize_with = "json_text::value")]
    pub(super) schema: Value,
    /// The graph in API format.
    #[serde(deserialize_with = "json_text::object")]
    pub(super) graph: Map<String, Value>,
}

/// How bodies become jobs, and jobs answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wiring {
    /// What a call costs.
    pub(super) price_cents: u64,
    /// Where the fields of a body go, by name.
    pub(super) fields: BTreeMap<String, Field>,
    /// What a call is answered with.
    pub(super) output: Output,
}

/// Where a field goes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Field {
    /// Whether it is a picture: a data URL, an `https` address, or the id of an asset.
    #[serde(default)]
    pub(super) picture: bool,
    /// The inputs that it fills in.
    pub(super) into: Vec<InputRef>,
}

/// An input of a node of the graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InputRef {
    pub(super) node: String,
    pub(super) input: String,
}

/// What a call is answered with.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Output {
    /// The node whose outputs are the result.
    pub(super) node: String,
    /// The field of the body that asks for pictures in the answer itself instead of links; a truth value.
    pub(super) inline: Option<String>,
    /// What the outputs are.
    #[serde(default)]
    pub(super) kind: OutputForm,
}

/// What the outputs of a model are, for code that makes a form, a page or a node of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputForm {
    /// Pictures.
    #[default]
    Image,
    /// Videos.
    Video,
    /// Sounds.
    Audio,
    /// Anything else.
    File,
}

impl ModelFile {
    /// What of it counts for calls.
    pub(super) fn wiring(self) -> Wiring {
        Wiring {
            price_cents: self.price_cents,
            fields: self.fields,
            output: self.output,
        }
    }
}
