//! The colours of one picture given to another: by their mean and spread in the Lab colour space, or level by level.
//!
//! Statistics are sums of doubles in the order of the pixels, so a result does not depend on the number of threads.

mod lab;
mod linear;

use std::sync::Arc;

use super::KernelError;
use crate::pixels::{Frame, Image};
use linear::{Matrix, Vector};

/// What is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Mean and deviation of each Lab channel.
    Reinhard,
    /// Mean and covariance of the Lab channels.
    MongeKantorovich,
    /// How often each level is.
    Histogram,
}

/// Whose statistics the pictures are measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Each picture's own.
    PerFrame,
    /// Those of all pictures together.
    Uniform,
    /// Those of one of them; the last one if there are fewer.
    Frame(usize),
}

/// Steps between black and white.
const STEPS: f32 = 255.0;
const LEVELS: usize = 256;

/// Deviations are no smaller, so that nothing is divided by 0.
const LEAST: f64 = 1e-6;

/// ColorTransfer: `target` with the colours of `reference`, as strongly as `strength` says. `check` is called for every picture
/// that is measured or made, and ends the work with its error.
///
/// # Errors
/// If the pictures have different channels, or other than 3 where Lab is wanted, or `check` says so.
pub fn transferred<E: From<KernelError>>(
    target: &Image,
    reference: &Image,
    transfer: Transfer,
    source: Source,
    strength: f32,
    mut check: impl FnMut() -> Result<(), E>,
) -> Result<Image, E> {
    let check = &mut check;
    let (channels, found) = (target.first().channels(), reference.first().channels());
    if channels != found {
        return Err(KernelError::ChannelMismatch(channels, found).into());
    }
    if transfer == Transfer::Histogram {
        return leveled(target, reference, source, strength, check);
    }
    if channels != 3 {
        return Err(E::from(KernelError::MissingChannels {
            needed: 3,
            found: channels,
        }));
    }
    let map_of = |own: Statistics, wanted: &Statistics| match transfer {
        Transfer::Reinhard => Map::scaled(&own, wanted),
        Transfer::MongeKantorovich | Transfer::Histogram => Map::transported(&own, wanted),
    };
    let frames = target.frames();
    let last = frames.len() - 1;
    let pooled = Statistics::of(reference.frames(), check)?;
    let shared = match source {
        Source::PerFrame => None,
        Source::Uniform => Some(map_of(Statistics::of(frames, check)?, &pooled)),
        Source::Frame(at) => {
            let at = at.min(last);
            Some(map_of(Statistics::of(&frames[at..=at], check)?, &pooled))
        }
    };
    let references = reference.frames();
    let mut made = Vec::with_capacity(frames.len());
    for (at, frame) in frames.iter().enumerate() {
        check()?;
        made.push(match &shared {
            Some(map) => map.applied(frame, strength),
            None => {
                let wanted = match references {
                    [_] => pooled.clone(),
                    _ => {
                        let at = at.min(references.len() - 1);
                        Statistics::of(&references[at..=at], check)?
                    }
                };
                let own = Statistics::of(std::slice::from_ref(frame), check)?;
                map_of(own, &wanted).applied(frame, strength)
            }
        });
    }
    Ok(Image::new(made).map_err(KernelError::from)?)
}

/// Mean and covariance of Lab colours; those of several pictures count alike, whatever their size.
#[derive(Clone, Debug)]
struct Statistics {
    mean: Vector,
    covariance: Matrix,
}

impl Statistics {
    fn of<E>(frames: &[Arc<Frame>], check: &mut impl FnMut() -> Result<(), E>) -> Result<Self, E> {
        let count = frames.len() as f64;
        let mut mean = [0.0; 3];
        for frame in frames {
            check()?;
            let mut sum = [0.0; 3];
            let pixels = frame.data().chunks_exact(3);
            for pixel in pixels {
                let color = lab::of_rgb(pixel);
                for (sum, part) in sum.iter_mut().zip(color) {
                    *sum += part;
                }
            }
            let pixels = (frame.height() * frame.width()) as f64;
            for (mean, sum) in mean.iter_mut().zip(sum) {
                *mean += sum / pixels / count;
            }
        }
        let mut covariance = [[0.0; 3]; 3];
        for frame in frames {
            check()?;
            let weight = 1.0 / ((frame.height() * frame.width()) as f64 * count);
            for pixel in frame.data().chunks_exact(3) {
                let color = lab::of_rgb(pixel);
                let off = [0, 1, 2].map(|at| color[at] - mean[at]);
                for (row, a) in covariance.iter_mut().zip(off) {
                    for (cell, b) in row.iter_mut().zip(off) {
                        *cell += a * b * weight;
                    }
                }
            }
        }
        Ok(Self { mean, covariance })
    }

    fn deviation(&self, channel: usize) -> f64 {
        self.covariance[channel][channel].sqrt().max(LEAST)
    }
}

/// Where Lab colours go: by a matrix, around one mean to another.
#[derive(Debug)]
struct Map {
    from: Vector,
    matrix: Matrix,
    to: Vector,
}

impl Map {
    fn scaled(own: &Statistics, wanted: &Statistics) -> Self {
        let mut matrix = [[0.0; 3]; 3];
        for (channel, row) in matrix.iter_mut().enumerate() {
            row[channel] = wanted.deviation(channel) / own.deviation(channel);
        }
        Self::between(own, matrix, wanted)
    }

