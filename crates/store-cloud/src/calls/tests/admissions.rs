//! Calls of several accounts that three processes admit, renew and end as fast as they can: no transaction waits for another in a
//! circle, no account has more than its room, and nothing is left of a call that was refused or has ended.
//!
//! `EASEL_ADMISSIONS` is how many are admitted.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use accounts::{AccountChange, LedgerRef};
use router_core::CallEnd;

use super::*;

const ADMISSIONS: &str = "EASEL_ADMISSIONS";
/// How many unless the variable says so.
const FEW: u64 = 1_000;
const HANDLES: usize = 3;
const ACCOUNTS: usize = 8;
/// Clients of each account: more than it has room for.
const CLIENTS: usize = 8;
const MOST_CALLS: u32 = 5;
/// Calls of every second account, by its cents. The others reach the bound of their calls first.
const MOST_BY_CENTS: u32 = 3;
/// The cents of each call.
const CENTS: u64 = 7;
const GRANTED: i32 = 100_000_000;

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

struct Storm {
    handles: Vec<(PgCalls, Stores)>,
    most: u64,
    admitted: AtomicU64,
    refused: AtomicU64,
    /// Of each account, the calls that were admitted and are not being ended.
    held: Vec<AtomicU32>,
    is_over: AtomicBool,
}

impl Storm {
    async fn client(self: Arc<Self>, account: usize, client: usize) {
        let (limits, room) = (limits(account), room(account));
        for number in 0_usize.. {
            if self.admitted.load(Ordering::Relaxed) >= self.most {
                return;
            }
            let place = (account * CLIENTS + client) as u128;
            let call = Generation {
                id: id(place << 64 | number as u128),
                account: name(account),
                hold_cents: CENTS,
                ..generation(0)
            };
            let admission = CallAdmission {
                payer: (&call.account).into(),
                limits: &limits,
                generation: &call,
                key: None,
                lease: lease(),
            };
            let (calls, stores) = &self.handles[(client + number) % HANDLES];
            match calls.admit(admission).await {
                Ok(()) => {}
                Err(RouterError::TooManyCalls { .. } | RouterError::SpendCap { .. }) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                Err(error) => panic!("{error:?}"),
            }
            let held = self.held[account].fetch_add(1, Ordering::SeqCst) + 1;
            assert!(held <= room, "{held} calls of {room}");
            self.admitted.fetch_add(1, Ordering::Relaxed);
            renew(stores, &call).await;
            self.held[account].fetch_sub(1, Ordering::SeqCst);
            let (calls, _) = &self.handles[(client + number + 1) % HANDLES];
            let ended = Admissions::end(calls, end(&call)).await;
            assert_eq!(ended.expect("it answers"), Settled::Now);
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

/// Renews all that a call has.
async fn renew(stores: &Stores, call: &Generation) {
    let lost = stores.calls.renew(&[call.id], lease(), at(1)).await;
    assert_eq!(lost.expect("it answers"), []);
    let lost = stores.quota.renew(&[call.permit()], lease(), at(1)).await;
    assert!(lost.expect("it answers").is_empty());
    let holds = [(&call.account, call.id.cause())];
    let lost = stores.accounts.renew(&holds, lease().lasts, at(1)).await;
    assert!(lost.expect("it answers").is_empty());
}

fn end(call: &Generation) -> CallEnd<'_> {
    CallEnd {
        permit: call.permit(),
        owner: OWNER,
        ending: failed("it failed", 1),
        task_id: None,
        now: at(2),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn however_fast_calls_come_and_end_nothing_is_left_of_them() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let mut handles = Vec::new();
    for _ in 0..HANDLES {
        handles.push(stores(&testing::open(&url).await).await);
    }
    let admin = handles[0].1.admin.clone();
    for account in 0..ACCOUNTS {
        let id = name(account);
        let row = Account::new(id.clone(), (&id).into(), at(0));
        admin.create(row).await.expect("a free id");
        let billed = vec![AccountChange::Billed(true)];
        admin.change(&id, billed).await.expect("it is there");
        let granted = admin.grant(&id, LedgerRef::Grant(Uuid::nil()), GRANTED, at(0));
        granted.await.expect("it is there");
    }
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
    let [admitted, refused] =
        [&storm.admitted, &storm.refused].map(|count| count.load(Ordering::Relaxed));
    testing::tell(&format!(
        "{admitted} calls admitted, {refused} refused, {looks} looks at all permits"
    ));
    // The bounds were reached.
    assert!(refused > 0 && looks > 0);
    let mut charged = 0;
    let (_, stores) = &storm.handles[0];
    for account in 0..ACCOUNTS {
        let id = name(account);
        let load = stores.quota.load(&id, at(2)).await;
        assert_eq!(load.expect("it answers"), Load::default());
        let credits = stores.accounts.credits(&id, at(2)).await;
        let credits = credits.expect("it answers");
        assert_eq!(credits.held_cents, 0);
        charged += i64::from(GRANTED) - credits.balance_cents;
    }
    assert_eq!(u64::try_from(charged).expect("charges"), admitted);
    let unfinished = stores.usage.unfinished().await;
    assert_eq!(unfinished.expect("it answers"), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_admit_as_many_at_once_as_there_is_room_for() {
    if !crate::testing::has_postgres() {
        return;
    }
    let handles = two().await;
    let names = [0, 2, 4].map(name);
    for name in &names {
        let row = Account::new(name.clone(), name.into(), at(0));
        handles[0].1.admin.create(row).await.expect("a free id");
    }
    // The cap is reached before the count.
    let limits = RouterLimits {
        concurrent_calls: 7,
        committed_spend_cents: 5 * CENTS,
        ..RouterLimits::standard()
    };
    for round in 0..8_u128 {
        let asked = (0..192_u128).map(|n| {
            let (calls, _) = &handles[usize::from(n % 2 == 0)];
            let call = Generation {
                id: id(round * 1_000 + n),
                account: names[usize::try_from(n % 3).expect("few")].clone(),
                hold_cents: CENTS,
                ..generation(0)
            };
            let (calls, limits) = (calls.clone(), limits.clone());
            tokio::spawn(async move {
                let admission = CallAdmission {
                    payer: (&call.account).into(),
                    limits: &limits,
                    generation: &call,
                    key: None,
                    lease: lease(),
                };
                let admitted = calls.admit(admission).await;
                (call, admitted)
            })
        });
        let mut admitted = Vec::new();
        for one in join_all(asked).await {
            let (call, answer) = one.expect("it ends");
            match answer {
                Ok(()) => admitted.push(call),
                Err(RouterError::SpendCap { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        for name in &names {
            let of_account = admitted.iter().filter(|call| call.account == *name);
            assert_eq!(of_account.count(), 5);
            let load = handles[0].1.quota.load(name, at(0)).await;
            let load = load.expect("it answers");
            assert_eq!((load.calls, load.committed_cents), (5, 5 * CENTS));
        }
        let ends = admitted
            .iter()
            .map(|call| Admissions::end(&handles[1].0, end(call)));
        for ended in join_all(ends).await {
            assert_eq!(ended.expect("it answers"), Settled::Now);
        }
    }
}
