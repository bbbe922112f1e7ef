//! The base addresses of deployments: which one a path is below.
//!
//! Below `{base}/deployment/{name}` is the whole API, with the jobs of that deployment. Routes are made once for each name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use workflow_core::Jobs;

use crate::WorkflowService;

/// Where deployments are, below the prefix of the server.
pub(crate) const BELOW: &str = "/deployment";

/// So many are remembered before all of them are forgotten: more than there may be.
const MOST_REMEMBERED: usize = 1024;

/// Routes by the name of a deployment.
pub(crate) struct Mounts<T>(Mutex<HashMap<String, Arc<T>>>);

impl<T> Default for Mounts<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Mounts<T> {
    /// Those of a name, made if they were not.
    pub(crate) fn get<E>(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        // Every change is one insert or a clear.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(name) {
            return Ok(Arc::clone(found));
        }
        if known.len() >= MOST_REMEMBERED {
            known.clear();
        }
        let made = Arc::new(make()?);
        known.insert(name.to_owned(), Arc::clone(&made));
        Ok(made)
    }
}

/// The deployment that a path is below, and its jobs.
pub(crate) fn named<'p>(service: &WorkflowService, path: &'p str) -> Option<(&'p str, Jobs)> {
    let deployments = service.deployments.as_deref()?;
    let below = path.strip_prefix(service.config.address.mount_prefix.as_str())?;
    let below = below.strip_prefix(BELOW)?.strip_prefix('/')?;
    let name = below.split('/').next()?;
    Some((name, deployments.jobs(name)?))
}
