//! The way from the outputs to their sources: judges every node on it once.

use super::judge::{Definitions, Judged, judge};
use super::{Subject, ValidationError, cycles};

/// The nodes that outputs need, judged.
pub(super) struct Walk<'a> {
    judged: Vec<Option<Judged<'a>>>,
    /// Sources come before what reads them, except along a cycle.
    sources_first: Vec<usize>,
    in_cycle: Vec<bool>,
}

impl<'a> Walk<'a> {
    /// Walks depth first, outputs and inputs in order, over a stack of its own.
    pub(super) fn from_outputs(subject: Subject<'a>, outputs: &[usize]) -> Self {
        let total = subject.graph.nodes().len();
        let mut walk = Self {
            judged: std::iter::repeat_with(|| None).take(total).collect(),
            sources_first: Vec::new(),
            in_cycle: vec![false; total],
        };
        let mut definitions = Definitions::default();
        for output in outputs {
            let mut open = Vec::new();
            if walk.judged[*output].is_none() {
                walk.judged[*output] = Some(judge(subject, *output, None, &mut definitions));
                open.push((*output, 0));
            }
            while let Some((node, next)) = open.pop() {
                let sources = &walk.judged[node]
                    .as_ref()
                    .expect("open nodes are judged")
                    .sources;
                let Some(source) = sources.get(next).copied() else {
                    walk.sources_first.push(node);
                    continue;
                };
                open.push((node, next + 1));
                if walk.judged[source.node].is_none() {
                    // A node that is itself an output is blamed as one, whatever reads it.
                    let is_output = outputs.binary_search(&source.node).is_ok();
                    let read_by = (!is_output).then_some((node, source.input));
                    walk.judged[source.node] =
                        Some(judge(subject, source.node, read_by, &mut definitions));
                    open.push((source.node, 0));
                }
            }
        }
        walk.find_cycles(subject);
        walk
    }

    /// A node's judgement, if an output needs it.
    pub(super) fn judged(&self, index: usize) -> Option<&Judged<'a>> {
        self.judged[index].as_ref()
    }

    /// Hands a node's errors out, if an output needs the node.
    pub(super) fn take_errors(&mut self, index: usize) -> Option<Vec<ValidationError>> {
        let judged = self.judged[index].as_mut()?;
        Some(std::mem::take(&mut judged.errors))
    }

    /// What a node reads, in order.
    pub(super) fn sources(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        self.judged(index)
            .into_iter()
            .flat_map(|judged| judged.sources.iter().map(|source| source.node))
    }

    pub(super) fn sources_first(&self) -> &[usize] {
        &self.sources_first
    }

    /// By node: whether it cannot run, for an error of its own or of what it reads.
    pub(super) fn invalid(&self) -> Vec<bool> {
        let mut invalid = self.in_cycle.clone();
        for node in &self.sources_first {
            let has_errors = self
                .judged(*node)
                .is_some_and(|judged| !judged.errors.is_empty());
            invalid[*node] =
                invalid[*node] || has_errors || self.sources(*node).any(|source| invalid[source]);
        }
        invalid
    }

    /// By node: whether one of these nodes is it or needs it.
    pub(super) fn needed_by(&self, nodes: &[usize]) -> Vec<bool> {
        let mut needed = vec![false; self.judged.len()];
        let mut open = nodes.to_vec();
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut needed[node], true) {
                open.extend(self.sources(node).filter(|source| !needed[*source]));
            }
        }
        needed
    }

    fn find_cycles(&mut self, subject: Subject<'a>) {
        for (node, error) in cycles::errors(subject, self) {
            self.in_cycle[node] = true;
            if let Some(judged) = &mut self.judged[node] {
                judged.errors.insert(0, error);
            }
        }
    }
}
