//! ImageRGBToYUV and ImageYUVToRGB: full-range luma and two colour differences around 0.5.

use std::sync::Arc;

use super::KernelError;
use super::channel::needs_channels;
use super::frames::{Shared, blank, map_distinct};
use super::rows::fill_bands;
use crate::value::{Frame, Image};

/// The three planes of a picture, each as a picture of three equal channels.
#[derive(Clone, Debug, PartialEq)]
pub struct Planes {
    /// Luma: `.299 R + .587 G + .114 B`.
    pub y: Image,
    /// `(B - Y) .564 + .5`.
    pub u: Image,
    /// `(R - Y) .713 + .5`.
    pub v: Image,
}

/// Splits a picture into its planes.
///
/// # Errors
/// If it has fewer than three channels.
pub fn rgb_to_yuv(image: &Image) -> Result<Planes, KernelError> {
    Ok(Planes {
        y: plane(image, |_, y| y)?,
        u: plane(image, |[_, _, blue], y| (blue - y) * 0.564 + 0.5)?,
        v: plane(image, |[red, _, _], y| (red - y) * 0.713 + 0.5)?,
    })
}

fn plane(
    image: &Image,
    f: impl Fn([f32; 3], f32) -> f32 + Sync + Send,
) -> Result<Image, KernelError> {
    let frames = map_distinct(image.frames().to_vec(), |frame| {
        needs_channels(&frame, 3)?;
        let channels = frame.channels();
        let mut data = blank(frame.height(), frame.width(), 3)?;
        fill_bands(&mut data, 3, |first, band| {
            let pixels = frame.data()[first * channels..].chunks_exact(channels);
            for (out, pixel) in band.as_chunks_mut::<3>().0.iter_mut().zip(pixels) {
                let colour = [pixel[0], pixel[1], pixel[2]];
                let luma = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2];
                *out = [f(colour, luma); 3];
            }
        });
        Ok(Arc::new(Frame::new(frame.height(), frame.width(), 3, data)))
    })?;
    Ok(Image::new(frames)?)
}

/// Joins planes to a picture; of each the mean of its channels counts. The result is not clamped.
///
/// # Errors
/// If the planes differ in size or number.
pub fn yuv_to_rgb(planes: &Planes) -> Result<Image, KernelError> {
    let [y, u, v] = [&planes.y, &planes.u, &planes.v];
    for other in [u, v] {
        let (a, b) = (y.first(), other.first());
        if (a.width(), a.height()) != (b.width(), b.height()) {
            return Err(KernelError::SizeMismatch(
                a.width(),
                a.height(),
                b.width(),
                b.height(),
            ));
        }
        if y.frames().len() != other.frames().len() {
            return Err(KernelError::BatchMismatch(
                y.frames().len(),
                other.frames().len(),
            ));
        }
    }
    let frames = y.frames().iter().zip(u.frames()).zip(v.frames());
    let triples = frames
        .map(|((y, u), v)| Triple([y, u, v].map(Arc::clone)))
        .collect();
    Ok(Image::new(map_distinct(triples, |triple| {
        triple.joined()
    })?)?)
}

struct Triple([Arc<Frame>; 3]);

impl Shared for Triple {
    fn identity(&self) -> [usize; 4] {
        let [y, u, v] = self.0.each_ref().map(|frame| Arc::as_ptr(frame).addr());
        [y, u, v, 0]
    }
}

impl Triple {
    fn joined(self) -> Result<Arc<Frame>, KernelError> {
        let [y, u, v] = &self.0;
        let mut data = blank(y.height(), y.width(), 3)?;
        fill_bands(&mut data, 3, |first, band| {
            let planes = pixels_from(y, first)
                .zip(pixels_from(u, first))
                .zip(pixels_from(v, first));
            for (out, ((y, u), v)) in band.as_chunks_mut::<3>().0.iter_mut().zip(planes) {
                let (y, u, v) = (mean(y), mean(u) - 0.5, mean(v) - 0.5);
                *out = [y + 1.403 * v, y - 0.714 * v - 0.344 * u, y + 1.773 * u];
            }
        });
        Ok(Arc::new(Frame::new(y.height(), y.width(), 3, data)))
    }
}

fn pixels_from(frame: &Frame, first: usize) -> std::slice::ChunksExact<'_, f32> {
    frame.data()[first * frame.channels()..].chunks_exact(frame.channels())
}

fn mean(pixel: &[f32]) -> f32 {
    match pixel {
        // Nearly always: a sum of known length stays in registers.
        [a, b, c] => (a + b + c) / 3.0,
        _ => pixel.iter().sum::<f32>() / pixel.len() as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_has_no_colour_differences() {
        let planes =
            rgb_to_yuv(&Image::single(Frame::filled(1, 2, 3, 0.5))).expect("there are colours");
        for (image, expected) in [(&planes.y, 0.5), (&planes.u, 0.5), (&planes.v, 0.5)] {
            assert_eq!(image.first().shape(), (1, 2, 3));
            assert!(
                image
                    .first()
                    .data()
                    .iter()
                    .all(|v| (v - expected).abs() < 1e-6)
            );
        }
    }

    #[test]
    fn there_and_back_is_nearly_the_same() {
        let image = Image::single(Frame::new(1, 2, 3, vec![1.0, 0.0, 0.0, 0.2, 0.4, 0.8]));
        let back = yuv_to_rgb(&rgb_to_yuv(&image).expect("there are colours")).expect("one size");
        for (a, b) in back.first().data().iter().zip(image.first().data()) {
            assert!((a - b).abs() < 2e-3, "{a} {b}");
        }
    }

    #[test]
    fn planes_of_different_sizes_do_not_join() {
        let grey = |width| Image::single(Frame::filled(1, width, 3, 0.5));
        let planes = Planes {
            y: grey(2),
            u: grey(2),
            v: grey(3),
        };
        assert_eq!(
            yuv_to_rgb(&planes),
            Err(KernelError::SizeMismatch(2, 1, 3, 1))
        );
    }

    #[test]
    fn a_mask_has_no_planes() {
        let image = Image::single(Frame::filled(1, 1, 1, 0.5));
        assert_eq!(
            rgb_to_yuv(&image),
            Err(KernelError::MissingChannels {
                needed: 3,
                found: 1
            })
        );
    }
}
