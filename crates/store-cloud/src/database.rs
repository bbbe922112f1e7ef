//! A pool of connections to PostgreSQL, and the transactions that every port writes in.

mod checks;
mod connect;
mod error;
mod options;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use hyper_kit::client::tls_config;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::batch::Turnstile;
use crate::migrations;
use crate::schema::SCHEMA;
use checks::Clocks;
use connect::{Giving, Hosts};
use options::Address;

pub(crate) use connect::Connections;
pub use error::DatabaseOpenError;
#[cfg(feature = "workflow")]
pub(crate) use options::BEFORE_PACKED_CHANGES;
pub use options::DatabaseOptions;
pub(crate) use options::{BEFORE_BLOBS_IN_ROWS, SERVING};

/// How much longer than its hosts may take a connection may take altogether: for its settings.
const SETTINGS: Duration = Duration::from_secs(3);

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

impl DatabaseError {
    /// What PostgreSQL itself said, if it was its answer: then nothing of the transaction was done.
    pub(crate) fn state(&self) -> Option<&SqlState> {
        match self {
            Self::Failed(error) => error.code(),
            Self::Batch(error) => error.state(),
            Self::NoConnection(_) | Self::Unreadable(_) | Self::Closing => None,
        }
    }

    /// Whether the disk of the database is full.
    pub(crate) fn is_full(&self) -> bool {
        self.state()
            .is_some_and(|state| *state == SqlState::DISK_FULL)
    }

    /// Whether the database has no whole row or page where it looked.
    pub(crate) fn is_damage(&self) -> bool {
        self.state()
            .is_some_and(|state| *state == SqlState::DATA_CORRUPTED)
    }

    /// Whether the database was not there, or went away meanwhile.
    pub(crate) fn is_absence(&self) -> bool {
        match self {
            Self::NoConnection(_) => true,
            // The server stops, starts, or was told to end the connection; or the connection broke.
            Self::Failed(error) => error
                .code()
                .is_none_or(|state| state.code().starts_with("57P")),
            Self::Batch(error) => error.is_absence(),
            Self::Unreadable(_) | Self::Closing => false,
        }
    }
}

/// One PostgreSQL database whose schema is the one of this version. Clones share their connections.
#[derive(Clone)]
pub struct Database {
    pool: WatchedPool,
    /// Of the connections that carry out steps.
    steps: WatchedPool,
    config: Config,
    hosts: Hosts,
    clocks: Clocks,
    /// What batches of calls take one after the other.
    turnstile: Turnstile,
}

/// A pool, and whether it gives connections.
#[derive(Clone)]
struct WatchedPool {
    pool: Pool,
    giving: Arc<Giving>,
}

/// A connection over TLS or without it.
pub(crate) type DatabaseStream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

impl Database {
    /// Connects to the database at `address` (`postgres://user@host/name`, or a list of `key=value`), and brings its schema up to
    /// this version. `sslmode` says whether TLS is used, and `sslrootcert` names a file of authorities.
    ///
    /// # Errors
    /// If it cannot be reached or written, or a newer version of the program changed its schema: with a sentence that says what to
    /// do.
    pub async fn open(address: &str, options: DatabaseOptions) -> Result<Self, DatabaseOpenError> {
        let database = Self::connect(address, options).await?;
        migrations::run(&database, SCHEMA).await?;
        Ok(database)
    }

    /// Connects to a database and leaves its schema as it is.
    pub(crate) async fn connect(
        address: &str,
        options: DatabaseOptions,
    ) -> Result<Self, DatabaseOpenError> {
        let Address {
            config,
            extra_ca_pem,
            place,
        } = Address::read(address, &options)?;
        let tls = tls_config(extra_ca_pem.as_deref()).map_err(DatabaseOpenError::Authorities)?;
        let tls = MakeRustlsConnect::new(tls);
        let connections = Connections::default();
        let hosts = Hosts::of(&config, tls, connections.clone());
        let pool = |hosts: Hosts, most: usize| {
            let recycling = ManagerConfig {
                recycling_method: RecyclingMethod::Fast,
            };
            let patience = hosts.patience() + SETTINGS;
            let manager = Manager::from_connect(config.clone(), hosts, recycling);
            let pool = Pool::builder(manager)
                .max_size(most)
                .runtime(Runtime::Tokio1)
                .wait_timeout(Some(options.patience))
                .create_timeout(Some(patience))
                .build()
                .expect("a runtime is given");
            WatchedPool {
                pool,
                giving: Arc::default(),
            }
        };
        // With one, a step that waits for a lock of another replica would stop all others.
        let of_steps = (options.connections / 2).max(2);
        let others = options.connections.saturating_sub(of_steps).max(2);
        let database = Self {
            pool: pool(hosts.clone(), others),
            steps: pool(hosts.by_index(), of_steps),
            config,
            hosts,
            clocks: Clocks::new(options.clock),
            turnstile: Turnstile::over(connections),
        };
        database.check_server(&place).await?;
        Ok(database)
    }

