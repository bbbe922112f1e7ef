//! The one validator: it collects every error anywhere, for both dialects.
//!
//! Only nodes that an output needs are looked into; what no output needs may be wrong, unless its class is unknown. Nothing
//! here recurses and nothing takes more than linear time: a graph may be one chain of [`crate::MAX_NODES`] nodes, one cycle of
//! them, or full of errors.

mod build;
mod coerce;
mod comfyui;
mod cycles;
mod dependents;
mod judge;
mod text;
mod walk;

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use crate::{
    Graph, InputDefinition, NodeCatalog, NodeDefinition, NodeId, ResolvedFiles, ValidGraph,
};
use walk::Walk;

pub use comfyui::{ComfyuiNeed, comfyui_classes, needs_comfyui_worker};
pub(crate) use text::short;

/// Everything the validator found.
#[derive(Clone, Debug)]
pub struct Validation {
    /// What can run: the valid outputs and all they need. `None` when no output is valid.
    pub graph: Option<ValidGraph>,
    /// Output nodes that cannot run, in the order sent.
    pub invalid_outputs: Vec<NodeId>,
    /// Errors by node, in the order sent.
    pub errors: IndexMap<NodeId, NodeErrors>,
}

/// The errors of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeErrors {
    /// Its class, where it names one.
    pub class_type: Option<String>,
    /// Its own errors.
    pub errors: Vec<ValidationError>,
    /// The output nodes that cannot run because of it. Where thousands of outputs share thousands of errors, not all of them
    /// are listed.
    pub dependent_outputs: Vec<NodeId>,
}

/// One error.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidationError {
    /// The input it is about, where it is about one.
    pub input: Option<String>,
    /// The definition of that input, where there is one.
    pub definition: Option<Arc<InputDefinition>>,
    /// What was found there: a link as it was sent, a number that is out of bounds once it was converted, any other value
    /// unwrapped.
    pub received: Option<Value>,
    /// What is wrong.
    pub kind: ValidationErrorKind,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum ValidationErrorKind {
    /// The node names no class, or one that nothing here can run.
    MissingNodeType {
        /// The node.
        node: NodeId,
        /// The class it names.
        class: Option<String>,
        /// The title of the node in its editor.
        title: Option<String>,
        /// Whether workers have the class and only take no jobs, because an operator drained them.
        is_drained: bool,
    },
    /// Nodes that wait for each other, in the order of the links; the node is one of them.
    DependencyCycle {
        /// Ids and classes along the cycle, the first node not repeated.
        cycle: Vec<(NodeId, String)>,
        /// Whether all of it is listed; of a long one the nodes from this one on are.
        complete: bool,
    },
    /// A required input is absent.
    RequiredInputMissing,
    /// An array that is no `[node id, slot]`.
    BadLinkedInput,
    /// A link to a node that is not there, or to a slot it does not have.
    UnknownLink {
        /// The node the link names.
        node: String,
        /// Whether the node is there and only the slot is not.
        node_exists: bool,
        /// The node that reads this one and the input it does so by; `None` if this one is itself an output to run. The
        /// older dialect tells the two apart.
        read_by: Option<(NodeId, String)>,
    },
    /// A link that carries another type.
    ReturnTypeMismatch {
        /// What it carries.
        received_type: String,
        /// Where it comes from.
        linked_node: NodeId,
        /// The slot there.
        slot: usize,
    },
    /// A value that cannot be read as the socket's type; what Python would say of it.
    InvalidInputType {
        /// `invalid literal for int() with base 10: 'abc'` and the like.
        exception: String,
    },
    /// A number below the smallest one allowed.
    ValueSmallerThanMin,
    /// A number above the largest one allowed.
    ValueBiggerThanMax,
    /// A word that is not among the choices.
    ValueNotInList,
    /// A text of more than [`crate::MAX_TEXT_BYTES`].
    TextTooLong {
        /// How many bytes it has.
        bytes: usize,
    },
    /// A file that the account does not have.
    InvalidFile {
        /// How the graph names it.
        name: String,
    },
}

