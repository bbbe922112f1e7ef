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

/// Up to so many samples of one pass stay on their thread: it is over in a fifth of a millisecond, where handing a part to
/// another thread and waiting for it costs more processor time than it saves, and far more where no processor is free.
const PASS_SAMPLES: usize = 1 << 20;

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

/// As [`fill_bands`], for one pass that does little to each sample, so that memory bounds it: only larger ones are spread.
pub(crate) fn fill_pass<T: Send>(out: &mut [T], fill: impl Fn(usize, &mut [T]) + Sync) {
    match out.len() <= PASS_SAMPLES {
        true => fill(0, out),
        false => fill_bands(out, 1, fill),
    }
}

/// The parallel part, compiled once for a type of samples instead of once for every kernel.
fn split<T: Send>(out: &mut [T], length: usize, fill: &(dyn Fn(usize, &mut [T]) + Sync)) {
    spread(|| {
        out.par_chunks_mut(length)
            .enumerate()
            .for_each(|(band, rows)| fill(band, rows));
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// What fills samples.
    type Filler = fn(&mut [u8], &(dyn Fn(usize, &mut [u8]) + Sync));

    /// Whether so many samples are filled by threads of the pool.
    fn is_spread(samples: usize, filler: Filler) -> bool {
        let is_spread = AtomicBool::new(false);
        filler(&mut vec![0; samples], &|_, _| {
            let is_of_pool = rayon::current_thread_index().is_some();
            is_spread.fetch_or(is_of_pool, Ordering::Relaxed);
        });
        is_spread.into_inner()
    }

    #[test]
    fn a_pass_over_a_small_picture_stays_on_its_thread() {
        let caller = || {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
            use_pool(Arc::new(pool.expect("a small pool starts")));
            let bands: Filler = |out, fill| fill_bands(out, 1, fill);
            assert!(!is_spread(SPLIT_SAMPLES, bands));
            assert!(is_spread(SPLIT_SAMPLES + 1, bands));
            let pass: Filler = |out, fill| fill_pass(out, fill);
            assert!(!is_spread(512 * 512 * 3, pass));
            assert!(is_spread(PASS_SAMPLES + 1, pass));
        };
        // A thread of its own, for it keeps the pool.
        thread::spawn(caller).join().expect("it is as it says");
    }
}
