//! A semaphore whose units are shared by keys: no key may hold more than its part, so one client cannot take all.
//!
//! Units may be anything that is bounded: bytes of bodies in memory, open files, streams. A waiter whose own key is at its
//! bound does not stand in the way of others; among the rest the oldest goes first, so a large request is not starved by
//! small ones.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// The bounds of a [`KeyedSemaphore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedLimits {
    /// Units held by all keys together.
    pub total: usize,
    /// Units held by one key.
    pub per_key: usize,
    /// Requests of one key that may wait; a further one is refused at once.
    pub waiters_per_key: usize,
}

/// Why units were not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoUnits {
    /// The key has what it may hold, or as many waiters as it may have.
    #[error("this client has reached its share")]
    Key,
    /// All keys together have everything, or others wait for what is left.
    #[error("all shares are in use")]
    Total,
    /// More was asked for than the bounds ever allow.
    #[error("more was asked for than one client may ever hold")]
    Never,
}

/// Hands out bounded units by key. Cheap to clone; clones share the units.
pub struct KeyedSemaphore<K: Clone + Eq + Hash> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    limits: KeyedLimits,
    state: Mutex<State<K>>,
}

struct State<K> {
    used: usize,
    keys: HashMap<K, KeyUse>,
    /// In the order in which they came.
    waiters: VecDeque<Waiter<K>>,
}

/// What one key has; the entry goes when both are 0.
#[derive(Default, PartialEq, Eq)]
struct KeyUse {
    units: usize,
    waiters: usize,
}

struct Waiter<K> {
    key: K,
    units: usize,
    grant: oneshot::Sender<()>,
}

/// Units of a [`KeyedSemaphore`], given back when dropped.
pub struct KeyedPermit<K: Clone + Eq + Hash> {
    semaphore: KeyedSemaphore<K>,
    key: K,
    units: usize,
}

// === impl KeyedSemaphore ===

impl<K: Clone + Eq + Hash> KeyedSemaphore<K> {
    /// Makes one with all units free.
    #[must_use]
    pub fn new(limits: KeyedLimits) -> Self {
        let state = State {
            used: 0,
            keys: HashMap::new(),
            waiters: VecDeque::new(),
        };
        Self {
            inner: Arc::new(Inner {
                limits,
                state: Mutex::new(state),
            }),
        }
    }

    /// The bounds that it was made with.
    #[must_use]
    pub fn limits(&self) -> KeyedLimits {
        self.inner.limits
    }

    /// Units that are held now, by all keys.
    #[must_use]
    pub fn used(&self) -> usize {
        self.lock().used
    }

    /// Takes units if they are free now and nobody waits for them.
    ///
    /// # Errors
    /// [`NoUnits`] says which bound is in the way; nothing is held then.
    pub fn try_acquire(&self, key: K, units: usize) -> Result<KeyedPermit<K>, NoUnits> {
        self.lock().try_hold(&self.inner.limits, &key, units)?;
        Ok(self.permit(key, units))
    }

    /// Takes units, waiting until they are free. A dropped future holds and waits for nothing.
    ///
    /// # Errors
    /// [`NoUnits::Key`] when the key has as many waiters as it may have, [`NoUnits::Never`] when no wait would end.
    pub async fn acquire(&self, key: K, units: usize) -> Result<KeyedPermit<K>, NoUnits> {
        let granted = {
            let mut state = self.lock();
            match state.try_hold(&self.inner.limits, &key, units) {
                Ok(()) => {
                    drop(state);
                    return Ok(self.permit(key, units));
                }
                Err(NoUnits::Never) => return Err(NoUnits::Never),
                Err(NoUnits::Key | NoUnits::Total) => {}
            }
            let waiting = state.keys.get(&key).map_or(0, |of_key| of_key.waiters);
            if waiting >= self.inner.limits.waiters_per_key {
                return Err(NoUnits::Key);
            }
            state.keys.entry(key.clone()).or_default().waiters += 1;
            let (grant, granted) = oneshot::channel();
            state.waiters.push_back(Waiter {
                key: key.clone(),
                units,
                grant,
            });
            granted
        };
        let mut waiting = Waiting {
            semaphore: self,
            key: &key,
            units,
            granted,
            done: false,
        };
        // The sender lives in the queue until it grants: it is never dropped before.
        let _ = (&mut waiting.granted).await;
        waiting.done = true;
        drop(waiting);
        Ok(self.permit(key, units))
    }

    /// Takes units, waiting for them at most this long.
    ///
    /// # Errors
    /// [`NoUnits`] says which bound was in the way, at once or when the time was over.
    pub async fn acquire_within(
        &self,
        key: K,
        units: usize,
        longest: Duration,
    ) -> Result<KeyedPermit<K>, NoUnits> {
        let bound = match self.try_acquire(key.clone(), units) {
            Ok(permit) => return Ok(permit),
            Err(bound) => bound,
        };
        let waited = tokio::time::timeout(longest, self.acquire(key, units)).await;
        waited.unwrap_or(Err(bound))
    }

