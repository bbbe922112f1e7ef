//! What arrives together is written in one transaction: at once when nothing is under way, else with the next one.
//!
//! The steps of calls take turns: one batch of them at a time, the one that most wait for. So calls that arrived together stay
//! together from step to step, and a transaction serves many of them, where each step by itself would serve the few that came
//! during its last batch.
//!
//! A batch that hears nothing of PostgreSQL has its connections ended, and fails as one does whose server goes away: whether its
//! commit was made is not known then. Otherwise one connection that hangs would keep everybody waiting who comes to its step.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use crate::DatabaseError;
use crate::database::Connections;

/// How many may wait for the next batch, beyond which callers wait to be let in.
const WAITING: usize = 4_096;

/// From how many bytes on a batch takes no further item: what carries results ends well within the time after which PostgreSQL counts
/// as silent.
const HEAVY: usize = 16 << 20;

/// How long a batch keeps others waiting: one that takes longer waits itself, for a lock or for a server that is away.
const TURN: Duration = Duration::from_millis(100);

/// So often larger batches go first.
const PASSED_BY: u32 = 16;

/// What became of one item.
type Outcome<A> = Result<A, DatabaseError>;

/// Gathers items and has them written together. Clones gather for the same batches; the task ends with the last of them.
pub(crate) struct Batches<T, A> {
    sender: mpsc::Sender<(T, oneshot::Sender<Outcome<A>>)>,
    waiting: Arc<AtomicUsize>,
}

impl<T, A> Clone for Batches<T, A> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            waiting: Arc::clone(&self.waiting),
        }
    }
}

impl<T: Send + 'static, A: Send + 'static> Batches<T, A> {
    /// Starts the task that hands `run` at most `most` items at a time, in turns with others; `run` answers one outcome for each,
    /// in their order, or the error that all of them get.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub(crate) fn in_turn<F>(turnstile: &Turnstile, most: usize, run: F) -> Self
    where
        F: Fn(Vec<T>) -> BoxFuture<'static, Result<Vec<A>, DatabaseError>> + Send + 'static,
    {
        Self::weighed(turnstile, most, |_| 0, run)
    }

    /// As [`Batches::in_turn`], for items that may be large: `weigh` tells how many bytes one has. Together they have at most
    /// [`HEAVY`] of them before the last one.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub(crate) fn weighed<F>(
        turnstile: &Turnstile,
        most: usize,
        weigh: fn(&T) -> usize,
        run: F,
    ) -> Self
    where
        F: Fn(Vec<T>) -> BoxFuture<'static, Result<Vec<A>, DatabaseError>> + Send + 'static,
    {
        let (sender, mut arriving) = mpsc::channel(WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let (turnstile, counted) = (turnstile.clone(), Arc::clone(&waiting));
        tokio::spawn(async move {
            let mut together = Vec::with_capacity(most);
            while arriving.recv_many(&mut together, 1).await > 0 {
                let pass = turnstile.take(&counted).await;
                // Tasks that are ready to write join this batch.
                tokio::task::yield_now().await;
                let mut bytes: usize = together.iter().map(|(item, _)| weigh(item)).sum();
                while together.len() < most
                    && bytes < HEAVY
                    && let Ok(item) = arriving.try_recv()
                {
                    bytes += weigh(&item.0);
                    together.push(item);
                }
                counted.fetch_sub(together.len(), Ordering::Relaxed);
                let (items, callers): (Vec<T>, Vec<oneshot::Sender<Outcome<A>>>) =
                    together.drain(..).unzip();
                let (outcome, pass) = pass.run(turnstile.connections.watch(run(items))).await;
                match outcome {
                    Ok(answers) => {
                        debug_assert_eq!(answers.len(), callers.len());
                        for (caller, answer) in callers.into_iter().zip(answers) {
                            // A caller that is gone needs no answer.
                            let _ = caller.send(Ok(answer));
                        }
                    }
                    Err(error) => {
                        let error = Arc::new(error);
                        for caller in callers {
                            let _ = caller.send(Err(DatabaseError::Batch(Arc::clone(&error))));
                        }
                    }
                }
                // They come to their next step before it is seen who waits.
                tokio::task::yield_now().await;
                drop(pass);
            }
        });
        Self { sender, waiting }
    }

    /// Has the item written with the next batch. It is written even if the caller stops waiting.
    pub(crate) async fn write(&self, item: T) -> Outcome<A> {
        let (caller, answer) = oneshot::channel();
        let room = self.sender.reserve().await;
        let room = room.map_err(|_| DatabaseError::Closing)?;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        room.send((item, caller));
        answer.await.map_err(|_| DatabaseError::Closing)?
    }
}

