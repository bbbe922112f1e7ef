//! The port to the secrets of an installation.

use asset_store::LinkKeys;
use async_trait::async_trait;

use crate::InstallationError;

/// The secrets of one installation, made when the installation was.
///
/// **Contract.** Two installations have different secrets. The newest link key signs; it and the one before it verify. A
/// rotation is durable before it is answered and counts for keys that are read after it: a server signs with the keys that it
/// read at its start. The installation secret stays the same through rotations and restarts, and is none of the link keys.
#[async_trait]
pub trait SigningKeys: Send + Sync + 'static {
    /// The keys that sign and verify links.
    async fn link_keys(&self) -> Result<LinkKeys, InstallationError>;

    /// Makes a new link key.
    async fn rotate_link_keys(&self) -> Result<(), InstallationError>;

    /// A secret that others are derived from.
    async fn installation_secret(&self) -> Result<[u8; 32], InstallationError>;
}
