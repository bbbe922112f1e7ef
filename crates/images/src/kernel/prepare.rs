//! Pictures and masks as particular models want them, and what is made of what they give.

use std::sync::Arc;

use super::KernelError;
use super::extremes::{Extreme, Reach, square};
use super::frames::{each, each_mask, samples};
use super::scale::{Crop, Method, resize};
use crate::pixels::{Frame, Image, Mask};

const COLORS: usize = 3;

/// `SeedVR2Preprocess`: the colours, cut to 0 and 1, with black at the right and the bottom up to the size.
///
/// # Errors
/// If the size is beyond one frame.
pub fn padded(image: Image, width: usize, height: usize) -> Result<Image, KernelError> {
    each(image, |frame| {
        let channels = frame.channels().min(COLORS);
        samples(height, width, channels)?;
        let mut made = Frame::filled(height, width, channels, 0.0);
        for y in 0..frame.height() {
            let row = made.data_mut()[y * width * channels..].chunks_exact_mut(channels);
            for (pixel, own) in row.zip(frame.row(y).chunks_exact(frame.channels())) {
                for (sample, own) in pixel.iter_mut().zip(own) {
                    *sample = own.clamp(0.0, 1.0);
                }
            }
        }
        Ok(Arc::new(made))
    })
}

/// `VOIDQuadmaskPreprocess`: the four levels that a mask means, turned around, after what it removes has grown by a radius.
///
/// # Errors
/// None in practice: the shape stays.
pub fn quadmask(mask: Mask, radius: usize) -> Result<Mask, KernelError> {
    let all = mask.frames().iter().flat_map(|frame| frame.data());
    let is_unit = all.copied().fold(f32::NEG_INFINITY, f32::max) <= 1.0;
    let level = move |sample: f32| if is_unit { sample * 255.0 } else { sample };
    let meaning = |level: f32| match level {
        ..=31.0 => 0.0,
        ..=95.0 => 63.0,
        ..=191.0 => 127.0,
        _ => 255.0,
    };
    each_mask(mask, |frame| {
        let mut levels = changed(&frame, level);
        if radius > 0 {
            let removed = changed(&levels, |level| if level < 128.0 { 1.0 } else { 0.0 });
            let removed = square(&removed, around(radius, &removed), Extreme::Greatest)?;
            for (level, removed) in levels.data_mut().iter_mut().zip(removed.data()) {
                if *removed > 0.5 {
                    *level = 0.0;
                }
            }
        }
        let made = changed(&levels, |level| (255.0 - meaning(level)) / 255.0);
        Ok(Arc::new(made))
    })
}

/// As far as a radius, or as the whole frame: no window reaches farther.
fn around(radius: usize, frame: &Frame) -> Reach {
    let radius = radius.min(frame.height().max(frame.width()));
    Reach {
        before: radius,
        after: radius,
    }
}

fn changed(frame: &Frame, change: impl Fn(f32) -> f32) -> Frame {
    let (height, width, channels) = frame.shape();
    let data = frame.data().iter().map(|sample| change(*sample));
    Frame::new(height, width, channels, data.collect())
}

/// Rows and columns of a picture whose shorter side has become so long.
#[must_use]
pub fn by_shorter_side(height: usize, width: usize, shorter: usize) -> (usize, usize) {
    let scale = shorter as f64 / height.min(width).max(1) as f64;
    let side = |side: usize| ((side as f64 * scale).round_ties_even() as usize).max(1);
    (side(height), side(width))
}

/// A subject that was found, and the part around it.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Colours and, as the fourth channel, the mask.
    picture: Frame,
    left: i64,
    top: i64,
    width: usize,
    height: usize,
}

/// `TripoSplatPreprocessImage`: finds what the mask, which has the picture's size, shows of it. The picture gets a shorter side
/// of `size` first, and the mask shrinks by a radius.
///
/// # Errors
/// If the picture has fewer than 3 channels, or the mask shows nothing, or no more than a pixel.
pub fn subject(
    picture: &Frame,
    mask: &Frame,
    radius: usize,
    size: usize,
) -> Result<Subject, KernelError> {
    let (height, width, channels) = picture.shape();
    if channels < COLORS {
        return Err(KernelError::MissingChannels {
            needed: COLORS,
            found: channels,
        });
    }
    let pixels = picture.data().chunks_exact(channels).zip(mask.data());
    let both = pixels.flat_map(|(pixel, mask)| {
        let [red, green, blue] = [pixel[0], pixel[1], pixel[2]];
        [red, green, blue, *mask].map(|sample| sample.clamp(0.0, 1.0))
    });
    let both = Frame::new(height, width, COLORS + 1, both.collect());
    let (tall, wide) = by_shorter_side(height, width, size);
    let both = resize(Arc::new(both), wide, tall, Method::Lanczos, Crop::Disabled)?;
    let mut both = Arc::unwrap_or_clone(both);
    let shown = both.data().iter().skip(COLORS).step_by(COLORS + 1);
    let mut shown = Frame::new(tall, wide, 1, shown.copied().collect());
    if radius > 0 {
        shown = square(&shown, around(radius, &shown), Extreme::Least)?;
        let masked = both.data_mut().chunks_exact_mut(COLORS + 1);
        for (pixel, shown) in masked.zip(shown.data()) {
            pixel[COLORS] = *shown;
        }
    }
    let Some([left, top, right, bottom]) = bounds(&shown) else {
        return Err(KernelError::NothingShown);
    };
    let center = |first: usize, last: usize| (first + last) as f64 / 2.0;
    let (x, y) = (center(left, right), center(top, bottom));
    let half = (right - left).max(bottom - top) as f64 / 2.0 * 1.2;
    let (left, top) = ((x - half) as i64, (y - half) as i64);
    let (right, bottom) = ((x + half) as i64, (y + half) as i64);
    let (width, height) = ((right - left) as usize, (bottom - top) as usize);
    samples(height, width, COLORS + 1)?;
    Ok(Subject {
        picture: both,
        left,
        top,
        width,
        height,
    })
}

