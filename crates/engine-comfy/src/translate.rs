//! Turns what a worker says of a prompt into what a run tells: one table, without a clock or a socket.
//!
//! A worker says some things twice and some never, by version: everything is told once, in an order that every client of ours
//! knows. Nodes that an expansion made count inside the node that they came of.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde_json::{Map, Value};
use workflow_core::{NodeEvent, NodeId, Preview};

use crate::frames::{NodeRef, NodeState, Said};

/// The class whose pictures are results and no previews.
const HANDS_PICTURES_OVER: &str = "SaveImageWebsocket";

/// What a run is to tell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum News {
    /// A node got on.
    Node(NodeEvent),
    /// A node shows something; its files are committed before this is passed on.
    Shown(NodeId, Value),
    /// Something to look at.
    Preview(Preview),
    /// A finished picture that is kept nowhere.
    Frame(NodeId, Bytes),
    /// A line.
    Line(NodeId, String),
    /// It may be over.
    MayBeOver,
}

/// What was told of one run so far.
#[derive(Debug)]
pub(crate) struct Translator {
    classes: HashMap<NodeId, String>,
    told_cached: bool,
    begun: HashSet<NodeId>,
    finished: HashSet<NodeId>,
    steps: HashMap<NodeId, (u32, u32)>,
    current: Option<NodeId>,
}

impl Translator {
    /// Translates a run of this prompt in API format.
    pub(crate) fn new(prompt: &Map<String, Value>) -> Self {
        let classes = prompt.iter().map(|(id, node)| {
            let class = node.get("class_type").and_then(Value::as_str);
            (
                NodeId::from(id.as_str()),
                class.unwrap_or_default().to_owned(),
            )
        });
        Self {
            classes: classes.collect(),
            told_cached: false,
            begun: HashSet::new(),
            finished: HashSet::new(),
            steps: HashMap::new(),
            current: None,
        }
    }

    /// The node of the graph that a message is about.
    pub(crate) fn root(&self, node: &NodeRef) -> Option<NodeId> {
        let before_dot = node.id.split('.').next().unwrap_or_default();
        [node.id.as_str(), node.shown.as_str(), before_dot]
            .into_iter()
            .find_map(|id| self.classes.get_key_value(id))
            .map(|(id, _)| id.clone())
    }

    /// The class of a node of the graph.
    pub(crate) fn class(&self, node: &NodeId) -> &str {
        self.classes.get(node).map_or("", String::as_str)
    }

    /// The node at work, as far as was heard.
    pub(crate) fn current(&self) -> Option<&NodeId> {
        self.current.as_ref()
    }

    /// What is to be told after this was heard.
    pub(crate) fn hear(&mut self, said: Said) -> Vec<News> {
        let mut news = Vec::new();
        match said {
            Said::Began => {}
            Said::Cached(nodes) => {
                let nodes = nodes.iter().map(|node| NodeId::from(node.as_str()));
                let known = nodes.filter(|node| self.classes.contains_key(node));
                self.cached(known.collect(), &mut news);
            }
            Said::Executing(node) => {
                if let Some(root) = self.root(&node) {
                    self.begin(&root, &mut news);
                    self.current = Some(root);
                }
            }
            Said::States(states) => {
                for state in states {
                    self.state(&state, &mut news);
                }
            }
            Said::Step(node, value, max) => {
                if let Some(root) = self.root(&node) {
                    self.step(&root, value, max, &mut news);
                }
            }
            Said::Executed(node, ui) => {
                let root = self.root(&node).filter(|_| !ui.is_null());
                if let Some(root) = root {
                    self.cached(Vec::new(), &mut news);
                    news.push(News::Shown(root, ui));
                }
            }
            Said::Picture(node, content_type, bytes) => {
                let root = match node {
                    Some(node) => self.root(&node),
                    None => self.current.clone(),
                };
                if let Some(node_id) = root {
                    self.cached(Vec::new(), &mut news);
                    let is_result =
                        self.class(&node_id) == HANDS_PICTURES_OVER && content_type == "image/png";
                    news.push(match is_result {
                        true => News::Frame(node_id, bytes),
                        false => News::Preview(Preview {
                            node_id,
                            content_type,
                            bytes,
                        }),
                    });
                }
            }
            Said::Line(node, line) => {
                let node = NodeRef {
                    shown: node.clone(),
                    id: node,
                };
                if let Some(root) = self.root(&node) {
                    news.push(News::Line(root, line));
                }
            }
            Said::Ended => news.push(News::MayBeOver),
        }
        news
    }

    /// What is to be told at the end of a run that succeeded: whatever was not heard.
    pub(crate) fn complete(&mut self, order: &[NodeId]) -> Vec<News> {
        let mut news = Vec::new();
        self.cached(Vec::new(), &mut news);
        for node in order {
            self.finish(node, &mut news);
        }
        news
    }

    /// Tells once which nodes need no work, before anything else.
    fn cached(&mut self, nodes: Vec<NodeId>, news: &mut Vec<News>) {
        if !std::mem::replace(&mut self.told_cached, true) {
            news.push(News::Node(NodeEvent::Cached(nodes)));
        }
    }

    fn begin(&mut self, node: &NodeId, news: &mut Vec<News>) {
        self.cached(Vec::new(), news);
        if !self.finished.contains(node) && self.begun.insert(node.clone()) {
            news.push(News::Node(NodeEvent::Started {
                node: node.clone(),
                class: self.class(node).to_owned(),
            }));
        }
    }

    fn state(&mut self, state: &NodeState, news: &mut Vec<News>) {
        let id = NodeId::from(state.node.id.as_str());
        // What an expansion made begins and ends within its parent.
        let Some((id, _)) = self.classes.get_key_value(&id) else {
            return;
        };
        let id = id.clone();
        if state.is_running {
            self.begin(&id, news);
            self.current = Some(id.clone());
            // 0 of 1 is how a node without steps begins.
            if state.max != 1.0 || state.value != 0.0 {
                self.step(&id, state.value, state.max, news);
            }
        }
        if state.is_finished {
            self.cached(Vec::new(), news);
            self.finish(&id, news);
        }
    }

    fn step(&mut self, node: &NodeId, value: f64, max: f64, news: &mut Vec<News>) {
        let whole = |number: f64| number.clamp(0.0, f64::from(u32::MAX)) as u32;
        let step = (whole(value), whole(max));
        if self.finished.contains(node) || self.steps.insert(node.clone(), step) == Some(step) {
            return;
        }
        self.begin(node, news);
        news.push(News::Node(NodeEvent::Step {
            node: node.clone(),
            step: step.0,
            steps: step.1,
        }));
    }

    fn finish(&mut self, node: &NodeId, news: &mut Vec<News>) {
        if self.finished.insert(node.clone()) {
            news.push(News::Node(NodeEvent::Finished { node: node.clone() }));
        }
    }
}

#[cfg(test)]
mod tests;
