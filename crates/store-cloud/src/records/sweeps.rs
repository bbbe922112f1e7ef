//! What sweeps remember, in rows: the clock of the last pass, and blobs that records let go.

use asset_store::{
    Admission, BlobHash, RecordsError, ReleasedBlobs, SweepName, SweepState, SweepStates,
};
use async_trait::async_trait;
use deadpool_postgres::Transaction;
use jiff::{SignedDuration, Timestamp};

use super::{PgRecords, unavailable};
use crate::DatabaseError;
use crate::columns::{from_micros, hash};
use crate::statements::{execute, query, query_opt, whole};

#[async_trait]
impl SweepStates for PgRecords {
    async fn admit(
        &self,
        sweep: SweepName,
        now: Timestamp,
        running: SignedDuration,
    ) -> Result<Admission, RecordsError> {
        let admitted = async {
            let mut connection = self.database.connection().await?;
            let rows = connection.transaction().await?;
            let mut state = lock(&rows, sweep).await?;
            let admission = state.admit(now, running);
            save(&rows, sweep, &state).await?;
            rows.commit().await?;
            Ok(admission)
        };
        admitted.await.map_err(unavailable)
    }

    async fn confirm(&self) -> Result<(), RecordsError> {
        let confirmed = async {
            let mut connection = self.database.connection().await?;
            let rows = connection.transaction().await?;
            for sweep in SweepName::ALL {
                let mut state = lock(&rows, sweep).await?;
                state.confirmed = true;
                save(&rows, sweep, &state).await?;
            }
            rows.commit().await?;
            Ok(())
        };
        confirmed.await.map_err(unavailable)
    }
}

#[async_trait]
impl ReleasedBlobs for PgRecords {
    async fn among(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, RecordsError> {
        let among = async {
            let connection = self.database.connection().await?;
            let found = query(
                &connection,
                "SELECT hash FROM unnest($1::bytea[]) WITH ORDINALITY AS asked (hash, place)
                 JOIN released_blobs USING (hash) ORDER BY place",
                &[&bytes(hashes)],
            )
            .await?;
            found.iter().map(|row| hash(row.get(0))).collect()
        };
        let among: Result<_, DatabaseError> = among.await;
        among.map_err(unavailable)
    }

    async fn forget(&self, hashes: &[BlobHash]) -> Result<(), RecordsError> {
        if hashes.is_empty() {
            return Ok(());
        }
        let forgotten = async {
            let connection = self.database.connection().await?;
            execute(
                &connection,
                "DELETE FROM released_blobs WHERE hash IN (
                    SELECT hash FROM released_blobs WHERE hash = ANY($1) ORDER BY hash FOR UPDATE)",
                &[&bytes(hashes)],
            )
            .await
        };
        forgotten.await.map(|_| ()).map_err(unavailable)
    }
}

fn bytes(hashes: &[BlobHash]) -> Vec<&[u8]> {
    hashes.iter().map(|it| it.as_bytes().as_slice()).collect()
}

/// What a sweep remembers, for this transaction alone.
async fn lock(rows: &Transaction<'_>, sweep: SweepName) -> Result<SweepState, DatabaseError> {
    let name = sweep.as_str();
    execute(
        rows,
        "INSERT INTO sweeps (name, hold_left, confirmed) VALUES ($1, 0, false) ON CONFLICT DO NOTHING",
        &[&name],
    )
    .await?;
    let row = query_opt(
        rows,
        "SELECT last_at, hold_left, confirmed FROM sweeps WHERE name = $1 FOR UPDATE",
        &[&name],
    )
    .await?;
    let Some(row) = row else {
        return Ok(SweepState::default());
    };
    let last_at: Option<i64> = row.get(0);
    Ok(SweepState {
        last_at: last_at.map(from_micros).transpose()?,
        hold_left: SignedDuration::from_micros(row.get(1)),
        confirmed: row.get(2),
    })
}

async fn save(
    rows: &Transaction<'_>,
    sweep: SweepName,
    state: &SweepState,
) -> Result<(), DatabaseError> {
    execute(
        rows,
        "UPDATE sweeps SET last_at = $2, hold_left = $3, confirmed = $4 WHERE name = $1",
        &[
            &sweep.as_str(),
            &state.last_at.map(Timestamp::as_microsecond),
            // A hold is a day at most.
            &whole(state.hold_left.as_micros()),
            &state.confirmed,
        ],
    )
    .await?;
    Ok(())
}
