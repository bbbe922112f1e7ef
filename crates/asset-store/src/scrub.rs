//! The scrub: comparing every blob with its hash now and then, so that damage is found while the right bytes can still be had.
//!
//! A pass goes through all blobs in the order of their hashes and remembers its position, so a restart costs only what was
//! compared since that was last saved. It goes as slowly as it may: fast enough to end before the next pass is due, and never
//! so fast that serving would feel it.

use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use crate::{Blob, BlobHash, RecordsError};

/// Bytes per second that a pass compares at least, however much time it has: a small installation is done in minutes, and
/// the disk can sleep for the rest of the day.
const SLOWEST: u64 = 1 << 20;

/// Bytes per second that a pass compares at most, however late it is: about half of what one ordinary hard disk reads.
const FASTEST: u64 = 64 << 20;

/// What a blob costs besides its bytes: finding and opening its file, as bytes that could be read meanwhile.
const PER_BLOB: u64 = 16 << 10;

/// What may be compared before a pause, so that small blobs do not wake the processor for each of them.
const BURST: u64 = 256 << 10;

/// What is remembered of the scrub, over restarts too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubState {
    /// When the pass under way, or else the last one, began.
    pub began_at: Option<Timestamp>,
    /// The last blob that the pass under way has compared.
    pub position: Option<BlobHash>,
    /// When the last pass that met every blob ended.
    pub completed_at: Option<Timestamp>,
    /// Blobs that were found damaged, in the order of their hashes.
    pub damaged: Vec<BlobHash>,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubNext {
    /// A pass is under way from [`ScrubState::position`] on.
    Pass,
    /// The next one begins after this time.
    Wait(SignedDuration),
}

/// How fast a pass goes.
#[derive(Clone, Copy, Debug)]
pub struct ScrubPace {
    /// What is still to be compared, in bytes; what blobs cost besides is among it.
    left: u64,
    /// What was compared since the last pause.
    owed: u64,
}

/// Remembers the [`ScrubState`].
///
/// **Contract.** Saving replaces all of it, in one transaction. It may be lost in a crash, which costs no more than comparing
/// some blobs again.
#[async_trait]
pub trait ScrubStates: Send + Sync + 'static {
    /// What was saved last; the default before that.
    async fn load_scrub(&self) -> Result<ScrubState, RecordsError>;

    /// Saves it.
    async fn save_scrub(&self, state: &ScrubState) -> Result<(), RecordsError>;
}

impl ScrubState {
    /// What is to be done at `now`, when a pass is due each `interval`: goes on with a pass, begins one, or waits. A clock that
    /// was set back to before the last pass begins another one, since it cannot tell how long ago that was.
    pub fn next(&mut self, now: Timestamp, interval: SignedDuration) -> ScrubNext {
        if self.is_under_way() {
            return ScrubNext::Pass;
        }
        let since = self.began_at.map(|began| now.duration_since(began));
        if let Some(since) = since
            && !since.is_negative()
            && since < interval
        {
            return ScrubNext::Wait(interval - since);
        }
        self.began_at = Some(now);
        self.position = None;
        // What ended in the future says nothing, and would look like the end of this pass.
        self.completed_at = self.completed_at.filter(|completed| *completed < now);
        ScrubNext::Pass
    }

    /// Ends the pass under way, which has met every blob.
    pub fn complete(&mut self, now: Timestamp) {
        self.position = None;
        // A clock that was set back meanwhile must not make it look as if the pass went on.
        self.completed_at = Some(self.began_at.map_or(now, |began| began.max(now)));
    }

    /// How much of `interval` is left at `now` for the pass under way; all of it at most, nothing at least.
    #[must_use]
    pub fn time_left(&self, now: Timestamp, interval: SignedDuration) -> SignedDuration {
        let since = self
            .began_at
            .map_or(SignedDuration::ZERO, |began| now.duration_since(began));
        interval
            .saturating_sub(since)
            .clamp(SignedDuration::ZERO, interval)
    }

