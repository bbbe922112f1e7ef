//! Telling that a client went away before its answer was made.
//!
//! hyper says so by dropping the handler's future, so the sign is a drop that nobody announced. A panic drops it too, and
//! is not taken for a leaving client.

use std::future::Future;

/// Runs `gone` if it is dropped before [`DisconnectGuard::disarm`].
#[derive(Debug)]
pub struct DisconnectGuard<F: FnOnce()> {
    gone: Option<F>,
}

impl<F: FnOnce()> DisconnectGuard<F> {
    /// Begins to watch.
    pub fn new(gone: F) -> Self {
        Self { gone: Some(gone) }
    }

    /// The answer is made: `gone` will not run.
    pub fn disarm(mut self) {
        self.gone = None;
    }
}

impl<F: FnOnce()> Drop for DisconnectGuard<F> {
    fn drop(&mut self) {
        if let Some(gone) = self.gone.take()
            && !std::thread::panicking()
        {
            gone();
        }
    }
}

/// Makes an answer, and runs `gone` if it is given up before it is made. `gone` must be short and must not block: it runs
/// on the connection's task.
pub async fn or_gone<T>(answer: impl Future<Output = T>, gone: impl FnOnce()) -> T {
    let guard = DisconnectGuard::new(gone);
    let answer = answer.await;
    guard.disarm();
    answer
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn an_answer_that_is_made_tells_nothing() {
        let told = Cell::new(false);
        let answer = or_gone(ready(7), || told.set(true)).now_or_never();
        assert_eq!((answer, told.get()), (Some(7), false));
    }

    #[test]
    fn an_answer_that_is_given_up_tells_once() {
        let told = Cell::new(0);
        let answer = or_gone(pending::<()>(), || told.set(told.get() + 1)).now_or_never();
        assert_eq!((answer, told.get()), (None, 1));
    }

    #[test]
    fn a_panic_is_no_leaving_client() {
        let told = Cell::new(false);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _guard = DisconnectGuard::new(|| told.set(true));
            panic!("as meant");
        }));
        assert!(panicked.is_err() && !told.get());
    }
}
