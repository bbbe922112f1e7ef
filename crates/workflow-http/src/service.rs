//! What the API is made from, and what an operator settles about it.

use std::sync::Arc;

use accounts::{Accounts, AccountsError, Principal, Scope};
use asset_store::{Assets, LinkKeys};
use hyper_kit::{Observer, Origin, PublicAddress, ReadPace};
use identity::Identity;
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use workflow_core::{Jobs, Timer};

use crate::V1Service;

/// Everything that the API calls.
#[derive(Clone)]
pub struct WorkflowService {
    /// Jobs of all accounts.
    pub jobs: Jobs,
    /// Assets of all accounts.
    pub assets: Assets,
    /// Tells what accounts have.
    pub accounts: Arc<dyn Accounts>,
    /// Signs links and verifies them.
    pub link_keys: Arc<LinkKeys>,
    /// Tells whose request it is.
    pub identity: Identity,
    /// The clock of requests.
    pub clock: Arc<dyn Timer>,
    /// Ends the streams when the server drains: they would outlast any grace.
    pub drain: CancellationToken,
    /// Hears of every answered request.
    pub observer: Observer,
    /// The older API beside it, where it is served.
    pub v1: Option<V1Service>,
    /// The deployments below `/deployment`, where there are any.
    pub deployments: Option<Arc<dyn DeploymentJobs>>,
    /// What the operator settled.
    pub config: WorkflowConfig,
}

/// The deployments of a server: named sets of workers, each with a base address `{base}/deployment/{name}` that has the whole API.
pub trait DeploymentJobs: Send + Sync {
    /// The jobs of all accounts, as they are submitted to a deployment; `None` if there is none of this name. Asked at every request.
    fn jobs(&self, name: &str) -> Option<Jobs>;
}

/// What an operator settles.
#[derive(Clone, Debug)]
pub struct WorkflowConfig {
    /// How links are addressed, whose forwarding headers are believed, and the prefix that every path stands below.
    pub address: PublicAddress,
    /// Pages of other origins that may call.
    pub allowed_origins: Vec<Origin>,
    /// Most bytes of one upload; the tier of an account may allow less.
    pub upload_bytes: u64,
    /// Most bytes of one JSON body.
    pub json_bytes: usize,
    /// How long a signed link works.
    pub link_lifetime: SignedDuration,
    /// How slowly a body may arrive.
    pub read_pace: ReadPace,
}

impl WorkflowConfig {
    /// 1 GiB: the default of [`WorkflowConfig::upload_bytes`].
    pub const UPLOAD_BYTES: u64 = 1 << 30;

    /// 16 MiB: the default of [`WorkflowConfig::json_bytes`], room for a graph of as many nodes as are allowed.
    pub const JSON_BYTES: usize = 16 << 20;

    /// 15 minutes: the default of [`WorkflowConfig::link_lifetime`].
    pub const LINK_LIFETIME: SignedDuration = SignedDuration::from_mins(15);
}

impl WorkflowService {
    /// Jobs as a caller may submit them: an account that the router is not enabled for, and a credential that does not allow
    /// it, call partners only by a key that is submitted.
    pub(crate) fn jobs_of(&self, principal: &Principal) -> Jobs {
        if principal.router && principal.scopes.allow(Scope::RouterRun) {
            self.jobs.clone()
        } else {
            self.jobs.without_partners()
        }
    }

    /// Whether an account may run something more: without billing always, with it while anything of its credits is left.
    ///
    /// # Errors
    /// If the account store cannot tell.
    pub(crate) async fn can_pay(
        &self,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<bool, AccountsError> {
        if !principal.billed {
            return Ok(true);
        }
        let credits = self.accounts.credits(&principal.account, now).await?;
        Ok(credits.available_cents() > 0)
    }
}

impl std::fmt::Debug for WorkflowService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkflowService")
            .field("identity", &self.identity)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
