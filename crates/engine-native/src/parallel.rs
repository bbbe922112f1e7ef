//! The threads that the work on one large picture is spread over.
//!
//! They are apart from the threads that nodes are called on: a call that waits for its share of a picture must not take up
//! another call meanwhile, behind which it would wait for as long as that one likes.

use std::cell::RefCell;
use std::sync::Arc;

use rayon::ThreadPool;

thread_local! {
    static POOL: RefCell<Option<Arc<ThreadPool>>> = const { RefCell::new(None) };
}

/// Has this thread spread its work over a pool from now on.
pub(crate) fn use_pool(pool: Arc<ThreadPool>) {
    POOL.set(Some(pool));
}

/// How many threads [`spread`] spreads work over.
pub(crate) fn threads() -> usize {
    pool().map_or_else(rayon::current_num_threads, |pool| {
        pool.current_num_threads()
    })
}

/// Does work on this thread's pool, if it has one and is not in it; elsewhere right here. What the work does with `rayon` is
/// spread over the pool.
pub(crate) fn spread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    match pool() {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

fn pool() -> Option<Arc<ThreadPool>> {
    POOL.with_borrow(Clone::clone)
}
