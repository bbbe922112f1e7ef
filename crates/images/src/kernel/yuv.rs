//! ImageRGBToYUV and ImageYUVToRGB: full-range luma and two colour differences around 0.5.

use std::sync::Arc;

use super::KernelError;
use super::channel::needs_channels;
use super::frames::{Shared, map_distinct, unwritten};
use super::rows::fill_rows_of;
use crate::parallel::fill_bands;
use crate::pixels::{Frame, Image};

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
    let frames = map_distinct(image.frames().to_vec(), |frame| planes(&frame))?;
    let plane = |number: usize| {
        Image::new(
            frames
                .iter()
                .map(|planes| Arc::clone(&planes[number]))
                .collect(),
        )
    };
    Ok(Planes {
        y: plane(0)?,
        u: plane(1)?,
        v: plane(2)?,
    })
}

/// All three in one pass over the picture.
fn planes(frame: &Frame) -> Result<[Arc<Frame>; 3], KernelError> {
    needs_channels(frame, 3)?;
    let (height, width, channels) = frame.shape();
    let plane = || unwritten(height, width, 3);
    let (mut y, mut u, mut v) = (plane()?, plane()?, plane()?);
    let stride = 3 * width;
    fill_rows_of(
        [(&mut y, stride), (&mut u, stride), (&mut v, stride)],
        &|row, out| {
            let source = frame.row(row);
            match channels {
                3 => split(out, source.as_chunks::<3>().0),
                _ => split(out, source.chunks_exact(channels)),
            }
        },
    );
    Ok([y, u, v].map(|data| Arc::new(Frame::new(height, width, 3, data))))
}

#[inline(always)]
fn split<'a, P: AsRef<[f32]> + ?Sized + 'a>(
    [y, u, v]: [&mut [f32]; 3],
    pixels: impl IntoIterator<Item = &'a P>,
) {
    let [y, u, v] = [y, u, v].map(|out| out.as_chunks_mut::<3>().0.iter_mut());
    for (((y, u), v), pixel) in y.zip(u).zip(v).zip(pixels) {
        let pixel = pixel.as_ref();
        let (red, green, blue) = (pixel[0], pixel[1], pixel[2]);
        let luma = 0.299 * red + 0.587 * green + 0.114 * blue;
        *y = [luma; 3];
        *u = [(blue - luma) * 0.564 + 0.5; 3];
        *v = [(red - luma) * 0.713 + 0.5; 3];
    }
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
        let mut data = unwritten(y.height(), y.width(), 3)?;
        fill_bands(&mut data, 3, |first, band| {
            let from = |frame: &Frame| first * frame.channels();
            let (y_data, u_data, v_data) = (
                &y.data()[from(y)..],
                &u.data()[from(u)..],
                &v.data()[from(v)..],
            );
            let out = band.as_chunks_mut::<3>().0;
            match [y, u, v].map(|frame| frame.channels()) {
                // Nearly always: sums of a known length stay in registers.
                [3, 3, 3] => {
                    let [y, u, v] = [y_data, u_data, v_data].map(|data| data.as_chunks::<3>().0);
                    join(out, y, u, v);
                }
                [of_y, of_u, of_v] => join(
                    out,
                    y_data.chunks_exact(of_y),
                    u_data.chunks_exact(of_u),
                    v_data.chunks_exact(of_v),
                ),
            }
        });
        Ok(Arc::new(Frame::new(y.height(), y.width(), 3, data)))
    }
}

#[inline(always)]
fn join<'a, P: AsRef<[f32]> + ?Sized + 'a>(
    out: &mut [[f32; 3]],
    y: impl IntoIterator<Item = &'a P>,
    u: impl IntoIterator<Item = &'a P>,
    v: impl IntoIterator<Item = &'a P>,
) {
    for (((out, y), u), v) in out.iter_mut().zip(y).zip(u).zip(v) {
        let (y, u, v) = (
            mean(y.as_ref()),
            mean(u.as_ref()) - 0.5,
            mean(v.as_ref()) - 0.5,
        );
        *out = [y + 1.403 * v, y - 0.714 * v - 0.344 * u, y + 1.773 * u];
    }
}

#[inline(always)]
fn mean(pixel: &[f32]) -> f32 {
    match pixel {
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
