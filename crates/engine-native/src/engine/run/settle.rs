//! What becomes of a call's outcome: values stored and kept for later runs, needs followed, failures noted.

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use workflow_core::RunError;

use super::{Calling, Held, Run};
use crate::engine::announce::Report;
use crate::engine::cache::Entry;
use crate::engine::call::{Made, Outcome, Part, merge, merge_ui};
use crate::engine::compile::Source;
use crate::engine::memory::{Ledger, Parts};
use crate::{NodeError, Value};

impl Run {
    /// Takes a call's outcome in.
    ///
    /// # Errors
    /// If the run ends with it at once; most failures wait for their turn.
    pub(super) fn settle(&mut self, node: usize, outcome: Outcome) -> Result<(), RunError> {
        self.running -= 1;
        if let Outcome::Waits(asking, wait) = outcome {
            self.wait(node, asking, wait);
            return Ok(());
        }
        let Some(calling) = self.nodes[node].call.take() else {
            return Ok(());
        };
        self.ledger.remove(&calling.parts);
        self.shared.budget.set_alive(self.ledger.bytes());
        match outcome {
            Outcome::Needs(inputs) => self.follow_lazy(node, &inputs),
            Outcome::Done(made) => self.done(node, &calling, made)?,
            Outcome::Failed(error) => self.failed(node, &calling, &error),
            // Only a call that is over gets here.
            Outcome::Panicked | Outcome::Waits(..) => {
                let message = "the node met an internal error; the server's log has the details";
                self.failed(node, &calling, &NodeError::new("PanicError", message));
            }
        }
        Ok(())
    }

    /// Stores a node's result and lets it be read.
    pub(super) fn give(
        &mut self,
        node: usize,
        slots: Vec<Vec<Value>>,
        ui: Map<String, Json>,
    ) -> Result<(), RunError> {
        self.nodes[node].fetched.clear();
        let limit = self.shared.budget.limit();
        let free = limit.saturating_sub(self.ledger.bytes());
        let parts: Vec<Parts> = slots.iter().map(Parts::of).collect();
        parts.iter().for_each(|parts| self.ledger.add(parts));
        let added = Ledger::total(&parts);
        let exceeds = self.ledger.bytes() > limit;
        if !exceeds {
            merge_ui(&mut self.nodes[node].ui, ui);
            self.keep(node, &slots);
        }
        for ((held, values), parts) in self.nodes[node].slots.iter_mut().zip(slots).zip(parts) {
            match held.uses {
                0 => self.ledger.remove(&parts),
                uses => {
                    *held = Held {
                        values: Some(values),
                        parts,
                        uses,
                    }
                }
            }
        }
        self.shared.budget.set_alive(self.ledger.bytes());
        if exceeds {
            let error = self.shared.budget.exceeded(added, free);
            self.fail(node, &error);
            return Ok(());
        }
        self.nodes[node].got = None;
        self.machine.finish(node);
        Ok(())
    }

    fn done(&mut self, node: usize, calling: &Calling, made: Made) -> Result<(), RunError> {
        let root = self.nodes[node].root.unwrap_or(node);
        for message in &made.blocked {
            let line = format!("Execution Blocked: {message}");
            let id = self.nodes[root].step.id.clone();
            self.shared.announcer.report(root, &id, Report::Text(line));
        }
        let expands = made
            .parts
            .iter()
            .any(|part| matches!(part, Part::Given(_, Some(_))));
        if expands {
            if !calling.takes {
                self.release(node);
            }
            merge_ui(&mut self.nodes[node].ui, made.ui);
            return self.expand(node, made.parts);
        }
        let definition = Arc::clone(&self.nodes[node].step.definition);
        let slots = merge(&definition, made.parts, |_, _, _| Vec::new());
        if self.may_try_again(node, calling) && self.exceeds(&slots) {
            self.try_again(node, calling);
            return Ok(());
        }
        if !calling.takes {
            self.release(node);
        }
        self.give(node, slots, made.ui)
    }

    /// Notes a failure until the node's turn; one that may come from the company it ran in is tried again alone.
    fn failed(&mut self, node: usize, calling: &Calling, error: &NodeError) {
        match error {
            // The node stays unfinished, and the run is about to stop.
            NodeError::Canceled if self.shared.cancel.is_cancelled() => {}
            NodeError::OutOfMemory { .. } if self.may_try_again(node, calling) => {
                self.try_again(node, calling);
            }
            NodeError::Canceled | NodeError::OutOfMemory { .. } | NodeError::Failed { .. } => {
                self.fail(node, error);
            }
        }
    }

    /// Whether a call that lacked memory may do better alone.
    fn may_try_again(&self, node: usize, calling: &Calling) -> bool {
        !calling.takes && !self.nodes[node].alone
    }

    /// Lets a node run again, alone and in its turn; what it committed stays committed under the same numbers.
    fn try_again(&mut self, node: usize, calling: &Calling) {
        let root = self.nodes[node].root.unwrap_or(node);
        self.nodes[root].committed = calling.committed;
        self.nodes[node].files.clear();
        self.nodes[node].alone = true;
        self.machine.again_in_turn(node);
    }

    /// Whether a result is too much beside what is alive; what it shares with that counts once.
    fn exceeds(&mut self, slots: &[Vec<Value>]) -> bool {
        let parts = Parts::of(slots.iter().flatten());
        self.ledger.add(&parts);
        let exceeds = self.ledger.bytes() > self.shared.budget.limit();
        self.ledger.remove(&parts);
        exceeds
    }

    fn follow_lazy(&mut self, node: usize, inputs: &[usize]) {
        self.nodes[node].resolved.extend(inputs);
        let sources = &self.nodes[node].step.sources;
        let links = inputs.iter().filter_map(|&input| sources[input].link());
        let links: Vec<usize> = links.map(|(source, _)| source).collect();
        self.machine.needs(node, &links);
    }

    /// Keeps a result for later runs.
    fn keep(&mut self, node: usize, slots: &[Vec<Value>]) {
        let sources = self.nodes[node]
            .step
            .sources
            .iter()
            .filter_map(Source::link);
        if sources
            .into_iter()
            .any(|(source, _)| self.nodes[source].once)
        {
            self.nodes[node].once = true;
        }
        let node = &self.nodes[node];
        let Some(key) = node
            .step
            .key
            .filter(|_| !node.once && node.root.is_none() && node.twin.is_none())
        else {
            return;
        };
        let entry = Entry {
            slots: slots.to_vec(),
            ui: node.ui.clone(),
            files: node.files.clone(),
        };
        self.engine.cache.insert(key, entry);
    }
}
