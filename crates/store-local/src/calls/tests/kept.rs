//! Results that are kept: they outlive the process, and their addresses do not outlive the waiting.

use ::accounts::CreditLedger;
use router_core::{
    KeepOutcome, KeptFile, KeptResults, KeptState, ResultAddress, ResultId, ResultLink, ResultTurn,
};
use rusqlite::Connection;

use super::*;

fn keeping(address: &str) -> Ending {
    Ending::Kept {
        outcome: answered(b"{}"),
        charge_cents: 5,
        results: vec![ResultLink {
            pointer: "/url".to_owned(),
            address: ResultAddress::read(address).expect("it is one"),
        }],
    }
}

fn first(n: u128) -> ResultId {
    ResultId {
        generation: id(n),
        place: 0,
    }
}

fn addresses(root: &TempDir) -> Vec<Option<String>> {
    let rows = Connection::open(root.path().join("main.db")).expect("the rows open");
    let mut found = rows
        .prepare("SELECT address FROM kept_results ORDER BY generation")
        .expect("the table is there");
    let found = found.query_map([], |row| row.get(0)).expect("it is read");
    found.map(|address| address.expect("a text")).collect()
}

#[tokio::test]
async fn what_a_process_was_fetching_the_next_one_has_at_once() {
    let (root, store) = fresh().await;
    let calls = store.calls();
    // One goes through the log at first, the other has a key.
    let claimed = calls.claim(claim(2), at(0)).await;
    assert_eq!(claimed.expect("an answer"), Claimed::Fresh);
    for (n, key) in [(1, None), (2, key())] {
        let begun = calls.dispatch(generation(n), key, lease()).await;
        assert_eq!(begun.expect("an answer"), Dispatched::Begun);
        let ending = keeping(&format!("https://a/{n}?signature=x"));
        let settled = calls
            .settle((id(n), OWNER), &acme(), ending, None, at(1))
            .await;
        assert_eq!(settled.expect("an answer"), Settled::Now);
    }
    let turn = ResultTurn::default();
    for _ in 0..2 {
        let taken = calls.take(lease(), &turn, at(1)).await;
        assert!(taken.expect("an answer").is_some());
    }
    let file = KeptFile {
        file: Uuid::from_u128(9),
        hash: [1; 32],
        size_bytes: 2,
        content_type: "image/png".to_owned(),
    };
    let kept = KeepOutcome::Kept(file.clone());
    let noted = calls.note((first(2), OWNER), kept, at(2)).await;
    assert_eq!(noted.expect("an answer"), Settled::Now);
    drop((calls, store));
    let waits = Some("https://a/1?signature=x".to_owned());
    assert_eq!(addresses(&root), [waits, None]);

    let store = open(root.path(), 3);
    let calls = store.calls();
    let credits = store.accounts().credits(&acme(), at(3)).await;
    assert_eq!(credits.expect("an answer").balance_cents, -10);
    let taken = calls.take(lease(), &turn, at(3)).await.expect("an answer");
    let taken = taken.map(|due| (due.id, due.attempt));
    assert_eq!(
        taken,
        Some((first(1), 2)),
        "the lease went with its process"
    );
    let taken = calls.take(lease(), &turn, at(3)).await.expect("an answer");
    assert_eq!(taken, None);
    let results = calls.of(id(2)).await.expect("an answer");
    assert_eq!(results[0].state, KeptState::Kept(file));
    let reason = "it answered 404".to_owned();
    let failed = KeepOutcome::Failed { reason };
    let noted = calls.note((first(1), OWNER), failed, at(4)).await;
    assert_eq!(noted.expect("an answer"), Settled::Now);
    drop((calls, store));
    assert_eq!(addresses(&root), [None, None]);
}
