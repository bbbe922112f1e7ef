//! One node's turn on a thread: its inputs mapped over, its panics caught.
//!
//! List mapping and blockers follow the execution contract, 2.3 and 2.4: a node is called once per index of its longest list,
//! shorter ones repeat their last item, and a call that would get a blocker is skipped and gives blockers.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use workflow_core::{NodeDefinition, NodeId};

use crate::node::{Argument, Awaited};
use crate::{Expansion, Inputs, Node, NodeContext, NodeError, NodeOutput, Slot, Value, Wait};

/// A node with all it needs to run.
pub(super) struct Call {
    pub(super) class: Arc<dyn Node>,
    pub(super) definition: Arc<NodeDefinition>,
    pub(super) context: NodeContext,
    /// Lists by input; `None` where nothing is, or not yet.
    pub(super) arguments: Vec<Option<Vec<Value>>>,
    /// Lazy inputs whose links were not followed yet.
    pub(super) unresolved: Vec<usize>,
    /// What its calls gave so far.
    pub(super) made: Made,
}

/// A node between two halves of a call: it has asked, and the answer is not there.
pub(super) struct Asking {
    call: Call,
    inputs: Inputs,
    /// How many calls there are in all.
    calls: usize,
}

/// How a node's turn ended.
pub(super) enum Outcome {
    /// It has its result.
    Done(Made),
    /// It needs these inputs first.
    Needs(Vec<usize>),
    /// It goes on when an answer has come.
    Waits(Box<Asking>, Wait),
    /// It failed.
    Failed(NodeError),
    /// It panicked.
    Panicked,
}

/// What the calls of a node gave, one after the other.
#[derive(Default)]
pub(super) struct Made {
    pub(super) parts: Vec<Part>,
    pub(super) ui: Map<String, Json>,
    /// Messages of blockers that were met here first.
    pub(super) blocked: Vec<Arc<str>>,
}

/// What one call gave.
pub(super) enum Part {
    Given(Vec<Slot>, Option<Expansion>),
    Blocked,
}

impl Call {
    /// Runs the node.
    pub(super) fn run(self) -> Outcome {
        let (class, node) = self.name();
        guarded(&class, &node, || self.run_unguarded())
    }

    fn name(&self) -> (String, NodeId) {
        let node = self.context.node().clone();
        (self.definition.class.clone(), node)
    }

    fn run_unguarded(self) -> Outcome {
        if let Err(error) = self.context.check() {
            return Outcome::Failed(error);
        }
        if !self.unresolved.is_empty() {
            match self.needed() {
                Ok(needed) if needed.is_empty() => {}
                Ok(needed) => return Outcome::Needs(needed),
                Err(error) => return Outcome::Failed(error),
            }
        }
        match self.calls() {
            Ok(calls) => self.go_on(calls),
            Err(error) => Outcome::Failed(error),
        }
    }

    /// Makes the calls that are left.
    fn go_on(mut self, calls: usize) -> Outcome {
        for index in self.made.parts.len()..calls {
            if let Some(message) = self.blocker(index) {
                self.made.blocked.extend(message);
                self.made.parts.push(Part::Blocked);
                continue;
            }
            let arguments = self.take(index, index + 1 == calls);
            let mut inputs = Inputs::from_arguments(
                self.context.node().clone(),
                Arc::clone(&self.definition),
                arguments,
            );
            let checked = self.context.check();
            let asked = checked.and_then(|()| self.class.ask(&mut inputs, &self.context));
            let given = match asked {
                Ok(Some(wait)) => {
                    let asking = Asking {
                        call: self,
                        inputs,
                        calls,
                    };
                    return Outcome::Waits(Box::new(asking), wait);
                }
                Ok(None) => self.call(inputs),
                Err(error) => Err(error),
            };
            if let Err(error) = given {
                return Outcome::Failed(error);
            }
        }
        Outcome::Done(self.made)
    }

    /// Makes one call and keeps what it gives.
    fn call(&mut self, inputs: Inputs) -> Result<(), NodeError> {
        let given = self.class.run(inputs, &self.context)?;
        let given = self.complete(given)?;
        merge_ui(&mut self.made.ui, given.ui);
        let part = Part::Given(given.slots, given.expansion);
        self.made.parts.push(part);
        Ok(())
    }

    /// How often the node is to be called.
    fn calls(&self) -> Result<usize, NodeError> {
        if self.definition.takes_lists {
            return Ok(1);
        }
        let lengths = || self.arguments.iter().flatten().map(Vec::len);
        let longest = lengths().max().unwrap_or(1);
        if lengths().any(|length| length == 0) {
            let empty = self
                .arguments
                .iter()
                .position(|values| values.as_ref().is_some_and(Vec::is_empty));
            let name = empty.map_or("", |at| &self.definition.inputs[at].name);
            return Err(NodeError::new(
                "IndexError",
                format!("input {name:?} got an empty list; give it at least one item"),
            ));
        }
        Ok(longest)
    }

