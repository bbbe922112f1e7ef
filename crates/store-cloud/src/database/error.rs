//! What can be wrong with a database, in sentences for the operator.

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use super::DatabaseError;

/// Why a database cannot be opened. The texts say what to do, and name no secret.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseOpenError {
    /// The address is none. What it says is left out, since it may hold a password.
    #[error(
        "this is no address of a PostgreSQL database; write postgres://USER@HOST/NAME, and sslmode and sslrootcert behind a `?`"
    )]
    Address,
    /// A file that the address or the environment names cannot be read.
    #[error("{path} cannot be read; correct the path, or make it readable for this user")]
    File {
        /// The path as it was named.
        path: String,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
    /// The file of authorities cannot be used.
    #[error("the file that `sslrootcert` names cannot be used")]
    Authorities(#[source] hyper_kit::client::ExtraCaError),
    /// No answer.
    #[error(
        "PostgreSQL at {place} cannot be reached; check the address, that the server runs and listens there, and the firewall"
    )]
    Unreachable {
        /// Hosts and database.
        place: String,
        /// What the socket said.
        #[source]
        error: DatabaseError,
    },
    /// The connection is not as secure as the address wants it, or the server is not who it should be.
    #[error(
        "no secure connection to PostgreSQL at {place}: name the file of its authority by `sslrootcert`, and a host of its certificate; in a private network, `sslmode=disable` connects without encryption"
    )]
    Tls {
        /// Hosts and database.
        place: String,
        /// What TLS said.
        #[source]
        error: DatabaseError,
    },
    /// The server does not let the user in.
    #[error(
        "PostgreSQL at {place} does not let this user in: check the user of the address, PGPASSWORD or PGPASSWORD_FILE, and pg_hba.conf"
    )]
    NotLetIn {
        /// Hosts and database.
        place: String,
        /// What the server said.
        #[source]
        error: DatabaseError,
    },
    /// There is no such database.
    #[error("the database of {place} does not exist; create it, or name another one")]
    Missing {
        /// Hosts and database.
        place: String,
    },
    /// All connections of the server are taken.
    #[error(
        "PostgreSQL at {place} has no connection left; raise its max_connections, or give each process fewer of them"
    )]
    TooMany {
        /// Hosts and database.
        place: String,
    },
    /// The server is too old.
    #[error("this PostgreSQL has version {0}; version 15 or newer is needed")]
    TooOld(u32),
    /// What is between does not keep a session together.
    #[error(
        "a pooler in transaction mode is between this program and PostgreSQL, which loses prepared statements, locks and notifications; connect to PostgreSQL itself, or set pool_mode = session in PgBouncer"
    )]
    Pooler,
    /// Leases and deadlines would mean something else in each process.
    #[error(
        "the clock of this machine and that of PostgreSQL are {seconds} s apart; set both by NTP: 5 s are the most"
    )]
    ClocksApart {
        /// How far, in whole seconds.
        seconds: i64,
    },
    /// A newer version of the program changed the schema.
    #[error(
        "the {aggregate} of this database have version {found}, and this program knows {known}: start the newer program"
    )]
    Newer {
        /// Whose tables.
        aggregate: String,
        /// What stands in the database.
        found: i32,
        /// What this program knows.
        known: usize,
    },
    /// Transactions of others did not let the schema be changed.
    #[error(
        "the schema of this database could not be changed in {seconds} s, because other transactions have its tables: find those in pg_stat_activity that began long ago, end them, and start this program again"
    )]
    Locked {
        /// For how long it was tried.
        seconds: u64,
        /// What the server said last.
        #[source]
        error: DatabaseError,
    },
    /// The database does not let this user make tables.
    #[error(
        "the user of this address may not create tables: grant CREATE on the schema, or name its owner"
    )]
    NotPermitted(#[source] DatabaseError),
    /// Anything else.
    #[error("the database cannot be opened")]
    Database(#[from] DatabaseError),
}

impl DatabaseOpenError {
    /// What it means that the first connection could not be made.
    pub(super) fn connecting(place: &str, error: DatabaseError) -> Self {
        let place = place.to_owned();
        let code = backend(&error).and_then(|error| error.code().cloned());
        let is_tls = backend(&error).is_some_and(is_tls);
        let is_unsaid = backend(&error).is_some_and(is_unsaid);
        match code {
            Some(SqlState::INVALID_CATALOG_NAME) => Self::Missing { place },
            Some(SqlState::TOO_MANY_CONNECTIONS) => Self::TooMany { place },
            Some(SqlState::CANNOT_CONNECT_NOW) => Self::Unreachable { place, error },
            Some(SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
                Self::NotLetIn { place, error }
            }
            Some(_) => Self::Database(error),
            None if is_tls => Self::Tls { place, error },
            None if is_unsaid => Self::NotLetIn { place, error },
            None => Self::Unreachable { place, error },
        }
    }
}

impl From<tokio_postgres::Error> for DatabaseOpenError {
    fn from(error: tokio_postgres::Error) -> Self {
        let not_permitted = error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE);
        let error = DatabaseError::from(error);
        match not_permitted {
            true => Self::NotPermitted(error),
            false => Self::Database(error),
        }
    }
}

/// What the driver said, if it was asked.
fn backend(error: &DatabaseError) -> Option<&tokio_postgres::Error> {
    match error {
        DatabaseError::NoConnection(PoolError::Backend(error)) => Some(error),
        DatabaseError::NoConnection(_)
        | DatabaseError::Failed(_)
        | DatabaseError::Batch(_)
        | DatabaseError::Unreadable(_)
        | DatabaseError::Closing => None,
    }
}

/// The kinds of the driver's errors are told by their texts alone.
fn is_tls(error: &tokio_postgres::Error) -> bool {
    error.to_string() == "error performing TLS handshake"
}

/// Whether the server asked for a password and there is none, or refused the way it was given.
fn is_unsaid(error: &tokio_postgres::Error) -> bool {
    ["authentication error", "invalid configuration"].contains(&error.to_string().as_str())
}
