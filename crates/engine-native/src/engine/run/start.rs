//! Starting calls: which node, with which values, and what happens without any call.

use std::sync::Arc;

use serde_json::Map;
use workflow_core::{RunError, Taken};

use super::{Calling, Run, Running};
use crate::Value;
use crate::engine::call::{Call, Made, Outcome};
use crate::engine::compile::Source;
use crate::engine::got::Got;
use crate::engine::host::{CallHost, Deliveries, Delivery};
use crate::engine::memory::{Parts, Reservation};
use crate::engine::threads;
use crate::node::NodeContext;

/// What can be done now.
pub(super) enum Next {
    /// This node can be called.
    Call(usize),
    /// A node was settled without a call.
    Settled,
    /// Nothing before a call or a delivery ends.
    Wait,
}

impl Run {
    /// Looks for a node to call, and settles one that needs no call.
    pub(super) fn next(&mut self) -> Result<Next, RunError> {
        // Results that nobody reads yet take memory that the node in turn may need.
        let has_room = self.shared.budget.free() >= self.shared.budget.limit() / 2;
        let ahead = !self.failing && has_room && !self.is_trying_again();
        let Some(node) = self.machine.startable(ahead) else {
            return Ok(Next::Wait);
        };
        if let Some(expanding) = self.nodes[node].expanding.take() {
            self.machine.start(node);
            let slots = self.resolve(node, expanding);
            self.give(node, slots, Map::new())?;
            return Ok(Next::Settled);
        }
        if let Some(twin) = self.nodes[node].twin {
            self.machine.start(node);
            self.follow(node, twin)?;
            return Ok(Next::Settled);
        }
        if self.lacks_files(node) {
            return Ok(self.fetch(node));
        }
        let Running {
            alone, root, step, ..
        } = &self.nodes[node];
        let is_inner_output = root.is_some() && step.definition.output_node;
        match (*alone || is_inner_output) && !self.is_alone() {
            true => Ok(Next::Wait),
            false => Ok(Next::Call(node)),
        }
    }

    /// Whether no call is under way, those that wait for an answer included.
    fn is_alone(&self) -> bool {
        self.running == 0 && self.waiting.is_empty() && self.answers.is_empty()
    }

    /// Whether a node makes its second attempt, which nothing may disturb: it has no third.
    fn is_trying_again(&self) -> bool {
        let running = self.machine.running_in_turn();
        running.is_some_and(|node| self.nodes[node].alone)
    }

    /// Calls a node on the engine's threads.
    pub(super) fn start(&mut self, node: usize, permit: Taken) {
        // A call beside others may have to be made again when memory runs short, so it must leave its arguments where they are.
        let stays_alone = self.nodes[node].alone || !self.machine.is_other_ready(node);
        let takes = stays_alone && self.is_alone() && self.machine.turn() == Some(node);
        let (arguments, unresolved) = self.gather(node, takes);
        let takes = takes && unresolved.is_empty();
        self.nodes[node].got = Some(Got::of(&arguments));
        let root = self.nodes[node].root.unwrap_or(node);
        let reservation = Arc::new(Reservation::new(Arc::clone(&self.shared.budget)));
        let calling = Calling {
            parts: self.alive(&arguments),
            takes,
            committed: self.nodes[root].committed,
            _reservation: Arc::clone(&reservation),
        };
        self.nodes[node].call = Some(calling);
        if takes {
            self.release(node);
        }
        let step = &self.nodes[node].step;
        let is_output = step.definition.output_node;
        let host = CallHost {
            shared: Arc::clone(&self.shared),
            root,
            node: self.nodes[root].step.id.clone(),
            is_inner: root != node,
            deliveries: is_output.then(|| Deliveries {
                node,
                sender: self.delivers.clone(),
                has_room: self.has_room.clone(),
            }),
            reservation,
        };
        let call = Call {
            class: Arc::clone(&step.class),
            definition: Arc::clone(&step.definition),
            context: NodeContext::new(
                self.nodes[root].step.id.clone(),
                Arc::clone(&self.values),
                Box::new(host),
            )
            .with_lists(self.inputs_from_lists(node)),
            arguments,
            unresolved,
            made: Made::default(),
        };
        self.machine.start(node);
        self.spawn(node, permit, || call.run());
    }

    /// Inputs of a class that takes lists that are linked to outputs of lists.
    fn inputs_from_lists(&self, node: usize) -> Vec<String> {
        let step = &self.nodes[node].step;
        if !step.definition.takes_lists {
            return Vec::new();
        }
        let inputs = step.definition.inputs.iter().zip(&step.sources);
        let lists = inputs.filter(|(_, source)| {
            let output = source.link().and_then(|(source, slot)| {
                let outputs = &self.nodes[source].step.definition.outputs;
                outputs.get(slot)
            });
            output.is_some_and(|output| output.is_list)
        });
        lists.map(|(input, _)| input.name.clone()).collect()
    }

