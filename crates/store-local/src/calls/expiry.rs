//! Forgets what is past its time, with its files.

use async_trait::async_trait;
use jiff::Timestamp;
use router_core::{CallRetention, CallsError};

use super::{SqliteCalls, failed, rows};
use crate::database::Durability;

#[async_trait]
impl CallRetention for SqliteCalls {
    async fn expire(
        &self,
        now: Timestamp,
        keep_from: Timestamp,
        limit: usize,
    ) -> Result<usize, CallsError> {
        self.database.catch_up().await;
        let expired = self.write(None, Durability::Lazy.end(), move |rows| {
            rows::expire(rows, now, keep_from, limit)
        });
        let expired = expired.await?;
        let left = limit.saturating_sub(expired.keys);
        let claims = self.under_way.keyed.expire(now, left);
        self.replays.forget(expired.generations).await;
        self.replays.sweep_shared(now).await.map_err(failed)?;
        self.sweep(limit).await?;
        Ok(expired.rows + claims)
    }
}

impl SqliteCalls {
    /// Removes a few files that no row names: a crash between a file and its row leaves one.
    async fn sweep(&self, limit: usize) -> Result<(), CallsError> {
        let old = self.replays.next_old(limit).await.map_err(failed)?;
        if old.is_empty() {
            return Ok(());
        }
        let unnamed = self
            .read(move |rows| rows::without_replay(rows, old))
            .await?;
        self.replays.forget(unnamed).await;
        Ok(())
    }
}
