//! Results that are kept. Their rows are written with the end of their generation; who fetches which is known in memory alone,
//! since the directory belongs to one process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use router_core::{
    CallsError, DueResult, GenerationId, KeepOutcome, KeptResult, KeptResults, Lease, OwnerId,
    ResultId, ResultLeases, ResultTurn, Settled,
};
use rusqlite::Connection;

use super::{SqliteCalls, kept_rows};
use crate::database::Durability;

/// Who fetches which result. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Fetching(Arc<Mutex<ResultLeases>>);

impl Fetching {
    fn lock(&self) -> MutexGuard<'_, ResultLeases> {
        // No change of it panics half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl KeptResults for SqliteCalls {
    async fn of(&self, generation: GenerationId) -> Result<Vec<KeptResult>, CallsError> {
        self.read(move |rows| kept_rows::of(rows, generation)).await
    }

    async fn take(
        &self,
        lease: Lease,
        turn: &ResultTurn,
        now: Timestamp,
    ) -> Result<Option<DueResult>, CallsError> {
        let fetching = self.fetching.clone();
        let turn = turn.clone();
        let next = move |rows: &Connection| {
            kept_rows::next_due(rows, &turn, now, |id| fetching.lock().is_free(id, now))
        };
        // Most looks find nothing, and leave the thread that writes alone.
        if self.read(next.clone()).await?.is_none() {
            return Ok(None);
        }
        let fetching = self.fetching.clone();
        self.write(None, Durability::Now, move |rows| {
            let Some(mut due) = next(rows)? else {
                return Ok(None);
            };
            kept_rows::count_attempt(rows, due.id)?;
            due.attempt += 1;
            let id = due.id;
            // At once: another take may share this commit, and is not to be handed the same result.
            fetching.lock().begin(id, lease, now);
            rows.on_rollback(move || fetching.lock().end(id));
            Ok(Some(due))
        })
        .await
    }

    async fn renew(
        &self,
        results: &[ResultId],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<ResultId>, CallsError> {
        Ok(self.fetching.lock().renew(results, lease, now))
    }

    async fn note(
        &self,
        (id, owner): (ResultId, OwnerId),
        came: KeepOutcome,
        now: Timestamp,
    ) -> Result<Settled, CallsError> {
        crate::faults::fault_point!("result-note");
        let fetching = self.fetching.clone();
        self.write(None, Durability::Now.end(), move |rows| {
            if !fetching.lock().is_of(id, owner) {
                return Ok(Settled::Before);
            }
            kept_rows::note(rows, id, &came, now)?;
            rows.after_commit(move || fetching.lock().end(id));
            Ok(Settled::Now)
        })
        .await
    }
}
