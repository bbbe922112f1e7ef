//! Rows that are written again and again, such as the counts of an account, by their newest versions.
//!
//! While any transaction of the database stays open, PostgreSQL keeps each version that is written meanwhile, and a look for a row by
//! its key goes over all of them, oldest first: 4 ms after 27,000 versions. The index has them in the order of their places in the
//! table, and a new version usually stands behind the old ones, since none of those is cleaned up. So a look that goes backwards
//! finds it in the first page, in 0.01 ms. Whatever the order, one version at most is seen.
//!
//! An update cannot look backwards. It takes the row by its place, which such a look finds; so it is locked before, by a statement of
//! its own, and nobody moves it meanwhile.

/// The row of an account, as a subquery to be joined `LATERAL`. `account` is that of the other side.
pub(crate) fn newest(columns: &str, table: &str, account: &str) -> String {
    // With `=` there would be nothing to order by, and the planner would leave the order out.
    format!(
        "SELECT {columns} FROM {table} AS r WHERE r.account >= {account} AND r.account <= {account}
         ORDER BY r.account DESC LIMIT 1"
    )
}

/// What is `asked`, with columns `account` and others, and the `place` of the row of each account. `$1` are the accounts.
///
/// The accounts are named twice: without the second condition, the planner expects many of them and reads the whole index.
pub(crate) fn places(table: &str, asked: &str) -> String {
    let newest = newest("r.ctid AS place", table, "asked.account");
    format!(
        "SELECT asked.*, r.place FROM {asked} CROSS JOIN LATERAL ({newest}) AS r WHERE asked.account = ANY($1)"
    )
}
