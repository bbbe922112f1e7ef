//! Pictures turned by any angle, by the cubic of Pillow (a = -1) on premultiplied 8-bit levels, or exactly by quarters.

use super::super::KernelError;
use super::super::frames;
use super::{CHANNELS, Levels};
use crate::kernel::scale::{premultiply, unpremultiply};

/// Turns a picture counterclockwise; the result holds all of it.
pub(super) fn by_degrees<E: From<KernelError>>(
    mut levels: Levels,
    degrees: f64,
    check: &mut impl FnMut() -> Result<(), E>,
) -> Result<Levels, E> {
    let degrees = degrees.rem_euclid(360.0);
    let (width, height) = (levels.width, levels.height);
    // What lies at a pixel of the result, by where it was.
    let (across, down) = (width - 1, height - 1);
    match degrees {
        0.0 | 360.0 => return Ok(levels),
        90.0 => return Ok(levels.picked(height, width, |x, y| (across - y, x))),
        180.0 => return Ok(levels.picked(width, height, |x, y| (across - x, down - y))),
        270.0 => return Ok(levels.picked(height, width, |x, y| (y, down - x))),
        _ => {}
    }
    let radians = -(degrees * (std::f64::consts::PI / 180.0));
    let (sin, cos) = (to_15_digits(radians.sin()), to_15_digits(radians.cos()));
    let (middle_x, middle_y) = (width as f64 / 2.0, height as f64 / 2.0);
    let across = |x: f64, y: f64, shift: f64| cos * x + sin * y + shift;
    let down = |x: f64, y: f64, shift: f64| -sin * x + cos * y + shift;
    let (mut right, mut low) = (
        across(-middle_x, -middle_y, 0.0) + middle_x,
        down(-middle_x, -middle_y, 0.0) + middle_y,
    );
    let (own_width, own_height) = (width as f64, height as f64);
    let corners = [
        (0.0, 0.0),
        (own_width, 0.0),
        (own_width, own_height),
        (0.0, own_height),
    ];
    let side = |at: [f64; 4]| {
        let first = at.into_iter().fold(f64::INFINITY, f64::min).floor();
        let last = at.into_iter().fold(f64::NEG_INFINITY, f64::max).ceil();
        last - first
    };
    let new_width = side(corners.map(|(x, y)| across(x, y, right)));
    let new_height = side(corners.map(|(x, y)| down(x, y, low)));
    let (off_x, off_y) = (
        -(new_width - own_width) / 2.0,
        -(new_height - own_height) / 2.0,
    );
    (right, low) = (across(off_x, off_y, right), down(off_x, off_y, low));
    let (new_width, new_height) = (new_width as usize, new_height as usize);
    frames::samples(new_height, new_width, CHANNELS)?;
    let pixels: &mut [[u8; CHANNELS]] = levels.data.as_chunks_mut().0;
    pixels.iter_mut().for_each(premultiply);
    let mut data = vec![0; new_width * new_height * CHANNELS];
    for (y, row) in data.chunks_exact_mut(new_width * CHANNELS).enumerate() {
        check()?;
        for (x, pixel) in row.as_chunks_mut::<CHANNELS>().0.iter_mut().enumerate() {
            let (x, y) = (x as f64 + 0.5, y as f64 + 0.5);
            let (from_x, from_y) = (across(x, y, right), down(x, y, low));
            if (0.0..own_width).contains(&from_x) && (0.0..own_height).contains(&from_y) {
                *pixel = levels.between(from_x - 0.5, from_y - 0.5);
                unpremultiply(pixel);
            }
        }
    }
    Ok(Levels {
        width: new_width,
        height: new_height,
        data,
    })
}

/// Rounded to 15 digits after the point, so that a quarter of a circle is one.
fn to_15_digits(number: f64) -> f64 {
    format!("{number:.15}").parse().unwrap_or(number)
}

impl Levels {
    /// The picture whose pixels lie at `from(x, y)` of this one.
    fn picked(
        &self,
        width: usize,
        height: usize,
        from: impl Fn(usize, usize) -> (usize, usize),
    ) -> Self {
        let pixels: &[[u8; CHANNELS]] = self.data.as_chunks().0;
        let mut data = Vec::with_capacity(self.data.len());
        for y in 0..height {
            for x in 0..width {
                let (x, y) = from(x, y);
                data.extend(pixels[y * self.width + x]);
            }
        }
        Self {
            width,
            height,
            data,
        }
    }

    /// The colour at a place between pixels; those at the border go on beyond it.
    fn between(&self, x: f64, y: f64) -> [u8; CHANNELS] {
        let (left, top) = (x.floor(), y.floor());
        let (dx, dy) = (x - left, y - top);
        let (left, top) = (left as i64 - 1, top as i64 - 1);
        let pixels: &[[u8; CHANNELS]] = self.data.as_chunks().0;
        let column = |at: i64| (left + at).clamp(0, self.width as i64 - 1) as usize;
        let columns = [column(0), column(1), column(2), column(3)];
        std::array::from_fn(|channel| {
            let line = |at: i64| {
                let row = (top + at).clamp(0, self.height as i64 - 1) as usize;
                let row = &pixels[row * self.width..];
                cubic(columns.map(|column| f64::from(row[column][channel])), dx)
            };
            // Cut off; a cast keeps to 0 and 255 by itself.
            cubic([line(0), line(1), line(2), line(3)], dy) as u8
        })
    }
}

/// The cubic through the two values in the middle.
fn cubic([v1, v2, v3, v4]: [f64; 4], d: f64) -> f64 {
    let p2 = -v1 + v3;
    let p3 = 2.0 * (v1 - v2) + v3 - v4;
    let p4 = -v1 + v2 - v3 + v4;
    v2 + d * (p2 + d * (p3 + d * p4))
}