    /// The linear map that moves colours least of all that give them the wanted covariance.
    fn transported(own: &Statistics, wanted: &Statistics) -> Self {
        let matrix = linear::transport(&own.covariance, &wanted.covariance, LEAST);
        Self::between(own, matrix, wanted)
    }

    fn between(own: &Statistics, matrix: Matrix, wanted: &Statistics) -> Self {
        Self {
            from: own.mean,
            matrix,
            to: wanted.mean,
        }
    }

    fn applied(&self, frame: &Frame, strength: f32) -> Arc<Frame> {
        let (height, width, channels) = frame.shape();
        let mut data = Vec::with_capacity(frame.data().len());
        for pixel in frame.data().chunks_exact(channels) {
            let color = lab::of_rgb(pixel);
            let off = [0, 1, 2].map(|at| color[at] - self.from[at]);
            let moved = linear::times(&self.matrix, &off);
            let mixed = [0, 1, 2].map(|at| {
                let moved = moved[at] + self.to[at];
                color[at] + (moved - color[at]) * f64::from(strength)
            });
            data.extend(lab::to_rgb(mixed));
        }
        Arc::new(Frame::new(height, width, channels, data))
    }
}

/// Each level exchanged for the one below which as many samples of the reference lie.
fn leveled<E: From<KernelError>>(
    target: &Image,
    reference: &Image,
    source: Source,
    strength: f32,
    check: &mut impl FnMut() -> Result<(), E>,
) -> Result<Image, E> {
    let frames = target.frames();
    let references = reference.frames();
    let shared = match source {
        Source::PerFrame => None,
        Source::Uniform => Some(tables(frames, references, check)?),
        Source::Frame(at) => {
            let at = at.min(frames.len() - 1);
            Some(tables(&frames[at..=at], references, check)?)
        }
    };
    let mut made = Vec::with_capacity(frames.len());
    for (at, frame) in frames.iter().enumerate() {
        check()?;
        let own;
        let tables = match &shared {
            Some(shared) => shared,
            None => {
                let at = at.min(references.len() - 1);
                own = tables(std::slice::from_ref(frame), &references[at..=at], check)?;
                &own
            }
        };
        let (height, width, channels) = frame.shape();
        let samples = frame.data().iter().enumerate();
        let data = samples.map(|(at, sample)| {
            let matched = tables[at % channels][level(*sample)];
            let mixed = match strength {
                1.0 => matched,
                _ => sample + (matched - sample) * strength,
            };
            mixed.clamp(0.0, 1.0)
        });
        made.push(Arc::new(Frame::new(
            height,
            width,
            channels,
            data.collect(),
        )));
    }
    Ok(Image::new(made).map_err(KernelError::from)?)
}

/// For each channel, what becomes of each level.
fn tables<E>(
    own: &[Arc<Frame>],
    wanted: &[Arc<Frame>],
    check: &mut impl FnMut() -> Result<(), E>,
) -> Result<Vec<Vec<f32>>, E> {
    let (own, wanted) = (shares(own, check)?, shares(wanted, check)?);
    let pairs = own.iter().zip(&wanted);
    Ok(pairs.map(|(own, wanted)| table(own, wanted)).collect())
}

fn level(sample: f32) -> usize {
    (sample * STEPS).clamp(0.0, STEPS) as usize
}

/// For each channel and level, how large a part of the samples is no brighter.
fn shares<E>(
    frames: &[Arc<Frame>],
    check: &mut impl FnMut() -> Result<(), E>,
) -> Result<Vec<Vec<f32>>, E> {
    let channels = frames[0].channels();
    let mut counts = vec![vec![0_u64; LEVELS]; channels];
    for frame in frames {
        check()?;
        for (at, sample) in frame.data().iter().enumerate() {
            counts[at % channels][level(*sample)] += 1;
        }
    }
    let share = |counts: Vec<u64>| {
        let all: u64 = counts.iter().sum();
        let mut sum = 0;
        let below = counts.into_iter().map(|count| {
            sum += count;
            sum as f32 / all as f32
        });
        below.collect()
    };
    Ok(counts.into_iter().map(share).collect())
}

fn table(own: &[f32], wanted: &[f32]) -> Vec<f32> {
    let place = |share: &f32| {
        wanted
            .partition_point(|wanted| wanted < share)
            .min(LEVELS - 1)
    };
    own.iter()
        .map(|share| place(share) as f32 / STEPS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_between_the_pictures_of_a_batch() {
        let frame = Arc::new(Frame::filled(2, 2, 3, 0.5));
        let batch = Image::new(vec![frame; 9]).expect("equal frames");
        let reference = Image::single(Frame::filled(2, 2, 3, 0.25));
        for transfer in [
            Transfer::Reinhard,
            Transfer::MongeKantorovich,
            Transfer::Histogram,
        ] {
            for source in [Source::PerFrame, Source::Uniform, Source::Frame(3)] {
                let mut left = 6;
                let made = transferred(&batch, &reference, transfer, source, 1.0, || {
                    left -= 1;
                    match left {
                        0 => Err(KernelError::ThresholdOrder),
                        _ => Ok(()),
                    }
                });
                assert_eq!(
                    made,
                    Err(KernelError::ThresholdOrder),
                    "{transfer:?} {source:?}"
                );
                assert_eq!(left, 0, "no more pictures are looked at");
            }
        }
    }
}
