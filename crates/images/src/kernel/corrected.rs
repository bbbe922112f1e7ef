//! The colours of a picture given to what a model made of it, by what is coarse in both or by their statistics.

mod coarse;
mod lab;
mod resample;

use std::sync::Arc;

use super::KernelError;
use super::frames::samples;
use crate::pixels::{Frame, Image};

/// What of the colours is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// Coarse colours, then how often each value of a Lab channel is.
    Lab,
    /// Coarse colours.
    Wavelet,
    /// Mean and deviation of each channel.
    Spread,
    /// Nothing.
    None,
}

impl Correction {
    /// Samples of a pixel that one picture is taken apart into at most.
    pub const CHANNELS: usize = 32;
}

const COLORS: usize = 3;

/// Samples of a picture by channel, from -1 to 1.
type Planes = [Vec<f32>; COLORS];

/// `SeedVR2PostProcessing`: as many pictures as both have, in the size that both have and with even sides, in the colours of the
/// reference. Its fourth channel comes with them. `check` is called for every picture, and ends the work with its error.
///
/// # Errors
/// If one has other than 3 colours, or a side of 1 pixel, or `check` says so.
pub fn corrected<E: From<KernelError>>(
    image: &Image,
    reference: &Image,
    correction: Correction,
    mut check: impl FnMut() -> Result<(), E>,
) -> Result<Image, E> {
    let (own, other) = (image.first().shape(), reference.first().shape());
    let (height, width) = (own.0.min(other.0), own.1.min(other.1));
    let size = (height - height % 2, width - width % 2);
    let has_alpha = other.2 == COLORS + 1;
    samples(size.0, size.1, own.2 + usize::from(has_alpha))?;
    let wrong = |which, found| E::from(KernelError::NotThreeColors { which, found });
    if correction != Correction::None {
        if own.2 != COLORS {
            return Err(wrong("generated", own.2));
        }
        if other.2 != COLORS && !has_alpha {
            return Err(wrong("reference", other.2));
        }
    }
    let pairs = image.frames().iter().zip(reference.frames());
    let mut made = Vec::with_capacity(pairs.len());
    for (frame, reference) in pairs {
        check()?;
        let colors = given(frame, reference, (height, width), correction);
        let alpha = has_alpha.then_some(reference);
        made.push(joined(
            frame,
            colors.as_ref().map(|colors| (colors, width)),
            alpha,
            size,
        ));
    }
    Ok(Image::new(made).map_err(KernelError::from)?)
}

/// The colours of a picture that are given to another, in the size of both.
fn given(
    frame: &Frame,
    reference: &Frame,
    size: (usize, usize),
    correction: Correction,
) -> Option<Planes> {
    let taken = || {
        let whole = (reference.height(), reference.width());
        let style = resample::resized(planes(reference, whole), whole, size);
        (planes(frame, size), style)
    };
    match correction {
        Correction::None => None,
        Correction::Wavelet => {
            let (content, style) = taken();
            Some(coarse::given(content, style, size))
        }
        Correction::Lab => {
            let (content, style) = taken();
            let coarse = coarse::given(content, style.clone(), size);
            Some(lab::matched(coarse, style))
        }
        Correction::Spread => {
            let (content, style) = taken();
            Some(spread(content, &style))
        }
    }
}

/// The colours of the upper left part of a picture.
fn planes(frame: &Frame, (height, width): (usize, usize)) -> Planes {
    std::array::from_fn(|channel| {
        let rows = (0..height).flat_map(|y| {
            let pixels = frame.row(y).chunks_exact(frame.channels()).take(width);
            pixels.map(|pixel| pixel[channel] * 2.0 - 1.0)
        });
        rows.collect()
    })
}

/// A picture of these colours, or of its own, and of another's fourth channel.
fn joined(
    frame: &Frame,
    colors: Option<(&Planes, usize)>,
    alpha: Option<&Arc<Frame>>,
    (height, width): (usize, usize),
) -> Arc<Frame> {
    let channels = frame.channels();
    let all = channels + usize::from(alpha.is_some());
    let mut made = Vec::with_capacity(height * width * all);
    for y in 0..height {
        for x in 0..width {
            match colors {
                Some((planes, stride)) => {
                    let at = y * stride + x;
                    made.extend(
                        planes
                            .iter()
                            .map(|plane| ((plane[at] + 1.0) / 2.0).clamp(0.0, 1.0)),
                    );
                }
                None => made.extend_from_slice(&frame.row(y)[x * channels..][..channels]),
            }
            if let Some(alpha) = alpha {
                made.push(alpha.row(y)[x * (COLORS + 1) + COLORS]);
            }
        }
    }
    Arc::new(Frame::new(height, width, all, made))
}

/// Mean and deviation of the style's channels.
fn spread(content: Planes, style: &Planes) -> Planes {
    let mut made = content;
    for (plane, style) in made.iter_mut().zip(style) {
        let (own, wanted) = (statistics(plane), statistics(style));
        for sample in plane {
            *sample = ((*sample - own.0) / own.1 * wanted.1 + wanted.0).clamp(-1.0, 1.0);
        }
    }
    made
}

fn statistics(plane: &[f32]) -> (f32, f32) {
    let count = plane.len() as f64;
    let mean = plane.iter().map(|sample| f64::from(*sample)).sum::<f64>() / count;
    let squares = plane
        .iter()
        .map(|sample| (f64::from(*sample) - mean).powi(2));
    let variance = squares.sum::<f64>() / count;
    (mean as f32, (variance + 1e-5).sqrt() as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_says_which_picture_must_have_three_colours() {
        let picture = |channels| {
            let frame = Arc::new(Frame::filled(4, 4, channels, 0.5));
            Image::new(vec![frame]).expect("it has one frame")
        };
        let refused = |own, other| {
            let check = || Ok::<(), KernelError>(());
            let made = corrected(&picture(own), &picture(other), Correction::Lab, check);
            made.expect_err("it is refused").to_string()
        };
        let generated = "take the alpha off the generated picture first";
        assert!(refused(4, 3).contains(generated), "{}", refused(4, 3));
        let reference = "the reference picture has 1 channels";
        assert!(refused(3, 1).contains(reference), "{}", refused(3, 1));
    }
}
