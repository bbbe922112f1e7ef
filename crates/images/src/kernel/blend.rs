//! ImageBlend: two pictures mixed by a mode.

use super::KernelError;
use super::channel::with_channels;
use super::frames::{broadcast, each, map_distinct};
use super::rows::zip_samples;
use super::scale::{self, Crop, Method};
use crate::pixels::Image;

/// What the second picture does to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlendMode {
    /// It covers it.
    Normal,
    /// `a * b`.
    Multiply,
    /// `1 - (1 - a)(1 - b)`.
    Screen,
    /// Multiply in the dark of the first, screen in its light.
    Overlay,
    /// The soft light of the compositing recommendation.
    SoftLight,
    /// `a - b`, with its sign.
    Difference,
}

/// Blends `image2` over `image1`: `clamp(a (1 - factor) + mode(a, b) factor)`.
///
/// `image2` gets the channels of `image1` (extra ones dropped, missing ones 1) and its size (bicubic, centre crop).
///
/// # Errors
/// If the batches can be paired neither one to one nor one to all.
pub fn blend(
    image1: Image,
    image2: Image,
    factor: f64,
    mode: BlendMode,
) -> Result<Image, KernelError> {
    let (height, width, channels) = image1.first().shape();
    let image2 = each(image2, |frame| with_channels(frame, channels))?;
    let image2 = scale::common_upscale(image2, width, height, Method::Bicubic, Crop::Center)?;
    let pairs = broadcast(image1.into_frames(), image2.into_frames())?;
    let shares = ((1.0 - factor) as f32, factor as f32);
    let frames = map_distinct(pairs, |(a, b)| {
        Ok(match mode {
            BlendMode::Normal => zip_samples(
                a,
                &b,
                #[inline(always)]
                |a, b| mixed(shares, a, b),
            ),
            BlendMode::Multiply => zip_samples(
                a,
                &b,
                #[inline(always)]
                |a, b| mixed(shares, a, a * b),
            ),
            BlendMode::Screen => zip_samples(
                a,
                &b,
                #[inline(always)]
                |a, b| mixed(shares, a, 1.0 - (1.0 - a) * (1.0 - b)),
            ),
            BlendMode::Overlay => zip_samples(
                a,
                &b,
                #[inline(always)]
                |a, b| mixed(shares, a, overlay(a, b)),
            ),
            BlendMode::SoftLight => zip_samples(
                a,
                &b,
                #[inline(always)]
                |a, b| mixed(shares, a, soft_light(a, b)),
            ),
            BlendMode::Difference => zip_samples(
                a,
                &b,
                #[inline(always)]
                |a, b| mixed(shares, a, a - b),
            ),
        })
    })?;
    Ok(Image::new(frames)?)
}

/// So much of a sample and so much of what a mode made of it.
#[inline(always)]
fn mixed((keep, mix): (f32, f32), a: f32, blended: f32) -> f32 {
    (a * keep + blended * mix).clamp(0.0, 1.0)
}

#[inline(always)]
fn overlay(a: f32, b: f32) -> f32 {
    let (dark, light) = (2.0 * a * b, 1.0 - 2.0 * (1.0 - a) * (1.0 - b));
    if a <= 0.5 { dark } else { light }
}

#[inline(always)]
fn soft_light(a: f32, b: f32) -> f32 {
    let curve = if a <= 0.25 {
        ((16.0 * a - 12.0) * a + 4.0) * a
    } else {
        a.sqrt()
    };
    let (darker, lighter) = (
        a - (1.0 - 2.0 * b) * a * (1.0 - a),
        a + (2.0 * b - 1.0) * (curve - a),
    );
    if b <= 0.5 { darker } else { lighter }
}

#[cfg(test)]
mod tests;
