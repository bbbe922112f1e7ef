//! How many jobs a worker may have at once.

/// How many jobs a worker may have at once. A ComfyUI runs one at a time: the inputs of the others are staged meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerSlots(u8);

impl WorkerSlots {
    /// Most slots of a worker. A job that waits at a worker takes no other one that becomes free.
    pub const MOST: u8 = 16;

    /// So many; `None` if a worker cannot have so many.
    #[must_use]
    pub fn new(count: u8) -> Option<Self> {
        (1..=Self::MOST).contains(&count).then_some(Self(count))
    }

    /// How many they are.
    #[must_use]
    pub fn count(self) -> u32 {
        u32::from(self.0)
    }

    /// As many places.
    pub(crate) fn places(self) -> usize {
        usize::from(self.0)
    }
}

impl Default for WorkerSlots {
    /// One runs, and the inputs of one more are staged meanwhile.
    fn default() -> Self {
        Self(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_from_one_to_sixteen_slots() {
        let counts = [0, 1, 2, 16, 17].map(|count| WorkerSlots::new(count).map(WorkerSlots::count));
        assert_eq!(counts, [None, Some(1), Some(2), Some(16), None]);
        assert_eq!(WorkerSlots::new(2), Some(WorkerSlots::default()));
    }
}
