//! Two replicas over one store: what operators change through both, what facts write down in both, and what two senders note, in an
//! order that a seed decides, beside a model of what is true. Some steps are made by both at once; then some order of the two
//! explains both answers, and what is there afterwards.

use std::collections::{BTreeMap, HashSet};
use std::future::Future;

use accounts::contract::{Dice, either, either_seen};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::{Stores, acme, at, attempted, job, newest, webhook};
use crate::{
    Attempted, Delivery, DeliveryState, DisabledReason, DueQuery, DueWebhook, Event, EventKind,
    Webhook, WebhookChange, WebhookId, WebhookState, WebhooksError, judge,
};

/// How many histories are told, and how many steps each of them has.
const SEEDS: u64 = 12;
const STEPS: usize = 100;

/// From how many webhooks on no more are added, and how many jobs things happen to.
const WEBHOOKS: usize = 4;
const JOBS: usize = 3;

/// What webhooks want to hear of.
const KINDS: [&str; 4] = [
    "job.ended",
    "job.created",
    "job.created,job.ended",
    "job.ended,webhook.disabled",
];

/// What receivers answer: that it came, that it did not, and that nobody is there any more.
const STATUSES: [u16; 4] = [200, 204, 503, 410];

/// Runs histories of two replicas, each on the two handles of a fresh store that has the account `acme`.
///
/// # Panics
/// If the store breaks a rule.
pub async fn replicas<F: Future<Output = [Stores; 2]>>(fresh: impl Fn() -> F) {
    for seed in 1..=SEEDS {
        let mut history = History {
            handles: fresh().await,
            dice: Dice::new(seed),
            now: 0,
            next: 1,
            model: Model::default(),
        };
        for _ in 0..STEPS {
            history.step().await;
            history.look().await;
        }
    }
}

struct History {
    handles: [Stores; 2],
    dice: Dice,
    now: i64,
    /// The id of the next webhook.
    next: u128,
    model: Model,
}

/// What is true, in the plainest way.
#[derive(Clone, Default)]
struct Model {
    webhooks: BTreeMap<WebhookId, Webhook>,
    deliveries: BTreeMap<u64, Delivery>,
}

impl Model {
    fn add(&mut self, webhook: &Webhook) -> bool {
        let is_new = !self.webhooks.contains_key(&webhook.id);
        if is_new {
            self.webhooks.insert(webhook.id, webhook.clone());
        }
        is_new
    }

    fn remove(&mut self, id: WebhookId) -> bool {
        self.deliveries.retain(|_, delivery| delivery.webhook != id);
        self.webhooks.remove(&id).is_some()
    }

    fn change(&mut self, id: WebhookId, change: &WebhookChange, now: Timestamp) -> Option<Webhook> {
        let webhook = self.webhooks.get_mut(&id)?;
        webhook.apply(change.clone(), now);
        if *change == WebhookChange::Enable {
            let own = self.deliveries.values_mut();
            own.filter(|it| it.webhook == id)
                .for_each(|delivery| delivery.begin_anew(now));
        }
        Some(webhook.clone())
    }

    /// Notes an attempt; whether it disabled the webhook.
    fn note(&mut self, attempted: &Attempted) -> bool {
        let webhook = self.webhooks.get_mut(&attempted.webhook);
        let delivery = self.deliveries.get_mut(&attempted.place);
        let (Some(webhook), Some(delivery)) = (webhook, delivery) else {
            return false;
        };
        let Some(judged) = judge(webhook, delivery, attempted) else {
            return false;
        };
        *delivery = judged.delivery;
        webhook.health = judged.health;
        let was_enabled = webhook.state == WebhookState::Enabled;
        let Some(reason) = judged.disabled else {
            return false;
        };
        webhook.disable(reason, attempted.at);
        was_enabled
    }

    fn wanting(&self, kind: EventKind) -> Vec<WebhookId> {
        let wanting = self.webhooks.values().filter(|it| it.wants(kind));
        wanting.map(|it| it.id).collect()
    }

