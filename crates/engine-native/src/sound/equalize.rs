//! Filters of two poles, as torchaudio computes them.

use std::f64::consts::{LN_10, PI};

/// A part of the spectrum to make louder or softer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Band {
    /// Everything below a frequency.
    Low,
    /// What is around a frequency.
    Middle,
    /// Everything above a frequency.
    High,
}

/// A filter of two poles and two zeros.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    /// Factors of the newest sample, the one before it and the one before that.
    samples: [f32; 3],
    /// Factors of the newest result and the one before it.
    results: [f32; 2],
}

impl Filter {
    /// The filter that changes a band by `gain` decibels. It is computed in floats: at low frequencies their rounding can be
    /// heard, so it must be the same.
    pub(crate) fn new(band: Band, rate: u32, frequency: f64, gain: f64, quality: f64) -> Self {
        let (frequency, gain, quality) = (frequency as f32, gain as f32, quality as f32);
        let angle = (2.0 * PI) as f32 * frequency / rate as f32;
        let (sine, cosine) = angle.sin_cos();
        let alpha = sine / 2.0 / quality;
        let level = (gain / 40.0 * LN_10 as f32).exp();
        let shelf = 2.0 * level.sqrt() * alpha;
        let (up, down) = (level + 1.0, level - 1.0);
        let (b, a) = match band {
            Band::Low => (
                [
                    level * (up - down * cosine + shelf),
                    2.0 * level * (down - up * cosine),
                    level * (up - down * cosine - shelf),
                ],
                [
                    up + down * cosine + shelf,
                    -2.0 * (down + up * cosine),
                    up + down * cosine - shelf,
                ],
            ),
            Band::High => (
                [
                    level * (up + down * cosine + shelf),
                    -2.0 * level * (down + up * cosine),
                    level * (up + down * cosine - shelf),
                ],
                [
                    up - down * cosine + shelf,
                    2.0 * (down - up * cosine),
                    up - down * cosine - shelf,
                ],
            ),
            Band::Middle => (
                [1.0 + alpha * level, -2.0 * cosine, 1.0 - alpha * level],
                [1.0 + alpha / level, -2.0 * cosine, 1.0 - alpha / level],
            ),
        };
        Self {
            samples: b.map(|factor| factor / a[0]),
            results: [a[1] / a[0], a[2] / a[0]],
        }
    }

    /// Filtered samples, kept within -1 to 1. `fused` multiplies and adds with one rounding, as torchaudio does for more than
    /// one channel.
    pub(crate) fn apply(&self, samples: &[f32], fused: bool) -> Vec<f32> {
        let ([b0, b1, b2], [a1, a2]) = (self.samples, self.results);
        let add = |factor: f32, sample: f32, sum: f32| match fused {
            true => factor.mul_add(sample, sum),
            false => factor * sample + sum,
        };
        let mut filtered = Vec::with_capacity(samples.len());
        let (mut x1, mut x2, mut y1, mut y2) = (0.0f32, 0.0f32, 0.0f32, 0.0f32);
        for &x in samples {
            let y = add(b0, x, add(b1, x1, b2 * x2)) - a2 * y2 - a1 * y1;
            filtered.push(y.clamp(-1.0, 1.0));
            (x2, x1, y2, y1) = (x1, x, y1, y);
        }
        filtered
    }
}
