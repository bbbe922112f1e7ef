//! The SQL of rate windows: one row for each account, with the counts of all of its windows.

use std::sync::Arc;

use accounts::{AccountId, RateWindow, UsedUp, WindowCount, WindowCounts};
use foldhash::HashMap;
use futures_util::future::{try_join, try_join3};
use jiff::Timestamp;

use super::permits::lazily;
use crate::columns::unsigned;
use crate::{Database, DatabaseError};

/// How many numbers a window takes in its column.
const NUMBERS: usize = 4;

/// A request that is to be counted.
pub(super) struct Request {
    pub(super) account: AccountId,
    pub(super) windows: Arc<[RateWindow]>,
    pub(super) now: Timestamp,
}

/// Counts requests, one after the other.
pub(super) async fn count(
    database: &Database,
    requests: &[Request],
) -> Result<Vec<Result<(), UsedUp>>, DatabaseError> {
    let mut accounts: Vec<&str> = requests.iter().map(|one| one.account.as_str()).collect();
    accounts.sort_unstable();
    accounts.dedup();
    let mut connection = database.connection().await?;
    let rows = connection.transaction().await?;
    let add = rows.prepare_cached(
        "INSERT INTO call_windows SELECT unnest($1::text[]) ON CONFLICT DO NOTHING",
    );
    let lock = rows.prepare_cached(
        "SELECT account, counts FROM call_windows WHERE account = ANY($1) ORDER BY account FOR UPDATE",
    );
    let (add, lock) = try_join(add, lock).await?;
    let (_, _, found) = try_join3(
        lazily(&rows),
        rows.execute(&add, &[&accounts]),
        rows.query(&lock, &[&accounts]),
    )
    .await?;
    let mut known: HashMap<&str, WindowCounts> = HashMap::default();
    for row in &found {
        known.insert(row.get(0), read(&row.get::<_, Vec<i64>>(1))?);
    }
    let mut counted = Vec::with_capacity(requests.len());
    for one in requests {
        let counts = known.entry(one.account.as_str()).or_default();
        counted.push(counts.count(&one.windows, one.now));
    }
    if counted.iter().any(Result::is_ok) {
        let (accounts, counts): (Vec<&str>, Vec<String>) = known
            .iter()
            .map(|(account, counts)| (*account, text(counts)))
            .unzip();
        let write = rows.prepare_cached(
            "UPDATE call_windows w SET counts = n.counts::bigint[]
             FROM unnest($1::text[], $2::text[]) AS n (account, counts) WHERE w.account = n.account",
        );
        rows.execute(&write.await?, &[&accounts, &counts]).await?;
        rows.commit().await?;
    }
    Ok(counted)
}

fn read(numbers: &[i64]) -> Result<WindowCounts, DatabaseError> {
    let windows = numbers.chunks_exact(NUMBERS).map(|window| {
        Ok(WindowCount {
            window: RateWindow {
                requests: unsigned(window[0])?,
                seconds: unsigned(window[1])?,
            },
            number: window[2],
            requests: unsigned(window[3])?,
        })
    });
    windows.collect::<Result<_, _>>().map(WindowCounts)
}

/// The column as PostgreSQL reads it: a batch passes one such text for each row.
fn text(WindowCounts(counts): &WindowCounts) -> String {
    let windows = counts.iter().map(|count| {
        let RateWindow { requests, seconds } = count.window;
        format!("{requests},{seconds},{},{}", count.number, count.requests)
    });
    format!("{{{}}}", windows.collect::<Vec<_>>().join(","))
}
