//! What a deployment asks of its pool: workers that stop without losing a job, and definitions that outlive them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use workflow_core::{Availability, Engine, Requirements};

use super::{ComfyPool, Shared};
use crate::definitions::Definitions;

impl ComfyPool {
    /// Takes a worker out of the pool if it has no job; from then on it gets none. Answers whether it is out.
    pub(crate) fn retire(&self, name: &str) -> bool {
        let Some(worker) = self.shared.worker(name) else {
            return true;
        };
        // All of its places at once: no job can be given to it any more.
        let all = Arc::clone(&worker.places).try_acquire_many_owned(worker.slots.count());
        let Ok(places) = all else {
            return false;
        };
        worker.set_draining(true);
        places.forget();
        self.take_out(name);
        true
    }

    /// Takes a worker out of the pool whatever it does: its process is gone. Its jobs find out.
    pub(crate) fn take_out(&self, name: &str) {
        let removed = {
            let mut members = self.shared.members_mut();
            let found = members.iter().position(|member| member.worker.name == name);
            found.map(|position| members.remove(position))
        };
        if let Some(member) = removed {
            member.worker.set_draining(true);
            // Its jobs wait for its connection, not for its process.
            member.stop.cancel();
            self.shared.merge();
            self.shared.changed();
        }
    }

    /// What a worker has, as it is kept.
    pub(crate) fn definitions(&self, name: &str) -> Option<String> {
        let worker = self.shared.worker(name)?;
        let known = worker.shared().definitions.clone()?;
        let version = Value::from(known.version.as_str());
        Some(format!(
            "{{\"version\":{version},\"classes\":{}}}",
            known.text()
        ))
    }

    /// Goes by what workers had while none is there that says what it has.
    pub(crate) fn remember(&self, kept: &str) {
        let read = || {
            let kept: Value = serde_json::from_str(kept).ok()?;
            let version = kept.get("version")?.as_str()?.to_owned();
            Definitions::read(&version, kept.get("classes")?.clone()).ok()
        };
        if let Some(definitions) = read() {
            *self.shared.remembered() = Some(self.shared.once(definitions));
            self.shared.merge();
        }
    }

    /// Whether it is known what workers have.
    pub(crate) fn is_known(&self) -> bool {
        !self.nodes().is_empty()
    }

    /// How many jobs each worker may have at once.
    pub(crate) fn slots(&self) -> u32 {
        self.shared.config.slots.count()
    }

    /// Whether a worker takes jobs now.
    pub(crate) fn has_ready(&self) -> bool {
        self.availability() == Availability::Ready
            && self.shared.workers().iter().any(|worker| worker.is_up())
    }

    /// Whether workers have what a job needs, as far as is known.
    pub(crate) fn could_run(&self, needs: &Requirements) -> bool {
        let remembered = self.shared.remembered().clone();
        let workers = self.shared.workers().into_iter();
        let known = workers.filter_map(|worker| worker.shared().definitions.clone());
        let mut known = known.chain(remembered).peekable();
        known.peek().is_none() || known.any(|definitions| definitions.has_all(needs))
    }

    /// Runs that wait for a place, and how long the first of them has waited.
    pub(crate) fn waiting(&self) -> (u64, Duration) {
        let began = self.shared.began();
        let first: Option<&Instant> = began.iter().min();
        (
            began.len() as u64,
            first.map_or(Duration::ZERO, |began| began.elapsed()),
        )
    }
}

impl Shared {
    pub(crate) fn remembered(&self) -> std::sync::MutexGuard<'_, Option<Arc<Definitions>>> {
        // Every change is one assignment.
        self.remembered
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn began(&self) -> std::sync::MutexGuard<'_, Vec<Instant>> {
        // Every change is one push or remove.
        self.began
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
