//! The catalog that is served now, and the models that the one before still had.

use std::sync::Arc;

use foldhash::HashMap;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use super::Catalog;
use crate::{Model, ModelId};

/// How long a model that a newer catalog lacks can still be called: what was listed never answers 404.
const GRACE: SignedDuration = SignedDuration::from_mins(10);

/// Swaps snapshots of the catalog. A call keeps the model it found, whatever is swapped meanwhile.
#[derive(Debug, Default)]
pub struct LiveCatalog(watch::Sender<Arc<Snapshot>>);

/// Hears of every newer catalog; of several that came meanwhile only the last one is told.
#[derive(Clone, Debug)]
pub struct CatalogFollower(watch::Receiver<Arc<Snapshot>>);

#[derive(Debug, Default)]
struct Snapshot {
    catalog: Arc<Catalog>,
    /// Models that are listed no more, and until when they can be called.
    leaving: HashMap<ModelId, (Arc<Model>, Timestamp)>,
}

impl LiveCatalog {
    /// Serves a catalog.
    #[must_use]
    pub fn new(catalog: Catalog) -> Self {
        Self(watch::Sender::new(Arc::new(Snapshot {
            catalog: Arc::new(catalog),
            leaving: HashMap::default(),
        })))
    }

    /// Serves another one from now on.
    pub fn replace(&self, catalog: Catalog, now: Timestamp) {
        self.0
            .send_modify(|current| *current = after(current, catalog, now));
    }

    /// Follows what is served, beginning with what is served now.
    #[must_use]
    pub fn follow(&self) -> CatalogFollower {
        let mut follower = self.0.subscribe();
        follower.mark_changed();
        CatalogFollower(follower)
    }

    /// The catalog to list from.
    #[must_use]
    pub fn current(&self) -> Arc<Catalog> {
        Arc::clone(&self.snapshot().catalog)
    }

    /// A model to call: one that is listed, or was until ten minutes ago.
    #[must_use]
    pub fn find(&self, id: &ModelId, now: Timestamp) -> Option<Arc<Model>> {
        let snapshot = self.snapshot();
        let leaving = || {
            let (model, until) = snapshot.leaving.get(id)?;
            (*until > now).then_some(model)
        };
        snapshot.catalog.get(id).or_else(leaving).cloned()
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.borrow())
    }
}

impl CatalogFollower {
    /// The next catalog; `None` when there will be no other. Cancel-safe.
    pub async fn next(&mut self) -> Option<Arc<Catalog>> {
        self.0.changed().await.ok()?;
        Some(Arc::clone(&self.0.borrow_and_update().catalog))
    }
}

/// What is served with `catalog` after `current`.
fn after(current: &Snapshot, catalog: Catalog, now: Timestamp) -> Arc<Snapshot> {
    let still_leaving = current.leaving.values().cloned();
    let dropped = current.catalog.models().iter();
    let dropped = dropped.map(|model| (Arc::clone(model), now + GRACE));
    let leaving = still_leaving
        .chain(dropped)
        // A model that is switched off, withdrawn or offered again does not leave.
        .filter(|(model, until)| catalog.runnable(model.id()).is_none() && *until > now)
        .map(|(model, until)| (model.id().clone(), (model, until)))
        .collect();
    Arc::new(Snapshot {
        catalog: Arc::new(catalog),
        leaving,
    })
}
