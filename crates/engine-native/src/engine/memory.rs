//! What a job holds in memory: counted by what is shared, bounded by a budget.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{NodeError, Value};

/// Counts the bytes of values that share their parts.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    parts: HashMap<usize, (u32, u64)>,
    bytes: u64,
}

/// The parts of a value, to be struck off when it is gone: by then it cannot be asked any more.
#[derive(Debug, Default)]
pub(super) struct Parts(Vec<(usize, u64)>);

/// Bytes that a job may use, seen by all its calls at once.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    /// Bytes of values that are alive.
    alive: AtomicU64,
    /// Bytes that running calls asked for.
    reserved: AtomicU64,
}

/// What one call asked for; given back when nobody holds it any more.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: Arc<Budget>,
    bytes: AtomicU64,
}

impl Reservation {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        Self {
            budget,
            bytes: AtomicU64::new(0),
        }
    }

    /// Reserves more bytes if they are free.
    pub(super) fn add(&self, bytes: u64) -> Result<(), NodeError> {
        self.budget.reserve(bytes)?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Gives back all but `bytes`.
    pub(super) fn shrink(&self, bytes: u64) {
        let before = self.bytes.fetch_min(bytes, Ordering::Relaxed);
        self.budget.release(before.saturating_sub(bytes));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release(self.bytes.load(Ordering::Relaxed));
    }
}

impl Parts {
    pub(super) fn of<'a>(values: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut parts = Vec::new();
        for value in values {
            value.each_part(|address, bytes| parts.push((address, bytes)));
        }
        Self(parts)
    }
}

impl Ledger {
    pub(super) fn add(&mut self, parts: &Parts) {
        for &(address, bytes) in &parts.0 {
            let (count, known) = self.parts.entry(address).or_default();
            // A call may free a part and allocate another at its place: the newest size is the true one.
            self.bytes = self.bytes - *known + bytes;
            *known = bytes;
            *count += 1;
        }
    }

    pub(super) fn remove(&mut self, parts: &Parts) {
        for (address, _) in &parts.0 {
            let Some((count, bytes)) = self.parts.get_mut(address) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                self.bytes -= *bytes;
                self.parts.remove(address);
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes of parts by themselves.
    pub(super) fn total<'a>(parts: impl IntoIterator<Item = &'a Parts>) -> u64 {
        let mut ledger = Self::default();
        parts.into_iter().for_each(|parts| ledger.add(parts));
        ledger.bytes
    }
}

impl Budget {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            alive: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
        }
    }

    pub(super) fn set_alive(&self, bytes: u64) {
        self.alive.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn free(&self) -> u64 {
        let used = self
            .alive
            .load(Ordering::Relaxed)
            .saturating_add(self.reserved.load(Ordering::Relaxed));
        self.limit.saturating_sub(used)
    }

    fn reserve(&self, bytes: u64) -> Result<(), NodeError> {
        let room = self
            .limit
            .saturating_sub(self.alive.load(Ordering::Relaxed));
        let fits = |reserved: u64| reserved.checked_add(bytes).filter(|&sum| sum <= room);
        match self
            .reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
        {
            Ok(_) => Ok(()),
            Err(reserved) => Err(self.exceeded(bytes, room.saturating_sub(reserved))),
        }
    }

    fn release(&self, bytes: u64) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn exceeded(&self, needed_bytes: u64, free_bytes: u64) -> NodeError {
        NodeError::OutOfMemory {
            needed_bytes,
            free_bytes,
            budget_bytes: self.limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use images::{Frame, Image};

    #[test]
    fn shared_frames_count_once_until_the_last_holder_is_gone() {
        let frame = Arc::new(Frame::filled(2, 2, 1, 0.0));
        let image = || Value::Image(Image::new(vec![Arc::clone(&frame)]).expect("one frame"));
        let (first, second) = (image(), image());
        let (one, two) = (Parts::of([&first]), Parts::of([&second]));
        let (samples, reference) = (16, size_of::<usize>() as u64);
        let mut ledger = Ledger::default();
        ledger.add(&one);
        ledger.add(&two);
        assert_eq!(ledger.bytes(), samples + 2 * reference);
        ledger.remove(&one);
        assert_eq!(ledger.bytes(), samples + reference);
        ledger.remove(&two);
        assert_eq!(ledger.bytes(), 0);
    }

    #[test]
    fn a_budget_gives_no_more_than_there_is() {
        let budget = Arc::new(Budget::new(100));
        budget.set_alive(40);
        let one = Reservation::new(Arc::clone(&budget));
        let two = Reservation::new(Arc::clone(&budget));
        assert_eq!(one.add(50), Ok(()));
        assert_eq!(budget.free(), 10);
        let refused = NodeError::OutOfMemory {
            needed_bytes: 11,
            free_bytes: 10,
            budget_bytes: 100,
        };
        assert_eq!(two.add(11), Err(refused));
        one.shrink(80);
        one.shrink(49);
        assert_eq!(budget.free(), 11);
        drop(one);
        assert_eq!(two.add(60), Ok(()));
        assert!(two.add(u64::MAX).is_err());
    }
}
