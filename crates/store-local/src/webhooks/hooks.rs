//! Which events are wanted, in memory, and what writes them down: an event that no webhook wants costs one look at a flag.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use accounts::{AccountId, OverBudget};
use jiff::Timestamp;
use rusqlite::Connection;
use tokio::sync::Notify;
use webhooks::{BudgetReached, Event, EventKind, Webhook, WebhookId};

use super::rows;
use crate::database::{Durability, Occasion, Participant, Transaction};

/// Of so many budgets it is remembered here that their accounts were told; the rows remember all.
const MOST_TOLD: usize = 10_000;

/// The webhooks that want something, as the committed rows have them. Clones are the same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hooks(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Whether there is a webhook at all.
    any: AtomicBool,
    wanting: RwLock<HashMap<AccountId, Vec<Webhook>>>,
    /// Until when the window of a budget lasts of which its account was told.
    told: Mutex<HashMap<(AccountId, String), Timestamp>>,
    /// Whether the open transaction wrote something down.
    is_news: AtomicBool,
    arrived: Notify,
}

impl Hooks {
    /// Reads which webhooks there are: before anything happens.
    pub(crate) fn load(&self, rows: &Connection) -> rusqlite::Result<()> {
        for webhook in rows::all(rows)? {
            self.put(webhook);
        }
        Ok(())
    }

    /// Takes over how a webhook is now.
    pub(super) fn put(&self, webhook: Webhook) {
        let mut wanting = self
            .0
            .wanting
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let of_account = wanting.entry(webhook.account.clone()).or_default();
        of_account.retain(|known| known.id != webhook.id);
        of_account.push(webhook);
        self.0.any.store(true, Ordering::Relaxed);
    }

    /// Forgets a webhook.
    pub(super) fn remove(&self, account: &AccountId, id: WebhookId) {
        let mut wanting = self
            .0
            .wanting
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(of_account) = wanting.get_mut(account) {
            of_account.retain(|known| known.id != id);
            if of_account.is_empty() {
                wanting.remove(account);
            }
        }
        self.0.any.store(!wanting.is_empty(), Ordering::Relaxed);
    }

    /// The webhooks of an account that want a kind of events.
    pub(super) fn wanting(&self, account: &AccountId, kind: EventKind) -> Vec<WebhookId> {
        if !self.0.any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let wanting = self
            .0
            .wanting
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let of_account = wanting.get(account).into_iter().flatten();
        of_account
            .filter(|it| it.wants(kind))
            .map(|it| it.id)
            .collect()
    }

    /// Whether anybody wants a kind of events of any account.
    #[cfg(feature = "router")]
    pub(crate) fn any(&self) -> bool {
        self.0.any.load(Ordering::Relaxed)
    }

    /// Writes an event down for those that want it, as a part of the transaction that makes it true.
    pub(crate) fn publish(
        &self,
        rows: &Connection,
        account: &AccountId,
        kind: EventKind,
        event: impl FnOnce() -> Event,
    ) -> rusqlite::Result<()> {
        let wanting = self.wanting(account, kind);
        self.write(rows, &wanting, event)
    }

    /// As [`Hooks::publish`], but for one webhook that is not to hear of it.
    pub(super) fn publish_but(
        &self,
        rows: &Connection,
        event: Event,
        but: WebhookId,
    ) -> rusqlite::Result<()> {
        let mut wanting = self.wanting(&event.account, event.kind);
        wanting.retain(|id| *id != but);
        self.write(rows, &wanting, || event)
    }

    fn write(
        &self,
        rows: &Connection,
        wanting: &[WebhookId],
        event: impl FnOnce() -> Event,
    ) -> rusqlite::Result<()> {
        if wanting.is_empty() {
            return Ok(());
        }
        let event = event();
        for webhook in wanting {
            rows::write(rows, *webhook, &event)?;
        }
        crate::faults::fault_point!("webhook-written");
        self.note_news();
        Ok(())
    }

    /// Has the sender woken once the open transaction is committed.
    pub(super) fn note_news(&self) {
        self.0.is_news.store(true, Ordering::Relaxed);
    }

    /// Whether an account is to be told that a budget refused a call, which is not known to have been done.
    pub(crate) fn wants_budget(&self, account: &AccountId, over: &OverBudget) -> bool {
        if self.wanting(account, EventKind::BudgetReached).is_empty() {
            return false;
        }
        let told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
        let window = (account.clone(), over.name());
        told.get(&window)
            .is_none_or(|until| *until < over.left.ends_at)
    }

    /// Tells an account that a budget refused a call, unless it was told of this window.
    pub(crate) fn budget_reached(
        &self,
        rows: &mut Transaction<'_>,
        account: &AccountId,
        over: &OverBudget,
        at: Timestamp,
    ) -> rusqlite::Result<()> {
        let (left, name) = (over.left, over.name());
        if rows::note_budget(rows, account, &name, left.ends_at)? {
            let reached = BudgetReached {
                account,
                of: over.of.as_ref(),
                left,
                at,
            };
            self.publish(rows, account, EventKind::BudgetReached, || {
                Event::budget_reached(reached)
            })?;
        }
        let (hooks, account) = (self.clone(), account.clone());
        rows.after_commit(move || {
            let mut told = hooks.0.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.len() >= MOST_TOLD {
                told.clear();
            }
            told.insert((account, name), left.ends_at);
        });
        Ok(())
    }

    /// Waits until something was written down and committed.
    pub(super) async fn arrived(&self) {
        self.0.arrived.notified().await;
    }
}

/// Wakes the sender after each transaction that wrote something down.
impl Participant for Hooks {
    fn write(&self, _: &Connection, _: Occasion) -> rusqlite::Result<()> {
        Ok(())
    }

    fn committed(&self, _: Durability) {
        if self.0.is_news.load(Ordering::Relaxed) && self.0.is_news.swap(false, Ordering::Relaxed) {
            self.0.arrived.notify_one();
        }
    }

    fn rolled_back(&self) {}

    fn due(&self) -> Option<Instant> {
        None
    }

    fn is_ahead(&self) -> bool {
        false
    }
}
