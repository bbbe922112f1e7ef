//! Sign-in sessions whose operations overtake each other.

use std::sync::Arc;

use accounts::{AccountsError, AdminError, KeyHash, Session, Sessions};
use async_trait::async_trait;
use jiff::Timestamp;

use crate::jitter::Jitter;

pub(crate) struct OddSessions {
    pub(crate) inner: Arc<dyn Sessions>,
    pub(crate) jitter: Jitter,
}

#[async_trait]
impl Sessions for OddSessions {
    async fn begin(&self, token: KeyHash, session: Session) -> Result<(), AdminError> {
        self.jitter.around(self.inner.begin(token, session)).await
    }

    async fn find(
        &self,
        token: &KeyHash,
        now: Timestamp,
    ) -> Result<Option<Session>, AccountsError> {
        self.jitter.around(self.inner.find(token, now)).await
    }

    async fn end(&self, token: &KeyHash) -> Result<(), AccountsError> {
        self.jitter.around(self.inner.end(token)).await
    }
}
