//! Everything at once by two processes: no transaction waits for another in a circle, and the books agree at the end.

use accounts::contract::Dice;
use accounts::{CreditLedger, MintedKey, Session, SessionSource, Sessions};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::*;
use crate::statements::query;

/// Tasks of each process, and what each of them does.
const TASKS: u64 = 4;
const STEPS: usize = 60;

const LEASE: Duration = Duration::from_secs(30);

fn now() -> Timestamp {
    Timestamp::new(1_790_000_000, 123_456_789).expect("in range")
}

fn generation(number: usize) -> LedgerRef {
    LedgerRef::Generation(Uuid::from_u128(number as u128))
}

/// Two processes over one store, and three accounts that are billed and have 300 cents each.
async fn two_processes() -> ([PgAccounts; 2], Vec<AccountId>) {
    let url = testing::fresh_database().await;
    let open = async || PgAccounts::new(testing::open(&url).await, Tier::standard());
    let stores = [open().await, open().await];
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        let id: AccountId = name.parse().expect("an id");
        let account = Account::new(id.clone(), (&id).into(), now());
        stores[0].create(account).await.expect("the id is free");
        let billed = vec![AccountChange::Billed(true)];
        stores[1].change(&id, billed).await.expect("it is there");
        let granted = stores[0].grant(&id, LedgerRef::Grant(Uuid::nil()), 300, now());
        granted.await.expect("it is there");
        ids.push(id);
    }
    (stores, ids)
}

