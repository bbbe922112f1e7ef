//! What a process writes whose call another one took over changes nothing: whatever it writes, and whatever became of the call.
//!
//! `EASEL_ZOMBIES` is how many such writes are made.

use router_core::{Permit, Serving};

use super::*;

const ZOMBIES: &str = "EASEL_ZOMBIES";
/// How many unless the variable says so.
const FEW: u64 = 60;
const OTHER: OwnerId = OwnerId(Uuid::from_u128(2));

fn serving() -> Serving {
    Serving {
        model: generation(0).model,
        began_at: at(0),
        hold_cents: 7,
        dropped: Vec::new(),
        failed: Vec::new(),
    }
}

async fn settle(calls: &PgCalls, owner: OwnerId, n: u128, cents: u64) -> Settled {
    let (payer, ending) = (acme(), failed("it failed", cents));
    let settled = calls.settle((id(n), owner), &payer, ending, None, at(102));
    settled.await.expect("it answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_call_was_taken_over_changes_nothing() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let watcher = testing::open(&url).await;
    let [(first, of_first), (second, of_second)] = [
        stores(&testing::open(&url).await).await,
        stores(&testing::open(&url).await).await,
    ];
    open_account(&*of_first.admin).await;
    let account = acme();
    let taking = Lease {
        owner: OTHER,
        ..lease()
    };
    let most = testing::number(ZOMBIES, FEW);
    let mut writes: u64 = 0;
    for n in 1_u128.. {
        if writes >= most {
            break;
        }
        let permit = || Permit {
            account: &account,
            generation: id(n),
            hold_cents: 7,
        };
        let release = async |stores: &Stores, owner| {
            let released = stores.quota.release(permit(), owner).await;
            released.expect("it answers");
        };
        let quota = &of_first.quota;
        let call = Generation {
            received_at: at(0),
            serving: Some(Box::new(serving())),
            ..generation(n)
        };
        let begun = admit(&first, &call, None, lease()).await;
        assert_eq!(begun, Dispatched::Begun);
        // Its lease is over while it sleeps, and the other one has the call: it runs there, or has ended there.
        let taken = second.take_over(taking, 10, at(100)).await;
        assert_eq!(taken.expect("it answers").len(), 1);
        let resumed = of_second.quota.resume(permit(), taking, at(100)).await;
        resumed.expect("it answers");
        let has_ended = n.is_multiple_of(2);
        if has_ended {
            assert_eq!(settle(&second, OTHER, n, 5).await, Settled::Now);
            release(&of_second, OTHER).await;
        }
        let before = testing::rows(&watcher, "").await;
        let (late, handle) = ((id(n), OWNER), Handle(Bytes::from_static(b"late")));
        let poll = Duration::from_secs(1);
        let accepted = first.accepted(late, &handle, poll, Some("late"), at(101));
        accepted.await.expect("it answers");
        let served = first.serve(late, &serving()).await;
        assert_eq!(served.expect("it answers"), Settled::Before);
        let renewed = first.renew(&[id(n)], lease(), at(101)).await;
        assert_eq!(renewed.expect("it answers"), [id(n)]);
        assert_eq!(settle(&first, OWNER, n, 9).await, Settled::Before);
        let permits = quota.renew(&[permit()], lease(), at(101)).await;
        assert_eq!(permits.expect("it answers"), [0]);
        release(&of_first, OWNER).await;
        writes += 6;
        let after = testing::rows(&watcher, "").await;
        assert_eq!(after, before, "after {writes} writes");
        if !has_ended {
            // The bill is the owner's, also beside a late one in the same batch.
            let late = settle(&second, OWNER, n, 9);
            let (late, right) = tokio::join!(late, settle(&second, OTHER, n, 5));
            assert_eq!((late, right), (Settled::Before, Settled::Now));
            writes += 1;
            release(&of_second, OTHER).await;
        }
        let credits = of_first.accounts.credits(&account, at(103)).await;
        let balance = credits.expect("it answers").balance_cents;
        assert_eq!(balance, -5 * i64::try_from(n).expect("few"));
    }
    testing::tell(&format!("{writes} late writes of calls, none accepted"));
}
