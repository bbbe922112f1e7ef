//! What a node waits for before it can run: an answer from somewhere else, for which it keeps no thread.

use std::any::Any;
use std::fmt;
use std::future::Future;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::NodeError;

/// An answer that is on its way.
///
/// The future is polled on the runtime and not on the engine's threads: it must not compute. It is dropped when the run stops
/// or fails meanwhile, and what it asked for must bear that.
pub struct Wait(pub(crate) BoxFuture<'static, Result<Awaited, NodeError>>);

/// What came, of a type that only its node knows.
pub(crate) struct Awaited(pub(crate) Box<dyn Any + Send>);

impl Wait {
    /// Waits for this; [`super::Inputs::awaited`] gives it to the node's run.
    pub fn for_answer<T: Any + Send>(
        answer: impl Future<Output = Result<T, NodeError>> + Send + 'static,
    ) -> Self {
        let answer = answer.map(|came| came.map(|answer| Awaited(Box::new(answer))));
        Self(answer.boxed())
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wait")
    }
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Awaited")
    }
}
