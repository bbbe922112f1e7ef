//! The contract of webhooks on SQLite, and which facts write events down.

use std::sync::{Arc, Mutex};

use accounts::{Account, AccountAdmin, AccountId};
use tempfile::TempDir;
use uuid::Uuid;
use webhooks::contract::{self, Stores};
use webhooks::{EventKind, SecretVersions};

use super::*;
use crate::Store;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).expect("in range")
}

fn account(name: &str) -> AccountId {
    name.parse().expect("an id")
}

async fn fresh() -> (TempDir, Store) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(root.path()).expect("a fresh store");
    for name in ["acme", "other"] {
        let account = Account::new(account(name), (&account(name)).into(), at(0));
        store.accounts().create(account).await.expect("a free id");
    }
    (root, store)
}

fn webhook(id: u128, kinds: &str) -> Webhook {
    Webhook {
        id: WebhookId(Uuid::from_u128(id)),
        account: account("acme"),
        url: "https://example.com/hooks".parse().expect("an address"),
        kinds: kinds.parse().expect("kinds"),
        secrets: SecretVersions::FIRST,
        state: WebhookState::Enabled,
        health: Health::default(),
        created_at: at(0),
    }
}

impl SqliteWebhooks {
    /// Writes an event down, as a fact does.
    async fn publish(&self, event: Event) {
        let published = self.write(move |hooks, rows| {
            let (account, kind) = (event.account.clone(), event.kind);
            hooks.publish(rows, &account, kind, || event)
        });
        published.await.expect("it is written");
    }
}

fn ports(store: &Store) -> Stores {
    let webhooks = store.webhooks();
    Stores {
        webhooks: Arc::new(webhooks.clone()),
        outbox: Arc::new(webhooks.clone()),
        publish: Box::new(move |event| {
            let webhooks = webhooks.clone();
            Box::pin(async move { webhooks.publish(event).await })
        }),
    }
}

#[tokio::test]
async fn webhooks_in_rows_keep_the_contract() {
    let roots = Mutex::new(Vec::new());
    contract::webhooks(|| async {
        let (root, store) = fresh().await;
        roots.lock().expect("no panic").push(root);
        ports(&store)
    })
    .await;
}

#[tokio::test]
async fn webhooks_in_rows_keep_the_contract_of_replicas() {
    let roots = Mutex::new(Vec::new());
    contract::replicas(|| async {
        let (root, store) = fresh().await;
        roots.lock().expect("no panic").push(root);
        [ports(&store), ports(&store)]
    })
    .await;
}

#[tokio::test]
async fn an_account_that_does_not_exist_gets_no_webhook() {
    let (_root, store) = fresh().await;
    let stranger = Webhook {
        account: account("stranger"),
        ..webhook(1, "job.ended")
    };
    let refused = store.webhooks().add(stranger).await;
    assert!(
        matches!(refused, Err(WebhooksError::NoAccount)),
        "{refused:?}"
    );
}

#[tokio::test]
async fn what_was_written_down_outlives_the_process_and_what_is_wanted_does_too() {
    let (root, store) = fresh().await;
    let webhooks = store.webhooks();
    webhooks
        .add(webhook(1, "job.ended"))
        .await
        .expect("it is new");
    let event = |n| {
        Event::job_ended(webhooks::JobFact {
            account: &account("acme"),
            id: Uuid::from_u128(n),
            status: "failed",
            at: at(1),
        })
    };
    webhooks.publish(event(1)).await;
    drop((store, webhooks));
    let store = Store::open(root.path()).expect("it opens again");
    let webhooks = store.webhooks();
    webhooks.publish(event(2)).await;
    let query = DueQuery {
        webhooks: 10,
        of_each: 10,
        ..DueQuery::default()
    };
    let page = webhooks.due(&query, at(1)).await.expect("an answer");
    let events = page.due[0].deliveries.iter().map(|it| it.event.clone());
    assert_eq!(events.collect::<Vec<_>>(), [event(1), event(2)]);
}

#[tokio::test]
async fn an_event_that_nobody_wants_leaves_no_row() {
    let (_root, store) = fresh().await;
    let webhooks = store.webhooks();
    webhooks
        .add(webhook(1, "call.ended"))
        .await
        .expect("it is new");
    let before = rows_of(&webhooks).await;
    webhooks
        .publish(Event::job_created(webhooks::JobFact {
            account: &account("acme"),
            id: Uuid::from_u128(1),
            status: "queued",
            at: at(1),
        }))
        .await;
    assert_eq!(rows_of(&webhooks).await, before);
    let unwanted = webhooks
        .hooks
        .wanting(&account("acme"), EventKind::JobCreated);
    assert_eq!(unwanted, []);
}

async fn rows_of(webhooks: &SqliteWebhooks) -> i64 {
    let count = "SELECT count(*) FROM webhook_deliveries";
    let counted = webhooks.read(move |rows| rows.query_row(count, [], |row| row.get(0)));
    counted.await.expect("an answer")
}
