//! Which source samples make a sample of the result, and how much of each.

use super::position::position;

/// `N` source positions and their weights along one axis.
#[derive(Clone, Copy)]
pub(super) struct Taps<const N: usize> {
    pub(super) index: [usize; N],
    pub(super) weight: [f32; N],
}

/// Half-pixel centres, two taps, the edge repeated.
pub(super) fn linear(input: usize, output: usize, position: fn(f32, usize) -> f32) -> Vec<Taps<2>> {
    let scale = input as f32 / output as f32;
    let tap = |i: usize| {
        if input == output {
            return Taps {
                index: [i, i],
                weight: [1.0, 0.0],
            };
        }
        let position = position(scale, i).max(0.0);
        let first = (position as usize).min(input - 1);
        let second = (first + 1).min(input - 1);
        let share = (position - first as f32).clamp(0.0, 1.0);
        Taps {
            index: [first, second],
            weight: [1.0 - share, share],
        }
    };
    (0..output).map(tap).collect()
}

/// Half-pixel centres, four taps with a = -0.75, the edge repeated.
pub(super) fn cubic(input: usize, output: usize) -> Vec<Taps<4>> {
    let scale = input as f32 / output as f32;
    let last = input as isize - 1;
    let tap = |i: usize| {
        let position = position(scale, i);
        let first = (position.floor() as isize).min(last);
        let share = (position - first as f32).clamp(0.0, 1.0);
        let index = [-1, 0, 1, 2].map(|offset| (first + offset).clamp(0, last) as usize);
        Taps {
            index,
            weight: cubic_weights(share),
        }
    };
    (0..output).map(tap).collect()
}

fn cubic_weights(share: f32) -> [f32; 4] {
    const A: f32 = -0.75;
    let near = |x: f32| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f32| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    let rest = 1.0 - share;
    [far(share + 1.0), near(share), near(rest), far(rest + 1.0)]
}
