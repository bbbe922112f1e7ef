//! Clients of several processes take permits and give them back as fast as they can. Meanwhile the test counts what is in flight.
//!
//! `EASEL_ADMISSIONS` is how many are admitted, of calls and of requests in windows each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::*;

const ADMISSIONS: &str = "EASEL_ADMISSIONS";
/// How many unless the variable says so.
const FEW: u64 = 3_000;
const HANDLES: usize = 3;
const ACCOUNTS: usize = 30;
/// Clients of each account: more than its bounds have room for.
const CLIENTS: usize = 15;
/// Calls of every second account, by its cents. The others reach the bound of their calls first.
const MOST_BY_CENTS: u32 = 5;

fn room(account: usize) -> u32 {
    match account.is_multiple_of(2) {
        true => MOST_CALLS,
        false => MOST_BY_CENTS,
    }
}

fn limits(account: usize) -> RouterLimits {
    let calls = match account.is_multiple_of(2) {
        true => MOST_CALLS + 1,
        false => MOST_BY_CENTS,
    };
    RouterLimits {
        concurrent_calls: MOST_CALLS,
        committed_spend_cents: CENTS * u64::from(calls),
        ..RouterLimits::standard()
    }
}

fn name(account: usize) -> AccountId {
    format!("account-{account}").parse().expect("an id")
}

async fn handles() -> (String, Vec<PgQuota>) {
    let url = testing::fresh_database().await;
    let mut handles = Vec::new();
    for _ in 0..HANDLES {
        handles.push(PgQuota::new(&testing::open(&url).await));
    }
    (url, handles)
}

/// What all clients share.
struct Storm {
    handles: Vec<PgQuota>,
    most: u64,
    admitted: AtomicU64,
    refused: AtomicU64,
    /// Of each account, the calls that were admitted and are not being given back: each of them has a permit.
    held: Vec<AtomicU32>,
    is_over: AtomicBool,
}

impl Storm {
    async fn client(self: Arc<Self>, account: usize, client: usize) {
        let (id, limits, room) = (name(account), limits(account), room(account));
        for number in 0_usize.. {
            if self.admitted.load(Ordering::Relaxed) >= self.most {
                return;
            }
            let place = (account * CLIENTS + client) as u128;
            let permit = || Permit {
                account: &id,
                generation: generation(place << 64 | number as u128),
                hold_cents: CENTS,
            };
            let quota = &self.handles[(client + number) % HANDLES];
            let admitted = quota.admit(permit(), &limits, lease(), at(0)).await;
            if admitted.expect("it answers") != Admission::Admitted {
                self.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let held = self.held[account].fetch_add(1, Ordering::SeqCst) + 1;
            assert!(held <= room, "{id} has {held} calls of {room}");
            let done = self.admitted.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(50_000) {
                testing::tell(&format!("{done} calls were admitted"));
            }
            tokio::task::yield_now().await;
            self.held[account].fetch_sub(1, Ordering::SeqCst);
            // Its owner gives it back, through whichever handle.
            let quota = &self.handles[(client + number + 1) % HANDLES];
            let released = quota.release(permit(), lease().owner).await;
            released.expect("it answers");
        }
    }

    /// Counts the permits of all accounts again and again; how often.
    async fn watch(self: Arc<Self>, database: Database) -> u64 {
        let sql =
            "SELECT account, count(*), sum(hold_cents)::bigint FROM call_permits GROUP BY account";
        let mut looks = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let connection = database.connection().await.expect("it answers");
            for row in connection.query(sql, &[]).await.expect("it answers") {
                let (account, calls, cents): (&str, i64, i64) =
                    (row.get(0), row.get(1), row.get(2));
                let (_, place) = account.split_once('-').expect("a name");
                let room = i64::from(room(place.parse().expect("a number")));
                assert!(calls <= room, "{account} has {calls} permits of {room}");
                assert_eq!(unsigned(cents), unsigned(calls) * CENTS);
            }
            looks += 1;
        }
        looks
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).expect("none or more")
}

#[tokio::test(flavor = "multi_thread")]
async fn however_fast_calls_come_and_go_no_account_has_more_than_its_room() {
    if !crate::testing::has_postgres() {
        return;
    }
    let (url, handles) = handles().await;
    let storm = Arc::new(Storm {
        handles,
        most: testing::number(ADMISSIONS, FEW),
        admitted: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        held: (0..ACCOUNTS).map(|_| AtomicU32::new(0)).collect(),
        is_over: AtomicBool::new(false),
    });
    let watcher = tokio::spawn(Arc::clone(&storm).watch(testing::open(&url).await));
    let clients = (0..ACCOUNTS * CLIENTS).map(|number| {
        let client = Arc::clone(&storm).client(number / CLIENTS, number % CLIENTS);
        tokio::spawn(client)
    });
    for ended in join_all(clients).await {
        ended.expect("no account had more than its room");
    }
    storm.is_over.store(true, Ordering::Relaxed);
    let looks = watcher.await.expect("no account had more than its room");
    let (admitted, refused) = (&storm.admitted, &storm.refused);
    let [admitted, refused] = [admitted, refused].map(|count| count.load(Ordering::Relaxed));
    testing::tell(&format!(
        "{admitted} calls admitted, {refused} refused, {looks} looks at all permits"
    ));
    // The bounds were reached.
    assert!(refused > 0 && looks > 0);
    for account in 0..ACCOUNTS {
        let load = storm.handles[0].load(&name(account), at(0)).await;
        assert_eq!(load.expect("it answers"), Load::default());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn however_fast_requests_come_a_window_takes_what_it_says() {
    if !crate::testing::has_postgres() {
        return;
    }
    /// Requests of an account in a minute.
    const MOST: usize = 500;
    let (_, handles) = handles().await;
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
