//! The store of this program. Everything else knows it as an [`InstallationStore`].

use std::path::Path;
use std::sync::Arc;

use installation::InstallationStore;

/// The installation in a data directory.
pub(crate) fn store_in(data_dir: &Path) -> Arc<dyn InstallationStore> {
    Arc::new(store_local::LocalStore::at(data_dir))
}
