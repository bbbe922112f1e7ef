//! Places in the queue of writes: a caller waits for one in order, and no account takes those of the others.
//!
//! While at least half of the queue is free, a place is there for the asking. From then on an account gets a part of the
//! queue, and its further callers wait for those before them; callers that belong to no account, such as the upkeep, wait
//! for the queue alone. So a flood of one account costs the others the time of a few commits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accounts::AccountId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time;

use super::DatabaseError;

/// How many operations may wait in the queue: some seconds of work for a slow disk.
pub(super) const QUEUE: usize = 1024;

/// Those of one account, once half of the queue is taken: a quarter, so that three accounts that flood leave others a place.
const OF_ACCOUNT: usize = QUEUE / 4;

/// Most callers of one account that wait for a place: as many calls as a client has open. Each costs its request's memory.
const WAITING_OF_ACCOUNT: usize = 8 * 1024;

/// Most callers that wait for a place, of all accounts: about the connections that a server of 20,000 descriptors takes.
const WAITING: usize = 16 * 1024;

/// How long a caller waits for a place: a disk that takes nothing for so long is in trouble, which the caller is to hear of.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The places of a queue. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Places {
    queue: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    lanes: Arc<Mutex<HashMap<AccountId, Lane>>>,
    longest_wait: Duration,
}

/// The part of one account; gone when nobody of it waits or has a place of this part.
#[derive(Debug)]
struct Lane {
    places: Arc<Semaphore>,
    /// Callers that wait or have a place.
    users: usize,
}

/// A place, free again when this is dropped.
#[derive(Debug)]
pub(super) struct QueuePlace {
    _in_queue: OwnedSemaphorePermit,
    _of_account: Option<OfAccount>,
}

/// A caller among those of its account.
#[derive(Debug)]
struct OfAccount {
    lanes: Arc<Mutex<HashMap<AccountId, Lane>>>,
    account: AccountId,
    places: Arc<Semaphore>,
    place: Option<OwnedSemaphorePermit>,
}

/// A caller that waits.
struct Waits(Arc<AtomicUsize>);

impl Places {
    pub(super) fn new() -> Self {
        Self::that_wait(LONGEST_WAIT)
    }

    fn that_wait(longest_wait: Duration) -> Self {
        Self {
            longest_wait,
            queue: Arc::new(Semaphore::new(QUEUE)),
            waiting: Arc::default(),
            lanes: Arc::default(),
        }
    }

    /// Takes a place for an operation of this account, or of none.
    pub(super) async fn take(
        &self,
        account: Option<&AccountId>,
    ) -> Result<QueuePlace, DatabaseError> {
        // A caller that comes while others wait stands behind them.
        if self.waiting.load(Ordering::Relaxed) == 0
            && self.queue.available_permits() > QUEUE / 2
            && let Ok(in_queue) = Arc::clone(&self.queue).try_acquire_owned()
        {
            return Ok(QueuePlace {
                _in_queue: in_queue,
                _of_account: None,
            });
        }
        let _waits = self.wait()?;
        let of_account = account.map(|account| self.enter(account)).transpose()?;
        let taken = time::timeout(self.longest_wait, self.take_in_turn(of_account)).await;
        taken.unwrap_or(Err(DatabaseError::Busy))
    }

    async fn take_in_turn(
        &self,
        of_account: Option<OfAccount>,
    ) -> Result<QueuePlace, DatabaseError> {
        let closed = |_| DatabaseError::Abandoned;
        let mut of_account = of_account;
        if let Some(of_account) = &mut of_account {
            let place = Arc::clone(&of_account.places).acquire_owned().await;
            of_account.place = Some(place.map_err(closed)?);
        }
        let in_queue = Arc::clone(&self.queue).acquire_owned().await;
        Ok(QueuePlace {
            _in_queue: in_queue.map_err(closed)?,
            _of_account: of_account,
        })
    }

    /// Counts a caller that waits.
    fn wait(&self) -> Result<Waits, DatabaseError> {
        let waits = Waits(Arc::clone(&self.waiting));
        match self.waiting.fetch_add(1, Ordering::Relaxed) {
            // Taken back by the drop.
            WAITING.. => Err(DatabaseError::Busy),
            _ => Ok(waits),
        }
    }

