//! Connections that read, each on one blocking thread at a time.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;
use tokio::task;

use super::{DatabaseError, Schema, connection, migrations};
use crate::open_error::OpenError;

/// How many read at once: more would only wait for the processors.
const READERS: usize = 4;

/// The idle connections. Callers wait for one in line, asynchronously. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    turns: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(super) fn open(path: &Path) -> rusqlite::Result<Self> {
        let idle = (0..READERS)
            .map(|_| connection::open_reading(path))
            .collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(Self {
            turns: Arc::new(Semaphore::new(READERS)),
            idle: Arc::new(Mutex::new(idle)),
        })
    }

    /// Opens a database that another process may be writing, if this version of the program can read it.
    #[cfg_attr(
        not(feature = "router"),
        expect(dead_code, reason = "the router's alone")
    )]
    pub(crate) fn open_alone(path: &Path, schema: Schema) -> Result<Self, OpenError> {
        let failed = |error: rusqlite::Error| OpenError::Database(error.into());
        let connection = connection::open_reading(path).map_err(failed)?;
        migrations::expect_current(&connection, schema)?;
        Ok(Self {
            turns: Arc::new(Semaphore::new(1)),
            idle: Arc::new(Mutex::new(vec![connection])),
        })
    }

    /// Closes what is idle; what is in use is closed when it comes back.
    pub(super) fn close(&self) {
        self.turns.close();
        lock(&self.idle).clear();
    }

    /// Runs `query` on one of them, within one snapshot.
    pub(crate) async fn read<T, F>(&self, query: F) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let turn = Arc::clone(&self.turns)
            .acquire_owned()
            .await
            .map_err(|_| DatabaseError::Abandoned)?;
        let idle = Arc::clone(&self.idle);
        // The turn goes with the query, not with the caller: a caller that stops waiting must not free it early.
        let reading = task::spawn_blocking(move || {
            let borrowed = Borrowed::take(idle);
            let answer = borrowed.connection().and_then(|connection| {
                let snapshot = connection.unchecked_transaction()?;
                query(&snapshot)
            });
            drop(borrowed);
            drop(turn);
            answer
        });
        let answer = reading.await.map_err(|_| DatabaseError::Abandoned)?;
        Ok(answer?)
    }
}

/// A connection that goes back to the idle ones, also when a query panics.
struct Borrowed {
    connection: Option<Connection>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Borrowed {
    fn take(idle: Arc<Mutex<Vec<Connection>>>) -> Self {
        let connection = lock(&idle).pop();
        Self { connection, idle }
    }

    fn connection(&self) -> rusqlite::Result<&Connection> {
        Ok(self
            .connection
            .as_ref()
            .expect("there are as many connections as turns"))
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        lock(&self.idle).extend(self.connection.take());
    }
}

fn lock(idle: &Mutex<Vec<Connection>>) -> std::sync::MutexGuard<'_, Vec<Connection>> {
    // Every change is one push or pop.
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}
