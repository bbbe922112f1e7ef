//! The port to the state of a store: whether it still writes, and how much room it has.

use async_trait::async_trait;

use crate::{BoxError, InstallationError};

/// Something that the operator must put right. The text says what.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Unhealthy(pub BoxError);

/// Whether an installation can be used. *Per process*: each replica tells what it met itself, and is not ready by itself.
///
/// **Contract.** The first three answer from memory, or from one question to the system, and never wait for the store.
#[async_trait]
pub trait Health: Send + Sync + 'static {
    /// Fails once nothing is written any more and only a restart can help.
    fn writable(&self) -> Result<(), Unhealthy>;

    /// Fails while too little room is left to take in uploads.
    fn room(&self) -> Result<(), Unhealthy>;

    /// Free bytes, where the store can tell.
    fn free_bytes(&self) -> Option<u64>;

    /// Reads the rows and looks for damage; answers what it found, nothing when they are sound. A store that finds damage logs
    /// it and writes nothing from then on.
    async fn check(&self) -> Result<Vec<String>, InstallationError>;
}
