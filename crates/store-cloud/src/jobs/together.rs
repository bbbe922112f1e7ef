//! Batches of one operation, and what becomes of a batch that PostgreSQL refused.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_postgres::error::SqlState;
use workflow_core::StoreError;

use super::{Shared, unavailable};
use crate::DatabaseError;
use crate::batch::Batches;

/// How often a batch is tried that others were in the way of.
const ATTEMPTS: usize = 5;

/// An operation on what arrived together.
type Run<T, A> = fn(Arc<Shared>, Vec<T>) -> BoxFuture<'static, Result<Vec<A>, DatabaseError>>;

/// Has items written together.
pub(super) struct Together<T, A>(Batches<T, Result<A, DatabaseError>>);

impl<T, A> Clone for Together<T, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone + Send + 'static, A: Send + 'static> Together<T, A> {
    /// Starts the task that runs the operation on at most `most` items.
    pub(super) fn start(store: &Arc<Shared>, most: usize, run: Run<T, A>) -> Self {
        Self::weighed(store, most, |_| 0, run)
    }

    /// As [`Together::start`], for items that may be large: `weigh` tells how many bytes one has.
    pub(super) fn weighed(
        store: &Arc<Shared>,
        most: usize,
        weigh: fn(&T) -> usize,
        run: Run<T, A>,
    ) -> Self {
        let store = Arc::clone(store);
        let turnstile = store.database.turnstile().apart();
        Self(Batches::weighed(&turnstile, most, weigh, move |items| {
            each(Arc::clone(&store), items, run).boxed()
        }))
    }

    /// Has an item written with others.
    pub(super) async fn write(&self, item: T) -> Result<A, StoreError> {
        self.ask(item).await.map_err(unavailable)
    }

    /// Has a question answered with others.
    pub(super) async fn ask(&self, item: T) -> Result<A, DatabaseError> {
        self.0.write(item).await.and_then(|answered| answered)
    }
}

/// Runs a batch. If PostgreSQL refuses something in it, each item is tried alone, so that the others do not fail with it.
async fn each<T: Clone + Send, A: Send>(
    store: Arc<Shared>,
    items: Vec<T>,
    run: Run<T, A>,
) -> Result<Vec<Result<A, DatabaseError>>, DatabaseError> {
    match attempt(&store, items.clone(), run).await {
        Ok(answers) => Ok(answers.into_iter().map(Ok).collect()),
        // It is rolled back for sure.
        Err(error) if items.len() > 1 && error.state().is_some() => {
            let mut answers = Vec::with_capacity(items.len());
            for item in items {
                let alone = attempt(&store, vec![item], run).await;
                answers.push(alone.and_then(|mut one| one.pop().ok_or(DatabaseError::Closing)));
            }
            Ok(answers)
        }
        Err(error) => Err(error),
    }
}

async fn attempt<T: Clone + Send, A>(
    store: &Arc<Shared>,
    items: Vec<T>,
    run: Run<T, A>,
) -> Result<Vec<A>, DatabaseError> {
    for _ in 1..ATTEMPTS {
        match run(Arc::clone(store), items.clone()).await {
            Err(error) if error.state().is_some_and(was_in_the_way) => {
                tracing::debug!(error = %error, "a batch met another one; trying it again");
            }
            done => return done,
        }
    }
    run(Arc::clone(store), items).await
}

/// Whether another transaction was the reason: nothing is wrong with this one.
fn was_in_the_way(state: &SqlState) -> bool {
    let reasons = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        // An id or a key that another one took meanwhile is found the next time.
        SqlState::UNIQUE_VIOLATION,
    ];
    reasons.contains(state)
}
