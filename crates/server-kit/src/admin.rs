//! Operating an installation from the command line: accounts, keys, credits, holds.
//!
//! A change goes through the server that has the installation, over a socket in the data directory, and counts at once;
//! where no server runs, the command opens the installation itself. With `--server`, it goes to a server anywhere over HTTP
//! (`admin_http`). All answer the same [`Request`](admin_http::wire::Request) through the same function, so there is one
//! behaviour. The text of a new key is made by the command: the server only ever sees its hash.

mod assets;
mod audit;
mod bodies;
mod catalog;
mod client;
mod commands;
mod deployments;
mod fields;
mod flags;
mod jobs;
mod models;
mod remote;
mod service;
mod show;
mod socket;
mod token;
mod webhooks;
mod workers;

use std::fmt;
use std::sync::Arc;

use ::webhooks::Webhooks;
use accounts::{AccountAdmin, Accounts};
use asset_store::{AssetRecords, SweepStates};
use hyper_kit::Host;
use installation::SigningKeys;

use crate::program::Failure;
use crate::reload::SettingsInForce;

pub use admin_http::AdminApi;
pub use admin_http::wire::{
    CatalogBody, DefinitionBody, DeploymentBody, DeploymentRequest, DeploymentWorkerBody,
    EventBody, GraphBody, JobExplanation, ModelBody, PartnerBody, Problem, ProblemKind,
    PublishedModelBody, PublishedVersionBody, RevisionBody, SecretSource, SettingBody,
    VariableBody, WorkerBody, WorkerChange, WorkerLogBody, WorkerNote,
};
pub use catalog::commands as catalog_commands;
pub use commands::{commands, is_command, run};
pub use deployments::DeploymentAdmin;
pub use jobs::JobAdmin;
pub use models::{ModelAdmin, model_command};
pub use service::CatalogControl;
pub use socket::{AdminSocket, AdminSocketError};
pub use workers::WorkerAdmin;

/// What the commands work on.
#[derive(Clone)]
pub struct AdminPorts {
    /// Looks at accounts and ledgers.
    pub accounts: Arc<dyn Accounts>,
    /// Changes accounts and keys.
    pub admin: Arc<dyn AccountAdmin>,
    /// Holds assets, where the installation has any.
    pub records: Option<Arc<dyn AssetRecords>>,
    /// Confirms sweeps that were held.
    pub sweeps: Arc<dyn SweepStates>,
    /// The ComfyUI workers of a running server, where it has any.
    pub workers: Option<Arc<dyn WorkerAdmin>>,
    /// The jobs of a running server, where it has any.
    pub jobs: Option<Arc<dyn JobAdmin>>,
    /// The deployments of a running server, where it has any.
    pub deployments: Option<Arc<dyn DeploymentAdmin>>,
    /// The published models of a running server, where it has any.
    pub models: Option<Arc<dyn ModelAdmin>>,
    /// Lists and reloads the catalog, if the server has one.
    pub catalog: Option<Arc<dyn CatalogControl>>,
    /// Webhooks and their secrets.
    pub webhooks: WebhookAdmin,
    /// The settings in force of a running server.
    pub settings: Option<SettingsInForce>,
}

/// What the commands on webhooks work on.
#[derive(Clone)]
pub struct WebhookAdmin {
    /// The webhooks.
    pub webhooks: Arc<dyn Webhooks>,
    /// What their secrets follow from.
    pub keys: Arc<dyn SigningKeys>,
    /// Hosts that may be private and plain `http`; `None` where the sender's are not known, so that it alone decides.
    pub private_hosts: Option<Vec<Host>>,
}

/// Why a command could not open the installation by itself.
#[derive(Debug)]
pub enum Unopened {
    /// Another process has it.
    InUse(Failure),
    /// Anything else.
    Failed(Failure),
}

impl fmt::Debug for AdminPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminPorts")
    }
}

#[cfg(test)]
pub(crate) mod tests;
