//! What a node gives: values for its slots, something to show, files, or a graph that stands for it.

use bytes::Bytes;
use serde_json::{Map, Value as Json};
use workflow_core::{OutputKind, OutputName};

use super::Expansion;
use crate::Value;
use images::{Image, Mask};

/// What a call gave.
#[derive(Clone, Debug, Default)]
pub struct NodeOutput {
    /// The output slots, in the order of the definition.
    pub slots: Vec<Slot>,
    /// What clients of the older API show at the node: lists by key, such as `{"text": ["..."]}`. Emitted files that say so
    /// are listed here by the engine, because their names are settled only when they are committed.
    pub ui: Map<String, Json>,
    /// A graph to be run in place of the node.
    pub expansion: Option<Expansion>,
}

/// The content of one output slot.
#[derive(Clone, Debug)]
pub enum Slot {
    /// One value.
    One(Value),
    /// The items of a slot that is defined as a list.
    List(Vec<Value>),
    /// What a slot of a node of the expansion gives.
    Expanded {
        /// The node's name in the expansion.
        node: String,
        /// Its slot.
        slot: usize,
    },
}

/// A file on its way to being committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFile {
    /// What kind of thing it is.
    pub kind: OutputKind,
    /// Whether it is a look at something rather than a result.
    pub temp: bool,
    /// How it is to be named.
    pub name: OutputName,
    /// Its media type.
    pub content_type: &'static str,
    /// Its bytes.
    pub bytes: Bytes,
    /// The list of the node's `ui` that names it; `None` leaves it out.
    pub shown_under: Option<&'static str>,
}

impl NodeOutput {
    /// Nothing on any slot: for classes without outputs.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// One value per slot.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = Value>) -> Self {
        Self {
            slots: values.into_iter().map(Slot::One).collect(),
            ..Self::default()
        }
    }
}

impl From<Value> for NodeOutput {
    fn from(value: Value) -> Self {
        Self::of([value])
    }
}

impl From<Image> for NodeOutput {
    fn from(image: Image) -> Self {
        Self::of([image.into()])
    }
}

impl From<Mask> for NodeOutput {
    fn from(mask: Mask) -> Self {
        Self::of([mask.into()])
    }
}
