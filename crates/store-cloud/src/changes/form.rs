//! Which rows of changes every replica can read.
//!
//! A row may tell of several jobs, each with what its run reported: one row and one index entry in place of many. The version before
//! reads one change in a row and stops at anything else. Its connections have another name, and it cannot be started any more since
//! the schema is newer. So rows are packed once none of them was there for a while, and then for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::Shared;
use crate::DatabaseError;
use crate::database::SERVING_BEFORE;
use crate::statements::query;

/// The pause between two looks.
const AGAIN: Duration = Duration::from_secs(5);

/// How many looks in a row must see nobody of the version before: longer than one takes to come back after a failover.
const LOOKS: u32 = 12;

/// Whether rows may be packed.
#[derive(Debug, Default)]
pub(super) struct Form(AtomicBool);

impl Form {
    pub(super) fn is_packed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Looks until rows may be packed.
pub(super) async fn watch(shared: Arc<Shared>) {
    let mut seen_none = 0;
    let mut last = Instant::now();
    loop {
        // Between looks that are far apart, since this process slept or the server was silent, anybody may have come and gone.
        if last.elapsed() > 2 * AGAIN {
            seen_none = 0;
        }
        last = Instant::now();
        match look(&shared, &mut seen_none, LOOKS).await {
            Ok(true) => {
                shared.form.0.store(true, Ordering::Relaxed);
                return;
            }
            Ok(false) => {}
            Err(error) => {
                // Whatever was seen before: a server that is away has no connections.
                seen_none = 0;
                tracing::debug!(error = %error, "the form of changes was not read; trying again");
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Whether rows may be packed now. `seen_none` counts the looks in a row that saw nobody of the version before.
pub(super) async fn look(
    shared: &Shared,
    seen_none: &mut u32,
    looks: u32,
) -> Result<bool, DatabaseError> {
    let connection = shared.database.connection().await?;
    // A pooler may add the address of the host behind a dash.
    let sql = "SELECT packed, (SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND split_part(application_name, ' - ', 1) = $1)
        FROM job_change_form";
    let found = query(&connection, sql, &[&SERVING_BEFORE]).await?;
    let (is_packed, others): (bool, i64) = (found[0].try_get(0)?, found[0].try_get(1)?);
    if is_packed {
        return Ok(true);
    }
    if others > 0 {
        *seen_none = 0;
        return Ok(false);
    }
    *seen_none += 1;
    if *seen_none < looks {
        return Ok(false);
    }
    connection
        .execute("UPDATE job_change_form SET packed = true", &[])
        .await?;
    Ok(true)
}
