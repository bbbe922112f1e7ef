//! Deployments in memory: the twin of every store of them. Clones share their rows, as replicas do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::store::MOST_EVENTS;
use super::{DeploymentEvent, DeploymentName, Deployments, NewEvent, StoredDeployment};
use crate::StoreError;

/// Deployments that end with the process.
#[derive(Clone, Debug, Default)]
pub struct MemoryDeployments {
    rows: Arc<Mutex<BTreeMap<DeploymentName, Row>>>,
}

#[derive(Debug, Default)]
struct Row {
    version: u64,
    text: Arc<str>,
    events: Vec<DeploymentEvent>,
    last_event: u64,
    definitions: Option<String>,
}

impl MemoryDeployments {
    fn rows(&self) -> std::sync::MutexGuard<'_, BTreeMap<DeploymentName, Row>> {
        // Every change is made of calls that do not panic.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Deployments for MemoryDeployments {
    async fn list(&self) -> Result<Vec<StoredDeployment>, StoreError> {
        let rows = self.rows();
        let all = rows.iter().map(|(name, row)| StoredDeployment {
            name: name.clone(),
            version: row.version,
            text: Arc::clone(&row.text),
        });
        Ok(all.collect())
    }

    async fn save(
        &self,
        deployment: &StoredDeployment,
        events: &[NewEvent],
    ) -> Result<bool, StoreError> {
        let mut rows = self.rows();
        let found = rows.get(&deployment.name).map_or(0, |row| row.version);
        if found != deployment.version {
            return Ok(false);
        }
        let row = rows.entry(deployment.name.clone()).or_default();
        row.version += 1;
        row.text = Arc::clone(&deployment.text);
        for event in events {
            row.last_event += 1;
            row.events.push(DeploymentEvent {
                number: row.last_event,
                event: event.clone(),
            });
        }
        let last = row.last_event;
        row.events.retain(|event| event.number + MOST_EVENTS > last);
        Ok(true)
    }

    async fn remove(&self, name: &DeploymentName, version: u64) -> Result<bool, StoreError> {
        let mut rows = self.rows();
        let is_it = rows.get(name).is_some_and(|row| row.version == version);
        if is_it {
            rows.remove(name);
        }
        Ok(is_it)
    }

    async fn events(
        &self,
        name: &DeploymentName,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeploymentEvent>, StoreError> {
        let rows = self.rows();
        let events = rows
            .get(name)
            .into_iter()
            .flat_map(|row| row.events.iter().rev());
        let events = events.filter(|event| before.is_none_or(|before| event.number < before));
        Ok(events.take(limit).cloned().collect())
    }

    async fn keep_definitions(&self, name: &DeploymentName, text: &str) -> Result<(), StoreError> {
        if let Some(row) = self.rows().get_mut(name) {
            row.definitions = Some(text.to_owned());
        }
        Ok(())
    }

    async fn definitions(&self, name: &DeploymentName) -> Result<Option<String>, StoreError> {
        Ok(self
            .rows()
            .get(name)
            .and_then(|row| row.definitions.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn deployments_in_memory_keep_the_contract() {
        let one = MemoryDeployments::default();
        crate::contract::deployments(&one, &one.clone()).await;
    }
}
