//! What the scrub remembers, in rows: how far it is, and what it found damaged.

use asset_store::{BlobHash, RecordsError, ScrubState, ScrubStates};
use async_trait::async_trait;
use jiff::Timestamp;

use super::{PgRecords, unavailable};
use crate::DatabaseError;
use crate::columns::{from_micros, hash};
use crate::statements::{execute, query_opt};

#[async_trait]
impl ScrubStates for PgRecords {
    async fn load_scrub(&self) -> Result<ScrubState, RecordsError> {
        self.load().await.map_err(unavailable)
    }

    async fn save_scrub(&self, state: &ScrubState) -> Result<(), RecordsError> {
        self.save(state).await.map_err(unavailable)
    }
}

impl PgRecords {
    async fn load(&self) -> Result<ScrubState, DatabaseError> {
        let connection = self.database.connection().await?;
        let row = query_opt(
            &connection,
            "SELECT began_at, position, completed_at, (SELECT array_agg(hash ORDER BY hash) FROM damaged_blobs)
             FROM blob_scrub",
            &[],
        )
        .await?;
        let Some(row) = row else {
            return Ok(ScrubState::default());
        };
        let time = |column: usize| {
            let micros: Option<i64> = row.get(column);
            micros.map(from_micros).transpose()
        };
        let position: Option<&[u8]> = row.get(1);
        let damaged: Option<Vec<&[u8]>> = row.get(3);
        let damaged: Result<Vec<BlobHash>, _> =
            damaged.unwrap_or_default().into_iter().map(hash).collect();
        Ok(ScrubState {
            began_at: time(0)?,
            position: position.map(hash).transpose()?,
            completed_at: time(2)?,
            damaged: damaged?,
        })
    }

    async fn save(&self, state: &ScrubState) -> Result<(), DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        rows.batch_execute("SET LOCAL synchronous_commit = off")
            .await?;
        // Its lock is what two that save at once wait for.
        execute(
            &rows,
            "INSERT INTO blob_scrub (began_at, position, completed_at) VALUES ($1, $2, $3)
             ON CONFLICT (one) DO UPDATE SET began_at = $1, position = $2, completed_at = $3",
            &[
                &state.began_at.map(Timestamp::as_microsecond),
                &state
                    .position
                    .as_ref()
                    .map(|hash| hash.as_bytes().as_slice()),
                &state.completed_at.map(Timestamp::as_microsecond),
            ],
        )
        .await?;
        let damaged: Vec<&[u8]> = state
            .damaged
            .iter()
            .map(|it| it.as_bytes().as_slice())
            .collect();
        let sql = "DELETE FROM damaged_blobs WHERE hash <> ALL($1)";
        execute(&rows, sql, &[&damaged]).await?;
        let sql =
            "INSERT INTO damaged_blobs SELECT * FROM unnest($1::bytea[]) ON CONFLICT DO NOTHING";
        execute(&rows, sql, &[&damaged]).await?;
        rows.commit().await?;
        Ok(())
    }
}
