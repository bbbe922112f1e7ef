//! What the scrub remembers, in rows: how far it is, and what it found damaged.

use asset_store::{BlobHash, RecordsError, ScrubState, ScrubStates};
use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::{SqliteRecords, unavailable};
use crate::columns::{Hash, Micros};
use crate::database::Durability;

#[async_trait]
impl ScrubStates for SqliteRecords {
    async fn load_scrub(&self) -> Result<ScrubState, RecordsError> {
        self.database.read(load).await.map_err(unavailable)
    }

    async fn save_scrub(&self, state: &ScrubState) -> Result<(), RecordsError> {
        let state = state.clone();
        let saved = self.database.write(Durability::Lazy.end(), move |rows| {
            rows.prepare_cached(
                "INSERT OR REPLACE INTO blob_scrub (only, began_at, position, completed_at) VALUES (1, ?1, ?2, ?3)",
            )?
            .execute(params![
                state.began_at.map(Micros),
                state.position.map(Hash),
                state.completed_at.map(Micros),
            ])?;
            if load_damaged(rows)? == state.damaged {
                return Ok(());
            }
            rows.execute("DELETE FROM damaged_blobs", [])?;
            let mut insert = rows.prepare_cached("INSERT INTO damaged_blobs (hash) VALUES (?1)")?;
            for hash in &state.damaged {
                insert.execute([Hash(*hash)])?;
            }
            Ok(())
        });
        saved.await.map_err(unavailable)
    }
}

fn load(rows: &Connection) -> rusqlite::Result<ScrubState> {
    let state = rows
        .prepare_cached("SELECT began_at, position, completed_at FROM blob_scrub")?
        .query_row([], |row| {
            Ok(ScrubState {
                began_at: row.get::<_, Option<Micros>>(0)?.map(|time| time.0),
                position: row.get::<_, Option<Hash>>(1)?.map(|hash| hash.0),
                completed_at: row.get::<_, Option<Micros>>(2)?.map(|time| time.0),
                damaged: Vec::new(),
            })
        })
        .optional()?;
    Ok(ScrubState {
        damaged: load_damaged(rows)?,
        ..state.unwrap_or_default()
    })
}

fn load_damaged(rows: &Connection) -> rusqlite::Result<Vec<BlobHash>> {
    let mut statement = rows.prepare_cached("SELECT hash FROM damaged_blobs ORDER BY hash")?;
    let hashes = statement.query_map([], |row| row.get::<_, Hash>(0))?;
    hashes.map(|hash| Ok(hash?.0)).collect()
}
