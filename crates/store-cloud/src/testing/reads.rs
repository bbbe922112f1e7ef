//! What PostgreSQL read for a store, by its own count, and a transaction that keeps vacuum from cleaning up.

use deadpool_postgres::Object;

use crate::Database;

/// Lets each connection tell what it did: it does when it is asked to, and some time later else.
pub(crate) async fn tell(database: &Database) {
    for connection in database.every_connection().await {
        let told = connection.batch_execute("SELECT pg_stat_force_next_flush()");
        told.await.expect("it answers");
    }
}

/// How many looks there were into each of these indexes until now, and how many entries they read.
pub(crate) async fn of_indexes<const N: usize>(
    database: &Database,
    names: [&str; N],
) -> [(i64, i64); N] {
    tell(database).await;
    let connection = database.connection().await.expect("it answers");
    let sql = "SELECT i.idx_scan, i.idx_tup_read FROM unnest($1::text[]) WITH ORDINALITY AS asked (name, place)
        JOIN pg_stat_user_indexes AS i ON i.indexrelname = asked.name ORDER BY asked.place";
    let read = connection.query(sql, &[&&names[..]]).await;
    let read = read.expect("an answer");
    let read: Vec<(i64, i64)> = read.iter().map(|row| (row.get(0), row.get(1))).collect();
    read.try_into().expect("one for each index")
}

/// How many rows of these tables were read until now by plans that read a table whole.
pub(crate) async fn of_whole_tables(database: &Database, names: [&str; 3]) -> i64 {
    tell(database).await;
    let connection = database.connection().await.expect("it answers");
    let sql = "SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relname = ANY($1)";
    let read = connection.query_one(sql, &[&&names[..]]).await;
    read.expect("an answer").get(0)
}

/// Lets the planner know how many rows these tables have.
pub(crate) async fn analyze(database: &Database, tables: &str) {
    let connection = database.connection().await.expect("it answers");
    let analyzed = connection.batch_execute(&format!("ANALYZE {tables}")).await;
    analyzed.expect("it answers");
}

/// A connection whose transaction sees the database as it is now, until it is dropped.
pub(crate) async fn left_open(database: &Database) -> Object {
    let open = database.connection().await.expect("it answers");
    let begin = "SET idle_in_transaction_session_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM accounts";
    let begun = open.batch_execute(begin).await;
    begun.expect("a transaction begins");
    open
}
