//! What happens in which cycle, all of it following from the seed.

use std::fmt;
use std::io;
use std::time::Duration;

use super::points;
use it::random::Random;

/// An installation of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneInstallation {
    /// The lane, from 0.
    pub(super) lane: u64,
    /// Its number in the lane, from 0.
    pub(super) installation: u64,
}

/// How a cycle ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The process is killed this long after it was ready and checked.
    Kill(Duration),
    /// The process is killed this long after it was started, ready or not.
    KillAtStart(Duration),
    /// The process ends at the hit of a fault point that follows `passing` others.
    Point {
        /// The point.
        name: &'static str,
        /// Hits that pass.
        passing: u64,
    },
    /// The disk ends the process at one of its operations. If it has not done so this long after the process was ready and
    /// checked, the process is asked to stop, so that the disk ends it while it does.
    Disk(Duration),
}

/// Longest time from the first request to a kill: the work of a cycle is about over by then.
const LONGEST_LIFE_US: u64 = 150_000;
/// On a disk that ends it, one of so many lives is a long one, in which ends of calls become durable by time alone.
const LONG_LIFE_IN: u64 = 8;
const LONG_LIFE_US: u64 = 2_500_000;
/// Longest time from the start of a process to a kill at its start: a start takes less.
const LONGEST_START_US: u64 = 40_000;
/// Most hits that a point lets pass: a cycle reaches every point some dozen times.
const MOST_PASSING: u64 = 12;
/// Most hits that a point lets pass that a cycle reaches now and then.
const MOST_PASSING_RARE: u64 = 2;

impl LaneInstallation {
    /// Reads `LANE.NUMBER`.
    pub(super) fn parse(text: &str) -> io::Result<Self> {
        let parts = text
            .split_once('.')
            .and_then(|(lane, number)| Some((lane.parse().ok()?, number.parse().ok()?)));
        let (lane, installation) = parts.ok_or_else(|| {
            let text = format!("{text} is no installation; write LANE.NUMBER, such as 1.3");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        Ok(Self { lane, installation })
    }

    /// Whether it keeps jobs and files for some seconds only.
    pub(super) fn is_short_lived(self) -> bool {
        self.installation % 2 == 1
    }

    /// The random numbers of a part of a cycle of this installation.
    pub(super) fn random(self, seed: u64, cycle: u64, part: u64) -> Random {
        Random::of_all(&[seed, self.lane, self.installation, cycle, part])
    }
}

impl fmt::Display for LaneInstallation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.lane, self.installation)
    }
}

/// How a cycle ends that the disk shall end.
pub(super) fn end_by_disk(random: &mut Random) -> End {
    let longest_us = match random.below(LONG_LIFE_IN) {
        0 => LONG_LIFE_US,
        _ => LONGEST_LIFE_US,
    };
    End::Disk(Duration::from_micros(random.below(longest_us)))
}

/// How a cycle ends: half at a fault point if there are any, one in twenty while it starts, the others at any instant.
pub(super) fn end(random: &mut Random, points: &[&'static str], points_alone: bool) -> End {
    let kind = if points_alone { 0 } else { random.below(20) };
    match random.pick(points) {
        Some(name) if kind < 10 => End::Point {
            name,
            passing: random.below(if points::is_rare(name) {
                MOST_PASSING_RARE
            } else {
                MOST_PASSING
            }),
        },
        Some(_) | None if kind == 19 => {
            End::KillAtStart(Duration::from_micros(random.below(LONGEST_START_US)))
        }
        Some(_) | None => End::Kill(Duration::from_micros(random.below(LONGEST_LIFE_US))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(points: &[&'static str], points_alone: bool) -> Vec<End> {
        let place = LaneInstallation {
            lane: 1,
            installation: 2,
        };
        let cycles = 0..2_000;
        cycles
            .map(|cycle| end(&mut place.random(7, cycle, 0), points, points_alone))
            .collect()
    }

    #[test]
    fn a_seed_decides_everything() {
        assert_eq!(ends(&["a", "b"], false), ends(&["a", "b"], false));
        assert_ne!(
            ends(&["a", "b"], false)[..10],
            ends(&["a", "b"], false)[10..20]
        );
    }

    #[test]
    fn every_way_to_end_has_its_share() {
        let ends = ends(&["a", "b"], false);
        let at = |wanted: &str| {
            let hits = ends
                .iter()
                .filter(|end| matches!(end, End::Point { name, .. } if *name == wanted));
            hits.count()
        };
        let starting = ends
            .iter()
            .filter(|end| matches!(end, End::KillAtStart(_)))
            .count();
        assert!((400..600).contains(&at("a")) && (400..600).contains(&at("b")));
        assert!((60..150).contains(&starting), "{starting}");
    }

    #[test]
    fn without_points_there_are_kills_alone_and_with_points_alone_no_kills() {
        let is_point = |end: &End| matches!(end, End::Point { .. });
        assert!(!ends(&[], false).iter().any(is_point));
        assert!(ends(&["a"], true).iter().all(is_point));
    }

    #[test]
    fn a_place_is_read_as_it_is_written() {
        let place = LaneInstallation::parse("1.3").expect("a place");
        assert_eq!(place.to_string(), "1.3");
        for text in ["", "1", "a.1", "1.2.3"] {
            assert!(LaneInstallation::parse(text).is_err(), "{text}");
        }
    }
}
