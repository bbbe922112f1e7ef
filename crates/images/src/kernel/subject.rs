//! The part of a picture that a mask shows, in the middle of a picture of its own, as models of 3D shapes want it.

use std::sync::Arc;

use super::KernelError;
use super::frames::samples;
use super::morphology::{Morphology, morphology};
use super::scale::{Crop, Method, resize};
use crate::pixels::{Frame, Image};

/// How the subject is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Framing {
    /// Columns of the result.
    pub width: usize,
    /// Rows of the result.
    pub height: usize,
    /// The margin around the subject, as a factor of its size.
    pub margin: f64,
    /// Pixels by which the mask grows first, or shrinks if negative.
    pub grow: i32,
    /// What is behind the subject.
    pub background: [f32; 3],
}

/// A subject that was found.
#[derive(Clone, Debug)]
pub struct Subject {
    picture: Arc<Frame>,
    mask: Arc<Frame>,
    left: i64,
    top: i64,
    /// Columns of the part that is cut out; some may lie beside the picture.
    pub width: usize,
    /// Rows of that part.
    pub height: usize,
}

const CHANNELS: usize = 3;

/// Finds what the mask, which has the picture's size, shows of it. A mask that shows the surroundings is turned around. Where
/// nothing is shown, the subject is the whole picture.
///
/// # Errors
/// If the picture has fewer than 3 channels, or nothing is left of it where it is made smaller.
pub fn find(picture: &Frame, mask: &Frame, framing: &Framing) -> Result<Subject, KernelError> {
    let (height, width, channels) = picture.shape();
    if channels < CHANNELS {
        return Err(KernelError::MissingChannels {
            needed: CHANNELS,
            found: channels,
        });
    }
    let pixels = picture.data().chunks_exact(channels);
    let colors = pixels.flat_map(|pixel| pixel[..CHANNELS].iter().map(|s| s.clamp(0.0, 1.0)));
    let mut picture = Arc::new(Frame::new(height, width, CHANNELS, colors.collect()));
    let mut mask = changed(mask, |sample| sample.clamp(0.0, 1.0));
    if shows_surroundings(&mask) {
        mask = changed(&mask, |sample| 1.0 - sample);
    }
    mask = grown(mask, framing.grow)?;
    mask = changed(&mask, |sample| if sample < 0.05 { 0.0 } else { sample });
    let most = framing.width.max(framing.height);
    if width.max(height) > most {
        let scale = most as f64 / width.max(height) as f64;
        let small = |side: usize| (side as f64 * scale) as usize;
        let (width, height) = (small(width), small(height));
        let lanczos = |frame| resize(frame, width, height, Method::Lanczos, Crop::Disabled);
        picture = lanczos(picture)?;
        // Lanczos works on colours, so the mask is one of three equal channels.
        let tripled = mask.data().iter().flat_map(|sample| [*sample; CHANNELS]);
        let (own_height, own_width, _) = mask.shape();
        let tripled = Frame::new(own_height, own_width, CHANNELS, tripled.collect());
        let tripled = lanczos(Arc::new(tripled))?;
        let single = tripled.data().iter().step_by(CHANNELS).copied();
        mask = Frame::new(height, width, 1, single.collect());
    }
    let (height, width, _) = mask.shape();
    let found = match bounds(&mask) {
        Some(found) => Some(found),
        None => {
            let inverted = changed(&mask, |sample| 1.0 - sample);
            let found = bounds(&inverted);
            if found.is_some() {
                mask = inverted;
            }
            found
        }
    };
    let (left, top, width, height) = match found {
        Some(found) => found.framed(framing),
        None => (0, 0, width, height),
    };
    samples(height, width, CHANNELS)?;
    Ok(Subject {
        picture,
        mask: Arc::new(mask),
        left,
        top,
        width,
        height,
    })
}

impl Subject {
    /// The subject before the background, in the size that was asked for.
    ///
    /// # Errors
    /// None in practice: both sizes were checked.
    pub fn shown(&self, framing: &Framing) -> Result<Arc<Frame>, KernelError> {
        let (own_height, own_width, _) = self.mask.shape();
        let mut data = Vec::with_capacity(samples(self.height, self.width, CHANNELS)?);
        let place = |from: i64, at: usize, own: usize| {
            let place = usize::try_from(from + at as i64).ok();
            place.filter(|place| *place < own)
        };
        for y in 0..self.height {
            let row = place(self.top, y, own_height);
            for x in 0..self.width {
                let (Some(row), Some(column)) = (row, place(self.left, x, own_width)) else {
                    data.extend(framing.background);
                    continue;
                };
                let alpha = self.mask.row(row)[column];
                let pixel = &self.picture.row(row)[column * CHANNELS..][..CHANNELS];
                let mixed = pixel.iter().zip(framing.background);
                data.extend(mixed.map(|(sample, behind)| {
                    (sample * alpha + behind * (1.0 - alpha)).clamp(0.0, 1.0)
                }));
            }
        }
        let frame = Arc::new(Frame::new(self.height, self.width, CHANNELS, data));
        let (width, height) = (framing.width, framing.height);
        resize(frame, width, height, Method::Lanczos, Crop::Disabled)
    }
}

fn changed(frame: &Frame, change: impl Fn(f32) -> f32) -> Frame {
    let (height, width, channels) = frame.shape();
    let data = frame.data().iter().map(|sample| change(*sample));
    Frame::new(height, width, channels, data.collect())
}

