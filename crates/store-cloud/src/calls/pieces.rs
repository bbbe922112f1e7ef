//! Bytes of any size in rows of bounded size: what keys answer again, and the bodies of requests that wait.

use bytes::{Bytes, BytesMut};
use deadpool_postgres::GenericClient;
use futures_util::{TryStreamExt, pin_mut};
use router_core::GenerationId;
use uuid::Uuid;

use crate::{Database, DatabaseError};

/// Most bytes of a row.
const PIECE: usize = 256 << 10;

/// Most rows of one statement.
const ROWS: usize = 16;

/// Which table.
#[derive(Clone, Copy)]
pub(super) enum Pieces {
    Replays,
    QueuedBodies,
}

impl Pieces {
    fn table(self) -> &'static str {
        match self {
            Self::Replays => "call_replays",
            Self::QueuedBodies => "queued_bodies",
        }
    }

    /// Writes the bytes of generations.
    pub(super) async fn write(
        self,
        rows: &impl GenericClient,
        bodies: &[(GenerationId, &Bytes)],
    ) -> Result<(), DatabaseError> {
        let pieces = bodies.iter().flat_map(|(id, body)| {
            let pieces = (0..).zip(body.chunks(PIECE));
            pieces.map(|(number, piece)| (id.0, number, piece))
        });
        let pieces: Vec<(Uuid, i32, &[u8])> = pieces.collect();
        if pieces.is_empty() {
            return Ok(());
        }
        let statement = rows
            .prepare_cached(&format!(
                "INSERT INTO {} SELECT * FROM unnest($1::uuid[], $2::integer[], $3::bytea[])",
                self.table()
            ))
            .await?;
        for some in pieces.chunks(ROWS) {
            let ids: Vec<Uuid> = some.iter().map(|(id, ..)| *id).collect();
            let numbers: Vec<i32> = some.iter().map(|(_, number, _)| *number).collect();
            let bytes: Vec<&[u8]> = some.iter().map(|(.., bytes)| *bytes).collect();
            rows.execute(&statement, &[&ids, &numbers, &bytes]).await?;
        }
        Ok(())
    }

    /// Reads the bytes of a generation piece by piece; none if there are none.
    pub(super) async fn read(
        self,
        database: &Database,
        GenerationId(id): GenerationId,
    ) -> Result<Bytes, DatabaseError> {
        let connection = database.connection().await?;
        let statement = connection
            .prepare_cached(&format!(
                "SELECT bytes FROM {} WHERE generation = $1 ORDER BY piece",
                self.table()
            ))
            .await?;
        let pieces = connection.query_raw(&statement, [id]).await?;
        pin_mut!(pieces);
        let mut body = BytesMut::new();
        while let Some(row) = pieces.try_next().await? {
            body.extend_from_slice(row.get(0));
        }
        Ok(body.freeze())
    }

    /// Forgets the bytes of generations.
    pub(super) async fn forget(
        self,
        rows: &impl GenericClient,
        ids: &[Uuid],
    ) -> Result<(), DatabaseError> {
        let statement = rows
            .prepare_cached(&format!(
                "DELETE FROM {} WHERE generation = ANY($1)",
                self.table()
            ))
            .await?;
        rows.execute(&statement, &[&ids]).await?;
        Ok(())
    }
}
