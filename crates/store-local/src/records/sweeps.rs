//! What sweeps remember, in rows: the clock of the last pass, and blobs that records let go.

use asset_store::{
    Admission, BlobHash, RecordsError, ReleasedBlobs, SweepName, SweepState, SweepStates,
};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{SqliteRecords, unavailable};
use crate::columns::{Hash, Micros};
use crate::database::Durability;

#[async_trait]
impl SweepStates for SqliteRecords {
    async fn admit(
        &self,
        sweep: SweepName,
        now: Timestamp,
        running: SignedDuration,
    ) -> Result<Admission, RecordsError> {
        let admitted = self.database.write(Durability::Now.end(), move |rows| {
            let mut state = load(rows, sweep)?;
            let admission = state.admit(now, running);
            save(rows, sweep, &state)?;
            Ok(admission)
        });
        admitted.await.map_err(unavailable)
    }

    async fn confirm(&self) -> Result<(), RecordsError> {
        let confirmed = self.database.write(Durability::Now.end(), |rows| {
            for sweep in SweepName::ALL {
                let mut state = load(rows, sweep)?;
                state.confirmed = true;
                save(rows, sweep, &state)?;
            }
            Ok(())
        });
        confirmed.await.map_err(unavailable)
    }
}

#[async_trait]
impl ReleasedBlobs for SqliteRecords {
    async fn among(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, RecordsError> {
        let hashes = hashes.to_vec();
        let among = self.database.read(move |rows| {
            let mut released =
                rows.prepare_cached("SELECT 1 FROM released_blobs WHERE hash = ?1")?;
            let mut found = Vec::new();
            for hash in hashes {
                if released.exists([Hash(hash)])? {
                    found.push(hash);
                }
            }
            Ok(found)
        });
        among.await.map_err(unavailable)
    }

    async fn forget(&self, hashes: &[BlobHash]) -> Result<(), RecordsError> {
        if hashes.is_empty() {
            return Ok(());
        }
        let hashes = hashes.to_vec();
        let forgotten = self.database.write(Durability::Lazy.end(), move |rows| {
            let mut forget = rows.prepare_cached("DELETE FROM released_blobs WHERE hash = ?1")?;
            for hash in hashes {
                forget.execute([Hash(hash)])?;
            }
            Ok(())
        });
        forgotten.await.map_err(unavailable)
    }
}

fn load(rows: &Connection, sweep: SweepName) -> rusqlite::Result<SweepState> {
    let state = rows
        .prepare_cached("SELECT last_at, hold_left, confirmed FROM sweeps WHERE name = ?1")?
        .query_row([sweep.as_str()], |row| {
            Ok(SweepState {
                last_at: row.get::<_, Option<Micros>>(0)?.map(|time| time.0),
                hold_left: SignedDuration::from_micros(row.get(1)?),
                confirmed: row.get(2)?,
            })
        })
        .optional()?;
    Ok(state.unwrap_or_default())
}

fn save(rows: &Connection, sweep: SweepName, state: &SweepState) -> rusqlite::Result<()> {
    // A hold is a day at most.
    let hold_left = i64::try_from(state.hold_left.as_micros()).unwrap_or(i64::MAX);
    rows.prepare_cached(
        "INSERT OR REPLACE INTO sweeps (name, last_at, hold_left, confirmed) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![
        sweep.as_str(),
        state.last_at.map(Micros),
        hold_left,
        state.confirmed,
    ])?;
    Ok(())
}
