//! What a job will run: the nodes that its outputs need, in an order in which every node comes after what it reads.

use indexmap::IndexMap;

use crate::{NodeId, NodeInput, ValidGraph};

/// The order of a run. Fixed at submission, so that `nodes_total` never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Every node of the graph, sources first.
    pub order: Vec<NodeId>,
}

impl Plan {
    /// Plans a graph. Among nodes that could be next, the one sent first comes first, outputs' needs depth first, without
    /// recursion: a chain may be as deep as a graph is large.
    #[must_use]
    pub fn of(graph: &ValidGraph) -> Self {
        let mut placed: IndexMap<NodeId, bool> = IndexMap::with_capacity(graph.nodes.len());
        for output in &graph.outputs {
            // A node is looked at twice: first its sources are put on top of it, then it is placed itself.
            let mut stack = vec![(output.clone(), false)];
            while let Some((id, sources_placed)) = stack.pop() {
                if sources_placed {
                    placed.insert(id, true);
                    continue;
                }
                if placed.contains_key(&id) {
                    continue;
                }
                let Some(node) = graph.nodes.get(&id) else {
                    continue;
                };
                let sources = node.inputs.values().rev().filter_map(|input| match input {
                    NodeInput::Link { node, .. } => Some((node.clone(), false)),
                    NodeInput::Constant(_) | NodeInput::File(_) | NodeInput::Scene { .. } => None,
                });
                stack.push((id, true));
                stack.extend(sources.filter(|(source, _)| !placed.contains_key(source)));
            }
        }
        Self {
            order: placed.into_keys().collect(),
        }
    }

    /// How many nodes the job counts.
    #[must_use]
    pub fn nodes_total(&self) -> u32 {
        u32::try_from(self.order.len()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
