//! The port to the state of a store: whether it still writes, and how much room it has.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{BoxError, InstallationError};

/// Something that the operator must put right. The text says what.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Unhealthy(pub BoxError);

/// How busy the store of a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreLoad {
    /// Connections in use.
    pub used: u32,
    /// Open connections that are free.
    pub idle: u32,
    /// Tasks that wait for a connection.
    pub waiting: u32,
    /// How long ago this process knew every change of the others; `None` before it follows them.
    pub behind: Option<Duration>,
    /// What the database said of itself last, which may be some time ago; `None` before it did.
    pub database: Option<DatabaseLoad>,
}

/// What a database says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseLoad {
    /// Bytes of its log since it was made; of all databases of the server.
    pub log_bytes: u64,
    /// Dead rows that wait for the vacuum, of each table that changes often.
    pub dead_rows: Arc<[(&'static str, u64)]>,
}

/// Whether an installation can be used. *Per process*: each replica tells what it met itself, and is not ready by itself.
///
/// **Contract.** All but the last answer from memory, or from one question to the system, and never wait for the store.
#[async_trait]
pub trait Health: Send + Sync + 'static {
    /// Fails once nothing is written any more and only a restart can help, and while the clock of this machine is too wrong to judge
    /// what others hold.
    fn writable(&self) -> Result<(), Unhealthy>;

    /// Fails while too little room is left to take in uploads.
    fn room(&self) -> Result<(), Unhealthy>;

    /// Free bytes, where the store can tell.
    fn free_bytes(&self) -> Option<u64>;

    /// How busy the store is; nothing of one that this process has alone.
    fn load(&self) -> Option<StoreLoad> {
        None
    }

    /// Reads the rows and looks for damage; answers what it found, nothing when they are sound. A store that finds damage logs
    /// it and writes nothing from then on.
    async fn check(&self) -> Result<Vec<String>, InstallationError>;
}
