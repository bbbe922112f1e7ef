//! Quotas over two handles of one database.

mod storm;

use std::time::Duration;

use futures_util::future::join_all;

use super::*;
use crate::testing;

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
