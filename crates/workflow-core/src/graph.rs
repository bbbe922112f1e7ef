//! Graphs in API format: as they are submitted, and as they are once validated.
//!
//! A [`Graph`] is any object of nodes, right or wrong, in the order it was sent. A [`ValidGraph`] is what an engine runs:
//! every link leads to a node that is there, every constant has the type of its socket, every file is resolved.

use std::collections::HashMap;
use std::sync::Arc;

use asset_store::{AssetId, BlobHash};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::validate::short;
use crate::{NodeDefinition, NodeId};

/// Most nodes a graph may have.
pub const MAX_NODES: usize = 50_000;

/// Most bytes of a text in a graph, names of nodes and inputs included: far more than a prompt has. Files are uploaded.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// Most bytes of a node's id in a graph that is submitted: far more than editors give. Every output, event and error of the node
/// repeats it. Ids that a run makes of it are longer, and graphs that are kept already have what they have.
pub const MAX_NODE_ID_BYTES: usize = 256;

/// A submitted graph, not validated.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    nodes: IndexMap<NodeId, Node>,
}

/// A submitted node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its class, where one was named by a text.
    pub class_type: Option<String>,
    /// Its inputs by field, in the order sent; empty where there was no object of inputs.
    pub inputs: Map<String, Value>,
    /// Every member of the node, in the order sent: what pictures show of it. A class and inputs that were taken out of it are
    /// null here.
    pub members: Map<String, Value>,
}

/// A submission that is no graph at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// Not an object of nodes.
    #[error("the workflow must be a JSON object that maps node ids to nodes")]
    NotAnObject,
    /// An object without nodes.
    #[error("the workflow has no nodes")]
    Empty,
    /// The format that the editor saves for itself.
    #[error(
        "this is the editor's own format; export the workflow with \"Save (API Format)\" and submit that"
    )]
    UiFormat,
    /// More nodes than [`MAX_NODES`].
    #[error("the workflow has more than {MAX_NODES} nodes")]
    TooManyNodes,
    /// More values than a tree of it may have.
    #[error("the workflow cannot be taken: {0}")]
    TooLarge(#[from] json_text::TooLarge),
    /// A text of more than [`MAX_TEXT_BYTES`] outside of the inputs of its nodes.
    #[error(
        "the workflow has a text of more than {MAX_TEXT_BYTES} bytes; shorten it, or upload it as a file"
    )]
    TextTooLong,
    /// A node whose id is longer than [`MAX_NODE_ID_BYTES`].
    #[error(
        "the id of node '{beginning}' has {bytes} bytes and may have {MAX_NODE_ID_BYTES}; give the node a shorter id"
    )]
    NodeIdTooLong {
        /// How the id begins.
        beginning: String,
        /// How long it is.
        bytes: usize,
    },
}

/// What stands in an input of a submitted node.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<'a> {
    /// An array is always meant as a link; the validator judges its shape.
    Link(&'a [Value]),
    /// `{"__type": "core/ASSET", "info": {...}}`.
    Asset(AssetReference),
    /// Anything else; `{"__value__": x}` stands for `x`.
    Constant(&'a Value),
}

/// A reference to an asset within a graph. `id` is authoritative; the rest are hints that are not read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AssetReference {
    /// The id as it was written: it may be no id at all.
    pub id: String,
}

/// A file that an input names, found in the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedFile {
    /// The record.
    pub asset: AssetId,
    /// Its bytes.
    pub hash: BlobHash,
    /// How many.
    pub size_bytes: u64,
    /// The name the node sees.
    pub name: String,
}

/// The files of a submission, by what its graph calls them: a file name, or the id of an asset reference.
pub type ResolvedFiles = HashMap<String, ResolvedFile>;

/// A graph that can run: only the nodes that its outputs need.
#[derive(Clone, Debug)]
pub struct ValidGraph {
    /// The nodes, in the order sent.
    pub nodes: IndexMap<NodeId, ValidNode>,
    /// The output nodes to run, in the order sent.
    pub outputs: Vec<NodeId>,
    /// The whole submitted graph with its constants coerced: what a picture's metadata shows.
    pub prompt: Arc<Map<String, Value>>,
}

