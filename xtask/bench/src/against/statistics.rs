//! How much more one program costs than the other, and how sure that is.
//!
//! Each pair of turns gives one ratio. Its logarithm is the difference that the two programs make, plus noise that is as
//! likely to be positive as negative, because the order within a pair alternates. Of such numbers the Hodges-Lehmann
//! estimate (the median of the means of all pairs of them) wastes little and ignores outliers, and the signed-rank
//! statistic of Wilcoxon gives an interval around it without any assumption about the size or shape of the noise.

use serde_json::{Value, json};

use crate::claim::Better;
use crate::samples::median;

/// The confidence of intervals, where there are enough pairs for it.
const CONFIDENCE: f64 = 0.95;
/// The least confidence at which something is called slower or faster: what five pairs give.
const LEAST_CONFIDENCE: f64 = 0.93;

/// What a turn of the one program and the turn of the other beside it gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Of the older program.
    pub before: f64,
    /// Of the newer one.
    pub after: f64,
}

/// How many times the cost of the older program the newer one has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The most likely ratio; above 1 the newer program is slower, whatever the unit of the figure.
    pub ratio: f64,
    /// The lower end of its interval,
    pub low: f64,
    /// and the upper one.
    pub high: f64,
    /// The probability that the interval holds the true ratio.
    pub confidence: f64,
}

/// What an estimate says against a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// By more than the bound, beyond doubt.
    Slower,
    /// By more than the bound, beyond doubt.
    Faster,
    /// The difference is within the bound, beyond doubt. It may still be seen: see [`Estimate::seen`].
    Same,
    /// The interval reaches over the bound: more pairs would tell.
    Unclear,
}

/// A difference of any size that the interval tells from none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The newer program costs more.
    More,
    /// The newer program costs less.
    Less,
    /// The interval holds 1.
    Nothing,
}

impl Estimate {
    /// The estimate that these pairs give; `None` of no pairs, or where a value is not above 0.
    #[must_use]
    pub fn of(pairs: &[Pair], better: Better) -> Option<Self> {
        let logarithms = pairs.iter().map(|pair| {
            let ratio = match better {
                Better::Lower => pair.after / pair.before,
                Better::Higher => pair.before / pair.after,
            };
            let logarithm = ratio.ln();
            logarithm.is_finite().then_some(logarithm)
        });
        let logarithms: Vec<f64> = logarithms.collect::<Option<_>>()?;
        let mut means = Vec::with_capacity(logarithms.len() * (logarithms.len() + 1) / 2);
        for (index, one) in logarithms.iter().enumerate() {
            let others = &logarithms[index..];
            means.extend(others.iter().map(|other| f64::midpoint(*one, *other)));
        }
        means.sort_by(f64::total_cmp);
        let (cut, confidence) = cut(logarithms.len());
        let (low, high) = (*means.get(cut)?, *means.get(means.len() - 1 - cut)?);
        Some(Self {
            ratio: median(means)?.exp(),
            low: low.exp(),
            high: high.exp(),
            confidence,
        })
    }

    /// The verdict against a bound such as 0.03.
    #[must_use]
    pub fn verdict(&self, bound: f64) -> Verdict {
        let (least, most) = (1.0 / (1.0 + bound), 1.0 + bound);
        if self.confidence < LEAST_CONFIDENCE {
            Verdict::Unclear
        } else if self.low > most {
            Verdict::Slower
        } else if self.high < least {
            Verdict::Faster
        } else if self.low >= least && self.high <= most {
            Verdict::Same
        } else {
            Verdict::Unclear
        }
    }

    /// Whether there is a difference at all.
    #[must_use]
    pub fn seen(&self) -> Seen {
        if self.confidence < LEAST_CONFIDENCE {
            Seen::Nothing
        } else if self.low > 1.0 {
            Seen::More
        } else if self.high < 1.0 {
            Seen::Less
        } else {
            Seen::Nothing
        }
    }
}

impl Verdict {
    /// As reports spell it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Same => "same",
            Self::Unclear => "unclear",
        }
    }
}

