//! Threads for what takes long without waiting: the domain has none of its own.

use tokio::sync::oneshot;

/// From this size on a text is worked on aside: it takes a millisecond and more, in which nobody else would get on.
const LARGE_BYTES: usize = 256 * 1024;

/// Runs what would keep everybody else from the thread that it is on.
///
/// **Contract.** Every piece of work is run once and soon, on a thread that nobody else waits for; a panic in it hurts nobody
/// else. Work that is dropped instead means that the program stops.
pub trait BlockingPool: Send + Sync + 'static {
    /// Takes a piece of work and returns at once.
    fn run(&self, work: Box<dyn FnOnce() + Send>);
}

/// The work panicked, or the program stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("work on a large text was not brought to its end")]
pub struct Abandoned;

/// Does work on a text of so many bytes: here while they are few, else on a thread where nobody waits for it.
pub(crate) async fn aside<T: Send + 'static>(
    threads: &dyn BlockingPool,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Abandoned> {
    if bytes < LARGE_BYTES {
        return Ok(work());
    }
    let (tell, told) = oneshot::channel();
    threads.run(Box::new(move || {
        // Who has left needs no answer.
        let _ = tell.send(work());
    }));
    told.await.map_err(|_| Abandoned)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Threads that do the work at once, and count it.
    #[derive(Debug, Default)]
    pub(crate) struct AtOnce(pub(crate) AtomicUsize);

    impl BlockingPool for AtOnce {
        fn run(&self, work: Box<dyn FnOnce() + Send>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            work();
        }
    }

    /// Threads of a program that stops.
    struct Stopped;

    impl BlockingPool for Stopped {
        fn run(&self, work: Box<dyn FnOnce() + Send>) {
            drop(work);
        }
    }

    #[tokio::test]
    async fn only_what_is_large_goes_aside() {
        let threads = AtOnce::default();
        for (bytes, went) in [(LARGE_BYTES - 1, 0), (LARGE_BYTES, 1)] {
            assert_eq!(aside(&threads, bytes, move || bytes).await, Ok(bytes));
            assert_eq!(threads.0.load(Ordering::Relaxed), went);
        }
        assert_eq!(aside(&Stopped, LARGE_BYTES, || ()).await, Err(Abandoned));
    }
}
