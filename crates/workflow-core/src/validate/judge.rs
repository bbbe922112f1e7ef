//! One node by itself: its class, and each input its class declares.
//!
//! Inputs that the class does not declare are no links and never wrong.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use super::coerce::constant;
use super::{Subject, ValidationError, ValidationErrorKind};
use crate::{
    AssetReference, Input, InputDefinition, MATCH_TYPE, Node, NodeDefinition, NodeId, NodeInput,
    Socket,
};

/// What was found of a node.
pub(super) struct Judged<'a> {
    /// The class as this node has it; `None` if it is unknown.
    pub(super) definition: Option<Arc<NodeDefinition>>,
    /// Declared inputs that are right.
    pub(super) inputs: IndexMap<String, NodeInput>,
    /// What it reads, mistyped links included.
    pub(super) sources: Vec<Source<'a>>,
    /// What is wrong.
    pub(super) errors: Vec<ValidationError>,
}

/// A node that is read, and the input that reads it.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) node: usize,
    pub(super) input: &'a str,
}

/// A wrong input: what was found and what is wrong with it.
pub(super) struct Fault {
    pub(super) received: Option<Value>,
    pub(super) kind: ValidationErrorKind,
}

impl Fault {
    pub(super) fn new(received: Option<Value>, kind: ValidationErrorKind) -> Box<Self> {
        Box::new(Self { received, kind })
    }
}

/// Definitions that errors carry, by address: a list of choices may be long and named by thousands of errors.
#[derive(Default)]
pub(super) struct Definitions {
    shared: HashMap<*const InputDefinition, Arc<InputDefinition>>,
}

impl Definitions {
    fn share(&mut self, definition: &InputDefinition) -> Arc<InputDefinition> {
        let shared = self.shared.entry(std::ptr::from_ref(definition));
        shared
            .or_insert_with(|| Arc::new(definition.clone()))
            .clone()
    }
}

/// Judges a node that `read_by` reads, or that is an output.
pub(super) fn judge<'a>(
    subject: Subject<'a>,
    index: usize,
    read_by: Option<(usize, &str)>,
    definitions: &mut Definitions,
) -> Judged<'a> {
    let mut judged = Judged {
        definition: None,
        inputs: IndexMap::new(),
        sources: Vec::new(),
        errors: Vec::new(),
    };
    let node = &subject.graph.nodes()[index];
    let Some(class) = subject.definition(index) else {
        judged.errors.push(subject.missing_node_type(index));
        // Which inputs it would declare is not known: what any of them links to is judged, too, for the same outputs.
        judged.sources = links(subject, node);
        return judged;
    };
    let expanded = class.expanded(&node.inputs).map(Arc::new);
    let class = expanded.unwrap_or_else(|| Arc::clone(class));
    for definition in &class.inputs {
        let result = match node.input(&definition.name) {
            None if definition.required => absent(&class, definition),
            None => continue,
            Some(Input::Link(items)) => {
                let source = source(subject, items);
                let name = node.inputs.get_key_value(&definition.name);
                let named = source.zip(name);
                let source = named.map(|(node, (input, _))| Source { node, input });
                judged.sources.extend(source);
                link(subject, definition, items, read_by)
            }
            Some(Input::Asset(reference)) => {
                let sent = &node.inputs[&definition.name];
                asset(subject, definition, reference, sent)
            }
            Some(Input::Constant(value)) => constant(subject.files, definition, value),
        };
        match result {
            Ok(input) => {
                judged.inputs.insert(definition.name.clone(), input);
            }
            Err(fault) => judged.errors.push(ValidationError {
                input: Some(definition.name.clone()),
                definition: Some(definitions.share(definition)),
                received: fault.received,
                kind: fault.kind,
            }),
        }
    }
    // Errors share its inputs by their address, so it stays for as long as they are collected.
    judged.definition = Some(class);
    judged
}

/// A required input that is not there.
fn absent(class: &NodeDefinition, definition: &InputDefinition) -> Result<NodeInput, Box<Fault>> {
    let default = match (&definition.socket, definition.options.get("default")) {
        _ if !class.fills_defaults => None,
        (_, Some(default)) => Some(default.clone()),
        (Socket::Widget(_), None) => Some(Value::Null),
        (_, None) => None,
    };
    let missing = || Fault::new(None, ValidationErrorKind::RequiredInputMissing);
    default.map(NodeInput::Constant).ok_or_else(missing)
}

