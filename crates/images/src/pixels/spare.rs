//! The memory of samples that are gone, kept a while for the next ones.
//!
//! The first touch of memory that is new to the process costs more than most kernels spend on it, so a dropped frame leaves its
//! memory here for whoever makes the next of about its size. What lay in it is never seen: who takes memory writes all of it,
//! and where debug assertions are on it is filled with a value that is not a number, which any sample left out would show.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What the process keeps at most: five frames of 2048 x 2048 pixels in three channels, on top of what jobs may hold.
const SPARE_BYTES: usize = 256 << 20;

/// How long memory is kept that nobody asks for.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// Less than this an allocator gives again by itself; and so the kept pieces stay few enough to look through.
const SMALLEST_BYTES: usize = 128 << 10;

static SPARE: Mutex<Spare> = Mutex::new(Spare::new(SPARE_BYTES));

/// Memory of `length` samples of any value: who takes it writes all of them.
pub(crate) fn unwritten(length: usize) -> Vec<f32> {
    let kept = match length * size_of::<f32>() {
        0..SMALLEST_BYTES => None,
        _ => spare().take(length),
    };
    // Memory that comes zeroed from the system is not touched here.
    let mut samples = kept.unwrap_or_else(|| vec![0.0; length]);
    samples.resize(length, 0.0);
    if cfg!(debug_assertions) {
        samples.fill(f32::NAN);
    }
    samples
}

/// Leaves the memory of samples that nobody needs any more.
pub(super) fn leave(samples: Vec<f32>) {
    if samples.capacity() * size_of::<f32>() < SMALLEST_BYTES {
        return;
    }
    let mut spare = spare();
    let beyond = spare.leave(samples, Instant::now());
    let starts = !spare.is_kept && !spare.pieces.is_empty();
    spare.is_kept |= starts;
    drop(spare);
    // Giving memory back takes its time, which nobody else is to wait for.
    drop(beyond);
    if starts && thread::Builder::new().spawn(keep).is_err() {
        self::spare().is_kept = false;
        release_spare_memory();
    }
}

/// Gives the memory that dropped frames left back to the system, which otherwise happens within a few seconds.
pub fn release_spare_memory() {
    let pieces = spare().release(|_| true);
    drop(pieces);
}

/// Gives back what was not asked for in time, until nothing is left; then the next frame to be dropped starts another thread.
fn keep() {
    loop {
        thread::park_timeout(KEPT_FOR);
        let mut spare = spare();
        let now = Instant::now();
        let old = spare.release(|since| now.duration_since(since) >= KEPT_FOR);
        spare.is_kept &= !spare.pieces.is_empty();
        let is_over = !spare.is_kept;
        drop(spare);
        drop(old);
        if is_over {
            return;
        }
    }
}

fn spare() -> MutexGuard<'static, Spare> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pieces of memory, the one left last at the back.
struct Spare {
    pieces: VecDeque<(Instant, Vec<f32>)>,
    bytes: usize,
    limit_bytes: usize,
    /// Whether a thread is there that gives them back.
    is_kept: bool,
}

impl Spare {
    const fn new(limit_bytes: usize) -> Self {
        Self {
            pieces: VecDeque::new(),
            bytes: 0,
            limit_bytes,
            is_kept: false,
        }
    }

    /// The newest piece that is large enough and not much larger, which a frame would hold without counting it.
    fn take(&mut self, length: usize) -> Option<Vec<f32>> {
        let fits = length..=length + length / 16;
        let mut newest_first = (0..self.pieces.len()).rev();
        let at = newest_first.find(|&at| fits.contains(&self.pieces[at].1.capacity()))?;
        let (_, samples) = self.pieces.remove(at)?;
        self.bytes -= bytes(&samples);
        Some(samples)
    }

    /// Keeps a piece, and gives those that are too many, the oldest.
    fn leave(&mut self, samples: Vec<f32>, now: Instant) -> Vec<Vec<f32>> {
        self.bytes += bytes(&samples);
        self.pieces.push_back((now, samples));
        let mut beyond = Vec::new();
        while self.bytes > self.limit_bytes
            && let Some((_, oldest)) = self.pieces.pop_front()
        {
            self.bytes -= bytes(&oldest);
            beyond.push(oldest);
        }
        beyond
    }

    /// Gives the pieces of which `is_due` says so by when they were left, as far as no older one is kept.
    fn release(&mut self, is_due: impl Fn(Instant) -> bool) -> Vec<Vec<f32>> {
        let due = self.pieces.iter().take_while(|(since, _)| is_due(*since));
        let due = due.count();
        let pieces: Vec<_> = self.pieces.drain(..due).map(|(_, piece)| piece).collect();
        self.bytes -= pieces.iter().map(bytes).sum::<usize>();
        pieces
    }
}

fn bytes(samples: &Vec<f32>) -> usize {
    samples.capacity() * size_of::<f32>()
}

#[cfg(test)]
mod tests;