    /// Has a node's turn made on one of the engine's threads.
    pub(super) fn spawn(
        &mut self,
        node: usize,
        permit: Taken,
        turn: impl FnOnce() -> Outcome + Send + 'static,
    ) {
        let is_output = self.nodes[node].step.definition.output_node;
        let finishes = self.finishes.clone();
        let delivers = self.delivers.clone();
        self.running += 1;
        let step = &self.nodes[node].step;
        let (id, class) = (step.id.clone(), step.definition.class.clone());
        let call = threads::Call::new(self.ticket.job, id, class, permit);
        self.calls.retain(|call| call.strong_count() > 0);
        self.calls.push(Arc::downgrade(&call));
        self.engine.threads.call(call, turn, move |outcome| {
            // If nobody listens any more, the run is over. What an output node made must arrive before it is done.
            if is_output {
                let _ = delivers.send((node, Delivery::Over(outcome)));
            } else {
                let _ = finishes.send((node, outcome));
            }
        });
    }

    /// Gives a node what its twin came to.
    fn follow(&mut self, node: usize, twin: usize) -> Result<(), RunError> {
        let ui = self.nodes[twin].ui.clone();
        if self.nodes[node].step.definition.output_node {
            self.deliver_twin(node, twin);
            return Ok(());
        }
        let slots = (0..self.nodes[twin].slots.len())
            .map(|slot| self.read(twin, slot, false))
            .collect();
        self.release(node);
        self.give(node, slots, ui)
    }

    /// The values for a call, and the lazy inputs that it was not given.
    pub(super) fn gather(
        &mut self,
        node: usize,
        takes: bool,
    ) -> (Vec<Option<Vec<Value>>>, Vec<usize>) {
        let sources = self.nodes[node].step.sources.clone();
        let mut unresolved = Vec::new();
        for (input, source) in sources.iter().enumerate() {
            if source.is_lazy() && !self.nodes[node].resolved.contains(&input) {
                unresolved.push(input);
            }
        }
        let takes = takes && unresolved.is_empty();
        let arguments = sources
            .iter()
            .enumerate()
            .map(|(input, source)| match source {
                Source::Absent => None,
                Source::Constant(value) => Some(vec![value.clone()]),
                Source::Address(_) => self.fetched_file(node, input),
                Source::Link { .. } if unresolved.contains(&input) => None,
                Source::Link { node, slot, .. } => Some(self.read(*node, *slot, takes)),
            });
        (arguments.collect(), unresolved)
    }

    /// The values of a slot: taken if they may be and this is the last to read them, otherwise shared.
    pub(super) fn read(&mut self, node: usize, slot: usize, takes: bool) -> Vec<Value> {
        if let Some(known) = &self.nodes[node].step.known {
            return known.slots.get(slot).cloned().unwrap_or_default();
        }
        let Some(held) = self.nodes[node].slots.get_mut(slot) else {
            return Vec::new();
        };
        let values = match takes && held.uses == 1 {
            true => held.values.take(),
            false => held.values.clone(),
        };
        values.unwrap_or_default()
    }

    /// Counts the arguments of a call as alive.
    fn alive(&mut self, arguments: &[Option<Vec<Value>>]) -> Parts {
        let parts = Parts::of(arguments.iter().flatten().flatten());
        self.ledger.add(&parts);
        self.shared.budget.set_alive(self.ledger.bytes());
        parts
    }

    /// Counts the inputs that a node reads.
    pub(super) fn count_uses(&mut self, node: usize) {
        for (source, slot) in self.reads(node) {
            if let Some(held) = self.nodes[source].slots.get_mut(slot) {
                held.uses += 1;
            }
        }
    }

    /// The node reads its inputs no more; what nobody else reads is dropped.
    pub(super) fn release(&mut self, node: usize) {
        for (source, slot) in self.reads(node) {
            self.unuse(source, slot);
        }
    }

    pub(super) fn unuse(&mut self, node: usize, slot: usize) {
        let Some(held) = self.nodes[node].slots.get_mut(slot) else {
            return;
        };
        held.uses = held.uses.saturating_sub(1);
        if held.uses == 0 {
            held.values = None;
            let parts = std::mem::take(&mut held.parts);
            self.ledger.remove(&parts);
            self.shared.budget.set_alive(self.ledger.bytes());
        }
    }

    fn reads(&self, node: usize) -> Vec<(usize, usize)> {
        let Running { step, twin, .. } = &self.nodes[node];
        match twin.filter(|_| !step.definition.output_node) {
            Some(twin) => (0..self.nodes[twin].slots.len())
                .map(|slot| (twin, slot))
                .collect(),
            None => step.sources.iter().filter_map(Source::link).collect(),
        }
    }
}
