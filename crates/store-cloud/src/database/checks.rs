//! What a server must be before an installation trusts it: new enough, in session with us, and at the same time; the last one for as
//! long as the installation is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use deadpool_postgres::Object;
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::SimpleQueryMessage;

use super::{Database, DatabaseError, DatabaseOpenError};
use crate::columns::from_micros;

/// The oldest version whose every feature is used.
const OLDEST: u32 = 15;

/// How far the clocks of a process and of the database may be apart.
const MOST_APART: SignedDuration = SignedDuration::from_secs(5);

impl Database {
    /// Checks the server over two connections.
    pub(super) async fn check_server(&self, place: &str) -> Result<(), DatabaseOpenError> {
        let first = self.connection().await;
        let first = first.map_err(|error| DatabaseOpenError::connecting(place, error))?;
        let version: u32 = value(&first, "SHOW server_version_num").await?;
        if version / 10_000 < OLDEST {
            return Err(DatabaseOpenError::TooOld(version / 10_000));
        }
        let second = self.connection().await;
        let second = second.map_err(|error| DatabaseOpenError::connecting(place, error))?;
        if is_pooled(&first, &second).await? {
            return Err(DatabaseOpenError::Pooler);
        }
        match self.clocks.compare(&first).await? {
            0 => Ok(()),
            seconds => Err(DatabaseOpenError::ClocksApart { seconds }),
        }
    }

    /// Compares the clocks again.
    pub(crate) async fn compare_clocks(&self) -> Result<(), DatabaseError> {
        let connection = self.connection().await?;
        let before = self.clocks_apart();
        self.clocks.compare(&connection).await?;
        match (before, self.clocks_apart()) {
            (None, Some(seconds)) => tracing::error!(
                seconds,
                "the clocks of this machine and of PostgreSQL are apart: nothing is taken over from other replicas; set both by NTP"
            ),
            (Some(_), None) => {
                tracing::info!("the clocks of this machine and of PostgreSQL agree again")
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
        Ok(())
    }

    /// How many seconds the clocks were apart when they were compared last, if that is too much: leases and turns of others must
    /// not be judged by this one then.
    pub(crate) fn clocks_apart(&self) -> Option<i64> {
        let apart = self.clocks.apart.load(Ordering::Relaxed);
        (apart != 0).then_some(apart)
    }
}

#[cfg(test)]
impl Database {
    /// Has the clocks be so many seconds apart until they are compared again; 0 for little enough.
    pub(crate) fn set_clocks_apart(&self, seconds: i64) {
        self.clocks.apart.store(seconds, Ordering::Relaxed);
    }
}

/// Our clock beside the database's. Clones are the same.
#[derive(Clone)]
pub(super) struct Clocks {
    ours: fn() -> Timestamp,
    /// In seconds; 0 where it is little enough.
    apart: Arc<AtomicI64>,
}

impl Clocks {
    pub(super) fn new(ours: fn() -> Timestamp) -> Self {
        Self {
            ours,
            apart: Arc::default(),
        }
    }

    /// How far they are apart, in seconds; 0 where it is little enough.
    async fn compare(&self, connection: &Object) -> Result<i64, DatabaseError> {
        let asked = (self.ours)();
        let micros = value(
            connection,
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
        );
        let theirs = from_micros(micros.await?)?;
        let apart = seconds_apart(theirs, asked, (self.ours)());
        self.apart.store(apart, Ordering::Relaxed);
        Ok(apart)
    }
}

/// Whether the server behind a connection changes between transactions: what a pooler in transaction mode does. It gives a second
/// client the server that the first one has just used, or the first one another server while the second one has that.
async fn is_pooled(first: &Object, second: &Object) -> Result<bool, DatabaseOpenError> {
    const SERVER: &str = "SELECT pg_backend_pid()";
    let before: u32 = value(first, SERVER).await?;
    if value::<u32>(first, SERVER).await? != before {
        return Ok(true);
    }
    // A pooler that gives each statement another server refuses to begin.
    if second.batch_execute("BEGIN").await.is_err() {
        return Ok(true);
    }
    let theirs: u32 = value(second, SERVER).await?;
    let after: u32 = value(first, SERVER).await?;
    second.batch_execute("ROLLBACK").await?;
    Ok(theirs == before || after != before)
}

/// Compares the database's clock with ours, which it was asked between.
fn seconds_apart(theirs: Timestamp, asked: Timestamp, answered: Timestamp) -> i64 {
    let early = asked.duration_since(theirs);
    let late = theirs.duration_since(answered);
    let apart = early.max(late);
    match apart > MOST_APART {
        true => apart.as_secs(),
        false => 0,
    }
}

/// The one value that a statement answers, without preparing it, which poolers may not carry.
async fn value<T: std::str::FromStr>(
    connection: &Object,
    statement: &str,
) -> Result<T, DatabaseError>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let answer = connection.simple_query(statement).await?;
    let row = answer.iter().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else {
            return None;
        };
        row.get(0)
    });
    let parsed = row.unwrap_or_default().parse::<T>();
    parsed.map_err(|error| DatabaseError::Unreadable(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_be_five_seconds_apart_whatever_the_way_takes() {
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).expect("in range");
        let apart = |theirs, asked, answered| seconds_apart(at(theirs), at(asked), at(answered));
        assert_eq!(apart(0, 0, 0), 0);
        assert_eq!(apart(0, 5, 5), 0);
        assert_eq!(apart(10, 0, 30), 0);
        assert_eq!(apart(0, 60, 61), 60);
        assert_eq!(apart(61, 0, 1), 60);
    }
}
