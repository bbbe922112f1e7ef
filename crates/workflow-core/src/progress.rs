//! How far a job is: a snapshot that never goes back.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::{NodeId, Plan};

/// One complete snapshot: it fully re-syncs a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Overall fraction, 0 to 1, every node weighing the same and its steps dividing it.
    pub value: f64,
    /// Nodes that need no more work, cached and skipped ones included.
    pub nodes_done: u32,
    /// Nodes of the plan.
    pub nodes_total: u32,
    /// The node at work.
    pub current_node: Option<NodeId>,
    /// Its class.
    pub current_node_class: Option<String>,
    /// Steps that it has done.
    pub step: Option<u32>,
    /// Steps that it will do.
    pub steps: Option<u32>,
    /// A line for people.
    pub message: Option<String>,
}

/// What an engine tells of the nodes of a run. Node ids are those of the submission.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeEvent {
    /// These nodes need no work: their results are known. Told once, before any other event of the run.
    Cached(Vec<NodeId>),
    /// The node begins.
    Started {
        /// The node.
        node: NodeId,
        /// Its class.
        class: String,
    },
    /// The node did `step` of `steps`.
    Step {
        /// The node.
        node: NodeId,
        /// Steps done.
        step: u32,
        /// Steps in all.
        steps: u32,
    },
    /// The node has something to show: what clients of the older API get as `executed`, as JSON.
    Executed {
        /// The node.
        node: NodeId,
        /// `{"images": [...]}`, `{"text": [...]}` and the like.
        ui: Value,
    },
    /// The node failed, and its run ends with it.
    Failed {
        /// The node.
        node: NodeId,
        /// What it got: a list of values by input. Numbers, texts and booleans are as they are, other values are told by a
        /// text. The engine bounds it.
        inputs: Map<String, Value>,
    },
    /// The node needs no more work.
    Finished {
        /// The node.
        node: NodeId,
    },
}

/// Turns node events into snapshots.
#[derive(Clone, Debug)]
pub struct ProgressTracker {
    fractions: HashMap<NodeId, f64>,
    latest: Progress,
}

impl Progress {
    /// Nothing done yet.
    #[must_use]
    pub fn start(nodes_total: u32) -> Self {
        Self {
            value: 0.0,
            nodes_done: 0,
            nodes_total,
            current_node: None,
            current_node_class: None,
            step: None,
            steps: None,
            message: None,
        }
    }

    /// Everything done: what a job that succeeded shows.
    #[must_use]
    pub fn complete(nodes_total: u32) -> Self {
        Self {
            value: 1.0,
            nodes_done: nodes_total,
            ..Self::start(nodes_total)
        }
    }
}

impl ProgressTracker {
    /// Follows a run of `plan`, never below what `before` showed (a job that runs again).
    #[must_use]
    pub fn new(plan: &Plan, before: Option<&Progress>) -> Self {
        let fractions = plan.order.iter().map(|node| (node.clone(), 0.0)).collect();
        let mut latest = Progress::start(plan.nodes_total());
        if let Some(before) = before {
            latest.value = before.value;
            latest.nodes_done = before.nodes_done;
        }
        Self { fractions, latest }
    }

    /// The latest snapshot.
    #[must_use]
    pub fn latest(&self) -> &Progress {
        &self.latest
    }

    /// Takes an event into account; answers whether the snapshot changed. Events of nodes outside the plan (expanded ones)
    /// count inside nobody and are passed over.
    pub fn record(&mut self, event: &NodeEvent) -> bool {
        match event {
            NodeEvent::Cached(nodes) => {
                for node in nodes {
                    self.raise(node, 1.0);
                }
            }
            NodeEvent::Started { node, class } => {
                self.latest.current_node = Some(node.clone());
                self.latest.current_node_class = Some(class.clone());
                self.latest.step = None;
                self.latest.steps = None;
                self.latest.message = Some(class.clone());
            }
            NodeEvent::Step { node, step, steps } => {
                self.raise(node, f64::from(*step) / f64::from((*steps).max(1)));
                if self.latest.current_node.as_ref() == Some(node) {
                    self.latest.step = Some(*step);
                    self.latest.steps = Some(*steps);
                    let class = self
                        .latest
                        .current_node_class
                        .as_deref()
                        .unwrap_or(node.as_str());
                    self.latest.message = Some(format!("{class} {step}/{steps}"));
                }
            }
            NodeEvent::Executed { .. } | NodeEvent::Failed { .. } => return false,
            NodeEvent::Finished { node } => self.raise(node, 1.0),
        }
        self.sum_up();
        true
    }

    fn raise(&mut self, node: &NodeId, fraction: f64) {
        if let Some(known) = self.fractions.get_mut(node) {
            *known = known.max(fraction.clamp(0.0, 1.0));
        }
    }

    fn sum_up(&mut self) {
        let done = self
            .fractions
            .values()
            .filter(|fraction| **fraction >= 1.0)
            .count();
        let value = self.fractions.values().sum::<f64>() / self.fractions.len().max(1) as f64;
        self.latest.nodes_done = self
            .latest
            .nodes_done
            .max(u32::try_from(done).unwrap_or(u32::MAX));
        self.latest.value = self.latest.value.max(value.min(1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracker(before: Option<&Progress>) -> ProgressTracker {
        let plan = Plan {
            order: ["1", "2", "3", "4"].map(NodeId::from).to_vec(),
        };
        ProgressTracker::new(&plan, before)
    }

    fn started(node: &str) -> NodeEvent {
        NodeEvent::Started {
            node: node.into(),
            class: "ImageBlur".to_owned(),
        }
    }

    #[test]
    fn nodes_and_their_steps_add_up() {
        let mut tracker = tracker(None);
        tracker.record(&NodeEvent::Cached(vec!["1".into()]));
        tracker.record(&started("2"));
        tracker.record(&NodeEvent::Step {
            node: "2".into(),
            step: 1,
            steps: 2,
        });
        let latest = tracker.latest();
        assert_eq!(
            (latest.value, latest.nodes_done, latest.nodes_total),
            (0.375, 1, 4)
        );
        assert_eq!(latest.message.as_deref(), Some("ImageBlur 1/2"));
        for node in ["2", "3", "4"] {
            tracker.record(&NodeEvent::Finished { node: node.into() });
        }
        assert_eq!(
            (tracker.latest().value, tracker.latest().nodes_done),
            (1.0, 4)
        );
    }

    #[test]
    fn a_job_that_runs_again_never_shows_less() {
        let before = Progress {
            value: 0.6,
            nodes_done: 2,
            ..Progress::start(4)
        };
        let mut tracker = tracker(Some(&before));
        tracker.record(&NodeEvent::Cached(vec![]));
        tracker.record(&NodeEvent::Finished { node: "1".into() });
        assert_eq!(
            (tracker.latest().value, tracker.latest().nodes_done),
            (0.6, 2)
        );
    }

    #[test]
    fn foreign_nodes_and_wild_steps_change_nothing() {
        let mut tracker = tracker(None);
        tracker.record(&NodeEvent::Finished { node: "99".into() });
        tracker.record(&NodeEvent::Step {
            node: "1".into(),
            step: 9,
            steps: 0,
        });
        assert_eq!(
            (tracker.latest().value, tracker.latest().nodes_done),
            (0.25, 1)
        );
    }
}