    /// What was written down for a webhook, newest first.
    fn newest(&self, id: WebhookId) -> Vec<Delivery> {
        let own = self.deliveries.values().rev();
        own.filter(|it| it.webhook == id).cloned().collect()
    }

    fn due(&self, now: Timestamp) -> Vec<DueWebhook> {
        let mut due = Vec::new();
        for webhook in self.webhooks.values().filter(|it| it.may_send(now)) {
            let mut objects = HashSet::new();
            let own = self.deliveries.values();
            let own = own.filter(|it| it.webhook == webhook.id && waits(it));
            let first = own.filter(|it| objects.insert(it.event.object.clone()));
            let mut first: Vec<(Timestamp, Delivery)> = first
                .filter_map(|it| match it.state {
                    DeliveryState::Waiting { next_at } => Some((next_at, it.clone())),
                    DeliveryState::Delivered { .. } => None,
                })
                .filter(|(next_at, _)| *next_at <= now)
                .collect();
            first.sort_by_key(|(next_at, delivery)| (*next_at, delivery.place));
            if !first.is_empty() {
                due.push(DueWebhook {
                    webhook: webhook.clone(),
                    deliveries: first.into_iter().map(|(_, delivery)| delivery).collect(),
                });
            }
        }
        due
    }

    /// The places of what is over before a time.
    fn over(&self, before: Timestamp) -> Vec<u64> {
        let is_over = |delivery: &&Delivery| match delivery.state {
            DeliveryState::Delivered { at } => at < before,
            DeliveryState::Waiting { .. } => match self.webhooks[&delivery.webhook].state {
                WebhookState::Enabled => false,
                WebhookState::Disabled { at, .. } => at < before,
            },
        };
        let over = self.deliveries.values().filter(is_over);
        over.map(|delivery| delivery.place).collect()
    }
}

fn waits(delivery: &Delivery) -> bool {
    matches!(delivery.state, DeliveryState::Waiting { .. })
}

impl History {
    async fn step(&mut self) {
        let handle = self.dice.roll(2);
        match self.dice.roll(12) {
            0 | 1 => self.add_at_once().await,
            2 => self.publish(handle).await,
            3 => self.publish_at_once().await,
            4 => self.send(handle).await,
            5 => self.change_at_once().await,
            6 => self.remove_at_once().await,
            7 | 8 => self.note(handle).await,
            9 => self.note_at_once().await,
            10 => self.prune_at_once().await,
            _ => self.now += i64::try_from(1 + self.dice.roll(40)).expect("few"),
        }
    }

    fn now(&self) -> Timestamp {
        at(self.now)
    }

    /// One of the newest webhooks, or one that was removed.
    fn id(&mut self) -> WebhookId {
        let age = 1 + self.dice.roll(2 * WEBHOOKS) as u128;
        WebhookId(Uuid::from_u128(self.next.saturating_sub(age).max(1)))
    }

    fn event(&mut self) -> Event {
        let status = ["queued", "failed", "succeeded"][self.dice.roll(3)];
        let of = self.dice.roll(JOBS) as u128;
        job(&acme(), of, status, self.now())
    }

    /// Two add webhooks, often under one id: the first one has it. An id that was another's is not given again.
    async fn add_at_once(&mut self) {
        if self.model.webhooks.len() >= WEBHOOKS {
            return;
        }
        let ids = [self.next, self.next + self.dice.roll(2) as u128];
        self.next += 2;
        let new = ids.map(|id| {
            let kinds = KINDS[self.dice.roll(KINDS.len())];
            webhook(id, acme(), kinds)
        });
        let add = async |handle: usize| {
            let webhooks = &self.handles[handle].webhooks;
            match webhooks.add(new[handle].clone()).await {
                Ok(()) => true,
                Err(WebhooksError::Taken) => false,
                Err(error) => panic!("the store answers: {error}"),
            }
        };
        let answers = tokio::join!(add(0), add(1));
        let act = |model: &mut Model, handle: usize| model.add(&new[handle]);
        either(&mut self.model, act, &answers);
    }

    async fn publish(&mut self, handle: usize) {
        let event = self.event();
        (self.handles[handle].publish)(event.clone()).await;
        self.learn(1 - handle, &[event]).await;
    }

