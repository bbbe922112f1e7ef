//! What a run told of its nodes, summed up: enough to show, at any time and after any restart, what a client that followed
//! it from its beginning would know.

use indexmap::IndexMap;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::{NodeEvent, NodeId};

/// Most bytes of what nodes showed that are kept; what would go beyond is left out.
const SHOWN_BYTES: usize = 1 << 20;

/// About how many bytes a node takes that shows nothing.
const NODE_BYTES: usize = 100;

/// The report of one run, from its claim on. A job that runs again begins a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Nodes that needed no work; `None` until the run told.
    pub cached: Option<Vec<NodeId>>,
    /// The nodes that began or ended, in the order in which they did so first.
    pub nodes: IndexMap<NodeId, NodeReport>,
    /// What nodes showed, as clients of the older API get it, in order.
    pub shown: IndexMap<NodeId, Value>,
    /// The node that was about to run when the run was stopped.
    pub stopped_at: Option<NodeId>,
    /// What the node that failed had got: a list of values by input.
    pub failed_inputs: Map<String, Value>,
    shown_bytes: usize,
}

/// How far a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Its class; unknown of a node that never began.
    pub class: Option<String>,
    /// Steps done and in all, once it told of any.
    pub steps: Option<(u32, u32)>,
    /// Whether it is done.
    pub finished: bool,
    /// When it began, as far as that was kept.
    pub started_at: Option<Timestamp>,
    /// When it was done, as far as that was kept.
    pub ended_at: Option<Timestamp>,
}

impl RunReport {
    /// A report as it was kept.
    #[must_use]
    pub fn of(
        cached: Option<Vec<NodeId>>,
        nodes: IndexMap<NodeId, NodeReport>,
        shown: IndexMap<NodeId, Value>,
        stopped_at: Option<NodeId>,
        failed_inputs: Map<String, Value>,
    ) -> Self {
        let shown_bytes = shown.values().map(size_of).sum();
        Self {
            cached,
            nodes,
            shown,
            stopped_at,
            failed_inputs,
            shown_bytes,
        }
    }

    /// Takes an event of the run into account.
    pub fn record(&mut self, event: &NodeEvent) {
        match event {
            NodeEvent::Cached(nodes) => self.cached = Some(nodes.clone()),
            NodeEvent::Started { node, class } => {
                self.node(node).class = Some(class.clone());
            }
            NodeEvent::Step { node, step, steps } => {
                self.node(node).steps = Some((*step, *steps));
            }
            NodeEvent::Executed { node, ui } => {
                let bytes = size_of(ui);
                if self.shown_bytes + bytes <= SHOWN_BYTES {
                    self.shown_bytes += bytes;
                    self.shown.insert(node.clone(), ui.clone());
                }
            }
            NodeEvent::Failed { inputs, .. } => self.failed_inputs = inputs.clone(),
            NodeEvent::Finished { node } => self.node(node).finished = true,
        }
    }

    /// The same for what happened at a known time: when nodes began and ended is kept too.
    pub fn record_at(&mut self, event: &NodeEvent, at: Timestamp) {
        self.record(event);
        match event {
            NodeEvent::Started { node, .. } => self.node(node).started_at = Some(at),
            NodeEvent::Finished { node } => self.node(node).ended_at = Some(at),
            NodeEvent::Cached(_)
            | NodeEvent::Step { .. }
            | NodeEvent::Executed { .. }
            | NodeEvent::Failed { .. } => {}
        }
    }

    /// The node at work: the last one that began and is not done.
    #[must_use]
    pub fn current(&self) -> Option<(&NodeId, &NodeReport)> {
        let mut begun = self.nodes.iter().rev();
        begun.find(|(_, node)| !node.finished)
    }

    /// About how many bytes it takes as JSON.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let inputs = self.failed_inputs.iter();
        let inputs: usize = inputs
            .map(|(name, value)| name.len() + size_of(value))
            .sum();
        let ids = self.cached.iter().flatten().chain(self.nodes.keys());
        let ids: usize = ids.map(|id| id.as_str().len() + 3).sum();
        self.shown_bytes + inputs + ids + NODE_BYTES * self.nodes.len()
    }

    /// The nodes that this run finished, cached ones left out.
    pub fn executed(&self) -> impl Iterator<Item = &NodeId> {
        let worked = |node: &NodeReport| node.finished && node.class.is_some();
        self.nodes
            .iter()
            .filter(move |(_, node)| worked(node))
            .map(|(id, _)| id)
    }

    fn node(&mut self, id: &NodeId) -> &mut NodeReport {
        self.nodes.entry(id.clone()).or_insert(NodeReport {
            class: None,
            steps: None,
            finished: false,
            started_at: None,
            ended_at: None,
        })
    }
}

/// About how many bytes a value takes as JSON. The engine that made it bounds its depth.
pub(crate) fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(size_of).sum::<usize>(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| key.len() + 4 + size_of(value))
            .sum::<usize>(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn started(node: &str) -> NodeEvent {
        NodeEvent::Started {
            node: node.into(),
            class: "X".to_owned(),
        }
    }

    fn finished(node: &str) -> NodeEvent {
        NodeEvent::Finished { node: node.into() }
    }

    #[test]
    fn a_report_says_who_ran_and_who_was_known() {
        let mut report = RunReport::default();
        report.record(&NodeEvent::Cached(vec!["1".into(), "4".into()]));
        for event in [started("2"), finished("2"), finished("4"), started("3")] {
            report.record(&event);
        }
        let executed: Vec<&str> = report.executed().map(NodeId::as_str).collect();
        assert_eq!(
            executed,
            ["2"],
            "a cached output is done without having run"
        );
        let (current, _) = report.current().expect("a node is at work");
        assert_eq!(current.as_str(), "3");
        report.record(&finished("3"));
        assert_eq!(report.current(), None);
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let mut report = RunReport::default();
        let text = "x".repeat(SHOWN_BYTES / 2);
        for node in ["1", "2", "3"] {
            report.record(&NodeEvent::Executed {
                node: node.into(),
                ui: json!({"text": [text]}),
            });
        }
        assert_eq!(report.shown.len(), 1);
    }
}
