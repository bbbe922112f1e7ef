//! Why a node gives no result.

use std::borrow::Cow;

use images::ShapeError;
use images::codec::CodecError;
use images::kernel::KernelError;

/// What ends a node's call without a result; variants by what becomes of the run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The run is to stop, and it stops.
    #[error("the run was stopped")]
    Canceled,
    /// The run fails for want of memory.
    #[error(
        "this needs {needed_bytes} bytes more, and of the {budget_bytes} bytes that a job may use only {free_bytes} are free; \
         use smaller pictures or fewer of them"
    )]
    OutOfMemory {
        /// What was asked for.
        needed_bytes: u64,
        /// What was left of it.
        free_bytes: u64,
        /// What a job may use.
        budget_bytes: u64,
    },
    /// The run fails with this.
    #[error("{message}")]
    Failed {
        /// The name that clients of the older API know such a failure by.
        exception: Cow<'static, str>,
        /// What went wrong, for people: no path, no secret, and what to do about it where there is something.
        message: String,
    },
}

impl NodeError {
    /// A failure of a kind.
    #[must_use]
    pub fn new(exception: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::Failed {
            exception: exception.into(),
            message: message.into(),
        }
    }

    /// An input whose value cannot be worked with.
    #[must_use]
    pub fn value(message: impl Into<String>) -> Self {
        Self::new("ValueError", message)
    }
}

impl From<KernelError> for NodeError {
    fn from(error: KernelError) -> Self {
        Self::new("RuntimeError", error.to_string())
    }
}

impl From<ShapeError> for NodeError {
    fn from(error: ShapeError) -> Self {
        Self::new("RuntimeError", error.to_string())
    }
}

impl From<CodecError> for NodeError {
    fn from(error: CodecError) -> Self {
        let exception = match error {
            CodecError::Unrecognized => "PIL.UnidentifiedImageError",
            CodecError::TooLarge { .. } => "PIL.Image.DecompressionBombError",
            CodecError::Malformed { .. } => "OSError",
            CodecError::Unsupported(_) => "NotImplementedError",
        };
        Self::new(exception, error.to_string())
    }
}
