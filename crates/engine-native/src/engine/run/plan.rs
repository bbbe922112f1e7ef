//! What a run will do: what is known already, what comes to the same, what waits for what.

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;
use workflow_core::{NodeEvent, NodeId};

use super::{Run, Running};
use crate::engine::compile::Source;
use crate::engine::machine::{Links, Machine};

impl Run {
    /// Finds out what is there already, and demands the rest.
    pub(super) fn plan(&mut self) {
        let needed = self.needed();
        let cached = (0..self.nodes.len()).filter(|&node| !needed[node]);
        let cached = cached
            .map(|node| self.nodes[node].step.id.clone())
            .collect();
        self.find_twins(&needed);
        let links = (0..self.nodes.len()).map(|node| self.links(node)).collect();
        for node in (0..self.nodes.len()).filter(|&node| needed[node]) {
            self.count_uses(node);
        }
        self.machine = Machine::new(links);
        for output in self.outputs.clone() {
            self.machine.demand(output);
        }
        self.shared.announcer.tell(NodeEvent::Cached(cached));
        self.show_again(&needed);
    }

    /// Tells what nodes between others showed when they ran; output nodes tell it in their turn.
    fn show_again(&self, needed: &[bool]) {
        for (node, _) in self
            .nodes
            .iter()
            .zip(needed)
            .filter(|(_, needed)| !**needed)
        {
            let known = node.step.known.as_ref();
            let known = known.filter(|known| !known.ui.is_empty());
            if let Some(known) = known.filter(|_| !node.step.definition.output_node) {
                self.shared.announcer.tell(NodeEvent::Executed {
                    node: node.step.id.clone(),
                    ui: Json::Object(known.ui.clone()),
                });
            }
        }
    }

    /// Nodes without a known result that an output may need.
    fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        let mut stack = self.outputs.clone();
        while let Some(node) = stack.pop() {
            if needed[node] || self.nodes[node].step.known.is_some() {
                continue;
            }
            needed[node] = true;
            let step = &self.nodes[node].step;
            let sources = step
                .sources
                .iter()
                .filter_map(Source::link)
                .map(|(node, _)| node);
            stack.extend(sources.chain(step.after.iter().copied()));
        }
        needed
    }

    /// Finds nodes that come to the same result as an earlier one: they wait for it instead of doing it again. An output node
    /// whose result is also read by others is left alone.
    fn find_twins(&mut self, needed: &[bool]) {
        let mut first = HashMap::new();
        let ids: HashMap<NodeId, usize> = self
            .nodes
            .iter()
            .map(|node| node.step.id.clone())
            .zip(0..)
            .collect();
        let sources = self.nodes.iter().flat_map(|node| &node.step.sources);
        let links = sources.filter_map(Source::link).map(|(source, _)| source);
        let read: HashSet<usize> = links.collect();
        for id in &self.ticket.plan.order {
            let Some(&node) = ids.get(id).filter(|&&node| needed[node]) else {
                continue;
            };
            let step = &self.nodes[node].step;
            let Some(key) = step.key else { continue };
            if step.definition.output_node && read.contains(&node) {
                continue;
            }
            match first.get(&key) {
                Some(&twin) => self.nodes[node].twin = Some(twin),
                None => {
                    first.insert(key, node);
                }
            }
        }
    }

    pub(super) fn links(&self, node: usize) -> Links {
        let Running {
            step, twin, root, ..
        } = &self.nodes[node];
        let own = step
            .sources
            .iter()
            .filter_map(Source::strong)
            .chain(step.after.iter().copied());
        // An output node keeps its own sources too: if its twin's files are gone when its turn comes, it runs after all.
        let own = own.filter(|_| twin.is_none() || step.definition.output_node);
        let mut seen = HashSet::new();
        let strong = own
            .chain(*twin)
            .filter(|source| seen.insert(*source))
            .collect();
        Links {
            strong,
            output: step.definition.output_node,
            known: step.known.is_some(),
            root: *root,
        }
    }
}
