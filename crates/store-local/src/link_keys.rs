//! The keys that sign links, kept with the rows so that links outlive a restart.
//!
//! Two are read, the newest signs.

use asset_store::LinkKeys;
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use crate::columns::Id;

/// Makes the first key of a new directory.
pub(crate) fn ensure(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO link_keys (id, secret) SELECT 1, ?1 WHERE NOT EXISTS (SELECT 1 FROM link_keys)",
        [fresh_secret()],
    )?;
    Ok(())
}

/// The keys in force, the newest last.
pub(crate) fn read(connection: &Connection) -> rusqlite::Result<LinkKeys> {
    let mut statement =
        connection.prepare("SELECT id, secret FROM link_keys ORDER BY id DESC LIMIT 2")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut keys = rows.collect::<Result<Vec<(u32, [u8; 32])>, _>>()?;
    keys.reverse();
    Ok(LinkKeys::new(keys))
}

/// A secret of this installation: the same after every restart, and other than the keys in force.
pub(crate) fn installation_secret(connection: &Connection) -> rusqlite::Result<[u8; 32]> {
    if let Some((_, secret)) = moved(connection)? {
        return Ok(secret);
    }
    let first: [u8; 32] = connection.query_row(
        "SELECT secret FROM link_keys ORDER BY id LIMIT 1",
        [],
        |row| row.get(0),
    )?;
    Ok(blake3::derive_key("easel installation secret v1", &first))
}

/// The id and the secret of an installation that came from another store. A database that was not migrated yet has no such table.
pub(crate) fn moved(connection: &Connection) -> rusqlite::Result<Option<(Uuid, [u8; 32])>> {
    let table = "SELECT 1 FROM sqlite_schema WHERE name = 'moved_installation'";
    if !connection.prepare(table)?.exists([])? {
        return Ok(None);
    }
    let row = connection.query_row("SELECT id, secret FROM moved_installation", [], |row| {
        let Id(id) = row.get(0)?;
        Ok((id, row.get(1)?))
    });
    row.optional()
}

/// Makes a key that signs from the next reading on. Those before the last one are read no more, and their links end; the
/// first stays, because the secret of the installation follows from it.
pub(crate) fn rotate(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO link_keys (secret) VALUES (?1)",
        [fresh_secret()],
    )?;
    Ok(())
}

/// 32 bytes made of the randomness of the system: three random UUIDs carry 366 bits of it.
fn fresh_secret() -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("easel link key v1");
    for _ in 0..3 {
        hasher.update(Uuid::new_v4().as_bytes());
    }
    hasher.finalize().into()
}