/// A reference to an asset: a file where a file can be meant, else a value like any other object.
fn asset(
    subject: Subject<'_>,
    definition: &InputDefinition,
    reference: AssetReference,
    sent: &Value,
) -> Result<NodeInput, Box<Fault>> {
    match subject.files.get(&reference.id) {
        Some(file) if takes_files(&definition.socket) => Ok(NodeInput::File(file.clone())),
        Some(_) => constant(subject.files, definition, sent),
        None => {
            let kind = ValidationErrorKind::InvalidFile { name: reference.id };
            Err(Fault::new(Some(sent.clone()), kind))
        }
    }
}

/// Whether a file may stand in a socket: where a text may stand, or anything.
fn takes_files(socket: &Socket) -> bool {
    match socket {
        Socket::String | Socket::File { .. } | Socket::Open(_) => true,
        Socket::Link(io_type) => is_any(io_type),
        Socket::Int
        | Socket::Float
        | Socket::Boolean
        | Socket::Combo { .. }
        | Socket::Autogrow(_)
        | Socket::DynamicCombo(_)
        | Socket::Widget(_) => false,
    }
}

/// The nodes that any input of a node links to.
fn links<'a>(subject: Subject<'a>, node: &'a Node) -> Vec<Source<'a>> {
    let link = |name: &'a String| match node.input(name)? {
        Input::Link(items) => source(subject, items).map(|node| Source { node, input: name }),
        Input::Asset(_) | Input::Constant(_) => None,
    };
    node.inputs.keys().filter_map(link).collect()
}

/// The node that a well-formed link leads to.
fn source(subject: Subject<'_>, items: &[Value]) -> Option<usize> {
    let (id, _) = link_parts(items)?;
    subject.graph.nodes().get_index_of(id)
}

fn link_parts(items: &[Value]) -> Option<(&str, u64)> {
    match items {
        [Value::String(id), Value::Number(slot)] => Some((id, slot.as_u64()?)),
        _ => None,
    }
}

fn link(
    subject: Subject<'_>,
    definition: &InputDefinition,
    items: &[Value],
    read_by: Option<(usize, &str)>,
) -> Result<NodeInput, Box<Fault>> {
    let fault = |kind| Fault::new(Some(Value::Array(items.to_vec())), kind);
    let unknown = |node: &str, node_exists| {
        fault(ValidationErrorKind::UnknownLink {
            node: node.to_owned(),
            node_exists,
            read_by: read_by.map(|(node, input)| (subject.id(node).clone(), input.to_owned())),
        })
    };
    let (id, slot) = link_parts(items).ok_or_else(|| fault(ValidationErrorKind::BadLinkedInput))?;
    let node = source(subject, items).ok_or_else(|| unknown(id, false))?;
    let slot = usize::try_from(slot).unwrap_or(usize::MAX);
    let link = NodeInput::Link {
        node: subject.id(node).clone(),
        slot,
    };
    let Some(class) = subject.definition(node) else {
        // What an unknown class gives is unknown too; that is told of the other node.
        return Ok(link);
    };
    let output = class.outputs.get(slot).ok_or_else(|| unknown(id, true))?;
    if fits(&output.io_type, definition.link_types()) {
        Ok(link)
    } else {
        Err(fault(ValidationErrorKind::ReturnTypeMismatch {
            received_type: output.io_type.clone(),
            linked_node: NodeId::from(id),
            slot,
        }))
    }
}

/// Whether a link of one type may lead into a socket of another: any of the types of the one may be any of the other.
fn fits(received: &str, wanted: &str) -> bool {
    received == wanted
        || is_any(received)
        || is_any(wanted)
        || types(received).any(|received| types(wanted).any(|wanted| wanted == received))
}

/// Whether a type stands for all of them. What an output gives that follows an input is known only when it runs.
pub(super) fn is_any(io_type: &str) -> bool {
    types(io_type).any(|io_type| io_type == "*" || io_type == MATCH_TYPE)
}

fn types(io_type: &str) -> impl Iterator<Item = &str> {
    io_type.split(',').map(str::trim)
}