/// Whether the border is shown and the middle is not.
fn shows_surroundings(mask: &Frame) -> bool {
    let (height, width, _) = mask.shape();
    let mean = |samples: &mut dyn Iterator<Item = f32>| {
        let (mut sum, mut count) = (0.0_f64, 0.0);
        for sample in samples {
            sum += f64::from(sample);
            count += 1.0;
        }
        sum / count
    };
    let sides = (0..height).flat_map(|y| [mask.row(y)[0], mask.row(y)[width - 1]]);
    let ends = mask.row(0).iter().chain(mask.row(height - 1)).copied();
    let middle = (height / 4..height - height / 4)
        .flat_map(|y| mask.row(y)[width / 4..width - width / 4].iter().copied());
    mean(&mut sides.chain(ends)) > 0.5 && mean(&mut { middle }) < 0.5
}

fn grown(mask: Frame, pixels: i32) -> Result<Frame, KernelError> {
    let dilated = |frame: Frame| {
        let size = pixels.unsigned_abs() as usize * 2 + 1;
        let image = morphology(Image::single(frame), Morphology::Dilate, size)?;
        Ok::<_, KernelError>(image.first().clone())
    };
    match pixels {
        0 => Ok(mask),
        1.. => dilated(mask),
        ..0 => {
            let around = dilated(changed(&mask, |sample| 1.0 - sample))?;
            Ok(changed(&around, |sample| 1.0 - sample))
        }
    }
}

/// The box around what is shown, with its last columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    left: usize,
    top: usize,
    right: usize,
    bottom: usize,
}

fn bounds(mask: &Frame) -> Option<Bounds> {
    let (height, width, _) = mask.shape();
    let is_shown = |sample: &f32| (sample.clamp(0.0, 1.0) * 255.0) as u8 > 204;
    let mut found: Option<Bounds> = None;
    for y in 0..height {
        let row = &mask.row(y)[..width];
        let Some(first) = row.iter().position(is_shown) else {
            continue;
        };
        let last = row.iter().rposition(is_shown).unwrap_or(first);
        let before = found.unwrap_or(Bounds {
            left: first,
            top: y,
            right: last,
            bottom: y,
        });
        found = Some(Bounds {
            left: before.left.min(first),
            top: before.top,
            right: before.right.max(last),
            bottom: y,
        });
    }
    found
}

impl Bounds {
    /// Left, top, width and height of the part in the proportions of the result, with the margin.
    fn framed(self, framing: &Framing) -> (i64, i64, usize, usize) {
        let (width, height) = (
            (self.right - self.left + 1) as f64,
            (self.bottom - self.top + 1) as f64,
        );
        let aspect = framing.width as f64 / framing.height as f64;
        let (width, height) = match width / height >= aspect {
            true => (width * framing.margin, width / aspect * framing.margin),
            false => (height * aspect * framing.margin, height * framing.margin),
        };
        // Halves of whole pixels, rounded up.
        let half = |side: f64| (side as i64).div_euclid(2) + (side as i64).rem_euclid(2);
        let (half_width, half_height) = (half(width), half(height));
        let start = |first: usize, last: usize, half: i64| {
            ((first + last) as f64 / 2.0 - half as f64) as i64
        };
        (
            start(self.left, self.right, half_width),
            start(self.top, self.bottom, half_height),
            2 * half_width as usize,
            2 * half_height as usize,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMING: Framing = Framing {
        width: 8,
        height: 8,
        margin: 1.0,
        grow: 0,
        background: [0.0, 0.0, 1.0],
    };

    fn mask(shown: impl Fn(usize, usize) -> bool) -> Frame {
        let sample = |at: usize| if shown(at % 8, at / 8) { 1.0 } else { 0.0 };
        Frame::new(8, 8, 1, (0..64).map(sample).collect())
    }

    fn inside(x: usize, y: usize) -> bool {
        (2..6).contains(&x) && (2..5).contains(&y)
    }

    #[test]
    fn the_part_has_the_proportions_of_the_result_around_the_subject() {
        let white = Frame::filled(8, 8, 3, 1.0);
        for shown in [mask(inside), mask(|x, y| !inside(x, y))] {
            let subject = find(&white, &shown, &FRAMING).expect("a subject");
            let part = (subject.left, subject.top, subject.width, subject.height);
            assert_eq!(
                part,
                (1, 1, 4, 4),
                "also of a mask that shows the surroundings"
            );
        }
        let grown = Framing { grow: 1, ..FRAMING };
        let subject = find(&white, &mask(inside), &grown).expect("a subject");
        assert_eq!((subject.width, subject.height), (6, 6));
    }

    #[test]
    fn what_lies_beside_the_picture_is_background() {
        let white = Frame::filled(8, 8, 3, 1.0);
        let corner = mask(|x, y| x < 2 && y < 2);
        let wide = Framing {
            margin: 2.0,
            ..FRAMING
        };
        let subject = find(&white, &corner, &wide).expect("a subject");
        let shown = subject.shown(&wide).expect("a picture");
        assert_eq!(shown.shape(), (8, 8, 3));
        assert_eq!(shown.row(0)[..3], [0.0, 0.0, 1.0]);
    }

    #[test]
    fn an_empty_mask_shows_the_whole_picture_as_background() {
        let white = Frame::filled(8, 8, 3, 1.0);
        // Neither it nor its inverse is anywhere clear.
        let vague = Frame::filled(8, 8, 1, 0.4);
        let subject = find(&white, &vague, &FRAMING).expect("a subject");
        assert_eq!((subject.left, subject.width), (0, 8));
    }

    #[test]
    fn a_part_beyond_one_frame_is_refused() {
        let picture = Frame::filled(4096, 1, 3, 1.0);
        let mask = Frame::filled(4096, 1, 1, 1.0);
        let flat = Framing {
            width: 4096,
            height: 8,
            ..FRAMING
        };
        let error = find(&picture, &mask, &flat).expect_err("it is too wide");
        assert!(matches!(error, KernelError::TooLarge { .. }), "{error}");
    }
}
