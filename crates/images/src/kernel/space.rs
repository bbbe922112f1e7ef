//! Colours between standard and high dynamic range: sRGB, and Rec.2020 as HLG or PQ (BT.2100).
//!
//! White of sRGB has 203 nits, and a display of HLG 1000. The arithmetic is that of single precision, step by step as the recorded
//! server does it.

use std::sync::Arc;

use super::KernelError;
use crate::pixels::Image;

/// A colour space of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Rec.709 with the curve of sRGB.
    Srgb,
    /// Rec.2020 with the curve of HLG.
    Hlg,
    /// Rec.2020 with the curve of PQ.
    Pq,
}

type Color = [f32; 3];

const WHITE_NITS: f32 = 203.0;
const HLG_NITS: f32 = 1000.0;
const PQ_NITS: f32 = 10_000.0;
const HLG_GAMMA: f32 = 1.2;
const HLG_A: f32 = 0.178_832_77;
const HLG_B: f32 = 0.284_668_92;
const HLG_C: f32 = 0.559_910_7;
const PQ_M1: f32 = 2610.0 / 16_384.0;
const PQ_M2: f32 = 2523.0 / 32.0;
const PQ_C1: f32 = 3424.0 / 4096.0;
const PQ_C2: f32 = 2413.0 / 128.0;
const PQ_C3: f32 = 2392.0 / 128.0;

/// The shares of red, green and blue in the brightness.
const LUMA_709: Color = [0.212_639, 0.715_168_7, 0.072_192_32];
const LUMA_2020: Color = [0.2627, 0.6780, 0.0593];

const REC709_TO_2020: [Color; 3] = [
    [0.627_403_9, 0.329_283_03, 0.043_313_067],
    [0.069_097_29, 0.919_540_4, 0.011_362_315],
    [0.016_391_44, 0.088_013_31, 0.895_595_25],
];
const REC2020_TO_709: [Color; 3] = [
    [1.660_491, -0.587_641_1, -0.072_849_86],
    [-0.124_550_47, 1.132_899_9, -0.008_349_423],
    [-0.018_150_763, -0.100_578_9, 1.118_729_7],
];

/// ImageColorSpace: the pictures of one space in another. What is too bright for the new one is darkened alike in all pictures,
/// and colours that it lacks lose some of their strength; a fourth channel stays. `check` is called for every picture and ends
/// the work with its error.
///
/// # Errors
/// If the pictures have fewer than 3 channels, or `check` says so.
pub fn converted<E: From<KernelError>>(
    image: Image,
    from: Space,
    to: Space,
    mut check: impl FnMut() -> Result<(), E>,
) -> Result<Image, E> {
    if from == to {
        return Ok(image);
    }
    let channels = image.first().channels();
    if channels < 3 {
        return Err(E::from(KernelError::MissingChannels {
            needed: 3,
            found: channels,
        }));
    }
    let mut made = Vec::with_capacity(image.frames().len());
    let mut brightest = 1.0_f32;
    for frame in image.into_frames() {
        check()?;
        let mut frame = Arc::unwrap_or_clone(frame);
        for pixel in frame.data_mut().chunks_exact_mut(channels) {
            let light = light([pixel[0], pixel[1], pixel[2]], from);
            let light = in_space(light, to);
            brightest = brightest.max(luminance(light, luma(to)).max(0.0));
            pixel[..3].copy_from_slice(&light);
        }
        made.push(Arc::new(frame));
    }
    // What rounding leaves above white is no reason to darken.
    let is_narrowed = to == Space::Srgb || (from == Space::Pq && to == Space::Hlg);
    let brightest = (is_narrowed && brightest > 1.0001).then_some(brightest);
    let finish = |color: Color| {
        let color = brightest.map_or(color, |peak| darkened(color, peak, luma(to)));
        encoded(color, to, is_narrowed)
    };
    for frame in &mut made {
        check()?;
        for pixel in Arc::make_mut(frame).data_mut().chunks_exact_mut(channels) {
            let color = finish([pixel[0], pixel[1], pixel[2]]);
            pixel[..3].copy_from_slice(&color);
        }
    }
    Ok(Image::new(made).map_err(KernelError::from)?)
}

/// The light of a display, Rec.2020 in nits.
fn light(color: Color, space: Space) -> Color {
    match space {
        Space::Srgb => {
            let linear = color.map(|level| match level <= 0.04045 {
                true => level / 12.92,
                false => ((level.max(0.0) + 0.055) / 1.055).powf(2.4),
            });
            times(&REC709_TO_2020, linear).map(|light| light * WHITE_NITS)
        }
        Space::Hlg => {
            let scene = color.map(|level| match level <= 0.5 {
                true => level * level / 3.0,
                false => (((level - HLG_C) / HLG_A).exp() + HLG_B) / 12.0,
            });
            let bright = luminance(scene, LUMA_2020).max(0.0);
            let scale = bright.powf(HLG_GAMMA - 1.0) * HLG_NITS;
            scene.map(|light| light * scale)
        }
        // Around 1, so that nothing is lost to differences of nearly equal numbers.
        Space::Pq => color.map(|level| {
            let p = (level.max(0.0).ln() / PQ_M2).exp_m1();
            let above = (p + (1.0 - PQ_C1)).max(0.0);
            (above / ((PQ_C2 - PQ_C3) - PQ_C3 * p)).powf(1.0 / PQ_M1) * PQ_NITS
        }),
    }
}

