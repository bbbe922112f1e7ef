//! The threads that the work on one large picture is spread over.
//!
//! They are apart from the threads that nodes are called on: a call that waits for its share of a picture must not take up
//! another call meanwhile, behind which it would wait for as long as that one likes.

use std::cell::RefCell;
use std::sync::Arc;

use rayon::ThreadPool;
use rayon::prelude::*;

/// Fewer samples than this are done before another thread has woken up.
pub(crate) const SPLIT_SAMPLES: usize = 1 << 16;

thread_local! {
    static POOL: RefCell<Option<Arc<ThreadPool>>> = const { RefCell::new(None) };
}

/// Has this thread spread its work over a pool from now on.
pub fn use_pool(pool: Arc<ThreadPool>) {
    POOL.set(Some(pool));
}

/// How many threads [`spread`] spreads work over.
#[must_use]
pub fn threads() -> usize {
    pool().map_or_else(rayon::current_num_threads, |pool| {
        pool.current_num_threads()
    })
}

/// Does work on this thread's pool, if it has one and is not in it; elsewhere right here. What the work does with `rayon` is
/// spread over the pool.
pub fn spread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    match pool() {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

fn pool() -> Option<Arc<ThreadPool>> {
    POOL.with_borrow(Clone::clone)
}

/// Calls `fill(first_row, rows)` for bands of whole rows that together cover `out`.
///
/// A band is handed over whole so that a kernel can keep what neighbouring rows share.
pub(crate) fn fill_bands<T: Send>(
    out: &mut [T],
    stride: usize,
    fill: impl Fn(usize, &mut [T]) + Sync,
) {
    if stride == 0 || out.is_empty() {
        return;
    }
    if out.len() <= SPLIT_SAMPLES || threads() == 1 {
        fill(0, out);
        return;
    }
    let rows = out.len() / stride;
    let bands = threads() * 4;
    let band_rows = rows.div_ceil(bands).max(SPLIT_SAMPLES / 2 / stride).max(1);
    split(out, band_rows * stride, &|band, rows| {
        fill(band * band_rows, rows)
    });
}

/// The parallel part, compiled once for a type of samples instead of once for every kernel.
fn split<T: Send>(out: &mut [T], length: usize, fill: &(dyn Fn(usize, &mut [T]) + Sync)) {
    spread(|| {
        out.par_chunks_mut(length)
            .enumerate()
            .for_each(|(band, rows)| fill(band, rows));
    });
}
