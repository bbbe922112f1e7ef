//! Opening an installation, to serve from it or for one command, and looking after it while it is open.

use std::sync::Arc;
use std::time::Duration;

use accounts::Tier;
use installation::{
    Health, Installation, InstallationStore, OpenError, OpenOptions, ReserveOptions,
};
use tokio_util::sync::CancellationToken;

use crate::admin::{AdminPorts, Unopened, WebhookAdmin};
use crate::program::Failure;

/// How often, and how long apart, an installation is tried that another process has.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// How often all rows are looked through for damage.
const CHECK_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// What an installation keeps besides accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Assets, which operators can hold.
    Assets,
    /// None.
    NoAssets,
}

/// Opens the installation to serve from it. A command may have it at this moment, and is done with it in the next.
///
/// # Errors
/// If it is taken or cannot be used.
pub async fn open(
    store: &dyn InstallationStore,
    options: OpenOptions,
) -> Result<Installation, OpenError> {
    for _ in 0..TRIES {
        match store.open(options.clone()).await {
            Err(OpenError::InUse(_)) => tokio::time::sleep(PAUSE).await,
            opened => return opened,
        }
    }
    store.open(options).await
}

/// Opens an installation for a command alone: nothing is served, and nothing runs. `tier` is what an account gets that is
/// given nothing else.
///
/// # Errors
/// If it cannot be opened, or a server has it.
pub async fn open_for_admin(
    store: &dyn InstallationStore,
    tier: Tier,
    keeps: Keeps,
) -> Result<AdminPorts, Unopened> {
    let options = OpenOptions {
        tier,
        reserve: ReserveOptions::NONE,
        fresh: false,
    };
    match store.open(options).await {
        Ok(installation) => Ok(admin_ports(&installation, keeps)),
        Err(error @ OpenError::InUse(_)) => Err(Unopened::InUse(Failure::fault(&error))),
        Err(error @ OpenError::Failed(_)) => Err(Unopened::Failed(Failure::fault(&error))),
    }
}

/// Looks through the rows for damage at once and then every day, until `stop` fires. The store logs what it finds, and writes
/// nothing from then on.
pub async fn keep_checking(health: Arc<dyn Health>, stop: CancellationToken) {
    while stop.run_until_cancelled(check(&*health)).await.is_some() {
        tokio::select! {
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn check(health: &dyn Health) {
    if let Err(error) = health.check().await {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(
            error,
            "the rows could not be looked through for damage; trying again tomorrow"
        );
    }
}

/// What the commands of operators work on.
#[must_use]
pub fn admin_ports(installation: &Installation, keeps: Keeps) -> AdminPorts {
    AdminPorts {
        accounts: installation.accounts.clone(),
        admin: installation.account_admin.clone(),
        workers: None,
        jobs: None,
        deployments: None,
        models: None,
        records: match keeps {
            Keeps::Assets => Some(installation.assets.records.clone()),
            Keeps::NoAssets => None,
        },
        sweeps: installation.assets.sweeps.clone(),
        catalog: None,
        webhooks: WebhookAdmin {
            webhooks: installation.webhooks.clone(),
            keys: installation.keys.clone(),
            private_hosts: None,
        },
        settings: None,
    }
}
