//! Which rows every replica can read.
//!
//! A new version may write rows in a form that the version before does not read. Its connections have another name, and the version
//! before cannot be started any more since the schema is newer. So the new form is written once no connection of the version before
//! was there for a while, and then for good.

use std::time::Duration;

use tokio::time::Instant;

use crate::database::BEFORE_BLOBS_IN_ROWS;
#[cfg(feature = "workflow")]
use crate::database::BEFORE_PACKED_CHANGES;
use crate::statements::query;
use crate::{Database, DatabaseError};

/// The pause between two looks.
const AGAIN: Duration = Duration::from_secs(5);

/// How many looks in a row must see nobody of the version before: longer than one takes to come back after a failover.
pub(crate) const LOOKS: u32 = 12;

/// A form of rows, by the table that says whether it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    look: &'static str,
    allow: &'static str,
    /// The names of connections of versions that do not read it.
    before: &'static [&'static str],
}

/// Rows of changes that tell of several jobs, each with what its run reported: one row and one index entry in place of many.
#[cfg(feature = "workflow")]
pub(crate) const PACKED_CHANGES: Form = Form {
    look: "SELECT packed FROM job_change_form",
    allow: "UPDATE job_change_form SET packed = true",
    before: BEFORE_PACKED_CHANGES,
};

/// Small blobs, whose bytes are in their rows.
pub(crate) const BLOBS_IN_ROWS: Form = Form {
    look: "SELECT in_rows FROM blob_form",
    allow: "UPDATE blob_form SET in_rows = true",
    before: BEFORE_BLOBS_IN_ROWS,
};

/// Returns once the form is written.
pub(crate) async fn is_written(database: &Database, form: Form) {
    let mut seen_none = 0;
    let mut last = Instant::now();
    loop {
        // Between looks that are far apart, since this process slept or the server was silent, anybody may have come and gone.
        if last.elapsed() > 2 * AGAIN {
            seen_none = 0;
        }
        last = Instant::now();
        match look(database, form, &mut seen_none, LOOKS).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => {
                // Whatever was seen before: a server that is away has no connections.
                seen_none = 0;
                tracing::debug!(error = %error, "the form of rows was not read; trying again");
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Whether the form is written from now on. `seen_none` counts the looks in a row that saw nobody of the version before.
pub(crate) async fn look(
    database: &Database,
    form: Form,
    seen_none: &mut u32,
    looks: u32,
) -> Result<bool, DatabaseError> {
    let connection = database.connection().await?;
    let found = query(&connection, form.look, &[]).await?;
    if found[0].try_get(0)? {
        return Ok(true);
    }
    // A pooler may add the address of the host behind a dash.
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND split_part(application_name, ' - ', 1) = ANY($1)";
    let others = query(&connection, sql, &[&form.before]).await?;
    if others[0].try_get::<_, i64>(0)? > 0 {
        *seen_none = 0;
        return Ok(false);
    }
    *seen_none += 1;
    if *seen_none < looks {
        return Ok(false);
    }
    connection.execute(form.allow, &[]).await?;
    Ok(true)
}
