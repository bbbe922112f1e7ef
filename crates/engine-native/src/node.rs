//! What a node class is to the engine: a definition and a synchronous function over values.
//!
//! The engine maps lists, skips blocked calls, caches results, orders announcements and contains panics; a node does none of
//! this. Its calls run on the engine's threads, several at once, so a node keeps no state between calls.

mod context;
mod error;
mod expansion;
mod file;
mod inputs;
mod output;
mod wait;

pub use context::NodeContext;
pub(crate) use context::{Host, RunValues};
pub use error::NodeError;
pub use expansion::{ExpandedInput, ExpandedNode, Expansion};
pub use file::FileInput;
pub(crate) use file::{Digests, Files};
pub(crate) use inputs::Argument;
pub use inputs::Inputs;
pub use output::{NodeOutput, OutputFile, Slot};
pub(crate) use wait::Awaited;
pub use wait::Wait;

use workflow_core::NodeDefinition;

/// A node class.
///
/// **Contract.** `definition` always answers the same. `run` is a pure function of its inputs: whatever it gives for them may
/// be kept and given again, also to other jobs, unless [`Node::is_changed`] or the definition (`not_idempotent`, a hidden
/// `UNIQUE_ID`) says otherwise. Only a class whose definition says `output_node` may emit files. A panic fails the job that
/// met it and nothing else.
pub trait Node: Send + Sync + 'static {
    /// What the class takes and gives.
    fn definition(&self) -> NodeDefinition;

    /// Asks another service for what the node cannot run without, before each run of it. While the answer is on its way the
    /// node has no thread, and a job that only waits leaves its slot to others. What is taken out of the inputs here is gone
    /// when `run` gets them; the answer is there instead ([`Inputs::awaited`]).
    ///
    /// # Errors
    /// As `run`.
    fn ask(&self, _inputs: &mut Inputs, _context: &NodeContext) -> Result<Option<Wait>, NodeError> {
        Ok(None)
    }

    /// Runs the node once: with one value per input, or, when the definition says `takes_lists`, with all of them.
    ///
    /// # Errors
    /// Whatever keeps the node from giving its result; the run ends with it.
    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError>;

    /// Names lazy inputs that it needs, given those that are there; asked again with them until it names no more. An input
    /// that is not linked cannot be named.
    ///
    /// # Errors
    /// As `run`.
    fn lazy_inputs(&self, _inputs: &Inputs) -> Result<Vec<String>, NodeError> {
        Ok(Vec::new())
    }

    /// What else than its inputs decides the result, told by the inputs that are constants. It waits for nothing but the files
    /// among these.
    ///
    /// # Errors
    /// If it cannot be told now: the result is then never reused.
    fn is_changed(&self, _constants: &Inputs) -> Result<Changed, NodeError> {
        Ok(Changed::Never)
    }
}

/// What decides a node's result besides its inputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// Nothing: equal inputs give an equal result.
    Never,
    /// Equal values of this give an equal result. It is told in the metadata of pictures, as `is_changed` of the node.
    Key(serde_json::Value),
    /// Anything: the node runs every time.
    Always,
}