/// The first and last column and row of what is shown: left, top, right, bottom.
fn bounds(shown: &Frame) -> Option<[usize; 4]> {
    let mut found: Option<[usize; 4]> = None;
    for y in 0..shown.height() {
        let row = shown.row(y);
        let Some(first) = row.iter().position(|sample| *sample > 0.0) else {
            continue;
        };
        let last = row
            .iter()
            .rposition(|sample| *sample > 0.0)
            .unwrap_or(first);
        let [left, top, right, _] = found.unwrap_or([first, y, last, y]);
        found = Some([left.min(first), top, right.max(last), y]);
    }
    found
}

impl Subject {
    /// The longer side of the part around it.
    #[must_use]
    pub fn side(&self) -> usize {
        self.width.max(self.height)
    }

    /// The subject before black, as a square of `size`.
    ///
    /// # Errors
    /// If the size is 0 or beyond one frame.
    pub fn shown(&self, size: usize) -> Result<Arc<Frame>, KernelError> {
        const BOTH: usize = COLORS + 1;
        let mut part = Frame::filled(self.height, self.width, BOTH, 0.0);
        let inside = |from: i64, length: usize, own: usize| {
            let first = (-from).clamp(0, length as i64);
            let last = (own as i64 - from).clamp(first, length as i64);
            first as usize..last as usize
        };
        let columns = inside(self.left, self.width, self.picture.width());
        for y in inside(self.top, self.height, self.picture.height()) {
            let row = self.picture.row((self.top + y as i64) as usize);
            let from = (self.left + columns.start as i64) as usize * BOTH;
            let to = (y * self.width + columns.start) * BOTH;
            let length = columns.len() * BOTH;
            if length > 0 {
                part.data_mut()[to..to + length].copy_from_slice(&row[from..from + length]);
            }
        }
        let part = resize(Arc::new(part), size, size, Method::Lanczos, Crop::Disabled)?;
        let colors = part.data().chunks_exact(BOTH).flat_map(|pixel| {
            let [red, green, blue] = [pixel[0], pixel[1], pixel[2]];
            [red, green, blue].map(|sample| sample * pixel[COLORS])
        });
        Ok(Arc::new(Frame::new(size, size, COLORS, colors.collect())))
    }
}

/// What a picture tells of the pixels of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prediction {
    /// How far they are.
    Depth,
    /// Where their surfaces look to.
    Normals,
    /// Their colours without light.
    Albedo,
}

/// `MarigoldV2PostProcess`: a prediction as a picture.
///
/// # Errors
/// None in practice: the shape stays, or has three channels.
pub fn predicted(image: Image, prediction: Prediction) -> Result<Image, KernelError> {
    each(image, |frame| {
        Ok(Arc::new(match prediction {
            Prediction::Depth => depth(&frame)?,
            Prediction::Normals => normals(&frame),
            Prediction::Albedo => changed(&frame, |sample| match sample <= 0.003_130_8 {
                true => sample * 12.92,
                false => 1.055 * sample.powf(1.0 / 2.4) - 0.055,
            }),
        }))
    })
}

/// Near is white and far is black.
fn depth(frame: &Frame) -> Result<Frame, KernelError> {
    let (height, width, channels) = frame.shape();
    samples(height, width, COLORS)?;
    let pixels = frame.data().chunks_exact(channels);
    let depths = pixels.map(|pixel| pixel.iter().sum::<f32>() / channels as f32);
    let depths: Vec<f32> = depths.collect();
    let nearest = depths.iter().copied().fold(f32::INFINITY, f32::min);
    let farthest = depths.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let range = (farthest - nearest).max(1e-6);
    let made = depths
        .into_iter()
        .flat_map(|depth| [(farthest - depth) / range; COLORS]);
    Ok(Frame::new(height, width, COLORS, made.collect()))
}

/// Directions of length 1.
fn normals(frame: &Frame) -> Frame {
    let mut made = changed(frame, |sample| sample * 2.0 - 1.0);
    for pixel in made.data_mut().chunks_exact_mut(frame.channels()) {
        let squares: f32 = pixel.iter().map(|part| part * part).sum();
        let length = squares.sqrt().max(1e-12);
        for part in pixel {
            *part = (*part / length + 1.0) * 0.5;
        }
    }
    made
}
