//! Several engines side by side, in the order in which the operator prefers them.
//!
//! Submissions choose among the engines of one base address. Jobs that wait name engines of all base addresses, which come and go
//! while the server runs.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::{Availability, Engine, EngineName, NodeCatalog};

/// The engines that submissions choose among. Cheap to clone.
#[derive(Clone)]
pub struct Engines {
    engines: Arc<[NamedEngine]>,
    /// Those of all base addresses of the server.
    all: Arc<RwLock<HashMap<EngineName, Arc<dyn Engine>>>>,
    /// The catalogs that were merged last, and all of them together.
    merged: Arc<Mutex<(Vec<NodeCatalog>, NodeCatalog)>>,
}

/// An engine and its name.
#[derive(Clone)]
pub struct NamedEngine {
    /// What jobs name it by.
    pub name: EngineName,
    /// The engine.
    pub engine: Arc<dyn Engine>,
}

impl Engines {
    /// These engines, the preferred one first.
    #[must_use]
    pub fn new(engines: impl IntoIterator<Item = NamedEngine>) -> Self {
        let engines: Arc<[NamedEngine]> = engines.into_iter().collect();
        let all = engines.iter();
        let all = all.map(|named| (named.name.clone(), Arc::clone(&named.engine)));
        Self {
            all: Arc::new(RwLock::new(all.collect())),
            engines,
            merged: Arc::default(),
        }
    }

    /// Adds an engine for another base address, in the place of one of the same name; answers the engines of that address.
    #[must_use]
    pub fn add(&self, named: NamedEngine) -> Self {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(named.name.clone(), Arc::clone(&named.engine));
        Self {
            engines: [named].into(),
            all: Arc::clone(&self.all),
            merged: Arc::default(),
        }
    }

    /// Forgets an engine that was added. Jobs that name it wait.
    pub fn forget(&self, name: &EngineName) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.remove(name);
    }

    /// The engine of this process alone.
    #[must_use]
    pub fn native(engine: Arc<dyn Engine>) -> Self {
        let name = EngineName::NATIVE.into();
        Self::new([NamedEngine { name, engine }])
    }

    /// The engine of a name, whatever base address it is for.
    #[must_use]
    pub fn get(&self, name: &EngineName) -> Option<Arc<dyn Engine>> {
        // Every change is one insert or remove: a panic elsewhere cannot have left the map half-changed.
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(name).cloned()
    }

    /// How long the workers take to start, where that is known.
    #[must_use]
    pub fn start_time(&self) -> Option<Duration> {
        let workers = self.engines.iter();
        let workers = workers.filter_map(|named| named.engine.workers()?.start_time());
        workers.max()
    }

    /// Whether any of them runs jobs now.
    #[must_use]
    pub fn availability(&self) -> Availability {
        let states = self.engines.iter().map(|named| named.engine.availability());
        states
            .min_by_key(|state| rank(*state))
            .unwrap_or(Availability::NotReady)
    }

    /// The classes of all of them. Of two definitions of a class, that of the preferred engine is shown.
    #[must_use]
    pub fn nodes(&self) -> NodeCatalog {
        if let [only] = &*self.engines {
            return only.engine.nodes();
        }
        let catalogs: Vec<_> = self
            .engines
            .iter()
            .map(|named| named.engine.nodes())
            .collect();
        // Both values are replaced together: a panic elsewhere cannot have left them apart.
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, all) = &mut *merged;
        let is_same = from.len() == catalogs.len()
            && from.iter().zip(&catalogs).all(|(one, other)| one.is(other));
        if !is_same {
            *all = NodeCatalog::merged(&catalogs);
            *from = catalogs;
        }
        all.clone()
    }

    /// Whether an engine may have classes that are not known: it was never seen.
    #[must_use]
    pub fn any_unseen(&self) -> bool {
        self.engines.iter().any(|named| {
            named.engine.availability() == Availability::NotReady && named.engine.nodes().is_empty()
        })
    }

    /// The engine for a graph of these classes: the preferred one that has all of them, one that is stopped after the others. If
    /// none has, the one that lacks the fewest, whose definitions then say what is missing. `None` without any engine.
    #[must_use]
    pub fn choose<'a>(
        &self,
        classes: &(impl Iterator<Item = &'a str> + Clone),
    ) -> Option<&NamedEngine> {
        // Of equal ones the first wins.
        self.engines.iter().min_by_key(|named| {
            let nodes = named.engine.nodes();
            let lacking = classes
                .clone()
                .filter(|class| nodes.get(class).is_none())
                .count();
            (
                lacking,
                named.engine.availability() == Availability::Stopped,
            )
        })
    }
}

/// What says most about an installation: one engine that runs jobs is enough.
fn rank(state: Availability) -> u8 {
    match state {
        Availability::Ready => 0,
        Availability::NotReady => 1,
        Availability::Stopped => 2,
    }
}

impl fmt::Debug for Engines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.engines.iter().map(|named| named.name.as_str());
        f.debug_list().entries(names).finish()
    }
}

impl fmt::Debug for NamedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedEngine").field(&self.name).finish()
    }
}