/// Lets one batch after the other go. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Turnstile {
    queue: Arc<Mutex<Queue>>,
    /// What the batches use.
    connections: Connections,
}

#[derive(Default)]
struct Queue {
    is_taken: bool,
    waiting: Vec<Waiting>,
}

/// A batch that waits for its turn.
struct Waiting {
    /// How many items it would have.
    items: Arc<AtomicUsize>,
    passed_by: u32,
    call: oneshot::Sender<Pass>,
}

/// Dropping it lets the next one go.
struct Pass(Turnstile);

impl Turnstile {
    /// Keeps everybody else waiting until what it answers is dropped.
    #[cfg(test)]
    pub(crate) async fn hold(&self) -> Box<dyn Send> {
        Box::new(self.take(&Arc::default()).await)
    }

    pub(crate) fn over(connections: Connections) -> Self {
        Self {
            queue: Arc::default(),
            connections,
        }
    }

    /// One for batches that take turns with nobody, over the same connections.
    pub(crate) fn apart(&self) -> Self {
        Self::over(self.connections.clone())
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    async fn take(&self, items: &Arc<AtomicUsize>) -> Pass {
        let called = {
            let mut queue = self.queue();
            if !queue.is_taken {
                queue.is_taken = true;
                return Pass(self.clone());
            }
            let (call, called) = oneshot::channel();
            queue.waiting.push(Waiting {
                items: Arc::clone(items),
                passed_by: 0,
                call,
            });
            called
        };
        // Turnstile are handed on until nobody waits.
        called.await.unwrap_or_else(|_| Pass(self.clone()))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A panic under the lock leaves the queue whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Who goes next: whoever was passed by too often, else the batch with most items.
    fn next(&mut self) -> Option<oneshot::Sender<Pass>> {
        let places = self.waiting.iter().enumerate();
        let (place, _) = places.max_by_key(|(_, one)| {
            let items = one.items.load(Ordering::Relaxed);
            (one.passed_by >= PASSED_BY, items, one.passed_by)
        })?;
        let next = self.waiting.swap_remove(place);
        for other in &mut self.waiting {
            other.passed_by += 1;
        }
        Some(next.call)
    }
}

impl Pass {
    /// Waits for a batch; the turn is over before, if that takes long.
    async fn run<T>(self, batch: impl Future<Output = T>) -> (T, Option<Self>) {
        tokio::pin!(batch);
        tokio::select! {
            biased;
            outcome = &mut batch => return (outcome, Some(self)),
            () = tokio::time::sleep(TURN) => drop(self),
        }
        (batch.await, None)
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let next = {
            let mut queue = self.0.queue();
            let next = queue.next();
            queue.is_taken = next.is_some();
            next
        };
        if let Some(next) = next {
            // One that is gone hands it on.
            let _ = next.send(Pass(self.0.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn what_arrives_together_is_written_together() {
        let (sizes, mut seen) = mpsc::unbounded_channel();
        let batches = Batches::in_turn(&Turnstile::default(), 8, move |items: Vec<u32>| {
            sizes.send(items.len()).expect("the test listens");
            async move { Ok(items.into_iter().map(|n| n * 2).collect()) }.boxed()
        });
        let answers = join_all((0..20).map(|n| batches.write(n))).await;
        for (n, answer) in (0..).zip(answers) {
            assert_eq!(answer.expect("it is written"), n * 2);
        }
        drop(batches);
        let mut all = Vec::new();
        while let Some(size) = seen.recv().await {
            all.push(size);
        }
        assert_eq!(all, [8, 8, 4]);
    }

    #[tokio::test]
    async fn what_is_heavy_is_written_in_batches_of_few() {
        let (sizes, mut seen) = mpsc::unbounded_channel();
        let weigh = |item: &usize| *item;
        let batches = Batches::weighed(&Turnstile::default(), 64, weigh, move |items| {
            sizes.send(items.clone()).expect("the test listens");
            async { Ok(items) }.boxed()
        });
        let light = HEAVY / 4;
        let wishes = [HEAVY, HEAVY, light, light, 4 * HEAVY, light, 1, 1];
        for answer in join_all(wishes.map(|item| batches.write(item))).await {
            answer.expect("it is written");
        }
        drop(batches);
        let mut all = Vec::new();
        while let Some(batch) = seen.recv().await {
            all.push(batch);
        }
        let expected: [&[usize]; 4] = [
            &[HEAVY],
            &[HEAVY],
            &[light, light, 4 * HEAVY],
            &[light, 1, 1],
        ];
        assert_eq!(all, expected);
    }

    // Paused, so that a machine that stalls ends no turn.
    #[tokio::test(start_paused = true)]
    async fn what_took_one_step_together_takes_the_next_one_together() {
        let turnstile = Turnstile::default();
        let (sizes, mut seen) = mpsc::unbounded_channel();
        let step = |number: usize| {
            let sizes = sizes.clone();
            Batches::in_turn(&turnstile, 64, move |items: Vec<u32>| {
                let sizes = sizes.clone();
                async move {
                    // As long as a transaction: others get on meanwhile.
                    for _ in 0..100 {
                        tokio::task::yield_now().await;
                    }
                    sizes.send((number, items.len())).expect("the test listens");
                    Ok(items)
                }
                .boxed()
            })
        };
        let steps: Vec<Batches<u32, u32>> = (0..6).map(step).collect();
        let walk = |item: u32| {
            let steps = steps.clone();
            async move {
                for step in &steps {
                    assert_eq!(step.write(item).await.expect("it is written"), item);
                }
            }
        };
        join_all((0..32).map(walk)).await;
        drop((steps, sizes));
        let mut batches = Vec::new();
        while let Some(batch) = seen.recv().await {
            batches.push(batch);
        }
        for number in 0..6 {
            let of_step = batches.iter().filter(|(step, _)| *step == number);
            let sizes: Vec<usize> = of_step.map(|(_, size)| *size).collect();
            assert!(sizes.len() <= 3, "step {number} in batches of {sizes:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_that_takes_long_keeps_nobody_waiting() {
        let turnstile = Turnstile::default();
        let slow = Batches::<u32, u32>::in_turn(&turnstile, 8, |_| {
            futures_util::future::pending().boxed()
        });
        let quick = Batches::in_turn(&turnstile, 8, |items: Vec<u32>| async { Ok(items) }.boxed());
        let stuck = tokio::spawn(async move { slow.write(1).await });
        tokio::task::yield_now().await;
        assert_eq!(quick.write(2).await.expect("it is written"), 2);
        assert!(!stuck.is_finished());
        stuck.abort();
    }

    #[tokio::test]
    async fn an_error_is_told_to_all_of_its_batch() {
        let batches = Batches::<u32, u32>::in_turn(&Turnstile::default(), 8, |_| {
            async { Err(DatabaseError::Closing) }.boxed()
        });
        for answer in join_all((0..3).map(|n| batches.write(n))).await {
            assert!(matches!(answer, Err(DatabaseError::Batch(_))));
        }
    }
}
