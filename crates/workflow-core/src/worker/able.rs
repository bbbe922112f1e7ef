//! What a worker can run now, among what waits.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::{MOST_WAITING, Worker};
use crate::{Availability, Demand, RequirementId, RequirementSet, Requirements};

/// How many sets are remembered before all of them are forgotten: reading one again costs microseconds.
const MOST_REMEMBERED: usize = 4096;

/// Requirement sets that were read before.
#[derive(Debug, Default)]
pub(super) struct ReadSets(Mutex<HashMap<RequirementId, Option<Arc<Requirements>>>>);

impl ReadSets {
    /// What a set means; `None` if a newer version wrote it.
    pub(super) fn read(&self, set: &RequirementSet) -> Option<Arc<Requirements>> {
        // Every change is one insert or a clear: a panic elsewhere cannot have left the map half-changed.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_REMEMBERED {
            known.clear();
        }
        let read = known.entry(set.id());
        read.or_insert_with(|| set.read().map(Arc::new)).clone()
    }
}

impl Worker {
    /// The sets that this worker can run now.
    pub(super) fn able(&self, demand: &Demand) -> HashSet<RequirementId> {
        // As many wait as may: what never waits still runs, also what they wait for.
        let is_full = self.running() >= self.config.slots.saturating_add(MOST_WAITING);
        let able = demand.sets.iter().filter(|set| {
            let needs = self.sets.read(set);
            needs.is_some_and(|needs| self.can_run(&needs, demand, is_full))
        });
        able.map(RequirementSet::id).collect()
    }

    fn can_run(&self, needs: &Requirements, demand: &Demand, is_full: bool) -> bool {
        if self.config.only_secrets && needs.secret_at != Some(self.id) {
            return false;
        }
        if let Some(holder) = needs.secret_at
            && holder != self.id
        {
            // The secret is elsewhere. If that process is gone, so is the secret: any worker may end the job with that.
            return !demand.workers.contains(&holder);
        }
        let Some(engine) = self.ports.engines.get(&needs.engine) else {
            return false;
        };
        let calls_partners = || {
            let nodes = engine.nodes();
            let mut definitions = needs.classes.iter().filter_map(|class| nodes.get(class));
            definitions.any(|definition| definition.calls_partners())
        };
        engine.availability() == Availability::Ready
            && engine.capacity(needs) > 0
            && !(is_full && calls_partners())
    }
}
