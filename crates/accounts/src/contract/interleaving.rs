//! How the suites of this and other crates interleave what two replicas do: in an order that a seed decides, and at once.

use std::fmt::Debug;

/// Numbers that look random and are the same for a seed in every run.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides
    }

    /// One of these, or nothing if there are none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.roll(from.len())])
    }
}

/// Checks what two replicas were answered that did something at once: one order of the two must explain both answers. `act` lets
/// the replica of that number do its part in a model of what is true, which goes on with the order that explains them.
///
/// # Panics
/// If no order does.
pub fn either<M: Clone, T: PartialEq + Debug>(
    model: &mut M,
    act: impl Fn(&mut M, usize) -> T,
    answers: &(T, T),
) {
    either_seen(model, act, answers, |_| true);
}

/// The same where the answers do not tell which replica was first: `is_so` looks whether a model is what the store shows now.
///
/// # Panics
/// If no order explains the answers and what is there.
pub fn either_seen<M: Clone, T: PartialEq + Debug>(
    model: &mut M,
    act: impl Fn(&mut M, usize) -> T,
    answers: &(T, T),
    is_so: impl Fn(&M) -> bool,
) {
    let mut expected = Vec::new();
    for first in [0, 1] {
        let mut after = model.clone();
        let (early, late) = (act(&mut after, first), act(&mut after, 1 - first));
        let explained = match first {
            0 => (early, late),
            _ => (late, early),
        };
        if explained == *answers && is_so(&after) {
            *model = after;
            return;
        }
        expected.push(explained);
    }
    panic!("{answers:#?} are neither of {expected:#?}, or other things are there");
}
