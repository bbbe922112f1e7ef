//! Turns and secrets whose operations overtake each other.

use std::sync::Arc;

use asset_store::LinkKeys;
use async_trait::async_trait;
use installation::{InstallationError, SigningKeys, Turns, Work};
use jiff::Timestamp;

use crate::jitter::Jitter;

pub(crate) struct OddTurns {
    pub(crate) inner: Arc<dyn Turns>,
    pub(crate) jitter: Jitter,
}

#[async_trait]
impl Turns for OddTurns {
    async fn take(
        &self,
        work: Work,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, InstallationError> {
        self.jitter.around(self.inner.take(work, now, until)).await
    }

    async fn give_back(&self, work: Work) -> Result<(), InstallationError> {
        self.jitter.around(self.inner.give_back(work)).await
    }
}

pub(crate) struct OddKeys {
    pub(crate) inner: Arc<dyn SigningKeys>,
    pub(crate) jitter: Jitter,
}

#[async_trait]
impl SigningKeys for OddKeys {
    async fn link_keys(&self) -> Result<LinkKeys, InstallationError> {
        self.jitter.around(self.inner.link_keys()).await
    }

    async fn rotate_link_keys(&self) -> Result<(), InstallationError> {
        self.jitter.around(self.inner.rotate_link_keys()).await
    }

    async fn installation_secret(&self) -> Result<[u8; 32], InstallationError> {
        self.jitter.around(self.inner.installation_secret()).await
    }
}
