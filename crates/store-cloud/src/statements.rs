//! Prepared statements, on a connection or in a transaction. Each is prepared once for a connection.

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
    let statement = rows.prepare_cached(sql).await?;
    Ok(rows.query(&statement, values).await?)
}

/// The row of the answer, if there is one.
pub(crate) async fn query_opt(
    rows: &impl GenericClient,
    sql: &str,
    values: Values<'_>,
) -> Result<Option<Row>, DatabaseError> {
    let statement = rows.prepare_cached(sql).await?;
    Ok(rows.query_opt(&statement, values).await?)
}

/// How many rows were changed.
pub(crate) async fn execute(
    rows: &impl GenericClient,
    sql: &str,
    values: Values<'_>,
) -> Result<u64, DatabaseError> {
    let statement = rows.prepare_cached(sql).await?;
    Ok(rows.execute(&statement, values).await?)
}

/// A number as a column holds it; what is more than there is of anything is cut off.
pub(crate) fn whole<T: TryInto<i64>>(number: T) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
