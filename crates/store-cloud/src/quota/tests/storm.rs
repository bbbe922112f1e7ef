//! Requests of clients of several processes are counted as fast as they come.
//!
//! `EASEL_ADMISSIONS` is how many are admitted.

use super::*;

const ADMISSIONS: &str = "EASEL_ADMISSIONS";
/// How many unless the variable says so.
const FEW: u64 = 3_000;
const HANDLES: usize = 3;

fn name(account: usize) -> AccountId {
    format!("account-{account}").parse().expect("an id")
}

async fn handles() -> Vec<PgQuota> {
    let url = testing::fresh_database().await;
    let mut handles = Vec::new();
    for _ in 0..HANDLES {
        handles.push(PgQuota::new(&testing::open(&url).await));
    }
    handles
}

#[tokio::test(flavor = "multi_thread")]
async fn however_fast_requests_come_a_window_takes_what_it_says() {
    if !crate::testing::has_postgres() {
        return;
    }
    /// Requests of an account in a minute.
    const MOST: usize = 500;
    let handles = handles().await;
    let windows = RateWindow::read_list(&format!("{MOST}/1m")).expect("windows");
    let most = testing::number(ADMISSIONS, FEW);
    let mut admitted: u64 = 0;
    for minute in 0.. {
        if admitted >= most {
            break;
        }
        let accounts = [0, 1].map(name);
        let counts = (0..3 * MOST).map(|number| {
            let (quota, windows) = (handles[number % HANDLES].clone(), windows.clone());
            let account = accounts[number % accounts.len()].clone();
            tokio::spawn(async move {
                let counted = quota.count(&account, &windows, at(20 + minute * 60)).await;
                (number % 2, counted.expect("it answers").is_ok())
            })
        });
        let mut taken = [0; 2];
        for counted in join_all(counts).await {
            let (account, is_taken) = counted.expect("it ends");
            taken[account] += usize::from(is_taken);
        }
        assert_eq!(taken, [MOST; 2]);
        admitted += 2 * MOST as u64;
        if admitted.is_multiple_of(50_000) {
            testing::tell(&format!("{admitted} requests were admitted"));
        }
    }
}
