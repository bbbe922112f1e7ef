//! Lists of an account's jobs, newest first, narrowed by labels.

use std::sync::Arc;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use workflow_core::{Job, JobQuery};

use super::rows::{self, COLUMNS, OUTPUTS};
use crate::DatabaseError;
use crate::names;
use crate::statements::{query, whole};

/// The jobs of a list: those in the queue or at work, those that are over, or both.
pub(super) async fn list(
    rows: &impl GenericClient,
    asked: &JobQuery,
    now: Timestamp,
) -> Result<Vec<Arc<Job>>, DatabaseError> {
    let labels = asked
        .labels
        .iter()
        .map(|(key, value)| names::of_label(key, value));
    let labels: Vec<Uuid> = labels.collect();
    let statuses: Vec<&str> = asked.statuses.iter().map(|status| status.name()).collect();
    let after = asked.after.map(|after| (after.created_at, after.id));
    let (after_time, after_id) = after.unzip();
    // The largest position: nothing is before it.
    let after_time = after_time.map_or(i64::MAX, |time: Timestamp| time.as_microsecond());
    let after_id = after_id.map_or(Uuid::max(), |id| id.0);
    let account = asked.account.as_str();
    let (limit, outputs) = (whole(asked.limit), whole(asked.outputs));
    let now = now.as_microsecond();

    // The rarest label is not known; the first one leads and the others are looked up.
    let mut from = String::new();
    let mut age = ("j.created_at", "j.id");
    let mut labelled = String::new();
    for place in 0..labels.len() {
        let number = 7 + place;
        if place == 0 {
            from =
                format!("job_labels AS l JOIN $TABLE AS j ON l.label = ${number} AND l.job = j.id");
            labelled = " AND l.account = $1".to_owned();
            age = ("l.created_at", "l.job");
        } else {
            labelled += &format!(
                " AND EXISTS (SELECT 1 FROM job_labels AS o WHERE o.account = $1 AND o.label = ${number}
                  AND o.created_at = j.created_at AND o.job = j.id)"
            );
        }
    }
    if from.is_empty() {
        "$TABLE AS j".clone_into(&mut from);
    }
    let part = |table: &str, unexpired: &str| {
        let from = from.replace("$TABLE", table);
        let stands = match statuses.is_empty() {
            true => String::new(),
            false => {
                let names = statuses.iter().map(|name| format!("'{name}'"));
                format!(
                    " AND j.status IN ({})",
                    names.collect::<Vec<_>>().join(", ")
                )
            }
        };
        format!(
            "(SELECT j.* FROM {from} WHERE j.account = $1 AND ({}, {}) < ($2, $3){stands}{labelled}{unexpired}
              ORDER BY {} DESC, {} DESC LIMIT $4)",
            age.0, age.1, age.0, age.1
        )
    };
    let live = part("jobs", "");
    let over = part("jobs_over", " AND j.expires_at > $6");
    let parts = match asked.over {
        None => format!("{live} UNION ALL {over}"),
        Some(true) => over,
        Some(false) => live,
    };
    let sql = format!(
        "SELECT {COLUMNS}, {OUTPUTS} FROM (
            SELECT *, coalesce(sum(outputs) OVER (
                ORDER BY created_at DESC, id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING
            ), 0)::bigint AS before_last
            FROM ({parts}) AS j ORDER BY created_at DESC, id DESC LIMIT $4
        ) AS j WHERE before_last < greatest($5::bigint, 1) AND $6::bigint IS NOT NULL ORDER BY created_at DESC, id DESC"
    );
    let mut values: Vec<&(dyn ToSql + Sync)> =
        vec![&account, &after_time, &after_id, &limit, &outputs, &now];
    values.extend(labels.iter().map(|label| label as &(dyn ToSql + Sync)));
    let found = query(rows, &sql, &values).await?;
    let jobs = found
        .iter()
        .map(|row| Ok(Arc::new(rows::with_outputs(row)?.job)));
    let mut jobs = jobs.collect::<Result<Vec<_>, DatabaseError>>()?;
    asked.arrange(&mut jobs);
    Ok(jobs)
}