impl Seen {
    /// As reports spell it.
    #[must_use]
    pub fn word(self) -> Value {
        match self {
            Self::More => json!("more"),
            Self::Less => json!("less"),
            Self::Nothing => Value::Null,
        }
    }
}

/// How many of the sorted means are cut off at each end of the interval of `pairs` pairs, and the confidence that leaves.
///
/// The chance that the sum of the ranks of positive numbers is at most `cut`, twice, is the chance that the interval
/// misses. Five pairs or fewer have no interval of 95 %: nothing is cut off then, and the confidence is less.
fn cut(pairs: usize) -> (usize, f64) {
    // The chance of each sum of ranks, one rank after the other: each is in the sum or not, with the same chance.
    let mut chances = vec![0.0; pairs * (pairs + 1) / 2 + 1];
    chances[0] = 1.0;
    for rank in 1..=pairs {
        for sum in (0..chances.len()).rev() {
            let without = chances[sum];
            let with = if sum >= rank {
                chances[sum - rank]
            } else {
                0.0
            };
            chances[sum] = f64::midpoint(without, with);
        }
    }
    let (mut cut, mut outside) = (0, 2.0 * chances[0]);
    for (sum, chance) in chances.iter().enumerate().skip(1) {
        if outside + 2.0 * chance > 1.0 - CONFIDENCE {
            break;
        }
        (cut, outside) = (sum, outside + 2.0 * chance);
    }
    (cut, (1.0 - outside).max(0.0))
}