    /// Counts a caller among those of its account.
    fn enter(&self, account: &AccountId) -> Result<OfAccount, DatabaseError> {
        let mut lanes = lock(&self.lanes);
        let lane = lanes.entry(account.clone()).or_insert_with(|| Lane {
            places: Arc::new(Semaphore::new(OF_ACCOUNT)),
            users: 0,
        });
        if lane.users >= WAITING_OF_ACCOUNT {
            return Err(DatabaseError::Busy);
        }
        lane.users += 1;
        Ok(OfAccount {
            lanes: Arc::clone(&self.lanes),
            account: account.clone(),
            places: Arc::clone(&lane.places),
            place: None,
        })
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for OfAccount {
    fn drop(&mut self) {
        self.place = None;
        let mut lanes = lock(&self.lanes);
        if let Some(lane) = lanes.get_mut(&self.account) {
            lane.users -= 1;
            if lane.users == 0 {
                lanes.remove(&self.account);
            }
        }
    }
}

fn lock(lanes: &Mutex<HashMap<AccountId, Lane>>) -> MutexGuard<'_, HashMap<AccountId, Lane>> {
    // Every change is one number: a panic elsewhere cannot have left the map half-changed.
    lanes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    // One task asks for what many would: it has no budget for that.
    use tokio::task::unconstrained;

    use super::*;

    fn account(name: &str) -> AccountId {
        name.parse().expect("an id")
    }

    /// Takes what is there at once.
    fn taken(places: &Places, account: Option<&AccountId>) -> Option<QueuePlace> {
        unconstrained(places.take(account)).now_or_never()?.ok()
    }

    #[tokio::test]
    async fn a_flood_of_one_account_leaves_others_a_place() {
        let (places, a, b) = (Places::new(), account("a"), account("b"));
        let mut flood: Vec<_> = (0..4 * QUEUE)
            .map(|_| Box::pin(unconstrained(places.take(Some(&a)))))
            .collect();
        let mut held: Vec<QueuePlace> = Vec::new();
        flood.retain_mut(|caller| match caller.as_mut().now_or_never() {
            Some(place) => {
                held.push(place.expect("not too many wait"));
                false
            }
            None => true,
        });
        assert_eq!(held.len(), QUEUE / 2 + OF_ACCOUNT);
        assert!(taken(&places, Some(&b)).is_some(), "another account");
        assert!(taken(&places, None).is_some(), "the upkeep");

        // Each place that becomes free goes to the next of those who wait.
        while !flood.is_empty() {
            held.drain(..64.min(held.len()));
            flood.retain_mut(|caller| match caller.as_mut().now_or_never() {
                Some(place) => {
                    held.push(place.expect("it only had to wait"));
                    false
                }
                None => true,
            });
        }
        drop(held);
        assert_eq!(places.queue.available_permits(), QUEUE);
        assert_eq!(places.waiting.load(Ordering::Relaxed), 0);
        assert!(lock(&places.lanes).is_empty(), "nothing is kept");
    }

    #[tokio::test]
    async fn nobody_waits_for_ever_and_not_everybody_may_wait() {
        let (a, b) = (account("a"), account("b"));
        let places = Places::that_wait(Duration::ZERO);
        let held: Vec<QueuePlace> = (0..QUEUE)
            .map(|n| taken(&places, Some(&account(&format!("a{}", n % 8)))).expect("a place"))
            .collect();
        let given_up = places.take(Some(&b)).await;
        assert!(matches!(given_up, Err(DatabaseError::Busy)));

        let places = Places {
            longest_wait: LONGEST_WAIT,
            ..places
        };
        let mut waiting: Vec<_> = (0..WAITING_OF_ACCOUNT)
            .map(|_| Box::pin(unconstrained(places.take(Some(&a)))))
            .collect();
        for caller in &mut waiting {
            assert!(caller.as_mut().now_or_never().is_none());
        }
        let refused = unconstrained(places.take(Some(&a))).now_or_never();
        assert!(matches!(refused, Some(Err(DatabaseError::Busy))));
        let mut other = Box::pin(unconstrained(places.take(Some(&b))));
        assert!(other.as_mut().now_or_never().is_none(), "it may wait");
        drop(held);
        other.await.expect("it only had to wait");
    }
}