/// Runs tasks of both processes, each with dice of its own.
async fn storm<F>(stores: &[PgAccounts; 2], task: impl Fn(PgAccounts, Dice) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for seed in 0..TASKS {
        for store in stores {
            tasks.spawn(task(store.clone(), Dice::new(seed * 7 + 1)));
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no task panics");
    }
}

/// What a program with rows of its own does in one transaction: bills for many accounts, in any order.
async fn bill_several(store: &PgAccounts, bills: Vec<(AccountId, LedgerRef, u64, Timestamp)>) {
    let mut connection = store.database.connection().await.expect("it answers");
    let rows = connection.transaction().await.expect("it answers");
    let billed = ledger::bill(&rows, &bills).await;
    billed.expect("no deadlock");
    rows.commit().await.expect("it answers");
}

async fn spend(store: PgAccounts, ids: Vec<AccountId>, mut dice: Dice) {
    for _ in 0..STEPS {
        let id = &ids[dice.roll(ids.len())];
        let cause = generation(dice.roll(40));
        match dice.roll(6) {
            0 | 1 => {
                let held = store.reserve(id.into(), cause, 10, LEASE, now()).await;
                held.expect("an answer");
            }
            2 => {
                let settled = store.settle(id, cause, 4, now()).await;
                settled.expect("it is there");
            }
            3 => store.release(id, cause).await.expect("an answer"),
            4 => {
                let all = ids.iter().rev();
                let all = all.flat_map(|id| (0..40).rev().map(move |n| (id, generation(n))));
                let all: Vec<_> = all.collect();
                let renewed = store.renew(&all, LEASE, now()).await;
                renewed.expect("an answer");
            }
            _ => {
                let bills = (0..6).map(|_| {
                    let id = ids[dice.roll(ids.len())].clone();
                    let cents = dice.roll(3) as u64;
                    (id, generation(dice.roll(40)), cents, now())
                });
                bill_several(&store, bills.collect()).await;
            }
        }
        let credits = store.credits(id, now()).await.expect("an answer");
        assert!(credits.balance_cents >= 300 - 40 * 4, "{credits:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn balances_and_ledger_agree_after_a_storm() {
    if !crate::testing::has_postgres() {
        return;
    }
    let (stores, ids) = two_processes().await;
    let all = ids.clone();
    storm(&stores, move |store, dice| spend(store, all.clone(), dice)).await;
    for id in &ids {
        let credits = stores[1].credits(id, now()).await.expect("an answer");
        let entries = stores[0].entries(id, None, 1_000).await.expect("an answer");
        let sum: i64 = entries.iter().map(|entry| entry.amount_cents).sum();
        assert_eq!(credits.balance_cents, sum);
        let numbers: Vec<u64> = entries.iter().rev().map(|entry| entry.seq).collect();
        let expected: Vec<u64> = (1..=entries.len() as u64).collect();
        assert_eq!(numbers, expected);
        // What is held after all of them is what can be let go.
        for number in 0..40 {
            let released = stores[0].release(id, generation(number)).await;
            released.expect("an answer");
        }
        let credits = stores[1].credits(id, now()).await.expect("an answer");
        assert_eq!(credits.held_cents, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_costs_nothing_or_nobody_lets_its_hold_go() {
    if !crate::testing::has_postgres() {
        return;
    }
    let (stores, ids) = two_processes().await;
    for number in [1, 2] {
        let held = stores[0].reserve((&ids[0]).into(), generation(number), 10, LEASE, now());
        assert_eq!(held.await.expect("an answer"), Reservation::Held);
    }
    let nobody: AccountId = "nobody".parse().expect("an id");
    let bills = vec![
        (ids[0].clone(), generation(1), 0, now()),
        (nobody.clone(), generation(3), 5, now()),
        (ids[0].clone(), generation(2), 7, now()),
    ];
    bill_several(&stores[0], bills).await;
    let credits = stores[1].credits(&ids[0], now()).await.expect("an answer");
    assert_eq!((credits.balance_cents, credits.held_cents), (293, 0));
    let entries = stores[1].entries(&nobody, None, 9).await;
    assert_eq!(entries.expect("an answer"), []);
}

async fn sign_in_and_out(store: PgAccounts, ids: Vec<AccountId>, key: ApiKey, mut dice: Dice) {
    for step in 0..STEPS {
        let token = KeyHash::of(&format!("token {}", dice.roll(30)));
        let account = ids[dice.roll(ids.len())].clone();
        match dice.roll(6) {
            0 => store.end(&token).await.expect("an answer"),
            1 => {
                let suspended = vec![AccountChange::State(AccountState::Suspended)];
                store.change(&account, suspended).await.expect("an answer");
            }
            2 => {
                store.revoke_key(&key.id, now()).await.expect("an answer");
            }
            _ => {
                let began_at = now() + Duration::from_secs(step as u64);
                let session = Session {
                    account,
                    source: SessionSource::Credential(KeyHash::of("a key")),
                    began_at,
                    ends_at: began_at + Duration::from_secs(5),
                };
                let begun = store.begin(token, session).await;
                let well = matches!(begun, Ok(()) | Err(AdminError::Taken));
                assert!(well, "{begun:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_sign_in_while_sessions_end_by_the_dozen() {
    if !crate::testing::has_postgres() {
        return;
    }
    let (stores, ids) = two_processes().await;
    let key = ApiKey {
        id: MintedKey::new(&[7; MintedKey::RANDOM_BYTES]).id,
        account: ids[0].clone(),
        name: (&ids[0]).into(),
        scopes: accounts::Scopes::all(),
        created_at: now(),
        expires_at: Some(Timestamp::MAX),
        revoked_at: None,
    };
    let added = stores[0].add_key(key.clone(), KeyHash::of("a key")).await;
    added.expect("it is new");
    let kept = key.clone();
    storm(&stores, move |store, dice| {
        sign_in_and_out(store, ids.clone(), kept.clone(), dice)
    })
    .await;
    // Times are cut off to microseconds, and read back as they were answered.
    let keys = stores[1].keys(&key.account).await.expect("it is there");
    let whole = whole_micros(now());
    assert_eq!(
        (keys[0].created_at, keys[0].revoked_at),
        (whole, Some(whole))
    );
    assert_eq!(keys[0].expires_at, Some(whole_micros(Timestamp::MAX)));
    let connection = stores[0].database.connection().await.expect("it answers");
    let sql = "SELECT count(*) FROM sessions GROUP BY account";
    let counts = query(&connection, sql, &[]).await.expect("it answers");
    assert!(counts.iter().all(|row| row.get::<_, i64>(0) <= 30));
}
