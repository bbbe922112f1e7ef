//! Replacing pixels by palette colours, with the error hidden or not.

use super::nearest::Nearest;
use super::{BayerOrder, Rgb};
use crate::parallel::fill_bands;

/// Each pixel takes its nearest colour.
pub(super) fn nearest(pixels: &mut [Rgb], palette: &[Rgb]) {
    let nearest = Nearest::new(palette);
    fill_bands(pixels, 1, |_, band| {
        band.iter_mut()
            .for_each(|pixel| *pixel = nearest.color(*pixel))
    });
}

/// Each pixel gets a share of the palette's spacing added, by its place in the pattern, before it takes its nearest colour.
pub(super) fn bayer(pixels: &mut [Rgb], width: usize, palette: &[Rgb], order: BayerOrder) {
    let spread = 512.0 / palette.len() as f64;
    let pattern = pattern(order);
    let side = pattern.len().isqrt();
    let offsets: Vec<f32> = pattern
        .iter()
        .map(|share| spread as f32 * share + 0.5)
        .collect();
    let nearest = Nearest::new(palette);
    fill_bands(pixels, width, |first, band| {
        for (y, row) in band.chunks_exact_mut(width).enumerate() {
            let offsets = &offsets[(first + y) % side * side..][..side];
            for (pixel, offset) in row.iter_mut().zip(offsets.iter().cycle()) {
                *pixel = nearest.color(pixel.map(|level| (f32::from(level) + offset) as u8));
            }
        }
    });
}

/// The pattern with its values centred on 0, row by row. Each order is made of four of the order below.
fn pattern(order: BayerOrder) -> Vec<f32> {
    let doublings = match order {
        BayerOrder::Two => 1,
        BayerOrder::Four => 2,
        BayerOrder::Eight => 3,
        BayerOrder::Sixteen => 4,
    };
    let mut pattern = vec![0.0];
    for doubling in 1..=doublings {
        let side = 1usize << doubling;
        let scale = (side * side) as f32;
        let quarter = |y: usize, x: usize| match (y < side / 2, x < side / 2) {
            (true, true) => -1.5,
            (true, false) => 0.5,
            (false, true) => 1.5,
            (false, false) => -0.5,
        };
        let below = |y: usize, x: usize| pattern[y % (side / 2) * (side / 2) + x % (side / 2)];
        let places = (0..side * side).map(|i| (i / side, i % side));
        pattern = places
            .map(|(y, x)| (scale * below(y, x) + quarter(y, x)) / scale)
            .collect();
    }
    pattern
}

/// The error of each pixel goes to the right (7/16), and below to the left (3/16), straight (5/16) and to the right (1/16).
pub(super) fn floyd_steinberg(pixels: &mut [Rgb], width: usize, palette: &[Rgb]) {
    let nearest = Nearest::new(palette);
    // What the row above passed on to each pixel, in sixteenths; the first place is left of the row.
    let mut passed = vec![[0i32; 3]; width + 1];
    for row in pixels.chunks_exact_mut(width) {
        let (mut right, mut below, mut below_right) = ([0; 3], [0; 3], [0; 3]);
        for (x, pixel) in row.iter_mut().enumerate() {
            let wanted: Rgb = std::array::from_fn(|c| {
                // Towards zero, as the quotient of two integers is in C.
                (i32::from(pixel[c]) + (right[c] + passed[x + 1][c]) / 16).clamp(0, 255) as u8
            });
            *pixel = nearest.color(wanted);
            for c in 0..3 {
                let error = i32::from(wanted[c]) - i32::from(pixel[c]);
                passed[x][c] = 3 * error + below[c];
                below[c] = 5 * error + below_right[c];
                below_right[c] = error;
                right[c] = 7 * error;
            }
        }
        // Not the three sums of the last pixel, but those of its blue: so it was recorded.
        passed[width] = [below[2], below_right[2], below_right[2]];
    }
}
