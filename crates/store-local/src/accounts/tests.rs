//! The contract of accounts on SQLite, what outlives the process, and what the disk may do in between.

use std::sync::{Arc, Mutex};

use accounts::contract::{self, Ports, SessionPorts};
use accounts::{
    BudgetScope, MintedKey, Payer, RateWindow, Scopes, Session, SessionSource, Sessions,
};
use rusqlite::OptionalExtension;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::{Clock, Store, StoreOptions};

fn open(root: &TempDir) -> SqliteAccounts {
    let store = Store::open(root.path()).expect("the store opens");
    store.accounts()
}

fn fresh() -> (TempDir, SqliteAccounts) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let accounts = open(&root);
    (root, accounts)
}

/// How long holds last.
const LEASE: Duration = Duration::from_secs(30);

fn now() -> Timestamp {
    Timestamp::new(1_790_000_000, 123_456_789).expect("in range")
}

async fn acme(store: &SqliteAccounts) -> AccountId {
    let id: AccountId = "acme".parse().expect("an id");
    let account = Account::new(id.clone(), (&id).into(), now());
    store.create(account).await.expect("the id is free");
    id
}

fn generation(number: u128) -> LedgerRef {
    LedgerRef::Generation(Uuid::from_u128(number))
}

#[tokio::test]
async fn accounts_in_rows_keep_the_contract() {
    let roots = Mutex::new(Vec::new());
    contract::accounts(|tier| {
        let root = tempfile::tempdir().expect("a temporary directory");
        let clock = Clock::system();
        let options = StoreOptions {
            clock,
            tier,
            ..StoreOptions::default()
        };
        let store = Store::open_with(root.path(), options).expect("a fresh store");
        roots.lock().expect("no panic").push(root);
        let store = Arc::new(store.accounts());
        Ports {
            accounts: store.clone(),
            admin: store,
        }
    })
    .await;
}

/// One process has the directory: its handles share one store.
#[tokio::test]
async fn accounts_in_rows_keep_the_contract_of_handles() {
    let roots = Mutex::new(Vec::new());
    contract::replicas(|tier| {
        let root = tempfile::tempdir().expect("a temporary directory");
        let options = StoreOptions {
            tier,
            ..StoreOptions::default()
        };
        let store = Store::open_with(root.path(), options).expect("a fresh store");
        roots.lock().expect("no panic").push(root);
        [(); 2].map(|()| {
            let store = Arc::new(store.accounts());
            Ports {
                accounts: store.clone(),
                admin: store,
            }
        })
    })
    .await;
}

