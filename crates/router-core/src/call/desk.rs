//! What the one loop that dispatches queued requests shares with everybody else: when to look again, and what it is about.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use accounts::AccountId;
use foldhash::HashSet;
use tokio::sync::Notify;

use crate::{CallQueue, GenerationId, WaitingCall};

/// Where queued requests are handed out from.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// Whether any request waits: all that a call which ends looks at while none does.
    waits: AtomicBool,
    bell: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Accounts that had no room when they were looked at.
    blocked: HashSet<AccountId>,
    /// The request that is being dispatched, and whether its caller cancelled it meanwhile.
    starting: Option<(GenerationId, bool)>,
}

impl Desk {
    /// A call of an account gave its room back.
    pub(crate) fn has_room(&self, account: &AccountId) {
        if self.waits.load(Ordering::SeqCst) && self.state().blocked.remove(account) {
            self.bell.notify_one();
        }
    }

    /// A request was submitted.
    pub(crate) fn arrived(&self) {
        self.waits.store(true, Ordering::SeqCst);
        self.bell.notify_one();
    }

    /// Completes when there may be something to dispatch.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Looks at every account again: room may have come from where nobody rings.
    pub(crate) fn unblock(&self) {
        self.state().blocked.clear();
    }

    /// The next request whose account is not known to have no room. Its account counts as one that has none until the desk is
    /// told otherwise, so that room which comes while it is looked at is not missed.
    pub(crate) fn next(&self, queue: &dyn CallQueue) -> Option<WaitingCall> {
        self.waits.store(queue.waiting() > 0, Ordering::SeqCst);
        let mut state = self.state();
        let next = queue.first(&state.blocked)?;
        state.starting = Some((next.id, false));
        state.blocked.insert(next.account.clone());
        Some(next)
    }

    /// An account had room for what was looked at.
    pub(crate) fn allow(&self, account: &AccountId) {
        self.state().blocked.remove(account);
    }

    /// The caller of a request cancelled it: the loop hears of it if it is about this one.
    pub(crate) fn cancel(&self, id: GenerationId) {
        if let Some((starting, is_cancelled)) = &mut self.state().starting
            && *starting == id
        {
            *is_cancelled = true;
        }
    }

    /// The request that was being dispatched is, or is not after all; whether its caller cancelled it meanwhile.
    pub(crate) fn started(&self) -> bool {
        let starting = self.state().starting.take();
        starting.is_some_and(|(_, is_cancelled)| is_cancelled)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
