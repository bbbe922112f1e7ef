//! A pool of connections to PostgreSQL, and the transactions that every port writes in.

use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Connection, NoTls, Socket};

use crate::migrations::{self, MigrationError};
use crate::schema::SCHEMA;

/// The settings of every connection, whatever the server's defaults are: an answer that a client got is on disk; a process that was
/// stopped in the middle of a transaction loses its locks; no statement is worth compiling.
const SESSION: &str =
    "SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '10s'; SET jit = off";

/// How a database is used.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Most connections of this process.
    pub connections: usize,
    /// How long a request waits for a connection, and a new connection for the server, at most.
    pub patience: Duration,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            connections: 16,
            patience: Duration::from_secs(5),
        }
    }
}

/// The database cannot answer now, or holds what this program does not read.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// No connection came in time, or none can be made.
    #[error("no connection to PostgreSQL")]
    NoConnection(#[source] PoolError),
    /// A statement failed, or the connection broke: whether a commit was made is not known then.
    #[error("PostgreSQL failed")]
    Failed(#[from] tokio_postgres::Error),
    /// A statement of a batch failed, and with it everything in the batch.
    #[error("a batch failed")]
    Batch(#[source] std::sync::Arc<DatabaseError>),
    /// A row holds what this program does not write.
    #[error("a row cannot be read")]
    Unreadable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The tasks of this store have ended.
    #[error("the store is closing")]
    Closing,
}

/// One PostgreSQL database whose schema is the one of this version. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Database {
    pool: Pool,
    config: tokio_postgres::Config,
}

impl Database {
    /// Connects to the database at `url` (`postgres://user@host/name`, or a list of `key=value`), and brings its schema up to
    /// this version.
    ///
    /// # Errors
    /// If it cannot be reached or written, or a newer version of the program changed its schema.
    pub async fn open(url: &str, options: DatabaseOptions) -> Result<Self, MigrationError> {
        let mut config: tokio_postgres::Config = url.parse().map_err(MigrationError::Url)?;
        config
            .application_name("easel")
            .connect_timeout(options.patience)
            .keepalives_idle(Duration::from_secs(30));
        let recycling = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = Manager::from_config(config.clone(), NoTls, recycling);
        let pool = Pool::builder(manager)
            .max_size(options.connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(options.patience))
            .create_timeout(Some(options.patience))
            .post_create(Hook::async_fn(|client, _| {
                Box::pin(async move {
                    client
                        .batch_execute(SESSION)
                        .await
                        .map_err(HookError::Backend)
                })
            }))
            .build()
            .expect("a runtime is given");
        let database = Self { pool, config };
        migrations::run(&database, SCHEMA).await?;
        Ok(database)
    }

    /// A connection, for reading or for [`deadpool_postgres::ClientWrapper::transaction`]. A transaction that is dropped without
    /// its commit is rolled back.
    ///
    /// # Errors
    /// If none comes in time.
    pub(crate) async fn connection(&self) -> Result<Object, DatabaseError> {
        self.pool.get().await.map_err(DatabaseError::NoConnection)
    }

    /// A connection apart from the pool, for a listener: its messages come as the caller polls it.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(crate) async fn listener(
        &self,
    ) -> Result<(Client, Connection<Socket, NoTlsStream>), DatabaseError> {
        Ok(self.config.connect(NoTls).await?)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing;

    #[tokio::test]
    async fn an_answer_is_on_disk_whatever_the_server_says() {
        let database = testing::database().await;
        let connection = database.connection().await.expect("it answers");
        let row = connection.query_one("SHOW synchronous_commit", &[]).await;
        let setting: String = row.expect("it is a setting").get(0);
        assert_eq!(setting, "on");
    }
}
