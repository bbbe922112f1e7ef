//! Opening the data directory of an installation: to serve from it, or for one command.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use accounts::Tier;
use store_local::{DirectoryError, OpenError, ReserveOptions, Store, StoreOptions};
use tokio_util::sync::CancellationToken;

use crate::admin::{AdminPorts, Unopened};
use crate::config::{ConfigError, Settings};
use crate::program::Failure;

/// How often, and how long apart, a data directory is tried that another process has.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// How often everything that is kept is looked through for damage.
const CHECK_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// What an installation keeps besides accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Assets, which operators can hold.
    Assets,
    /// None.
    NoAssets,
}

/// Opens the store to serve from it, with something kept back of the disk; `fresh` as in [`StoreOptions`]. A command may have it at this moment, and is done
/// with it in the next.
///
/// # Errors
/// If the directory is taken or cannot be used.
pub async fn open(
    data_dir: &Path,
    tier: Tier,
    reserve: ReserveOptions,
    fresh: bool,
) -> Result<Store, OpenError> {
    let options = StoreOptions {
        reserve,
        fresh,
        ..options(tier)
    };
    for _ in 0..TRIES {
        match Store::open_with(data_dir, options.clone()) {
            Err(OpenError::Directory(DirectoryError::InUse(_))) => tokio::time::sleep(PAUSE).await,
            opened => return opened,
        }
    }
    Store::open_with(data_dir, options)
}

/// Opens an installation for a command alone: nothing is served, and nothing runs. `tier` reads what an account gets that
/// is given nothing else.
///
/// # Errors
/// If it cannot be opened, or a server has it.
pub fn open_for_admin(
    settings: &mut Settings,
    tier: impl FnOnce(&mut Settings) -> Result<Tier, ConfigError>,
    keeps: Keeps,
) -> Result<AdminPorts, Unopened> {
    let usage = |error: ConfigError| Unopened::Failed(error.into());
    let data_dir: PathBuf = settings.read("data_dir").map_err(usage)?;
    let tier = tier(settings).map_err(usage)?;
    match Store::open_with(&data_dir, options(tier)) {
        Ok(store) => Ok(admin_ports(&store, keeps)),
        Err(error @ OpenError::Directory(DirectoryError::InUse(_))) => {
            Err(Unopened::InUse(Failure::fault(&error)))
        }
        Err(error) => Err(Unopened::Failed(Failure::fault(&error))),
    }
}

/// Looks through the rows for damage at once and then every day, until `stop` fires. What is found is logged, and nothing is
/// written from then on.
pub async fn keep_checking(store: Store, stop: CancellationToken) {
    loop {
        let checked = tokio::select! {
            checked = store.quick_check() => checked,
            () = stop.cancelled() => return,
        };
        if let Err(error) = checked {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                error,
                "main.db could not be looked through for damage; trying again tomorrow"
            );
        }
        tokio::select! {
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// What the commands of operators work on.
#[must_use]
pub fn admin_ports(store: &Store, keeps: Keeps) -> AdminPorts {
    let accounts = Arc::new(store.accounts());
    AdminPorts {
        accounts: accounts.clone(),
        admin: accounts,
        records: match keeps {
            Keeps::Assets => Some(Arc::new(store.records())),
            Keeps::NoAssets => None,
        },
        sweeps: Arc::new(store.records()),
    }
}

fn options(tier: Tier) -> StoreOptions {
    StoreOptions {
        tier,
        ..StoreOptions::default()
    }
}