/// Light in the primaries of a space; white, or what its display can show, is 1.
fn in_space(light: Color, space: Space) -> Color {
    match space {
        Space::Srgb => times(&REC2020_TO_709, light.map(|light| light / WHITE_NITS)),
        Space::Hlg => light.map(|light| light / HLG_NITS),
        Space::Pq => light,
    }
}

fn luma(space: Space) -> Color {
    match space {
        Space::Srgb => LUMA_709,
        Space::Hlg | Space::Pq => LUMA_2020,
    }
}

/// Light as levels of the space.
fn encoded(color: Color, space: Space, is_narrowed: bool) -> Color {
    match space {
        Space::Srgb => within(color, LUMA_709).map(|light| match light <= 0.003_130_8 {
            true => light * 12.92,
            false => 1.055 * light.powf(1.0 / 2.4) - 0.055,
        }),
        Space::Hlg => {
            let bright = luminance(color, LUMA_2020).max(f32::MIN_POSITIVE);
            let scale = bright.powf(1.0 / HLG_GAMMA - 1.0);
            let mut scene = color.map(|light| light * scale);
            if is_narrowed {
                scene = within(scene, LUMA_2020);
            }
            scene.map(|light| match light <= 1.0 / 12.0 {
                true => (3.0 * light.max(0.0)).sqrt(),
                false => HLG_A * (12.0 * light - HLG_B).ln() + HLG_C,
            })
        }
        Space::Pq => color.map(|light| {
            let p = (light.max(0.0) / PQ_NITS).powf(PQ_M1);
            let p = ((PQ_C1 - 1.0) + (PQ_C2 - PQ_C3) * p) / (1.0 + PQ_C3 * p);
            (p.ln_1p() * PQ_M2).exp()
        }),
    }
}

fn times(matrix: &[Color; 3], [red, green, blue]: Color) -> Color {
    matrix.map(|row| red * row[0] + green * row[1] + blue * row[2])
}

fn luminance([red, green, blue]: Color, luma: Color) -> f32 {
    red * luma[0] + green * luma[1] + blue * luma[2]
}

/// The colour by Reinhard's curve that takes `peak` to 1.
fn darkened(color: Color, peak: f32, luma: Color) -> Color {
    let bright = luminance(color, luma).max(0.0);
    let scale = (1.0 + bright / (peak * peak)) / (1.0 + bright);
    color.map(|light| light * scale)
}

/// The colour, as near to grey of its brightness as it takes to lie between 0 and 1.
fn within(color: Color, luma: Color) -> Color {
    let bright = luminance(color, luma).clamp(0.0, 1.0);
    let least = color.into_iter().fold(f32::INFINITY, f32::min);
    let most = color.into_iter().fold(f32::NEG_INFINITY, f32::max);
    // What rounding adds to a colour at the border takes none of its strength.
    if least >= -1e-5 && most <= 1.000_01 {
        return color.map(|light| light.clamp(0.0, 1.0));
    }
    let upper = (1.0 - bright) / (most - bright).max(f32::MIN_POSITIVE);
    let lower = bright / (bright - least).max(f32::MIN_POSITIVE);
    let strength = upper.min(lower).clamp(0.0, 1.0);
    color.map(|light| (bright + (light - bright) * strength).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pixels::Frame;

    fn through(color: Color, from: Space, to: Space) -> Vec<f32> {
        let image = Image::single(Frame::new(1, 1, 3, color.to_vec()));
        let made = converted::<KernelError>(image, from, to, || Ok(()));
        made.expect("three channels").first().data().to_vec()
    }

    #[test]
    fn white_is_where_the_standards_put_it() {
        // BT.2408: reference white of 203 nits lies at 75 % of HLG and 58 % of PQ.
        let hlg = through([1.0; 3], Space::Srgb, Space::Hlg);
        let pq = through([1.0; 3], Space::Srgb, Space::Pq);
        assert!(
            hlg.iter().all(|level| (level - 0.75).abs() < 0.002),
            "{hlg:?}"
        );
        assert!(
            pq.iter().all(|level| (level - 0.581).abs() < 0.001),
            "{pq:?}"
        );
    }

    #[test]
    fn what_is_too_bright_is_darkened_and_stays_between_0_and_1() {
        let made = through([1.0, 0.9, 0.1], Space::Pq, Space::Srgb);
        assert!(
            made.iter().all(|level| (0.0..=1.0).contains(level)),
            "{made:?}"
        );
        assert!(
            made.iter().all(|level| *level > 0.999),
            "the brightest is white: {made:?}"
        );
    }

    #[test]
    fn work_ends_where_it_is_told_to() {
        let frame = Arc::new(Frame::filled(2, 2, 3, 0.5));
        let image = Image::new(vec![frame; 5]).expect("equal frames");
        let mut left = 3;
        let made = converted(image, Space::Srgb, Space::Pq, || {
            left -= 1;
            if left == 0 {
                Err(KernelError::ThresholdOrder)
            } else {
                Ok(())
            }
        });
        assert_eq!(made, Err(KernelError::ThresholdOrder));
        assert_eq!(left, 0, "no more pictures are looked at");
    }
}
