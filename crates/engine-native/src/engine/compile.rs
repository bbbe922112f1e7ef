//! A graph made ready to run: nodes numbered, constants read, what changes asked for, keys computed, results looked up.
//!
//! Runs on the engine's threads where asking what changed may read files, and at once where it cannot.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use workflow_core::{
    JobError, JobErrorCode, NodeDefinition, NodeId, NodeInput, Socket, Ticket, ValidNode,
};

use super::cache::{Cache, Entry, Key};
use super::key::{self, Scope};
use crate::node::{Argument, FileInput, Files};
use crate::{Changed, Inputs, Node, Value};

/// Node classes by name.
pub(super) type Classes = HashMap<String, Arc<dyn Node>>;

/// A graph ready to run.
pub(super) struct Compiled {
    /// The nodes, in the order sent.
    pub(super) steps: Vec<Step>,
    /// The output nodes to run.
    pub(super) outputs: Vec<usize>,
    /// The submitted graph with what its nodes say of their changes.
    pub(super) prompt: Arc<Map<String, Json>>,
}

/// A node ready to run.
pub(super) struct Step {
    pub(super) id: NodeId,
    pub(super) definition: Arc<NodeDefinition>,
    pub(super) class: Arc<dyn Node>,
    /// In the order of the definition's inputs.
    pub(super) sources: Vec<Source>,
    /// Nodes that undeclared inputs link to: they run before, and nothing of theirs is passed on.
    pub(super) after: Vec<usize>,
    pub(super) key: Option<Key>,
    /// The result of an earlier run.
    pub(super) known: Option<Arc<Entry>>,
}

/// What flows into an input.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Absent,
    Constant(Value),
    /// The web address of a file that is fetched before the node is called.
    Address(Arc<str>),
    Link {
        node: usize,
        slot: usize,
        lazy: bool,
    },
}

impl Source {
    /// The node and slot it links to.
    pub(super) fn link(&self) -> Option<(usize, usize)> {
        match self {
            Self::Link { node, slot, .. } => Some((*node, *slot)),
            Self::Absent | Self::Constant(_) | Self::Address(_) => None,
        }
    }

    /// The node that it cannot do without.
    pub(super) fn strong(&self) -> Option<usize> {
        self.link()
            .filter(|_| !self.is_lazy())
            .map(|(node, _)| node)
    }

    /// Whether it is a link that is followed only when the node asks for it.
    pub(super) fn is_lazy(&self) -> bool {
        matches!(self, Self::Link { lazy: true, .. })
    }
}

/// A graph of more nodes, or one that takes more bytes, is made ready on a thread of the engine: others wait meanwhile.
const QUICK_NODES: usize = 64;
const QUICK_BYTES: usize = 64 << 10;

/// Whether [`compile`] is done at once: it hashes all of a submission, and tells what changed in a file by reading it.
pub(super) fn is_quick(ticket: &Ticket) -> bool {
    let graph = &ticket.graph;
    let mut inputs = graph.nodes.values().flat_map(|node| node.inputs.values());
    let mut room = QUICK_BYTES;
    graph.nodes.len() <= QUICK_NODES
        && !inputs.any(|input| matches!(input, NodeInput::File(_)))
        && fits(&graph.prompt, &mut room)
        && fits(&ticket.extra_pnginfo, &mut room)
}

/// Takes about as many bytes from `room` as there are; whether some are left.
fn fits(fields: &Map<String, Json>, room: &mut usize) -> bool {
    fields
        .iter()
        .all(|(name, value)| take(name.len(), room) && value_fits(value, room))
}

fn value_fits(value: &Json, room: &mut usize) -> bool {
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => take(8, room),
        Json::String(text) => take(text.len(), room),
        Json::Array(items) => items.iter().all(|item| value_fits(item, room)),
        Json::Object(fields) => fits(fields, room),
    }
}

fn take(bytes: usize, room: &mut usize) -> bool {
    *room = room.saturating_sub(bytes);
    *room > 0
}

/// Makes a graph ready.
///
/// # Errors
/// If it names what this engine does not have: a worker should not have been given it.
pub(super) fn compile(
    ticket: &Ticket,
    classes: &Classes,
    files: &Arc<Files>,
    cache: &Cache,
) -> Result<Compiled, JobError> {
    let graph = &ticket.graph;
    let number: HashMap<&NodeId, usize> = graph.nodes.keys().zip(0..).collect();
    let mut steps = Vec::with_capacity(graph.nodes.len());
    let mut changes = Vec::with_capacity(graph.nodes.len());
    for (id, node) in &graph.nodes {
        let class = classes.get(&node.definition.class);
        let class = class.ok_or_else(|| unknown_class(id, &node.definition.class))?;
        let (sources, after) = sources(node, &number, files);
        changes.push(changed(&**class, id, &node.definition, &sources));
        steps.push(Step {
            id: id.clone(),
            definition: Arc::clone(&node.definition),
            class: Arc::clone(class),
            sources,
            after,
            key: None,
            known: None,
        });
    }
    let prompt = told_changes(&graph.prompt, &steps, &changes);
    let scope = Scope {
        account: ticket.account.to_string(),
        submission: submission(&prompt, &ticket.extra_pnginfo),
    };
    // Sources come first in a plan, so every key that a key is made of is there before it.
    for id in &ticket.plan.order {
        let Some(&at) = number.get(id) else { continue };
        let source = |id: &NodeId| steps[*number.get(id)?].key;
        let key = key::of(id, &graph.nodes[at], &changes[at], &scope, source);
        steps[at].key = key;
        steps[at].known = key.and_then(|key| cache.get(&key));
    }
    let outputs = graph
        .outputs
        .iter()
        .filter_map(|id| number.get(id).copied());
    Ok(Compiled {
        outputs: outputs.collect(),
        steps,
        prompt,
    })
}

