//! What is coarse in a picture and what is fine, told apart by blurs of growing width.

use super::Planes;
use crate::kernel::rows::fill_rows;

/// Blurs, each twice as wide as the one before it.
const BLURS: u32 = 5;

/// What is fine in the content on what is coarse in the style.
pub(super) fn given(content: Planes, style: Planes, size: (usize, usize)) -> Planes {
    let mut made = content;
    for (plane, style) in made.iter_mut().zip(style) {
        let (mut fine, _) = parts(std::mem::take(plane), size);
        let (_, coarse) = parts(style, size);
        for (fine, coarse) in fine.iter_mut().zip(&coarse) {
            *fine = (*fine + coarse).clamp(-1.0, 1.0);
        }
        *plane = fine;
    }
    made
}

fn parts(plane: Vec<f32>, (height, width): (usize, usize)) -> (Vec<f32>, Vec<f32>) {
    let mut fine = vec![0.0; plane.len()];
    let mut coarse = plane;
    for blur in 0..BLURS {
        let radius = 2_usize.pow(blur).min((height.min(width) / 8).max(1));
        let mut blurred = vec![0.0; coarse.len()];
        fill_rows(&mut blurred, width, |y, out| {
            row(&coarse, (height, width), radius, y, out);
        });
        for ((fine, whole), blurred) in fine.iter_mut().zip(&coarse).zip(&blurred) {
            *fine = *fine + whole - blurred;
        }
        coarse = blurred;
    }
    (fine, coarse)
}

/// A row of nine pixels' means, which lie `radius` apart; the border is repeated.
fn row(plane: &[f32], (height, width): (usize, usize), radius: usize, y: usize, out: &mut [f32]) {
    const WEIGHTS: [[f32; 3]; 3] = [
        [0.0625, 0.125, 0.0625],
        [0.125, 0.25, 0.125],
        [0.0625, 0.125, 0.0625],
    ];
    let rows = [y.saturating_sub(radius), y, (y + radius).min(height - 1)];
    let rows = rows.map(|y| &plane[y * width..(y + 1) * width]);
    for (x, out) in out.iter_mut().enumerate() {
        let columns = [x.saturating_sub(radius), x, (x + radius).min(width - 1)];
        *out = 0.0;
        for (row, weights) in rows.iter().zip(WEIGHTS) {
            for (column, weight) in columns.into_iter().zip(weights) {
                *out += row[column] * weight;
            }
        }
    }
}
