//! When those who write wait for each other, so that many share what waiting for the disk costs.

use std::time::Duration;

/// From how many who wrote together on the next are given time to gather: so many at once are many writers.
pub(crate) const CROWD: usize = 4;

/// That time, for each of them: together at most about what a commit takes.
const GATHERING: Duration = Duration::from_micros(30);
const MOST_GATHERED: u32 = 16;

/// Up to which wait for the disk a lone write is seen to in place: waking a thread and being woken takes no less.
pub(crate) const IN_PLACE: Duration = Duration::from_micros(50);

/// How long the next group may gather, after so many who wrote together.
pub(crate) fn gathering(before: usize) -> Option<Duration> {
    let crowd = u32::try_from(before).unwrap_or(MOST_GATHERED);
    (before >= CROWD).then(|| GATHERING * crowd.min(MOST_GATHERED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_wait_for_nobody_and_many_for_a_moment() {
        let us = |before| gathering(before).map(|gathering| gathering.as_micros());
        assert_eq!([0, 1, 3].map(us), [None; 3]);
        assert_eq!([4, 16, 17].map(us), [120, 480, 480].map(Some));
        assert_eq!(us(usize::MAX), Some(480));
    }
}
