//! The secrets of an installation, in the row that there is one of. Two keys of links are read, the newest signs.

use asset_store::LinkKeys;
use async_trait::async_trait;
use installation::{InstallationError, SigningKeys};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::columns::{unreadable, unsigned};
use crate::statements::{execute, query_opt};
use crate::{Database, DatabaseError};

/// The secrets in a PostgreSQL database. Clones share it.
#[derive(Clone, Debug)]
pub struct PgKeys {
    database: Database,
}

/// 32 bytes made of the randomness of the server's system: three random UUIDs carry 366 bits of it.
const FRESH: &str = "sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))";

/// The row of the installation is gone.
#[derive(Debug, thiserror::Error)]
#[error("the database names no installation")]
struct NoInstallation;

impl PgKeys {
    /// The secrets of the installation in this database; made if it has none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn open(database: Database) -> Result<Self, DatabaseError> {
        let connection = database.connection().await?;
        let sql = format!(
            "INSERT INTO installation (id, secret, link_key) VALUES (gen_random_uuid(), {FRESH}, {FRESH})
             ON CONFLICT DO NOTHING"
        );
        execute(&connection, &sql, &[]).await?;
        drop(connection);
        Ok(Self { database })
    }

    /// Which installation this is. It tells no secret.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn installation_id(&self) -> Result<Uuid, DatabaseError> {
        Ok(self.row().await?.get("id"))
    }

    async fn row(&self) -> Result<Row, DatabaseError> {
        let connection = self.database.connection().await?;
        let sql = "SELECT id, secret, link_key, link_key_before, link_key_number FROM installation";
        let row = query_opt(&connection, sql, &[]).await?;
        row.ok_or_else(|| unreadable(NoInstallation))
    }

    async fn read_link_keys(&self) -> Result<LinkKeys, DatabaseError> {
        let row = self.row().await?;
        let number: u32 = unsigned(row.get("link_key_number"))?;
        let before: Option<&[u8]> = row.get("link_key_before");
        let mut keys = Vec::new();
        if let Some(before) = before {
            keys.push((number.saturating_sub(1), secret(before)?));
        }
        keys.push((number, secret(row.get("link_key"))?));
        Ok(LinkKeys::new(keys))
    }
}

fn secret(bytes: &[u8]) -> Result<[u8; 32], DatabaseError> {
    bytes.try_into().map_err(unreadable)
}

#[async_trait]
impl SigningKeys for PgKeys {
    async fn link_keys(&self) -> Result<LinkKeys, InstallationError> {
        self.read_link_keys().await.map_err(unavailable)
    }

    async fn rotate_link_keys(&self) -> Result<(), InstallationError> {
        let rotated = async {
            let connection = self.database.connection().await?;
            let sql = format!(
                "UPDATE installation SET link_key_before = link_key, link_key = {FRESH},
                    link_key_number = link_key_number + 1"
            );
            execute(&connection, &sql, &[]).await
        };
        rotated.await.map(|_| ()).map_err(unavailable)
    }

    async fn installation_secret(&self) -> Result<[u8; 32], InstallationError> {
        let row = self.row().await.map_err(unavailable)?;
        secret(row.get("secret")).map_err(unavailable)
    }
}

fn unavailable(error: DatabaseError) -> InstallationError {
    InstallationError(Box::new(error))
}

#[cfg(test)]
mod tests {
    use asset_store::{BlobHash, Link};
    use jiff::Timestamp;

    use super::*;
    use crate::testing;

    fn link() -> Link {
        Link {
            hash: BlobHash::of(b"bytes"),
            size_bytes: 5,
            content_type: "image/png".to_owned(),
            file_name: "a.png".to_owned(),
            expires_at: Timestamp::from_second(1_800_000_000).expect("in range"),
        }
    }

    #[tokio::test]
    async fn two_processes_that_open_at_once_have_the_same_secrets() {
        if !crate::testing::has_postgres() {
            return;
        }
        let url = testing::fresh_database().await;
        let open = async || {
            let keys = PgKeys::open(testing::open(&url).await).await;
            keys.expect("it can be written")
        };
        let (one, other) = futures_util::future::join(open(), open()).await;
        let secret = one.installation_secret().await.expect("an answer");
        assert_eq!(
            other.installation_secret().await.expect("an answer"),
            secret
        );
        assert_ne!(secret, [0; 32]);
        let id = one.installation_id().await.expect("an answer");
        assert_eq!(other.installation_id().await.expect("an answer"), id);
        let foreign = PgKeys::open(testing::database().await).await;
        let foreign = foreign.expect("it can be written");
        assert_ne!(
            foreign.installation_secret().await.expect("an answer"),
            secret
        );
    }

    #[tokio::test]
    async fn a_link_outlives_one_rotation_and_not_two() {
        if !crate::testing::has_postgres() {
            return;
        }
        let keys = PgKeys::open(testing::database().await).await;
        let keys = keys.expect("it can be written");
        let secret = keys.installation_secret().await.expect("an answer");
        let token = keys.link_keys().await.expect("an answer").sign(&link());
        for verifies in [true, true, false] {
            let now = Timestamp::from_second(1_790_000_000).expect("in range");
            let verified = keys
                .link_keys()
                .await
                .expect("an answer")
                .verify(&token, "a.png", now);
            assert_eq!(verified.is_ok(), verifies);
            keys.rotate_link_keys().await.expect("it is made");
        }
        assert_eq!(keys.installation_secret().await.expect("an answer"), secret);
    }
}
