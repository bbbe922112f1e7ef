//! The port to the end of an opening.

use async_trait::async_trait;

/// Leaves an installation as it is at rest. *Per process*: each replica ends its own opening.
///
/// **Contract.** A program calls it last: ports of an installation may outlive its work, so the store does not see the end by
/// itself. It may be called more than once, and writes may follow it. A program that does not call it loses nothing; its next
/// start takes longer.
#[async_trait]
pub trait Closing: Send + Sync + 'static {
    /// Brings the rows into the form that they have at rest, where the store has one. The store logs a failure.
    async fn write_back(&self);
}
