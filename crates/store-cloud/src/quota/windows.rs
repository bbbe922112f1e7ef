//! The SQL of rate windows: one row for each account, with the counts of all of its windows.

use std::sync::Arc;

use accounts::{AccountId, RateWindow, UsedUp, WindowCount, WindowCounts};
use foldhash::HashMap;
use futures_util::future::try_join;
use jiff::Timestamp;

use super::permits::add_accounts;
use crate::columns::unsigned;
use crate::statements::{Values, prepare};
use crate::step::{Commits, Step};
use crate::{Database, DatabaseError};

/// How many numbers a window takes in its column.
const NUMBERS: usize = 4;

/// A request that is to be counted.
pub(super) struct Request {
    pub(super) account: AccountId,
    pub(super) windows: Arc<[RateWindow]>,
    pub(super) now: Timestamp,
}

const ADD: &str = "INSERT INTO call_windows SELECT unnest($1::text[]) ON CONFLICT DO NOTHING";

const LOCK: &str =
    "SELECT account, counts FROM call_windows WHERE account = ANY($1) ORDER BY account FOR UPDATE";

const WRITE: &str = "UPDATE call_windows w SET counts = n.counts::bigint[]
    FROM unnest($1::text[], $2::text[]) AS n (account, counts) WHERE w.account = n.account";

/// Counts requests, one after the other.
pub(super) async fn count(
    database: &Database,
    requests: &[Request],
) -> Result<Vec<Result<(), UsedUp>>, DatabaseError> {
    let mut accounts: Vec<&str> = requests.iter().map(|one| one.account.as_str()).collect();
    accounts.sort_unstable();
    accounts.dedup();
    let step = Step::on(database).await?;
    let [lock, write] = prepare(&*step, [LOCK, WRITE]).await?;
    let found = loop {
        let (_, found) =
            try_join(step.begin(Commits::Lazily), step.query(&lock, &[&accounts])).await?;
        if found.len() == accounts.len() {
            break found;
        }
        step.undo().await?;
        add_accounts(&step, ADD, &accounts).await?;
    };
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
        let values: Values<'_> = &[&accounts, &counts];
        try_join(step.execute(&write, values), step.commit()).await?;
    } else {
        step.undo().await?;
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
