//! Nodes that put a graph in their own place (execution contract 2.4).
//!
//! The nodes of an expansion run like others, but in the turn of the submitted node, in whose name they show, commit and fail.
//! Only the result of the whole is kept for later runs, and only if nothing in it commits.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value as Json;
use workflow_core::{NodeDefinition, RunError};

use super::{Run, Running};
use crate::engine::call::{Part, merge};
use crate::engine::compile::{Source, Step, constant_source};
use crate::{ExpandedInput, Expansion, NodeError, Slot, Value};

/// A node that waits for its expansion.
pub(super) struct Expanding {
    parts: Vec<Part>,
    /// Nodes by the call that put them there and their name.
    named: HashMap<(usize, String), usize>,
    /// All of them.
    nodes: Range<usize>,
}

impl Run {
    /// Takes the graphs that a node's calls gave into the run.
    pub(super) fn expand(&mut self, node: usize, parts: Vec<Part>) -> Result<(), RunError> {
        let mut named = HashMap::new();
        let first = self.nodes.len();
        for (call, part) in parts.iter().enumerate() {
            let Part::Given(_, Some(expansion)) = part else {
                continue;
            };
            if let Err(error) = self.add_nodes(node, call, expansion, &mut named) {
                self.fail(node, &error);
                return Ok(());
            }
        }
        let mut goals = Vec::new();
        for (call, part) in parts.iter().enumerate() {
            let Part::Given(slots, Some(_)) = part else {
                continue;
            };
            for slot in slots {
                let Slot::Expanded { node: name, slot } = slot else {
                    continue;
                };
                let Some(&goal) = named.get(&(call, name.clone())) else {
                    self.fail(node, &unknown(name));
                    return Ok(());
                };
                if let Some(held) = self.nodes[goal].slots.get_mut(*slot) {
                    held.uses += 1;
                }
                goals.push(goal);
            }
        }
        let outputs = (first..self.nodes.len())
            .filter(|&inner| self.nodes[inner].step.definition.output_node);
        let outputs: Vec<usize> = outputs.collect();
        self.nodes[node].once |= !outputs.is_empty();
        goals.extend(outputs);
        goals.sort_unstable();
        goals.dedup();
        let links = (first..self.nodes.len())
            .map(|inner| self.links(inner))
            .collect();
        self.machine.add(links);
        self.nodes[node].expanding = Some(Expanding {
            parts,
            named,
            nodes: first..self.nodes.len(),
        });
        self.machine.expand(node, &goals);
        Ok(())
    }

    /// What an expansion came to.
    pub(super) fn resolve(&mut self, node: usize, expanding: Expanding) -> Vec<Vec<Value>> {
        let definition = Arc::clone(&self.nodes[node].step.definition);
        let Expanding {
            parts,
            named,
            nodes,
        } = expanding;
        for inner in nodes {
            self.show_at(node, inner);
        }
        merge(&definition, parts, |call, name, slot| {
            let Some(&inner) = named.get(&(call, name.to_owned())) else {
                return Vec::new();
            };
            let values = self.read(inner, slot, true);
            self.unuse(inner, slot);
            values
        })
    }

    /// What a node of an expansion shows is shown at the node in whose place it stands.
    fn show_at(&mut self, node: usize, inner: usize) {
        let files = std::mem::take(&mut self.nodes[inner].files);
        let ui = std::mem::take(&mut self.nodes[inner].ui);
        self.nodes[node].files.extend(files);
        for (key, value) in ui {
            let shown = self.nodes[node].ui.entry(key);
            let shown = shown.or_insert_with(|| Json::Array(Vec::new()));
            if let (Json::Array(shown), Json::Array(more)) = (shown, value) {
                shown.extend(more);
            }
        }
    }

    fn add_nodes(
        &mut self,
        parent: usize,
        call: usize,
        expansion: &Expansion,
        named: &mut HashMap<(usize, String), usize>,
    ) -> Result<(), NodeError> {
        let root = self.nodes[parent].root.unwrap_or(parent);
        let first = self.nodes.len();
        let numbers: HashMap<&str, usize> = expansion
            .nodes
            .keys()
            .map(String::as_str)
            .zip(first..)
            .collect();
        let offer = self.engine.offer();
        for (name, inner) in &expansion.nodes {
            let class = offer.classes.get(&inner.class).ok_or_else(|| {
                NodeError::new(
                    "Exception",
                    format!(
                        "the node put {:?} in its place, which is not installed here",
                        inner.class
                    ),
                )
            })?;
            let definition = offer.catalog.get(&inner.class).cloned();
            let definition = definition.unwrap_or_else(|| Arc::new(class.definition()));
            let step = Step {
                id: format!("{}.{call}.{name}", self.nodes[parent].step.id)
                    .as_str()
                    .into(),
                sources: sources(&definition, &inner.inputs, &numbers)?,
                definition,
                class: Arc::clone(class),
                after: Vec::new(),
                key: None,
                known: None,
            };
            named.insert((call, name.clone()), self.nodes.len());
            self.nodes.push(Running::new(step, Some(root)));
        }
        for inner in first..self.nodes.len() {
            self.count_uses(inner);
        }
        Ok(())
    }
}

fn sources(
    definition: &NodeDefinition,
    inputs: &indexmap::IndexMap<String, ExpandedInput>,
    numbers: &HashMap<&str, usize>,
) -> Result<Vec<Source>, NodeError> {
    let source = |input: &workflow_core::InputDefinition| match inputs.get(&input.name) {
        None => Ok(Source::Absent),
        Some(ExpandedInput::Value(value)) => Ok(Source::Constant(value.clone())),
        Some(ExpandedInput::Constant(value)) => Ok(constant_source(&input.socket, value)),
        Some(ExpandedInput::Link { node, slot }) => {
            let number = numbers.get(node.as_str()).ok_or_else(|| unknown(node))?;
            Ok(Source::Link {
                node: *number,
                slot: *slot,
                lazy: input.lazy,
            })
        }
    };
    definition.inputs.iter().map(source).collect()
}

fn unknown(name: &str) -> NodeError {
    NodeError::new(
        "KeyError",
        format!("the node put a graph in its place that has no node {name:?}"),
    )
}
