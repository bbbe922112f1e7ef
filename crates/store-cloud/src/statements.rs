//! Prepared statements, on a connection or in a transaction. Each is prepared once for a connection.
//!
//! Each names the columns that it answers: a newer version of the program may add some while this one runs, and PostgreSQL carries
//! out no statement whose answer would have another form than when it was prepared.

use deadpool_postgres::GenericClient;
use futures_util::future::try_join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use crate::DatabaseError;

/// The values of a statement, `$1` first.
pub(crate) type Values<'v> = &'v [&'v (dyn ToSql + Sync)];

/// Prepares statements that are to be sent together.
pub(crate) async fn prepare<const N: usize>(
    rows: &impl GenericClient,
    sql: [&str; N],
) -> Result<[Statement; N], DatabaseError> {
    debug_assert!(sql.into_iter().all(names_its_columns), "{sql:?}");
    let prepared = try_join_all(sql.map(|sql| rows.prepare_cached(sql))).await?;
    Ok(prepared
        .try_into()
        .unwrap_or_else(|_| unreachable!("one for each")))
}

/// Every row of the answer.
pub(crate) async fn query(
    rows: &impl GenericClient,
    sql: &str,
    values: Values<'_>,
) -> Result<Vec<Row>, DatabaseError> {
    debug_assert!(names_its_columns(sql), "{sql}");
    let statement = rows.prepare_cached(sql).await?;
    Ok(rows.query(&statement, values).await?)
}

/// The row of the answer, if there is one.
pub(crate) async fn query_opt(
    rows: &impl GenericClient,
    sql: &str,
    values: Values<'_>,
) -> Result<Option<Row>, DatabaseError> {
    debug_assert!(names_its_columns(sql), "{sql}");
    let statement = rows.prepare_cached(sql).await?;
    Ok(rows.query_opt(&statement, values).await?)
}

/// How many rows were changed.
pub(crate) async fn execute(
    rows: &impl GenericClient,
    sql: &str,
    values: Values<'_>,
) -> Result<u64, DatabaseError> {
    debug_assert!(names_its_columns(sql), "{sql}");
    let statement = rows.prepare_cached(sql).await?;
    Ok(rows.execute(&statement, values).await?)
}

/// Whether the answer of a statement keeps its form when a table gets another column. Parts in parentheses do not answer.
fn names_its_columns(sql: &str) -> bool {
    let mut depth = 0_usize;
    let own = sql.chars().filter(|c| {
        depth = match c {
            '(' => depth + 1,
            ')' => depth.saturating_sub(1),
            _ => depth,
        };
        depth == 0
    });
    let own: String = own.collect();
    let verbs = ["SELECT", "INSERT", "UPDATE", "DELETE"];
    let verb = own.split_whitespace().find(|word| verbs.contains(word));
    let answered = match verb {
        Some("INSERT" | "UPDATE" | "DELETE") => own.rsplit_once("RETURNING").unwrap_or_default().1,
        _ => own.as_str(),
    };
    !answered.contains(".*") && !answered.contains("SELECT *")
}

/// A number as a column holds it; what is more than there is of anything is cut off.
pub(crate) fn whole<T: TryInto<i64>>(number: T) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_rows_are_noticed_where_they_are_answered() {
        for sql in [
            "SELECT * FROM accounts",
            "SELECT key, accounts.* FROM api_keys JOIN accounts USING (id)",
            "WITH held AS (SELECT id FROM a) UPDATE a SET b = 1 FROM held RETURNING a.*",
            "WITH one AS (SELECT id FROM a) SELECT * FROM one",
        ] {
            assert!(!names_its_columns(sql), "{sql}");
        }
        for sql in [
            "SELECT a, count(*) FROM b WHERE c = d * 2",
            "SELECT a FROM (SELECT * FROM b) AS c",
            "INSERT INTO a (b) SELECT * FROM unnest($1::uuid[])",
            "WITH n AS (SELECT n.* FROM unnest($1::uuid[]) AS n) INSERT INTO a SELECT n.* FROM n RETURNING b",
        ] {
            assert!(names_its_columns(sql), "{sql}");
        }
    }
}
