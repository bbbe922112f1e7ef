//! Moves into a database and out of it, and that nothing of one is forgotten.

use installation::transfer::{MemoryPlace, PARTS, TransferOptions, arriving, transfer};
use installation::{OpenOptions, ReserveOptions, contract};

use super::mappings::Mapping;
use super::*;
use crate::testing;

/// Columns that no part has, and why.
const LEFT: &[(&str, &str, &str)] = &[
    ("migrations", "", "each store has its own"),
    ("transfer", "", "of the move itself"),
    ("transfer_progress", "", "of the move itself"),
    ("installation", "one", "there is one row"),
    ("turns", "", "of processes that ended"),
    ("credits", "account", "read with the accounts"),
    ("credits", "newest_seq", "made again from the ledger"),
    (
        "credit_holds",
        "",
        "of processes that ended; who takes a call over holds again",
    ),
    (
        "released_blobs",
        "",
        "bytes that no record names stay behind",
    ),
    ("blob_scrub", "", "bytes are compared as they move"),
    ("damaged_blobs", "", "bytes are compared as they move"),
    ("blob_ages", "", "made again by each put"),
    ("job_accounts", "", "made again from the jobs that wait"),
    (
        "job_turns",
        "departed",
        "made again from the jobs that wait",
    ),
    (
        "job_turns",
        "returns",
        "what a replica remembers of them ends",
    ),
    ("requirement_sets", "", "read with the jobs"),
    ("job_queue", "", "made again from the jobs that wait"),
    ("job_runs", "", "made again from the jobs that run"),
    ("job_workers", "", "of processes that ended"),
    ("job_bodies", "job", "read with the jobs"),
    ("job_bodies", "trace", "a trace ends where its jobs move"),
    ("job_labels", "", "made again from the metadata of jobs"),
    ("job_changes", "", "of processes that ended"),
    ("job_change_form", "", "each database has its own"),
    ("blob_form", "", "each database has its own"),
    ("jobs", "progress", "read field by field"),
    ("job_outputs", "document", "read field by field"),
    ("user_files", "size_bytes", "made again from the bytes"),
    ("generations_running", "owner", "of processes that ended"),
    (
        "generations_running",
        "lease_until",
        "of processes that ended",
    ),
    ("generations", "settled_by", "of processes that ended"),
    ("generations", "replay_bytes", "made again from the pieces"),
    (
        "budget_causes",
        "",
        "calls that run while it moves count against no budget of a key or a label",
    ),
    ("call_keys", "is_dispatched", "called stage"),
    ("call_keys", "claimed_until", "of processes that ended"),
    ("queued_calls", "changed", "made again from the order"),
    ("queued_calls", "body_bytes", "made again from the pieces"),
    ("queued_calls", "taken_by", "of processes that ended"),
    ("queued_calls", "taken_until", "of processes that ended"),
    (
        "call_servings",
        "received_at",
        "made again from the generation",
    ),
    ("kept_results", "owner", "of processes that ended"),
    ("kept_results", "until", "of processes that ended"),
    ("call_quotas", "", "locks alone"),
    ("call_permits", "", "of processes that ended"),
    (
        "call_windows",
        "",
        "begin again, as after a restart of one process",
    ),
];

#[tokio::test]
async fn every_column_moves_or_is_known_to_stay() {
    if !testing::has_postgres() {
        return;
    }
    let database = testing::database().await;
    let connection = database.connection().await.expect("it answers");
    let sql = "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = 'public'";
    let columns = connection.query(sql, &[]).await.expect("an answer");
    let columns: Vec<(String, String)> =
        columns.iter().map(|row| (row.get(0), row.get(1))).collect();
    let part_of = |table: &str| match table {
        "jobs_over" | "job_bodies" => "jobs".to_owned(),
        "generations_running" => "generations".to_owned(),
        "call_replays" => "replays".to_owned(),
        "credits" => "accounts".to_owned(),
        table => table.to_owned(),
    };
    let stays = |table: &str, column: &str| {
        let table = match table {
            "jobs_over" => "jobs",
            table => table,
        };
        LEFT.iter()
            .any(|(left, of, _)| *left == table && (of.is_empty() || *of == column))
    };
    let moves = |table: &str, column: &str| {
        let part = PARTS.iter().find(|part| part.name == part_of(table));
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
    for part in PARTS {
        let mapping = Mapping::of(part);
        let reads = [mapping.page(part, true), mapping.count.clone()];
        for sql in reads.iter().chain(&mapping.inserts(part)) {
            let prepared = connection.prepare(sql).await;
            prepared.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        }
    }
}

async fn new_store() -> Option<CloudStore> {
    let bucket = testing::bucket()?;
    let address = testing::empty_database().await;
    let database = DatabaseOptions {
        connections: 4,
        ..DatabaseOptions::default()
    };
    Some(CloudStore::at(&address, database, bucket))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_and_a_bucket_keep_the_contract_of_transfers() {
    if !testing::has_postgres() {
        return;
    }
    if let Some(store) = new_store().await {
        contract::transfers(&store).await;
    }
}

fn options() -> OpenOptions {
    OpenOptions {
        tier: accounts::Tier::standard(),
        reserve: ReserveOptions::NONE,
        fresh: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_served_or_moved_already_is_refused() {
    if !testing::has_postgres() {
        return;
    }
    let Some(store) = new_store().await else {
        return;
    };
    let missing = store.source().await.err().expect("nothing is there");
    assert!(
        missing.to_string().contains("there is no installation"),
        "{missing}"
    );
    let served = store.open(options()).await.expect("it is new");
    let refused = store.source().await.err().expect("it is served");
    assert!(
        refused.to_string().contains("stop every process"),
        "{refused}"
    );
    let fresh = arriving(Uuid::from_u128(1), "elsewhere");
    let refused = store.target(&fresh).await.err().expect("it is taken");
    assert!(
        refused
            .to_string()
            .contains("holds an installation already"),
        "{refused}"
    );
    drop(served);
    // The server ends a connection a moment after it was closed here.
    let source = loop {
        match store.source().await {
            Ok(source) => break source,
            Err(error) => assert!(matches!(error, OpenError::InUse(_)), "{error}"),
        }
    };
    let refused = store.source().await.err().expect("it is being moved");
    assert!(
        refused.to_string().contains("another process is moving"),
        "{refused}"
    );

    // A process that was started in between is found once the note is there.
    let late = store.open(options()).await.expect("nothing is noted yet");
    let to = MemoryPlace::default();
    to.put_note(Some(arriving(Uuid::from_u128(1), "here")));
    let both = TransferOptions {
        leave_damaged: false,
    };
    let refused = transfer((&*source, "here"), (&to, "there"), both, &|_| ()).await;
    let refused = refused.expect_err("it is served");
    let cause = std::error::Error::source(&refused).expect("it has a cause");
    assert!(cause.to_string().contains("stop every process"), "{cause}");
    drop(late);
    store.open(options()).await.expect("the note is gone again");
}