    fn permit(&self, key: K, units: usize) -> KeyedPermit<K> {
        KeyedPermit {
            semaphore: self.clone(),
            key,
            units,
        }
    }

    fn give_back(&self, key: &K, units: usize) {
        let mut state = self.lock();
        state.release(key, units);
        state.grant_waiters(&self.inner.limits);
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // Every change is whole before anything in it could panic.
        self.inner
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> Clone for KeyedSemaphore<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for KeyedSemaphore<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("KeyedSemaphore")
            .field("limits", &self.inner.limits)
            .field("used", &state.used)
            .field("keys", &state.keys.len())
            .field("waiters", &state.waiters.len())
            .finish()
    }
}

// === impl State ===

impl<K: Clone + Eq + Hash> State<K> {
    /// Holds units if they may be held now.
    fn try_hold(&mut self, limits: &KeyedLimits, key: &K, units: usize) -> Result<(), NoUnits> {
        if units > limits.per_key || units > limits.total {
            return Err(NoUnits::Never);
        }
        // Those who wait for the total came first; those who wait for their own key have no claim on it.
        let others_wait = self
            .waiters
            .iter()
            .any(|waiter| self.fits_key(limits, &waiter.key, waiter.units).is_ok());
        // The key is looked up once: every request with a body passes here.
        let of_key = self.keys.entry(key.clone());
        let held = match &of_key {
            Entry::Occupied(of_key) => of_key.get().units,
            Entry::Vacant(_) => 0,
        };
        if units > limits.per_key - held {
            return Err(NoUnits::Key);
        }
        if others_wait || units > limits.total - self.used {
            return Err(NoUnits::Total);
        }
        of_key.or_default().units += units;
        self.used += units;
        Ok(())
    }

    fn fits_key(&self, limits: &KeyedLimits, key: &K, units: usize) -> Result<(), NoUnits> {
        let held = self.keys.get(key).map_or(0, |of_key| of_key.units);
        if units > limits.per_key - held {
            return Err(NoUnits::Key);
        }
        Ok(())
    }

    fn release(&mut self, key: &K, units: usize) {
        self.used -= units;
        self.change(key, |of_key| of_key.units -= units);
    }

    fn leave(&mut self, key: &K) {
        self.change(key, |of_key| of_key.waiters -= 1);
    }

    /// Changes what a key has, and forgets the key if that is nothing.
    fn change(&mut self, key: &K, change: impl FnOnce(&mut KeyUse)) {
        if let Entry::Occupied(mut of_key) = self.keys.entry(key.clone()) {
            change(of_key.get_mut());
            if *of_key.get() == KeyUse::default() {
                of_key.remove();
            }
        }
    }

    /// Grants what is free to waiters in their order, passing over those whose own key is at its bound.
    fn grant_waiters(&mut self, limits: &KeyedLimits) {
        let mut next = 0;
        while let Some(waiter) = self.waiters.get(next) {
            if self.fits_key(limits, &waiter.key, waiter.units).is_err() {
                next += 1;
                continue;
            }
            if waiter.units > limits.total - self.used {
                return;
            }
            let Some(waiter) = self.waiters.remove(next) else {
                return;
            };
            self.used += waiter.units;
            if let Some(of_key) = self.keys.get_mut(&waiter.key) {
                of_key.waiters -= 1;
                of_key.units += waiter.units;
            }
            // A dropped future closes its end under this lock and takes its waiter out, so the grant arrives.
            let _ = waiter.grant.send(());
        }
    }
}

/// Takes its waiter out of the queue, or gives back what it was granted, when it is dropped before it is done.
struct Waiting<'a, K: Clone + Eq + Hash> {
    semaphore: &'a KeyedSemaphore<K>,
    key: &'a K,
    units: usize,
    granted: oneshot::Receiver<()>,
    done: bool,
}

impl<K: Clone + Eq + Hash> Drop for Waiting<'_, K> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut state = self.semaphore.lock();
        // Closed under the lock, so that a grant either came before it or never comes.
        self.granted.close();
        if self.granted.try_recv().is_ok() {
            state.release(self.key, self.units);
        } else {
            state.waiters.retain(|waiter| !waiter.grant.is_closed());
            state.leave(self.key);
        }
        // A waiter that leaves may have stood before others.
        state.grant_waiters(&self.semaphore.inner.limits);
    }
}

// === impl KeyedPermit ===

impl<K: Clone + Eq + Hash> KeyedPermit<K> {
    /// The units that it holds.
    #[must_use]
    pub fn units(&self) -> usize {
        self.units
    }

    /// Gives back all units beyond `units`; does nothing if it holds no more than that.
    pub fn shrink_to(&mut self, units: usize) {
        let surplus = self.units.saturating_sub(units);
        if surplus > 0 {
            self.units = units;
            self.semaphore.give_back(&self.key, surplus);
        }
    }
}

impl<K: Clone + Eq + Hash> Drop for KeyedPermit<K> {
    fn drop(&mut self) {
        self.semaphore.give_back(&self.key, self.units);
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for KeyedPermit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedPermit")
            .field("units", &self.units)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
