//! What operators ask of published models, and what they are answered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What an operator asks of published models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ModelRequest {
    /// A page of them, in the order of their ids.
    List {
        /// Only those behind this id.
        after: Option<String>,
        /// Most models of the page.
        limit: Option<u32>,
    },
    /// One of them.
    Show {
        /// Its id.
        model: String,
    },
    /// Makes one of a graph, or a new version of it.
    Publish {
        /// Its id.
        model: String,
        /// What it is made of.
        graph: GraphBody,
    },
    /// Withdraws a version, or all of them.
    Withdraw {
        /// Its id.
        model: String,
        /// Which version; all without it.
        version: Option<u32>,
    },
}

/// What an operator is answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelAnswer {
    /// A page of published models.
    List(PublishedModelsPage),
    /// A published model as it is then.
    One(Box<PublishedModelBody>),
}

/// A graph to be published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphBody {
    /// The graph in API format.
    #[serde(deserialize_with = "json_text::object")]
    pub graph: Map<String, Value>,
    /// Fields of the body: `NODE.FIELD` by name. A node is named by its id, or by its title.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// The node whose outputs are the result; may be left out if only one makes outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// What a call costs, in US cents.
    #[serde(default)]
    pub price_cents: u64,
    /// What the model does, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A page of published models.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PublishedModelsPage {
    /// The models, without their schemas.
    pub models: Vec<PublishedModelBody>,
    /// What to send as `cursor` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A published model as operators see it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PublishedModelBody {
    /// Its id.
    pub id: String,
    /// `offered`, `withdrawn`, `switched_off`, or `unusable` where this program cannot read it or a file has its name.
    pub state: String,
    /// The version that calls by its id run; null if it is withdrawn.
    pub version: Option<u32>,
    /// What a call costs, in US cents.
    pub price_cents: Option<u64>,
    /// The fields of the body of a call.
    pub inputs: Vec<String>,
    /// The JSON Schema of the body; in answers about one model only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Its versions, oldest first.
    pub versions: Vec<PublishedVersionBody>,
}

/// A version of a published model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PublishedVersionBody {
    /// Its number.
    pub version: u32,
    /// The id under which this version alone is called.
    pub id: String,
    /// The models that its graph calls.
    pub calls: Vec<String>,
    /// When it was published: RFC 3339, to the second.
    pub published_at: String,
    /// Since when it is withdrawn: RFC 3339, to the second; null while it is not.
    pub withdrawn_at: Option<String>,
}
