//! The order in which two programs take turns, and what their turns give.
//!
//! A B, B A, A B, ...: each pair lies close together in time, and the program that goes first changes. What makes the
//! machine slowly faster or slower then hits both programs alike, and cancels within two pairs.

use std::io;
use std::time::Instant;

use super::statistics::Pair;
use crate::claim::Better;
use crate::report::Figure;
use crate::say;

/// One of the two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that is compared with.
    Before,
    /// The one that is compared.
    After,
}

/// A value that a turn gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Its name, as in reports.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Which values are good.
    pub better: Better,
    /// The value.
    pub value: f64,
}

/// The values of one name, pair by pair.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name, as in reports.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Which values are good.
    pub better: Better,
    /// What the turns gave.
    pub pairs: Vec<Pair>,
}

/// What all pairs of a scenario gave.
#[derive(Debug)]
pub enum Compared {
    /// A series for each value that both programs have.
    Measured(Vec<Series>),
    /// The older program cannot do it, and the newer one can.
    Lacking(io::Error),
}

/// The order of the two programs in each of so many pairs.
pub fn order(pairs: usize) -> impl Iterator<Item = [Side; 2]> {
    (0..pairs).map(|pair| match pair % 2 {
        0 => [Side::Before, Side::After],
        _ => [Side::After, Side::Before],
    })
}

/// Runs all turns of a scenario.
///
/// # Errors
/// When a turn fails, unless it is the first of the older program and the newer one has none of its faults: see
/// [`Compared::Lacking`].
pub async fn compare(
    what: &str,
    pairs: usize,
    mut turn: impl AsyncFnMut(Side) -> io::Result<Vec<Reading>>,
) -> io::Result<Compared> {
    let began = Instant::now();
    let mut series = Vec::new();
    for (index, sides) in order(pairs).enumerate() {
        say(&format!(
            "{what}: pair {} of {pairs}{}",
            index + 1,
            left(began.elapsed().as_secs(), index, pairs)
        ));
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for side in sides {
            match (side, turn(side).await) {
                (Side::Before, Ok(readings)) => before = readings,
                (Side::After, Ok(readings)) => after = readings,
                (Side::Before, Err(error)) if index == 0 => {
                    turn(Side::After).await?;
                    return Ok(Compared::Lacking(error));
                }
                (_, Err(error)) => return Err(error),
            }
        }
        add(&mut series, &before, &after);
    }
    Ok(Compared::Measured(series))
}

/// The time that is left, as far as the pairs so far tell.
fn left(seconds: u64, done: usize, pairs: usize) -> String {
    match (seconds * (pairs - done) as u64).checked_div(done as u64) {
        None => String::new(),
        Some(left) if left < 90 => format!(", {left} s left"),
        Some(left) => format!(", {} min left", left.div_ceil(60)),
    }
}

/// Adds a pair of turns to the series.
fn add(series: &mut Vec<Series>, before: &[Reading], after: &[Reading]) {
    for after in after {
        let Some(before) = before.iter().find(|before| before.name == after.name) else {
            continue;
        };
        let pair = Pair {
            before: before.value,
            after: after.value,
        };
        match series.iter_mut().find(|series| series.name == after.name) {
            Some(series) => series.pairs.push(pair),
            None => series.push(Series {
                name: after.name.clone(),
                unit: after.unit,
                better: after.better,
                pairs: vec![pair],
            }),
        }
    }
}

/// What the figures of a scenario give to compare: the value of each, and the processor time of a piece of its work.
#[must_use]
pub fn readings(figures: &[Figure]) -> Vec<Reading> {
    let mut readings = Vec::new();
    for figure in figures {
        readings.push(Reading {
            name: figure.claim.name.to_owned(),
            unit: figure.claim.unit,
            better: figure.claim.better,
            value: figure.value,
        });
        let pieces = figure.samples.count();
        if pieces > 0 && figure.server.cpu_seconds > 0.0 {
            readings.push(cpu(figure.claim.name, figure.server.cpu_seconds, pieces));
        }
    }
    readings
}

/// The processor time of one of so many pieces of work.
#[must_use]
pub fn cpu(name: &str, cpu_seconds: f64, pieces: usize) -> Reading {
    Reading {
        name: format!("{name}-cpu"),
        unit: "us",
        better: Better::Lower,
        value: cpu_seconds * 1e6 / pieces.max(1) as f64,
    }
}

/// The instructions of a piece of work.
#[must_use]
pub fn instructions(name: &str, each: f64) -> Reading {
    Reading {
        name: name.to_owned(),
        unit: "instr",
        better: Better::Lower,
        value: each,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(name: &str, value: f64) -> Reading {
        Reading {
            name: name.to_owned(),
            unit: "ms",
            better: Better::Lower,
            value,
        }
    }

    #[test]
    fn each_program_goes_first_in_every_second_pair() {
        use Side::{After, Before};
        let order: Vec<_> = order(4).flatten().collect();
        assert_eq!(
            order,
            [Before, After, After, Before, Before, After, After, Before]
        );
    }

    #[tokio::test]
    async fn turns_are_paired_whichever_came_first() {
        let mut count = 0.0;
        let compared = compare("a", 3, async |side| {
            count += 1.0;
            Ok(match side {
                Side::Before => vec![reading("both", count), reading("gone", 1.0)],
                Side::After => vec![reading("new", 1.0), reading("both", count)],
            })
        });
        let Compared::Measured(series) = compared.await.expect("no turn fails") else {
            panic!("both programs can do it");
        };
        assert_eq!(series.len(), 1);
        let pairs: Vec<_> = series[0]
            .pairs
            .iter()
            .map(|pair| (pair.before, pair.after))
            .collect();
        assert_eq!(pairs, [(1.0, 2.0), (4.0, 3.0), (5.0, 6.0)]);
    }

    #[tokio::test]
    async fn what_the_older_program_lacks_is_told_from_what_fails() {
        let failing = async |failing: &[Side]| {
            compare("a", 2, async |side| match failing.contains(&side) {
                true => Err(io::Error::other("no such option")),
                false => Ok(vec![reading("a", 1.0)]),
            })
            .await
        };
        let lacking = failing(&[Side::Before]).await.expect("the newer one works");
        let Compared::Lacking(error) = lacking else {
            panic!("the older program fails");
        };
        assert_eq!(error.to_string(), "no such option");
        assert!(failing(&[Side::After]).await.is_err());
        assert!(failing(&[Side::Before, Side::After]).await.is_err());
    }

    #[test]
    fn the_time_left_follows_from_the_pairs_so_far() {
        assert_eq!(left(0, 0, 20), "");
        assert_eq!(left(10, 5, 20), ", 30 s left");
        assert_eq!(left(100, 5, 20), ", 5 min left");
    }
}
