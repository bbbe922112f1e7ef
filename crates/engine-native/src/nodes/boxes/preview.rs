//! How boxes lie on a picture: frames and colours over the picture, which is darkened. Labels are left out.

use std::sync::Arc;

use images::kernel::output_bytes;
use images::kernel::scale::{Crop, Method, resize};
use images::{Frame, Image};

use super::{Region, whole};
use crate::{NodeContext, NodeError};

/// The longer side at most.
const LONGEST: f64 = 1024.0;

/// The level of the canvas where there is no picture.
const GREY: u8 = 32;

const CHANNELS: usize = 3;

/// A picture of levels that is drawn on.
struct Canvas {
    width: i64,
    height: i64,
    levels: Vec<u8>,
}

/// The boxes on the picture, or on a canvas of this size.
pub(super) fn drawn(
    regions: &[Region],
    (width, height): (f64, f64),
    background: Option<Image>,
    context: &NodeContext,
) -> Result<Image, NodeError> {
    let (width, height) = match &background {
        Some(image) => (image.first().width() as f64, image.first().height() as f64),
        None => (width, height),
    };
    let scale = (LONGEST / width.max(height)).min(1.0);
    let side = |side: f64| whole(side * scale).max(1) as usize;
    let (width, height) = (side(width), side(height));
    // The levels, the samples, and the picture on the way to its size.
    context.reserve(output_bytes(3, height, width, CHANNELS))?;
    let levels = match background {
        Some(image) => darkened(image.first(), width, height, context)?,
        None => vec![GREY; width * height * CHANNELS],
    };
    let mut canvas = Canvas {
        width: width as i64,
        height: height as i64,
        levels,
    };
    for region in regions {
        context.check()?;
        canvas.draw(region);
    }
    let frame = Frame::from_bytes(height, width, CHANNELS, &canvas.levels);
    Ok(Image::single(frame))
}

/// The colours of a picture at a quarter of their brightness.
fn darkened(
    picture: &Frame,
    width: usize,
    height: usize,
    context: &NodeContext,
) -> Result<Vec<u8>, NodeError> {
    let (own_height, own_width, channels) = picture.shape();
    context.reserve(output_bytes(1, own_height, own_width, CHANNELS))?;
    let pixels = picture.data().chunks_exact(channels);
    let color = |pixel: &[f32]| [0, 1, 2].map(|at| pixel[if channels < CHANNELS { 0 } else { at }]);
    let colors = pixels.flat_map(color).collect();
    let colors = Arc::new(Frame::new(own_height, own_width, CHANNELS, colors));
    let small = resize(colors, width, height, Method::Lanczos, Crop::Disabled)?;
    let level = |sample: &f32| (sample * 255.0).round() as u8 / 4;
    Ok(small.data().iter().map(level).collect())
}

/// The levels of `#RRGGBB`; white if it is written otherwise.
fn levels(color: &str) -> [u8; CHANNELS] {
    let digits = color.trim_start_matches('#');
    let number = u32::from_str_radix(digits, 16);
    match number {
        Ok(number) if digits.len() == 6 => [16, 8, 0].map(|shift| (number >> shift) as u8),
        _ => [u8::MAX; CHANNELS],
    }
}

impl Canvas {
    fn draw(&mut self, region: &Region) {
        let at = |part: f64, side: i64| whole(part * side as f64).clamp(0, side);
        let sorted = |a: i64, b: i64| (a.min(b), a.max(b));
        let (left, right) = sorted(
            at(region.left, self.width),
            at(region.left + region.width, self.width),
        );
        let (top, bottom) = sorted(
            at(region.top, self.height),
            at(region.top + region.height, self.height),
        );
        let color = region
            .palette
            .first()
            .map_or([140; 3], |color| levels(color));
        for inset in 0..2 {
            self.fill((left, right), (top + inset, top + inset), color);
            self.fill((left, right), (bottom - inset, bottom - inset), color);
            self.fill((left + inset, left + inset), (top, bottom), color);
            self.fill((right - inset, right - inset), (top, bottom), color);
        }
        let swatches = &region.palette[..region.palette.len().min(5)];
        if swatches.is_empty() || right - left <= 2 {
            return;
        }
        let font_size = whole(self.height as f64 / 64.0).max(10);
        let last = top + (font_size / 2).max(5);
        let part = (right - left) as f64 / swatches.len() as f64;
        for (at, color) in swatches.iter().enumerate() {
            let place = |at: usize| left + whole(at as f64 * part);
            self.fill((place(at), place(at + 1)), (top, last), levels(color));
        }
    }

    /// Fills a rectangle as far as it lies on the canvas; its last column and row belong to it.
    fn fill(
        &mut self,
        (left, right): (i64, i64),
        (top, bottom): (i64, i64),
        color: [u8; CHANNELS],
    ) {
        let (left, right) = (left.max(0), right.min(self.width - 1));
        for y in top.max(0)..=bottom.min(self.height - 1) {
            for x in left..=right {
                let at = (y * self.width + x) as usize * CHANNELS;
                self.levels[at..at + CHANNELS].copy_from_slice(&color);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(left: f64, palette: &[&str]) -> Region {
        Region {
            left,
            top: 0.25,
            width: 0.5,
            height: 0.5,
            is_text: false,
            text: "".into(),
            description: "".into(),
            palette: palette.iter().map(|color| (*color).to_owned()).collect(),
        }
    }

    fn levels_at(image: &Image, x: usize, y: usize) -> [u8; 3] {
        let sample = |at: usize| (image.first().row(y)[x * 3 + at] * 255.0).round() as u8;
        [sample(0), sample(1), sample(2)]
    }

    #[test]
    fn boxes_have_frames_and_their_colours_above() {
        let regions = [region(0.25, &["#FF0000", "#00FF00"]), region(0.75, &[])];
        let context = NodeContext::detached();
        let image = drawn(&regions, (100.0, 100.0), None, &context).expect("a preview");
        let at = |x, y| levels_at(&image, x, y);
        assert_eq!(image.first().shape(), (100, 100, 3));
        assert_eq!(at(0, 0), [GREY; 3], "beside the boxes");
        assert_eq!(at(50, 40), [GREY; 3], "inside of one");
        assert_eq!((at(25, 60), at(26, 60)), ([255, 0, 0], [255, 0, 0]));
        assert_eq!((at(30, 28), at(70, 28)), ([255, 0, 0], [0, 255, 0]));
        assert_eq!(at(99, 25), [140; 3], "a box that ends beyond the canvas");
    }

    #[test]
    fn a_picture_is_darkened_and_made_smaller() {
        let white = Image::single(Frame::filled(2048, 512, 1, 1.0));
        let context = NodeContext::detached();
        let image = drawn(&[], (64.0, 64.0), Some(white), &context).expect("a preview");
        assert_eq!(image.first().shape(), (1024, 256, 3));
        assert_eq!(levels_at(&image, 100, 100), [63; 3]);
    }
}