    async fn publish_at_once(&mut self) {
        let events = [self.event(), self.event()];
        let [left, right] = &self.handles;
        tokio::join!(
            (left.publish)(events[0].clone()),
            (right.publish)(events[1].clone())
        );
        self.learn(0, &events).await;
    }

    /// Finds at a replica what was written down for those that want to hear of events: each has each event once, behind all
    /// that was there.
    async fn learn(&mut self, handle: usize, events: &[Event]) {
        let ids: Vec<WebhookId> = self.model.webhooks.keys().copied().collect();
        for id in ids {
            let wants = |event: &&Event| self.model.webhooks[&id].wants(event.kind);
            let mut wanted: Vec<&Event> = events.iter().filter(wants).collect();
            let known = self.model.newest(id).first().map_or(0, |it| it.place);
            let new = newest(&self.handles[handle], id).await;
            for delivery in new.into_iter().filter(|it| it.place > known) {
                let place = wanted.iter().position(|it| **it == delivery.event);
                let place = place.unwrap_or_else(|| panic!("{delivery:?} was not wanted"));
                let event = wanted.remove(place);
                let next_at = event.at;
                assert_eq!(delivery.state, DeliveryState::Waiting { next_at });
                assert_eq!((delivery.webhook, delivery.attempts), (id, 0));
                self.model.deliveries.insert(delivery.place, delivery);
            }
            assert!(wanted.is_empty(), "{id:?} was not told {wanted:?}");
        }
    }

    async fn send(&mut self, handle: usize) {
        let id = self.id();
        let event = Event::test(&acme(), id, self.now());
        let sent = self.handles[handle].webhooks.send(id, event.clone()).await;
        match sent {
            Ok(delivery) => {
                assert_eq!((delivery.webhook, &delivery.event), (id, &event));
                self.model.deliveries.insert(delivery.place, delivery);
            }
            Err(WebhooksError::NoWebhook) => assert!(!self.model.webhooks.contains_key(&id)),
            Err(error) => panic!("the store answers: {error}"),
        }
    }

    /// No change is lost, and each is told what the webhook is then.
    async fn change_at_once(&mut self) {
        let (id, now) = (self.id(), self.now());
        let kinds = KINDS[self.dice.roll(KINDS.len())];
        let changes = [(); 2].map(|()| match self.dice.roll(6) {
            0 => WebhookChange::Url("https://example.com/new".parse().expect("an address")),
            1 => WebhookChange::Kinds(kinds.parse().expect("kinds")),
            2 => WebhookChange::Rotate {
                previous_until: now + SignedDuration::from_secs(60),
            },
            3 => WebhookChange::Disable,
            _ => WebhookChange::Enable,
        });
        let change = async |handle: usize| {
            let webhooks = &self.handles[handle].webhooks;
            match webhooks
                .change(id, vec![changes[handle].clone()], now)
                .await
            {
                Ok(changed) => Some(changed),
                Err(WebhooksError::NoWebhook) => None,
                Err(error) => panic!("the store answers: {error}"),
            }
        };
        let answers = tokio::join!(change(0), change(1));
        let act = |model: &mut Model, handle: usize| model.change(id, &changes[handle], now);
        let seen = self.handles[0].webhooks.get(id).await;
        let seen = seen.expect("the store answers");
        let is_so = |model: &Model| model.webhooks.get(&id) == seen.as_ref();
        either_seen(&mut self.model, act, &answers, is_so);
    }

    /// One of both removed it, with all that was written down for it.
    async fn remove_at_once(&mut self) {
        let id = self.id();
        let remove = async |handle: usize| {
            let removed = self.handles[handle].webhooks.remove(id).await;
            match removed {
                Ok(()) => true,
                Err(WebhooksError::NoWebhook) => false,
                Err(error) => panic!("the store answers: {error}"),
            }
        };
        let answers = tokio::join!(remove(0), remove(1));
        either(&mut self.model, |model, _| model.remove(id), &answers);
    }