    /// A connection, for reading or for [`deadpool_postgres::ClientWrapper::transaction`]. A transaction that is dropped without
    /// its commit is rolled back.
    ///
    /// # Errors
    /// If none comes in time.
    pub(crate) async fn connection(&self) -> Result<Object, DatabaseError> {
        self.given_by(&self.pool).await
    }

    /// A connection for a step, whose every statement is planned once: through an index, row by row.
    ///
    /// # Errors
    /// If none comes in time.
    pub(crate) async fn connection_by_index(&self) -> Result<Object, DatabaseError> {
        self.given_by(&self.steps).await
    }

    async fn given_by(
        &self,
        WatchedPool { pool, giving }: &WatchedPool,
    ) -> Result<Object, DatabaseError> {
        let asked = Instant::now();
        let given = pool.get().await;
        match given {
            Ok(_) => giving.gave(),
            // In the pool, or for the server to greet a new one.
            Err(PoolError::Timeout(TimeoutType::Wait | TimeoutType::Create)) => {
                if let Some(since) = giving.starved(asked) {
                    self.watched().end_those_before(since);
                }
            }
            Err(_) => {}
        }
        given.map_err(DatabaseError::NoConnection)
    }

    /// The connections of both pools.
    pub(crate) fn watched(&self) -> &Connections {
        self.turnstile.connections()
    }

    /// The turns of batches of calls.
    pub(crate) fn turnstile(&self) -> &Turnstile {
        &self.turnstile
    }

    /// Connections in use, those that are free, and tasks that wait for one.
    pub(crate) fn connections(&self) -> (u32, u32, u32) {
        let (one, other) = (self.pool.pool.status(), self.steps.pool.status());
        let shown = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let free = one.available + other.available;
        let used = (one.size + other.size).saturating_sub(free);
        (shown(used), shown(free), shown(one.waiting + other.waiting))
    }

    /// A connection apart from the pool, for a listener: its messages come as the caller polls it.
    ///
    /// # Errors
    /// If no server answers in time.
    pub(crate) async fn listener(
        &self,
    ) -> Result<(Client, Connection<Socket, DatabaseStream>), DatabaseError> {
        self.hosts.connect().await
    }
}

/// Hosts and database of an address, without any secret.
pub(crate) fn place_of(address: &str) -> String {
    let read = Address::read(address, &DatabaseOptions::default());
    read.map_or_else(|error| error.to_string(), |address| address.place)
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({})", options::place(&self.config))
    }
}

#[cfg(test)]
impl Database {
    /// Every connection that it may have.
    pub(crate) async fn every_connection(&self) -> Vec<Object> {
        let mut all = Vec::new();
        for WatchedPool { pool, .. } in [&self.pool, &self.steps] {
            for _ in 0..pool.status().max_size {
                all.push(pool.get().await.expect("it answers"));
            }
        }
        all
    }
}

#[cfg(test)]
mod opening_tests;
#[cfg(test)]
mod silence_tests;

#[cfg(test)]
mod tests {
    use crate::testing;

    #[tokio::test]
    async fn an_answer_is_on_disk_whatever_the_server_says() {
        if !crate::testing::has_postgres() {
            return;
        }
        let database = testing::database().await;
        let connection = database.connection().await.expect("it answers");
        let row = connection.query_one("SHOW synchronous_commit", &[]).await;
        let setting: String = row.expect("it is a setting").get(0);
        assert_eq!(setting, "on");
    }
}