/// A node that can run.
#[derive(Clone, Debug)]
pub struct ValidNode {
    /// Its class.
    pub definition: Arc<NodeDefinition>,
    /// Its inputs: declared ones, then undeclared ones, which only tell two nodes apart.
    pub inputs: IndexMap<String, NodeInput>,
}

/// What flows into an input of a node that can run.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeInput {
    /// A value of the socket's type.
    Constant(Value),
    /// One of the account's files.
    File(ResolvedFile),
    /// A scene: an object that names files of the account under some of its keys.
    Scene {
        /// The object, as it was sent.
        value: Map<String, Value>,
        /// Its files, by their keys.
        files: IndexMap<&'static str, ResolvedFile>,
    },
    /// Slot `slot` of another node, which is there and has it.
    Link {
        /// The node.
        node: NodeId,
        /// Its output slot.
        slot: usize,
    },
}

impl NodeInput {
    /// The files of the account that it names.
    pub fn files(&self) -> impl Iterator<Item = &ResolvedFile> {
        let (one, several) = match self {
            Self::File(file) => (Some(file), None),
            Self::Scene { files, .. } => (None, Some(files.values())),
            Self::Constant(_) | Self::Link { .. } => (None, None),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }
}

impl Graph {
    /// Reads a graph. Nodes that are no objects are kept as nodes without a class, for the validator to tell.
    ///
    /// # Errors
    /// If it cannot be read as an object of nodes at all.
    pub fn from_value(value: Value) -> Result<Self, GraphError> {
        let Value::Object(fields) = value else {
            return Err(GraphError::NotAnObject);
        };
        let is_ui_format = ["nodes", "links"]
            .iter()
            .all(|key| fields.get(*key).is_some_and(Value::is_array));
        match fields.len() {
            0 => Err(GraphError::Empty),
            _ if is_ui_format => Err(GraphError::UiFormat),
            MAX_NODES.. if fields.len() > MAX_NODES => Err(GraphError::TooManyNodes),
            _ => Ok(Self {
                nodes: fields
                    .into_iter()
                    .map(|(id, node)| (id.as_str().into(), Node::read(node)))
                    .collect(),
            }),
        }
    }

    /// Refuses ids of nodes that are longer than [`MAX_NODE_ID_BYTES`].
    pub(crate) fn check_ids(&self) -> Result<(), GraphError> {
        let mut ids = self.nodes.keys().map(NodeId::as_str);
        match ids.find(|id| id.len() > MAX_NODE_ID_BYTES) {
            None => Ok(()),
            Some(long) => Err(GraphError::NodeIdTooLong {
                beginning: short(long),
                bytes: long.len(),
            }),
        }
    }

    /// The inputs whose texts are longer than [`MAX_TEXT_BYTES`], with the bytes of the longest one in each.
    pub(crate) fn long_texts(&self) -> impl Iterator<Item = (&NodeId, &Node, &String, usize)> {
        self.nodes.iter().flat_map(|(id, node)| {
            let inputs = node.inputs.iter();
            inputs.filter_map(move |(name, value)| {
                let bytes = longest_text(value);
                (bytes > MAX_TEXT_BYTES).then_some((id, node, name, bytes))
            })
        })
    }

    /// The nodes, in the order sent.
    #[must_use]
    pub fn nodes(&self) -> &IndexMap<NodeId, Node> {
        &self.nodes
    }
}

/// Bytes of the longest text in a value. The parser bounds the depth, so recursion is safe.
fn longest_text(value: &Value) -> usize {
    let longest = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
        Value::String(text) => Some(text.len()),
        Value::Array(items) => items.iter().map(longest_text).max(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| name.len().max(longest_text(value)))
            .max(),
    };
    longest.unwrap_or(0)
}

impl Node {
    fn read(value: Value) -> Self {
        let Value::Object(mut fields) = value else {
            return Self {
                class_type: None,
                inputs: Map::new(),
                members: Map::new(),
            };
        };
        let class_type = match fields.get_mut("class_type").map(Value::take) {
            Some(Value::String(class)) => Some(class),
            _ => None,
        };
        let inputs = match fields.get_mut("inputs").map(Value::take) {
            Some(Value::Object(inputs)) => inputs,
            _ => Map::new(),
        };
        Self {
            class_type,
            inputs,
            members: fields,
        }
    }

