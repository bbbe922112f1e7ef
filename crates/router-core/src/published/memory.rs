//! Published versions in memory: the twin of every store of them. Clones share their rows, as replicas do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{Published, PublishedChange, PublishedModels};
use crate::CallsError;

/// Published versions that end with the process.
#[derive(Clone, Debug, Default)]
pub struct MemoryPublishedModels(Arc<Mutex<Published>>);

impl MemoryPublishedModels {
    fn rows(&self) -> MutexGuard<'_, Published> {
        // Every change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl PublishedModels for MemoryPublishedModels {
    async fn revision(&self) -> Result<u64, CallsError> {
        Ok(self.rows().revision)
    }

    async fn load(&self) -> Result<Published, CallsError> {
        Ok(self.rows().clone())
    }

    async fn save(&self, change: &PublishedChange) -> Result<bool, CallsError> {
        let mut rows = self.rows();
        if rows.revision != change.after {
            return Ok(false);
        }
        let mut versions = rows.versions.clone();
        versions.retain(|key, _| !change.forget.contains(key));
        let written = change.write.iter();
        versions.extend(written.map(|one| ((one.model.clone(), one.version), one.clone())));
        *rows = Published {
            revision: change.after + 1,
            versions,
        };
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn published_models_in_memory_keep_the_contract() {
        let one = MemoryPublishedModels::default();
        crate::contract::published(&one, &one.clone()).await;
    }
}
