//! Requests that wait to be dispatched. Their rows decide; the order of turns is kept in each process, by the rules of [`Turns`].
//!
//! Whatever makes a request wait, or not wait any more, happens under one lock of the installation and draws a number under it.
//! So the numbers become visible in their order, and a process that reads what has a higher number than it saw misses nothing.
//! Bounds hold over all processes, since they are judged under the lock. A request that a process took and neither dispatched nor
//! gave back waits again after [`TAKEN_MICROS`].

mod requests;
mod rows;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use accounts::AccountId;
use accounts::Fingerprint;
use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use router_core::{
    Cancelled, Enqueued, GenerationId, KeyClaim, QueueBounds, QueueFailure, QueueState, QueuedCall,
    QueuedRequest, Turns, WaitingCall,
};
use tokio::sync::Mutex as AsyncMutex;
use uuid::Uuid;

use super::keys::{self, Claim};
use super::pieces::Pieces;
use super::settling::free_undispatched;
use crate::batch::Batches;
use crate::step::Commits;
use crate::{Database, DatabaseError};
use rows::{Change, Found};

/// How long a request that is being dispatched is its process's, in microseconds of the database's clock.
const TAKEN_MICROS: i64 = 60_000_000;

/// How often the changes of other processes are read if nobody asks.
const POLL: Duration = Duration::from_millis(500);

/// Most submissions of one transaction.
const MOST: usize = 64;

/// What a process knows of the queue.
pub(super) struct Queue {
    database: Database,
    /// As whom this process takes requests.
    me: Uuid,
    turns: Mutex<Turns>,
    /// Those that were given back and still count as taken in their rows.
    returned: Mutex<Vec<GenerationId>>,
    /// The number of the last change that `turns` has. One change at a time is made or read.
    seen: AsyncMutex<i64>,
    submissions: Batches<Submission, Enqueued>,
}

/// A request that is submitted.
pub(super) struct Submission {
    pub(super) call: QueuedCall,
    pub(super) fingerprint: Fingerprint,
    pub(super) bounds: QueueBounds,
    pub(super) now: Timestamp,
}