    /// The title of the node in its editor (`_meta.title`), where it has one.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.members.get("_meta")?.get("title")?.as_str()
    }

    /// What stands in the input `name`, if anything does.
    #[must_use]
    pub fn input(&self, name: &str) -> Option<Input<'_>> {
        self.inputs.get(name).map(Input::read)
    }
}

impl<'a> Input<'a> {
    /// Tells a link, a reference and a constant apart.
    #[must_use]
    pub fn read(value: &'a Value) -> Self {
        match value {
            Value::Array(items) => Self::Link(items),
            Value::Object(fields) => match AssetReference::read(fields) {
                Some(reference) => Self::Asset(reference),
                None => Self::Constant(fields.get("__value__").unwrap_or(value)),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Self::Constant(value)
            }
        }
    }
}

impl AssetReference {
    /// Reads `{"__type": "core/ASSET", "info": {"id": ...}}`; a reference without a readable id keeps an empty one, which
    /// nothing resolves.
    #[must_use]
    pub fn read(fields: &Map<String, Value>) -> Option<Self> {
        if fields.get("__type").and_then(Value::as_str) != Some("core/ASSET") {
            return None;
        }
        let id = fields
            .get("info")
            .and_then(|info| info.get("id"))
            .and_then(Value::as_str);
        Some(Self {
            id: id.unwrap_or_default().to_owned(),
        })
    }
}

impl std::fmt::Display for AssetReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_no_object_of_nodes_is_no_graph() {
        assert_eq!(Graph::from_value(json!([])), Err(GraphError::NotAnObject));
        assert_eq!(Graph::from_value(json!(null)), Err(GraphError::NotAnObject));
        assert_eq!(Graph::from_value(json!({})), Err(GraphError::Empty));
        let ui = json!({"nodes": [], "links": [], "last_node_id": 3});
        assert_eq!(Graph::from_value(ui), Err(GraphError::UiFormat));
        let many: Map<String, Value> = (0..=MAX_NODES)
            .map(|id| (id.to_string(), json!({})))
            .collect();
        assert_eq!(
            Graph::from_value(Value::Object(many)),
            Err(GraphError::TooManyNodes)
        );
    }

    #[test]
    fn an_id_of_a_node_has_at_most_256_bytes() {
        let graph = |id: &str| {
            let mut nodes = Map::new();
            nodes.insert(id.to_owned(), json!({"class_type": "X"}));
            Graph::from_value(Value::Object(nodes)).expect("what is stored is read")
        };
        let longest = "ä".repeat(MAX_NODE_ID_BYTES / 2);
        assert_eq!(graph(&longest).check_ids(), Ok(()));
        let refused = graph(&(longest + "x")).check_ids();
        let told = refused.expect_err("one byte too many").to_string();
        let beginning = "ä".repeat(80);
        assert_eq!(
            told,
            format!(
                "the id of node '{beginning}...' has 257 bytes and may have 256; give the node a shorter id"
            )
        );
    }

    #[test]
    fn a_graph_keeps_wrong_nodes_and_the_order_sent() {
        let graph = Graph::from_value(
            json!({"b": 1, "a": {"class_type": "X", "inputs": {"z": 1, "y": 2}}}),
        );
        let graph = graph.expect("an object of nodes");
        let ids: Vec<&str> = graph.nodes().keys().map(NodeId::as_str).collect();
        assert_eq!(ids, ["b", "a"]);
        assert_eq!(graph.nodes()["b"].class_type, None);
        let fields: Vec<&String> = graph.nodes()["a"].inputs.keys().collect();
        assert_eq!(fields, ["z", "y"]);
    }

    #[test]
    fn an_input_is_a_link_a_reference_or_a_constant() {
        let reference = json!({"__type": "core/ASSET", "info": {"id": "x", "hash": "blake3:00"}});
        assert_eq!(
            Input::read(&reference),
            Input::Asset(AssetReference { id: "x".to_owned() })
        );
        let literal = json!({"__value__": [1, 2]});
        assert_eq!(Input::read(&literal), Input::Constant(&json!([1, 2])));
        let link = json!(["1", 0]);
        assert!(matches!(Input::read(&link), Input::Link(_)));
        let plain = json!({"a": 1});
        assert_eq!(Input::read(&plain), Input::Constant(&plain));
    }
}