/// Reads a constant as its socket means it; a text that stands for a file is its address.
pub(super) fn constant_source(socket: &Socket, value: &Json) -> Source {
    match (socket, value) {
        (Socket::File { .. }, Json::String(address)) if !address.is_empty() => {
            Source::Address(address.as_str().into())
        }
        _ => Source::Constant(constant(socket, value)),
    }
}

fn constant(socket: &Socket, value: &Json) -> Value {
    match (socket, value) {
        // JSON has no word for these, so a validated graph spells them as Python does.
        (Socket::Float, Json::String(text)) => Value::Float(text.parse().unwrap_or(f64::NAN)),
        (Socket::Float, Json::Number(number)) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        _ => Value::from_json(value),
    }
}

fn sources(
    node: &ValidNode,
    number: &HashMap<&NodeId, usize>,
    files: &Arc<Files>,
) -> (Vec<Source>, Vec<usize>) {
    let declared = node
        .definition
        .inputs
        .iter()
        .map(|input| match node.inputs.get(&input.name) {
            None => Source::Absent,
            Some(NodeInput::Constant(value)) => constant_source(&input.socket, value),
            // No node here takes one.
            Some(NodeInput::Scene { value, .. }) => {
                Source::Constant(Value::from_json(&Json::Object(value.clone())))
            }
            Some(NodeInput::File(file)) => {
                Source::Constant(Value::File(FileInput::new(file.clone(), Arc::clone(files))))
            }
            Some(NodeInput::Link { node, slot }) => match number.get(node) {
                Some(&node) => Source::Link {
                    node,
                    slot: *slot,
                    lazy: input.lazy,
                },
                None => Source::Absent,
            },
        });
    let undeclared = node
        .inputs
        .iter()
        .filter(|(name, _)| node.definition.input(name).is_none());
    let after = undeclared.filter_map(|(_, input)| match input {
        NodeInput::Link { node, .. } => number.get(node).copied(),
        NodeInput::Constant(_) | NodeInput::File(_) | NodeInput::Scene { .. } => None,
    });
    (declared.collect(), after.collect())
}

fn changed(
    class: &dyn Node,
    id: &NodeId,
    definition: &Arc<NodeDefinition>,
    sources: &[Source],
) -> Changed {
    // What is behind an address may be another thing every time.
    if sources
        .iter()
        .any(|source| matches!(source, Source::Address(_)))
    {
        return Changed::Always;
    }
    let constants = sources.iter().map(|source| match source {
        Source::Constant(value) if definition.takes_lists => {
            Some(Argument::All(vec![value.clone()]))
        }
        Source::Constant(value) => Some(Argument::One(value.clone())),
        Source::Absent | Source::Address(_) | Source::Link { .. } => None,
    });
    let inputs = Inputs::from_arguments(id.clone(), Arc::clone(definition), constants.collect());
    // What cannot say whether it changed has changed: it runs, and says then what is wrong.
    let told = catch_unwind(AssertUnwindSafe(|| class.is_changed(&inputs)));
    told.map_or(Changed::Always, |told| told.unwrap_or(Changed::Always))
}

/// The prompt as pictures show it: nodes that tell what changes them carry it as `is_changed`, a list of one.
fn told_changes(
    prompt: &Arc<Map<String, Json>>,
    steps: &[Step],
    changes: &[Changed],
) -> Arc<Map<String, Json>> {
    let mut told = Arc::clone(prompt);
    for (step, changed) in steps.iter().zip(changes) {
        let Changed::Key(key) = changed else { continue };
        if let Some(Json::Object(node)) = Arc::make_mut(&mut told).get_mut(step.id.as_str()) {
            node.insert("is_changed".to_owned(), json!([key]));
        }
    }
    told
}

fn submission(prompt: &Map<String, Json>, extra_pnginfo: &Map<String, Json>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for part in [prompt, extra_pnginfo] {
        // Writing JSON into a hasher cannot fail: it has no limit, and a map of JSON has only text keys.
        let _ = serde_json::to_writer(&mut hasher, part);
        hasher.update(&[0]);
    }
    hasher.finalize()
}

fn unknown_class(id: &NodeId, class: &str) -> JobError {
    JobError {
        node_id: Some(id.clone()),
        class_type: Some(class.to_owned()),
        ..JobError::new(
            JobErrorCode::InvalidWorkflow,
            format!("the class {class:?} is not installed here"),
        )
    }
}
