//! Calls that run are found by their ids, however many ended while a transaction stays open.

use router_core::CallEnd;

use super::*;
use crate::testing::reads;

/// How many calls begin together, and end together.
const TOGETHER: u128 = 64;

/// Calls with these numbers, each renewed once.
async fn round(calls: &PgCalls, stores: &Stores, numbers: std::ops::Range<u128>) {
    let call = |n| Generation {
        received_at: at(0),
        ..generation(n)
    };
    let all: Vec<Generation> = numbers.map(call).collect();
    let begun = join_all(all.iter().map(|call| admit(calls, call, None, lease()))).await;
    assert!(begun.iter().all(|one| *one == Dispatched::Begun));
    let ids: Vec<GenerationId> = all.iter().map(|call| call.id).collect();
    let lost = stores.calls.renew(&ids, lease(), at(1)).await;
    assert_eq!(lost.expect("it answers"), []);
    let handle = Handle(Bytes::from_static(b"handle"));
    let accepted = ids.iter().map(|id| {
        let poll = Duration::from_secs(1);
        calls.accepted((*id, OWNER), &handle, poll, None, at(1))
    });
    for accepted in join_all(accepted).await {
        accepted.expect("it answers");
    }
    let ended = all.iter().map(|call| {
        let end = CallEnd {
            permit: call.permit(),
            owner: OWNER,
            ending: failed("it failed", 0),
            task_id: None,
            now: at(2),
        };
        Admissions::end(calls, end)
    });
    for ended in join_all(ended).await {
        assert_eq!(ended.expect("it answers"), Settled::Now);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_run_are_found_by_their_ids_while_a_transaction_is_open() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let (database, other) = (testing::open(&url).await, testing::open(&url).await);
    let (calls, stores) = stores(&database).await;
    open_account(&*stores.admin).await;
    let _open = reads::left_open(&other).await;
    for n in 0..20 {
        round(&calls, &stores, n * TOGETHER..(n + 1) * TOGETHER).await;
    }
    reads::analyze(&database, "generations_running").await;
    let read = async || reads::of_indexes(&database, ["generations_running_pkey"]).await[0].1;
    let before = read().await;
    for n in 0..50 {
        round(&calls, &stores, 1_000_000 + n..1_000_001 + n).await;
    }
    let told = read().await - before;
    // From the beginning, each call reads 1,280 entries seven times and more.
    assert!(told < 5_000, "{told}");
}
