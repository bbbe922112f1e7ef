//! The port to the rows of deployments.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::DeploymentName;
use crate::StoreError;

/// A deployment as a store keeps it: the text is the domain's ([`super::Deployment::read`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDeployment {
    /// Its name.
    pub name: DeploymentName,
    /// How often it was written.
    pub version: u64,
    /// What it says.
    pub text: Arc<str>,
}

/// Something that happened to a deployment, to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// When.
    pub at: Timestamp,
    /// What kind of thing, such as `revision_ready`.
    pub kind: String,
    /// What happened, in a sentence.
    pub text: String,
}

/// Something that happened to a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentEvent {
    /// Its number among those of the deployment, which grows.
    pub number: u64,
    /// What happened.
    pub event: NewEvent,
}

/// Deployments, what happened to them, and what their workers have.
///
/// **Contract.** Holds for any number of replicas over one store. Every method is one transaction, and what it writes is on disk
/// when it returns. Texts are never interpreted. A deployment is saved only over the version that was loaded; the newest
/// [`MOST_EVENTS`] events of each are kept, and go with it. An answer of `false` means that somebody else saved or removed it, and
/// that nothing was written.
#[async_trait]
pub trait Deployments: Send + Sync + 'static {
    /// All of them, in the order of their names.
    async fn list(&self) -> Result<Vec<StoredDeployment>, StoreError>;

    /// Writes a deployment with what happened. `deployment.version` is the version that was loaded, 0 for a new one; it is one more
    /// afterwards.
    async fn save(
        &self,
        deployment: &StoredDeployment,
        events: &[NewEvent],
    ) -> Result<bool, StoreError>;

    /// Removes a deployment of this version with all that is kept of it.
    async fn remove(&self, name: &DeploymentName, version: u64) -> Result<bool, StoreError>;

    /// The newest events, newest first; only those before this number, where one is given.
    async fn events(
        &self,
        name: &DeploymentName,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeploymentEvent>, StoreError>;

    /// Keeps what the workers of a deployment have, in the place of what was kept before. Without the deployment, nothing is kept.
    async fn keep_definitions(&self, name: &DeploymentName, text: &str) -> Result<(), StoreError>;

    /// What was kept last.
    async fn definitions(&self, name: &DeploymentName) -> Result<Option<String>, StoreError>;
}

/// How many events of a deployment are kept.
pub const MOST_EVENTS: u64 = 1_000;
