//! Lists of an account's jobs, newest first, narrowed by labels.

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use workflow_core::{JobId, JobQuery, JobStatus};

use crate::columns::Id;

/// Ids of the jobs of a list, newest first.
pub(super) fn ids(
    rows: &Connection,
    query: &JobQuery,
    now: Timestamp,
) -> rusqlite::Result<Vec<JobId>> {
    let account = Value::Text(query.account.to_string());
    let mut values = vec![account, Value::Integer(now.as_microsecond())];
    let sql = match is_of_few(query) {
        true => of_few(query, &mut values),
        false => by_age(query, &mut values),
    };
    let mut statement = rows.prepare_cached(&sql)?;
    let ids = statement.query_map(params_from_iter(values), |row| row.get::<_, Id>(0))?;
    ids.map(|id| Ok(JobId(id?.0))).collect()
}

/// Whether a list has only jobs that are few among all that are kept: those that are not over, and those that ended without
/// success. They have indexes of their own. By age, a page of them may take all jobs of the account.
fn is_of_few(query: &JobQuery) -> bool {
    let is_live = query.over == Some(false);
    let is_by_status = !query.statuses.is_empty();
    query.labels.is_empty()
        && (is_live || (is_by_status && !query.statuses.contains(&JobStatus::Succeeded)))
}

fn of_few(query: &JobQuery, values: &mut Vec<Value>) -> String {
    let after = after(query, "jobs", values);
    let newest = newest("jobs", query);
    let part = |index: &str, which: &str| {
        format!(
            "SELECT * FROM (SELECT jobs.created_at, jobs.id FROM jobs INDEXED BY {index}
             WHERE jobs.account = ?1 AND {which}{after}{newest})"
        )
    };
    // The row of a job that is not over may say less than its worker told: all of them are looked at.
    let live = match query.over {
        Some(true) => "completed_at IS NULL AND ?2 IS NULL",
        Some(false) | None => "completed_at IS NULL AND ?2 IS NOT NULL",
    };
    let mut parts = vec![part("jobs_live", live)];
    let ended = query.statuses.iter().filter(|status| status.is_terminal());
    let ended: Vec<String> = ended.map(|status| format!("'{}'", status.name())).collect();
    if query.over != Some(false) && !ended.is_empty() {
        let which = format!(
            "completed_at IS NOT NULL AND status <> 'succeeded' AND status IN ({}) AND expires_at > ?2",
            ended.join(", ")
        );
        parts.push(part("jobs_unsuccessful", &which));
    }
    let newest = self::newest("jobs", query);
    format!(
        "SELECT id FROM ({}) AS jobs{newest}",
        parts.join(" UNION ALL ")
    )
}

fn by_age(query: &JobQuery, values: &mut Vec<Value>) -> String {
    // The rarest label is not known; the first one leads and the others are looked up.
    let mut parts = Vec::new();
    for (key, value) in &query.labels {
        let first = values.len() + 1;
        values.extend([Value::Text(key.clone()), Value::Text(value.clone())]);
        parts.push((first, first + 1));
    }
    let mut sql = String::from("SELECT jobs.id FROM ");
    let age = if let [(key, value), others @ ..] = &parts[..] {
        sql += "job_labels AS label JOIN jobs USING (seq) WHERE label.account = ?1";
        sql += &format!(" AND label.key = ?{key} AND label.value = ?{value}");
        for (key, value) in others {
            sql += &format!(
                " AND EXISTS (SELECT 1 FROM job_labels AS other WHERE other.account = ?1 AND other.key = ?{key}
                  AND other.value = ?{value} AND other.created_at = label.created_at AND other.id = label.id)"
            );
        }
        "label"
    } else {
        sql += "jobs WHERE jobs.account = ?1";
        "jobs"
    };
    sql += match query.over {
        None => " AND (completed_at IS NULL OR expires_at > ?2)",
        Some(true) => " AND completed_at IS NOT NULL AND expires_at > ?2",
        Some(false) => " AND completed_at IS NULL AND ?2 IS NOT NULL",
    };
    if !query.statuses.is_empty() {
        // The row of a job that is not over may say less than its worker told: all of them are looked at.
        sql += " AND (completed_at IS NULL";
        for status in query.statuses.iter().filter(|status| status.is_terminal()) {
            values.push(Value::Text(status.name().to_owned()));
            sql += &format!(" OR jobs.status = ?{}", values.len());
        }
        sql += ")";
    }
    sql += &after(query, age, values);
    sql + &newest(age, query)
}

