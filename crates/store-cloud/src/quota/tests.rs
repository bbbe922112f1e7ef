//! Quotas over two handles of one database.

mod storm;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use router_core::contract;

use super::*;
use crate::testing::{self, now};

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract() {
    if !crate::testing::has_postgres() {
        return;
    }
    contract::quota(|| Arc::new(PgQuota::new(&now(testing::database())))).await;
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).expect("in range")
}

async fn two() -> [PgQuota; 2] {
    let url = testing::fresh_database().await;
    [
        PgQuota::new(&testing::open(&url).await),
        PgQuota::new(&testing::open(&url).await),
    ]
}

/// Most calls of an account, and the cents of each; the cap is reached before the count.
const MOST_CALLS: u32 = 7;
const CENTS: u64 = 9;

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_never_admit_more_than_there_is_room_for() {
    if !crate::testing::has_postgres() {
        return;
    }
    let handles = two().await;
    let limits = RouterLimits {
        concurrent_calls: MOST_CALLS,
        committed_spend_cents: 5 * CENTS,
        ..RouterLimits::standard()
    };
    let accounts: Vec<AccountId> = ["a", "b", "c"].map(|id| id.parse().expect("an id")).into();
    for round in 0..8_u128 {
        let asked = (0..192_u128).map(|n| {
            let quota = handles[usize::from(n % 2 == 0)].clone();
            let account = accounts[usize::try_from(n % 3).expect("few")].clone();
            let limits = limits.clone();
            tokio::spawn(async move {
                let permit = Permit {
                    account: &account,
                    generation: generation(round * 1_000 + n),
                    hold_cents: CENTS,
                };
                let admitted = quota.admit(permit, &limits, lease(), at(0)).await;
                (account, n, admitted.expect("it answers"))
            })
        });
        let answers = join_all(asked).await.into_iter();
        let answers: Vec<_> = answers.map(|one| one.expect("it ends")).collect();
        for account in &accounts {
            let admitted = answers
                .iter()
                .filter(|(of, _, admission)| of == account && *admission == Admission::Admitted);
            let admitted: Vec<u128> = admitted.map(|(_, n, _)| *n).collect();
            assert_eq!(admitted.len(), 5);
            let load = handles[0].load(account, at(0)).await.expect("it answers");
            assert_eq!((load.calls, load.committed_cents), (5, 5 * CENTS));
            let released = admitted.iter().map(|n| {
                let permit = Permit {
                    account,
                    generation: generation(round * 1_000 + n),
                    hold_cents: CENTS,
                };
                handles[1].release(permit, lease().owner)
            });
            for released in join_all(released).await {
                released.expect("it answers");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_never_count_more_than_a_window_takes() {
    if !crate::testing::has_postgres() {
        return;
    }
    let handles = two().await;
    let account = AccountId::local();
    let windows = RateWindow::read_list("10/1m,15/1h").expect("windows");
    for (minute, most) in [(0, 10), (1, 5), (2, 0)] {
        let counts = (0..64).map(|n: usize| {
            let (quota, account, windows) =
                (handles[n % 2].clone(), account.clone(), windows.clone());
            tokio::spawn(async move { quota.count(&account, &windows, at(20 + minute * 60)).await })
        });
        let counted = join_all(counts).await.into_iter();
        let counted: Vec<_> = counted
            .map(|one| one.expect("it ends").expect("it answers"))
            .collect();
        assert_eq!(counted.iter().filter(|one| one.is_ok()).count(), most);
        // The same end on both.
        let refused: Vec<Duration> = counted
            .into_iter()
            .filter_map(|one| Some(one.err()?.retry_after))
            .collect();
        assert!(
            refused.windows(2).all(|two| two[0] == two[1]),
            "{refused:?}"
        );
    }
}

fn generation(n: u128) -> router_core::GenerationId {
    router_core::GenerationId(uuid::Uuid::from_u128(n))
}

fn lease() -> Lease {
    Lease {
        owner: OwnerId(uuid::Uuid::from_u128(1)),
        lasts: Duration::from_secs(30),
    }
}
