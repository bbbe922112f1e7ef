//! PorterDuffImageComposite: the classic compositing operators and some blends, on premultiplied colours.
//!
//! Masks come in and go out as ComfyUI has them: 1 is transparent.

use std::sync::Arc;

use super::{Crop, Frame, Image, KernelError, Mask, Method, Shared, scale};
use crate::kernel::frames::{map_distinct, unwritten};
use crate::kernel::rows::fill_rows_of;

/// How source and destination are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PorterDuffMode {
    /// The sum of both.
    Add,
    /// Nothing.
    Clear,
    /// The darker of both.
    Darken,
    /// The destination.
    Dst,
    /// The destination where the source is, the source elsewhere.
    DstAtop,
    /// The destination where the source is.
    DstIn,
    /// The destination where the source is not.
    DstOut,
    /// The destination over the source.
    DstOver,
    /// The lighter of both.
    Lighten,
    /// The product of both, where both are.
    Multiply,
    /// Multiply or screen, by the destination.
    Overlay,
    /// Both without their product.
    Screen,
    /// The source.
    Src,
    /// The source where the destination is, the destination elsewhere.
    SrcAtop,
    /// The source where the destination is.
    SrcIn,
    /// The source where the destination is not.
    SrcOut,
    /// The source over the destination.
    SrcOver,
    /// Each where the other is not.
    Xor,
}

/// Composes frame by frame, as many as the shortest batch has; everything gets the size of the destination (bicubic, centre
/// crop). Gives the picture, no longer premultiplied, and its mask.
///
/// # Errors
/// If the two pictures differ in their channels.
pub fn porter_duff(
    source: &Image,
    source_mask: &Mask,
    destination: &Image,
    destination_mask: &Mask,
    mode: PorterDuffMode,
) -> Result<(Image, Mask), KernelError> {
    let sources = source.frames().iter().zip(source_mask.frames());
    let destinations = destination.frames().iter().zip(destination_mask.frames());
    let layers = sources.zip(destinations).map(
        |((source, source_mask), (destination, destination_mask))| Layers {
            source: Arc::clone(source),
            source_mask: Arc::clone(source_mask),
            destination: Arc::clone(destination),
            destination_mask: Arc::clone(destination_mask),
        },
    );
    let (images, masks) = map_distinct(layers.collect(), |layers| layers.composed(mode))?
        .into_iter()
        .unzip();
    Ok((Image::new(images)?, Mask::new(masks)?))
}

struct Layers {
    source: Arc<Frame>,
    source_mask: Arc<Frame>,
    destination: Arc<Frame>,
    destination_mask: Arc<Frame>,
}

impl Shared for Layers {
    fn identity(&self) -> [usize; 4] {
        [
            &self.source,
            &self.source_mask,
            &self.destination,
            &self.destination_mask,
        ]
        .map(|frame| Arc::as_ptr(frame).addr())
    }
}

/// A premultiplied sample and the alpha of its pixel.
#[derive(Clone, Copy)]
struct Sample {
    value: f32,
    alpha: f32,
}

impl Layers {
    fn composed(self, mode: PorterDuffMode) -> Result<(Arc<Frame>, Arc<Frame>), KernelError> {
        let (height, width, channels) = self.destination.shape();
        if self.source.channels() != channels {
            return Err(KernelError::ChannelMismatch(
                self.source.channels(),
                channels,
            ));
        }
        let fitted = |frame| scale::resize(frame, width, height, Method::Bicubic, Crop::Center);
        let fitted = Self {
            source: fitted(self.source)?,
            source_mask: fitted(self.source_mask)?,
            destination: self.destination,
            destination_mask: fitted(self.destination_mask)?,
        };
        match mode {
            PorterDuffMode::Add => fitted.each(
                |s, d| (s + d).clamp(0.0, 1.0),
                |s, d| (s.value + d.value).clamp(0.0, 1.0),
            ),
            PorterDuffMode::Clear => fitted.each(|_, _| 0.0, |_, _| 0.0),
            PorterDuffMode::Darken => {
                fitted.each(union, |s, d| outside(s, d) + s.value.min(d.value))
            }
            PorterDuffMode::Dst => fitted.each(|_, d| d, |_, d| d.value),
            PorterDuffMode::DstAtop => fitted.each(
                |s, _| s,
                |s, d| s.alpha * d.value + (1.0 - d.alpha) * s.value,
            ),
            PorterDuffMode::DstIn => fitted.each(|s, d| s * d, |s, d| d.value * s.alpha),
            PorterDuffMode::DstOut => {
                fitted.each(|s, d| (1.0 - s) * d, |s, d| (1.0 - s.alpha) * d.value)
            }
            PorterDuffMode::DstOver => fitted.each(
                |s, d| d + (1.0 - d) * s,
                |s, d| d.value + (1.0 - d.alpha) * s.value,
            ),
            PorterDuffMode::Lighten => {
                fitted.each(union, |s, d| outside(s, d) + s.value.max(d.value))
            }
            PorterDuffMode::Multiply => fitted.each(|s, d| s * d, |s, d| s.value * d.value),
            PorterDuffMode::Overlay => fitted.each(union, overlay),
            PorterDuffMode::Screen => {
                fitted.each(union, |s, d| s.value + d.value - s.value * d.value)
            }
            PorterDuffMode::Src => fitted.each(|s, _| s, |s, _| s.value),
            PorterDuffMode::SrcAtop => fitted.each(
                |_, d| d,
                |s, d| d.alpha * s.value + (1.0 - s.alpha) * d.value,
            ),
            PorterDuffMode::SrcIn => fitted.each(|s, d| s * d, |s, d| s.value * d.alpha),
            PorterDuffMode::SrcOut => {
                fitted.each(|s, d| (1.0 - d) * s, |s, d| (1.0 - d.alpha) * s.value)
            }
            PorterDuffMode::SrcOver => fitted.each(
                |s, d| s + (1.0 - s) * d,
                |s, d| s.value + (1.0 - s.alpha) * d.value,
            ),
            PorterDuffMode::Xor => fitted.each(|s, d| (1.0 - d) * s + (1.0 - s) * d, outside),
        }
    }

