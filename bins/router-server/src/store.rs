//! The store of this program. Everything else knows it as an [`InstallationStore`], or, to move it, as a [`TransferStore`].

use std::sync::Arc;

use installation::InstallationStore;
use installation::transfer::TransferStore;
use server_kit::config::{CloudPlace, InstallationPlace, PlaceError};

/// The store at a place; nothing is opened yet.
///
/// # Errors
/// If an address is none, or this program has no store for it.
pub(crate) fn store_at(
    place: &InstallationPlace,
) -> Result<Arc<dyn InstallationStore>, PlaceError> {
    let store: Arc<dyn InstallationStore> = movable_at(place)?;
    Ok(store)
}

/// The same, as one that can move.
///
/// # Errors
/// If an address is none, or this program has no store for it.
pub(crate) fn movable_at(place: &InstallationPlace) -> Result<Arc<dyn TransferStore>, PlaceError> {
    match &place.cloud {
        None => Ok(Arc::new(store_local::LocalStore::at(&place.data_dir))),
        Some(cloud) => in_the_cloud(cloud),
    }
}

#[cfg(not(feature = "cloud"))]
fn in_the_cloud(_: &CloudPlace) -> Result<Arc<dyn TransferStore>, PlaceError> {
    Err(PlaceError::NotBuilt)
}

/// Passwords and keys come from the environment, or from files that it names.
#[cfg(feature = "cloud")]
fn in_the_cloud(place: &CloudPlace) -> Result<Arc<dyn TransferStore>, PlaceError> {
    let environment = |name: &str| std::env::var(name).ok();
    let addresses = (&place.database, place.bucket.as_str());
    let store = store_cloud::CloudStore::of(addresses, place.connections, environment);
    Ok(Arc::new(store.map_err(PlaceError::Address)?))
}
