//! What every store of webhooks must do, written once and run on each.

mod replicas;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use accounts::AccountId;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::{
    AttemptOutcome, Attempted, Delivery, DeliveryState, DisabledReason, DueQuery, Event, EventKind,
    Health, JobFact, MOST_WEBHOOKS, Outbox, SecretVersions, Webhook, WebhookChange, WebhookId,
    WebhookState, Webhooks, WebhooksError,
};

pub use replicas::replicas;

/// Writes an event down for those that want it, as the store does with a fact.
pub type Publish = Box<dyn Fn(Event) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// The ports of one store that has the accounts `acme` and `other`.
pub struct Stores {
    /// What operators change.
    pub webhooks: Arc<dyn Webhooks>,
    /// What a sender works off.
    pub outbox: Arc<dyn Outbox>,
    /// What a fact does.
    pub publish: Publish,
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stores")
    }
}

/// Runs every rule, each on a fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn webhooks<F: Future<Output = Stores>>(fresh: impl Fn() -> F) {
    what_is_added_is_listed_until_it_is_removed(&fresh().await).await;
    an_account_has_so_many_and_no_more(&fresh().await).await;
    an_event_is_for_those_of_its_account_that_want_it(&fresh().await).await;
    what_happens_to_one_object_is_delivered_in_order(&fresh().await).await;
    a_failed_message_waits_and_a_late_note_changes_nothing(&fresh().await).await;
    a_webhook_that_is_gone_is_disabled_and_the_others_hear_of_it(&fresh().await).await;
    what_waits_for_a_disabled_webhook_is_due_once_it_is_enabled(&fresh().await).await;
    pages_go_through_all_that_is_due(&fresh().await).await;
    what_was_delivered_is_forgotten_and_what_waits_is_not(&fresh().await).await;
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_750_000_000 + seconds).expect("in range")
}

fn acme() -> AccountId {
    "acme".parse().expect("an id")
}

fn other() -> AccountId {
    "other".parse().expect("an id")
}

fn webhook(id: u128, account: AccountId, kinds: &str) -> Webhook {
    Webhook {
        id: WebhookId(Uuid::from_u128(id)),
        account,
        url: format!("https://example.com/{id}")
            .parse()
            .expect("an address"),
        kinds: kinds.parse().expect("kinds"),
        secrets: SecretVersions::FIRST,
        state: WebhookState::Enabled,
        health: Health::default(),
        created_at: at(0),
    }
}

async fn add(stores: &Stores, id: u128, account: AccountId, kinds: &str) -> Webhook {
    let webhook = webhook(id, account, kinds);
    let added = stores.webhooks.add(webhook.clone()).await;
    added.expect("it is new");
    webhook
}

fn job(account: &AccountId, id: u128, status: &'static str, now: Timestamp) -> Event {
    let fact = JobFact {
        account,
        id: Uuid::from_u128(id),
        status,
        at: now,
    };
    match status {
        "queued" => Event::job_created(fact),
        _ => Event::job_ended(fact),
    }
}

async fn due(stores: &Stores, now: Timestamp) -> Vec<Delivery> {
    due_but(stores, &[], now).await
}

async fn due_but(stores: &Stores, under_way: &[u64], now: Timestamp) -> Vec<Delivery> {
    let query = DueQuery {
        under_way: under_way.to_vec(),
        webhooks: 100,
        of_each: 100,
        ..DueQuery::default()
    };
    let page = stores.outbox.due(&query, now).await.expect("an answer");
    assert_eq!(page.next, None, "it is the last page");
    page.due
        .into_iter()
        .flat_map(|due| due.deliveries)
        .collect()
}

fn attempted(delivery: &Delivery, status: u16, now: Timestamp) -> Attempted {
    let outcome = match status {
        200..300 => AttemptOutcome::Delivered { status },
        _ => AttemptOutcome::Failed {
            status: Some(status),
            why: format!("it answered {status}"),
            retry_after: None,
        },
    };
    Attempted {
        webhook: delivery.webhook,
        place: delivery.place,
        attempts_before: delivery.attempts,
        outcome,
        at: now,
    }
}

