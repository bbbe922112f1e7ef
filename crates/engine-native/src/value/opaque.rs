//! Values of types that only their own nodes know.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A value of an embedder's own type, shared among those who hold it.
#[derive(Clone)]
pub struct Opaque {
    io_type: Arc<str>,
    content: Arc<dyn Any + Send + Sync>,
    size_bytes: u64,
}

impl Opaque {
    /// Wraps a value that travels on links of `io_type` and takes `size_bytes` of memory.
    #[must_use]
    pub fn new<T: Any + Send + Sync>(io_type: &str, content: T, size_bytes: u64) -> Self {
        Self {
            io_type: io_type.into(),
            content: Arc::new(content),
            size_bytes,
        }
    }

    /// The value, if it is a `T`.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.content.downcast_ref()
    }

    /// The type of the links it travels on.
    #[must_use]
    pub fn io_type(&self) -> &str {
        &self.io_type
    }

    /// Bytes that it takes, as its maker says.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.content).addr()
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opaque({}, {} bytes)", self.io_type, self.size_bytes)
    }
}
