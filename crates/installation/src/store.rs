//! What a store is to a program: something that opens, copies and inspects one installation.

use std::path::Path;
#[cfg(feature = "router")]
use std::sync::Arc;

use accounts::Tier;
use async_trait::async_trait;
#[cfg(feature = "router")]
use router_core::Usage;

use crate::{BoxError, Installation, ReserveOptions};

/// How an installation is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// What an account gets where its limits say nothing else.
    pub tier: Tier,
    /// What the store keeps back of its disk, if it has one.
    pub reserve: ReserveOptions,
    /// Whether a new installation may begin where the files of another one lie and its rows are gone.
    pub fresh: bool,
}

/// Why an installation cannot be opened. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it, and the store allows one.
    #[error(transparent)]
    InUse(BoxError),
    /// Anything else.
    #[error(transparent)]
    Failed(BoxError),
}

/// The store of an installation that is open cannot answer now.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct InstallationError(pub BoxError);

/// A copy cannot be made, or an installation cannot be inspected. The texts say what to do.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CopyError(pub BoxError);

/// What a backup consists of, or what an inspection met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Blobs that rows name.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that an earlier backup had already.
    pub kept: u64,
}

/// The place of one installation. Making this value opens nothing.
///
/// **Contract.** `open` creates an installation where there is none. What one opening wrote durably, the next one finds. A
/// store for one process answers [`OpenError::InUse`] to a second opening until every port of the first is gone; the caller may
/// try again. `usage` and `back_up` work while a server has the installation; `inspect` does not.
#[async_trait]
pub trait InstallationStore: Send + Sync + 'static {
    /// Opens the installation.
    async fn open(&self, options: OpenOptions) -> Result<Installation, OpenError>;

    /// Whether there is an installation.
    async fn exists(&self) -> bool;

    /// What the router was called for, to be read and nothing else.
    #[cfg(feature = "router")]
    async fn usage(&self) -> Result<Arc<dyn Usage>, OpenError>;

    /// Copies the installation into the folder `target`, where an earlier backup may be. If it fails, the earlier backup is as
    /// it was; if it succeeds, the new one is durable and can be opened in place of the original.
    async fn back_up(&self, target: &Path) -> Result<Contents, CopyError>;

    /// Looks over an installation that no server has; answers what it met, and what is wrong, nothing when it is sound.
    async fn inspect(&self) -> Result<(Contents, Vec<String>), CopyError>;

    /// Where it is, for people; without any secret.
    fn location(&self) -> String;
}
