//! What arrives together is written in one transaction: at once when nothing is under way, else with the next one.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use crate::DatabaseError;

/// How many may wait for the next batch, beyond which callers wait to be let in.
const WAITING: usize = 4_096;

/// What became of one item.
type Outcome<A> = Result<A, DatabaseError>;

/// Gathers items and has them written together. Clones gather for the same batches; the task ends with the last of them.
pub(crate) struct Batches<T, A> {
    sender: mpsc::Sender<(T, oneshot::Sender<Outcome<A>>)>,
}

impl<T, A> Clone for Batches<T, A> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
        }
    }
}

impl<T: Send + 'static, A: Send + 'static> Batches<T, A> {
    /// Starts the task that hands `run` at most `most` items at a time; `run` answers one outcome for each, in their order, or
    /// the error that all of them get.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub(crate) fn start<F>(most: usize, run: F) -> Self
    where
        F: Fn(Vec<T>) -> BoxFuture<'static, Result<Vec<A>, DatabaseError>> + Send + 'static,
    {
        let (sender, mut arriving) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            let mut together = Vec::with_capacity(most);
            while arriving.recv_many(&mut together, most).await > 0 {
                let (items, callers): (Vec<T>, Vec<oneshot::Sender<Outcome<A>>>) =
                    together.drain(..).unzip();
                match run(items).await {
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
            }
        });
        Self { sender }
    }

    /// Has the item written with the next batch. It is written even if the caller stops waiting.
    pub(crate) async fn write(&self, item: T) -> Outcome<A> {
        let (caller, answer) = oneshot::channel();
        let sent = self.sender.send((item, caller)).await;
        sent.map_err(|_| DatabaseError::Closing)?;
        answer.await.map_err(|_| DatabaseError::Closing)?
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
        let batches = Batches::start(8, move |items: Vec<u32>| {
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
    async fn an_error_is_told_to_all_of_its_batch() {
        let batches =
            Batches::<u32, u32>::start(8, |_| async { Err(DatabaseError::Closing) }.boxed());
        for answer in join_all((0..3).map(|n| batches.write(n))).await {
            assert!(matches!(answer, Err(DatabaseError::Batch(_))));
        }
    }
}