impl Validation {
    /// The errors of a graph whose texts are too long; `None` if none is. They are found wherever they stand, since the graph is
    /// kept whole.
    pub(crate) fn of_long_texts(graph: &Graph) -> Option<Self> {
        let mut errors = IndexMap::new();
        for (id, node, input, bytes) in graph.long_texts() {
            let of_node = errors.entry(id.clone()).or_insert_with(|| NodeErrors {
                class_type: node.class_type.clone(),
                errors: Vec::new(),
                dependent_outputs: Vec::new(),
            });
            of_node.errors.push(ValidationError {
                input: Some(input.clone()),
                definition: None,
                received: None,
                kind: ValidationErrorKind::TextTooLong { bytes },
            });
        }
        (!errors.is_empty()).then_some(Self {
            graph: None,
            invalid_outputs: Vec::new(),
            errors,
        })
    }
}

/// A graph whose nodes go by their position: what the parts of the validator share.
#[derive(Clone, Copy)]
struct Subject<'a> {
    graph: &'a Graph,
    catalog: &'a NodeCatalog,
    files: &'a ResolvedFiles,
}

/// Validates a graph against the classes there are and the files that were found for it.
///
/// `targets` narrows the outputs to run; `None` means all of them, and a target that is no output node is passed over.
#[must_use]
pub fn validate(
    graph: &Graph,
    catalog: &NodeCatalog,
    files: &ResolvedFiles,
    targets: Option<&[String]>,
) -> Validation {
    let subject = Subject {
        graph,
        catalog,
        files,
    };
    let outputs = subject.outputs(targets);
    let walk = Walk::from_outputs(subject, &outputs);
    let invalid = walk.invalid();
    let (invalid_outputs, valid_outputs): (Vec<usize>, Vec<usize>) =
        outputs.into_iter().partition(|output| invalid[*output]);
    Validation {
        graph: build::valid_graph(subject, &walk, &valid_outputs),
        errors: subject.errors(walk, &invalid, &invalid_outputs),
        invalid_outputs: subject.ids(&invalid_outputs),
    }
}

impl<'a> Subject<'a> {
    fn id(self, index: usize) -> &'a NodeId {
        let (id, _) = self
            .graph
            .nodes()
            .get_index(index)
            .expect("positions are those of the graph");
        id
    }

    fn ids(self, indices: &[usize]) -> Vec<NodeId> {
        indices
            .iter()
            .map(|index| self.id(*index).clone())
            .collect()
    }

    /// The class of a node, if it is known.
    fn definition(self, index: usize) -> Option<&'a Arc<NodeDefinition>> {
        let class = self.graph.nodes()[index].class_type.as_ref()?;
        self.catalog.get(class)
    }

    fn outputs(self, targets: Option<&[String]>) -> Vec<usize> {
        let targets: Option<std::collections::HashSet<&str>> =
            targets.map(|targets| targets.iter().map(String::as_str).collect());
        let is_wanted = |index: &usize| {
            targets
                .as_ref()
                .is_none_or(|targets| targets.contains(self.id(*index).as_str()))
        };
        (0..self.graph.nodes().len())
            .filter(|index| {
                self.definition(*index)
                    .is_some_and(|class| class.output_node)
            })
            .filter(is_wanted)
            .collect()
    }

    fn errors(
        self,
        mut walk: Walk<'_>,
        invalid: &[bool],
        invalid_outputs: &[usize],
    ) -> IndexMap<NodeId, NodeErrors> {
        let mut dependents = dependents::of(&walk, invalid, invalid_outputs);
        let mut errors = IndexMap::new();
        for (index, (id, node)) in self.graph.nodes().iter().enumerate() {
            let found = match (walk.take_errors(index), self.definition(index)) {
                (Some(errors), _) => errors,
                (None, None) => vec![self.missing_node_type(index)],
                (None, Some(_)) => Vec::new(),
            };
            if found.is_empty() {
                continue;
            }
            let dependent_outputs = dependents.remove(&index).unwrap_or_default();
            errors.insert(
                id.clone(),
                NodeErrors {
                    class_type: node.class_type.clone(),
                    errors: found,
                    dependent_outputs: self.ids(&dependent_outputs),
                },
            );
        }
        errors
    }

    fn missing_node_type(self, index: usize) -> ValidationError {
        let node = &self.graph.nodes()[index];
        ValidationError {
            input: None,
            definition: None,
            received: None,
            kind: ValidationErrorKind::MissingNodeType {
                node: self.id(index).clone(),
                class: node.class_type.clone(),
                title: node.title().map(str::to_owned),
                is_drained: node
                    .class_type
                    .as_deref()
                    .is_some_and(|class| self.catalog.is_drained(class)),
            },
        }
    }
}

#[cfg(test)]
mod tests;