async fn note(stores: &Stores, delivery: &Delivery, status: u16, now: Timestamp) -> Vec<Webhook> {
    let noted = stores.outbox.note(vec![attempted(delivery, status, now)]);
    noted.await.expect("it is noted")
}

async fn newest(stores: &Stores, id: WebhookId) -> Vec<Delivery> {
    let newest = stores.webhooks.deliveries(id, None, 100).await;
    newest.expect("an answer")
}

async fn what_is_added_is_listed_until_it_is_removed(stores: &Stores) {
    let one = add(stores, 1, acme(), "job.ended").await;
    let two = add(stores, 2, other(), "call.ended").await;
    let three = add(stores, 3, acme(), "job.created,budget.reached").await;
    let list = async |account: Option<AccountId>, after: Option<WebhookId>, limit| {
        let listed = stores.webhooks.list(account.as_ref(), after, limit).await;
        listed.expect("an answer")
    };
    let all = [one.clone(), two.clone(), three.clone()];
    assert_eq!(list(None, None, 10).await, all);
    assert_eq!(
        list(Some(acme()), None, 10).await,
        [one.clone(), three.clone()]
    );
    assert_eq!(list(None, Some(one.id), 1).await, [two]);
    let again = stores.webhooks.add(one.clone()).await;
    assert!(matches!(again, Err(WebhooksError::Taken)), "{again:?}");

    let changes = vec![
        WebhookChange::Url("https://example.com/new".parse().expect("an address")),
        WebhookChange::Kinds("call.ended".parse().expect("kinds")),
        WebhookChange::Rotate {
            previous_until: at(60),
        },
    ];
    let changed = stores.webhooks.change(one.id, changes, at(1)).await;
    let changed = changed.expect("it is there");
    assert_eq!(changed.url.as_str(), "https://example.com/new");
    assert_eq!(changed.secrets, SecretVersions::FIRST.rotated(at(60)));
    let found = stores.webhooks.get(one.id).await.expect("an answer");
    assert_eq!(found, Some(changed));

    stores.webhooks.remove(one.id).await.expect("it is there");
    assert_eq!(stores.webhooks.get(one.id).await.expect("an answer"), None);
    let gone = stores.webhooks.remove(one.id).await;
    assert!(matches!(gone, Err(WebhooksError::NoWebhook)), "{gone:?}");
    let gone = stores.webhooks.change(one.id, Vec::new(), at(2)).await;
    assert!(matches!(gone, Err(WebhooksError::NoWebhook)), "{gone:?}");
    let gone = stores
        .webhooks
        .send(one.id, Event::test(&acme(), one.id, at(2)));
    assert!(matches!(gone.await, Err(WebhooksError::NoWebhook)));
    assert_eq!(list(Some(acme()), None, 10).await, [three]);
}

async fn an_account_has_so_many_and_no_more(stores: &Stores) {
    for id in 0..MOST_WEBHOOKS {
        add(stores, id as u128, acme(), "job.ended").await;
    }
    let one_more = stores
        .webhooks
        .add(webhook(1_000, acme(), "job.ended"))
        .await;
    assert!(
        matches!(one_more, Err(WebhooksError::TooMany)),
        "{one_more:?}"
    );
    add(stores, 1_001, other(), "job.ended").await;
}

async fn an_event_is_for_those_of_its_account_that_want_it(stores: &Stores) {
    let wants = add(stores, 1, acme(), "job.ended").await;
    let wants_too = add(stores, 2, acme(), "job.created,job.ended").await;
    add(stores, 3, acme(), "call.ended").await;
    add(stores, 4, other(), "job.ended").await;
    let event = job(&acme(), 7, "succeeded", at(1));
    (stores.publish)(event.clone()).await;
    stores.outbox.arrived().await;
    let due = due(stores, at(1)).await;
    let whose: Vec<WebhookId> = due.iter().map(|delivery| delivery.webhook).collect();
    assert_eq!(whose, [wants.id, wants_too.id]);
    assert!(
        due.iter().all(|delivery| delivery.event == event),
        "{due:?}"
    );
    assert_ne!(due[0].message, due[1].message);
    let test = Event::test(&acme(), wants.id, at(2));
    let sent = stores
        .webhooks
        .send(wants.id, test.clone())
        .await
        .expect("it is there");
    assert_eq!(newest(stores, wants.id).await, [sent, due[0].clone()]);
}

