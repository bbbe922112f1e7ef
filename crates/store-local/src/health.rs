//! Whether the disk can still be trusted.
//!
//! After a failed fsync nobody knows which writes the disk has, and asking again answers "fine" for bytes that are lost. So
//! the first failure is final: every later write is refused until the process starts anew and recovers from what is there.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

/// The disk failed while something was being made durable; nothing is written any more.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "the disk failed ({reason}) and nothing is written any more; check it, then restart the server"
)]
pub struct Poisoned {
    reason: String,
}

/// The verdict, shared by everything that writes into one directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health(Arc<OnceLock<Poisoned>>);

impl Health {
    /// Refuses every write from now on. The first reason stays.
    pub(crate) fn poison(&self, reason: &dyn Display) {
        let reason = reason.to_string();
        tracing::error!(%reason, "the disk failed: the store stops writing until the server is restarted");
        // A second failure adds nothing to the first.
        let _ = self.0.set(Poisoned { reason });
    }

    /// Whether writes may go on.
    pub(crate) fn check(&self) -> Result<(), Poisoned> {
        self.0
            .get()
            .map_or(Ok(()), |poisoned| Err(poisoned.clone()))
    }
}
