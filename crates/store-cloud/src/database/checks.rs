//! What a server must be before an installation trusts it: new enough, in session with us, and at the same time.

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
    pub(super) async fn check_server(
        &self,
        place: &str,
        clock: fn() -> Timestamp,
    ) -> Result<(), DatabaseOpenError> {
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
        let asked = clock();
        let micros = value(
            &first,
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
        );
        let theirs = from_micros(micros.await?)?;
        check_clocks(theirs, asked, clock())
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
fn check_clocks(
    theirs: Timestamp,
    asked: Timestamp,
    answered: Timestamp,
) -> Result<(), DatabaseOpenError> {
    let early = asked.duration_since(theirs);
    let late = theirs.duration_since(answered);
    let apart = early.max(late);
    match apart > MOST_APART {
        true => Err(DatabaseOpenError::ClocksApart {
            seconds: apart.as_secs(),
        }),
        false => Ok(()),
    }
}

/// The one value that a statement answers, without preparing it, which poolers may not carry.
async fn value<T: std::str::FromStr>(
    connection: &Object,
    statement: &str,
) -> Result<T, DatabaseOpenError>
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
    parsed.map_err(|error| DatabaseError::Unreadable(error.into()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_be_five_seconds_apart_whatever_the_way_takes() {
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).expect("in range");
        let check = |theirs, asked, answered| {
            let checked = check_clocks(at(theirs), at(asked), at(answered));
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(check(0, 0, 0), Ok(()));
        assert_eq!(check(0, 5, 5), Ok(()));
        assert_eq!(check(10, 0, 30), Ok(()));
        for (theirs, asked, answered) in [(0, 60, 61), (61, 0, 1)] {
            let refused = check(theirs, asked, answered).expect_err("they are apart");
            assert!(refused.contains("60 s apart"), "{refused}");
        }
    }
}