async fn what_happens_to_one_object_is_delivered_in_order(stores: &Stores) {
    let id = add(stores, 1, acme(), "job.created,job.ended").await.id;
    for event in [
        job(&acme(), 1, "queued", at(1)),
        job(&acme(), 2, "queued", at(2)),
        job(&acme(), 1, "failed", at(3)),
        job(&acme(), 2, "succeeded", at(4)),
    ] {
        (stores.publish)(event).await;
    }
    let first = due(stores, at(5)).await;
    let told = |due: &[Delivery]| -> Vec<(EventKind, String)> {
        let told = due
            .iter()
            .map(|it| (it.event.kind, it.event.object.clone()));
        told.collect()
    };
    let (one, two) = (first[0].event.object.clone(), first[1].event.object.clone());
    assert_eq!(
        told(&first),
        [
            (EventKind::JobCreated, one.clone()),
            (EventKind::JobCreated, two.clone())
        ]
    );
    let rest = due_but(stores, &[first[0].place], at(5)).await;
    assert_eq!(
        told(&rest),
        told(&first[1..]),
        "what is under way keeps its object"
    );
    note(stores, &first[0], 200, at(6)).await;
    note(stores, &first[1], 500, at(6)).await;
    assert_eq!(
        told(&due(stores, at(6)).await),
        [(EventKind::JobEnded, one)]
    );
    let all = newest(stores, id).await;
    assert!(all.is_sorted_by(|later, earlier| later.place > earlier.place));
    let older = stores.webhooks.deliveries(id, Some(all[1].place), 1).await;
    assert_eq!(older.expect("an answer"), [all[2].clone()]);
}

async fn a_failed_message_waits_and_a_late_note_changes_nothing(stores: &Stores) {
    let id = add(stores, 1, acme(), "job.ended").await.id;
    (stores.publish)(job(&acme(), 1, "failed", at(1))).await;
    let delivery = due(stores, at(1)).await.remove(0);
    note(stores, &delivery, 503, at(2)).await;
    let failed = newest(stores, id).await.remove(0);
    let DeliveryState::Waiting { next_at } = failed.state else {
        panic!("it waits: {failed:?}");
    };
    assert_eq!((failed.attempts, failed.failing_since), (1, Some(at(2))));
    let last = failed.last.clone().expect("there was an attempt");
    assert_eq!((last.at, last.status), (at(2), Some(503)));
    assert_eq!(last.error.as_deref(), Some("it answered 503"));
    let just_before = next_at - SignedDuration::from_micros(1);
    assert_eq!(due(stores, just_before).await, []);
    let health = stores
        .webhooks
        .get(id)
        .await
        .expect("an answer")
        .expect("it is there")
        .health;
    assert_eq!((health.failures, health.failing_since), (1, Some(at(2))));

    // The attempt of a sender that was overtaken.
    note(stores, &delivery, 200, at(3)).await;
    assert_eq!(newest(stores, id).await, [failed]);

    let again = due(stores, next_at).await.remove(0);
    note(stores, &again, 204, next_at).await;
    assert_eq!(due(stores, at(1_000_000)).await, []);
    let delivered = newest(stores, id).await.remove(0);
    assert_eq!(delivered.state, DeliveryState::Delivered { at: next_at });
    assert_eq!(
        delivered.message, delivery.message,
        "a repeat is recognised by it"
    );
    let found = stores.webhooks.get(id).await.expect("an answer");
    assert_eq!(found.expect("it is there").health, Health::default());
}

