//! Planes in a smaller size: cubic (a = -0.5) over as many samples as become one, along the rows and then down the columns.

use super::Planes;

/// The planes in another size, given as height and width.
pub(super) fn resized(planes: Planes, from: (usize, usize), to: (usize, usize)) -> Planes {
    if from == to {
        return planes;
    }
    let (columns, rows) = (windows(from.1, to.1), windows(from.0, to.0));
    planes.map(|plane| {
        let along: Vec<f32> = plane
            .chunks_exact(from.1)
            .flat_map(|row| columns.iter().map(|window| window.of(|at| row[at])))
            .collect();
        let down = rows.iter().flat_map(|window| {
            let along = &along;
            (0..to.1).map(move |x| window.of(|y| along[y * to.1 + x]))
        });
        down.collect()
    })
}

/// Samples that become one, with their weights.
struct Window {
    first: usize,
    weights: Vec<f32>,
}

impl Window {
    fn of(&self, sample: impl Fn(usize) -> f32) -> f32 {
        let weighted = self.weights.iter().enumerate();
        weighted
            .map(|(at, weight)| sample(self.first + at) * weight)
            .sum()
    }
}

fn windows(from: usize, to: usize) -> Vec<Window> {
    let scale = from as f32 / to as f32;
    let support = 2.0 * scale.max(1.0);
    let narrowed = 1.0 / scale.max(1.0);
    let window = |place: usize| {
        let center = scale * (place as f32 + 0.5);
        let first = (center - support + 0.5).max(0.0) as usize;
        let last = ((center + support + 0.5) as usize).min(from);
        let weights = (first..last).map(|at| cubic((at as f32 - center + 0.5) * narrowed));
        let weights: Vec<f32> = weights.collect();
        let sum: f32 = weights.iter().sum();
        Window {
            first,
            weights: weights.into_iter().map(|weight| weight / sum).collect(),
        }
    };
    (0..to).map(window).collect()
}

fn cubic(x: f32) -> f32 {
    const A: f32 = -0.5;
    match x.abs() {
        x if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
        x if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
        _ => 0.0,
    }
}