    /// A message that waits, and two attempts of it as two senders make them that do not know of each other.
    fn attempts(&mut self) -> Option<[Attempted; 2]> {
        let waiting = self.model.deliveries.values().filter(|it| waits(it));
        let waiting: Vec<u64> = waiting.map(|it| it.place).collect();
        let place = self.dice.pick(&waiting)?;
        let delivery = &self.model.deliveries[&place];
        let now = self.now();
        Some([(); 2].map(|()| {
            let status = STATUSES[self.dice.roll(STATUSES.len())];
            attempted(delivery, status, now)
        }))
    }

    async fn note(&mut self, handle: usize) {
        let Some([attempt, _]) = self.attempts() else {
            return;
        };
        let told = self.note_by(handle, &attempt).await;
        assert_eq!(told, self.model.note(&attempt));
        self.learn_of_disabled(told, &attempt).await;
    }

    /// Of two attempts with one message the first that is noted counts.
    async fn note_at_once(&mut self) {
        let Some(attempts) = self.attempts() else {
            return;
        };
        let answers = tokio::join!(self.note_by(0, &attempts[0]), self.note_by(1, &attempts[1]));
        let (id, place) = (attempts[0].webhook, attempts[0].place);
        let seen = newest(&self.handles[1], id).await;
        let seen = seen.into_iter().find(|it| it.place == place);
        let act = |model: &mut Model, handle: usize| model.note(&attempts[handle]);
        let is_so = |model: &Model| model.deliveries.get(&place) == seen.as_ref();
        either_seen(&mut self.model, act, &answers, is_so);
        self.learn_of_disabled(answers.0 || answers.1, &attempts[0])
            .await;
    }

    async fn note_by(&self, handle: usize, attempt: &Attempted) -> bool {
        let noted = self.handles[handle]
            .outbox
            .note(vec![attempt.clone()])
            .await;
        let disabled: Vec<WebhookId> = noted
            .expect("it is noted")
            .into_iter()
            .map(|webhook| webhook.id)
            .collect();
        assert!(disabled.is_empty() || disabled == [attempt.webhook]);
        !disabled.is_empty()
    }

    /// Those of the account that want to hear of it are told of a webhook that an attempt disabled.
    async fn learn_of_disabled(&mut self, is_disabled: bool, attempt: &Attempted) {
        if !is_disabled {
            return;
        }
        let WebhookState::Disabled { reason, at } = self.model.webhooks[&attempt.webhook].state
        else {
            panic!("{attempt:?} disabled it");
        };
        assert_ne!(reason, DisabledReason::Operator);
        let event = Event::webhook_disabled(&acme(), attempt.webhook, reason, at);
        let told = self.model.wanting(EventKind::WebhookDisabled);
        assert!(!told.contains(&attempt.webhook));
        self.learn(0, &[event]).await;
    }

    /// What is over is forgotten, once.
    async fn prune_at_once(&mut self) {
        let now = self.now();
        let over = self.model.over(now);
        let prune = async |handle: usize| {
            let pruned = self.handles[handle].outbox.prune(now, now, 1_000, now);
            pruned.await.expect("it is done")
        };
        let (one, other) = tokio::join!(prune(0), prune(1));
        // A store may have kept what waited for webhooks that were removed.
        assert!(one + other >= over.len(), "{one} and {other} of {over:?}");
        for place in over {
            self.model.deliveries.remove(&place);
        }
    }

    /// Both see the same, and what is true.
    async fn look(&self) {
        let all: Vec<Webhook> = self.model.webhooks.values().cloned().collect();
        let query = DueQuery {
            webhooks: 100,
            of_each: 100,
            ..DueQuery::default()
        };
        for stores in &self.handles {
            let listed = stores.webhooks.list(Some(&acme()), None, 100).await;
            assert_eq!(listed.expect("the store answers"), all);
            for webhook in &all {
                let deliveries = newest(stores, webhook.id).await;
                assert_eq!(deliveries, self.model.newest(webhook.id));
            }
            let page = stores.outbox.due(&query, self.now()).await;
            let due = page.expect("the store answers").due;
            assert_eq!(due, self.model.due(self.now()));
        }
    }
}
