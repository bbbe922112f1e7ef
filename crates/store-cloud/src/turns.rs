//! Whose turn a work is, in a row for each. Nobody waits for a lock: a process that is gone is found out by the time.

use async_trait::async_trait;
use installation::{InstallationError, Turns, Work};
use jiff::Timestamp;
use uuid::Uuid;

use crate::statements::execute;
use crate::{Database, DatabaseError};

/// The turns of one process among those of a database.
#[derive(Debug)]
pub struct PgTurns {
    database: Database,
    holder: Uuid,
}

impl PgTurns {
    /// The turns of a process that is none of the others.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self {
            database,
            holder: Uuid::new_v4(),
        }
    }
}

#[async_trait]
impl Turns for PgTurns {
    async fn take(
        &self,
        work: Work,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, InstallationError> {
        const TAKE: &str = "INSERT INTO turns AS t (work, holder, until) VALUES ($1, $2, $3)
            ON CONFLICT (work) DO UPDATE SET holder = excluded.holder, until = excluded.until
            WHERE t.holder = excluded.holder OR t.until <= $4";
        if self.database.clocks_apart().is_some() {
            // Another one's turn might seem over that is not.
            return Ok(false);
        }
        let taken = async {
            let connection = self.database.connection().await?;
            let (until, now) = (until.as_microsecond(), now.as_microsecond());
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&work.as_str(), &self.holder, &until, &now];
            execute(&connection, TAKE, &values).await
        };
        taken.await.map(|rows| rows == 1).map_err(unavailable)
    }

    async fn give_back(&self, work: Work) -> Result<(), InstallationError> {
        const GIVE_BACK: &str = "DELETE FROM turns WHERE work = $1 AND holder = $2";
        let given = async {
            let connection = self.database.connection().await?;
            execute(&connection, GIVE_BACK, &[&work.as_str(), &self.holder]).await
        };
        given.await.map(|_| ()).map_err(unavailable)
    }
}

fn unavailable(error: DatabaseError) -> InstallationError {
    InstallationError(Box::new(error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use installation::contract::{self, Replica};
    use jiff::SignedDuration;

    use super::*;
    use crate::link_keys::PgKeys;
    use crate::{DatabaseOptions, testing};

    #[tokio::test]
    async fn turns_in_rows_keep_the_contract() {
        if !crate::testing::has_postgres() {
            return;
        }
        let url = testing::fresh_database().await;
        let one = PgTurns::new(testing::open(&url).await);
        let other = PgTurns::new(testing::open(&url).await);
        contract::turns(&one, &other).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn turns_and_secrets_in_rows_keep_the_contract_of_replicas() {
        if !crate::testing::has_postgres() {
            return;
        }
        contract::replicas(|| {
            let url = testing::now(testing::fresh_database());
            [(); 2].map(|()| {
                let database = testing::now(testing::open(&url));
                Replica {
                    keys: Arc::new(testing::now(PgKeys::open(database.clone())).expect("it opens")),
                    turns: Arc::new(PgTurns::new(database)),
                }
            })
        })
        .await;
    }

    #[tokio::test]
    async fn no_turn_is_taken_by_a_clock_that_went_wrong() {
        static SECONDS: AtomicI64 = AtomicI64::new(0);
        if !crate::testing::has_postgres() {
            return;
        }
        let url = testing::fresh_database().await;
        let options = DatabaseOptions {
            clock: || Timestamp::now() + SignedDuration::from_secs(SECONDS.load(Ordering::Relaxed)),
            ..DatabaseOptions::default()
        };
        let database = Database::open(&url, options)
            .await
            .expect("the clock is right");
        let turns = PgTurns::new(database.clone());
        let now = Timestamp::now();
        let take = || turns.take(Work::Assets, now, now + SignedDuration::from_secs(60));
        let compare = async |seconds| {
            SECONDS.store(seconds, Ordering::Relaxed);
            database.compare_clocks().await.expect("it answers");
        };
        compare(60).await;
        assert!((59..=60).contains(&database.clocks_apart().expect("they are apart")));
        assert!(!take().await.expect("it answers"));
        compare(-60).await;
        assert!(!take().await.expect("it answers"));
        compare(4).await;
        assert_eq!(database.clocks_apart(), None);
        assert!(take().await.expect("it answers"));
    }
}
