//! Deployments whose operations happen in any order, and are answered in any order.

use std::sync::Arc;

use async_trait::async_trait;
use workflow_core::StoreError;
use workflow_core::deployment::{
    DeploymentEvent, DeploymentName, Deployments, NewEvent, StoredDeployment,
};

use crate::jitter::Jitter;

pub(crate) struct OddDeployments {
    pub(crate) inner: Arc<dyn Deployments>,
    pub(crate) jitter: Jitter,
}

#[async_trait]
impl Deployments for OddDeployments {
    async fn list(&self) -> Result<Vec<StoredDeployment>, StoreError> {
        self.jitter.around(self.inner.list()).await
    }

    async fn save(
        &self,
        deployment: &StoredDeployment,
        events: &[NewEvent],
    ) -> Result<bool, StoreError> {
        let saved = self.inner.save(deployment, events);
        self.jitter.around(saved).await
    }

    async fn remove(&self, name: &DeploymentName, version: u64) -> Result<bool, StoreError> {
        self.jitter.around(self.inner.remove(name, version)).await
    }

    async fn events(
        &self,
        name: &DeploymentName,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeploymentEvent>, StoreError> {
        let events = self.inner.events(name, before, limit);
        self.jitter.around(events).await
    }

    async fn keep_definitions(&self, name: &DeploymentName, text: &str) -> Result<(), StoreError> {
        let kept = self.inner.keep_definitions(name, text);
        self.jitter.around(kept).await
    }

    async fn definitions(&self, name: &DeploymentName) -> Result<Option<String>, StoreError> {
        self.jitter.around(self.inner.definitions(name)).await
    }
}