async fn a_webhook_that_is_gone_is_disabled_and_the_others_hear_of_it(stores: &Stores) {
    let gone = add(stores, 1, acme(), "job.ended,webhook.disabled").await;
    let watches = add(stores, 2, acme(), "webhook.disabled").await;
    add(stores, 3, other(), "webhook.disabled").await;
    (stores.publish)(job(&acme(), 1, "failed", at(1))).await;
    let delivery = due(stores, at(1)).await.remove(0);
    let disabled = note(stores, &delivery, 410, at(2)).await;
    assert_eq!(
        disabled.iter().map(|it| it.id).collect::<Vec<_>>(),
        [gone.id]
    );
    let found = stores
        .webhooks
        .get(gone.id)
        .await
        .expect("an answer")
        .expect("it is there");
    let reason = DisabledReason::Gone;
    assert_eq!(found.state, WebhookState::Disabled { reason, at: at(2) });
    (stores.publish)(job(&acme(), 2, "failed", at(3))).await;
    let told = due(stores, at(1_000)).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].webhook, watches.id);
    assert_eq!(
        told[0].event,
        Event::webhook_disabled(&acme(), gone.id, reason, at(2))
    );
}

async fn what_waits_for_a_disabled_webhook_is_due_once_it_is_enabled(stores: &Stores) {
    let id = add(stores, 1, acme(), "job.ended").await.id;
    (stores.publish)(job(&acme(), 1, "failed", at(1))).await;
    note(stores, &due(stores, at(1)).await[0], 500, at(1)).await;
    let change = async |change, now| {
        let changed = stores.webhooks.change(id, vec![change], now).await;
        changed.expect("it is there")
    };
    change(WebhookChange::Disable, at(2)).await;
    (stores.publish)(job(&acme(), 2, "failed", at(3))).await;
    assert_eq!(due(stores, at(1_000)).await, []);
    let enabled = change(WebhookChange::Enable, at(4)).await;
    assert_eq!(
        (enabled.state, enabled.health),
        (WebhookState::Enabled, Health::default())
    );
    let due = due(stores, at(4)).await;
    assert_eq!(due.len(), 1, "what happened meanwhile was not written down");
    assert_eq!(due[0].failing_since, None, "it has another day");
}

async fn pages_go_through_all_that_is_due(stores: &Stores) {
    for id in 1..=5 {
        add(stores, id, acme(), "job.ended").await;
    }
    for id in 0..3 {
        (stores.publish)(job(&acme(), id, "failed", at(1))).await;
    }
    let skip = WebhookId(Uuid::from_u128(2));
    let (mut after, mut met) = (None, Vec::new());
    loop {
        let query = DueQuery {
            after,
            skip: vec![skip],
            under_way: Vec::new(),
            webhooks: 2,
            of_each: 2,
        };
        let page = stores.outbox.due(&query, at(1)).await.expect("an answer");
        met.extend(
            page.due
                .iter()
                .map(|due| (due.webhook.id.0.as_u128(), due.deliveries.len())),
        );
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(met, [(1, 2), (3, 2), (4, 2), (5, 2)]);
}

async fn what_was_delivered_is_forgotten_and_what_waits_is_not(stores: &Stores) {
    let keeps = add(stores, 1, acme(), "job.ended").await.id;
    let disabled = add(stores, 2, acme(), "job.ended").await.id;
    let removed = add(stores, 3, acme(), "job.ended").await.id;
    for id in 0..3 {
        (stores.publish)(job(&acme(), id, "failed", at(1))).await;
    }
    stores.webhooks.remove(removed).await.expect("it is there");
    let waiting = due(stores, at(1)).await;
    note(stores, &waiting[0], 200, at(10)).await;
    let off = vec![WebhookChange::Disable];
    let changed = stores.webhooks.change(disabled, off, at(10)).await;
    changed.expect("it is there");
    // In steps, until nothing is left to forget.
    let prune = async |before, disabled_before| {
        loop {
            let pruned = stores.outbox.prune(before, disabled_before, 2, at(20));
            let went = pruned.await.expect("it is done");
            assert!(went <= 2, "no more than it may");
            if went == 0 {
                return (
                    newest(stores, keeps).await.len(),
                    newest(stores, disabled).await.len(),
                );
            }
        }
    };
    assert_eq!(prune(at(10), at(10)).await, (3, 3));
    assert_eq!(prune(at(11), at(10)).await, (2, 3), "what was delivered");
    assert_eq!(prune(at(11), at(11)).await, (2, 0), "what waited in vain");
}
