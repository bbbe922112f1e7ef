//! Calls of several accounts that three processes admit, renew and end as fast as they can: no transaction waits for another in a
//! circle, no account has more than its room, and nothing is left of a call that was refused or has ended.
//!
//! `EASEL_ADMISSIONS` is how many are admitted.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use accounts::{AccountChange, LedgerRef, RouterLimits};
use router_core::{Admissions, CallAdmission, CallEnd, Load, RouterError};

use super::*;

const ADMISSIONS: &str = "EASEL_ADMISSIONS";
/// How many unless the variable says so.
const FEW: u64 = 1_000;
const HANDLES: usize = 3;
const ACCOUNTS: usize = 8;
/// Clients of each account: more than it has room for.
const CLIENTS: usize = 8;
const ROOM: u32 = 5;
const GRANTED: i32 = 100_000_000;

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
}

impl Storm {
    async fn client(self: Arc<Self>, account: usize, client: usize) {
        let limits = RouterLimits {
            concurrent_calls: ROOM,
            ..RouterLimits::standard()
        };
        for number in 0_usize.. {
            if self.admitted.load(Ordering::Relaxed) >= self.most {
                return;
            }
            let place = (account * CLIENTS + client) as u128;
            let call = Generation {
                id: id(place << 64 | number as u128),
                account: name(account),
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
                Err(RouterError::TooManyCalls { .. }) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                Err(error) => panic!("{error:?}"),
            }
            let held = self.held[account].fetch_add(1, Ordering::SeqCst) + 1;
            assert!(held <= ROOM, "{held} calls of {ROOM}");
            self.admitted.fetch_add(1, Ordering::Relaxed);
            renew(stores, &call).await;
            self.held[account].fetch_sub(1, Ordering::SeqCst);
            let (calls, _) = &self.handles[(client + number + 1) % HANDLES];
            let ended = Admissions::end(calls, end(&call)).await;
            assert_eq!(ended.expect("it answers"), Settled::Now);
        }
    }
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
    });
    let clients = (0..ACCOUNTS * CLIENTS).map(|number| {
        let client = Arc::clone(&storm).client(number / CLIENTS, number % CLIENTS);
        tokio::spawn(client)
    });
    for ended in join_all(clients).await {
        ended.expect("no account had more than its room");
    }
    let [admitted, refused] =
        [&storm.admitted, &storm.refused].map(|count| count.load(Ordering::Relaxed));
    testing::tell(&format!("{admitted} calls admitted, {refused} refused"));
    assert!(refused > 0);
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
