//! Graphs that nodes put in their own place.

use indexmap::IndexMap;
use serde_json::Value as Json;

use crate::Value;

/// A graph that stands for the node which gave it. Its output nodes run too; what they show and commit, and what fails in it,
/// is told of the node that stood there first.
#[derive(Clone, Debug, Default)]
pub struct Expansion {
    /// The nodes, by names that only this expansion knows.
    pub nodes: IndexMap<String, ExpandedNode>,
}

/// A node of an expansion.
#[derive(Clone, Debug)]
pub struct ExpandedNode {
    /// Its class.
    pub class: String,
    /// Its inputs.
    pub inputs: IndexMap<String, ExpandedInput>,
}

/// What flows into an input of a node of an expansion.
#[derive(Clone, Debug)]
pub enum ExpandedInput {
    /// A constant of the socket's type.
    Constant(Json),
    /// A value that the expanding node has.
    Value(Value),
    /// A slot of another node of the same expansion.
    Link {
        /// The node's name.
        node: String,
        /// Its slot.
        slot: usize,
    },
}