    /// Names of lazy inputs that the node asks for, over all its calls; those that are there already are left out.
    fn needed(&self) -> Result<Vec<usize>, NodeError> {
        let mut needed = Vec::new();
        for index in 0..self.calls()? {
            let arguments = self.lend(index);
            let inputs = Inputs::from_arguments(
                self.context.node().clone(),
                Arc::clone(&self.definition),
                arguments,
            )
            .with_pending(&self.unresolved);
            for name in self.class.lazy_inputs(&inputs)? {
                let at = self
                    .definition
                    .inputs
                    .iter()
                    .position(|input| input.name == name);
                match at {
                    Some(at) if self.unresolved.contains(&at) => needed.push(at),
                    Some(at) if self.arguments[at].is_some() => {}
                    Some(_) | None => {
                        let message =
                            format!("the node asked for its input {name:?}, which is not linked");
                        return Err(NodeError::new("Exception", message));
                    }
                }
            }
        }
        needed.sort_unstable();
        needed.dedup();
        Ok(needed)
    }

    /// The first blocker among the inputs of a call, and its message.
    fn blocker(&self, index: usize) -> Option<Option<Arc<str>>> {
        let all = self.definition.takes_lists;
        let mut values = self
            .arguments
            .iter()
            .flatten()
            .flat_map(|values| match all {
                true => &values[..],
                false => values
                    .get(index)
                    .or(values.last())
                    .map_or(&[][..], std::slice::from_ref),
            });
        values.find_map(|value| match value {
            Value::Blocker(message) => Some(message.clone()),
            Value::Image(_)
            | Value::Mask(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::Boolean(_)
            | Value::Json(_)
            | Value::File(_)
            | Value::Opaque(_) => None,
        })
    }

    /// The arguments of a call, shared with later ones.
    fn lend(&self, index: usize) -> Vec<Option<Argument>> {
        let all = self.definition.takes_lists;
        let lend = |values: &Vec<Value>| match all {
            true => Argument::All(values.clone()),
            false => Argument::One(values[index.min(values.len() - 1)].clone()),
        };
        self.arguments
            .iter()
            .map(|values| values.as_ref().map(lend))
            .collect()
    }

    /// The arguments of a call, taken out where no later call needs them, so that it may work in place.
    fn take(&mut self, index: usize, last: bool) -> Vec<Option<Argument>> {
        let all = self.definition.takes_lists;
        let take = |values: &mut Vec<Value>| {
            if all {
                return Argument::All(std::mem::take(values));
            }
            let at = index.min(values.len() - 1);
            let is_repeated = at == values.len() - 1 && !last;
            match is_repeated {
                true => Argument::One(values[at].clone()),
                false => Argument::One(std::mem::replace(&mut values[at], Value::Boolean(false))),
            }
        };
        self.arguments
            .iter_mut()
            .map(|values| values.as_mut().map(take))
            .collect()
    }

    /// What a call gave, if it is all that its class promises.
    fn complete(&self, given: NodeOutput) -> Result<NodeOutput, NodeError> {
        let (wanted, found) = (self.definition.outputs.len(), given.slots.len());
        if wanted != found {
            let message = format!("the node gave {found} outputs, and its class has {wanted}");
            return Err(NodeError::new("RuntimeError", message));
        }
        Ok(given)
    }
}

impl Asking {
    /// Goes on with the answer.
    pub(super) fn answered(self, awaited: Awaited) -> Outcome {
        let Self {
            mut call,
            mut inputs,
            calls,
        } = self;
        let (class, node) = call.name();
        guarded(&class, &node, || {
            inputs.answer(awaited);
            let checked = call.context.check();
            match checked.and_then(|()| call.call(inputs)) {
                Ok(()) => call.go_on(calls),
                Err(error) => Outcome::Failed(error),
            }
        })
    }
}

/// Contains the panics of a node.
fn guarded(class: &str, node: &NodeId, run: impl FnOnce() -> Outcome) -> Outcome {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        // The text may hold anything, so it goes to the operator's log and not to the job.
        tracing::error!(node.id = %node, node.class = class, panic = panic_text(&*panic), "a node panicked");
        Outcome::Panicked
    })
}

/// Joins what calls gave into one list per slot. `expanded` answers what a slot of an expansion's node gave.
pub(super) fn merge(
    definition: &NodeDefinition,
    parts: Vec<Part>,
    mut expanded: impl FnMut(usize, &str, usize) -> Vec<Value>,
) -> Vec<Vec<Value>> {
    let mut slots = vec![Vec::with_capacity(parts.len()); definition.outputs.len()];
    for (index, part) in parts.into_iter().enumerate() {
        let given = match part {
            Part::Given(given, _) => given,
            Part::Blocked => {
                slots
                    .iter_mut()
                    .for_each(|slot| slot.push(Value::Blocker(None)));
                continue;
            }
        };
        for (slot, given) in slots.iter_mut().zip(given) {
            match given {
                Slot::One(value) => slot.push(value),
                Slot::List(values) => slot.extend(values),
                Slot::Expanded { node, slot: at } => slot.extend(expanded(index, &node, at)),
            }
        }
    }
    slots
}

/// Joins what is shown, list by list; the keys are those of the first call that showed anything.
pub(super) fn merge_ui(shown: &mut Map<String, Json>, more: Map<String, Json>) {
    if shown.is_empty() {
        *shown = more;
        return;
    }
    for (key, value) in more {
        if let (Some(Json::Array(items)), Json::Array(more)) = (shown.get_mut(&key), value) {
            items.extend(more);
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}