impl Queue {
    /// Reads who waits, and follows what changes until the last handle is gone.
    pub(super) async fn open(database: &Database) -> Result<Arc<Self>, DatabaseError> {
        let (seen, waiting) = rows::load(database).await?;
        let mut turns = Turns::default();
        waiting.into_iter().for_each(|call| turns.push(call));
        let queue = Arc::new_cyclic(|queue: &Weak<Self>| {
            let queue = queue.clone();
            let turnstile = database.turnstile().apart();
            let bytes = |submission: &Submission| submission.call.body.len();
            let submissions = Batches::weighed(&turnstile, MOST, bytes, move |submissions| {
                let queue = queue.upgrade();
                Box::pin(async move {
                    let queue = queue.ok_or(DatabaseError::Closing)?;
                    queue.enqueue(&submissions).await
                })
            });
            Self {
                database: database.clone(),
                me: Uuid::new_v4(),
                turns: Mutex::new(turns),
                returned: Mutex::default(),
                seen: AsyncMutex::new(seen),
                submissions,
            }
        });
        tokio::spawn(follow(Arc::downgrade(&queue)));
        Ok(queue)
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn returned(&self) -> MutexGuard<'_, Vec<GenerationId>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `turns` know what other processes changed.
    async fn catch_up(&self) -> Result<(), DatabaseError> {
        let mut seen = self.seen.lock().await;
        let connection = self.database.connection().await?;
        self.read_changes(&connection, &mut seen).await
    }

    async fn read_changes(
        &self,
        rows: &impl GenericClient,
        seen: &mut i64,
    ) -> Result<(), DatabaseError> {
        loop {
            let changes = rows::changes(rows, *seen).await?;
            let is_last = changes.len() < rows::PAGE;
            self.apply(changes, seen);
            if is_last {
                return Ok(());
            }
        }
    }

    fn apply(&self, changes: Vec<Change>, seen: &mut i64) {
        let mut turns = self.turns();
        for change in changes {
            match change {
                Change::Waits(number, call) => {
                    turns.push(call);
                    *seen = number;
                }
                Change::Taken(number, account, seq) => {
                    turns.take(&account, seq);
                    *seen = number;
                }
                Change::Over(number, account, seq) => {
                    turns.remove(&account, seq);
                    *seen = number;
                }
            }
        }
    }

    /// Takes the lock of the queue for a transaction, has `turns` know everything before it, and writes down what was given back;
    /// how many these are.
    async fn enter(&self, rows: &Transaction<'_>, seen: &mut i64) -> Result<usize, DatabaseError> {
        rows::lock(rows).await?;
        self.read_changes(rows, seen).await?;
        let returned = self.returned().clone();
        rows::give_back(rows, &returned, self.me).await?;
        Ok(returned.len())
    }

    /// Commits a change of the queue, with so many that were given back before it.
    async fn leave(
        &self,
        rows: Transaction<'_>,
        returned: usize,
        seen: &mut i64,
    ) -> Result<(), DatabaseError> {
        let last = rows::last_change(&rows).await?;
        rows.commit().await?;
        *seen = last;
        self.returned().drain(..returned);
        Ok(())
    }

    async fn enqueue(&self, submissions: &[Submission]) -> Result<Vec<Enqueued>, DatabaseError> {
        let mut admitted = Vec::new();
        let mut seen = self.seen.lock().await;
        let written = self.write_submissions(submissions, &mut admitted, &mut seen);
        let written = written.await;
        if written.is_err() {
            let mut turns = self.turns();
            admitted.iter().for_each(|account| turns.withdraw(account));
        }
        written
    }

    async fn write_submissions(
        &self,
        submissions: &[Submission],
        admitted: &mut Vec<AccountId>,
        seen: &mut i64,
    ) -> Result<Vec<Enqueued>, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        let returned = self.enter(&rows, seen).await?;
        let claims: Vec<(KeyClaim, Timestamp)> = submissions
            .iter()
            .map(|one| (one.claim(), one.now))
            .collect();
        let claimed = keys::claim(&rows, &claims, Commits::Durably).await?;
        let (mut answers, mut waiting) = (Vec::new(), Vec::new());
        let mut refused = Vec::new();
        for (one, claimed) in submissions.iter().zip(claimed) {
            answers.push(match claimed {
                Claim::Conflict => Enqueued::Conflict,
                Claim::InFlight(id) | Claim::Running(id) | Claim::Settled(id, _) => {
                    Enqueued::Known(id)
                }
                Claim::Fresh => match self.turns().admit(&one.call.account, one.bounds) {
                    Ok(()) => {
                        admitted.push(one.call.account.clone());
                        waiting.push(&one.call);
                        Enqueued::Waits
                    }
                    Err(limit) => {
                        refused.push(one.call.id.0);
                        Enqueued::Full { limit }
                    }
                },
            });
        }
        free_undispatched(&rows, &refused).await?;
        let places = rows::insert(&rows, &waiting).await?;
        let bodies: Vec<_> = waiting.iter().map(|call| (call.id, &call.body)).collect();
        Pieces::QueuedBodies.write(&rows, &bodies).await?;
        self.leave(rows, returned, seen).await?;
        let mut turns = self.turns();
        for (call, seq) in waiting.into_iter().zip(places) {
            turns.arrive(WaitingCall {
                account: call.account.clone(),
                id: call.id,
                seq,
                received_at: call.received_at,
            });
        }
        Ok(answers)
    }

    /// Takes a request out of the order; what its row tells: the request without its body, and how many bytes that has.
    async fn take(
        &self,
        id: GenerationId,
        now: Timestamp,
    ) -> Result<Option<(QueuedCall, i64)>, DatabaseError> {
        let mut seen = self.seen.lock().await;
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        let returned = self.enter(&rows, &mut seen).await?;
        let Some((found, call, bytes)) = rows::find_to_take(&rows, id).await? else {
            return Ok(None);
        };
        if !found.waits {
            return Ok(None);
        }
        if found.is_cancelled {
            // It was being dispatched when it was cancelled, and had no room.
            rows::end(&rows, id, &QueueFailure::Cancelled, now).await?;
            self.leave(rows, returned, &mut seen).await?;
            self.turns().remove(&found.account, found.seq);
            return Ok(None);
        }
        rows::take(&rows, id, self.me, TAKEN_MICROS).await?;
        self.leave(rows, returned, &mut seen).await?;
        let is_there = self.turns().take(&found.account, found.seq);
        Ok(is_there.then_some((call, bytes)))
    }

