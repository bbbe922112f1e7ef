//! Published models, in rows.

use async_trait::async_trait;
use router_core::CallsError;
use router_core::published::{Published, PublishedChange, PublishedModels, PublishedVersion};
use rusqlite::{Connection, Row, params};

use crate::calls::unavailable;
use crate::columns::{Micros, parse};
use crate::database::{Database, Durability};

/// Published models in the database of a data directory. Clones share it.
#[derive(Clone, Debug)]
pub struct SqlitePublishedModels {
    database: Database,
}

impl SqlitePublishedModels {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }
}

#[async_trait]
impl PublishedModels for SqlitePublishedModels {
    async fn revision(&self) -> Result<u64, CallsError> {
        self.database.read(revision).await.map_err(unavailable)
    }

    async fn load(&self) -> Result<Published, CallsError> {
        let loaded = self.database.read(|rows| {
            let versions = rows
                .prepare_cached(
                    "SELECT model, version, text, calls, published_at, withdrawn_at FROM published_models",
                )?
                .query_map([], read)?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(Published::new(revision(rows)?, versions))
        });
        loaded.await.map_err(unavailable)
    }

    async fn save(&self, change: &PublishedChange) -> Result<bool, CallsError> {
        let change = change.clone();
        // What an operator changes is written on a full disk too.
        let saved = self.database.write(Durability::Now.end(), move |rows| {
            if revision(rows)? != change.after {
                return Ok(false);
            }
            for (model, version) in &change.forget {
                rows.prepare_cached(
                    "DELETE FROM published_models WHERE model = ?1 AND version = ?2",
                )?
                .execute(params![model.as_str(), version])?;
            }
            for version in &change.write {
                write(rows, version, change.after + 1)?;
            }
            Ok(true)
        });
        saved.await.map_err(unavailable)
    }
}

fn revision(rows: &Connection) -> rusqlite::Result<u64> {
    let newest: i64 = rows
        .prepare_cached("SELECT coalesce(max(changed), 0) FROM published_models")?
        .query_row([], |row| row.get(0))?;
    Ok(newest.cast_unsigned())
}

fn write(rows: &Connection, version: &PublishedVersion, change: u64) -> rusqlite::Result<()> {
    let calls: Vec<&str> = version.calls.iter().map(|id| id.as_str()).collect();
    rows.prepare_cached(
        "INSERT OR REPLACE INTO published_models
            (model, version, text, calls, changed, published_at, withdrawn_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        version.model.as_str(),
        version.version,
        &*version.text,
        calls.join(" "),
        change.cast_signed(),
        Micros(version.published_at),
        version.withdrawn_at.map(Micros),
    ])?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<PublishedVersion> {
    let model: String = row.get(0)?;
    let text: String = row.get(2)?;
    let calls: String = row.get(3)?;
    let Micros(published_at) = row.get(4)?;
    let withdrawn_at: Option<Micros> = row.get(5)?;
    Ok(PublishedVersion {
        model: parse(&model)?,
        version: row.get(1)?,
        text: text.into(),
        calls: calls
            .split_whitespace()
            .map(parse)
            .collect::<rusqlite::Result<_>>()?,
        published_at,
        withdrawn_at: withdrawn_at.map(|Micros(at)| at),
    })
}

#[cfg(test)]
mod tests {
    use crate::Store;

    #[tokio::test]
    async fn published_models_in_rows_keep_the_contract() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(root.path()).expect("it is new");
        let (one, other) = (store.published(), store.published());
        router_core::contract::published(&one, &other).await;
    }
}
