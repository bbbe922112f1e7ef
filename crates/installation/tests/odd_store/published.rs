//! Published models whose operations happen in any order, and are answered in any order.

use std::sync::Arc;

use async_trait::async_trait;
use router_core::CallsError;
use router_core::published::{Published, PublishedChange, PublishedModels};

use crate::jitter::Jitter;

pub(crate) struct OddPublishedModels {
    pub(crate) inner: Arc<dyn PublishedModels>,
    pub(crate) jitter: Jitter,
}

#[async_trait]
impl PublishedModels for OddPublishedModels {
    async fn revision(&self) -> Result<u64, CallsError> {
        self.jitter.around(self.inner.revision()).await
    }

    async fn load(&self) -> Result<Published, CallsError> {
        self.jitter.around(self.inner.load()).await
    }

    async fn save(&self, change: &PublishedChange) -> Result<bool, CallsError> {
        self.jitter.around(self.inner.save(change)).await
    }
}