    fn is_under_way(&self) -> bool {
        match (self.began_at, self.completed_at) {
            (Some(began), Some(completed)) => completed < began,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}

impl ScrubPace {
    /// The pace of a pass that still has to compare so much ([`ScrubPace::cost`]).
    #[must_use]
    pub fn over(left: u64) -> Self {
        Self { left, owed: 0 }
    }

    /// What comparing a blob costs, in bytes.
    #[must_use]
    pub fn cost(blob: &Blob) -> u64 {
        blob.size_bytes.saturating_add(PER_BLOB)
    }

    /// Takes note of bytes that were read; answers how long to pause before the next ones, if at all, when `time_left` remains
    /// for the rest.
    pub fn read(&mut self, bytes: u64, time_left: SignedDuration) -> Option<Duration> {
        self.spend(bytes, time_left)
    }

    /// Takes note of another blob, in the same way.
    pub fn opened(&mut self, time_left: SignedDuration) -> Option<Duration> {
        self.spend(PER_BLOB, time_left)
    }

    fn spend(&mut self, cost: u64, time_left: SignedDuration) -> Option<Duration> {
        self.left = self.left.saturating_sub(cost);
        self.owed = self.owed.saturating_add(cost);
        if self.owed < BURST {
            return None;
        }
        let owed = std::mem::take(&mut self.owed);
        let seconds = u64::try_from(time_left.as_secs()).unwrap_or(0);
        let wanted = self.left.checked_div(seconds).unwrap_or(FASTEST);
        let rate = wanted.clamp(SLOWEST, FASTEST);
        Some(Duration::from_secs_f64(owed as f64 / rate as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: SignedDuration = SignedDuration::from_hours(24);

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hours * 3600).expect("in range")
    }

    #[test]
    fn a_pass_begins_goes_on_over_restarts_and_waits_for_the_next() {
        let mut state = ScrubState::default();
        assert_eq!(state.next(at(0), DAY), ScrubNext::Pass);
        let position = Some(BlobHash::of(b"met"));
        state.position = position;
        assert_eq!(state.next(at(2), DAY), ScrubNext::Pass);
        assert_eq!((state.began_at, state.position), (Some(at(0)), position));
        state.complete(at(3));
        let wait = ScrubNext::Wait(SignedDuration::from_hours(21));
        assert_eq!(state.next(at(3), DAY), wait);
        assert_eq!(state.next(at(24), DAY), ScrubNext::Pass);
        assert_eq!((state.began_at, state.position), (Some(at(24)), None));
        // One that took longer than it should is followed at once.
        state.complete(at(60));
        assert_eq!(state.next(at(60), DAY), ScrubNext::Pass);
    }

    #[test]
    fn a_clock_that_was_set_back_delays_no_pass() {
        let mut state = ScrubState::default();
        state.next(at(100), DAY);
        state.complete(at(90));
        assert!(!state.is_under_way());
        assert_eq!(state.next(at(90), DAY), ScrubNext::Pass);
        assert_eq!(state.began_at, Some(at(90)));
        assert_eq!(state.next(at(92), DAY), ScrubNext::Pass, "the same one");
        assert_eq!(state.began_at, Some(at(90)));
        // Under way, it has an interval at most.
        assert_eq!(state.time_left(at(50), DAY), DAY);
        assert_eq!(state.time_left(at(500), DAY), SignedDuration::ZERO);
    }

    fn rate(left: u64, time_left: SignedDuration) -> u64 {
        let mut pace = ScrubPace::over(left + BURST);
        let pause = pace.read(BURST, time_left).expect("a pause");
        (BURST as f64 / pause.as_secs_f64()).round() as u64
    }

    #[test]
    fn a_pass_is_spread_over_its_time_within_bounds() {
        // 1 TB in a day, little in a day, much in a day, and late.
        assert_eq!(rate(86_400 * 12_000_000, DAY), 12_000_000);
        assert_eq!(rate(1 << 30, DAY), SLOWEST);
        assert_eq!(rate(1 << 50, DAY), FASTEST);
        assert_eq!(rate(1 << 30, SignedDuration::ZERO), FASTEST);
    }

    #[test]
    fn small_blobs_share_a_pause_and_cost_more_than_their_bytes() {
        let mut pace = ScrubPace::over(1 << 30);
        let pauses = (0..64).filter_map(|_| pace.opened(DAY)).count();
        assert_eq!(pauses, 4);
        let blob = Blob {
            hash: BlobHash::of(b""),
            size_bytes: 0,
        };
        assert_eq!(ScrubPace::cost(&blob), PER_BLOB);
    }
}