#[tokio::test]
async fn what_was_charged_in_the_windows_outlives_the_process() {
    let (root, store) = fresh();
    let acme = acme(&store).await;
    let budgets = "100/month".parse().expect("budgets");
    let changes = vec![AccountChange::Budgets(Some(budgets))];
    store.change(&acme, changes).await.expect("it is there");
    let settled = store.settle(&acme, generation(1), 60, whole_micros(now()));
    settled.await.expect("it is there");
    let before = store.credits(&acme, now()).await.expect("an answer");
    assert_eq!(before.spend.month_cents, 60);
    drop(store);
    let store = open(&root);
    assert_eq!(
        store.credits(&acme, now()).await.expect("an answer"),
        before
    );
    let refused = store
        .reserve((&acme).into(), generation(2), 41, LEASE, now())
        .await;
    assert!(
        matches!(refused, Ok(Reservation::OverBudget(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn what_a_call_counts_against_outlives_the_process() {
    let (root, store) = fresh();
    let acme = acme(&store).await;
    let blue: BudgetScope = "label:team=blue".parse().expect("a scope");
    let budgets = "100/month".parse().expect("budgets");
    let changes = vec![AccountChange::ScopedBudgets(vec![(blue.clone(), budgets)])];
    store.change(&acme, changes).await.expect("it is there");
    let scopes = [blue.clone()];
    let payer = Payer {
        account: &acme,
        scopes: &scopes,
    };
    for (number, cents) in [(1, 60), (2, 30)] {
        let held = store.reserve(payer, generation(number), cents, LEASE, now());
        assert_eq!(held.await.expect("an answer"), Reservation::Held);
    }
    store
        .release(&acme, generation(2))
        .await
        .expect("an answer");
    drop(store);
    let store = open(&root);
    assert!(!store.accounts.has_scopes(&acme, generation(2)));
    // Whoever goes on with the call knows its id alone.
    let settled = store.settle(&acme, generation(1), 60, whole_micros(now()));
    settled.await.expect("it is there");
    let over = async |store: &SqliteAccounts| {
        let view = store.accounts(&AccountQuery::One(acme.clone())).await;
        let spend = view.expect("an answer")[0].scoped[0].credits.spend;
        let refused = store.reserve(payer, generation(3), 41, LEASE, now());
        match refused.await.expect("an answer") {
            Reservation::OverBudget(over) => (spend.month_cents, over.of),
            Reservation::Held | Reservation::Insufficient { .. } => panic!("it fits"),
        }
    };
    let expected = (60, Some(blue.clone()));
    assert_eq!(over(&store).await, expected);
    drop(store);
    assert_eq!(over(&open(&root)).await, expected);
}

#[test]
fn charges_of_earlier_formats_count_in_their_windows() {
    let rows = Connection::open_in_memory().expect("a database");
    let migrations = [
        include_str!("../../migrations/accounts/0001.sql"),
        include_str!("../../migrations/accounts/0002.sql"),
        include_str!("../../migrations/accounts/0003.sql"),
        include_str!("../../migrations/accounts/0004.sql"),
    ];
    for migration in migrations {
        rows.execute_batch(migration).expect("a migration");
    }
    for id in ["acme", "idle"] {
        let account = format!(
            "INSERT INTO accounts (id, name, suspended, subscribed, router, billed, balance_cents, created_at)
             VALUES ('{id}', 'Somebody', 0, 0, 0, 0, 0, 0)"
        );
        rows.execute(&account, []).expect("an account");
    }
    let entries = [
        (1, 500, "2027-12-31T23:10:00Z"),
        (2, -1, "2027-11-30T23:59:59Z"),
        (2, -2, "2027-12-01T00:00:00Z"),
        (2, -4, "2027-12-31T22:59:59Z"),
        (2, -8, "2027-12-31T23:00:00Z"),
        (2, -16, "2027-12-31T23:05:00.5Z"),
    ];
    for (seq, (why, cents, at)) in (1_i64..).zip(entries) {
        let at: Timestamp = at.parse().expect("a time");
        let cause = Uuid::from_u128(seq.unsigned_abs().into()).into_bytes();
        let added = rows.execute(
            "INSERT INTO ledger (account, seq, why, cause, amount_cents, at) VALUES ('acme', ?1, ?2, ?3, ?4, ?5)",
            rusqlite::params![seq, why, cause, cents, at.as_microsecond()],
        );
        added.expect("an entry");
    }
    let later = [
        include_str!("../../migrations/accounts/0005.sql"),
        include_str!("../../migrations/accounts/0006.sql"),
        include_str!("../../migrations/accounts/0007.sql"),
    ];
    for migration in later {
        rows.execute_batch(migration).expect("a migration");
    }
    let mut spends = Vec::new();
    let read = rows::each_account(&rows, |account, credits| {
        spends.push((account.id.to_string(), credits.spend));
    });
    read.expect("accounts");
    let spend = accounts::Spend {
        at: "2027-12-31T23:05:00.5Z".parse().expect("a time"),
        hour_cents: 24,
        day_cents: 28,
        month_cents: 30,
    };
    let idle = accounts::Spend::default();
    assert_eq!(
        spends,
        [("acme".to_owned(), spend), ("idle".to_owned(), idle)]
    );
}

#[tokio::test]
async fn sessions_in_rows_keep_the_contract_of_replicas() {
    let roots = Mutex::new(Vec::new());
    contract::sessions(|| {
        let root = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(root.path()).expect("a fresh store");
        roots.lock().expect("no panic").push(root);
        let handle = || {
            let store = Arc::new(store.accounts());
            SessionPorts {
                sessions: store.clone(),
                admin: store,
            }
        };
        [handle(), handle()]
    })
    .await;
}

#[tokio::test]
async fn sessions_outlive_the_process() {
    let (root, store) = fresh();
    let acme = acme(&store).await;
    let session = Session {
        account: acme.clone(),
        source: SessionSource::Jwt {
            scopes: Scopes::NONE,
            key: KeyHash::of("a secret"),
        },
        began_at: whole_micros(now()),
        ends_at: Timestamp::MAX,
    };
    let token = KeyHash::of("a token");
    let begun = store.begin(token, session.clone()).await;
    begun.expect("the token is fresh");
    drop(store);
    let store = open(&root);
    let found = store.find(&token, now()).await.expect("an answer");
    let ends_at = whole_micros(session.ends_at);
    assert_eq!(found, Some(Session { ends_at, ..session }));
}

#[tokio::test]
async fn everything_but_holds_outlives_the_process() {
    let (root, store) = fresh();
    let acme = acme(&store).await;
    let changes = vec![
        AccountChange::Billed(true),
        AccountChange::UploadRetention(Some(jiff::SignedDuration::from_secs(90))),
        AccountChange::RateWindows(Some(RateWindow::read_list("60/1m").expect("windows"))),
        AccountChange::Submissions(Some(RateWindow::read_list("7/1h").expect("windows"))),
        AccountChange::StoredBytes(Some(1 << 40)),
        AccountChange::Entitlements(Some("none".parse().expect("entitlements"))),
    ];
    store.change(&acme, changes).await.expect("it is there");
    let minted = MintedKey::new(&[7; MintedKey::RANDOM_BYTES]);
    let key = ApiKey {
        id: minted.id.clone(),
        account: acme.clone(),
        name: "Production".parse().expect("a name"),
        scopes: Scopes::standard(),
        created_at: now(),
        expires_at: Some(Timestamp::MAX),
        revoked_at: None,
    };
    store.add_key(key, minted.hash()).await.expect("it is new");
    let granted = store.grant(&acme, LedgerRef::Grant(Uuid::nil()), 100, now());
    granted.await.expect("the account is there");
    let held = store.reserve((&acme).into(), generation(1), 70, LEASE, now());
    assert_eq!(held.await.expect("an answer"), Reservation::Held);
    let charged = store.settle(&acme, generation(2), 10, now()).await;
    let charged = charged.expect("an answer");

    let one = AccountQuery::One(acme.clone());
    let before = store.accounts(&one).await.expect("an answer");
    let keys = store.keys(&acme).await.expect("the account is there");
    assert_eq!(
        (
            before[0].credits.balance_cents,
            before[0].credits.held_cents
        ),
        (90, 70)
    );
    drop(store);
    let store = open(&root);
    let after = store.accounts(&one).await.expect("an answer");
    assert_eq!(after[0].account, before[0].account);
    assert_eq!(after[0].tier, before[0].tier);
    assert_eq!(
        (after[0].credits.balance_cents, after[0].credits.held_cents),
        (90, 0)
    );
    assert_eq!(store.keys(&acme).await.expect("it is there"), keys);
    let principal = store.by_key(&minted.hash(), now()).await;
    assert_eq!(
        principal.expect("an answer").and_then(|found| found.key),
        Some(minted.id)
    );
    let again = store.settle(&acme, generation(2), 99, now()).await;
    assert_eq!(
        again.expect("an answer"),
        charged,
        "billed once, also by another process"
    );
}

#[tokio::test]
async fn no_key_is_at_rest_in_the_clear() {
    use secrecy::ExposeSecret;
    let (root, store) = fresh();
    let acme = acme(&store).await;
    let minted = MintedKey::new(&[9; MintedKey::RANDOM_BYTES]);
    let key = ApiKey {
        id: minted.id.clone(),
        name: (&acme).into(),
        account: acme,
        scopes: Scopes::all(),
        created_at: now(),
        expires_at: None,
        revoked_at: None,
    };
    store.add_key(key, minted.hash()).await.expect("it is new");
    drop(store);
    let secret = minted
        .text
        .expose_secret()
        .rsplit_once('_')
        .expect("a secret")
        .1;
    for file in std::fs::read_dir(root.path()).expect("the directory") {
        let path = file.expect("an entry").path();
        if path.is_file() {
            let bytes = std::fs::read(&path).expect("the file");
            let found = bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}

#[tokio::test]
async fn entries_of_the_ledger_neither_change_nor_go() {
    let (_root, store) = fresh();
    let acme = acme(&store).await;
    store
        .settle(&acme, generation(1), 5, now())
        .await
        .expect("an answer");
    for sql in ["UPDATE ledger SET amount_cents = 0", "DELETE FROM ledger"] {
        let refused = store
            .database
            .write(Durability::Now, move |rows| rows.execute(sql, []))
            .await;
        assert!(refused.is_err(), "{sql}");
    }
    assert_eq!(
        store
            .entries(&acme, None, 9)
            .await
            .expect("an answer")
            .len(),
        1
    );
}

/// Many tasks on many threads, all of them at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn balances_rows_and_ledger_agree_after_a_storm() {
    let (_root, store) = fresh();
    let acme = acme(&store).await;
    store
        .change(&acme, vec![AccountChange::Billed(true)])
        .await
        .expect("it is there");
    let granted = store.grant(&acme, LedgerRef::Grant(Uuid::nil()), 500, now());
    granted.await.expect("it is there");
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200 {
        let (store, acme) = (store.clone(), acme.clone());
        tasks.spawn(async move {
            let cause = generation(number % 120);
            let held = store.reserve((&acme).into(), cause, 10, LEASE, now());
            let held = held.await.expect("an answer");
            let credits = store.credits(&acme, now()).await.expect("an answer");
            assert!(credits.available_cents() >= 0, "{credits:?}");
            match held {
                Reservation::Held if number % 3 == 0 => {
                    store.release(&acme, cause).await.expect("an answer");
                }
                Reservation::Held => {
                    store
                        .settle(&acme, cause, 4, now())
                        .await
                        .expect("an answer");
                }
                Reservation::Insufficient { .. } => {}
                Reservation::OverBudget(over) => panic!("{over}"),
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no task panics");
    }
    let credits = store.credits(&acme, now()).await.expect("an answer");
    let entries = store.entries(&acme, None, 1000).await.expect("an answer");
    let sum: i64 = entries.iter().map(|entry| entry.amount_cents).sum();
    let row = store.database.read(|rows| {
        rows.query_row(
            "SELECT balance_cents FROM accounts WHERE id = 'acme'",
            [],
            |row| row.get(0),
        )
        .optional()
    });
    assert_eq!(row.await.expect("an answer"), Some(sum));
    assert_eq!((credits.balance_cents, credits.held_cents), (sum, 0));
}