/// How far the values are apart, against their median: what one program gives from turn to turn.
#[must_use]
pub fn spread(values: &[f64]) -> Option<f64> {
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    Some((most - least) / median(values.to_vec())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use it::random::Random;

    /// Even numbers from -1 to 1.
    fn even(random: &mut Random) -> f64 {
        random.below(2_000_001) as f64 / 1e6 - 1.0
    }

    /// Two programs in turn on a machine whose speed wanders by a third, with noise of some size in each turn. The order
    /// within a pair alternates, as in real runs.
    fn turns(seed: u64, count: usize, noise: f64, shift: f64) -> Vec<Pair> {
        let mut random = Random::of_all(&[seed]);
        let mut moment = 0.0;
        let mut turn = |cost: f64| {
            moment += 1.0;
            // The sum of three even numbers is near enough to a bell.
            let bell: f64 = (0..3).map(|_| even(&mut random)).sum();
            let neighbours = 1.0 + 0.33 * (moment / 60.0 + seed as f64).sin();
            // One turn in twenty meets other work of the machine.
            let hit = if random.below(20) == 0 { 1.5 } else { 1.0 };
            cost * 100.0 * neighbours * hit * (1.0 + noise * bell)
        };
        let pair = |index| match index % 2 {
            0 => {
                let before = turn(1.0);
                (before, turn(1.0 + shift))
            }
            _ => {
                let after = turn(1.0 + shift);
                (turn(1.0), after)
            }
        };
        let pairs = (0..count).map(pair);
        pairs
            .map(|(before, after)| Pair { before, after })
            .collect()
    }

    fn estimate(pairs: &[Pair]) -> Estimate {
        Estimate::of(pairs, Better::Lower).expect("there are pairs")
    }

    #[test]
    fn a_shift_of_two_percent_is_found_under_drift_and_outliers() {
        let estimates = (0..100).map(|seed| estimate(&turns(seed, 40, 0.015, 0.02)));
        let (mut seen, mut slower) = (0, 0);
        for estimate in estimates {
            assert!((estimate.ratio - 1.02).abs() < 0.015, "{estimate:?}");
            assert_ne!(estimate.seen(), Seen::Less, "{estimate:?}");
            seen += u32::from(estimate.seen() == Seen::More);
            slower += u32::from(estimate.verdict(0.005) == Verdict::Slower);
        }
        assert!(seen >= 95, "seen in {seen} of 100 runs");
        assert!(slower >= 80, "slower in {slower} of 100 runs");
    }

    #[test]
    fn a_shift_of_ten_percent_is_slower_and_its_reverse_faster() {
        for seed in 0..100 {
            let slower = turns(seed, 40, 0.02, 0.10);
            assert_eq!(estimate(&slower).verdict(0.03), Verdict::Slower);
            let faster: Vec<_> = slower
                .iter()
                .map(|pair| Pair {
                    before: pair.after,
                    after: pair.before,
                })
                .collect();
            assert_eq!(estimate(&faster).verdict(0.03), Verdict::Faster);
        }
    }

    #[test]
    fn noise_alone_is_never_slower_than_the_bound() {
        for seed in 0..300 {
            for noise in [0.001, 0.02, 0.05] {
                let estimate = estimate(&turns(seed, 20, noise, 0.0));
                let verdict = estimate.verdict(0.03);
                assert_ne!(verdict, Verdict::Slower, "{estimate:?}");
                assert_ne!(verdict, Verdict::Faster, "{estimate:?}");
            }
        }
    }

    #[test]
    fn the_interval_misses_the_truth_as_seldom_as_it_says() {
        let missed = (0..1000).filter(|seed| {
            let estimate = estimate(&turns(*seed, 20, 0.05, 0.0));
            estimate.low > 1.0 || estimate.high < 1.0
        });
        // 50 are expected.
        assert!((25..=75).contains(&missed.count()));
    }

    #[test]
    fn a_rate_that_falls_is_a_cost_that_grows() {
        let pairs: Vec<_> = (0..8)
            .map(|index| Pair {
                before: 1000.0 + f64::from(index),
                after: 900.0 + f64::from(index),
            })
            .collect();
        let rate = Estimate::of(&pairs, Better::Higher).expect("there are pairs");
        assert_eq!(rate.verdict(0.03), Verdict::Slower);
        assert!((rate.ratio - 1.11).abs() < 0.005, "{rate:?}");
        let time = Estimate::of(&pairs, Better::Lower).expect("there are pairs");
        assert_eq!(time.verdict(0.03), Verdict::Faster);
    }

    #[test]
    fn the_interval_is_that_of_the_tables() {
        // Critical values of the signed-rank test, two-sided, 5 %.
        for (pairs, critical) in [(6, 0), (7, 2), (8, 3), (10, 8), (20, 52), (30, 137)] {
            let (cut, confidence) = cut(pairs);
            assert_eq!(cut, critical, "{pairs} pairs");
            assert!((0.95..0.985).contains(&confidence), "{confidence}");
        }
        assert!((cut(5).1 - 0.9375).abs() < 1e-12);
        assert_eq!(cut(1).1, 0.0);
    }

    #[test]
    fn few_pairs_prove_nothing() {
        let pair = Pair {
            before: 1.0,
            after: 2.0,
        };
        let four = estimate(&[pair; 4]);
        assert_eq!((four.ratio, four.verdict(0.03)), (2.0, Verdict::Unclear));
        assert_eq!(four.seen(), Seen::Nothing);
        assert_eq!(estimate(&[pair; 5]).verdict(0.03), Verdict::Slower);
    }

    #[test]
    fn what_is_no_number_gives_no_estimate() {
        assert_eq!(Estimate::of(&[], Better::Lower), None);
        let none = Pair {
            before: 0.0,
            after: 1.0,
        };
        assert_eq!(Estimate::of(&[none], Better::Lower), None);
    }

    #[test]
    fn a_difference_within_the_bound_is_the_same_and_still_seen() {
        let pairs: Vec<_> = (0..10)
            .map(|index| Pair {
                before: 100.0,
                after: 101.0 + f64::from(index) / 100.0,
            })
            .collect();
        let estimate = estimate(&pairs);
        assert_eq!(estimate.verdict(0.03), Verdict::Same);
        assert_eq!(estimate.seen(), Seen::More);
        assert_eq!(estimate.verdict(0.005), Verdict::Slower);
        assert_eq!(estimate.verdict(0.0105), Verdict::Unclear);
    }

    #[test]
    fn a_spread_is_against_the_median() {
        assert_eq!(spread(&[100.0, 98.0, 103.0]), Some(0.05));
        assert_eq!(spread(&[]), None);
    }
}