/// Which jobs are behind the place where the list goes on.
fn after(query: &JobQuery, age: &str, values: &mut Vec<Value>) -> String {
    let Some(after) = query.after else {
        return String::new();
    };
    let first = values.len() + 1;
    values.push(Value::Integer(after.created_at.as_microsecond()));
    values.push(Value::Blob(after.id.0.as_bytes().to_vec()));
    let second = first + 1;
    format!(" AND ({age}.created_at, {age}.id) < (?{first}, ?{second})")
}

fn newest(age: &str, query: &JobQuery) -> String {
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    format!(" ORDER BY {age}.created_at DESC, {age}.id DESC LIMIT {limit}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::schema::SCHEMA;

    /// Jobs that succeeded, one that failed before all of them, and one that waits.
    fn rows(succeeded: u32) -> Connection {
        let rows = Connection::open_in_memory().expect("memory");
        for (_, files) in SCHEMA {
            for file in *files {
                rows.execute_batch(file).expect("a migration");
            }
        }
        let insert = format!(
            "WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n <= {succeeded})
             INSERT INTO jobs (id, account, revision, status, epoch, lost_claims, created_at, updated_at, completed_at, expires_at,
                retention, progress_value, nodes_done, nodes_total, metadata)
             SELECT randomblob(16), 'acme', 1, CASE n WHEN 0 THEN 'failed' WHEN 1 THEN 'queued' ELSE 'succeeded' END, 1, 0, n, n,
                iif(n = 1, NULL, n), 1000000000, 1, 0, 0, 1, '{{}}' FROM n"
        );
        rows.execute_batch(&insert).expect("rows");
        rows
    }

    /// How many jobs a list has, and how many hundreds of SQLite's steps it takes.
    fn cost(rows: &mut Connection, over: Option<bool>, statuses: &[JobStatus]) -> (usize, u64) {
        let query = JobQuery {
            account: "acme".parse().expect("a name"),
            labels: Vec::new(),
            over,
            statuses: statuses.to_vec(),
            after: None,
            limit: 50,
            outputs: usize::MAX,
        };
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        };
        rows.progress_handler(100, Some(count)).expect("a handler");
        let found = ids(rows, &query, Timestamp::UNIX_EPOCH).expect("a list");
        (found.len(), steps.load(Ordering::Relaxed))
    }

    #[test]
    fn a_list_takes_as_long_among_many_jobs_as_among_few() {
        use JobStatus::{Canceled, Expired, Failed, Queued, Running, Succeeded};
        let (mut few, mut many) = (rows(200), rows(20_000));
        for (over, statuses, found) in [
            (None, &[][..], 50),
            (Some(false), &[], 1),
            (Some(true), &[], 50),
            (None, &[Queued, Running], 1),
            (None, &[Failed, Canceled, Expired], 2),
            (Some(true), &[Failed], 1),
            (Some(true), &[Queued], 0),
            (None, &[Succeeded, Failed], 50),
        ] {
            let (among_few, among_many) = (
                cost(&mut few, over, statuses),
                cost(&mut many, over, statuses),
            );
            assert_eq!(among_few.0, found, "{over:?} {statuses:?}");
            assert_eq!(among_many.0, found, "{over:?} {statuses:?}");
            assert!(
                among_many.1 <= among_few.1 + 5,
                "{over:?} {statuses:?}: {among_many:?}, {among_few:?}"
            );
        }
    }
}
