//! Moves into a directory and out of it, and that nothing of one is forgotten.

use ::installation::InstallationStore as _;
use ::installation::transfer::{MemoryPlace, PARTS, TransferOptions, arriving, transfer};
use ::installation::{OpenOptions, contract};
use accounts::Tier;
use rusqlite::Connection;
use uuid::Uuid;

use super::mappings::Mapping;
use super::*;

/// Columns that no part has, and why.
const LEFT: &[(&str, &str, &str)] = &[
    ("migrations", "", "each store has its own"),
    ("transfer_progress", "", "of the move itself"),
    ("moved_installation", "", "read as the installation"),
    ("link_keys", "", "read as the installation"),
    ("requirement_sets", "", "read with the jobs"),
    ("job_labels", "", "made again from the metadata of jobs"),
    ("blob_journal", "", "in files once the directory is open"),
    (
        "released_blobs",
        "",
        "bytes that no record names stay behind",
    ),
    ("blob_scrub", "", "bytes are compared as they move"),
    ("damaged_blobs", "", "bytes are compared as they move"),
    ("call_log", "", "in rows once the directory is open"),
    ("call_log_place", "", "in rows once the directory is open"),
    (
        "budget_causes",
        "",
        "calls that run while it moves count against no budget of a key or a label",
    ),
    ("account_claims", "", "read as the turns of jobs"),
    ("jobs", "seq", "called number"),
    ("queued_calls", "dispatched", "called state"),
    ("queued_calls", "body", "read in pieces"),
    ("queued_calls", "body_file", "read in pieces"),
    ("generations", "replay_hour", "where the pieces lie"),
    ("generations", "replay_offset", "where the pieces lie"),
    ("generations", "replay_length", "where the pieces lie"),
    ("generations", "replay_hash", "made again from the pieces"),
    ("call_keys", "dispatched", "called stage"),
    ("job_logs", "seq", "called job"),
    ("job_outputs", "seq", "called job"),
    ("job_keys", "seq", "called job"),
    ("job_bodies", "seq", "read with the jobs"),
    ("job_bodies", "placement", "read field by field"),
    ("job_bodies", "trace", "a trace ends where its jobs move"),
    ("jobs", "requirements", "by its text"),
];

#[tokio::test]
async fn every_column_moves_or_is_known_to_stay() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(root.path()).expect("a fresh store");
    let columns = store.database().read(|rows| {
        let sql =
            "SELECT t.name, c.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
            WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'";
        let mut columns = rows.prepare(sql)?;
        let columns = columns.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        columns.collect::<rusqlite::Result<Vec<(String, String)>>>()
    });
    let columns = columns.await.expect("it can be read");
    let stays = |table: &str, column: &str| {
        LEFT.iter()
            .any(|(left, part, _)| *left == table && (part.is_empty() || *part == column))
    };
    let moves = |table: &str, column: &str| {
        let part = if table == "job_bodies" { "jobs" } else { table };
        let part = PARTS.iter().find(|it| it.name == part);
        part.is_some_and(|part| part.columns.iter().any(|it| it.name == column))
    };
    for (table, column) in &columns {
        assert!(
            stays(table, column) || moves(table, column),
            "{table}.{column} is new: move it, or say why it stays"
        );
    }
    for (table, column, _) in LEFT {
        let is_there =
            |(has, of): &(String, String)| has == table && (column.is_empty() || of == column);
        assert!(columns.iter().any(is_there), "{table}.{column} is gone");
    }
    // Each statement names what there is.
    let checked = store.database().read(|rows| {
        for part in PARTS
            .iter()
            .filter(|part| !["replays", "queued_bodies", "installation"].contains(&part.name))
        {
            let mapping = Mapping::of(part);
            for sql in [mapping.page(part, true), mapping.count.clone()]
                .iter()
                .chain(&mapping.writes)
            {
                rows.prepare(sql)?;
            }
        }
        Ok(())
    });
    checked.await.expect("every statement is one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_keeps_the_contract_of_transfers() {
    let root = tempfile::tempdir().expect("a temporary directory");
    contract::transfers(&LocalStore::at(&root.path().join("data"))).await;
}

fn options() -> OpenOptions {
    OpenOptions {
        tier: Tier::standard(),
        reserve: ReserveOptions::NONE,
        fresh: false,
    }
}

#[tokio::test]
async fn a_directory_in_use_or_with_something_in_it_is_refused() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let (full, new) = (root.path().join("full"), root.path().join("new"));
    let store = LocalStore::at(&full);
    let missing = store.source().await.err().expect("nothing is there");
    assert!(
        missing.to_string().contains("there is no installation"),
        "{missing}"
    );
    let served = store.open(options()).await.expect("it is new");
    let used = store.source().await.err().expect("it is served");
    assert!(matches!(used, OpenError::InUse(_)), "{used}");
    drop(served);
    let fresh = arriving(Uuid::from_u128(1), "elsewhere");
    let taken = store.target(&fresh).await.err().expect("it is full");
    assert!(taken.to_string().contains("is not empty"), "{taken}");

    let source = store.source().await.expect("nobody has it");
    let target = LocalStore::at(&new)
        .target(&fresh)
        .await
        .expect("it is new");
    let options = TransferOptions {
        leave_damaged: false,
    };
    let moved = transfer((&*source, "full"), (&*target, "new"), options, &|_| ()).await;
    assert!(moved.expect("it moves").rows > 0);
    drop((source, target));
    let left = store.open(self::options()).await.expect_err("it left");
    assert!(
        left.to_string().contains("delete the file `transfer`"),
        "{left}"
    );
    let moved = LocalStore::at(&new).open(self::options()).await;
    moved.expect("it is here now");
    std::fs::remove_file(full.join(FILE)).expect("it is there");
    store
        .open(self::options())
        .await
        .expect("it is usable again");
}

#[tokio::test]
async fn calls_in_a_log_that_this_program_cannot_read_stop_a_move() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = LocalStore::at(root.path());
    drop(store.open(options()).await.expect("it is new"));
    let source = super::source(root.path()).expect("nobody has it");
    let parked = source.database.write(Durability::Now, |rows| {
        let rows: &Connection = rows;
        rows.execute("INSERT INTO call_log (entries) VALUES (x'00')", [])
    });
    parked.await.expect("it is written");
    let to = MemoryPlace::default();
    to.put_note(Some(arriving(Uuid::from_u128(1), "here")));
    let options = TransferOptions {
        leave_damaged: false,
    };
    let refused = transfer((&source, "here"), (&to, "there"), options, &|_| ()).await;
    let refused = refused.expect_err("calls would be lost");
    let cause = std::error::Error::source(&refused).expect("it has a cause");
    assert!(
        cause.to_string().contains("has the model router"),
        "{cause}"
    );
}
