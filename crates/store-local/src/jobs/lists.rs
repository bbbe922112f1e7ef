//! Lists of an account's jobs, newest first, narrowed by labels.

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use workflow_core::{JobId, JobQuery};

use crate::columns::Id;

/// Ids of the jobs of a list, newest first.
pub(super) fn ids(
    rows: &Connection,
    query: &JobQuery,
    now: Timestamp,
) -> rusqlite::Result<Vec<JobId>> {
    // The rarest label is not known; the first one leads and the others are looked up.
    let account = Value::Text(query.account.to_string());
    let mut values = vec![account, Value::Integer(now.as_microsecond())];
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
    if let Some(after) = query.after {
        let first = values.len() + 1;
        values.push(Value::Integer(after.created_at.as_microsecond()));
        values.push(Value::Blob(after.id.0.as_bytes().to_vec()));
        sql += &format!(
            " AND ({age}.created_at, {age}.id) < (?{first}, ?{})",
            first + 1
        );
    }
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    sql += &format!(" ORDER BY {age}.created_at DESC, {age}.id DESC LIMIT {limit}");
    let mut statement = rows.prepare_cached(&sql)?;
    let ids = statement.query_map(params_from_iter(values), |row| row.get::<_, Id>(0))?;
    ids.map(|id| Ok(JobId(id?.0))).collect()
}