    /// Runs over the pixels: `alpha` makes the alpha of a pixel from both, `value` each of its premultiplied samples.
    fn each(
        &self,
        alpha: impl Fn(f32, f32) -> f32 + Sync,
        value: impl Fn(Sample, Sample) -> f32 + Sync,
    ) -> Result<(Arc<Frame>, Arc<Frame>), KernelError> {
        let (height, width, channels) = self.destination.shape();
        let mut colours = unwritten(height, width, channels)?;
        let mut mask = unwritten(height, width, 1)?;
        let mixed = |source: f32, s: f32, destination: f32, d: f32, total: f32| {
            let sum = value(
                Sample {
                    value: source * s,
                    alpha: s,
                },
                Sample {
                    value: destination * d,
                    alpha: d,
                },
            );
            // Divided before it is known to count, so that the loop has no branch.
            let quotient = (sum / total).clamp(0.0, 1.0);
            if total > 1e-5 { quotient } else { 0.0 }
        };
        fill_rows_of(
            [(&mut colours, width * channels), (&mut mask, width)],
            &|y, [colours, mask]| {
                let rows = Rows {
                    source: self.source.row(y),
                    source_mask: self.source_mask.row(y),
                    destination: self.destination.row(y),
                    destination_mask: self.destination_mask.row(y),
                };
                match channels {
                    3 => rows.each::<3>(&alpha, &mixed, colours, mask),
                    4 => rows.each::<4>(&alpha, &mixed, colours, mask),
                    _ => rows.each_sample(channels, &alpha, mixed, colours, mask),
                }
            },
        );
        Ok((
            Arc::new(Frame::new(height, width, channels, colours)),
            Arc::new(Frame::new(height, width, 1, mask)),
        ))
    }
}

/// One row of all four.
struct Rows<'a> {
    source: &'a [f32],
    source_mask: &'a [f32],
    destination: &'a [f32],
    destination_mask: &'a [f32],
}

impl Rows<'_> {
    #[inline(always)]
    fn each<const C: usize>(
        &self,
        alpha: impl Fn(f32, f32) -> f32,
        mixed: impl Fn(f32, f32, f32, f32, f32) -> f32,
        colours: &mut [f32],
        mask: &mut [f32],
    ) {
        let masks = self.source_mask.iter().zip(self.destination_mask);
        let (sources, _) = self.source.as_chunks::<C>();
        let (destinations, _) = self.destination.as_chunks::<C>();
        let out = colours.as_chunks_mut::<C>().0.iter_mut().zip(mask);
        let pixels = out.zip(sources).zip(destinations).zip(masks);
        for ((((pixel, masked), source), destination), (s, d)) in pixels {
            let (s, d) = (1.0 - s, 1.0 - d);
            let total = alpha(s, d);
            for c in 0..C {
                pixel[c] = mixed(source[c], s, destination[c], d, total);
            }
            *masked = 1.0 - total;
        }
    }

    /// The same for any number of channels.
    fn each_sample(
        &self,
        channels: usize,
        alpha: impl Fn(f32, f32) -> f32,
        mixed: impl Fn(f32, f32, f32, f32, f32) -> f32,
        colours: &mut [f32],
        mask: &mut [f32],
    ) {
        for (x, masked) in mask.iter_mut().enumerate() {
            let (s, d) = (1.0 - self.source_mask[x], 1.0 - self.destination_mask[x]);
            let total = alpha(s, d);
            let pixel = x * channels..(x + 1) * channels;
            let samples = self.source[pixel.clone()]
                .iter()
                .zip(&self.destination[pixel.clone()]);
            for (out, (source, destination)) in colours[pixel].iter_mut().zip(samples) {
                *out = mixed(*source, s, *destination, d, total);
            }
            *masked = 1.0 - total;
        }
    }
}

fn union(s: f32, d: f32) -> f32 {
    s + d - s * d
}

/// The part of each that the other does not cover.
fn outside(s: Sample, d: Sample) -> f32 {
    (1.0 - d.alpha) * s.value + (1.0 - s.alpha) * d.value
}

/// The recorded form: above the middle source and destination have changed places in the two differences.
fn overlay(s: Sample, d: Sample) -> f32 {
    if 2.0 * d.value < d.alpha {
        2.0 * s.value * d.value
    } else {
        s.alpha * d.alpha - 2.0 * (d.alpha - s.value) * (s.alpha - d.value)
    }
}
