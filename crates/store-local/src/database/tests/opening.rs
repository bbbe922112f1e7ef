//! Opening a database: its version, its rows of an older one, and the settings of its connections.

use super::*;

#[test]
fn a_database_of_a_newer_version_is_refused_with_what_to_do() {
    let (_root, directory) = directory();
    drop(open(Arc::clone(&directory)).expect("a fresh database"));
    let raw = Connection::open(directory.database()).expect("the file");
    for (aggregate, number) in [("assets", 99), ("of the future", 1)] {
        raw.execute(
            "INSERT INTO migrations VALUES (?1, ?2)",
            (aggregate, number),
        )
        .expect("a row");
        let refused = open(Arc::clone(&directory));
        let refused = refused.expect_err("it is newer").to_string();
        assert!(refused.contains("newer version"), "{refused}");
        assert!(
            refused.contains(&format!("{aggregate} {number}")),
            "{refused}"
        );
        raw.execute("DELETE FROM migrations WHERE number = ?1", [number])
            .expect("no row");
    }
}

/// The tables that later files lay out anew, with rows in them.
#[test]
fn rows_of_an_older_version_are_brought_along() {
    let (_root, directory) = directory();
    let mut raw = Connection::open(directory.database()).expect("a file");
    let older = [
        (
            "accounts",
            1,
            include_str!("../../../migrations/accounts/0001.sql"),
        ),
        (
            "calls",
            1,
            include_str!("../../../migrations/calls/0001.sql"),
        ),
        (
            "calls",
            2,
            include_str!("../../../migrations/calls/0002.sql"),
        ),
    ];
    let transaction = raw.transaction().expect("a transaction");
    transaction
        .execute_batch("CREATE TABLE migrations (aggregate TEXT NOT NULL, number INTEGER NOT NULL)")
        .expect("a table");
    for (aggregate, number, sql) in older {
        transaction.execute_batch(sql).expect("an older file");
        transaction
            .execute(
                "INSERT INTO migrations VALUES (?1, ?2)",
                (aggregate, number),
            )
            .expect("a row");
    }
    transaction
        .execute_batch(
            "INSERT INTO accounts (id, name, suspended, subscribed, router, billed, balance_cents, created_at)
                VALUES ('a', '', 0, 1, 1, 1, 70, 0), ('b', '', 0, 1, 1, 1, 5, 0);
             INSERT INTO ledger (account, why, cause, amount_cents, at)
                VALUES ('b', 1, x'01', 5, 1), ('a', 1, x'01', 100, 2), ('a', 2, x'02', -30, 3);
             INSERT INTO generations (id, account, model, hold_cents, dispatched_at, settled_at, charge_cents, outcome, replay)
                VALUES (zeroblob(16), 'a', 'm/n', 30, 2, 3, 30, 'answered', 2),
                       (randomblob(16), 'a', 'm/n', 7, 4, NULL, NULL, NULL, 0);",
        )
        .expect("rows");
    transaction.commit().expect("a database");
    drop(raw);

    drop(open(Arc::clone(&directory)).expect("it is brought up to date"));
    let raw = Connection::open(directory.database()).expect("the file");
    let told = |sql: &str| -> Vec<String> {
        let mut statement = raw.prepare(sql).expect("a statement");
        let rows = statement.query_map([], |row| row.get(0)).expect("rows");
        rows.collect::<rusqlite::Result<_>>().expect("texts")
    };
    assert_eq!(
        told(
            "SELECT account || seq || ':' || why || ':' || hex(cause) || ':' || amount_cents || ':' || at FROM ledger"
        ),
        ["a2:1:01:100:2", "a3:2:02:-30:3", "b1:1:01:5:1"]
    );
    assert_eq!(
        told(
            "SELECT hold_cents || coalesce(':' || settled_at || outcome || replay, '') FROM generations ORDER BY dispatched_at"
        ),
        ["30:3answered2", "7"]
    );
    raw.execute_batch("DELETE FROM ledger")
        .expect_err("an entry does not go");
    let again = "INSERT INTO ledger VALUES ('a', 9, 2, x'02', -30, 9)";
    raw.execute_batch(again).expect_err("it has its entry");
}

#[test]
fn every_connection_has_the_settings_that_durability_rests_on() {
    let (_root, directory) = directory();
    let path = directory.database();
    let writing = connection::open_writing(&path).expect("a connection");
    let reading = connection::open_reading(&path).expect("a connection");
    let setting = |connection: &Connection, name: &str| {
        let value = connection.query_row(&format!("PRAGMA {name}"), [], |row| {
            row.get::<_, rusqlite::types::Value>(0)
        });
        format!("{:?}", value.expect("a value"))
    };
    assert_eq!(setting(&writing, "journal_mode"), r#"Text("wal")"#);
    assert_eq!(setting(&writing, "synchronous"), "Integer(2)");
    assert_eq!(setting(&writing, "wal_autocheckpoint"), "Integer(0)");
    for connection in [&writing, &reading] {
        assert_eq!(setting(connection, "foreign_keys"), "Integer(1)");
        assert_eq!(setting(connection, "trusted_schema"), "Integer(0)");
        assert_eq!(setting(connection, "mmap_size"), "Integer(0)");
        assert_eq!(setting(connection, "busy_timeout"), "Integer(5000)");
    }
    reading
        .execute_batch("CREATE TABLE t (n)")
        .expect_err("it only reads");
}