    /// Gives a request that was taken its place back: here at once, in its row soon.
    fn put_back(self: &Arc<Self>, waiting: WaitingCall) {
        self.returned().push(waiting.id);
        self.turns().put_back(waiting);
        let queue = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = queue.write_returned().await {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "a request has its place back later");
            }
        });
    }

    /// Writes down what was given back.
    pub(super) async fn write_returned(&self) -> Result<(), DatabaseError> {
        let mut seen = self.seen.lock().await;
        if self.returned().is_empty() {
            return Ok(());
        }
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        let returned = self.enter(&rows, &mut seen).await?;
        self.leave(rows, returned, &mut seen).await
    }

    async fn cancel(
        &self,
        account: AccountId,
        id: GenerationId,
        now: Timestamp,
    ) -> Result<Option<Cancelled>, DatabaseError> {
        let mut seen = self.seen.lock().await;
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        let returned = self.enter(&rows, &mut seen).await?;
        let found = rows::find_to_change(&rows, id).await?;
        let Some(found) = found.filter(|found| found.account == account) else {
            return Ok(None);
        };
        if let QueueState::Over(_) = found.request.state {
            return Ok(Some(Cancelled::TooLate));
        }
        rows::note_cancelled(&rows, id, now).await?;
        if !found.waits {
            self.leave(rows, returned, &mut seen).await?;
            return Ok(Some(Cancelled::Noted));
        }
        rows::end(&rows, id, &QueueFailure::Cancelled, now).await?;
        self.leave(rows, returned, &mut seen).await?;
        self.turns().remove(&found.account, found.seq);
        Ok(Some(Cancelled::Withdrawn))
    }

    /// Ends a request that was not dispatched.
    async fn end(
        &self,
        id: GenerationId,
        failure: QueueFailure,
        now: Timestamp,
    ) -> Result<(), DatabaseError> {
        let mut seen = self.seen.lock().await;
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        let returned = self.enter(&rows, &mut seen).await?;
        // With its key locked, nobody dispatches it meanwhile.
        rows::lock_key(&rows, id).await?;
        let found = rows::find_to_change(&rows, id).await?;
        let Some(found) = found.filter(|found| found.may_wait) else {
            return Ok(());
        };
        if !found.is_cancelled {
            free_undispatched(&rows, &[id.0]).await?;
        }
        rows::end(&rows, id, &failure, now).await?;
        self.leave(rows, returned, &mut seen).await?;
        self.turns().remove(&found.account, found.seq);
        Ok(())
    }

    /// Has what other processes took and did not dispatch in time wait again.
    pub(super) async fn recover(&self) -> Result<(), DatabaseError> {
        let mut seen = self.seen.lock().await;
        let mut connection = self.database.connection().await?;
        if !rows::any_lapsed(&connection).await? {
            return Ok(());
        }
        let rows = connection.transaction().await?;
        let returned = self.enter(&rows, &mut seen).await?;
        rows::recover(&rows).await?;
        let mut before = *seen;
        self.leave(rows, returned, &mut seen).await?;
        // What waits again is read as the change of another process.
        self.read_changes(&connection, &mut before).await
    }

    /// The request with its place in the order, if it waits.
    fn placed(&self, found: Found) -> QueuedRequest {
        let mut request = found.request;
        if found.may_wait
            && let Some(ahead) = self.turns().ahead_of(&found.account, found.seq)
        {
            request.state = QueueState::Waiting { ahead };
        }
        request
    }
}

impl Submission {
    /// The claim of its key, which stands until the key expires.
    fn claim(&self) -> KeyClaim {
        KeyClaim {
            account: self.call.account.clone(),
            key: self.call.key,
            fingerprint: self.fingerprint,
            generation: self.call.id,
            expires_at: self.call.expires_at,
            lasts: Duration::MAX,
        }
    }
}

/// Reads what other processes change, while the queue is there.
async fn follow(queue: Weak<Queue>) {
    loop {
        tokio::time::sleep(POLL).await;
        let Some(queue) = Weak::upgrade(&queue) else {
            return;
        };
        let read = async {
            queue.write_returned().await?;
            queue.recover().await?;
            queue.catch_up().await
        };
        if let Err(error) = read.await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "the changes of the queue are read later");
        }
    }
}
