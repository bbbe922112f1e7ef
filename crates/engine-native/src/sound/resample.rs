//! Another number of samples per second: sinc interpolation in a Hann window, as torchaudio computes it.

use std::f32::consts::PI;

use super::Sound;
use crate::{NodeContext, NodeError};

/// Zero crossings of the sinc on each side.
const CROSSINGS: f32 = 6.0;

/// Where the filter begins to fall, as a part of the lower of the two rates.
const ROLLOFF: f64 = 0.99;

/// The sound at `rate`.
///
/// # Errors
/// If the sound has no samples per second, there is no room for it, or the run is to stop.
pub(crate) fn resampled(
    sound: &Sound,
    rate: u32,
    context: &NodeContext,
) -> Result<Sound, NodeError> {
    if rate == sound.rate {
        return Ok(sound.clone());
    }
    if sound.rate == 0 {
        return Err(NodeError::value(
            "the sound has 0 samples a second, and so no length; give it a sample rate of at least 1",
        ));
    }
    let divisor = num_integer::gcd(rate, sound.rate).max(1);
    let (from, to) = ((sound.rate / divisor) as usize, (rate / divisor) as usize);
    let filter = Filter::new(from, to, context)?;
    let length = (sound.length() * to).div_ceil(from);
    let resampled = sound.map(length, context, |samples| filter.apply(samples, length))?;
    Ok(Sound { rate, ..resampled })
}

struct Filter {
    from: usize,
    /// For every place between two samples: the first sample that counts, relative to the one before it, and the weights.
    phases: Vec<(isize, Vec<f32>)>,
}

impl Filter {
    fn new(from: usize, to: usize, context: &NodeContext) -> Result<Self, NodeError> {
        let base = from.min(to) as f64 * ROLLOFF;
        let width = (f64::from(CROSSINGS) * from as f64 / base).ceil();
        // Rates without a common divisor have a filter of their own for every sample of a second.
        context.reserve(super::bytes(to, 2 * width as usize + 4))?;
        let scale = (base / from as f64) as f32;
        let phase = |phase: usize| {
            // The filter is computed in floats, as the samples are.
            let shift = -(phase as f32) / to as f32;
            let time = |at: isize| (shift + at as f32 / from as f32) * base as f32;
            let center = (phase * from / to) as isize;
            let reach = width as isize + 1;
            let counts = |at: &isize| time(*at).abs() < CROSSINGS;
            let taps: Vec<isize> = (center - reach..=center + reach).filter(counts).collect();
            let weight = |at: &isize| {
                let time = time(*at);
                let window = (time * PI / CROSSINGS / 2.0).cos().powi(2);
                let angle = time * PI;
                let sinc = if angle == 0.0 {
                    1.0
                } else {
                    angle.sin() / angle
                };
                sinc * (window * scale)
            };
            let first = taps.first().copied().unwrap_or(0);
            (first, taps.iter().map(weight).collect())
        };
        Ok(Self {
            from,
            phases: (0..to).map(phase).collect(),
        })
    }

    fn apply(&self, samples: &[f32], length: usize) -> Vec<f32> {
        let sample = |at: isize| {
            let at = usize::try_from(at).ok();
            at.and_then(|at| samples.get(at)).copied().unwrap_or(0.0)
        };
        let at = |index: usize| {
            let (round, phase) = (index / self.phases.len(), index % self.phases.len());
            let (first, weights) = &self.phases[phase];
            let first = (round * self.from) as isize + first;
            let taps = weights.iter().zip(first..);
            taps.map(|(weight, at)| weight * sample(at)).sum()
        };
        (0..length).map(at).collect()
    }
}
